"""When labels became known: which column of their table says so, and the histories as of these times.

Every call that takes labels follows this rule, so no event is read from which a label may have been made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.dataset import Dataset, period, repeated
from eventvec.errors import ConfigError, DataError, listed, printable, shown
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables import coding, times
from eventvec.tables.addresses import name_of
from eventvec.tables.cutoffs import ends, snapshots
from eventvec.tables.embeddings import Embeddings
from eventvec.tables.keys import align, key_form, plain_keys
from eventvec.tables.read_options import DECLINED, LabelTime
from eventvec.tables.sources import Source, Tabular, is_pandas, open_source, read_table
from eventvec.tables.untimed_labels import maybe_times, reasons, refuse_several_rows

NAME_IT = f"name the column with the time of each label: label_time= (--label-time), or {DECLINED!r} for none"

KNOWN_AT, RULE = "known_at", "rule"
"""The columns beside the labels of `future_labels`: when each label is known, and how it was made."""

NO_EVENT = "No event lies within"
"""The beginning of the note that all labels lie after the last event."""

ISO = r"^\s*\d{4}-\d\d-\d\d([T ]\d\d:\d\d[\d:.]* ?(Z|[+-]\d\d:?(\d\d)?)?)?\s*$"
"""Texts that look like a date or a time in ISO 8601."""


@dataclass(frozen=True, eq=False)
class TimedLabels:
    """A table of labels and their times.

    Args:
        table: The columns that were asked for, with that of the times.
        names: The labels.
        key: The column of the key.
        options: Which events are read for a label.
        source: The path of the table or its address, in words.
        group: The column whose values are never split, if it was named.
        weight: The column of the weights, if it was named.
        time: The column of the times; None if labels have none.
        moments: `(m,)` the time of each row in the unit of `Sequences`, null where it is missing.
        chosen: Whether the column was chosen because it is the only one.
        notes: Sentences about the times, or about why no column was taken as the time.
        subgroups: The column of the groups for which measures are told one by one, if it was named.
    """

    table: pl.DataFrame
    names: Sequence[str]
    key: str
    options: LabelTime
    source: str
    group: str | None
    weight: str | None
    time: str | None = None
    moments: pl.Series | None = None
    chosen: bool = False
    notes: tuple[str, ...] = ()
    subgroups: str | None = None

    @property
    def missing(self) -> pl.Series:
        """`(m,)` bool, whether a row has none of the labels."""
        return reduce(and_, (coding.missing_values(self.table[name]) for name in self.names))


def labels_beside(
    rows: Dataset | Embeddings,
    labels: Tabular,
    names: Sequence[str],
    options: LabelTime,
    *,
    key: str | None = None,
    group: str | None = None,
    weight: str | None = None,
    columns: Sequence[str] = (),
    subgroups: str | None = None,
) -> TimedLabels:
    """Return columns of a table of labels, and the times of the labels.

    By default, they are the times at which the rows were cut, if the table has their column.

    Args:
        rows: The rows that have the labels.
        labels: The table.
        names: The labels, of which a row has at least one.
        options: Which events are read for a label.
        key: The name of the key in the table; by default as in the events or in files.
        group: A column whose values must not be split between training and test.
        weight: A column with the weight of each label.
        columns: Whatever else is read, none of which is a time.
        subgroups: A column of groups for which measures are told one by one.

    Raises:
        DataError: If a column is absent, or the named one holds no times of the events' kind; if no column of times is
            found, and a key has several rows that are not equal.
        ConfigError: If a label is the key, or several columns may be the times of the labels.
    """
    others = [*(name for name in (group, weight, subgroups) if name is not None), *columns]
    opened, schema, given = readable(labels, [*names, *others]), rows.schema, options.label_time
    key = key or schema.key_in(opened.types)
    if key in names:
        raise ConfigError(f"the label {shown(key)} is the key; name the column to predict")
    if given is None and rows.moments is not None:
        cutoff = str((rows.origin.options if isinstance(rows, Dataset) else rows.origin).get("cutoff_column"))
        given = cutoff if repeated(rows.keys) or cutoff in opened.types else None
    columns = list(dict.fromkeys([key, *names, *others]))
    if given is None:
        opened.need(columns, "the label table")
        beside = [*may_hold_times(opened.types, schema, columns), *maybe_times(opened.types, columns, schema)]
    else:
        beside = [] if given == DECLINED else [given]
    table = read_table(opened, list(dict.fromkeys([*columns, *beside])), "the label table")
    if not len(table):
        raise DataError("the label table has no rows; give it the labels of at least two entities")
    time, chosen = choose(time_columns(table.drop(columns), schema), schema, given)
    result = TimedLabels(
        table.select(columns), names, key, options, name_of(labels), group, weight, subgroups=subgroups
    )
    if time is None and given is None:
        why = reasons(table.drop(columns), schema, ISO)
        if plain_keys(key, table[key]).drop_nulls().is_duplicated().any():
            types = opened.types.items()  # rows are compared by the others too, if they can be
            comparable = [name for name, kind in types if name in (key, *names) or coding.kind_of(kind) != "other"]
            refuse_several_rows(read_table(opened, comparable), key, names, why)
        tried = f"No column of the labels was taken as their time: {'; '.join(why)}."
        return replace(result, notes=(tried,) if why else ())
    if time is None:
        return result
    try:
        moments, notes = moments_of(table[time], schema)
    except DataError as error:
        raise DataError(f"{error}; if it is not the time of the labels, {NAME_IT}" if chosen else str(error)) from error
    held = table.select(*dict.fromkeys([*columns, time]))
    return replace(result, table=held, time=time, moments=moments, chosen=chosen, notes=notes)


def choose(candidates: Collection[str], schema: Schema, given: str | None) -> tuple[str | None, bool]:
    """Return the column with the times of labels, and whether it was chosen.

    Args:
        candidates: The columns that hold times of the events' kind.
        schema: The schema of the events; where their times are numbers, only the column of the same name is chosen.
        given: The column that the caller named, `DECLINED`, or None.

    Raises:
        ConfigError: If several columns may be the times, or only `known_at`, with whose times labels would be read
            after the events that they tell of.
    """
    if given is not None:
        return (None if given == DECLINED else given), False
    possible = [name for name in candidates if schema.clock or name == schema.time]
    likely = times_of_rows(possible, schema)
    if len(likely) > 1:
        raise ConfigError(f"several columns other than the labels hold times, {listed(map(shown, likely))}; {NAME_IT}")
    if possible and not likely:
        raise ConfigError(f"the only column of times is {KNOWN_AT!r}, which is when the labels were known; {NAME_IT}")
    return (likely[0], True) if likely else (None, False)


def times_of_rows(columns: Collection[str], schema: Schema) -> list[str]:
    """Return columns of times without `known_at`, which is no time of a label, unless events have theirs there."""
    return [name for name in columns if name != KNOWN_AT or schema.time == KNOWN_AT]


def time_columns(table: pl.DataFrame, schema: Schema) -> list[str]:
    """Return the columns that hold times of the kind of the events' times, and no missing column.

    For calendar times they are dates, timestamps and texts of which most are ISO, and no numbers.
    """
    return [column.name for column in table if _holds_times(column, schema)]


def _holds_times(column: pl.Series, schema: Schema) -> bool:
    present, kind = column.drop_nulls(), column.dtype
    if not len(present) or kind == pl.Boolean or (schema.clock and kind.is_numeric()):
        return False
    if kind == pl.String and schema.clock:
        return 2 * int(present.str.contains(ISO).sum()) > len(present)
    try:
        moments_of(present, schema)
    except DataError:
        return False
    return True


def moments_of(column: pl.Series, schema: Schema, of: str = "the labels") -> tuple[pl.Series, tuple[str, ...]]:
    """Return `(m,)` times in the unit of `Sequences`, null where they are missing, and notes about days and zones."""
    name = column.name
    held = pa.chunked_array([column.alias("").to_arrow()])  # polars exports no name with \0
    read = times.parse_times(name, held, of=of)
    parsed = times.same_kind(name, read, schema, of)
    moments = pl.Series(name, parsed.values).set(pl.Series(parsed.missing), None)
    is_day = read.kind == "date" and schema.time_kind == "timestamp"
    day = f"A date in {shown(name)} is the start of that day ({schema.time_zone or 'UTC'})."
    notes = [day] if is_day else []
    if read.kind == "timestamp" and (read.zone is None) != (schema.time_zone is None):
        here, there = f"in {shown(name)}", "of the events"
        without, zoned = (here, there) if read.zone is None else (there, here)
        notes.append(f"The times {without} have no zone and count as UTC; those {zoned} have one.")
    return moments, tuple(notes)


def untimed(given: str | None) -> str:
    """Return a sentence about labels without times."""
    if given == DECLINED:
        return f"All events are read, whenever a label became known, because label_time is {DECLINED!r}."
    return (
        "The labels have no time, so events after a label became known may be among those that are read; "
        "label_time= (--label-time) names a column of times."
    )


def hides_later(what: str, verb: str = "has") -> str:
    """Return a note that something beside labels with times has none."""
    return f"{what} {verb} no times, and may hold what became known after a label."


def doubts(notes: Iterable[str]) -> tuple[str, ...]:
    """Return the notes about times of labels that may make a score worthless, which a verdict has to say."""
    return tuple(dict.fromkeys(note for note in notes if note == untimed(None) or note.startswith(NO_EVENT)))


def labelled_histories(data: Dataset, timed: TimedLabels) -> Dataset:
    """Return the histories as of the times of labels.

    There is one row for each labelled entity and each of its times. Where labels have no times, or the data were cut at
    several times of an entity, the rows of the data are returned as they are. Notes and origin of the data say where
    they were cut.

    Args:
        data: The events.
        timed: The labels, from `labels_beside`.

    Raises:
        DataError: If no label has an entity, or the chosen column leaves more than half of the rows without events.
        ConfigError: If the data were cut at several times of an entity, and these are not the times of the labels.
    """
    options = timed.options
    if timed.moments is None or timed.time is None:
        is_cut = data.moments is not None or data.origin.until is not None
        return data if is_cut else replace(data, notes=(*data.notes, *timed.notes))
    if data.moments is not None and repeated(data.keys):
        cutoff = data.origin.options.get("cutoff_column")
        if timed.time != cutoff:
            raise ConfigError(
                f"the histories were cut at several times of an entity, in {shown(str(cutoff))}, and the labels have "
                f"their time in {shown(timed.time)}; give the events without cutoffs= (--cutoffs), or name the times "
                "of the cutoffs: label_time= (--label-time)"
            )
        if options.inclusive and not data.origin.options.get("inclusive"):
            raise ConfigError(
                f"inclusive is given, and the histories were cut before their times in {shown(timed.time)}; read the "
                "events with inclusive=True (--inclusive) too, or without cutoffs= (--cutoffs)"
            )
        return data
    missing, of_table = timed.missing, timed.table[timed.key]
    rows = pl.DataFrame({"row": align(data.keys, timed.table, timed.key), "moment": timed.moments}).filter(~missing)
    rows = rows.filter(pl.col("row") >= 0, pl.col("moment").is_not_null()).unique().sort("row", "moment")
    if rows.is_empty():
        raise DataError(
            f"none of {(~missing).sum():,} labelled rows has a key (column {shown(timed.key)}, {key_form(of_table)}) "
            f"among {len(data):,} entities ({key_form(data.keys)}) and a time in {shown(timed.time)}; name the columns "
            "that hold them"
        )
    cutoffs: dict[str, Any] = {"cutoffs": timed.source, "cutoff_column": timed.time}
    if options.inclusive or "inclusive" in data.origin.options:
        cutoffs["inclusive"] = options.inclusive
    entities, moments = (rows[name].to_numpy(writable=True) for name in ("row", "moment"))
    result = cut(data, entities, moments, timed.time, cutoffs, chosen=timed.chosen)
    return replace(result, notes=(*result.notes, *timed.notes))


def fitted_later(
    schema: Schema,
    runs: Sequence[Mapping[str, Any]],
    moments: Array | None,
    fitted: str = "The encoder and its vocabularies",
) -> tuple[str, ...]:
    """Return a note where an encoder, or its schema, was fitted to events at or after the times of labels.

    Args:
        schema: The schema of the events.
        runs: The runs that trained the encoder, as in `Lineage.holdouts`.
        moments: `(n,)` the time of each label, if labels have times.
        fitted: What the runs fitted, in words.
    """
    known = [run.get("last_event") for run in runs]
    last = max((time for time in known if isinstance(time, int | float)), default=None)
    if moments is None or last is None or not (count := int((moments <= last).sum())):
        return ()
    when = times.to_arrow(schema, np.array([last]))[0].as_py()
    return (
        f"{fitted} were fitted to events up to {when}, at or after the time of {count:,} of "
        f"{len(moments):,} labels; for a test in time, train with until= (--until) the first of them.",
    )


def cut(
    data: Dataset, rows: Array, moments: Array, time: str, options: Mapping[str, object], *, chosen: bool
) -> Dataset:
    """Return rows of the data as of a time each, with a note; refuse a chosen column of times that are too early."""
    inclusive = bool(options.get("inclusive"))
    result = snapshots(data, rows, moments, inclusive)
    lengths = result.sequences.lengths.cpu().numpy()
    if chosen and 2 * (empty := int((lengths == 0).sum())) > len(result):
        raise DataError(
            f"{empty:,} of {len(result):,} labelled rows have no event before the time in {shown(time)}, the only "
            f"column of times among the labels; it may be another time; {NAME_IT}"
        )
    note = read_before(time, inclusive, data.schema, moments, lengths)
    notes = (*data.notes, note, *after_the_last_event(data, moments, time))
    return replace(result, notes=notes, origin=data.origin.including(**options))


def after_the_last_event(data: Dataset, moments: Array, time: str) -> tuple[str, ...]:
    """Return a question about the column of times if labels lie after all events: most, or one by more than 30 days.

    If all do, by more than a day and the unit of the events' times, it begins with `NO_EVENT`.

    Events that were cut at a time end there, so they raise no question.
    """
    span = period(data.sequences)
    if span is None or data.moments is not None or data.origin.until is not None:
        return ()
    late = moments[moments > span[1]]
    last = times.to_arrow(data.schema, np.array([span[1]]))[0].as_py()
    if len(late) == len(moments) and data.schema.clock:
        unit = data.schema.time_unit or "day"
        gap = times.beginnings(unit, late.min(keepdims=True), data.schema.time_zone)[0] - span[1]
        longest = max(times.next_beginning(unit, span[1], data.schema.time_zone) - span[1], times.DAY)
        if gap > longest:
            return (
                f"{NO_EVENT} {gap / times.DAY:,.0f} days before a label: all {len(late):,} labels lie after the last "
                f"event ({last}); is {shown(time)} the time at which the prediction was due?",
            )
    far = data.schema.clock and len(late) and late.max() - span[1] > 30 * times.DAY
    if not (far or 2 * len(late) > len(moments)):
        return ()
    return (
        f"{len(late):,} of {len(moments):,} labels lie after the last event ({last}); is {shown(time)} the time at "
        "which the prediction was due?",
    )


def read_before(time: str, inclusive: bool, schema: Schema, moments: Array, lengths: Array) -> str:
    """Return which events are read for a label, in words: those that were known by then, if that is another time.

    If some labels lie within units of the events' times, such as days, it says from when on the events of such a unit
    are read.

    Args:
        time: The column of the times.
        inclusive: Whether events at the very time are read.
        schema: The schema of the events.
        moments: `(m,)` the time of each label.
        lengths: `(n,)` the number of events of each row.
    """
    when, known = "up to and including" if inclusive else "before", " that were known" if schema.known_at else ""
    note = printable(f"Only events{known} {when} the time of each label, in {time!r}, are read")
    if not inclusive and (unit := schema.time_unit) is not None and (ends(schema, moments) != moments).any():
        note += f"; times of events are whole {unit}s, so an event is read from the beginning of the next {unit} on"
    empty = int((lengths == 0).sum())
    return f"{note}; {empty:,} of {len(lengths):,} rows have none." if empty else f"{note}."


def may_hold_times(types: Mapping[str, pa.DataType], schema: Schema, others: Collection[str]) -> list[str]:
    """Return the columns of a table beside some others that may hold times of the events' kind, by their types."""
    kinds = ("time", "text") if schema.clock else ("integer", "float")
    return [name for name, kind in types.items() if name not in others and coding.kind_of(kind) in kinds]


def readable(table: Tabular, columns: Iterable[str]) -> Source:
    """Return a table as a source; of a data frame, without columns beside the named ones that Arrow cannot hold.

    Of such columns of pandas, those with times become text, so they are not taken for anything else.
    """
    frame: Any = table
    try:
        return open_source(frame)
    except DataError:
        if not (is_pandas(frame) or isinstance(frame, pl.DataFrame)):
            raise
    others = [name for name in frame.columns if not (str(name) in columns or _is_readable(frame[[name]]))]
    timed = [name for name in others if any(isinstance(value, date) for value in frame[name])]
    if timed and is_pandas(frame):
        frame = frame.assign(**{name: frame[name].astype("string") for name in timed})
        others = [name for name in others if name not in timed]
    return open_source(frame[[name for name in frame.columns if name not in others]])


def _is_readable(table: Tabular) -> bool:
    try:
        open_source(table)
    except DataError:
        return False
    return True
