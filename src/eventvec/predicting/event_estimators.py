"""The scikit-learn estimators that predict a label from events: `EventClassifier` and `EventRegressor`.

They are imported when they are used, because they need scikit-learn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from eventvec.dataset import Dataset
from eventvec.models import Model
from eventvec.models.label_columns import predicted_columns
from eventvec.options import with_checked_names
from eventvec.predicting.event_estimator import EventEstimator, check_scored, predicted_frame
from eventvec.predicting.rows_to_predict import Events
from eventvec.tables.sources import Tabular
from eventvec.tables.times import Instant
from eventvec.training.head_options import MOST_VALUES


class EventClassifier(ClassifierMixin, EventEstimator):  # type: ignore[misc]
    """A classifier of event histories: events and labels in, probabilities out.

    It trains no network unless asked. Blocks of features of the histories (hand-crafted ones, codes, convolutions,
    static columns, earlier labels, your own) are read by boosted trees and linear models of fixed sets of them. The
    models are weighed by their predictions of entities that they were not trained on, near fixed prior shares, and
    trained again on all rows. The score is computed on rows that chose nothing: where labels have times of a calendar,
    on the latest fifth, predicted from earlier rows of other entities.

    Without `budget`, one seed gives the same bits on one machine for any number of threads.

    Only events before the time of a label are read. Without `cutoffs`, the moment of prediction is the last event of
    the data that are given. An entity of `cutoffs` without events before its time, or without any, is predicted as an
    empty history.

    A sample of scikit-learn's tools, such as `GridSearchCV`, is an entity: pass a `Dataset`, which `ev.read` returns,
    and one label for each of `data.keys`. Predictions are then arrays.

    Relations: `EventVectorizer` learns vectors without labels; `fine_tune` trains a network on labels. `EventRegressor`
    predicts numbers.

    Args:
        key: The column of the entity's key; not needed for a `Dataset`.
        time: The column of the event's time; not needed for a `Dataset`.
        categorical: Columns of categories; inferred, with a note, if neither these nor `numeric` are given.
        numeric: Columns of numbers.
        reading: Further options of `ev.read`, as for `EventVectorizer`.
        vector: A trained `Model`, whose vectors are a block of features too.
        network: Whether a network is trained on the label too, a GRU from scratch or the encoder of `vector`; with a
            budget, its trainings share the time that the other models leave.
        models: Classifiers of your own by name, with the interface of scikit-learn, such as
            ``{"catboost": CatBoostClassifier()}``. They are trained on the hand-crafted features and on all blocks
            beside ours, each with half the prior share of boosted trees. `save` keeps those of CatBoost and XGBoost.
        budget: The seconds that reading and training may take; a note names what it leaves out. By default there is no
            bound, because `most_values` bounds the work.
        most_values: The largest number of rows times features on which boosted trees are trained; of more rows, a
            random sample trains them, and a note says how many. The default takes about five minutes on two cores.
        random_state: The seed of everything random.
        progress: Whether to show progress, on a terminal and in a notebook.

    Attributes:
        classes_: The classes in ascending order.
        model_: The trained models with their weights.
        notes_: Sentences about what was inferred, counted or left out.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [i % 40 for i in range(400)], "day": range(400)})
        >>> events = events.with_columns(paid=pl.col("card") % 2 + pl.col("day") % 7 / 10)
        >>> labels = pl.DataFrame({"card": range(40), "churn": ["no", "yes"] * 20})
        >>> model = ev.EventClassifier(key="card", time="day").fit(events, labels, "churn")
        >>> model.predict_proba(events).columns
        ['card', 'p_no', 'p_yes']
    """

    _numeric = False

    @with_checked_names
    def predict_proba(
        self,
        events: Events,
        cutoffs: Tabular | None = None,
        *,
        cutoff_column: str | None = None,
        until: Instant | None = None,
        static: Tabular | None = None,
        labels: Tabular | None = None,
        features: Mapping[str, Tabular] | None = None,
    ) -> Any:
        """Return the probability of each class for each entity.

        Args:
            events: Events with the columns of the training; a frame, a path, a list of dictionaries, or a `Dataset`
                that was read by the same schema.
            cutoffs: A table with the key and a time for each entity, or several; only events before are read.
            cutoff_column: The column with these times; by default that of the times of labels in training, or else the
                only column of times.
            until: One time for all entities, in place of `cutoffs`.
            static: The table of static columns, if the model reads them.
            labels: The labels that are known, if the model reads earlier ones from a table.
            features: The caller's tables of features, if the model reads them.

        Returns:
            A frame of the library of the events with the key, the time of `cutoffs`, and one column for each class,
            `p_` before its name, in ascending order; `(n, classes)` for a `Dataset`.

        Raises:
            ConfigError: If options contradict one another, or a class is called like the key.
            DataError: If the events lack a column or cannot be used, or a table is missing that the model reads.
        """
        probabilities, rows = self._predicted(events, cutoffs, cutoff_column, until, static, labels, features)
        if isinstance(events, Dataset):
            return probabilities
        return predicted_frame(events, rows, [f"p_{name}" for name in self._head.class_names], list(probabilities.T))

    @with_checked_names
    def predict(
        self,
        events: Events,
        cutoffs: Tabular | None = None,
        *,
        cutoff_column: str | None = None,
        until: Instant | None = None,
        static: Tabular | None = None,
        labels: Tabular | None = None,
        features: Mapping[str, Tabular] | None = None,
    ) -> Any:
        """Return the most probable class of each entity.

        The arguments are those of `predict_proba`.

        Returns:
            A frame of the library of the events with the key, the time of `cutoffs`, and `prediction`; `(n,)` classes
            for a `Dataset`.
        """
        probabilities, rows = self._predicted(events, cutoffs, cutoff_column, until, static, labels, features)
        likeliest = self.classes_[probabilities.argmax(1)]
        return likeliest if isinstance(events, Dataset) else predicted_frame(events, rows, ["prediction"], [likeliest])

    def score(self, data: Dataset, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of predictions of a `Dataset`; `y` is one class for each of its keys."""
        check_scored(data, sample_weight)
        return float(super().score(data, y, sample_weight))

    def _hold(self, model: Model) -> None:
        super()._hold(model)
        self.classes_ = np.array(self._head.target.classes)


class EventRegressor(RegressorMixin, EventEstimator):  # type: ignore[misc]
    """A regressor of event histories: events and numbers in, predicted numbers out.

    It is the same as `EventClassifier`, for numbers.

    Args:
        key: As for `EventClassifier`, as are the others.
        time: The column of the event's time.
        categorical: Columns of categories.
        numeric: Columns of numbers.
        reading: Further options of `ev.read`.
        vector: A trained `Model`.
        network: Whether a network is trained too.
        models: Regressors of your own by name.
        budget: The seconds that reading and training may take.
        most_values: The largest number of rows times features on which boosted trees are trained.
        metric: `r2`, to predict with small squared errors, or `mae`: then trees that minimise absolute errors are
            among the models, and the score is the mean absolute error.
        random_state: The seed of everything random.
        progress: Whether to show progress.

    Attributes:
        model_: The trained models with their weights.
        notes_: Sentences about what was inferred, counted or left out.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [i % 40 for i in range(400)], "day": range(400)})
        >>> events = events.with_columns(paid=pl.col("card") / 10 + pl.col("day") % 7)
        >>> labels = pl.DataFrame({"card": range(40), "spend": [i / 2 for i in range(40)]})
        >>> model = ev.EventRegressor(key="card", time="day").fit(events, labels, "spend")
        >>> model.predict(events).columns
        ['card', 'prediction']
    """

    _numeric = True

    @with_checked_names
    def __init__(
        self,
        key: str | None = None,
        time: str | None = None,
        *,
        categorical: Sequence[str] | None = None,
        numeric: Sequence[str] | None = None,
        reading: Mapping[str, Any] | None = None,
        vector: Model | None = None,
        network: bool = False,
        models: Mapping[str, Any] | None = None,
        budget: float | None = None,
        most_values: int = MOST_VALUES,
        metric: str = "r2",
        random_state: int = 0,
        progress: bool = True,
    ) -> None:
        super().__init__(
            key, time, categorical=categorical, numeric=numeric, reading=reading, vector=vector, network=network,
            models=models, budget=budget, most_values=most_values, random_state=random_state, progress=progress,
        )  # fmt: skip
        self.metric = metric

    @with_checked_names
    def predict(
        self,
        events: Events,
        cutoffs: Tabular | None = None,
        *,
        cutoff_column: str | None = None,
        until: Instant | None = None,
        static: Tabular | None = None,
        labels: Tabular | None = None,
        features: Mapping[str, Tabular] | None = None,
        coverage: float | None = None,
    ) -> Any:
        """Return the predicted number of each entity; the other arguments are those of `EventClassifier.predict_proba`.

        Args:
            events: The events, as are the others.
            cutoffs: A table with the key and a time for each entity, or several.
            cutoff_column: The column with these times.
            until: One time for all entities.
            static: The table of static columns.
            labels: The labels that are known.
            features: The caller's tables of features.
            coverage: The share of new rows that should lie between `low` and `high`, such as .9; None for no intervals.

        Returns:
            A frame of the library of the events with the key, the time of `cutoffs`, `prediction`, and with a coverage
            `low` and `high`; for a `Dataset` `(n,)` numbers, or `(n, 3)` with a coverage.

        Raises:
            ConfigError: If the model cannot promise the coverage.
        """
        values, rows = self._predicted(events, cutoffs, cutoff_column, until, static, labels, features, coverage)
        if isinstance(events, Dataset):
            return values
        columns = predicted_columns((), values)
        return predicted_frame(events, rows, list(columns), [each.to_numpy() for each in columns.values()])

    def score(self, data: Dataset, y: Any, sample_weight: Any = None) -> float:
        """Return the R² of predictions of a `Dataset`; `y` is one number for each of its keys."""
        check_scored(data, sample_weight)
        return float(super().score(data, y, sample_weight))
