"""The scikit-learn face of eventvec: an estimator that is fitted to a frame of events and turns entities into vectors.

It is imported when it is used, because it needs scikit-learn.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from eventvec.answers import Answer
from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, listed, nearest
from eventvec.evaluation import EvaluationOptions, LabelOptions, evaluate
from eventvec.models import Model, load
from eventvec.options import accepts, gather, option_types, with_checked_names
from eventvec.predicting.rows_to_predict import Events
from eventvec.searching import Index
from eventvec.tables import Embeddings, read
from eventvec.tables.embeddings import vector_names
from eventvec.tables.frames import Library, frame_of, library_of, with_key
from eventvec.tables.label_times import labelled_histories, labels_beside
from eventvec.tables.read_options import Cuts, LabelTime, Storage, TableFormat
from eventvec.tables.sources import Tabular, kept
from eventvec.training import FitOptions, fine_tune, fit
from eventvec.training.progress_bars import bar, of_training

OUTPUTS = ("default", "pandas", "polars")


class EventVectorizer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc,call-arg]
    """A transformer from events to one vector per entity, over `read`, `fit`, `embed`, `evaluate` and `fine_tune`.

    Events are a frame of pandas, polars, Arrow or DuckDB, or a path. `transform` returns a frame of the same library,
    with the key as the index in pandas and as the first column elsewhere; for a path or DuckDB, a polars frame.

    In a `Pipeline`, `GridSearchCV` or `cross_val_score`, a sample is an entity. Pass a `Dataset`, which `ev.read`
    returns, because the rows of a frame are events: `cross_val_score(make_pipeline(EventVectorizer(), model), data, y)`
    with one label for each of `data.keys`. `transform` then returns an array.

    Relations: `fit` and `embed` are the same steps with all options; `run_` is the run that `fit` returned.

    Args:
        key: The column of the entity's key; not needed for a `Dataset`.
        time: The column of the event's time; not needed for a `Dataset`.
        categorical: Columns of categories; inferred, with a note, if neither these nor `numeric` are given.
        numeric: Columns of numbers.
        reading: Further options of `ev.read`, such as ``{"explode": ["items"], "until": "2024-07-01"}``. Those of
            `tables.read_options.TableFormat`, such as `time_format`, apply to later tables too; the others, such as
            `until`, to the events of `fit` alone.
        method: The name of a method, its table such as ``{"name": "coles", "margin": 0.3}``, or the tables `method`,
            `encoder` and `fit` of a configuration. Sizes that are not given follow from the data; those of the paper of
            CoLES are in `coles_paper`.
        encoder: The name of an encoder, or its table.
        epochs: The number of passes over the data. With neither `epochs` nor `time_budget`, training ends after 5
            minutes, or after 5 epochs without improvement.
        time_budget: The seconds of training.
        beside: What the vectors have beside the learned part, any of `timing`, `aggregates`, `codes` and
            `convolutions`, see `FitOptions`; an empty list for the learned part alone. By default timing and aggregates
            with `coles`, and nothing with other methods.
        holdout: The share of entities that are left out of training, so `evaluate(..., holdout=True)` tests on
            entities that the encoder never saw.
        random_state: The seed of everything random.
        progress: Whether to show progress, on a terminal and in a notebook.
        settings: Further options of `ev.fit` by their names: `device`, those of `FitOptions`, and those of the method,
            its encoder and their parts, such as `dim=64`, `margin=0.3` and `lr=1e-3`. A search over parameters finds
            them, too.

    Attributes:
        run_: The trained `Model`.
        notes_: Sentences about what was inferred, counted or left out.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 2, 2] * 8, "day": range(32), "paid": [0.5, 1.0, 2.0, 3.0] * 8})
        >>> vectorizer = ev.EventVectorizer(key="card", time="day", epochs=1).fit(events)
        >>> vectorizer.transform(events).select("card", "emb_000").shape
        (2, 2)
    """

    def __init__(
        self,
        key: str | None = None,
        time: str | None = None,
        *,
        categorical: Sequence[str] | None = None,
        numeric: Sequence[str] | None = None,
        reading: Mapping[str, Any] | None = None,
        method: str | Mapping[str, Any] = "coles",
        encoder: str | Mapping[str, Any] | None = None,
        epochs: int | None = None,
        time_budget: float | None = None,
        beside: Sequence[str] | None = None,
        holdout: float | None = None,
        random_state: int = 0,
        progress: bool = True,
        **settings: Any,
    ) -> None:
        self.key, self.time, self.categorical, self.numeric = key, time, categorical, numeric
        self.reading = reading
        self.method, self.encoder, self.epochs, self.time_budget = method, encoder, epochs, time_budget
        self.beside, self.holdout, self.random_state, self.progress = beside, holdout, random_state, progress
        self._set_settings(settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name, the further settings among them.

        Args:
            deep: Not used; here because scikit-learn gives it.
        """
        return {**super().get_params(deep), **self._settings()}

    def set_params(self, **params: Any) -> EventVectorizer:
        """Set arguments of the constructor, the further settings among them, and return the vectorizer."""
        named = self._get_param_names()
        super().set_params(**{name: value for name, value in params.items() if name in named})
        self._set_settings({name: value for name, value in params.items() if name not in named})
        return self

    def _set_settings(self, settings: Mapping[str, Any]) -> None:
        for name, value in settings.items():
            setattr(self, name, value)

    def _settings(self) -> dict[str, Any]:
        """Return the further settings: attributes that are no arguments by name, and not learned."""
        named = self._get_param_names()
        return {n: value for n, value in vars(self).items() if n not in named and n[0] != "_" and n[-1] != "_"}

    @with_checked_names
    def fit(self, events: Dataset | Tabular, y: Any = None) -> EventVectorizer:
        """Learn an encoder from events, without labels, and return the vectorizer.

        Args:
            events: A frame, a path, or a `Dataset`.
            y: Not used; here because scikit-learn passes labels to every step.

        Raises:
            ConfigError: If `key` or `time` is not given for a table, or an option is out of range.
            DataError: If the events cannot be used.
        """
        data = events if isinstance(events, Dataset) else self._read(events)
        if "seed" in (settings := self._settings()):
            raise ConfigError("the seed of an EventVectorizer is called random_state")
        chosen = {"epochs": self.epochs, "time_budget": self.time_budget, "beside": self.beside}
        options: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        options |= {**settings, "encoder": self.encoder, "seed": self.random_state}
        with bar("training", self.progress) as tick:
            run = fit(data, method=self.method, progress=of_training(tick), **options)
        self._set(run, (*data.notes, *run.notes))
        self._events = events
        return self

    @with_checked_names
    def transform(self, events: Events) -> Any:
        """Return one vector per entity, in ascending order of keys.

        Args:
            events: Events with the columns that the vectorizer was fitted to, as for `fit`; or a list of events as
                dictionaries, which gives a polars frame.

        Returns:
            A frame of the library of the events with the columns `emb_000` and so on; `(n, dim)` numbers for a
            `Dataset`. `set_output` changes that.

        Raises:
            DataError: If the events cannot be used.
        """
        check_is_fitted(self, "run_")
        z = self._embed(events if isinstance(events, Dataset) else self._table(events))
        config = getattr(self, "_sklearn_output_config", {}).get("transform", sklearn.get_config()["transform_output"])
        if config == "default" and isinstance(events, Dataset):
            return z.values
        library: Library = library_of(events) if config == "default" else config
        return frame_of(library, z.schema.key_out, z.keys, vector_names(z.shape[1]), z.values)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray[Any, Any]:
        """Return the names of the columns of `transform`, `emb_000` and so on.

        Args:
            input_features: Not used; here because scikit-learn passes the names of columns.
        """
        check_is_fitted(self, "run_")
        return np.array(vector_names(self.run_.encoder.dim), dtype=object)

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> EventVectorizer:
        """Choose what `transform` returns, and return the vectorizer.

        Args:
            transform: `pandas` or `polars`; `default` follows the events.

        Raises:
            ConfigError: If it is another word.
        """
        if transform is not None:
            if transform not in OUTPUTS:
                raise ConfigError(f"transform {transform!r} is not known; {nearest(str(transform), OUTPUTS)}")
            self._sklearn_output_config = {"transform": transform}
        return self

    @accepts(LabelOptions, EvaluationOptions)
    def evaluate(
        self,
        labels: Tabular,
        label: str | Sequence[str],
        *,
        features: Mapping[str, Tabular] | None = None,
        events: Dataset | Tabular | None = None,
        **options: Any,
    ) -> Answer:
        """Return how well the vectors predict a label, beside hand-crafted features and your own, with a verdict.

        Where labels have a time, the histories are read as of then.

        A script prints the result, too; an interactive session shows it because it is returned.

        Args:
            labels: A table with the key and the label.
            label: The column to predict, or several.
            features: Tables of further features by name, each with the key and one row per entity. In pandas, the key
                may be the index.
            events: The events; those of `fit` if not given.
            options: As for `ev.evaluate`.

        Raises:
            ConfigError: If there are no events, because the vectorizer was loaded; or as for `ev.evaluate`.
            DataError: As for `ev.evaluate`.
        """
        check_is_fitted(self, "run_")
        names, held = [label] if isinstance(label, str) else list(label), with_key(kept(labels))
        chosen = gather(options, LabelOptions, EvaluationOptions)
        data = self._data(events)
        data = labelled_histories(data, labels_beside(data, held, names, chosen, key=chosen.key))
        with bar("embedding", self.progress) as tick:
            z = self.run_.embed(data, progress=tick)
        tables = {name: with_key(table) for name, table in (features or {}).items()}
        with bar("models", self.progress) as tick:
            result = evaluate(z, data, held, label, features=tables, progress=tick, **options)
        if not _interactive():
            print(result)  # noqa: T201
        return result

    @accepts(FitOptions, LabelTime)
    def fine_tune(
        self,
        labels: Tabular,
        label: str,
        *,
        events: Dataset | Tabular | None = None,
        static_inputs: Sequence[str] | None = None,
        **options: Any,
    ) -> Model:
        """Return a model of a label, whose encoder starts from this one; the vectorizer stays as it is.

        `ev.predict` predicts by the model, and reads tables in the formats of `reading`.

        Args:
            labels: A table with the key and the label. In pandas, the key may be the index.
            label: The column to learn.
            events: The events; those of `fit` if not given.
            static_inputs: Columns of the table of labels that the model reads beside the events; predictions need them.
            options: As for `ev.fine_tune`, such as `epochs`, `encoder_lr` and `label_time`.

        Raises:
            ConfigError: If there are no events, because the vectorizer was loaded; or as for `ev.fine_tune`.
            DataError: As for `ev.fine_tune`.
        """
        check_is_fitted(self, "run_")
        options = {"seed": self.random_state, **options}
        with bar("training", self.progress) as tick:
            model = fine_tune(
                self.run_,
                self._data(events),
                with_key(labels),
                label,
                static_inputs=static_inputs,
                progress=of_training(tick),
                **options,
            )
        return replace(model, info={**model.info, "reading": self._of_reading(TableFormat)})

    @with_checked_names
    def similar(self, key: Any, count: int = 10, *, events: Events | None = None) -> Any:
        """Return the entities whose vectors are nearest to one entity's, with their cosine similarity, nearest first.

        Only the learned part of each vector is compared, because the other parts have scales of their own.

        Args:
            key: The key of an entity among the events; the text of a whole number stands for the number.
            count: How many others to return, at least 1.
            events: The entities to search; those of `fit` if not given.

        Returns:
            A frame of the library of the events with the column `similarity`.

        Raises:
            ConfigError: If `count` is below 1, or there are no events, because the vectorizer was loaded.
            DataError: If the key is not among the events.
        """
        check_is_fitted(self, "run_")
        z = self._embed(self._data(events))
        index = Index.of(z)
        row = index.row_of(key)
        rows, similarity = index.neighbours(index.z.values[[row]], count, without=row)
        library = library_of(self._events if events is None else events)
        return frame_of(library, z.schema.key_out, z[rows[0]].keys, ["similarity"], similarity.T)

    def save(self, path: os.PathLike[str] | str) -> Model:
        """Write the run to a new folder and return it; `EventVectorizer.load` and `ev.load` read the folder.

        Raises:
            CheckpointError: If the folder holds files already.
        """
        check_is_fitted(self, "run_")
        return self.run_.save(os.fspath(path))

    @classmethod
    def load(cls, path: os.PathLike[str] | str) -> EventVectorizer:
        """Return a vectorizer from a model folder, also one that `ev.fit` or the command line wrote.

        It has no events: give them to `transform`, `evaluate`, `fine_tune` and `similar`.

        Raises:
            CheckpointError: If the folder holds no finished run.
        """
        run = load(os.fspath(path))
        data = run.config.get("data", {})
        options = {name: data.get(name) for name in ("categorical", "numeric", "holdout")}
        tables: dict[str, Any] = {name: run.config[name] for name in ("method", "encoder", "fit") if name in run.config}
        reading = {name: data[name] for name in option_types(TableFormat) if name in data}
        vectorizer = cls(
            run.schema.key,
            run.schema.time,
            method=tables,
            reading=reading or None,
            random_state=int(run.info["seed"]),
            **options,
        )
        vectorizer._set(run, ())
        return vectorizer

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "run_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True  # eventvec checks events itself
        return tags

    def _set(self, run: Model, notes: tuple[str, ...]) -> None:
        self.run_, self.notes_ = run, notes

    def _read(self, events: Tabular) -> Dataset:
        for name in ("key", "time"):
            if getattr(self, name) is None:
                others = f", but {listed(self._settings())} is" if self._settings() else ""
                raise ConfigError(f"{name} is not given{others}; name the column: EventVectorizer(key=..., time=...)")
        options: dict[str, Any] = {
            "categorical": self.categorical, "numeric": self.numeric, "holdout": self.holdout,
            "holdout_seed": self.random_state,
        }  # fmt: skip
        if self.holdout is None:
            del options["holdout"], options["holdout_seed"]
        with bar("reading", self.progress):
            return read(events, **{"key": self.key, "time": self.time, **options, **(self.reading or {})})

    def _of_reading(self, *kinds: type[Any]) -> dict[str, Any]:
        """Return those options of `reading` that are fields of some dataclasses."""
        names = {name for kind in kinds for name in option_types(kind)}
        return {name: value for name, value in (self.reading or {}).items() if name in names}

    def _table(self, events: Any) -> Dataset:
        with bar("reading", self.progress):
            return self.run_.read(events, **self._of_reading(TableFormat))

    def _embed(self, data: Dataset) -> Embeddings:
        with bar("embedding", self.progress) as tick:
            return self.run_.embed(data, progress=tick)

    def _data(self, events: Any) -> Dataset:
        """Return the events that are given, or else those that the vectorizer was fitted to, cut as they were then."""
        if events is not None:
            return events if isinstance(events, Dataset) else self._table(events)
        if not hasattr(self, "_events"):
            raise ConfigError("the vectorizer was loaded from a folder, which holds no events; give them: events=...")
        if isinstance(self._events, Dataset):
            return self._events
        with bar("reading", self.progress):
            return self.run_.read(self._events, **self._of_reading(TableFormat, Cuts, Storage))


def _interactive() -> bool:
    """Return whether results are shown because they are returned: at Python's prompt, and in IPython and notebooks."""
    return hasattr(sys, "ps1") or hasattr(builtins, "get_ipython")
