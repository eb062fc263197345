"""An index finds what a loop over all vectors finds, exactly or with a measured recall, and follows updates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import eventvec as ev
from eventvec.models.model_files import read_tensors, write_tensors
from eventvec.searching import inverted, vector_index


def embeddings(
    n: int, dim: int = 6, seed: int = 0, first: int = 0, run: str = "r", batch: int | None = None
) -> ev.Embeddings:
    keys = np.arange(first, first + n)
    data = ev.read(pl.DataFrame({"card": keys, "day": keys}), key="card", time="day", numeric=[])
    vectors = np.random.default_rng(seed).normal(size=(n, dim))
    return ev.Embeddings.of(data, vectors, {"run": run, **({} if batch is None else {"batch": batch})})


def slow(z: ev.Embeddings, query: np.ndarray, count: int, rows: list[int]) -> list[int]:
    cosine = {row: z.values[row] @ query / np.linalg.norm(z.values[row]) / np.linalg.norm(query) for row in rows}
    return sorted(rows, key=lambda row: -cosine[row])[:count]


@pytest.mark.parametrize("block", [7, 1 << 22])
def test_neighbours_are_those_of_a_loop(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "BLOCK", block)
    z, queries = embeddings(50), np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)
    index = ev.Index.of(z)
    rows, scores = index.neighbours(queries, 5)
    assert rows.tolist() == [slow(z, query, 5, list(range(50))) for query in queries]
    assert (np.diff(scores, axis=1) <= 0).all()
    among = np.array([3, 4, 9, 20, 31, 44])
    assert index.neighbours(queries, 4, among=among)[0].tolist() == [slow(z, q, 4, among.tolist()) for q in queries]
    assert index.neighbours(queries, 9, among=among)[0].shape == (3, 6)
    without = index.neighbours(z.values[[8]], 5, without=8)[0]
    assert without.tolist() == [slow(z, z.values[8], 5, [row for row in range(50) if row != 8])]


def test_only_the_learned_part_is_compared() -> None:
    z = embeddings(30, dim=9)
    parts = replace(z, metadata={**z.metadata, "parts": {"timing": [0, 3], "learned": [3, 9]}})
    alone = replace(z, values=z.values[:, 3:])
    query = np.ones((1, 6))
    assert np.array_equal(ev.Index.of(parts).neighbours(query)[0], ev.Index.of(alone).neighbours(query)[0])


@pytest.mark.parametrize("approximate", [False, True])
def test_an_index_that_follows_equals_one_built_anew(
    approximate: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inverted, "FEWEST", 100)
    index = ev.Index.of(embeddings(400, batch=1), approximate=approximate)
    fresh = embeddings(300, seed=5, first=250, batch=2)
    followed = index.update(fresh).update(fresh).forget(7).forget("549")
    followed.save(tmp_path / "cards.index")
    stored = ev.read_index(tmp_path / "cards.index")
    old, new = embeddings(400).values, fresh.values
    everything = dict(enumerate(old)) | dict(zip(range(250, 550), new, strict=True))
    del everything[7], everything[549]
    keys = np.array(stored.keys.to_pylist())
    assert sorted(keys.tolist()) == sorted(everything)
    queries = np.random.default_rng(2).normal(size=(40, 6)).astype(np.float32)
    rows, scores = stored.neighbours(queries, 5)
    matrix = np.stack([everything[key] / np.linalg.norm(everything[key]) for key in keys])
    expected = np.argsort(-(queries @ matrix.T), axis=1)[:, :5]
    assert np.mean([len({*a} & {*b}) / 5 for a, b in zip(rows, expected, strict=True)]) >= (0.9 if approximate else 1)
    exact = np.einsum("mkd,md->mk", matrix[rows], queries / np.linalg.norm(queries, axis=1, keepdims=True))
    assert scores == pytest.approx(exact, abs=1e-5)
    assert np.array_equal(followed.neighbours(queries, 5)[0], rows)
    assert stored.recall == index.recall == (pytest.approx(0.99, abs=0.011) if approximate else 1)


def test_an_index_of_batches_is_neither_stale_nor_turned_back() -> None:
    index = ev.Index.of(embeddings(20, batch=3))
    newer = index.update(embeddings(5, seed=1, batch=4))
    assert newer.update(embeddings(5, seed=2, batch=3)) is newer
    with pytest.raises(ev.CheckpointError, match=r"up to number 4, and this is number 6; give it those between first"):
        newer.update(embeddings(5, seed=3, batch=6))
    with pytest.raises(ev.CheckpointError, match=r"of the run r, and not of other; .*two runs cannot be compared"):
        index.update(embeddings(5, run="other"))


def test_what_cannot_be_searched_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    z = embeddings(20)
    index = ev.Index.of(z)
    with pytest.raises(ev.DataError, match="the key is not among the 20 entities"):
        index.row_of(99)
    with pytest.raises(ev.ConfigError, match="count must be at least 1, got 0"):
        index.neighbours(z.values[:1], 0)
    with pytest.raises(ev.DataError, match="the query has 5 numbers and the vectors of the index 6"):
        index.neighbours(np.ones((1, 5)))
    with pytest.raises(ev.DataError, match="queries must have no masked values, got 6"):
        index.neighbours(np.ma.masked_array(z.values[:1], mask=True))
    with pytest.raises(ev.DataError, match="at least 10,000 vectors, got 20"):
        ev.Index.of(z, approximate=True)
    with pytest.raises(ev.ConfigError, match="cut at a time each"):
        ev.Index.of(replace(z, moments=np.arange(20)))
    with pytest.raises(ev.ConfigError, match="an index is made of Embeddings, got str"):
        ev.Index.of("z.parquet")  # type: ignore[arg-type]
    (tmp_path / "diary").write_text("mine")
    with pytest.raises(ev.ConfigError, match="was not written by eventvec"):
        index.save(tmp_path / "diary")
    index.save(tmp_path / "cards.index")
    index.save(tmp_path / "cards.index")
    damaged = (tmp_path / "cards.index").read_bytes()[:-3]
    (tmp_path / "cards.index").write_bytes(damaged)
    with pytest.raises(ev.CheckpointError, match="damaged"):
        ev.read_index(tmp_path / "cards.index")


def saved(path: Path, seed: int = 0) -> Path:
    ev.Index.of(embeddings(400, seed=seed), approximate=True).save(path)
    return path


def test_an_index_of_which_any_byte_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inverted, "FEWEST", 100)
    content = saved(tmp_path / "cards.index").read_bytes()
    rng, damaged = np.random.default_rng(0), tmp_path / "damaged.index"
    places = {name: content.find(text) for name, text in (("faiss", b"IwSq"), ("keys", b"ARROW1"))}
    assert min(places.values()) > 0
    changes = [bytes([byte ^ 1 << rng.integers(8)]) for byte in content]
    for place in [*places.values(), *(places["faiss"] + np.arange(4, 60)), *rng.integers(0, len(content), 300)]:
        damaged.write_bytes(content[:place] + changes[place] + content[place + 1 :])
        with pytest.raises(ev.CheckpointError, match="damaged"):
            ev.read_index(damaged)
    for size in [0, 7, 8, 9, *rng.integers(0, len(content), 40), len(content) - 1]:
        damaged.write_bytes(content[:size])
        with pytest.raises(ev.CheckpointError, match="damaged"):
            ev.read_index(damaged)


@pytest.mark.parametrize("part", ["inverted", "vectors", "keys", "events"])
def test_an_index_with_a_part_of_another_one_is_refused(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inverted, "FEWEST", 100)
    mine, texts = read_tensors(saved(tmp_path / "cards.index"))
    other = {**read_tensors(saved(tmp_path / "other.index", seed=1))[0]}
    other["keys"] = other["keys"].flip(0)
    other["events"] = other["events"] + 1
    write_tensors(tmp_path / "mixed.index", {**mine, part: other[part]}, texts)
    with pytest.raises(ev.CheckpointError, match=r"mixed.index is no index, or is damaged; build it again"):
        ev.read_index(tmp_path / "mixed.index")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*range(399), 398], "other rows"),
        ([*range(399), 400], "other rows"),
        ([*range(399), -1], "other rows"),
        (range(399), "not one of these"),
    ],
)
def test_an_inverted_file_over_other_rows_is_refused(
    rows: list[int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inverted, "FEWEST", 100)
    index = ev.Index.of(embeddings(400), approximate=True)
    assert index.inverted is not None
    vectors, faiss_index = index.z.values, index.inverted.faiss_index
    faiss_index.reset()
    faiss_index.add_with_ids(vectors[: len(rows)], np.array(rows))
    data, described = index.inverted.dump()
    with pytest.raises(ValueError, match=message):
        inverted.Inverted.loaded(data, described, vectors)


def test_keys_of_any_type_are_kept(tmp_path: Path) -> None:
    data = ev.read(pl.DataFrame({"card": ["b", "ä"], "day": [1, 2]}), key="card", time="day", numeric=[])
    ev.Index.of(ev.Embeddings.of(data, np.eye(2))).save(tmp_path / "i")
    read = ev.read_index(tmp_path / "i")
    assert read.keys.to_pylist() == ["b", "ä"]
    assert read.keys.type in (pa.string(), pa.large_string())
    assert read.row_of("b") == 0
