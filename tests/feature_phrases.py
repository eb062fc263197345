"""Phrases about features by a loop over raw events, and rows for which they are told."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch

from eventvec.encoders.handcrafted import MOMENT
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Numeric, Schema
from eventvec.sequences import Sequences

LENGTHS = [0, 1, 1, 2, 3, 5, 9, 14, 40, 45]
UNITS = {"date": 86_400_000_000, "timestamp": 1_234_567, "integer": 1, "float": 0.25}
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?(?= (days?|hours?|minutes?|seconds?)\b)?")


def a_schema(kind: str) -> Schema:
    shop, till = Categorical("shop", ("tea", "oil", "a: last 3")), Categorical("till", (), buckets=3)
    return Schema(
        "card", "when", kind, categorical=(shop, till), numeric=(Numeric("paid"), Numeric("kept", log=False)),
        bags=(Categorical("tags", ("red", "blue")),),
    )  # fmt: skip


def rows_of(kind: str, lengths: list[int], seed: int = 0) -> Sequences:
    """Return rows with ties, missing and unknown values, numbers of both signs, and codes of few kinds."""
    rng, total = np.random.default_rng(seed), sum(lengths)
    sizes = torch.tensor(lengths)
    steps = rng.integers(0, 4, total) * rng.choice([0, 1, 1, 7, 500], total)
    time = torch.from_numpy(steps.cumsum() * UNITS[kind])
    columns = {name: torch.from_numpy(rng.integers(0, 5, total).astype(np.int32)) for name in ("shop", "till")}
    columns["shop"][-95:-60] = 2  # one row of one value
    for name, spread in (("paid", 500.0), ("kept", 3.0)):
        drawn = rng.normal(1, spread, total).round(1).astype(np.float32)
        drawn[rng.random(total) < 0.4] = np.nan
        columns[name] = torch.from_numpy(drawn)
    inner = torch.from_numpy(rng.integers(0, 3, total))
    tags = {"code": torch.from_numpy(rng.integers(0, 4, int(inner.sum())).astype(np.int32))}
    columns["tags"] = Sequences(tags, inner.cumsum(0) - inner, inner)
    later = torch.from_numpy(rng.integers(0, 90, len(lengths)) * UNITS[kind])
    ends = (sizes.cumsum(0) - 1).clamp(min=0)
    return Sequences({"time": time, **columns}, sizes.cumsum(0) - sizes, sizes, {MOMENT: time[ends] + later})


def lasting(value: float, schema: Schema) -> str:
    """Return a length of time with all its digits."""
    units = {"day": 86_400, "hour": 3600, "minute": 60} if schema.clock else {}
    for unit, length in units.items():
        if value >= length or (schema.time_kind == "date" and not value):
            return f"{value / length!r} {unit}s"
    return f"{value!r} seconds" if schema.clock else f"{value!r}"


def ago(what: str, value: float, schema: Schema) -> str:
    if not schema.clock:
        return f"the time since {what} is {value!r}"
    return f"{what} was {lasting(value, schema)} before" if value else f"{what} was at the moment of prediction"


def some(k: int, n: int, of: str, none: str) -> tuple[str, str]:
    """Return the words for k of n events, and whether one or several are there."""
    if not k:
        return none, "has"
    if k == n > 1:
        return {"the": f"all of {of}", "all": of}.get(of[:3], f"all {of}"), "have"
    return ("the only event", "has") if n == 1 else (f"{k} of {of}", "has" if k == 1 else "have")


class Row:
    """The phrases about the features of one row, from its events."""

    def __init__(self, x: Sequences, row: int, schema: Schema) -> None:
        one = x[[row]]
        self.schema = schema
        self.n = int(one.lengths)
        self.events = {name: one.values(name).tolist() for name in ("time", "shop", "till", "paid", "kept")}
        self.time, self.moment = self.events["time"], one.static[MOMENT].item()
        self.unit = 1e6 if schema.clock else 1
        first, last = (self.time[0], self.time[-1]) if self.n else (0, 0)
        self.first, self.last = first, last
        self.late = [2 * (last - t) <= last - first for t in self.time]

    def phrases(self) -> dict[str, str]:
        return dict([*self.of_times(), *self.of_numbers(), *self.of_codes()])

    def whole(self, k: int) -> tuple[str, str]:
        return some(k, self.n, f"{self.n} events", "no event")

    def of_last(self, k: int, count: int) -> tuple[str, str]:
        of = f"the last {count} events" if self.n >= count else f"all {self.n} events"
        return some(k, min(self.n, count), of, "no event" if self.n < max(count, 2) else f"none of {of}")

    def of_times(self) -> Iterator[tuple[str, str]]:
        n, time, one = self.n, self.time, "there is only one event"
        yield "events", "there is one event" if n == 1 else f"there are {n} events"
        different = len({*time})
        times = "one time" if different == 1 else f"{different} different times"
        yield "time: distinct", one if n == 1 else f"the events have {times}"
        span = lasting((self.last - self.first) / self.unit, self.schema)
        yield "time: span", one if n == 1 else f"the time from the first event to the last is {span}"
        gaps = [(b - a) / self.unit for a, b in pairwise(time)]
        for name, words, value in (
            ("mean", "the mean time from one event to the next", statistics.fmean),
            ("max", "the longest time from one event to the next", max),
            ("last", "the time between the last two events", lambda gaps: gaps[-1]),
            ("median", "the median time from one event to the next", statistics.median),
        ):
            yield f"gap: {name}", f"{words} is {lasting(value(gaps), self.schema)}" if gaps else one
        deviation = lasting(statistics.stdev(gaps), self.schema) if n > 2 else ""
        words = f"the standard deviation of the times from one event to the next is {deviation}"
        yield "gap: std", one if n == 1 else "there are only two events" if n == 2 else words
        yield "time: recency", ago("the last event", (self.moment - self.last) / self.unit, self.schema)
        yield "time: tenure", ago("the first event", (self.moment - self.first) / self.unit, self.schema)
        for part, k in (("half", 2), ("quarter", 4), ("tenth", 10)):
            events, has = self.whole(sum(k * (self.last - t) <= self.last - self.first for t in time))
            be = "is" if has == "has" else "are"
            yield f"time: share in last {part}", f"{events} {be} in the last {part} of the time"
            events, has = self.whole(sum(k * (self.moment - t) <= self.moment - self.first for t in time))
            be = "is" if has == "has" else "are"
            text = f"{events} {be} in the last {part} of the time up to the prediction"
            yield f"time: share in {part} to moment", text
            yield f"time: rate in {part} to moment", f"{text}, where an even rate gives {n / k!r}"
        for count, words in ((3, "third"), (10, "10th"), (30, "30th")):
            what = f"the {words} last event" if n >= count else "the first event"
            since = (self.moment - time[-count:][0]) / self.unit
            yield f"time: since last {count}", ago(what, since, self.schema)

    def of_numbers(self) -> Iterator[tuple[str, str]]:
        for name in ("paid", "kept"):
            values = self.events[name]
            there = [value for value in values if value == value]
            events, has = self.whole(len(there))
            yield f"{name}: count", f"{events} {has} a value of {name}"
            yield f"{name}: sum", f"the sum of {name} is {sum(there)!r}"
            yield f"{name}: missing", f"{name} is missing in {self.whole(self.n - len(there))[0]}"
            few = [f"no event has a value of {name}", f"only one event has a value of {name}"]
            for feature, text in statistics_of(name, there, few):
                yield f"{name}: {feature}", text
            early, late = ([v for v, is_late in zip(values, self.late, strict=True) if v == v and is_late is half]
                           for half in (False, True))  # fmt: skip
            difference = statistics.fmean(late) - statistics.fmean(early) if early and late else 0
            side = "higher" if difference > 0 else "lower"
            change = (
                f"the mean of {name} is {abs(difference)!r} {side} in the later half of the time than in the earlier"
            )
            if not (early and late):
                change = f"the mean of {name} is the same in both halves of the time, or one half has no value"
            yield f"{name}: change", change if there else few[0]
            times = [t - self.first for t, v in zip(self.time, values, strict=True) if v == v]
            slope = f"a line fitted to {name} is level, or {name} has values at fewer than two times"
            if len({*times}) > 1:
                rise = float(np.polyfit(np.array(times) / (self.last - self.first), there, 1)[0])
                side = "rises" if rise > 0 else "falls"
                slope = f"a line fitted to {name} {side} by {abs(rise)!r} from the first event to the last"
            yield f"{name}: slope", slope if there else few[0]
            yield from self.of_last_numbers(name)

    def of_last_numbers(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the phrases about the numbers of the last events; how many are missing there is known of no row."""
        values = self.events[name]
        none_at_all, none_missing = all(v != v for v in values), all(v == v for v in values)
        for count in (3, 10, 30):
            last = [v for v in values[-count:] if v == v]
            of = f"the last {count} events" if self.n >= count else f"all {self.n} events"
            of = "the only event" if self.n == 1 else of
            only = "only one event" if self.n == 1 else f"only one of {of}"
            none = "no event" if self.n == 1 else f"none of {of}"
            few = [f"{none} has a value of {name}", f"{only} has a value of {name}"]
            for feature, text in statistics_of(f"{name} over {of}", last, few):
                words = text
                if text in few and not (none_at_all or none_missing):
                    start = {"mean": "the mean of", "std": "the standard deviation of", "min": "the smallest",
                             "max": "the largest", "last": ""}[feature]  # fmt: skip
                    unsure = f"fewer than two of them have a value of {name}"
                    unsure = unsure if feature == "std" else f"none of them has a value of {name}"
                    words = f"{start} {name} over {of} is 0, or {unsure}"
                if feature != "last":
                    yield f"{name}: {feature} of last {count}", words

    def of_codes(self) -> Iterator[tuple[str, str]]:
        for column in self.schema.categorical:
            yield from self.of_column(column)
            for place, value in enumerate(column.values):
                yield from self.of_value(column.name, value, place + FIRST)

    def of_column(self, column: Categorical) -> Iterator[tuple[str, str]]:
        name, codes = column.name, self.events[column.name]
        there = [code for code in codes if code != MISSING]
        yield f"{name}: missing", f"{name} is missing in {self.whole(self.n - len(there))[0]}"
        unknown = codes.count(UNKNOWN)
        yield f"{name}: unknown", f"{name} has an unknown value in {self.whole(unknown)[0]}"
        alike = ", with unknown values counted as one" if unknown else ""
        alike = ", with the values in one bucket counted as one" if column.buckets else alike
        pairs = [(a, b) for a, b in pairwise(codes) if MISSING not in (a, b)]
        share = sum(a == b for a, b in pairs) / max(len(pairs), 1)
        repeated = f"{100 * share!r} % of the values of {name} repeat that of the event before{alike}"
        yield f"{name}: repeated", repeated if share else f"no value of {name} repeats that of the event before"
        share = sum(code in there[:i] for i, code in enumerate(there)) / max(len(there), 1)
        before = f"{100 * share!r} % of the values of {name}" if share else f"no value of {name}"
        yield f"{name}: seen before", f"{before} came before in the history{alike}"
        counts, missing = Counter(there), f"{name} is missing in every event"
        values = "one value" if len(counts) == 1 else f"{len(counts)} different values"
        yield f"{name}: distinct", f"{name} has {values}{alike}" if there else missing
        top = f"the most frequent {name} has {100 * max(counts.values(), default=0) / max(len(there), 1)!r} %"
        yield f"{name}: top share", f"{top} of its values{alike}" if there else missing
        entropy = -sum(c / len(there) * math.log(c / len(there)) for c in counts.values())
        varied = f"{name} is as varied as {math.exp(entropy)!r} equally frequent values"
        yield f"{name}: entropy", f"{varied if len(counts) > 1 else f'{name} does not vary'}{alike}"

    def of_value(self, name: str, value: str, code: int) -> Iterator[tuple[str, str]]:
        condition, words = f"{name}={value}", f"{name} {value}"
        has = [each == code for each in self.events[name]]
        events, verb = self.whole(sum(has))
        yield f"{condition}: count", f"{events} {verb} {words}"
        yield f"{condition}: share", f"{events} {verb} {words}"
        yield f"{condition}: last", f"the last event {'has' if has[-1] else 'does not have'} {words}"
        since = (self.last - max((t for t, is_so in zip(self.time, has, strict=True) if is_so), default=0)) / self.unit
        text = f"the time from the last event with {words} to the last event is {lasting(since, self.schema)}"
        yield f"{condition}: since", text if any(has) else f"no event has {words}"
        late = [is_so for is_so, is_late in zip(has, self.late, strict=True) if is_late]
        there, of = 100 * sum(late) / len(late), "of the events in the later half of the time"
        text = f"{there!r} % {of} have {words}" if there else f"none {of} has {words}"
        yield f"{condition}: share of late half", text
        for count in (3, 10, 30):
            events, verb = self.of_last(sum(has[-count:]), count)
            yield f"{condition}: share of last {count}", f"{events} {verb} {words}"
        for number in ("paid", "kept"):
            yield from self.of_numbers_with(number, condition, words, has)

    def of_numbers_with(self, number: str, condition: str, words: str, has: list[bool]) -> Iterator[tuple[str, str]]:
        values = self.events[number]
        both = [(v, late) for v, is_so, late in zip(values, has, self.late, strict=True) if is_so and v == v]
        none_missing = all(v == v for v in values)
        few = [f"no event has {words}"] * 2
        if any(has):
            few = [f"{some} has {words} and a value of {number}" for some in ("no event", "only one event")]
        unsure = [few[0], f"fewer than two events have {words} and a value of {number}"]
        for feature, text in statistics_of(f"{number} with {words}", [v for v, _ in both], few):
            start = {"mean": "the mean of", "std": "the standard deviation of", "min": "the smallest",
                     "max": "the largest", "last": "the last"}[feature]  # fmt: skip
            if text in few and any(has) and not none_missing:
                text = f"{start} {number} with {words} is 0, or {unsure[feature == 'std']}"
            yield f"{number} where {condition}: {feature}", text
        late, where = [v for v, is_late in both if is_late], f"{number} with {words} in the later half of the time"
        text = f"the mean of {where} is {statistics.fmean(late) if late else 0!r}"
        text = text if late else f"{text}, or {few[0]}"
        yield f"{number} where {condition}: late mean", text if any(has) else few[0]


def statistics_of(what: str, values: list[float], few: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the statistics of values with their phrases."""
    for feature, words, value, least in (
        ("mean", "the mean of", statistics.fmean, 1), ("std", "the standard deviation of", statistics.stdev, 2),
        ("min", "the smallest", min, 1), ("max", "the largest", max, 1), ("last", "the last", lambda v: v[-1], 1),
    ):  # fmt: skip
        enough = len(values) >= least
        yield feature, f"{words} {what} is {value(values)!r}" if enough else few[len(values)]


def same(phrase: str, expected: str) -> bool:
    """Return whether two phrases have the same words, and numbers that are equal but for their digits."""
    blank = [re.sub(r"(day|hour|minute|second)s\b", r"\1", NUMBER.sub("#", text)) for text in (phrase, expected)]
    pairs = zip(NUMBER.finditer(phrase), NUMBER.finditer(expected), strict=False)
    close = (
        math.isclose(*(float(each[0].replace(",", "")) for each in pair), rel_tol=6e-3 if pair[0][1] else 6e-4)
        or ("%" in phrase and math.isclose(*(float(each[0].replace(",", "")) for each in pair), rel_tol=6e-3))
        for pair in pairs
    )
    return blank[0] == blank[1] and all(close)
