"""How often `drift` finds a difference between equal periods, and how often it finds one that was planted.

Events are generated: entities differ in how many events they have, in what they buy and in how much they pay, so that
events of one entity resemble one another. Equal periods are drawn from one distribution. For comparison, the same
periods are tested as if all events were independent, by a chi-square test of each column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from scipy import stats

import eventvec as ev
from benchmarks.measure import Row, options, show
from eventvec.models import Model
from eventvec.statistics.corrections import holm

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


def trained(table: pl.DataFrame, holdout: float | None = None) -> Model:
    """Return a run of CoLES on a period, after one epoch."""
    data = ev.read(table, **COLUMNS, holdout=holdout)
    return ev.fit(data, method={"method": {"name": "coles"}, "encoder": {"dim": 16}}, epochs=1, beside=[], validation=0)


def with_rare_shops(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Return the events with other shops, whose frequencies fall as one over their rank, so that most are rare."""
    frequency = 1 / np.arange(1, 3001)
    return table.with_columns(shop=pl.Series(rng.choice(3000, len(table), p=frequency / frequency.sum()).astype(str)))


def found(
    old: pl.DataFrame, new: pl.DataFrame, seed: int, run: Model | None = None, fast: int = 999, **changes: object
) -> list[str]:
    """Return the names of what `drift` finds."""
    columns = {} if run is not None else COLUMNS
    result = ev.drift(old, new, model=run, seed=seed, permutations=fast, **columns, **changes)
    return [shift["name"] for shift in result.rows if shift["shifted"]]


def row(what: str, design: str, found_something: Sequence[bool]) -> Row:
    """Return the share of repeats in which something was found, with its 95 % interval (Clopper and Pearson)."""
    hits, repeats = sum(found_something), len(found_something)
    interval = stats.binomtest(hits, repeats).proportion_ci(0.95)
    return {"what": what, "periods": design, "repeats": repeats, "rate": hits / repeats} | {
        "low": float(interval.low),
        "high": float(interval.high),
    }


def equal_periods(run: Model, entities: int, repeats: int) -> list[Row]:
    """Return how often something is found between equal periods."""
    rows = []
    for design, same in DESIGNS.items():
        pairs = [periods(np.random.default_rng(seed), entities, same, 1.0) for seed in range(repeats)]
        tests = {
            "events taken as independent": lambda seed, pairs=pairs: as_if_independent(*pairs[seed]),
            "drift, columns": lambda seed, pairs=pairs: found(*pairs[seed], seed),
            "drift, columns and embeddings": lambda seed, pairs=pairs: found(*pairs[seed], seed, run),
        }
        rows += [row(what, design, [bool(test(seed)) for seed in range(repeats)]) for what, test in tests.items()]
    return rows


def planted_shifts(run: Model, entities: int, repeats: int) -> list[Row]:
    """Return how often larger amounts are found in their column, in the embeddings, and in columns that are equal."""
    rows, equal = [], {"shop", "gap", "hour of the day", "events per entity"}
    for design, same in DESIGNS.items():
        for factor in (1.1, 1.3):
            draws = (np.random.default_rng(seed) for seed in range(repeats))
            names = [set(found(*periods(rng, entities, same, factor), seed, run)) for seed, rng in enumerate(draws)]
            what = f"{factor} times the amounts"
            rows.append(row(f"{what}: found in 'paid'", design, ["paid" in each for each in names]))
            rows.append(row(f"{what}: in the embeddings", design, ["embedding" in each for each in names]))
            rows.append(row(f"{what}: in another column", design, [bool(equal & each) for each in names]))
    return rows


def after_training(entities: int, repeats: int) -> list[Row]:
    """Return how often something is found between equal periods if a run was trained on the first of them."""
    rows = []
    for shops in ("few shops", "thousands of shops"):
        outcomes: dict[str, list[bool]] = {}
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            old, new = periods(rng, entities, 1.0, 1.0)
            if shops != "few shops":
                old, new = with_rare_shops(old, rng), with_rare_shops(new, rng)
            whole, part = trained(old), trained(old, 0.5)
            names = {
                "no run": found(old, new, seed),
                "trained on the old period": found(old, new, seed, whole),
                "trained on half of its entities, held_out": found(old, new, seed, part, held_out=True),
            }
            for what, each in names.items():
                outcomes.setdefault(f"{shops}, {what}", []).append(bool(each))
        rows += [row(what, "the same entities", each) for what, each in outcomes.items()]
    return rows


def main() -> None:
    """Run the benchmark."""
    parsed = options(__doc__, "false_alarms").parse_args()
    entities, repeats = (40, 8) if parsed.small else (200, 1000)
    run = trained(People(np.random.default_rng(10**6), 400).period(np.arange(400), -30))
    rows = equal_periods(run, entities, repeats) + planted_shifts(run, entities, math.ceil(repeats / 4))
    rows += after_training(entities, math.ceil(repeats / 4))
    about = {"level": 0.05, "permutations": 999, "entities": entities, "small": parsed.small}
    show("false_alarms", rows, about, parsed.json)


if __name__ == "__main__":
    main()
