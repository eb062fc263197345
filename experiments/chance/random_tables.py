"""Tables of events and labels, where the labels are drawn without a look at the events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

Kind = Literal["no times", "times", "panel", "panel, months differ"]
Task = Literal["binary", "binary, weighted", "three classes", "numbers"]
Array = np.ndarray[Any, Any]

CLASSES = {"a": 0.5, "b": 0.3, "c": 0.2}
"""The probabilities of three classes."""
FEWEST, MOST = 8, 20
"""The numbers of events of an entity."""
FIRST_MONTH, MONTHS, FEW_MONTHS = np.datetime64("2024-03", "M"), 10, 5
"""The month of the first labels of a panel, and how many months it has: few below `FEW_ROWS` rows."""
FEW_ROWS = 200
YEAR, TWO_MONTHS = np.timedelta64(365, "D"), np.timedelta64(60, "D")
NEW_YEAR = np.datetime64("2024-01-01T00:00:00", "us")


@dataclass(frozen=True)
class RandomTable:
    """Events, with `entity`, `time`, `code` and `amount`, and labels, with `entity` and `label`.

    Args:
        events: The events.
        labels: The labels, with their times in `at` and their weights in `weight` if they have any.
    """

    events: pl.DataFrame
    labels: pl.DataFrame

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `fit` that name the columns of times and weights."""
        named = {"label_time": "at", "weight": "weight"}
        return {option: column for option, column in named.items() if column in self.labels.columns}


def random_table(kind: Kind, task: Task, rows: int, seed: int) -> RandomTable:
    """Return a table of events and random labels.

    Args:
        kind: `no times` and `times` have one label for each entity; a `panel` has labels of each entity at the
            beginning of several months. In `panel, months differ`, each month has a base rate of its own, whose logit
            is normal.
        task: What the labels are; only binary ones have base rates of months.
        rows: The number of labels.
        seed: The seed of everything random.
    """
    rng = np.random.default_rng(seed)
    months = 1 if kind in ("no times", "times") else FEW_MONTHS if rows < FEW_ROWS else MONTHS
    entities = rows // months
    begin: Array
    end: Array
    month = np.tile(np.arange(months), entities)
    labels: dict[str, Array] = {"entity": np.repeat(np.arange(entities), months)}
    if kind == "no times":
        begin, end = np.full(entities, NEW_YEAR - YEAR), np.full(entities, NEW_YEAR)
    elif kind == "times":
        end = _between(rng, np.full(entities, NEW_YEAR), np.full(entities, NEW_YEAR + YEAR))
        begin, labels["at"] = end - YEAR, end
    else:
        labels["at"] = (FIRST_MONTH + month).astype("datetime64[us]")
        begin, end = np.full(entities, NEW_YEAR), np.full(entities, labels["at"].max())
    events = _events(rng, begin, end)
    rates = 1 / (1 + np.exp(-rng.normal(size=months))) if kind == "panel, months differ" else np.full(months, 0.5)
    labels["label"] = random_labels(rng, task, rates[month])
    if task == "binary, weighted":
        labels["weight"] = rng.lognormal(size=rows)
    return RandomTable(events, pl.DataFrame(labels))


def random_labels(rng: np.random.Generator, task: Task, rates: Array) -> Array:
    """Return a random label for each row; those of two values are true at the rates `(n,)`."""
    if task == "numbers":
        return rng.normal(size=len(rates))
    if task == "three classes":
        return rng.choice(list(CLASSES), size=len(rates), p=list(CLASSES.values()))
    return rng.random(len(rates)) < rates


def _events(rng: np.random.Generator, begin: Array, end: Array) -> pl.DataFrame:
    """Return events of each entity between two times; the first is in the first two months."""
    counts = rng.integers(FEWEST, MOST + 1, size=len(begin))
    entity, total = np.repeat(np.arange(len(begin)), counts), counts.sum()
    time = _between(rng, begin[entity], end[entity])
    first = np.cumsum(counts) - counts
    time[first] = _between(rng, begin, begin + TWO_MONTHS)
    code, amount = rng.choice(list("vwxyz"), size=total), rng.normal(size=total)
    return pl.DataFrame({"entity": entity, "time": time, "code": code, "amount": amount})


def _between(rng: np.random.Generator, begin: Array, end: Array) -> Array:
    """Return a random time in each `[begin, end)`."""
    time: Array = begin + ((end - begin).astype(np.int64) * rng.random(len(begin))).astype("timedelta64[us]")
    return time
