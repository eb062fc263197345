"""Tables of events that are read into stores, and the comparison of two data sets."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl

import eventvec as ev


@cache
def table(n: int = 3000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    shops = np.array(["tea", "coffee", "café", None, "rare"], dtype=object)
    return pl.DataFrame(
        {
            "card": rng.integers(-50, 150, n),
            "day": rng.integers(0, 60, n),
            "shop": pl.Series(shops[rng.choice(5, n, p=[0.5, 0.3, 0.1, 0.099, 0.001])].tolist(), dtype=pl.String),
            "paid": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(size=n)),
            "merchant": [f"m{i}" for i in rng.integers(0, 60, n)],
            "line": rng.permutation(n),
            "items": [["a", "b"][: rng.integers(0, 3)] + ["c"] * int(rng.integers(0, 2)) for _ in range(n)],
            "text": [f"bought {i % 7} things" for i in range(n)],
        }
    )


def same(one: ev.Dataset, other: ev.Dataset) -> None:
    assert one.keys.equals(other.keys)
    assert one.schema == other.schema
    assert one.notes == other.notes
    assert one.fingerprint == other.fingerprint
