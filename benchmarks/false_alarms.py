"""How often `drift` finds a difference between equal periods, and how often it finds one that was planted.

Events are generated: entities differ in how many events they have, in what they buy and in how much they pay, so that
events of one entity resemble one another. Equal periods are drawn from one distribution. For comparison, the same
periods are tested as if all events were independent, by a chi-square test of each column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from scipy import stats

import eventvec as ev
from benchmarks.measure import Row, options, show
from eventvec.checkpoint import Run
from eventvec.shift.permutations import holm

COLUMNS = {"key": "card", "time": "when", "categorical": ["shop"], "numeric": ["paid"]}
DESIGNS = {"other entities": 0.0, "half of them the same": 0.5, "the same entities": 1.0}
"""The share of the entities of the old period that are in the new one too."""
DAY = 86_400_000_000
"""A day in microseconds."""


@dataclass(frozen=True)
class People:
    """The habits of people: how many events each has, what each buys and how much each pays.

    Args:
        rng: Generator of everything.
        count: The number of people.
    """

    rng: np.random.Generator
    count: int
    rate: np.ndarray = field(init=False)
    tastes: np.ndarray = field(init=False)
    budget: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", 3 + 10 * self.rng.pareto(2.5, self.count))
        object.__setattr__(self, "tastes", self.rng.dirichlet(np.full(8, 0.3), self.count))
        object.__setattr__(self, "budget", self.rng.normal(2.0, 1.0, self.count))

    def period(self, people: np.ndarray, start: int, factor: float = 1.0) -> pl.DataFrame:
        """Return the events of some people in 30 days.

        Args:
            people: The numbers of the people, which are their keys.
            start: The first day.
            factor: The factor of all amounts, 1 for a period like any other.
        """
        card = np.repeat(people, self.rng.poisson(self.rate[people]) + 1)
        shop = (self.tastes[card].cumsum(1) < self.rng.random((len(card), 1))).sum(1).clip(max=7)
        paid = factor * np.exp(self.budget[card] + self.rng.normal(0, 0.5, len(card)))
        paid[self.rng.random(len(card)) < 0.05] = np.nan
        when = start * DAY + self.rng.integers(0, 30 * DAY, len(card))
        columns = {"card": card, "when": when, "shop": np.array(list("abcdefgh"))[shop], "paid": paid}
        return pl.DataFrame(columns).with_columns(pl.col("when").cast(pl.Datetime("us")), pl.col("paid").fill_nan(None))


def periods(rng: np.random.Generator, entities: int, same: float, factor: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two periods of as many entities, a share of them in both, and the factor of the second."""
    people, both = People(rng, 2 * entities), round(same * entities)
    old = np.arange(entities)
    new = np.concatenate([old[:both], np.arange(entities, 2 * entities - both)])
    return people.period(old, 0), people.period(new, 30, factor)


def as_if_independent(old: pl.DataFrame, new: pl.DataFrame) -> bool:
    """Return whether chi-square tests of all events, corrected by Holm, find a difference at 5 %."""
    both = pl.concat([old.with_columns(new=False), new.with_columns(new=True)])
    edges = np.nanquantile(both["paid"].to_numpy(), np.arange(1, 8) / 8)
    hours = (both["when"].dt.hour() // 3).to_numpy()
    bins = [both["shop"].to_numpy(), np.searchsorted(edges, both["paid"].fill_null(np.inf).to_numpy()), hours]
    tables = [
        pl.DataFrame({"bin": each, "new": both["new"]}).group_by("bin").agg(pl.col("new").sum(), pl.len())
        for each in bins
    ]
    counts = [np.stack([t["new"].to_numpy(), (t["len"] - t["new"]).to_numpy()]) for t in tables]
    return min(holm([float(stats.chi2_contingency(table).pvalue) for table in counts])) <= 0.05


def trained(table: pl.DataFrame, holdout: float | None = None) -> Run:
    """Return a run of CoLES on a period, after one epoch."""
    data = ev.read(table, **COLUMNS, holdout=holdout)
    return ev.fit({"method": {"name": "coles"}, "encoder": {"dim": 16}}, data, epochs=1, beside=[], validation=0)


def rate(test: Callable[[int], bool | Sequence[str]], repeats: int) -> tuple[float, float, float]:
    """Return the share of repeats in which a test finds something, and its 95 % interval (Clopper and Pearson)."""
    hits = sum(bool(test(seed)) for seed in range(repeats))
    interval = stats.binomtest(hits, repeats).proportion_ci(0.95)
    return hits / repeats, float(interval.low), float(interval.high)


def found(
    old: pl.DataFrame, new: pl.DataFrame, seed: int, run: Run | None = None, fast: int = 999, **changes: object
) -> list[str]:
    """Return the names of what `drift` finds."""
    columns = {} if run is not None else COLUMNS
    result = ev.drift(old, new, run=run, seed=seed, permutations=fast, **columns, **changes)
    return [shift.name for shift in result.shifts if shift.shifted]


def rates(entities: int, repeats: int) -> list[Row]:
    """Return the rates of false alarms and of planted shifts for each design."""
    run, rows = trained(People(np.random.default_rng(10**6), 400).period(np.arange(400), -30)), []

    def add(what: str, design: str, test: Callable[[int], bool | Sequence[str]], count: int = repeats) -> None:
        share, low, high = rate(test, count)
        rows.append(
            {"what": what, "periods": design, "entities": entities, "repeats": count}
            | {"rate": share, "low": low, "high": high}
        )

    def drawn(seed: int, same: float, factor: float = 1.0) -> tuple[pl.DataFrame, pl.DataFrame]:
        return periods(np.random.default_rng(seed), entities, same, factor)

    for design, same in DESIGNS.items():
        add("events taken as independent", design, lambda seed, same=same: as_if_independent(*drawn(seed, same)))
        add("drift, columns", design, lambda seed, same=same: found(*drawn(seed, same), seed))
        add("drift, columns and embeddings", design, lambda seed, same=same: found(*drawn(seed, same), seed, run))
        for factor in (1.1, 1.3):
            hits = [found(*drawn(seed, same, factor), seed, run) for seed in range(repeats // 4)]
            planted = f"planted, {factor} times the amounts"
            add(f"{planted}: found in 'paid'", design, lambda seed, hits=hits: "paid" in hits[seed], len(hits))
            add(f"{planted}: in the embeddings", design, lambda seed, hits=hits: "embedding" in hits[seed], len(hits))
            add(
                f"{planted}: in another column",
                design,
                lambda seed, hits=hits: {"shop", "gap", "hour of the day", "events per entity"} & set(hits[seed]),
                len(hits),
            )
    count = math.ceil(repeats / 4)
    for design in ("other entities", "the same entities"):
        pairs = [drawn(seed, DESIGNS[design]) for seed in range(count)]
        add(
            "trained on the old period",
            design,
            lambda seed, pairs=pairs: found(*pairs[seed], seed, trained(pairs[seed][0])),
            count,
        )
    add(
        "trained on the old period, held_out",
        "the same entities",
        lambda seed: found(*pairs[seed], seed, trained(pairs[seed][0], 0.5), held_out=True),
        count,
    )
    return rows


def main() -> None:
    """Run the benchmark."""
    parsed = options(__doc__, "false_alarms").parse_args()
    rows = rates(40, 8) if parsed.small else rates(200, 1000)
    show("false_alarms", rows, {"level": 0.05, "permutations": 999, "small": parsed.small}, parsed.json)


if __name__ == "__main__":
    main()
