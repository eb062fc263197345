"""From a table to a `Dataset`: rows are checked, ordered by key and time; columns become codes and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import torch

from eventvec.dataset import Dataset
from eventvec.errors import DataError
from eventvec.schema import Categorical, Schema
from eventvec.sequences import Sequences
from eventvec.tables import fields, keys, request, times
from eventvec.tables.cutoffs import cut_note, left_out, own_times
from eventvec.tables.fields import Array, Coded, Fitting, found, pick
from eventvec.tables.sorting import by_key_and_time
from eventvec.tables.sources import Tabular, open_source
from eventvec.tables.statics import StaticKind, attach, attach_known


def read(
    source: Tabular,
    *,
    key: str | None = None,
    time: str | None = None,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    schema: Schema | None = None,
    time_format: str | None = None,
    key_as: str | None = None,
    until: times.Instant | None = None,
    cutoffs: tuple[Tabular, str] | None = None,
    holdout: tuple[float, int] | None = None,
    meds: bool = False,
    static: Tabular | None = None,
    static_columns: Mapping[str, StaticKind] | None = None,
    fitting: Fitting = Fitting(),  # noqa: B008 (it is frozen)
) -> Dataset:
    """Return a table of events as one row per key, in ascending order of keys, each row in order of time.

    Without a schema one is fitted to the table; with one, as at scoring, the table's values are coded by it. Rows may
    come in any order; events of one key at one time keep theirs.

    Args:
        source: a path to Parquet or CSV (file, folder or glob), or an object with the Arrow stream protocol (polars,
            pandas, pyarrow, DuckDB).
        key: the column that names the entity: whole numbers, text or UUIDs.
        time: the column that orders events: timestamps, dates, numbers, or text in ISO 8601.
        categorical: columns to read as categories. Once this or `numeric` is given, even empty, only listed columns
            are used; otherwise kinds are inferred, and `Dataset.notes` says what was left out and why.
        numeric: columns to read as numbers.
        schema: a fitted schema, which names the columns itself.
        time_format: strptime format of a time that is text or digits.
        key_as: the key's name in files that eventvec writes.
        until: only events strictly before this time are used and fitted to; entities without one stay, as empty rows.
        cutoffs: a table with the key, and its column with each entity's own time: only events strictly before it are
            used and fitted to, and entities without a row there are left out.
        holdout: a fraction and a seed: the entities that `holdout_mask` chooses are left out.
        meds: the table follows the Medical Event Data Standard, which names the columns; its rows without a time are
            measurements that do not change, which are left out and counted.
        static: a table with the key and one row per entity: labels, expert features, descriptions; `attach` says what
            becomes of it. With a schema, the columns that it names and the table has are read.
        static_columns: the kind of each of its columns that is used; all that can be are, with kinds inferred, if not
            given.
        fitting: how the schema is fitted.

    Raises:
        ConfigError: the arguments contradict one another or name a column that they may not.
        DataError: the table lacks a column or has a value that cannot be used; the message says which, how many, and
            the first row, counted from 0.

    Example:
        >>> import polars as pl
        >>> table = pl.DataFrame({"card": [2, 1, 2], "day": [5, 3, 4], "shop": ["a", "b", None]})
        >>> data = read(table, key="card", time="day", categorical=["shop"], fitting=Fitting(min_count=1))
        >>> data
        Dataset(2 entities, 3 events, 1 fields)
        >>> data.keys.to_pylist(), data.sequences.values("time").tolist(), data.sequences.values("shop").tolist()
        ([1, 2], [3, 4, 5], [3, 0, 2])
    """
    time_name = schema.time if schema else request.MEDS["time"] if meds else time
    opened = open_source(source, text=[time_name] if time_name and time_format else [])
    given = {"key": key, "time": time, "categorical": categorical, "numeric": numeric}
    request.check_static(schema, static is not None, static_columns)
    if schema is not None:
        wanted = request.by_schema(schema, {**given, "fitting": None if fitting == Fitting() else fitting})
        key_as = key_as or schema.key_as
    elif meds:
        wanted = request.by_meds(opened, given)
    else:
        wanted = request.by_name(opened, key, time, categorical, numeric)
    request.check(opened, wanted, key_as or wanted.key)
    names, notes = request.candidates(opened, wanted) if wanted.inferred else (list(wanted.listed), [])
    columns = opened.stream([wanted.key, wanted.time, *names])  # each is read when its turn comes
    frame, rows, ranked = _rows(columns, wanted, schema, time_format, meds, notes)
    frame = replace(frame, key_as=key_as)
    entities = keys.keys_of(rows.ranks, ranked, keys.key_type(wanted.key, opened.types[wanted.key]))
    if holdout is not None:
        rows, entities = _held_out(rows, entities, keys.holdout_mask(entities, *holdout), notes)
    if cutoffs is not None:
        own, ends = own_times(entities, frame, *cutoffs)
        notes.extend(left_out(len(own), len(entities), cutoffs[1]))
        rows, entities = rows.keep(own), entities.take(pa.array(own))
        rows = _cut(rows, ends, f"before the time in {cutoffs[1]!r}", notes)
    if until is not None:
        rows = _cut(rows, np.full(len(entities), times.instant(frame, until)), f"before {until}", notes)
    table_read = _Columns(names, columns, rows, notes)
    fitted = table_read.fit(frame, wanted, fitting) if schema is None else table_read.apply(schema, frame)
    lengths = torch.from_numpy(rows.lengths)
    tensors = {name: torch.from_numpy(values) for name, values in table_read.values.items()}
    data = Dataset(entities, Sequences(tensors, lengths.cumsum(0) - lengths, lengths), fitted, tuple(notes))
    if static is None:
        return data
    return attach_known(data, static) if schema else attach(data, static, static_columns, fitting=fitting)


@dataclass(frozen=True)
class _Rows:
    """The table's rows in order of key and time.

    Args:
        order: `(events,)` where each event stands in the table, None if it is in this order already.
        times: `(events,)`.
        gaps: `(events,)` float32.
        ranks: `(n,)` what `keys_of` takes, one per entity.
        lengths: `(n,)` int64.
    """

    order: Array | None
    times: Array
    gaps: Array
    ranks: Array
    lengths: Array

    def keep(self, entities: Array) -> _Rows:
        """Return the rows of some entities, named by ascending positions."""
        chosen = np.zeros(len(self.lengths), bool)
        chosen[entities] = True
        return self.only(np.repeat(chosen, self.lengths), self.ranks[entities], self.lengths[entities])

    @property
    def heads(self) -> Array:
        """Places where an entity that has events begins."""
        filled = self.lengths[self.lengths > 0]
        return filled.cumsum() - filled

    def only(self, events: Array, ranks: Array, lengths: Array) -> _Rows:
        """Return the events that a mask marks, which make up rows of these lengths."""
        order = np.flatnonzero(events) if self.order is None else self.order[events]
        return _Rows(order, self.times[events], self.gaps[events], ranks, lengths)


def _rows(
    columns: Iterator[pa.ChunkedArray],
    wanted: request.Request,
    schema: Schema | None,
    form: str | None,
    meds: bool,
    notes: list[str],
) -> tuple[Schema, _Rows, pa.Array | None]:
    """Return a schema without columns, the order of the rows, and the distinct keys, from the first two columns: the
    key and the time."""
    key = next(columns)
    if not len(key):
        raise DataError("the table has no rows; at least one event is needed")
    ranks, distinct = keys.rank_keys(wanted.key, key)
    del key
    moment = times.parse_times(wanted.time, next(columns), form)
    if moment.missing.any() and not meds:
        missing = found(moment.missing, "missing value")
        raise DataError(f"column {wanted.time!r} has {missing}; every event needs a time")
    if schema is not None:
        moment = times.same_kind(wanted.time, moment, schema)
    frame = Schema(wanted.key, wanted.time, moment.kind, time_zone=moment.zone)
    rows = _arrange(ranks, moment, frame.clock, notes)
    return frame, rows, distinct


def _arrange(ranks: Array, moment: times.Times, clock: bool, notes: list[str]) -> _Rows:
    order, values = None, moment.values
    if moment.missing.any():
        order = np.flatnonzero(~moment.missing)
        notes.append(f"{int(moment.missing.sum()):,} of {len(values):,} rows have no time and are left out")
        if not len(order):
            raise DataError("no row of the table has a time; at least one event is needed")
        ranks, values = ranks[order], values[order]
    same = ranks[1:] == ranks[:-1]
    if not ((ranks[1:] > ranks[:-1]) | (same & (values[1:] >= values[:-1]))).all():
        by_time = by_key_and_time(ranks, values)
        order = by_time if order is None else order[by_time]
        ranks, values = ranks[by_time], values[by_time]
        same = ranks[1:] == ranks[:-1]
    heads = np.flatnonzero(np.append(True, ~same))
    gaps = times.intervals(values, heads, clock)
    return _Rows(order, pick(values, None), gaps, ranks[heads], np.diff(np.append(heads, len(values))))


def _cut(rows: _Rows, ends: Array, when: str, notes: list[str]) -> _Rows:
    kept = rows.times < np.repeat(ends, rows.lengths)
    if not kept.any():
        raise DataError(f"no event lies {when}; give a later time")
    before, stops = np.append(0, np.cumsum(kept)), np.cumsum(rows.lengths)
    lengths = before[stops] - before[stops - rows.lengths]
    notes.append(cut_note(when, int(before[-1]), len(kept), torch.from_numpy(lengths)))
    return rows.only(kept, rows.ranks, lengths)


def _held_out(rows: _Rows, entities: pa.Array, held: Array, notes: list[str]) -> tuple[_Rows, pa.Array]:
    stay = np.flatnonzero(~held)
    if not len(stay):
        raise DataError(f"all {len(held):,} entities are held out; give a smaller fraction or more entities")
    notes.append(f"{int(held.sum()):,} of {len(held):,} entities are held out")
    return rows.keep(stay), entities.take(pa.array(stay))


@dataclass(frozen=True)
class _Columns:
    """Columns on their way from the table (`arrow`, one by one as `names` say) to arrays in order of the rows
    (`values`)."""

    names: list[str]
    arrow: Iterator[pa.ChunkedArray]
    rows: _Rows
    notes: list[str]
    values: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values.update(time=self.rows.times, gap=self.rows.gaps)

    def fit(self, frame: Schema, wanted: request.Request, fitting: Fitting) -> Schema:
        """Return the schema that these columns give, having coded them by it."""
        categorical, numeric = [], []
        for name, column in zip(self.names, self.arrow, strict=True):
            listed = "categorical" if name in wanted.categorical else "numeric"
            kind = fields.infer(name, column, self.rows.order, self.rows.heads) if wanted.inferred else listed
            if kind == "categorical":
                categorical.append(self._categorical(name, column, fitting))
            elif kind == "numeric":
                numeric.append(fields.scaled(name, self._numbers(name, column), fitting))
            else:
                self.notes.append(f"column {name!r} is left out: {kind}")
        gap = fields.scaled("gap", self.rows.gaps, replace(fitting, log=True))
        return replace(frame, categorical=tuple(categorical), numeric=tuple(numeric), gap=gap)

    def apply(self, schema: Schema, frame: Schema) -> Schema:
        """Return the schema, by which these columns are now coded, with what is the table's own: the key's name in
        files, and the time where it is finer than the days that the schema was fitted on."""
        known = {category.name: category for category in schema.categorical}
        for name, column in zip(self.names, self.arrow, strict=True):
            if name not in known:
                self._numbers(name, column)
                continue
            codes = self.values[name] = fields.encode(self._coded(name, column), known[name])
            self.notes.extend(fields.unknown_note(name, codes, "events"))
        if schema.time_kind == "date" and frame.time_kind == "timestamp":
            schema = replace(schema, time_kind="timestamp", time_zone=frame.time_zone)
        return replace(schema, key_as=frame.key_as)

    def _categorical(self, name: str, column: pa.ChunkedArray, fitting: Fitting) -> Categorical:
        codes = self._coded(name, column)
        fitted = fields.vocabulary(name, codes, fitting)
        self.values[name] = fields.encode(codes, fitted)
        self.notes.extend(fields.rare_note(fitted, fitting))
        return fitted

    def _coded(self, name: str, column: pa.ChunkedArray) -> Coded:
        codes, values = fields.coded(name, column)
        return Coded(codes if self.rows.order is None else codes[self.rows.order], values)

    def _numbers(self, name: str, column: pa.ChunkedArray) -> Array:
        self.values[name] = pick(fields.numbers(name, column), self.rows.order)
        return self.values[name]
