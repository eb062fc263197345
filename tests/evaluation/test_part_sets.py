"""Parts of an embedding in evaluations: which sets there are, and their scores and differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import eventvec as ev
from eventvec.errors import CheckpointError, ConfigError
from eventvec.evaluation import score_features
from eventvec.evaluation.part_sets import part_sets

PARTS = {"learned": [0, 3], "timing": [3, 5], "aggregates": [5, 9]}


@pytest.fixture(scope="module")
def z() -> ev.Embeddings:
    """Return an embedding whose part `timing` alone knows the label."""
    rng = np.random.default_rng(0)
    events = pl.DataFrame({"card": np.arange(600) % 150, "day": np.arange(600), "paid": rng.random(600)})
    data = ev.read(events, key="card", time="day", numeric=["paid"])
    values = rng.normal(size=(150, 9)).astype(np.float32)
    values[:, 4] += np.arange(150) % 2 * 2
    return ev.Embeddings.of(data, values, {"parts": PARTS})


MODEL = "logistic_regression"
LABELS = pl.DataFrame({"card": np.arange(150), "churn": np.arange(150) % 2 == 1})


def evaluate(z: ev.Embeddings, models: Sequence[str] = ("logistic_regression",), **options: Any) -> ev.Answer:
    return ev.evaluate(z, None, LABELS, "churn", models=models, **{"also": ["parts"], **options})


def test_each_part_is_scored_alone_and_left_out(z: ev.Embeddings) -> None:
    result, v = evaluate(z), z.values
    expected = {
        "embedding": v,
        "embedding: learned": v[:, :3],
        "embedding: timing": v[:, 3:5],
        "embedding: aggregates": v[:, 5:],
        "embedding: without learned": v[:, 3:],
        "embedding: without timing": v[:, [0, 1, 2, 5, 6, 7, 8]],
        "embedding: without aggregates": v[:, :5],
    }
    assert [r.features for r in result.basis.results] == list(expected)
    for name, values in expected.items():
        alone = score_features({"x": values}, LABELS["churn"], models=["logistic_regression"])
        assert result.basis.get(name, "logistic_regression").main == alone.basis.get("x", "logistic_regression").main
    scores = {r.features: r.main.mean for r in result.basis.results}
    assert scores["embedding: timing"] > 0.85 > 0.6 > scores["embedding: without timing"]


def test_by_default_only_the_learned_part_is_scored(z: ev.Embeddings) -> None:
    result = evaluate(z, also=[])
    assert [row["features"] for row in result.rows] == ["embedding", "embedding: learned"]
    with pytest.raises(ConfigError, match="also: 'part' is no set of features; did you mean 'parts'"):
        evaluate(z, also=["part"])


def test_each_part_is_compared_with_the_whole_only(z: ev.Embeddings) -> None:
    result = evaluate(z)
    parts = [f"embedding: {way}{name}" for way in ("", "without ") for name in PARTS]
    worth = {row["b"]: row["difference"] for row in result.tables["differences"] if row["a"] == "embedding"}
    assert [(row["a"], row["b"]) for row in result.tables["differences"]] == [("embedding", name) for name in parts]
    assert worth["embedding: without timing"].low > 0
    whole, without = (result.basis.get(n, MODEL).main for n in ("embedding", "embedding: without timing"))
    assert worth["embedding: without timing"] == (whole - without).estimate


def test_of_two_parts_each_is_the_embedding_without_the_other(z: ev.Embeddings) -> None:
    two = replace(z, values=z.values[:, :5], metadata={**z.metadata, "parts": {"learned": [0, 3], "timing": [3, 5]}})
    result = evaluate(two)
    assert [row["features"] for row in result.rows] == ["embedding", "embedding: learned", "embedding: timing"]
    assert part_sets(z.values, {"learned": (0, 9)}) == part_sets(z.values, {}) == {}


def test_parts_do_not_change_the_rest(z: ev.Embeddings) -> None:
    rng = np.random.default_rng(1)
    features = {"own": pl.DataFrame({"card": np.arange(150), "v": rng.normal(size=150)})}
    without = replace(z, metadata={name: value for name, value in z.metadata.items() if name != "parts"})
    one, other = evaluate(z, features=features), evaluate(without, features=features)
    assert one.verdict == other.verdict
    assert "own" in one.verdict[0]
    assert [row["features"] for row in other.rows] == ["embedding", "own"]
    assert all(row in one.rows for row in other.rows)
    assert all(row in one.tables["differences"] for row in other.tables["differences"])


def test_callers_may_not_name_their_features_like_parts(z: ev.Embeddings) -> None:
    features = {"embedding: own": pl.DataFrame({"card": np.arange(150), "v": np.arange(150)})}
    with pytest.raises(ConfigError, match="features may not be called 'embedding: own'"):
        evaluate(z, features=features)


def test_files_keep_the_parts(z: ev.Embeddings, tmp_path: Path) -> None:
    ev.write(tmp_path / "z.parquet", z, wide=True)
    assert ev.read_embeddings(tmp_path / "z.parquet").parts == {name: tuple(place) for name, place in PARTS.items()}
    assert z[[3, 1]].parts == z.parts


@pytest.mark.parametrize(
    "parts", [{"timing": [0, 10]}, {"timing": [4, 4]}, {"timing": [-1, 3]}, {"timing": 3}, [1], "x"]
)
def test_parts_outside_the_vectors_are_refused(z: ev.Embeddings, parts: Any, tmp_path: Path) -> None:
    pq.write_table(replace(z, metadata={**z.metadata, "parts": parts}).arrow(), tmp_path / "z.parquet")
    with pytest.raises(CheckpointError, match="is not an embeddings file"):
        ev.read_embeddings(tmp_path / "z.parquet")
