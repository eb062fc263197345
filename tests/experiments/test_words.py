"""Search in a person's words: each rule beside a slow version in plain Python, the score, and the small mode."""

from __future__ import annotations

import datetime as dt
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from experiments.words import shop, stays
from experiments.words.__main__ import main
from experiments.words.queries import Array, Query, relevant
from experiments.words.scores import mean, recalls

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def receipts() -> pl.DataFrame:
    return shop.frame()


@pytest.fixture(scope="module")
def measurements() -> pl.DataFrame:
    return stays.frame()


def checked(queries: tuple[Query, ...], events: pl.DataFrame, key: str) -> Array:
    """Return what the rules select, after checking how much it is."""
    selected = relevant(queries, events, key)
    assert selected.shape == (len(queries), events[key].n_unique()) == (30, selected.shape[1])
    assert (selected.sum(1) >= 5).all()
    assert (selected.mean(1) <= 0.2).all()
    assert len({query.text for query in queries}) == 30
    return selected


def compare(
    rules: dict[str, Callable[[Rows], bool]], queries: tuple[Query, ...], selected: Array, rows: list[Rows]
) -> None:
    texts = [query.text for query in queries]
    for text, rule in rules.items():
        assert [rule(each) for each in rows] == selected[texts.index(text)].tolist(), text


# the shop


@dataclass
class Visit:
    """The lines of one receipt."""

    time: dt.datetime
    lines: Rows

    @property
    def amount(self) -> float:
        return sum(line["amount"] for line in self.lines)

    @property
    def day(self) -> dt.date:
        return self.time.date()


class Receipts(Rows):
    """The lines of a household."""

    @cached_property
    def visits(self) -> list[Visit]:
        visits: list[Visit] = []
        for line in self:
            if not visits or visits[-1].time != line["time"]:
                visits.append(Visit(line["time"], []))
            visits[-1].lines.append(line)
        return visits


def of(lines: Rows, *products: str) -> Rows:
    return [line for line in lines if line["product"] in products]


def days_between(lines: Receipts) -> list[int]:
    days = sorted({line["time"].date() for line in lines})
    return [(b - a).days for a, b in pairwise(days)]


def late_in_the_evening(lines: Receipts) -> bool:
    return len(lines) >= 20 and 2 * sum(line["time"].hour >= 19 for line in lines) >= len(lines)


def at_weekends(lines: Receipts) -> bool:
    all_visits = lines.visits
    weekends = sum(visit.day.strftime("%a") in ("Sat", "Sun") for visit in all_visits)
    return len(all_visits) >= 10 and weekends >= 0.55 * len(all_visits)


def like_clockwork(lines: Receipts) -> bool:
    gaps = days_between(lines)
    return len(lines.visits) >= 20 and sum(5 <= gap <= 9 for gap in gaps) >= 0.45 * len(gaps) > 0


def in_waves(lines: Receipts) -> bool:
    gaps = days_between(lines)
    short, long = sum(gap <= 2 for gap in gaps), sum(gap >= 10 for gap in gaps)
    return len(lines.visits) >= 20 and len(gaps) > 0 and short >= 0.2 * len(gaps) and long >= 0.25 * len(gaps)


def summer_break(lines: Receipts) -> bool:
    days = sorted({line["time"].date() for line in lines})
    pairs = pairwise(days)
    away = [a >= dt.date(2017, 5, 20) and b <= dt.date(2017, 9, 20) and (b - a).days >= 42 for a, b in pairs]
    return len(lines.visits) >= 20 and any(away)


def little_things(lines: Receipts) -> bool:
    amounts = [visit.amount for visit in lines.visits]
    return len(amounts) >= 60 and statistics.median(amounts) <= 10


def no_more_baby_food(lines: Receipts) -> bool:
    baby = of(lines, "baby foods", "infant formula", "babyfood")
    stopped = all(line["time"] < dt.datetime(2017, 9, 1) for line in baby)
    return len(baby) >= 3 and stopped and lines[-1]["time"] >= dt.datetime(2017, 11, 1)


def another_branch(lines: Receipts) -> bool:
    before = [visit for visit in lines.visits if visit.time.month <= 6]
    after = [visit for visit in lines.visits if visit.time.month > 6]
    if len(before) < 5 or len(after) < 5:
        return False
    counts = Counter(line["store"] for visit in before for line in visit.lines)
    main = min(store for store, count in counts.items() if count == max(counts.values()))
    return sum(visit.lines[0]["store"] == main for visit in after) <= 0.2 * len(after)


def bigger_bills(lines: Receipts) -> bool:
    before = [visit.amount for visit in lines.visits if visit.time.month <= 6]
    after = [visit.amount for visit in lines.visits if visit.time.month > 6]
    return len(before) >= 8 and len(after) >= 8 and statistics.fmean(after) >= 1.4 * statistics.fmean(before)


def thanksgiving(lines: Receipts) -> bool:
    largest = max(lines.visits, key=lambda visit: round(visit.amount, 6))
    return len(lines.visits) >= 5 and dt.date(2017, 11, 11) <= largest.day <= dt.date(2017, 11, 23)


def cold_then_soup(lines: Receipts) -> bool:
    hits = 0
    for soup in of(lines, "soup"):
        remedies = [cold["time"] for cold in of(lines, "cold and flu") if cold["time"] < soup["time"]]
        hits += any(soup["time"] - remedy <= dt.timedelta(days=5) for remedy in remedies)
    return hits >= 2


def milk_and_bread(lines: Receipts) -> bool:
    all_visits = lines.visits
    milk = sum(bool(of(visit.lines, "fluid milk products")) for visit in all_visits)
    bread = sum(bool(of(visit.lines, "baked bread/buns/rolls", "bread")) for visit in all_visits)
    return len(all_visits) >= 20 and milk >= 0.48 * len(all_visits) and bread >= 0.36 * len(all_visits)


SHOP = {
    "buys mostly late in the evening": late_in_the_evening,
    "a weekend family: the groceries are mostly got on a Saturday or a Sunday": at_weekends,
    "as regular as clockwork, roughly once a week": like_clockwork,
    "comes in waves: a couple of visits on consecutive days, then not for a good while": in_waves,
    "a long break in the summer": summer_break,
    "pops in all the time and spends only a few dollars": little_things,
    "used to buy baby food and then stopped": no_more_baby_food,
    "moved over to another branch around the middle of the year": another_branch,
    "their bills keep getting bigger": bigger_bills,
    "did their biggest shop of all in the run-up to Thanksgiving": thanksgiving,
    "caught a cold: something from the medicine shelf, then soup within a few days": cold_then_soup,
    "milk in every other basket, and bread in a good third of them": milk_and_bread,
}


def test_rules_of_the_shop_are_those_of_a_slow_version(receipts: pl.DataFrame) -> None:
    selected = checked(shop.QUERIES, shop.for_rules(receipts), shop.KEY)
    some = np.arange(0, selected.shape[1], 14)
    keys = receipts[shop.KEY].unique().sort().gather(some)
    parts = receipts.filter(pl.col(shop.KEY).is_in(keys.implode())).partition_by(shop.KEY, maintain_order=True)
    compare(SHOP, shop.QUERIES, selected[:, some], [Receipts(part.to_dicts()) for part in parts])


# the stays


def at(rows: Rows, *parameters: str) -> list[int]:
    return [row["minute"] for row in rows if row["parameter"] in parameters]


def values(rows: Rows, *parameters: str) -> list[float]:
    return [row["value"] for row in rows if row["parameter"] in parameters]


def few_tests(rows: Rows) -> bool:
    return sum(row["minute"] < 1440 and row["parameter"] in stays.BLOOD_TESTS for row in rows) <= 15


def line_after_cuff(rows: Rows) -> bool:
    cuff, line = at(rows, "NISysABP"), at(rows, "SysABP")
    return bool(cuff) and bool(line) and cuff[0] < line[0] and line[0] >= 360


def nobody_recorded(rows: Rows) -> bool:
    return any(b["minute"] - a["minute"] >= 200 for a, b in pairwise(rows))


def hectic(rows: Rows) -> bool:
    first = sum(row["minute"] < 1440 for row in rows)
    return len(rows) - first >= 1.15 * first


def falling(rows: Rows) -> bool:
    quarters = [
        [row["value"] for row in rows if row["parameter"] in ("SysABP", "NISysABP") and row["minute"] // 720 == quarter]
        for quarter in range(4)
    ]
    if not all(quarters):
        return False
    means = [statistics.fmean(each) for each in quarters]
    return means[0] > means[1] > means[2] > means[3]


def wakes_up(rows: Rows) -> bool:
    scores = values(rows, "GCS")
    return bool(scores) and scores[-1] - scores[0] >= 10


def little_urine(rows: Rows) -> bool:
    return len(values(rows, "Urine")) >= 4 and sum(values(rows, "Urine")) <= 1200


def all_over_the_place(rows: Rows) -> bool:
    rates = values(rows, "HR")
    return len(rates) > 1 and statistics.stdev(rates) >= 18


STAYS = {
    "hardly any lab tests in the first day": few_tests,
    "pressure was taken with a cuff to begin with, then an arterial line went in": line_after_cuff,
    "nobody recorded anything for hours at a stretch": nobody_recorded,
    "things got hectic on day two: many more measurements than on day one": hectic,
    "blood pressure keeps falling": falling,
    "wakes up: much more alert at the end than on arrival": wakes_up,
    "barely passes any water": little_urine,
    "heart rate all over the place": all_over_the_place,
}


@pytest.mark.data
def test_rules_of_the_stays_are_those_of_a_slow_version(measurements: pl.DataFrame) -> None:
    selected = checked(stays.QUERIES, measurements, stays.KEY)
    parts = measurements.partition_by(stays.KEY, maintain_order=True)[::6]
    compare(STAYS, stays.QUERIES, selected[:, ::6], [part.to_dicts() for part in parts])


# the score, and the small mode


def test_recall_is_that_of_random_orders_of_what_is_level() -> None:
    rng = np.random.default_rng(0)
    similarity = rng.integers(0, 6, size=(8, 40)).astype(float)
    meant = rng.random((8, 40)) < np.linspace(0.05, 0.6, 8)[:, None]
    meant[:, 0] = True
    drawn = []
    for _ in range(4000):
        first = np.argsort(-(similarity + 0.5 * rng.random(similarity.shape)), axis=1)[:, :10]
        drawn.append(np.take_along_axis(meant, first, 1).sum(1) / np.minimum(10, meant.sum(1)))
    assert recalls(similarity, meant) == pytest.approx(np.mean(drawn, 0), abs=0.02)


def test_a_reader_that_knows_the_rule_finds_all_and_chance_its_share() -> None:
    meant = np.random.default_rng(0).random((5, 300)) < 0.1
    assert recalls(meant.astype(float), meant) == pytest.approx([1.0] * 5)
    assert recalls(np.zeros(meant.shape), meant) == pytest.approx(meant.mean(1))


def test_the_mean_has_an_interval_by_question() -> None:
    found = mean([0.0, 1.0] * 50)
    assert found.value == pytest.approx(0.5)
    assert found.half_width == pytest.approx(0.098, abs=0.015)


def test_the_small_mode_of_the_shop(
    receipts: pl.DataFrame, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shop, "frame", lambda: receipts)  # read once
    monkeypatch.setattr(sys, "argv", ["words", "human", "--only", "shop", "--small", "--json"])
    main()
    rows = json.loads(capsys.readouterr().out)["rows"]
    questions = [row for row in rows if row["relevant"] is not None]
    assert 25 <= len(questions) == len(rows) - 2
    assert {row["question"] for row in questions} <= {query.text for query in shop.QUERIES}
    assert [row["chance"] for row in questions] == pytest.approx([max(10, row["relevant"]) / 78 for row in questions])
    assert rows[-2]["question"] == f"mean of {len(questions)} questions, 78 histories"
    assert {"bag of words", "described, BM25"} <= {*rows[0]}
