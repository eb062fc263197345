"""The rows of tables that a model reads beside events, as a store holds them: static columns, labels, further features.

A later row of an entity replaces its earlier one. Labels are kept for each time; one that has changed is another label,
and is then left out, as `earlier_labels` does.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.blocks.caller_features import CallerFeatures
from eventvec.blocks.earlier_labels import EARLIER, EarlierLabels
from eventvec.blocks.rows import Rows
from eventvec.dataset import Dataset, row_without_events
from eventvec.errors import ConfigError, DataError, listed, shown
from eventvec.models import Model
from eventvec.schema import Categorical, Numeric, Static, Vector
from eventvec.sequences import Array
from eventvec.tables import coding, keys
from eventvec.tables.coding import plain_values
from eventvec.tables.frames import with_key
from eventvec.tables.label_times import TimedLabels, labels_beside, moments_of
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular, events_table, kept, open_source
from eventvec.tables.statics import vectors

STATIC, LABELS, FEATURES = "static", "labels ", "features "
"""The kinds of rows; the last two stand before the name of a label or of a table."""
Given: TypeAlias = Tabular | Sequence[Mapping[str, Any]]


class TableRow(NamedTuple):
    """A row of a table, in a store.

    Args:
        key: The canonical text of the key of its entity.
        kind: What it is of.
        part: What identifies it among those of the entity and kind.
        row: Its values, as JSON.
    """

    key: str
    kind: str
    part: str
    row: str


class TablesBeside:
    """The tables that a model reads beside events.

    Args:
        model: The model.
    """

    def __init__(self, model: Model) -> None:
        self.model, self._empty = model, row_without_events(model.schema)
        self._keys = {model.schema.key, model.schema.key_out}
        self._static = model.static_inputs
        self._labels: dict[str, tuple[EarlierLabels, str | None]] = {}
        self._features: dict[str, CallerFeatures] = {}
        for label, head in model.heads.items():
            for name in head.used:
                block = head.blocks.get(name, model.blocks.get(name))
                if name == EARLIER and isinstance(block, EarlierLabels):
                    self._labels[label] = (block, head.label_time)
                    self._keys.add(block.key)
                if isinstance(block, CallerFeatures):
                    self._features[block.name] = block

    def __bool__(self) -> bool:
        return bool(self._static or self._labels or self._features)

    def rows(self, static: Given | None, labels: Given | None, features: Mapping[str, Given] | None) -> list[TableRow]:
        """Return the rows of tables, each a table or a list of dictionaries.

        Args:
            static: The static columns of entities.
            labels: Labels that became known, with their times.
            features: Further features by the name of their table.

        Raises:
            ConfigError: If the model does not read one of them.
            DataError: If a column is absent or of another type, or an entity has two rows.
        """
        rows = list[TableRow]()
        if static is not None:
            self._require(bool(self._static), "static columns", "static")
            rows += self._static_rows(self._source(static))
        if labels is not None:
            self._require(bool(self._labels), "earlier labels from a table", "labels")
            rows += self._label_rows(self._source(labels))
        for name, table in (features or {}).items():
            self._require(name in self._features, f"the table of features {shown(name)}", "features")
            rows += self._feature_rows(name, self._source(table))
        return rows

    def _require(self, reads: bool, what: str, option: str) -> None:
        if not reads:
            raise ConfigError(f"the model {self.model.id} does not read {what}; leave out {option}= (--{option})")

    def _source(self, table: Given) -> Tabular:
        if not isinstance(table, list | tuple):
            return kept(with_key(table))
        if any(isinstance(row, Mapping) and not self._keys & row.keys() for row in table):
            raise DataError(f"a row has no {shown(self.model.schema.key)}; every row needs a key")
        return events_table(table, self.model.schema.key)

    def _static_rows(self, table: Tabular) -> Iterator[TableRow]:
        opened = open_source(table)
        key = self.model.schema.key_in(opened.types)
        opened.need([key, *self._static], "the static table")
        loaded = opened.load([key, *self._static])
        columns = {name: _plain(self._field(name), loaded.column(name)) for name in self._static}
        yield from _by_key(loaded, key, columns, "the static table", STATIC)

    def _label_rows(self, table: Tabular) -> Iterator[TableRow]:
        nothing = Dataset(pa.array([], pa.string()), self._empty[:0], self.model.schema)
        types = open_source(table).types
        if not (names := [name for name in self._labels if name in types]):
            raise DataError(f"the table of labels has none of the labels {listed(map(shown, self._labels))}")
        for label in names:
            block, time = self._labels[label]
            timed = labels_beside(nothing, table, [label], LabelTime(time), key=block.key)
            texts = keys.texts(keys.key_series(timed.table[block.key].to_arrow()).to_arrow())
            assert timed.moments is not None
            values = plain_values(timed.table[label]).tolist()
            for name, moment, value in zip(texts, timed.moments, values, strict=True):
                if name is not None and moment is not None and value is not None:
                    if not isinstance(value, str | bool | int | float):
                        raise DataError(f"the label {shown(label)} holds {timed.table[label].dtype}; accepted: text, "
                                        "booleans, numbers")  # fmt: skip
                    row = json.dumps({"time": moment, "value": value})
                    yield TableRow(name, LABELS + label, row, row)

    def _feature_rows(self, name: str, table: Tabular) -> Iterator[TableRow]:
        block, opened, where = self._features[name], open_source(table), f"the table of features {shown(name)}"
        key = self.model.schema.key_in(opened.types)
        opened.need([key, *block.columns], where)
        timed = block.time if block.time in opened.types else None
        loaded = opened.load([key, *([timed] if timed else []), *block.columns])
        columns = {column: _numbers(column, loaded.column(column), where) for column in block.columns}
        parts = None
        if timed:
            moments = moments_of(pl.Series(timed, loaded.column(timed)), self.model.schema, where)[0]
            parts = [None if moment is None else str(moment) for moment in moments.to_list()]
        yield from _by_key(loaded, key, columns, where, FEATURES + name, parts)

    def beside(self, data: Dataset, names: Sequence[str], moments: Array, stored: Sequence[TableRow]) -> Rows:
        """Return what blocks read of entities: their events, and what a store has of tables.

        What the store has no row of is missing.

        Args:
            data: The events of the entities.
            names: The canonical texts of their keys.
            moments: `(n,)` the moments of prediction.
            stored: The rows of tables of these entities.
        """
        if not self:
            return Rows(data)
        found = {(row.kind, row.key, row.part): json.loads(row.row) for row in stored}
        if self._static:
            rows = [found.get((STATIC, name, ""), {}) for name in names]
            columns = {name: _column([row.get(name) for row in rows], self._field(name)) for name in self._static}
            data = self.model.with_inputs(data, pl.DataFrame({self.model.schema.key: list(names), **columns}))
        labels = {label: self._timed(label, stored) for label in self._labels}
        features = dict[str, Tabular]()
        for name, block in self._features.items():
            kind = FEATURES + name
            rows = [
                found.get((kind, key, str(moment)), found.get((kind, key, ""), {}))
                for key, moment in zip(names, moments.tolist(), strict=True)
            ]
            values = {
                column: pl.Series([row.get(column) for row in rows], dtype=pl.Float64) for column in block.columns
            }
            features[name] = pl.DataFrame({self.model.schema.key: list(names), **values})
        return Rows(data, labels, features)

    def _field(self, name: str) -> Static:
        return self.model.schema.static_field(name)

    def _timed(self, label: str, stored: Sequence[TableRow]) -> TimedLabels:
        """Return the labels of a name among the rows of a store."""
        block, time = self._labels[label]
        rows = [(row.key, json.loads(row.row)) for row in stored if row.kind == LABELS + label]
        dtype = pl.Series(block.target.classes).dtype if block.target.classes else pl.Float64
        values = pl.Series(label, [row["value"] for _, row in rows], dtype, strict=False)
        table = pl.DataFrame([pl.Series(block.key, [key for key, _ in rows], pl.String), values])
        kind = pl.Float64 if self.model.schema.time_kind == "float" else pl.Int64
        at = pl.Series("time", [row["time"] for _, row in rows], kind)
        return TimedLabels(table, [label], block.key, LabelTime(time), "the store", None, None, time, at)


def digest_of_rows(rows: Sequence[TableRow]) -> str:
    """Return a digest of rows of tables, in any order."""
    return hashlib.blake2b("\n".join(sorted(map(json.dumps, rows))).encode(), digest_size=16).hexdigest()


def _by_key(
    table: pa.Table,
    key: str,
    columns: Mapping[str, list[Any]],
    where: str,
    kind: str,
    parts: Sequence[str | None] | None = None,
) -> Iterator[TableRow]:
    """Yield the rows of a table, by the values of its columns; those without a key, or without a time, are left out.

    Args:
        table: The table, of which the keys are read.
        key: Its column of keys.
        columns: The values of each column.
        where: The table in words.
        kind: The kind of its rows.
        parts: What distinguishes the rows of an entity, None where it is missing; by default nothing.
    """
    texts = keys.texts(table.column(key).combine_chunks()).to_list()
    parts = [""] * len(texts) if parts is None else parts
    places = [row for row, each in enumerate(zip(texts, parts, strict=True)) if None not in each]
    if again := len(places) - len({(texts[row], parts[row]) for row in places}):
        raise DataError(f"{where} has {again:,} repeated keys; each entity needs one row")
    for row in places:
        values = json.dumps({name: column[row] for name, column in columns.items()})
        yield TableRow(texts[row], kind, str(parts[row]), values)


def _plain(field: Static, column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a static column as JSON has them: canonical texts, numbers or lists, None where missing."""
    if isinstance(field, Categorical):
        coded = coding.coded(field.name, column)
        texts = [*coded.values.to_pylist(), None]  # -1 is missing
        return [texts[code] for code in coded.codes.tolist()]
    if isinstance(field, Numeric):
        return _without_nan(coding.numbers(field.name, column))
    if isinstance(field, Vector):
        several = vectors(field.name, column, field.size)
        return [None if np.isnan(row[0]) else row.tolist() for row in several]
    written: list[Any] = coding.decoded(column).cast(pa.large_string()).to_pylist()
    return written


def _numbers(name: str, column: pa.ChunkedArray, where: str) -> list[Any]:
    """Return the numbers of a column of a caller's table, None where missing."""
    if coding.kind_of(column.type) not in ("integer", "float", "boolean", "empty"):
        raise DataError(f"column {shown(name)} of {where} holds {column.type}; accepted: numbers, booleans")
    values: Array = pl.Series(column).cast(pl.Float64).to_numpy()
    if np.isinf(values).any():
        raise DataError(f"column {shown(name)} of {where} has infinite numbers; accepted: finite or missing ones")
    return _without_nan(values)


def _without_nan(values: Array) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in values]


def _column(values: list[Any], field: Static) -> pl.Series:
    """Return a static column of what a store has of entities."""
    if isinstance(field, Numeric):
        return pl.Series(values, dtype=pl.Float64)
    if isinstance(field, Vector):
        rows = [[np.nan] * field.size if value is None else value for value in values]
        return pl.Series(rows, dtype=pl.Array(pl.Float64, field.size))
    return pl.Series(values, dtype=pl.String)
