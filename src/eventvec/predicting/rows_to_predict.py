"""What a predictor predicts from: events as of some times, and the caller's tables, read as in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eventvec.blocks.families import STATIC, EarlierLabels, Rows, StaticValues
from eventvec.dataset import Dataset
from eventvec.embedding import with_moment
from eventvec.errors import ConfigError, DataError, listed, shown
from eventvec.predicting.event_predictor import Predictor
from eventvec.predicting.frames import with_key
from eventvec.tables import attach_known, read
from eventvec.tables.cutoffs import as_given, with_absent
from eventvec.tables.embeddings import row_columns
from eventvec.tables.label_times import TimedLabels, labels_beside, readable, time_columns, times_of_rows
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular, events_table, kept, read_table
from eventvec.tables.times import Instant


@dataclass(frozen=True)
class Asked:
    """As of when is predicted, and from which tables beside the events, see `EventClassifier.predict_proba`."""

    cutoffs: Tabular | None = None
    cutoff_column: str | None = None
    until: Instant | None = None
    static: Tabular | None = None
    labels: Tabular | None = None
    features: Mapping[str, Tabular] | None = None


def rows_to_predict(predictor: Predictor, events: Any, asked: Asked, reading: Mapping[str, Any]) -> Rows:
    """Return the rows that a predictor predicts.

    Args:
        predictor: The predictor.
        events: A table, a list of dictionaries, or a data set that was read by the predictor's schema.
        asked: As of when, and which tables.
        reading: Options of `tables.read_options.TableFormat`.
    """
    cuts = {
        name: value for name, value in (("until", asked.until), *_cuts(predictor, asked).items()) if value is not None
    }
    times = None
    if isinstance(events, Dataset):
        if cuts:
            raise ConfigError(f"{next(iter(cuts))} applies to a table, but the events are a data set already; cut it")
        data = events
        if different := data.schema.difference(predictor.schema):
            raise DataError(
                f"the events were read by another schema than the predictor's; the two differ in {different}; give the "
                "table of events, or read it by the predictor's: ev.read(..., schema=model.predictor_.schema)"
            )
    else:
        table = events_table(events, predictor.schema.key) if isinstance(events, list | tuple) else events
        data = read(table, schema=predictor.schema, **reading, **cuts)
        if asked.cutoffs is not None:
            data = with_absent(data, cuts["cutoffs"], cuts["cutoff_column"])
            times = as_given(data, cuts["cutoffs"], cuts["cutoff_column"])
    static = predictor.families.get(STATIC)
    if asked.static is not None and isinstance(static, StaticValues):
        data = attach_known(data, with_key(asked.static), [each.name for each in static.fields])
    tables = {name: with_key(table) for name, table in (asked.features or {}).items()}
    return Rows(with_moment(data), _labels(predictor, data, asked), tables, cutoffs=times)


def identifying(rows: Rows) -> dict[str, pa.Array]:
    """Return the columns that identify predicted rows: the key, and the time of each as the table of cutoffs has it."""
    data = rows.data
    columns = row_columns(data.keys, data.schema, data.moments, data.origin.options)
    if rows.cutoffs is not None:
        columns[list(columns)[1]] = rows.cutoffs
    return columns


def _cuts(predictor: Predictor, asked: Asked) -> dict[str, Any]:
    """Return the options of `read` for a table of cutoffs."""
    if asked.cutoffs is None:
        return {"cutoff_column": asked.cutoff_column}
    if asked.until is not None:
        raise ConfigError("until and cutoffs are both given; give one time for all entities, or one for each")
    cutoffs = kept(with_key(asked.cutoffs))
    column, inclusive = asked.cutoff_column, predictor.inclusive
    if column is None:
        opened = readable(cutoffs, [])
        column = predictor.label_time if predictor.label_time in opened.types else None
    if column is None:
        table = read_table(opened)
        times = time_columns(table.drop(predictor.schema.key_in(table.columns), strict=False), predictor.schema)
        times = times_of_rows(times, predictor.schema)
        if len(times) != 1:
            found = f"the columns {listed(map(shown, times))} hold times" if times else "no column holds times"
            raise ConfigError(f"{found} in the table of cutoffs; name one: cutoff_column= (--cutoff-column)")
        column = times[0]
    return {"cutoffs": cutoffs, "cutoff_column": column, "inclusive": inclusive or None}


def _labels(predictor: Predictor, data: Dataset, asked: Asked) -> TimedLabels | None:
    """Return the labels that are known, if the predictor reads earlier ones."""
    family = next((each for each in predictor.families.values() if isinstance(each, EarlierLabels)), None)
    if family is None or asked.labels is None:
        return None
    label = family.target.name
    return labels_beside(data, with_key(asked.labels), [label], LabelTime(predictor.label_time), key=family.key)
