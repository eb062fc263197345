"""Earlier labels as features: against loops over the table of labels, and hidden until they were known."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.commands import answer, invoke

import eventvec as ev
from eventvec.errors import ConfigError, DataError
from eventvec.evaluation import on_labels
from eventvec.evaluation.suspicion import OPENING
from eventvec.tables.times import duration

N, START, US = 40, datetime(2024, 1, 29, 12), timedelta(microseconds=1)
MODELS: dict[str, Any] = {"models": ["logistic_regression"], "folds": 3}
LABELS: dict[str, Any] = {"yes": "binary", "kind": "multiclass", "worth": "numeric", "price": "numeric"}


def panel(seed: int = 0) -> pl.DataFrame:
    """Return labels of 40 cards at several times each, some missing, repeated or in disagreement, in random order."""
    rng = np.random.default_rng(seed)
    n = 12 * N
    # many labels of one card have equal times, or differ by a microsecond or by whole days
    steps = rng.choice([0, 1, 2, 14, 28, 29, 30, 31, 59, 60], n)
    at = [START + timedelta(days=int(step)) + int(shift) * US for step, shift in zip(steps, rng.integers(-1, 2, n))]
    table = pl.DataFrame({
        "card": rng.integers(0, N, n), "at": pl.Series(at, dtype=pl.Datetime("us")), "yes": rng.random(n) < 0.4,
        "kind": rng.choice(["a", "b", "c"], n), "worth": rng.normal(size=n).round(1),
        "price": [Decimal(int(cents)) / 8 for cents in rng.integers(0, 999, n)], "weight": 0.1 + rng.random(n),
        "city": 0,
    })  # fmt: skip
    table = table.with_columns(
        pl.when(pl.Series(rng.random(n) < 0.8)).then(pl.col(name)).alias(name) for name in ("yes", "kind", "worth")
    ).with_columns(pl.when(pl.Series(rng.random(n) < 0.9)).then("worth").otherwise(float("nan")).alias("worth"))
    table = pl.concat([table, table.sample(60, seed=seed), table.sample(60, seed=1).with_columns(yes=pl.lit(True))])
    return table.with_columns(city=pl.col("card") // 4).sample(fraction=1, shuffle=True, seed=seed)


def embedded(table: pl.DataFrame, **options: Any) -> tuple[ev.Embeddings, pl.DataFrame]:
    """Return embeddings of each card's events before each of its times, and the events."""
    rng = np.random.default_rng(1)
    first = [START - timedelta(days=int(day)) for day in rng.integers(1, 90, 5 * N)]
    events = pl.DataFrame({
        "card": np.arange(5 * N) % N, "at": pl.Series(first, dtype=pl.Datetime("us")), "paid": rng.random(5 * N)
    })  # fmt: skip
    data = ev.read(events, key="card", time="at", numeric=["paid"], cutoffs=table, cutoff_column="at", **options)
    return ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2), data), events


class CaughtError(Exception):
    """Ends an evaluation before models are trained."""


def sets_of(monkeypatch: pytest.MonkeyPatch, *arguments: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return what `evaluate` gives to `score_features`: the sets of features, and the other arguments."""
    caught: list[Any] = []

    def catch(sets: Any, labels: Any, **others: Any) -> Any:
        caught.append((sets, {"labels": labels, **others}))
        raise CaughtError

    monkeypatch.setattr(on_labels, "score_features", catch)
    with pytest.raises(CaughtError):
        ev.evaluate(*arguments, **options)
    return caught[0]


def by_loops(
    z: ev.Embeddings, rows: Any, table: pl.DataFrame, name: str, task: str, delay: str, inclusive: bool, until: Any
) -> np.ndarray[Any, Any]:
    """Return the features of one label, row by row, from what was known then."""
    frame = pl.DataFrame(z.frame())
    length, present = duration(z.schema, delay), table.filter(pl.col(name).is_not_null()).select("card", "at", name)
    if task == "numeric":
        present = present.with_columns(pl.col(name).cast(pl.Float64)).filter(pl.col(name).is_not_nan())
    classes = sorted(present[name].unique().to_list()) if task != "numeric" else []
    found = []
    for card, at in frame.select("card", "at").rows():
        if not rows(card, at):
            continue
        at = at if until is None else min(at, until)
        values: dict[datetime, set[Any]] = {}
        for other, time, value in present.rows():
            if other == card:
                values.setdefault(time, set()).add(value)
        history = []
        for time, distinct in values.items():
            micros = np.array([(time - datetime(1970, 1, 1)) // US])
            known = datetime(1970, 1, 1) + int(length.after(micros, None)[0]) * US
            if len(distinct) == 1 and time < at and (known <= at if inclusive else known < at):
                history.append((known, time, distinct.pop()))
        history.sort(key=lambda row: row[:2])
        kinds = classes[1:] if task == "binary" else classes
        numbers = [[float(value == kind) for kind in kinds] if kinds else [float(value)] for _, _, value in history]
        if not history:
            found.append([0.0] * (3 + 2 * max(len(kinds), 1)))
            continue
        age = (at - history[-1][1]) / timedelta(seconds=1)
        found.append([1.0, len(history), age, *numbers[-1], *np.mean(numbers, axis=0)])
    return np.array(found)


@pytest.mark.parametrize(("delay", "inclusive"), [("0d", False), ("30d", False), ("1mo", True), ("30d", True),
                                                  ("0d", True), ("1mo", False), ("1y", False)])  # fmt: skip
@pytest.mark.parametrize(("name", "task"), LABELS.items())
def test_features_equal_a_loop_over_what_was_known(
    name: str, task: str, delay: str, inclusive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the times of a third of the labels, so that most labels have no embedding."""
    table = panel()
    z, _ = embedded(table.filter(pl.col("card") % 3 > 0).sample(fraction=0.5, seed=4), inclusive=inclusive)
    options = {"label_time": "at", "weight": "weight", "group": "city", "task": task}
    plain = sets_of(monkeypatch, z, None, table.with_columns(weight=1.0), name, **options)
    sets, others = sets_of(
        monkeypatch, z, None, table.with_columns(weight=1.0), name, earlier_labels=delay, **options
    )
    assert list(sets) == ["embedding", "earlier_labels"]
    assert all(np.array_equal(plain[1][key], others[key]) for key in ("labels", "groups", "weights", "entities"))
    joined = ev.evaluation.join_labels(z.keys, "card", table.with_columns(
        at=pl.col("at").to_physical()), name, moments=z.moments, time="at")  # fmt: skip
    where = set(zip(z.keys.take(joined.positions).to_pylist(), z.moments[joined.positions].tolist(), strict=True))
    expected = by_loops(
        z, lambda card, at: (card, (at - datetime(1970, 1, 1)) // US) in where, table, name, task, delay, inclusive, None
    )
    assert sets["earlier_labels"] == pytest.approx(expected, abs=1e-9)
    assert len(others["names"]["earlier_labels"]) == expected.shape[1]
    assert (expected[:, 0] == 0).any()
    assert delay == "1y" or 0.2 < expected[:, 0].mean() < 1
