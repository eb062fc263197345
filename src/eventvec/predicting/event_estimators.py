"""The scikit-learn estimators that predict a label from events: `EventClassifier` and `EventRegressor`.

They are imported when they are used, because they need scikit-learn.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from eventvec.answers import Answer
from eventvec.dataset import Dataset
from eventvec.errors import CheckpointError
from eventvec.predicting.estimator_steps import (
    MOST_VALUES,
    arguments_of,
    class_names,
    described,
    learn_in_place,
    predicted_frame,
    predictions_of,
    shown_in_notebooks,
    tags_of_events,
)
from eventvec.predicting.fine_tuned import Events
from eventvec.predicting.labelled_rows import Learning
from eventvec.predicting.predictor_answer import explained
from eventvec.predicting.predictor_files import load_predictor, save_predictor
from eventvec.runs import Run
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular
from eventvec.tables.times import Duration, Instant


class EventClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of event histories: events and labels in, calibrated probabilities out.

    It trains no network unless asked. Families of features of the histories (hand-crafted ones, codes, convolutions,
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
        vector: A trained `Run`, whose vectors are a family of features too.
        network: Whether a network is trained on the label too, a GRU from scratch or the encoder of `vector`; with a
            budget, its trainings share the time that the other models leave.
        budget: The seconds that reading and training may take; a note names what it leaves out. By default there is no
            bound, because `most_values` bounds the work.
        most_values: The largest number of rows times features on which boosted trees are trained; of more rows, a
            random sample trains them, and a note says how many. The default takes about five minutes on two cores.
        random_state: The seed of everything random.
        progress: Whether to show progress, on a terminal and in a notebook.

    Attributes:
        classes_: The classes in ascending order.
        predictor_: The trained models with their weights.
        notes_: Sentences about what was inferred, counted or left out.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [i % 40 for i in range(400)], "day": range(400)})
        >>> events = events.with_columns(paid=pl.col("card") % 2 + pl.col("day") % 7 / 10)
        >>> labels = pl.DataFrame({"card": range(40), "churn": ["no", "yes"] * 20})
        >>> model = ev.EventClassifier(key="card", time="day").fit(events, labels, "churn")
        >>> model.predict_proba(events).columns
        ['card', 'no', 'yes']
    """

    def __init__(
        self,
        key: str | None = None,
        time: str | None = None,
        *,
        categorical: Sequence[str] | None = None,
        numeric: Sequence[str] | None = None,
        reading: Mapping[str, Any] | None = None,
        vector: Run | None = None,
        network: bool = False,
        budget: float | None = None,
        most_values: int = MOST_VALUES,
        random_state: int = 0,
        progress: bool = True,
    ) -> None:
        self.key, self.time, self.categorical, self.numeric = key, time, categorical, numeric
        self.reading, self.vector, self.network = reading, vector, network
        self.budget, self.most_values = budget, most_values
        self.random_state, self.progress = random_state, progress

    def fit(
        self,
        events: Dataset | Tabular,
        labels: Any,
        label: str | None = None,
        *,
        label_time: str | None = None,
        inclusive: bool = False,
        static: Tabular | None = None,
        weight: Any = None,
        earlier_labels: Duration | Literal["none"] | None = None,
        features: Mapping[str, Tabular] | None = None,
    ) -> EventClassifier:
        """Learn to predict a label, and return the classifier.

        Args:
            events: A frame, a path, or a `Dataset`, whose static columns are features too.
            labels: A table with the key and the label, once or at several times for each entity; or for a `Dataset`,
                one label for each of `data.keys`.
            label: The column to predict.
            label_time: The column with the time of each label, as for `LabelTime`.
            inclusive: Whether events at the very time of a label are read too.
            static: A table with the key and columns about the entity, such as its age.
            weight: The column of the table of labels with the weight of each; with an array of labels, the weights.
            earlier_labels: The length of time after which a label is known, such as `30d`: the entity's own labels that
                were known by the time of a row are features then, and predictions need the labels that are known. By
                default, those of `future_labels` are features too, computed from the events by their rule, in
                predictions as well; `none` declines that.
            features: Tables of further features by name, each with the key and one row per entity, or one for each of
                its times. Predictions need them too.

        Raises:
            ConfigError: If `key` or `time` is not given for a table, several labels are given, the label is a column of
                the events or of `static`, or an option is out of range.
            DataError: If the events, labels or features cannot be used, or there is one class only.
        """
        asked = Learning(
            label, False, LabelTime(label_time, inclusive), static, weight, earlier_labels, features or {}, self.vector,
            self.network,
        )  # fmt: skip
        learn_in_place(self, events, labels, asked)
        self.classes_ = np.array(self.predictor_.target.classes)
        return self

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
            A frame of the library of the events with the key, the time of `cutoffs`, and one column for each class in
            ascending order; `(n, classes)` for a `Dataset`.

        Raises:
            ConfigError: If options contradict one another, or a class is called like the key.
            DataError: If the events lack a column or cannot be used, or a table is missing that the model reads.
        """
        check_is_fitted(self, "predictor_")
        probabilities, rows = predictions_of(self, events, cutoffs, cutoff_column, until, static, labels, features)
        if isinstance(events, Dataset):
            return probabilities
        return predicted_frame(events, rows, class_names(self.predictor_), list(probabilities.T))

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
        check_is_fitted(self, "predictor_")
        probabilities, rows = predictions_of(self, events, cutoffs, cutoff_column, until, static, labels, features)
        likeliest = self.classes_[probabilities.argmax(1)]
        return likeliest if isinstance(events, Dataset) else predicted_frame(events, rows, ["prediction"], [likeliest])

    def explain(self) -> Answer:
        """Return what the model is worth on rows that chose nothing, its models, and what their trees rest on."""
        check_is_fitted(self, "predictor_")
        return explained(self.predictor_)

    def save(self, path: os.PathLike[str] | str) -> None:
        """Write the model to a new folder, whole or not at all; `EventClassifier.load` reads it.

        Raises:
            CheckpointError: If the folder holds files already, or lies in a run folder.
        """
        check_is_fitted(self, "predictor_")
        save_predictor(self.predictor_, arguments_of(self), os.fspath(path))

    @classmethod
    def load(cls, path: os.PathLike[str] | str) -> EventClassifier:
        """Return a classifier from a folder that `save` wrote; nothing in it is executed.

        Raises:
            CheckpointError: If the folder holds no classifier, a file is damaged, or a newer eventvec wrote it.
        """
        predictor, given = load_predictor(os.fspath(path))
        if predictor.target.task == "numeric":
            raise CheckpointError(f"{os.fspath(path)} holds a regressor; load it: ev.EventRegressor.load(path)")
        model = cls(**given, vector=predictor.vector)
        model.predictor_, model.notes_ = predictor, predictor.notes
        model.classes_ = np.array(predictor.target.classes)
        return model

    def __str__(self) -> str:
        return described(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return shown_in_notebooks(self) or dict(super()._repr_mimebundle_(**options))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def __sklearn_tags__(self) -> Any:
        return tags_of_events(super().__sklearn_tags__())


class EventRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor of event histories: events and numbers in, predicted numbers out.

    It is the same as `EventClassifier`, for numbers.

    Args:
        key: As for `EventClassifier`, as are the others.
        time: The column of the event's time.
        categorical: Columns of categories.
        numeric: Columns of numbers.
        reading: Further options of `ev.read`.
        vector: A trained `Run`.
        network: Whether a network is trained too.
        budget: The seconds that reading and training may take.
        most_values: The largest number of rows times features on which boosted trees are trained.
        metric: `r2`, to predict with small squared errors, or `mae`: then trees that minimise absolute errors are
            among the models, and the score is the mean absolute error.
        random_state: The seed of everything random.
        progress: Whether to show progress.

    Attributes:
        predictor_: The trained models with their weights.
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

    def __init__(
        self,
        key: str | None = None,
        time: str | None = None,
        *,
        categorical: Sequence[str] | None = None,
        numeric: Sequence[str] | None = None,
        reading: Mapping[str, Any] | None = None,
        vector: Run | None = None,
        network: bool = False,
        budget: float | None = None,
        most_values: int = MOST_VALUES,
        metric: str = "r2",
        random_state: int = 0,
        progress: bool = True,
    ) -> None:
        self.key, self.time, self.categorical, self.numeric = key, time, categorical, numeric
        self.reading, self.vector, self.network = reading, vector, network
        self.budget, self.most_values, self.metric = budget, most_values, metric
        self.random_state, self.progress = random_state, progress

    def fit(
        self,
        events: Dataset | Tabular,
        labels: Any,
        label: str | None = None,
        *,
        label_time: str | None = None,
        inclusive: bool = False,
        static: Tabular | None = None,
        weight: Any = None,
        earlier_labels: Duration | Literal["none"] | None = None,
        features: Mapping[str, Tabular] | None = None,
    ) -> EventRegressor:
        """Learn to predict a number, and return the regressor; the arguments are those of `EventClassifier.fit`.

        Raises:
            ConfigError: As for `EventClassifier.fit`.
            DataError: As for `EventClassifier.fit`, or if the label is text.
        """
        asked = Learning(
            label, True, LabelTime(label_time, inclusive), static, weight, earlier_labels, features or {}, self.vector,
            self.network,
        )  # fmt: skip
        learn_in_place(self, events, labels, asked)
        return self

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
        """Return the predicted number of each entity; the arguments are those of `EventClassifier.predict_proba`.

        Returns:
            A frame of the library of the events with the key, the time of `cutoffs`, and `prediction`; `(n,)` numbers
            for a `Dataset`.
        """
        check_is_fitted(self, "predictor_")
        values, rows = predictions_of(self, events, cutoffs, cutoff_column, until, static, labels, features)
        return values if isinstance(events, Dataset) else predicted_frame(events, rows, ["prediction"], [values])

    def explain(self) -> Answer:
        """Return what the model is worth on rows that chose nothing, its models, and what their trees rest on."""
        check_is_fitted(self, "predictor_")
        return explained(self.predictor_)

    def save(self, path: os.PathLike[str] | str) -> None:
        """Write the model to a new folder, whole or not at all; `EventRegressor.load` reads it.

        Raises:
            CheckpointError: If the folder holds files already, or lies in a run folder.
        """
        check_is_fitted(self, "predictor_")
        save_predictor(self.predictor_, arguments_of(self), os.fspath(path))

    @classmethod
    def load(cls, path: os.PathLike[str] | str) -> EventRegressor:
        """Return a regressor from a folder that `save` wrote; nothing in it is executed.

        Raises:
            CheckpointError: If the folder holds no regressor, a file is damaged, or a newer eventvec wrote it.
        """
        predictor, given = load_predictor(os.fspath(path))
        if predictor.target.task != "numeric":
            raise CheckpointError(f"{os.fspath(path)} holds a classifier; load it: ev.EventClassifier.load(path)")
        model = cls(**given, vector=predictor.vector)
        model.predictor_, model.notes_ = predictor, predictor.notes
        return model

    def __str__(self) -> str:
        return described(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return shown_in_notebooks(self) or dict(super()._repr_mimebundle_(**options))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def __sklearn_tags__(self) -> Any:
        return tags_of_events(super().__sklearn_tags__())
