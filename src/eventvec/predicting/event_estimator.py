"""What `EventClassifier` and `EventRegressor` share: how they learn, read, predict, and are saved and shown."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from eventvec.answers import Answer
from eventvec.blocks.rows import Rows
from eventvec.dataset import Dataset
from eventvec.errors import CheckpointError, ConfigError, shown
from eventvec.models import Model, load
from eventvec.models.head import Head, check_coverage, predictions_of
from eventvec.options import option_types, refuse_unknown, with_checked_names
from eventvec.predicting.explanation import explain
from eventvec.predicting.rows_to_predict import Events, PredictionSources, identifying, rows_to_predict
from eventvec.sequences import Array
from eventvec.tables.frames import frame_of, library_of
from eventvec.tables.other_data import check_data
from eventvec.tables.read_options import LabelTime, TableFormat
from eventvec.tables.sources import Tabular, kept
from eventvec.tables.times import Duration, Instant
from eventvec.training.head_options import MOST_VALUES, HeadOptions
from eventvec.training.label_models import learn_labels
from eventvec.training.labelled_rows import LabelSources, read_for_labels
from eventvec.training.progress_bars import bar


class EventEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator of scikit-learn that learns a label from events."""

    _numeric: bool
    """Whether it predicts numbers, and not classes."""
    metric: str | None = None
    """The score of numbers that counts."""
    model_: Model

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
        random_state: int = 0,
        progress: bool = True,
    ) -> None:
        self.key, self.time, self.categorical, self.numeric = key, time, categorical, numeric
        self.reading, self.vector, self.network, self.models = reading, vector, network, models
        self.budget, self.most_values = budget, most_values
        self.random_state, self.progress = random_state, progress

    @with_checked_names
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
        groups: Any = None,
    ) -> Self:
        """Learn to predict a label, and return the estimator.

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
            groups: A column of the table of labels, or a static column, with at most 50 texts, booleans or whole
                numbers: `explain` tells what the model is worth for each of its groups. A column of the table of labels
                is no feature. With an array of labels, an array of groups too.

        Raises:
            ConfigError: If `key` or `time` is not given for a table, several labels are given, the label is a column of
                the events or of `static`, or an option is out of range.
            DataError: If the events, labels or features cannot be used, or there is one class only.
        """
        options = HeadOptions(
            weight, earlier_labels, features or {}, self.models or {}, self.network, self.metric, self.most_values,
            self.budget, self.random_state, groups=groups,
        )  # fmt: skip
        if self.vector is not None and not isinstance(self.vector, Model):
            raise ConfigError(f"vector must be a Model, got {type(self.vector).__name__}; load it: ev.load(path)")
        base = None if self.vector is None else replace(self.vector, heads={})
        data = events if isinstance(events, Dataset) else None
        if label is not None and not isinstance(label, str):
            raise ConfigError(f"an estimator learns one label, got {shown(label)}; ev.fit takes several")
        if label is None and data is None:
            raise ConfigError("name the column of the table of labels to predict: fit(events, labels, 'churn')")
        source = None if data is not None else kept(events)  # which may be read twice
        with bar("training", self.progress) as tick:
            asked = LabelSources(
                labels, () if label is None else (label,), data, lambda **cuts: self._read(source, cuts),
                LabelTime(label_time, inclusive), options, self._numeric, static, base,
            )  # fmt: skip
            model = learn_labels(asked, tick)
        self._hold(model)
        return self

    def _read(self, events: Any, cuts: Mapping[str, Any]) -> Dataset:
        """Return the events of a table, cut at times if any are given."""
        if self.vector is not None:
            return read_for_labels(events, self._formats(), self.vector, **cuts)
        for name in ("key", "time"):
            if getattr(self, name) is None:
                raise ConfigError(f"{name} is not given; name the column: {type(self).__name__}(key=..., time=...)")
        options = {name: getattr(self, name) for name in ("key", "time", "categorical", "numeric")}
        return read_for_labels(events, {**options, **(self.reading or {})}, None, **cuts)

    def _formats(self) -> dict[str, Any]:
        """Return those options of reading that apply to later tables too."""
        names = option_types(TableFormat)
        return {name: value for name, value in (self.reading or {}).items() if name in names}

    def _hold(self, model: Model) -> None:
        """Set what training learns."""
        self.model_ = model
        self.notes_ = self._head.notes

    @property
    def _head(self) -> Head:
        """What predicts the label, the last one of the model."""
        return list(self.model_.heads.values())[-1]

    def _predicted(
        self,
        events: Events,
        cutoffs: Tabular | None,
        column: str | None,
        until: Instant | None,
        static: Tabular | None,
        labels: Tabular | None,
        features: Mapping[str, Tabular] | None,
        coverage: float | None = None,
    ) -> tuple[Array, Rows]:
        """Return predictions, numbers with the ends of their intervals if asked, and the rows that they are of."""
        check_is_fitted(self, "model_")
        check_coverage(self.model_.id, self.model_.heads, coverage)
        asked = PredictionSources(cutoffs, column, until, static, labels, features or {})
        with bar("reading", self.progress):
            rows = rows_to_predict(self.model_, events, asked, self._formats())
        check_data(rows.data, self.model_.info.get("data", {}))
        with bar("predicting", self.progress):
            model = self.model_
            (predicted,) = predictions_of(model.blocks, model.heads, rows, coverage=coverage)[0].values()
            return predicted, rows

    def explain(self, events: Events | None = None, **options: Any) -> Answer:
        """Return why the model predicts what it does, see `ev.explain`.

        Args:
            events: The events of the rows to explain; None to tell what the model is worth on rows that chose nothing,
                its learners, and which features drive it.
            options: As for `ev.explain`: until, cutoffs, key, of, top and others.
        """
        check_is_fitted(self, "model_")
        return explain(self.model_, events, label=self._head.target.name, **{**self._formats(), **options})

    def save(self, path: os.PathLike[str] | str) -> Model:
        """Write the model to a new folder, whole or not at all, and return it; `load` and `ev.load` read it.

        Raises:
            CheckpointError: If the folder holds files already, or lies in the folder of a model.
        """
        check_is_fitted(self, "model_")
        given = {name: each for name, each in self.get_params(deep=False).items() if name not in ("vector", "models")}
        for name in ("categorical", "numeric"):
            given[name] = None if given[name] is None else [str(each) for each in given[name]]
        given |= {
            "reading": self._formats() or None,
            "budget": None if self.budget is None else float(self.budget),
            "most_values": int(self.most_values),
            "random_state": int(self.random_state),
        }
        info = {**self.model_.info, "given": given, "reading": self._formats()}
        return replace(self.model_, info=info).save(os.fspath(path))

    @classmethod
    def load(cls, path: os.PathLike[str] | str) -> Self:
        """Return an estimator from the folder of a model with one head; nothing in it is executed.

        Raises:
            CheckpointError: If the folder holds no such model, a file is damaged, or a newer eventvec wrote it.
        """
        trained = load(os.fspath(path))
        if len(trained.heads) != 1:
            raise CheckpointError(f"{os.fspath(path)} holds a model with {len(trained.heads)} heads; use ev.load(path)")
        (head,) = trained.heads.values()
        if (head.target.task == "numeric") != cls._numeric:
            kind, name = ("classifier", "EventClassifier") if cls._numeric else ("regressor", "EventRegressor")
            raise CheckpointError(f"{os.fspath(path)} holds a {kind}; load it: ev.{name}.load(path)")
        vector = replace(trained, heads={}) if trained.vector else None
        model = cls(**trained.info.get("given", {}), vector=vector)
        model._hold(trained)
        return model

    def set_params(self, **params: Any) -> Self:
        """Set arguments of the constructor, and return the estimator.

        Raises:
            ConfigError: If there is no such argument.
        """
        refuse_unknown(params, self.get_params(deep=False))
        return super().set_params(**params)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return repr(self.explain()) if self.__sklearn_is_fitted__() else repr(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        if not self.__sklearn_is_fitted__():
            return dict(super()._repr_mimebundle_(**options))  # scikit-learn's diagram
        answer = self.explain()
        return {"text/plain": repr(answer), "text/html": answer._repr_html_()}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # events are no array of two dimensions
        tags.no_validation = True  # eventvec checks events itself
        return tags


def check_scored(data: Any, sample_weight: Any) -> None:
    """Refuse events and a table of labels to score, which scikit-learn cannot join."""
    if not isinstance(data, Dataset) or isinstance(sample_weight, str):
        column = f" and the column {shown(sample_weight)}" if isinstance(sample_weight, str) else ""
        raise ConfigError(
            "score takes a Dataset, which ev.read returns, and one label for each of data.keys, as scikit-learn's "
            f"tools do, got {type(data).__name__}{column}; explain() has the score on rows that chose nothing"
        )


def predicted_frame(events: Any, rows: Rows, names: Sequence[str], values: Sequence[Array]) -> Any:
    """Return predictions as a frame of the library of the events, with the key and the time of each row."""
    columns = identifying(rows)
    for name in columns:
        if name in names:
            raise ConfigError(
                f"the column {shown(name)} is called like a column of the predictions; give it another name, the key "
                'by reading={"key_as": "entity"}'
            )
    (key, keys), *times = columns.items()
    return frame_of(library_of(events), key, keys, [*dict(times), *names], [*dict(times).values(), *values])
