"""A model of a label over an encoder of events, which predicts frames of the caller's library."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, listed
from eventvec.methods.declarations import declared
from eventvec.models import Model
from eventvec.options import accepts
from eventvec.predicting.prediction import predict
from eventvec.schema import Categorical
from eventvec.tables.frames import frame_of, library_of, with_key
from eventvec.tables.read_options import Cuts
from eventvec.tables.sources import Tabular

Events = Dataset | Tabular | Sequence[Mapping[str, Any]]


class FineTuned:
    """A model of a label that `EventVectorizer.fine_tune` returns.

    Args:
        run: A run that learned a label.
        reading: The options of `tables.read_options.TableFormat` with which tables are read, such as `time_format`.

    Attributes:
        run_: The run.
        classes_: The classes, as text, in the order of the columns of `predict_proba`; None if the label is a number.
    """

    def __init__(self, run: Model, reading: Mapping[str, Any] | None = None) -> None:
        targets = declared(run.method).label_fields
        if not targets:
            raise ConfigError(f"the method {type(run.method).__name__} predicts no label; fine-tune a vectorizer")
        self.run_, self.reading = run, dict(reading or {})
        target = targets[0]
        self.classes_ = np.array(target.values, dtype=object) if isinstance(target, Categorical) else None

    def __repr__(self) -> str:
        label = declared(self.run_.method).label_fields[0].name
        classes = "" if self.classes_ is None else f", classes {listed([str(each) for each in self.classes_])}"
        return f"FineTuned({label}{classes}, {self.run_!r})"

    @accepts(Cuts)
    def predict(self, events: Events, static: Tabular | None = None, **cuts: Any) -> Any:
        """Return the likeliest class, or the predicted number, of each entity.

        Args:
            events: As for `EventVectorizer.transform`.
            static: A table with the key and the columns of `static_inputs`, if the model reads any.
            cuts: The fields of `tables.read_options.Cuts` (until, cutoffs, cutoff_column, inclusive): the times as of
                which the events are read, such as those of a table of labels. By default, all events are read.

        Returns:
            A frame of the library of the events with the column `prediction`, and that of the times of `cutoffs`;
            `(n,)` values for a `Dataset`.
        """
        table = self._predictions(events, static, cuts)
        values = np.asarray(table.column("prediction").to_pylist(), None if self.classes_ is None else object)
        return values if isinstance(events, Dataset) else self._frame(events, table, ["prediction"], [values], cuts)

    @accepts(Cuts)
    def predict_proba(self, events: Events, static: Tabular | None = None, **cuts: Any) -> Any:
        """Return the probability of each class for each entity.

        Args:
            events: As for `EventVectorizer.transform`.
            static: As for `predict`.
            cuts: As for `predict`.

        Returns:
            A frame of the library of the events with one column for each class, `p_` before its name;
            `(n, classes)` for a `Dataset`.

        Raises:
            ConfigError: If the label is a number.
        """
        if self.classes_ is None:
            raise ConfigError("the label is a number, which has no probabilities of classes; use predict")
        table = self._predictions(events, static, cuts)
        names = [f"p_{name}" for name in self.classes_]
        values = np.stack([table.column(name).to_numpy() for name in names], axis=1)
        return values if isinstance(events, Dataset) else self._frame(events, table, names, list(values.T), cuts)

    def save(self, path: os.PathLike[str] | str) -> Model:
        """Write the run to a new folder and return it; `eventvec predict` reads the folder.

        Raises:
            CheckpointError: If the folder holds files already.
        """
        return self.run_.save(os.fspath(path))

    def _predictions(self, events: Events, static: Tabular | None, cuts: Mapping[str, Any]) -> Any:
        options = {**({} if isinstance(events, Dataset) else self.reading), **cuts}
        if (cutoffs := options.get("cutoffs")) is not None:
            options["cutoffs"] = with_key(cutoffs)
        return predict(
            self.run_, events, static=None if static is None else with_key(static), **options
        ).combine_chunks()

    def _frame(
        self, events: Events, table: Any, names: Sequence[str], values: Sequence[Any], cuts: Mapping[str, Any]
    ) -> Any:
        """Return predictions by key, with the time of each if the events were cut at a time each."""
        key, *others = table.column_names
        times = others[:1] if cuts.get("cutoffs") is not None else []
        columns = [table.column(name).to_numpy(zero_copy_only=False) for name in times]
        keys = table.column(key).combine_chunks()
        return frame_of(library_of(events), key, keys, [*times, *names], [*columns, *values])
