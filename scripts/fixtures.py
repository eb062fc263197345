"""Write one of each file that eventvec keeps, and the numbers that come of them, into tests/fixtures/VERSION.

``python scripts/fixtures.py`` is run once for a release; later versions read what it wrote
(`tests/test_fixtures.py`). It refuses a folder that exists.

    events.parquet       who bought what, when and for how much; some codes and amounts are missing
    run/                 CoLES with a GRU, beside it timing and hand-crafted features
    state.db             the state of each customer before APRIL
    embeddings.parquet   the vector of each customer
    vectors.index        an exact index of these vectors
    words.sentences      an index of sentences about the customers, without a language model
    classifier/          an `EventClassifier`
    expected.json        what the test compares
"""

from __future__ import annotations

import json
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import eventvec as ev

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures"
APRIL = datetime(2024, 4, 1)
QUERY = "Few events, most of them tea"
CUSTOMERS = 40
EMBEDDED = 10
"""The number of customers whose vectors are written as numbers too."""


def purchases() -> pl.DataFrame:
    """Return purchases from January to May 2024, in order of time; every second customer mostly buys tea."""
    rng = np.random.default_rng(0)
    counts = rng.integers(6, 24, CUSTOMERS)
    customers = np.repeat(np.arange(CUSTOMERS), counts)
    tea = rng.random(len(customers)) < np.where(customers % 2 == 0, 0.8, 0.2)
    bought = np.where(tea, "tea", np.where(rng.random(len(tea)) < 0.8, "coffee", "cake"))
    minutes = np.datetime64("2024-01-01", "us") + rng.integers(0, 150 * 24 * 60, len(tea)) * np.timedelta64(1, "m")
    missing = rng.random((2, len(tea))) < 0.05
    return pl.DataFrame(
        {
            "customer": [f"c{number:02}" for number in customers],
            "when": minutes,
            "bought": pl.Series(bought.tolist()).set(pl.Series(missing[0]), None),
            "amount": pl.Series(rng.exponential(10, len(tea)).round(2)).set(pl.Series(missing[1]), None),
        }
    ).sort("when")


def numbers(folder: Path) -> dict[str, Any]:
    """Return what the run, the embeddings and both indexes of a folder give."""
    events = pl.read_parquet(folder / "events.parquet")
    run = ev.load(folder / "run")
    z = run.embed(ev.read(events, schema=run.schema))
    stored = ev.read_embeddings(folder / "embeddings.parquet")
    similar = ev.search(ev.read_index(folder / "vectors.index"), key=stored.keys[0].as_py(), count=5)
    words = ev.read_index(folder / "words.sentences")
    assert isinstance(words, ev.SentenceIndex)
    return {
        "keys": z.keys.to_pylist(),
        "embedding": z.values[:EMBEDDED].round(7).tolist(),
        "apart": float(abs(z.values - stored.values).max()),
        "stored": stored.keys.to_pylist(),
        "events": stored.events.tolist(),
        "last_time": stored.last_time.tolist(),
        "similar": [hit["customer"] for hit in similar.rows],
        "similarity": [round(hit["similarity"], 7) for hit in similar.rows],
        "words": words.scores(QUERY).round(7).tolist(),
    }


def probabilities(folder: Path) -> list[float]:
    """Return the probability that the classifier of a folder gives to each customer, which needs LightGBM."""
    events = pl.read_parquet(folder / "events.parquet")
    return ev.EventClassifier.load(folder / "classifier").predict_proba(events)["p_yes"].round(7).to_list()


def main() -> None:
    """Write the folder of the installed version."""
    folder = FOLDER / version("eventvec")
    folder.mkdir(parents=True)
    events = purchases()
    events.write_parquet(folder / "events.parquet")
    data = ev.read(events, key="customer", time="when", categorical=["bought"], numeric=["amount"])
    run = ev.fit(data, method="coles", encoder="gru", dim=16, epochs=2, out=folder / "run")
    ev.update(run, events.filter(pl.col("when") < APRIL), folder / "state.db")
    z = run.embed(data)
    ev.write(folder / "embeddings.parquet", z)
    ev.Index.of(z).save(folder / "vectors.index")
    ev.SentenceIndex.of(data, backbone=None).save(folder / "words.sentences")
    labels = pl.DataFrame(
        {"customer": [f"c{number:02}" for number in range(CUSTOMERS)], "tea": ["yes", "no"] * (CUSTOMERS // 2)}
    )
    model = ev.EventClassifier(key="customer", time="when", progress=False)
    model.fit(events, labels, "tea").save(folder / "classifier")
    expected = {**numbers(folder), "probability": probabilities(folder)}
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
