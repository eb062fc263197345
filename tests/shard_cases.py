"""A run, and events in several files, for tests of engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import eventvec as ev

ENTITIES, EVENTS = 300, 6000
CUT = 6000


def events(times: int = 1) -> pl.DataFrame:
    """Return events of which many have the time of another event of their entity, so that their order matters.

    Args:
        times: How many times `EVENTS` and `ENTITIES` there are.
    """
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "card": rng.integers(0, ENTITIES * times, EVENTS * times),
            "when": rng.integers(0, 100, EVENTS * times) * 100,
            "shop": pl.Series(rng.choice(list("abcdef"), EVENTS * times)).cast(pl.Categorical),
            "paid": rng.normal(size=EVENTS * times),
        }
    )


def write_events(table: pl.DataFrame, folder: Path, files: int = 3) -> Path:
    """Write events into several files of several row groups, in the order of the table."""
    folder.mkdir()
    size = -(-len(table) // files)
    for place in range(files):
        table[place * size : (place + 1) * size].write_parquet(folder / f"{place}.parquet", row_group_size=700)
    return folder


def make(folder: Path) -> ev.Model:
    """Write the folders `run` and `events`, and return the run."""
    write_events(events(), folder / "events")
    data = ev.read(folder / "events", key="card", time="when")
    return ev.fit(data, method="coles", out=folder / "run", epochs=1)


def by_key(z: ev.Embeddings) -> dict[Any, tuple[int, Any, list[float]]]:
    """Return the number of events, the last time and the vector of each entity."""
    return dict(
        zip(
            z.keys.to_pylist(),
            zip(z.events.tolist(), z.last_time.tolist(), z.values.tolist(), strict=True),
            strict=True,
        )
    )


def check_alike(z: ev.Embeddings, expected: ev.Embeddings) -> None:
    """Check that embeddings have the keys, counts and times of others, and vectors within 1e-5."""
    mine, other = by_key(z), by_key(expected)
    assert len(mine) == len(z) == len(other) == len(expected)
    assert mine.keys() == other.keys()
    assert {key: row[:2] for key, row in mine.items()} == {key: row[:2] for key, row in other.items()}
    np.testing.assert_allclose([mine[key][2] for key in mine], [other[key][2] for key in mine], atol=1e-5, rtol=0)
