"""Sentences about histories: each is true by a reader that recomputes its fact, and none that is true is left out."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import eventvec as ev
from eventvec.describing import histories as histories_module
from eventvec.describing.descriptions import sentences
from eventvec.describing.histories import Histories
from eventvec.describing.templates import TEMPLATES
from sentences import DAY, READINGS, read_out
from told import Told, limits_of, present


def events_of(histories: list[Told]) -> pl.DataFrame:
    return pl.DataFrame({
        "card": [k for k, told in enumerate(histories) for _ in told.times],
        "when": [time for told in histories for time in told.times],
        "mcc": [code for told in histories for code in told.codes],
        "amount": [value for told in histories for value in told.numbers],
    }, schema_overrides={"when": pl.Datetime("us"), "mcc": pl.String, "amount": pl.Float64})  # fmt: skip


def random_histories(seed: int, n: int = 60, apart: bool = False) -> list[Told]:
    """Return histories with bursts, silences, runs of codes, gaps of all lengths, ties and missing values.

    Args:
        apart: Whether the numbers differ by code, as in a table of (parameter, value).
    """
    rng = np.random.default_rng(seed)
    histories = []
    for _ in range(n):
        events = int(rng.choice([1, 2, 3, 5, 8, 10, 14, 30]))
        scale = float(rng.choice([60, 3600, 86400, 9e5, 8e6]))
        gaps = rng.exponential(scale, events) * rng.choice([0, 1, 1, 1, 30], events)
        gaps = np.full(events, round(scale)) if rng.random() < 0.2 else gaps
        gaps = 0 * gaps if rng.random() < 0.08 else gaps
        begin = dt.datetime(2021, 1, 1) + int(rng.integers(0, 10**7)) * dt.timedelta(seconds=1)
        times = [begin + dt.timedelta(seconds=int(part)) for part in np.cumsum(gaps)]
        kinds = list("abcdefghij")[: int(rng.choice([1, 2, 3, 4, 5, 10]))]
        codes: list[Any] = [kinds[min(int(rng.exponential(1.2)), len(kinds) - 1)] for _ in times]
        codes = sorted(codes) if rng.random() < 0.3 else codes
        if len(kinds) == 10:
            codes = [kinds[k % 10] for k in rng.permutation(events)]
        if rng.random() < 0.2:  # pairs of events at the same time
            times, codes = [times[k // 2 * 2] for k in range(events)], ["ab"[k % 2] for k in range(events)]
        codes = [None if rng.random() < 0.05 else code for code in codes]
        numbers = rng.normal(rng.normal(0, 2), 1, events) + np.arange(events) * rng.choice([0, 0, 0.3, -0.3])
        numbers = np.ones(events) if rng.random() < 0.1 else numbers
        numbers += apart * 20 * np.array([ord(code) - ord("a") if code else 0 for code in codes])
        numbers[rng.random(events) < 0.1] = np.nan
        histories.append(Told(times, codes, [float(np.float32(value)) for value in numbers]))
    order = read(histories).schema.categorical[0].values
    for told in histories:
        told.apart, told.order = apart, list(order)
    limits = limits_of(histories)
    for told in histories:
        told.limits = limits
    return histories


EVERY = ev.Fitting(min_count=1)
NAMES = {"mcc": "shop", "amount": "price"}


def read(histories: list[Told]) -> ev.Dataset:
    options = {"categorical": ["mcc"], "numeric": ["amount"]}
    return ev.read(events_of(histories), key="card", time="when", fitting=EVERY, **options)


def described(histories: list[Told], **of_describe: Any) -> pl.DataFrame:
    return ev.describe(read(histories), names=NAMES, **of_describe)


@pytest.mark.parametrize(("seed", "apart"), [(seed, seed >= 4) for seed in range(7)])
def test_a_history_has_exactly_the_sentences_that_are_true_of_it(seed: int, apart: bool) -> None:
    histories = random_histories(seed, apart=apart)
    table = described(histories, most=10_000)
    said = {(key, sentence) for key, sentence in table.select("card", "sentence").iter_rows()}
    distinct = set(table["sentence"])
    assert len(distinct) > 100
    for sentence in distinct:
        holds = read_out(sentence)
        for key, told in enumerate(histories):
            assert holds(told) == ((key, sentence) in said), (sentence, told)


@pytest.mark.parametrize("few", [7, 15, 30])
def test_some_histories_are_told_as_among_all_with_the_limits_of_all(few: int) -> None:
    data = read(random_histories(0))
    everyone = Histories.of(data, NAMES)
    limits = json.loads(json.dumps(everyone.limits))
    some = Histories.of(data[torch.arange(few)], NAMES, limits)
    expected = sentences(everyone).filter(pl.col("row") < few)
    assert sentences(some).sort("row", "place", "sentence").equals(expected.sort("row", "place", "sentence"))
    alone = sentences(Histories.of(data[torch.arange(few)], NAMES))
    assert not alone.sort("row", "place", "sentence").equals(expected.sort("row", "place", "sentence"))


@pytest.mark.parametrize("block", [1, 40, 10_000])
def test_histories_are_told_in_blocks_as_all_at_once(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = Histories.of(read(random_histories(1, 24)), NAMES)
    expected = sentences(everyone).sort("row", "place", "sentence")
    monkeypatch.setattr(histories_module, "BLOCK", block)
    assert (len(list(everyone.blocks())) > 1) == (block < 10_000)
    assert sentences(everyone).sort("row", "place", "sentence").equals(expected)


@pytest.mark.parametrize("apart", [False, True])
def test_limits_are_those_of_the_histories_with_enough_numbers(apart: bool) -> None:
    histories = random_histories(1, 200, apart)
    names = {f"amount: {code}" if apart else "amount": numbers for code, numbers in histories[0].limits.items()}
    limits = dict(Histories.of(read(histories), NAMES).limits)
    assert (limits.pop("amount, by mcc")[0] >= 0.5) == apart
    assert len(names) == len(limits) == (2 if apart else 1)
    for name, numbers in names.items():
        assert limits[name] == pytest.approx(numbers)


def test_numbers_at_a_limit_are_not_beyond_it() -> None:
    data = read([Told([dt.datetime(2024, 1, day) for day in (1, 2)], ["a", "a"], [1.0, 1.0])])
    for limit, expected in ((1.0, 0), (0.5, 2), (1.5, 2)):
        said = sentences(Histories.of(data, NAMES, {"amount": [limit] * 4}), TEMPLATES)["sentence"]
        assert said.str.contains("price").sum() == expected


def test_fewer_than_twenty_histories_have_no_limits() -> None:
    told = [each for each in random_histories(1) if present(each.numbers)]
    assert "amount" in Histories.of(read(told[:20]), NAMES).limits
    assert "amount" not in Histories.of(read(told[:19]), NAMES).limits


def test_numbers_that_differ_by_chance_between_rare_codes_are_those_of_all_events() -> None:
    rng = np.random.default_rng(0)
    codes = [f"c{k}" for k in rng.permutation(np.arange(300) // 2)]
    for size, expected in ((0.0, None), (10.0, "code")):
        numbers = rng.normal(size=300) + size * np.array([int(code[1:]) % 7 for code in codes])
        events = pl.DataFrame({"id": np.arange(300) // 10, "t": range(300), "code": codes, "number": numbers})
        data = ev.read(events, key="id", time="t", categorical=["code"], numeric=["number"], fitting=EVERY)
        assert Histories.of(data, {}).parameters == expected


def test_random_histories_bring_up_every_wording() -> None:
    tables = [described(random_histories(seed, apart=seed >= 4), most=10_000) for seed in range(7)]
    said = {sentence for table in tables for sentence in table["sentence"]}
    unused = [wording for wording in READINGS if not any(re.fullmatch(wording, sentence) for sentence in said)]
    assert unused == []
    for words in ("have a (high|low) price", "the price with .* than in nine of ten", "price with .* over time"):
        assert any(re.search(words, sentence) for sentence in said if " with the shop " in sentence)


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
    ("days", "codes", "sentence"),
    [
        ([0, 1, 1, 1, 20], "aaaaa", "Many events come in a burst early on."),
        ([0, 1, 1, 1, 20], "aaaba", "In a burst, most events have the shop a."),
        ([0, 1, 2, 3, 4, 20], "aaaaaa", "There is a long silence midway."),
        ([0, 1, 2, 3, 6], "aaaaa", "There is a long silence towards the end."),
        ([*range(10), 12], "a" * 11, "There is a long silence towards the end."),
        ([*range(12)], "abacabacabcd", "After the shop a, b usually comes next."),
        ([*range(16), 21], "a" * 17, "There is a long silence towards the end."),
        ([*range(6), *range(15, 31)], "a" * 22, "There is a long silence midway."),
        ([*range(16), *range(25, 31)], "a" * 22, "There is a long silence towards the end."),
        ([0, 10, 20, 30, 40, 59], "aaaaaa", "The events come at steady intervals."),
        ([0, 1, 2, 3, 13], "aaaaa", "The intervals between events vary widely."),
        ([0, 1, 2, 3, 5, 7, 9], "aaaaaaa", "The intervals between events become longer."),
        ([0, 2, 4, 6, 7, 8, 9], "aaaaaaa", "The intervals between events become shorter."),
        ([*range(11)], "aaaaaaaaaaa", "There is no long silence."),
        ([0, 0, 3, 6, 8, 9, 9, 9, 9, 9], "aaaaaaaaaa", "Few events are midway."),
        ([0, 1, 3, 4, 5, 6, 7, 9, 11, 12], "aaaaaaaaaa", "The events are spread evenly over the whole time."),
        ([*range(6)], "aaaaaa", "The events are spread evenly over the whole time."),
        ([0, 3, 3, 4], "aaaa", "Events become more frequent over time."),
        ([0, 0, 2, 2, 4, 4, 6, 6, 8, 10], "aaaaaaaaaa", "The events do not cluster."),
        ([0, 1, 2, 3, 3], "abbcc", "Most events are towards the end."),
        ([0, 1, 2, 3, 4], "aaaab", "All events have the shop a or b."),
        ([0, 1, 2, 3], "aaab", "All events have the shop a or b."),
        ([*range(10)], "aaaaaaabbc", "Almost all events have the shop a or b."),
        ([0, 1, 2, 3, 4, 5, 6], "aaabbcd", "The shop a is the most frequent, without a majority."),
        ([*range(8)], "abcdefgh", "No shop dominates."),
        ([*range(12)], "abcdaaaaabbb", "The shop varies a lot."),
        ([*range(20)], "ab" * 10, "The shop has few different values."),
        ([*range(5)], "abcde", "The shop becomes more varied over time."),
        ([0, 1, 2, 8], "abcd", "The shop becomes less varied over time."),
        ([*range(13)], "abcdefaaaagha", "New values of the shop still appear towards the end."),
        ([0, 0, 0, 1], "abcc", "All values of the shop appear early on."),
        ([*range(5)], "abcdd", "The shop mostly changes from one event to the next."),
        ([*range(5)], "aaaab", "The shop mostly stays the same from one event to the next."),
        ([*range(7)], "aaabbba", "The shop a mostly comes before b."),
        ([0, 0, 3], "aaa", "The shop a comes mainly early on."),
        ([*range(6)], "aaaaaa", "The shop a is present throughout the whole time."),
        ([0, 10, 20, 39, 49], "aaaaa", "The shop a comes at regular intervals."),
        ([0, 1, 1, 1, 5, 10], "aaaaaa", "The shop a comes in a tight cluster early on."),
        ([0, 0, 1, 1, 2, 2, 3, 3, 4, 5], "ababababab", "The shop a tends to come at the same time as b."),
        ([0, 1, 2, 3, 8, 8, 9, 9], "aaabbbba", "The shop a gives way to b."),
        ([0, 1, 2, 3, 8, 8, 8, 8, 9, 9], "aaabbbbbaa", "The shop a gives way to b."),
    ],
)
def test_facts_hold_at_their_very_bounds(days: list[int], codes: str, sentence: str) -> None:
    """Each of these facts holds, and would not if its bound were a little stricter."""
    times = [dt.datetime(2024, 1, 1) + day * DAY for day in days]
    told = Told(times, list(codes), [1.0] * len(times), order=sorted({*codes}))
    assert read_out(sentence)(told)
    assert sentence in described([told], most=1_000)["sentence"].to_list()


EVENTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab")), min_size=1, max_size=6)


@settings(max_examples=10, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=5))
def test_numbers_as_times_say_nothing_about_the_calendar(histories: list[list[tuple[int, str]]]) -> None:
    rows = [(k, time, code) for k, events in enumerate(histories) for time, code in sorted(events, key=lambda e: e[0])]
    table = pl.DataFrame(rows, schema=["id", "t", "code"], orient="row")
    said = ev.describe(ev.read(table, key="id", time="t", categorical=["code"]), most=100)
    assert set(said["id"]) == set(range(len(histories)))
    assert not any(re.search("lie within|night|weekend|days", sentence) for sentence in said["sentence"])


def test_codes_that_share_a_word_are_one() -> None:
    events = pl.DataFrame({"id": [1, 1, 1, 1], "t": [1, 2, 3, 4], "code": ["5411", "5412", "5411", "4111"]})
    data = ev.read(events, key="id", time="t", categorical=["code"], fitting=EVERY)
    said = ev.describe(data, names={"5411": "food", "5412": "food"})["sentence"].to_list()
    assert "Most events have the code food." in said
    assert "The code has 2 different values." in said


def test_columns_may_be_called_like_anything() -> None:
    """Names of tables inside, and braces, which templates of said have too."""
    names = ["row", "place", "part", "late", "n", "k", "value", "span", "{x}", "{}"]
    events = pl.DataFrame({"id": [0] * 6, "t": range(6), **{name: list("aaabbb") for name in names}})
    data = ev.read(events, key="id", time="t", categorical=names, fitting=EVERY)
    said = ev.describe(data, most=1_000)["sentence"].to_list()
    for name in names:
        assert f"The history begins with the {name} a." in said
        assert f"The {name} a does not appear in the second half." in said
    numbers = {name: np.repeat(np.arange(40.0), 6) for name in names}
    events = pl.DataFrame({"id": np.repeat(np.arange(40), 6), "t": list(range(6)) * 40, **numbers})
    table = ev.describe(ev.read(events, key="id", time="t", numeric=names, categorical=[]), most=1_000)
    of_last = table.filter(pl.col("id") == 39)["sentence"].to_list()
    for name in names:
        assert f"All events have a high {name}." in of_last
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
