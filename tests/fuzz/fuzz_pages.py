"""Pages about tables whose names, keys and codes are HTML, scripts and templates: none of it becomes an element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import fuzz_tables
import polars as pl
from draws import chance
from outcomes import ACCEPTED, attempt, way
from pages_law import PAYLOADS, check_page

import eventvec as ev

ENTITIES, EVENTS = 30, 5


def play(rng: Random, folder: Path) -> str:
    """Play one case and return its outcome."""
    events, labels, roles = _tables(rng)
    name = rng.choices(list(PAGES), [4, 4, 2, 1])[0]
    keys = events[roles["key"]].unique().to_list()
    with way(name):
        check_page(attempt(keys, _page, name, rng, events, labels, roles, folder))
    return ACCEPTED


def _page(name: str, rng: Random, *inputs: Any) -> str:
    """Return a page, often with a hostile title and lead."""
    answer = PAGES[name](rng, *inputs)
    return (replace(answer, title=_hostile(rng), lead=_hostile(rng)) if chance(rng, 0.5) else answer).html


def _hostile(rng: Random) -> str:
    """Return a text that is different each time, so that it can name columns and classes."""
    return f"{rng.choice(PAYLOADS)}{rng.randrange(10**6)}{rng.choice(('', '', rng.choice(PAYLOADS)))}"


def _tables(rng: Random) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, str]]:
    """Return events and labels with hostile names and values, and the names of the key and the time."""
    key, time, code, other = (_hostile(rng) if chance(rng, 0.7) else f"column {place}" for place in range(4))
    codes = [_hostile(rng) for _ in range(rng.choice((2, 5)))]
    kind = rng.choice((pl.Int64, pl.Datetime("us")))
    ids = [f"{_hostile(rng)} {row}" for row in range(ENTITIES)]
    rows = ENTITIES * EVENTS
    events = pl.DataFrame(
        {
            key: [each for each in ids for _ in range(EVENTS)],
            time: pl.Series(rng.sample(range(10 * rows), rows), dtype=pl.Int64).cast(kind) * 10**9
            if kind == pl.Int64
            else pl.Series([10**9 * step for step in rng.sample(range(10 * rows), rows)]).cast(kind),
            code: rng.choices(codes, k=rows),
            other: [rng.gauss(0, 20) for _ in range(rows)],
        }
    )
    classes = [_hostile(rng), _hostile(rng)]
    labels = pl.DataFrame(
        {
            key: ids,
            _hostile(rng): [classes[row % 2] for row in range(ENTITIES)],
            _hostile(rng): [rng.gauss(0, 1) for _ in range(ENTITIES)],
        }
    )
    return events, labels, {"key": key, "time": time}


def _report(rng: Random, events: pl.DataFrame, labels: pl.DataFrame, roles: dict[str, str], _: Path) -> ev.Answer:
    """Return a report about embeddings, with a map and perhaps an evaluation."""
    data = ev.read(events, **roles, fitting=ev.Fitting(min_count=1))
    z = ev.embed(fuzz_tables.small_encoder(data.schema), data)
    options: dict[str, Any] = {"labels": labels} if chance(rng, 0.7) else {}
    if options and chance(rng, 0.5):
        options |= {"label": labels.columns[1], "models": ["knn"], "folds": 2}
    return ev.report(None, data, embeddings=z, **options)


def _drift(rng: Random, events: pl.DataFrame, _: Any, roles: dict[str, str], __: Path) -> ev.Answer:
    """Return the differences of two halves of the events."""
    later = events.with_columns(pl.lit(_hostile(rng)).alias(events.columns[2])) if chance(rng, 0.5) else events
    return ev.drift(events, later, **roles, permutations=199, fitting=ev.Fitting(min_count=1))


def _run(events: pl.DataFrame, roles: dict[str, str]) -> ev.Model:
    data = ev.read(events, **roles, fitting=ev.Fitting(min_count=1), holdout=0.3)
    return ev.fit(data, method={"method": {"name": "ocp"}, "encoder": {"dim": 4}}, epochs=1)


def _audit(_: Random, events: pl.DataFrame, labels: pl.DataFrame, roles: dict[str, str], __: Path) -> ev.Answer:
    """Return an audit of a run."""
    return ev.audit(_run(events, roles), events, labels, models=["knn"], folds=2)


def _compare(rng: Random, events: pl.DataFrame, labels: pl.DataFrame, roles: dict[str, str], folder: Path) -> ev.Answer:
    """Return a comparison of two arms with hostile names."""
    data = ev.read(events, **roles)
    arms = {_hostile(rng): {"method": {"name": name}, "encoder": {"dim": 4}} for name in ("ocp", "rtd")}
    options: dict[str, Any] = {"epochs": 1, "folds": 2, "models": ["knn"], "out": folder / "compared"}
    return ev.compare(data, labels, labels.columns[1], methods=arms, **options)


PAGES: dict[str, Callable[..., ev.Answer]] = {
    "report": _report, "drift": _drift, "audit": _audit, "compare": _compare,
}  # fmt: skip
