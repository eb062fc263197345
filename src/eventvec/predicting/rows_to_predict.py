"""What a model predicts from: events as of some times, and the caller's tables, read as in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from eventvec.blocks.earlier_labels import EARLIER, EarlierLabels
from eventvec.blocks.rows import Rows
from eventvec.dataset import Dataset
from eventvec.embedding import with_moment
from eventvec.errors import ConfigError, listed, shown
from eventvec.models import Model
from eventvec.tables.cutoffs import as_given, with_absent
from eventvec.tables.embeddings import row_columns
from eventvec.tables.frames import with_key
from eventvec.tables.label_times import TimedLabels, labels_beside, readable, time_columns, times_of_rows
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular, kept, read_table
from eventvec.tables.times import Instant

Events: TypeAlias = Dataset | Tabular | Sequence[Mapping[str, Any]]
"""The events of a prediction: a data set, a table, or a list with a dictionary for each event."""


@dataclass(frozen=True)
class PredictionSources:
    """As of when is predicted, and from which tables beside the events, see `EventClassifier.predict_proba`."""

    cutoffs: Tabular | None = None
    cutoff_column: str | None = None
    until: Instant | None = None
    static: Tabular | None = None
    labels: Tabular | None = None
    features: Mapping[str, Tabular] | None = None


def rows_to_predict(model: Model, events: Any, asked: PredictionSources, reading: Mapping[str, Any]) -> Rows:
    """Return the rows that the heads of a model predict.

    Args:
        model: The model.
        events: A table, a list of dictionaries, or a data set that was read by the model's schema.
        asked: As of when, and which tables.
        reading: Options of `tables.read_options.TableFormat`.
    """
    cuts = {name: value for name, value in (("until", asked.until), *_cuts(model, asked).items()) if value is not None}
    options = {} if isinstance(events, Dataset) else reading
    data, times = model.read(events, **options, **cuts), None
    if asked.cutoffs is not None and not isinstance(events, Dataset):
        data = with_absent(data, cuts["cutoffs"], cuts["cutoff_column"])
        times = as_given(data, cuts["cutoffs"], cuts["cutoff_column"])
    if asked.static is not None and model.static_inputs:
        data = model.with_inputs(data, with_key(asked.static))
    tables = {name: with_key(table) for name, table in (asked.features or {}).items()}
    return Rows(with_moment(data), _labels(model, data, asked), tables, cutoffs=times)


def identifying(rows: Rows) -> dict[str, pa.Array]:
    """Return the columns that identify predicted rows: the key, and the time of each as the table of cutoffs has it."""
    data = rows.data
    columns = row_columns(data.keys, data.schema, data.moments, data.origin.options)
    if rows.cutoffs is not None:
        columns[list(columns)[1]] = rows.cutoffs
    return columns


def _cuts(model: Model, asked: PredictionSources) -> dict[str, Any]:
    """Return the options of `read` for a table of cutoffs."""
    if asked.cutoffs is None:
        return {"cutoff_column": asked.cutoff_column}
    if asked.until is not None:
        raise ConfigError("until and cutoffs are both given; give one time for all entities, or one for each")
    cutoffs = kept(with_key(asked.cutoffs))
    column, heads = asked.cutoff_column, model.heads.values()
    if column is None:
        opened = readable(cutoffs, [])
        named = {head.label_time for head in heads if head.label_time in opened.types}
        if len(named) > 1:
            raise ConfigError("the heads have labels of several times; name the column of one: cutoff_column=")
        column = next(iter(named), None)
    if column is None:
        table = read_table(opened)
        times = time_columns(table.drop(model.schema.key_in(table.columns), strict=False), model.schema)
        times = times_of_rows(times, model.schema)
        if len(times) != 1:
            found = f"the columns {listed(map(shown, times))} hold times" if times else "no column holds times"
            raise ConfigError(f"{found} in the table of cutoffs; name one: cutoff_column= (--cutoff-column)")
        column = times[0]
    return {"cutoffs": cutoffs, "cutoff_column": column, "inclusive": any(head.inclusive for head in heads) or None}


def _labels(model: Model, data: Dataset, asked: PredictionSources) -> dict[str, TimedLabels]:
    """Return the labels that are known, of the heads that read earlier ones from a table, by the name of the label."""
    known = dict[str, TimedLabels]()
    for name, head in model.heads.items():
        block = head.blocks.get(EARLIER)
        if isinstance(block, EarlierLabels) and asked.labels is not None:
            time = LabelTime(head.label_time)
            known[name] = labels_beside(data, with_key(asked.labels), [name], time, key=block.key)
    return known
