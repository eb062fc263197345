"""Sentences about histories: a reader that knows the wordings recomputes each fact from the events, with loops."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import eventvec as ev
from eventvec.describing.descriptions import sentences
from eventvec.describing.histories import Histories
from eventvec.describing.templates import TEMPLATES

HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
WORDS = {"Almost all": (0.9, 1.1), "Most": (0.5, 0.9), "Many": (0.25, 0.5), "Some": (0.1, 0.25)}
LENGTHS = [HOUR, DAY, 7 * DAY, 31 * DAY, 92 * DAY, 366 * DAY, 1096 * DAY]
LONG = ["an hour", "a day", "a week", "a month", "three months", "a year", "three years"]
PARTS = ["early on", "midway", "towards the end"]
QUARTERS = ["at night", "in the morning", "in the afternoon", "in the evening"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@dataclass
class Told:
    """One history, as lists, and what all of them have in common."""

    times: list[dt.datetime]
    codes: list[str | None]
    numbers: list[float]
    all_numbers: list[float] = field(default_factory=list)
    all_means: list[float] = field(default_factory=list)

    @property
    def span(self) -> dt.timedelta:
        return self.times[-1] - self.times[0]

    @property
    def gaps(self) -> list[dt.timedelta]:
        return [b - a for a, b in zip(self.times, self.times[1:], strict=False)]

    def later(self, time: dt.datetime) -> bool:
        return 2 * (time - self.times[0]) >= self.span

    def third(self, time: dt.datetime) -> int:
        return next(k for k in (2, 1, 0) if 3 * (time - self.times[0]) >= k * self.span)


def within(word: str, share: float) -> bool:
    low, high = WORDS[word]
    return low <= share < high


def band(text: str, number: int) -> bool:
    if match := re.fullmatch(r"(\d+) to (\d+)", text):
        return int(match[1]) <= number <= int(match[2])
    return number > 1000 if text == "more than 1,000" else number == int(text)


def present(values: list[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def quantile(values: list[float], q: float) -> float:
    return float(np.quantile(values, q))


def count(t: Told, number: str) -> bool:
    return band(number, len(t.times)) and len(t.times) > 1


def lies_within(t: Told, words: str) -> bool:
    place = LONG.index(words)
    return len(t.times) > 1 and t.span <= LENGTHS[place] and (place == 0 or t.span > LENGTHS[place - 1])


def share(t: Told, word: str, code: str) -> bool:
    counts = Counter(code for code in t.codes if code)
    first = sorted(counts, key=lambda each: (-counts[each], ORDER.index(each)))[:3]
    return len(t.times) > 1 and code in first and within(word, counts[code] / len(t.times))


def variety(t: Told, number: str) -> bool:
    known = [code for code in t.codes if code]
    return len(known) > 1 and len(set(known)) > 1 and band(number, len(set(known)))


def again(t: Told, code: str) -> bool:
    return comes_next(t, code, code)


def comes_next(t: Told, before: str, after: str) -> bool:
    pairs = [(a, b) for a, b in zip(t.codes, t.codes[1:], strict=False) if a == before]
    hits = sum(b == after for _, b in pairs)
    anywhere = t.codes.count(after) / len(t.codes)
    return hits >= 3 and 2 * hits >= len(pairs) and hits / len(pairs) >= 2 * anywhere - 1e-12


def silence(t: Told, part: str) -> bool:
    gaps = t.gaps
    for place, gap in enumerate(gaps):
        middle = t.times[place] + gap / 2
        long = gap == max(gaps) and 4 * gap >= t.span and gap >= 5 * statistics.median(gaps) and gap > 0 * DAY
        if len(gaps) >= 4 and long and t.third(middle) == PARTS.index(part):
            return True
    return False


def steady(t: Told) -> bool:
    return len(t.gaps) >= 5 and statistics.median(t.gaps) > 0 * DAY and max(t.gaps) <= 2 * statistics.median(t.gaps)


def burst(t: Told, part: str) -> bool:
    for place, begin in enumerate(t.times):
        inside = sum(20 * (time - begin) <= t.span for time in t.times[place:])
        if inside >= 4 and 4 * inside >= len(t.times) and t.span > 0 * DAY and t.third(begin) == PARTS.index(part):
            return True
    return False


def busier(t: Told, word: str) -> bool:
    late = sum(map(t.later, t.times))
    early = len(t.times) - late
    return len(t.times) >= 4 and t.span > 0 * DAY and (late >= 2 * early if word == "more" else early >= 2 * late)


def changed(t: Told, code: str, words: str) -> bool:
    late = sum(t.later(time) for time, each in zip(t.times, t.codes, strict=True) if each == code)
    number = t.codes.count(code)
    early = number - late
    return (
        t.span > 0 * DAY
        and {
            "stops": number >= 3 and late == 0,
            "sets in late": number >= 3 and early == 0,
            "becomes more frequent": number >= 4 and early > 0 and late >= 2 * early,
            "becomes less frequent": number >= 4 and late > 0 and early >= 2 * late,
        }[words]
    )


def level(t: Told, word: str, side: str) -> bool:
    values, edge = present(t.numbers), quantile(t.all_numbers, 0.75 if side == "high" else 0.25)
    hits = [value > edge if side == "high" else value < edge for value in values]
    return len(values) > 1 and 2 * sum(hits) >= len(hits) and within(word, sum(hits) / len(hits))


def average(t: Told, side: str) -> bool:
    values = present(t.numbers)
    if not values:
        return False
    mean = statistics.fmean(values)
    return mean > quantile(t.all_means, 0.9) if side == "higher" else mean < quantile(t.all_means, 0.1)


def trend(t: Told, side: str) -> bool:
    values = present(t.numbers)
    half = (len(values) + 1) // 2
    if len(values) < 6 or statistics.pstdev(values) == 0:
        return False
    step = (statistics.fmean(values[half:]) - statistics.fmean(values[:half])) / statistics.pstdev(values)
    return step >= 0.8 if side == "rises" else step <= -0.8


def mostly(t: Told, word: str, inside: Callable[[dt.datetime], bool]) -> bool:
    part = sum(map(inside, t.times)) / len(t.times)
    return len(t.times) >= 4 and part >= 0.5 and within(word, part)


SHARE = "(Almost all|Most|Many|Some)"
READINGS: dict[str, Callable[..., bool]] = {
    r"There is one event\.": lambda t: len(t.times) == 1,
    r"There are (.+) events\.": count,
    r"All events lie within (.+)\.": lies_within,
    r"All events are spread over more than three years\.": lambda t: t.span > LENGTHS[-1],
    rf"{SHARE} events have the shop (\w+)\.": share,
    r"The shop is always the same\.": lambda t: len([c for c in t.codes if c]) > 1 and len({*t.codes} - {None}) == 1,
    r"The shop has (.+) different values\.": variety,
    r"The first event has the shop (\w+)\.": lambda t, code: t.codes[0] == code,
    r"The last event has the shop (\w+)\.": lambda t, code: t.codes[-1] == code,
    r"The shop (\w+) tends to come several times in a row\.": again,
    r"After the shop (\w+), (\w+) usually comes next\.": comes_next,
    r"There is a long silence (.+)\.": silence,
    r"The events come at steady intervals\.": steady,
    r"Many events come in a burst (.+)\.": burst,
    r"Events become (more|less) frequent over time\.": busier,
    r"The shop (\w+) (stops|sets in late|becomes more frequent|becomes less frequent)\.": changed,
    rf"{SHARE} events have a (high|low) price\.": level,
    r"On average, the price is (higher|lower) than in nine of ten histories\.": average,
    r"The price (rises|falls) over time\.": trend,
    rf"{SHARE} events are on weekends\.": lambda t, word: mostly(t, word, lambda time: time.weekday() >= 5),
    rf"{SHARE} events are on ({'|'.join(DAYS)})s\.": lambda t, word, day: mostly(
        t, word, lambda time: DAYS[time.weekday()] == day
    ),
    rf"{SHARE} events are ({'|'.join(QUARTERS)})\.": lambda t, word, part: mostly(
        t, word, lambda time: QUARTERS[time.hour // 6] == part
    ),
}
"""The wordings, and whether a history is as they say."""


def holds(sentence: str, told: Told) -> bool:
    """Return whether a sentence is true; one that cannot be read is an error."""
    for wording, check in READINGS.items():
        if match := re.fullmatch(wording, sentence):
            return check(told, *match.groups())
    raise AssertionError(f"cannot be read: {sentence}")


ORDER: list[str] = []
"""The codes in the order of their vocabulary, which decides between equally frequent ones."""


def events_of(histories: list[Told]) -> pl.DataFrame:
    return pl.DataFrame({
        "card": [k for k, told in enumerate(histories) for _ in told.times],
        "when": [time for told in histories for time in told.times],
        "mcc": [code for told in histories for code in told.codes],
        "amount": [value for told in histories for value in told.numbers],
    }, schema_overrides={"when": pl.Datetime("us"), "mcc": pl.String, "amount": pl.Float64})  # fmt: skip


def random_histories(seed: int, n: int = 60) -> list[Told]:
    """Return histories with bursts, silences, runs of codes, gaps of all lengths, ties and missing values."""
    rng = np.random.default_rng(seed)
    histories = []
    for _ in range(n):
        events = int(rng.choice([1, 2, 3, 5, 8, 14, 30]))
        scale = float(rng.choice([60, 3600, 86400, 9e5, 8e6]))
        gaps = rng.exponential(scale, events) * rng.choice([0, 1, 1, 1, 30], events)
        gaps = np.full(events, round(scale)) if rng.random() < 0.2 else gaps
        begin = dt.datetime(2021, 1, 1) + int(rng.integers(0, 10**7)) * dt.timedelta(seconds=1)
        times = [begin + dt.timedelta(seconds=int(part)) for part in np.cumsum(gaps)]
        kinds = list("abcde")[: int(rng.integers(1, 6))]
        codes: list[Any] = [kinds[min(int(rng.exponential(1.2)), len(kinds) - 1)] for _ in times]
        codes = sorted(codes) if rng.random() < 0.3 else codes
        codes = [None if rng.random() < 0.05 else code for code in codes]
        numbers = rng.normal(rng.normal(0, 2), 1, events) + np.arange(events) * rng.choice([0, 0, 0.3, -0.3])
        numbers[rng.random(events) < 0.1] = np.nan
        histories.append(Told(times, codes, [float(np.float32(value)) for value in numbers]))
    everything = [value for told in histories for value in present(told.numbers)]
    means = [statistics.fmean(present(told.numbers)) for told in histories if present(told.numbers)]
    for told in histories:
        told.all_numbers, told.all_means = everything, means
    return histories


NAMES = {"mcc": "shop", "amount": "price"}


def read(histories: list[Told]) -> ev.Dataset:
    options, every = {"categorical": ["mcc"], "numeric": ["amount"]}, ev.Fitting(min_count=1)
    data = ev.read(events_of(histories), key="card", time="when", fitting=every, **options)
    ORDER[:] = data.schema.categorical[0].values
    return data


def described(histories: list[Told], **of_describe: Any) -> pl.DataFrame:
    return ev.describe(read(histories), names=NAMES, **of_describe)


@pytest.mark.parametrize("seed", range(6))
def test_a_history_has_exactly_the_sentences_that_are_true_of_it(seed: int) -> None:
    histories = random_histories(seed)
    table = described(histories, most=10_000)
    said = {(key, sentence) for key, sentence in table.select("card", "sentence").iter_rows()}
    distinct = set(table["sentence"])
    assert len(distinct) > 60
    for key, told in enumerate(histories):
        for sentence in distinct:
            assert holds(sentence, told) == ((key, sentence) in said), (sentence, told)


@pytest.mark.parametrize("few", [1, 7, 30])
def test_some_histories_are_told_as_among_all_with_the_limits_of_all(few: int) -> None:
    data = read(random_histories(0))
    everyone = Histories.of(data, NAMES)
    limits = json.loads(json.dumps(everyone.limits))
    some = Histories.of(data[torch.arange(few)], NAMES, limits)
    expected = sentences(everyone).filter(pl.col("row") < few)
    assert sentences(some).sort("row", "place", "sentence").equals(expected.sort("row", "place", "sentence"))
    alone = sentences(Histories.of(data[torch.arange(few)], NAMES))
    assert not alone.sort("row", "place", "sentence").equals(expected.sort("row", "place", "sentence"))


def test_limits_are_those_of_the_histories_with_a_number() -> None:
    histories = random_histories(1)
    told = [each for each in histories if present(each.numbers)]
    limits = Histories.of(read(histories), NAMES).limits
    expected = [quantile(told[0].all_numbers, q) for q in (0.25, 0.75)]
    expected += [quantile(told[0].all_means, q) for q in (0.1, 0.9)]
    assert limits["amount"] == pytest.approx(expected)
    assert set(Histories.of(read(told[:20]), NAMES).limits) == {"amount"}
    assert Histories.of(read(told[:19]), NAMES).limits == {}


def test_random_histories_bring_up_every_wording() -> None:
    said = {sentence for seed in range(6) for sentence in described(random_histories(seed), most=10_000)["sentence"]}
    unused = [wording for wording in READINGS if not any(re.fullmatch(wording, sentence) for sentence in said)]
    assert unused == []


def test_the_most_telling_sentences_come_first() -> None:
    histories = random_histories(0)
    table, few = described(histories, most=10_000), described(histories, most=3)
    for key in range(len(histories)):
        shares = table.filter(pl.col("card") == key)["share"].to_list()
        assert shares == sorted(shares)
        assert few.filter(pl.col("card") == key).rows() == table.filter(pl.col("card") == key).rows()[:3]
    counts = Counter(table["sentence"])
    for sentence, share in table.select("sentence", "share").iter_rows():
        assert share == pytest.approx(counts[sentence] / len(histories))


@pytest.mark.parametrize(
    ("days", "sentence"),
    [
        ([0, 1, 1, 1, 20], "Many events come in a burst early on."),
        ([0, 1, 2, 3, 4, 20], "There is a long silence midway."),
        ([0, 1, 2, 3, 4, 5], "The events come at steady intervals."),
    ],
)
def test_facts_hold_at_their_very_bounds(days: list[int], sentence: str) -> None:
    times = [dt.datetime(2024, 1, 1) + day * DAY for day in days]
    told = Told(times, ["a"] * len(times), [1.0] * len(times))
    assert holds(sentence, told)
    assert sentence in described([told])["sentence"].to_list()


EVENTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab")), min_size=1, max_size=6)


@settings(max_examples=30, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=5))
def test_numbers_as_times_say_nothing_about_the_calendar(histories: list[list[tuple[int, str]]]) -> None:
    rows = [(k, time, code) for k, events in enumerate(histories) for time, code in sorted(events, key=lambda e: e[0])]
    table = pl.DataFrame(rows, schema=["id", "t", "code"], orient="row")
    said = ev.describe(ev.read(table, key="id", time="t", categorical=["code"]), most=100)
    assert set(said["id"]) == set(range(len(histories)))
    assert not any(re.search("lie within|night|weekend|days", sentence) for sentence in said["sentence"])


def test_codes_that_share_a_word_are_one() -> None:
    events = pl.DataFrame({"id": [1, 1, 1, 1], "t": [1, 2, 3, 4], "code": ["5411", "5412", "5411", "4111"]})
    data = ev.read(events, key="id", time="t", categorical=["code"], fitting=ev.Fitting(min_count=1))
    said = ev.describe(data, names={"5411": "food", "5412": "food"})["sentence"].to_list()
    assert "Most events have the code food." in said
    assert "The code has 2 different values." in said


def test_columns_may_be_called_like_anything() -> None:
    """Names of tables inside, and braces, which templates of said have too."""
    names = ["row", "place", "part", "late", "n", "k", "value", "span", "{x}", "{}"]
    events = pl.DataFrame({"id": [0] * 6, "t": range(6), **{name: list("aaabbb") for name in names}})
    data = ev.read(events, key="id", time="t", categorical=names, fitting=ev.Fitting(min_count=1))
    said = ev.describe(data, most=1_000)["sentence"].to_list()
    for name in names:
        assert f"The first event has the {name} a." in said
        assert f"The {name} a stops." in said
    numbers = {name: np.repeat(np.arange(40.0), 6) for name in names}
    events = pl.DataFrame({"id": np.repeat(np.arange(40), 6), "t": list(range(6)) * 40, **numbers})
    table = ev.describe(ev.read(events, key="id", time="t", numeric=names, categorical=[]), most=1_000)
    of_last = table.filter(pl.col("id") == 39)["sentence"].to_list()
    for name in names:
        assert f"Almost all events have a high {name}." in of_last
        assert f"On average, the {name} is higher than in nine of ten histories." in of_last


def test_a_template_of_ones_own_stands_beside_the_others() -> None:
    def long_one(h: Histories) -> pl.DataFrame:
        return h.rows.filter(pl.col("n") > 7).select(pl.col("row"), sentence=pl.lit("This is a regular."))

    histories = random_histories(1)
    table = described(histories, templates=[*TEMPLATES, long_one], most=10_000)
    regulars = set(table.filter(pl.col("sentence") == "This is a regular.")["card"])
    assert regulars == {key for key, told in enumerate(histories) if len(told.times) > 7}
    with pytest.raises(ev.ConfigError, match="the template 'wrong' must return a table with the columns row"):
        described(histories, templates=[wrong])


def wrong(h: Histories) -> pl.DataFrame:
    return h.rows


def test_histories_without_events_have_no_row_and_a_mistake_gets_a_sentence() -> None:
    histories = random_histories(2, 25)
    data = ev.read(events_of(histories), key="card", time="when", categorical=["mcc"], numeric=["amount"])
    rows, zero = torch.arange(len(data)), torch.zeros(len(data), dtype=torch.int64)
    none = ev.Dataset(data.keys, data.sequences.slice(rows, zero, zero), data.schema)
    some = ev.Dataset(data.keys, data.sequences.slice(rows, zero, data.sequences.lengths * (rows % 2)), data.schema)
    assert set(ev.describe(some)["card"]) == set(range(1, len(data), 2))
    with pytest.raises(ev.DataError, match="there is nothing to describe, because no history has an event"):
        ev.describe(none)
    with pytest.raises(ev.ConfigError, match="most must be at least 1"):
        ev.describe(data, most=0)
