"""`future_labels`: what happens to each entity in a horizon after times of the calendar."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import torch

from eventvec.dataset import Dataset, check_dataset, period
from eventvec.errors import ConfigError, DataError, nearest, shown
from eventvec.labels.conditions import Condition, conditions, field_of
from eventvec.labels.future_options import FutureOptions
from eventvec.labels.rules import listed_conditions, rule_text
from eventvec.options import accepts, as_table, gather
from eventvec.schema import Numeric, Schema, is_time_zone
from eventvec.sequences import Array, Sequences, searchsorted
from eventvec.tables import times
from eventvec.tables.cutoffs import ends
from eventvec.tables.label_times import KNOWN_AT, RULE
from eventvec.tables.outputs import MARK

KINDS = ("no_event", "event", "count", "time_to_next", "sum:COLUMN")
MONDAY = 4 * times.DAY  # 5 January 1970
MOST = 1_000_000
"""The largest number of snapshots of an entity."""
TOO_OFTEN = f"every must be above 0, and give at most {MOST:,} snapshots; name a longer time (--every)"


@accepts(FutureOptions)
def future_labels(data: Dataset, **options: Any) -> pa.Table:
    """Return labels of entities at several times each, snapshots, that say what happens to the entity afterwards.

    The horizon of a snapshot t is (t + gap, t + gap + horizon]. An entity has the snapshots after its first event, from
    which on it is observed, whose horizons end no later than `observed_until`. The other snapshots after its first
    event are censored: they are left out and counted.

    The table is what `embed` takes as cutoffs and `evaluate` as labels. Histories are the events strictly before t. So
    without a gap, an event exactly at t is neither in the history nor in the horizon, and no label reveals itself.

    Months and days of `gap` and `horizon` follow the calendar of the zone too: `30d` ends at the same time of the day,
    and `1mo` after 31 January ends on the last day of February. Times without a zone are taken as UTC.

    Args:
        data: The events, read without cutoffs. The vocabularies must have the categories of `where`.
        options: The fields of `FutureOptions`.

    Returns:
        The key, the time of the snapshot, named as in the events, and the label: bool, int64 for counts, or float64.
        Sums pass over missing numbers. The time to the next event is in seconds for calendar times, and null if none
        is in the horizon. `known_at` is the end of the horizon, after which the label is known. `rule` has the options
        as JSON, the same in each row, by which `EventClassifier` computes the earlier labels of an entity. The metadata
        has the options, the number of censored snapshots, and `notes` in sentences.

    Raises:
        ConfigError: If an option is not accepted, the histories were cut at cutoffs, or `observed_until` is not before
            a cut at `until`.
        DataError: If there is no event, or no snapshot whose horizon was observed.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [7, 7, 7, 8], "day": [1, 12, 29, 15], "paid": [3.0, 4.0, 5.0, 6.0]})
        >>> data = ev.read(events, key="card", time="day")
        >>> labels = ev.future_labels(data, every=10, horizon=9, label="sum:paid", where={"paid": ">3"})
        >>> pl.DataFrame(labels).drop("rule").rows()
        [(7, 10, 4.0, 19), (7, 20, 5.0, 29), (8, 20, 0.0, 29)]
    """
    for name in ("every", "horizon"):
        if name not in options:
            raise ConfigError(f"give {name}=, a length of time such as '1mo', or a number where times are numbers")
    chosen = listed_conditions(gather(options, FutureOptions))
    check_dataset(data)
    if data.moments is not None:
        raise ConfigError("the histories end at their cutoffs, but labels need later events; read the events without")
    schema, x = data.schema, data.sequences.to("cpu")
    rule = Rule.of(schema, chosen)
    _check_names(schema, rule.name)
    if (bounds := period(x)) is None:
        raise DataError("the data have no event, and an entity is observed from its first event on")
    observed = _observed_until(data, chosen.observed_until, bounds[1])
    grid = rule.snapshots(bounds[0], observed)
    is_known = grid["closes"] <= observed
    columns = {name: each[is_known] for name, each in grid.items()}
    snapshots = after_first_event(x, columns)
    censored = after_first_event(x, grid).total - snapshots.total
    if not snapshots.total:
        raise DataError(
            f"no snapshot was observed over its horizon ({censored:,} are censored); choose a shorter horizon= "
            "(--horizon) or every= (--every), or read more events"
        )
    parts = [rule.labels(x[block], snapshots[block]) for block in x.blocks(per_row=len(columns["time"]))]
    begin, known = (times.to_arrow(schema, snapshots.values(name).numpy()) for name in ("time", "closes"))
    table = {
        schema.key_out: data.keys.take(pa.array(snapshots.rows().numpy())),
        schema.time: begin,
        rule.name: pa.array(np.concatenate(parts), from_pandas=True),  # NaN becomes null
        KNOWN_AT: known,
        RULE: pa.DictionaryArray.from_arrays(np.zeros(snapshots.total, np.int32), pa.array([rule_text(chosen)])),
    }
    end = times.to_arrow(schema, np.array([observed]))[0]
    described = {
        "future_labels": as_table(chosen),
        "censored": censored,
        "notes": _notes(snapshots, censored, str(end)),
    }
    return pa.table(table).replace_schema_metadata({MARK: json.dumps(described, default=str)})


@dataclass(frozen=True, eq=False)
class Rule:
    """What `future_labels` says about a snapshot, for the columns of a schema.

    Args:
        options: The options; `observed_until` says which labels a table has, and no label depends on it.
        schema: What the columns of the events mean.
        name: The name of the label.
        summed: The column that is summed, if any.
        tests: The conditions of events that count.
        every: The distance of the snapshots.
        gap: The length of time before the horizon.
        horizon: The length of the horizon.
    """

    options: FutureOptions
    schema: Schema
    name: str
    summed: str | None
    tests: list[tuple[str, Condition]]
    every: times.Length
    gap: times.Length
    horizon: times.Length

    @staticmethod
    def of(schema: Schema, options: FutureOptions) -> Rule:
        """Return the rule, and refuse options that do not fit the schema."""
        kind, _, column = options.label.partition(":")
        if options.label not in KINDS[:-1] and (kind != "sum" or not column):
            raise ConfigError(f"label {shown(options.label)} is not known; {nearest(options.label, KINDS)}")
        if column and not isinstance(field_of(schema, column), Numeric):
            raise ConfigError(f"column {shown(column)} holds categories, which have no sum; name a column of numbers")
        if options.zone != "UTC" and schema.time_kind != "timestamp":
            raise ConfigError(f"zone is for timestamps, and the events hold times of the kind {schema.time_kind}")
        if not (options.zone and is_time_zone(options.zone)):
            zone = shown(options.zone)
            raise ConfigError(f"there is no time zone {zone}; accepted: names such as Europe/Berlin, or UTC")
        tests = conditions(schema, options.where or {})
        every, gap, horizon = (times.duration(schema, each) for each in (options.every, options.gap, options.horizon))
        if not any(every):
            raise ConfigError(TOO_OFTEN)
        if schema.time_kind == "date" and (every.days * times.DAY + every.rest) % times.DAY:
            raise ConfigError("every must be of whole days, because the events hold dates (--every)")
        if not any(horizon):
            raise ConfigError("horizon must be above 0, such as 90d (--horizon)")
        return Rule(options, schema, name_of_labels(options), column or None, tests, every, gap, horizon)

    def snapshots(self, first: int | float, last: int | float) -> dict[str, Array]:
        """Return `time`, ascending, of the snapshots after a time and up to another, and where each horizon `opens` and
        `closes`."""
        every, zone = self.every, self.options.zone
        step = every.days * times.DAY + every.rest
        if (last - first) / (every.months * 28 * times.DAY + step) > MOST:
            raise ConfigError(TOO_OFTEN)
        if not self.schema.clock:
            moments = _multiples(first, last, step)
        else:
            low, high = first - 2 * times.DAY, last + 2 * times.DAY  # zones differ by less
            if every.months:
                low, high = np.array([low, high], "datetime64[us]").astype("datetime64[M]").astype(np.int64).tolist()
                shown_times = _multiples(low, high, every.months).astype("datetime64[M]").astype("datetime64[us]")
            else:
                shown_times = (MONDAY + _multiples(low - MONDAY, high - MONDAY, step)).astype("datetime64[us]")
            moments = np.unique(times.in_utc(pl.Series(shown_times), zone))
        moments = moments[(moments > first) & (moments <= last)]
        opens = self.gap.after(moments, zone)
        return {"time": moments, "opens": opens, "closes": self.horizon.after(opens, zone)}

    def labels(self, x: Sequences, snapshots: Sequences) -> Array:
        """Return `(snapshots.total,)` the labels of the snapshots of the same rows, NaN where there is none."""
        fulfilled = torch.ones(x.total, dtype=torch.bool)
        for name, is_fulfilled in self.tests:
            fulfilled &= is_fulfilled(x.values(name))
        columns = {name: x.columns[name] for name in ("time", self.summed) if name is not None}
        counts = torch.bincount(x.rows()[fulfilled], minlength=len(x))
        events = Sequences(columns, x.starts, x.lengths).take(x.flat()[fulfilled], counts)
        each = events[snapshots.rows()]
        low, high = (searchsorted(each, "time", snapshots.values(name), right=True) for name in ("opens", "closes"))
        count: Array = (high - low).numpy()
        if self.options.label == "count":
            return count
        if self.options.label in ("event", "no_event"):
            happens: Array = count > 0
            return happens if self.options.label == "event" else ~happens
        begin, end = (each.starts + low).numpy(), (each.starts + high).numpy()
        if self.summed is None:
            since = np.append(events.values("time").numpy(), 0)[begin] - snapshots.values("time").numpy()
            return np.where(count > 0, since / (times.SECOND if self.schema.clock else 1), np.nan)
        numbers = np.append(events.values(self.summed).double().nan_to_num(0.0).numpy(), 0.0)
        sums = np.add.reduceat(numbers, np.stack([begin, end], 1).ravel())[::2] if len(begin) else begin
        return np.where(count > 0, sums, 0.0)


def _notes(snapshots: Sequences, censored: int, end: str) -> list[str]:
    """Return sentences about how many labels there are, and which are left out."""
    entities, every = int((snapshots.lengths > 0).sum()), len(snapshots)
    notes = [f"{snapshots.total:,} labels of {entities:,} entities at {len(snapshots.columns['time']):,} times"]
    if censored:
        notes.append(f"{censored:,} snapshots are left out: their horizons end after {end}, the last time observed")
    if entities < every:
        without = f"{every - entities:,} of {every:,} entities have no label"
        notes.append(f"{without}, because they have no event before the last of these times")
    return notes


def name_of_labels(options: FutureOptions) -> str:
    """Return the name of the column of labels."""
    return options.label.replace(":", "_") if options.name is None else options.name


def _check_names(schema: Schema, name: str) -> None:
    if len({name, schema.time, schema.key_out, KNOWN_AT, RULE}) < 5:
        raise ConfigError(
            f"the key, the time and the label need three names, none of them {KNOWN_AT!r} or {RULE!r}, got "
            f"{shown(schema.key_out)}, {shown(schema.time)} and {shown(name)}; choose other ones: name= (--name), "
            "key_as= (--key-as)"
        )


def _observed_until(data: Dataset, given: times.Instant | None, last: int | float) -> int | float:
    """Return the last time that was observed, by default that of the last event."""
    if given is None:
        return last
    observed, cut = times.instant(data.schema, given), data.origin.until
    if cut is not None and observed >= ends(data.schema, np.array([times.instant(data.schema, cut)]))[0]:
        raise ConfigError(
            f"observed_until={shown(given)} is not before until={shown(cut)}, from which on events were cut off; read "
            "the events without the cut, or name an earlier time"
        )
    return observed


def _multiples(low: int | float, high: int | float, step: int | float) -> Array:
    """Return the multiples of a number between two others, and the next lower one."""
    return np.arange(low // step, high // step + 1) * step


def after_first_event(x: Sequences, columns: Mapping[str, Array]) -> Sequences:
    """Return for each row the snapshots after its first event, as windows onto all of them, which are ascending."""
    moments, filled = columns["time"], x.lengths > 0
    starts = torch.full_like(x.starts, len(moments))
    firsts = Sequences(x.columns, x.starts, filled.long()).values("time")
    starts[filled] = torch.searchsorted(torch.from_numpy(moments), firsts, right=True)
    return Sequences({name: torch.from_numpy(each) for name, each in columns.items()}, starts, len(moments) - starts)
