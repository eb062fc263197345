"""The blocks that are computed from events alone: which data have them, and that they are saved and loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from eventvec.blocks.untrained import blocks_for

pytestmark = pytest.mark.usefixtures("few_kernels")


@pytest.mark.parametrize("columns", ["codes", "numbers"])
def test_codes_and_convolutions_are_read_and_come_back_with_the_model(columns: str, tmp_path: Path) -> None:
    """The label is the order of b and c in rounds of a, b and c, of which no count tells anything."""
    rng, n = np.random.default_rng(0), 160
    ordered = rng.random(n) < 0.5
    what = np.where(ordered[:, None], list("abc" * 8 + "a"), list("acb" * 8 + "a"))
    events = pl.DataFrame({"card": np.repeat(np.arange(n), 25), "day": np.tile(np.arange(25), n), "what": what.ravel()})
    numbers = events.select("card", "day", paid=(pl.col("what") == "b").cast(pl.Float64))
    table = events if columns == "codes" else numbers
    kinds = {"categorical": ["what"], "numeric": []} if columns == "codes" else {"categorical": [], "numeric": ["paid"]}
    data = ev.read(table, key="card", time="day", **kinds)
    expected = ["handcrafted", *(["codes", "convolutions"] if columns == "codes" else ["convolutions", "responses"])]
    assert blocks_for(data.schema) == expected
    model = ev.EventClassifier(progress=False).fit(data, ordered)
    assert set(model.model_.blocks) == set(expected)
    sets = {row["features"]: row["blocks"].split(", ") for row in model.explain().tables["sets"]}
    assert sets["all" if columns == "codes" else "all with all responses"] == expected
    model.save(tmp_path / "model")
    again = ev.EventClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(data), model.predict_proba(data))
    assert (model.predict(data) == ordered).mean() > 0.95


def test_lists_are_read(tmp_path: Path) -> None:
    """The label is whether any basket has tea."""
    rng, n = np.random.default_rng(0), 200
    buys = rng.random(n) < 0.5
    baskets = [["tea", "oil"] if buys[i // 5] and i % 5 == 2 else ["oil", "rice"][: 1 + i % 2] for i in range(5 * n)]
    table = pl.DataFrame({"shop": np.repeat(np.arange(n), 5), "day": np.tile(np.arange(5), n), "bought": baskets})
    data = ev.read(table, key="shop", time="day", summed=["bought"])
    assert data.schema.bags
    assert blocks_for(data.schema) == ["handcrafted", "lists", "codes", "convolutions"]
    model = ev.EventClassifier(progress=False).fit(data[:150], buys[:150])
    assert (model.predict(data[150:]) == buys[150:]).all()
    model.save(tmp_path / "model")
    loaded = ev.EventClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(data), model.predict_proba(data))
