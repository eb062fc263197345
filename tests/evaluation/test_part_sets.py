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
from eventvec.reporting.charts import evaluation_section

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


LABELS = pl.DataFrame({"card": np.arange(150), "churn": np.arange(150) % 2 == 1})


def evaluate(z: ev.Embeddings, models: Sequence[str] = ("logistic_regression",), **options: Any) -> ev.Evaluation:
    return ev.evaluate(z, None, LABELS, "churn", models=models, **options)


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
    assert [r.features for r in result.results] == list(expected)
    for name, values in expected.items():
        alone = score_features({"x": values}, LABELS["churn"], models=["logistic_regression"])
        assert result.get(name, "logistic_regression").main == alone.get("x", "logistic_regression").main
    scores = {r.features: r.main.mean for r in result.results}
    assert scores["embedding: timing"] > 0.85 > 0.6 > scores["embedding: without timing"]


def test_differences_are_those_of_the_whole_and_what_lacks_a_part_is_shown(z: ev.Embeddings) -> None:
    result = evaluate(z)
    parts = [f"embedding: {way}{name}" for way in ("", "without ") for name in PARTS]
    assert [(d.a, d.b) for d in result.differences] == [("embedding", name) for name in parts]
    assert [d.b for d in result.shown_differences] == parts[3:]
    worth = {d.b: d.main for d in result.differences}
    assert worth["embedding: without timing"].mean > worth["embedding: without timing"].interval > 0
    whole, without = (result.get(n, "logistic_regression").main for n in ("embedding", "embedding: without timing"))
    assert worth["embedding: without timing"].values == (whole - without).values
    assert "embedding − embedding: without timing" in repr(result)
    assert "embedding − embedding: timing" not in repr(result)


def test_of_two_parts_each_is_the_embedding_without_the_other(z: ev.Embeddings) -> None:
    two = replace(z, values=z.values[:, :5], metadata={**z.metadata, "parts": {"learned": [0, 3], "timing": [3, 5]}})
    result = evaluate(two)
    assert [r.features for r in result.results] == ["embedding", "embedding: learned", "embedding: timing"]
    assert [d.b for d in result.shown_differences] == ["embedding: learned", "embedding: timing"]
    assert part_sets(z.values, {"learned": (0, 9)}) == part_sets(z.values, {}) == {}


def test_parts_do_not_change_the_rest(z: ev.Embeddings) -> None:
    rng = np.random.default_rng(1)
    features = {"own": pl.DataFrame({"card": np.arange(150), "v": rng.normal(size=150)})}
    without = replace(z, metadata={name: value for name, value in z.metadata.items() if name != "parts"})
    one, other = evaluate(z, features=features), evaluate(without, features=features)
    assert one.verdict == other.verdict
    assert "own" in one.verdict
    assert [r.features for r in other.results] == ["embedding", "own"]
    for result in other.results:
        assert one.get(result.features, result.model).main == result.main
    assert {(d.a, d.b, d.main) for d in other.differences} <= {(d.a, d.b, d.main) for d in one.differences}


def test_callers_may_not_name_their_features_like_parts(z: ev.Embeddings) -> None:
    features = {"embedding: own": pl.DataFrame({"card": np.arange(150), "v": np.arange(150)})}
    with pytest.raises(ConfigError, match="features may not be called 'embedding: own'"):
        evaluate(z, features=features)


def test_the_page_has_a_mark_of_its_own_for_each_set(z: ev.Embeddings) -> None:
    rng = np.random.default_rng(0)
    features = {f"f{i}": pl.DataFrame({"card": np.arange(150), "v": rng.normal(size=150)}) for i in range(6)}
    section = evaluation_section(evaluate(z, ["knn"], folds=2, features=features), "chart")
    marks = [(trace["marker"]["color"], trace["marker"]["symbol"]) for trace in section["figure"]["data"]]
    assert len(marks) == len(set(marks)) == 13
    assert "embedding − embedding: without timing" in section["head"]


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
