"""Places: a table of covariates at which entities are predicted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.errors import DataError, listed, shown
from eventvec.schema import MISSING, UNKNOWN, Categorical
from eventvec.sequences import Array
from eventvec.tables import coding
from eventvec.tables.keys import align, distinct_keys, key_series
from eventvec.tables.sources import Source, Tabular, open_source
from eventvec.tables.statics import is_vector, vectors
from eventvec.tables.times import parse_times, same_kind

TIME = "time"


@dataclass(frozen=True)
class Places:
    """Pairs of a row of a data set and a place, in the order of the table; without a key, row after row.

    Args:
        rows: `(m,)` the row of each pair.
        columns: The columns of the covariates as they are in the table, by their names there, `m` values each.
        values: The same columns as `Sequences` hold them, by the names of the covariates.
    """

    rows: Array
    columns: Mapping[str, pa.ChunkedArray]
    values: Mapping[str, Tensor]


def read_places(data: Dataset, table: Tabular, covariates: Sequence[str], time_format: str | None = None) -> Places:
    """Return the places of a table, each with the rows of its entity, or with all rows if the table has no key.

    Args:
        data: The rows, which may be several of an entity.
        table: A table with the covariates, and with the key if each entity has its own places.
        covariates: The columns to read; `time` is the time column, which has its own name in the table.
        time_format: The strptime format of times that are text.
    """
    schema = data.schema
    text = [field.name for field in schema.categorical if field.text]
    opened = open_source(table, [*text, *([schema.time] if time_format else [])], schema.key)
    names = {name: schema.time if name == TIME else name for name in covariates}
    opened.need(names.values(), "the table of places")
    candidates = (name for name in (schema.key, schema.key_out) if name not in names.values())
    key = next((name for name in candidates if name in opened.types), None)
    if key is None and (further := [name for name in opened.types if name not in names.values()]):
        raise DataError(
            f"the table of places has the further columns {listed(further)}, but no key, {shown(schema.key)}; give the "
            "key its name, or leave out these columns to predict every entity at all places"
        )
    loaded = opened.load([*dict.fromkeys([*([key] if key else []), *names.values()])])
    if not len(loaded):
        raise DataError("the table of places has no rows; at least one place is needed")
    values = {name: _values(data, opened, name, column, loaded, time_format) for name, column in names.items()}
    if key is None:
        rows, places = (part.ravel() for part in np.indices((len(data), len(loaded))))
    else:
        rows, places = _matched(data, loaded.column(key), key)
    chosen = pa.array(places)
    columns = {column: coding.decoded(loaded.column(column)).take(chosen) for column in names.values()}
    return Places(rows, columns, {name: torch.from_numpy(column[places]) for name, column in values.items()})


def _matched(data: Dataset, keys: pa.ChunkedArray, key: str) -> tuple[Array, Array]:
    """Return each pair of a row of the data and a row of the table with its key, in the order of the table."""
    frame = pl.DataFrame({key: key_series(keys, key)})
    _refuse(key, frame[key].is_null().to_numpy(), "missing value", "every place needs a key")
    entities, distinct = distinct_keys(data.keys)
    entity = align(distinct, frame, key)
    _refuse(key, entity < 0, "key", f"without events among {len(distinct):,} entities; leave out these rows")
    rows = pl.DataFrame({"entity": entities, "row": np.arange(len(entities))})
    wanted = pl.DataFrame({"entity": entity, "place": np.arange(len(entity))})
    pairs = wanted.join(rows, on="entity", maintain_order="left_right")
    return pairs["row"].to_numpy(writable=True), pairs["place"].to_numpy(writable=True)


def _values(
    data: Dataset, opened: Source, name: str, column_name: str, loaded: pa.Table, time_format: str | None
) -> Array:
    """Return `(rows, ...)` a covariate as the data hold it."""
    column, schema = loaded.column(column_name), data.schema
    if name == TIME:
        times = same_kind(column_name, parse_times(column_name, column, time_format), schema)
        _refuse(column_name, times.missing, "missing value", "every place needs a time")
        return times.values
    field = next((field for field in schema.fields if field.name == name), None)
    if isinstance(field, Categorical):
        coded = coding.coded(name, column)
        if not opened.typed and coding.is_text(column.type) and not field.text:
            coded = coding.as_numbers(coded)
        codes = coding.encode(coded, field)
        _refuse(name, codes == MISSING, "missing value", "every place needs one")
        _refuse(name, codes == UNKNOWN, "value", "outside the vocabulary of the run's schema; leave out these rows")
        return codes
    held = data.sequences.columns.get(name)
    size = math.prod(held.shape[1:]) if isinstance(held, Tensor) else 1
    wide = field is None and is_vector(column.type)
    if size > 1 and not wide:
        raise DataError(f"column {shown(name)} of the table of places holds {column.type}, not lists of {size} numbers")
    values = vectors(name, column, size) if wide else coding.numbers(name, column)
    _refuse(name, np.isnan(values.reshape(len(values), -1).sum(1)), "missing value", "every place needs one")
    return values


def _refuse(name: str, wrong: Array, what: str, why: str) -> None:
    coding.refuse_rows(name, wrong, what, f"; {why}", " of the table of places")
