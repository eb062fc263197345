"""Neighbours and histories equal those of slow loops, and the page holds no more than it says."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from eventvec.dataset import Dataset
from eventvec.describing import describe
from eventvec.reporting import in_words, neighbours
from eventvec.reporting.in_words import InWords
from eventvec.reporting.neighbours import Neighbours, neighbour_rows, neighbours_data, neighbours_of
from eventvec.reporting.timelines import timelines
from eventvec.tables import Embeddings, Fitting, read


def events(n: int = 40, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    card = np.repeat(np.arange(n), rng.integers(1, 9, n))
    m = len(card)
    shops = [None if i % 10 == 3 else shop for i, shop in enumerate(rng.choice(list("abc"), m).tolist())]
    return pl.DataFrame(
        {"card": card, "day": rng.permutation(m), "region": ["x"] * m, "shop": shops, "paid": rng.random(m)}
    )


@pytest.fixture(scope="module")
def data() -> Dataset:
    columns = {"categorical": ["region", "shop"], "numeric": ["paid"], "fitting": Fitting(min_count=1)}
    return read(events(), key="card", time="day", **columns)


@pytest.fixture(scope="module")
def z(data: Dataset) -> Embeddings:
    return Embeddings.of(data, np.random.default_rng(1).normal(size=(len(data), 5)))


def decoded(text: str, kind: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(text), kind)


def numbers_of(drawn: dict[str, Any]) -> tuple[list[int], list[int], list[int], list[float]]:
    """Return the rows, the lengths shown and in all, and the times of the histories that the page draws."""
    steps = decoded(drawn["times"], "<u4")
    of_rows = [
        decoded(drawn[name], kind).tolist() for name, kind in (("rows", "<u4"), ("lengths", "<u2"), ("totals", "<u4"))
    ]
    return *of_rows, (steps * drawn["step"] + drawn["start"]).tolist()


def check(near: Neighbours, values: np.ndarray[Any, Any]) -> None:
    """Compare the neighbours with a plain loop over all pairs."""
    unit = [row / np.linalg.norm(row) for row in values]
    for query, found, scores in zip(near.queries, near.nearest, near.similarity, strict=True):
        cosine = {i: float(unit[query] @ unit[i]) for i in range(len(values)) if i != query}
        assert found.tolist() == sorted(cosine, key=lambda i: -cosine[i])[: len(found)]
        assert np.allclose(scores, [cosine[i] for i in found], atol=1e-6)


def test_neighbours_equal_a_slow_loop(data: Dataset, z: Embeddings) -> None:
    near = neighbours_of(z, data)
    check(near, z.values)
    assert sorted(near.queries.tolist()) == list(range(len(z)))
    assert near.examples == 6
    assert "drawn by lot" not in near.rule
    page = neighbours_data(near)
    similarity = decoded(page["similarity"], "<u2") / 65535 * 2 - 1
    assert np.allclose(similarity.reshape(near.similarity.shape), near.similarity, atol=2e-5)
    assert decoded(page["nearest"], "<u4").reshape(near.nearest.shape).tolist() == near.nearest.tolist()


def test_of_many_entities_some_are_drawn(z: Embeddings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "LOOKED_UP", 30)
    monkeypatch.setattr(neighbours, "OF_MANY", 20)
    near = neighbours_of(z, None)
    check(near, z.values)
    assert len(set(near.queries.tolist())) == 20
    assert "Of the other entities, 14 were drawn by lot." in near.rule
    assert near.histories is None


def test_examples_have_a_usual_number_of_events(data: Dataset, z: Embeddings) -> None:
    near = neighbours_of(z, data)
    few, many = sorted(z.events)[9], sorted(z.events)[29]  # the quartiles of 40
    assert all(few <= z.events[row] <= many for row in near.queries[: near.examples])
    assert min(z.events) < few
    assert many < max(z.events)
    assert f"a usual number of events, {few} to {many} as the middle half" in near.rule


def test_the_learned_part_alone_is_compared(data: Dataset, z: Embeddings) -> None:
    parts = replace(z, metadata={**z.metadata, "parts": {"learned": [0, 2], "timing": [2, 5]}})
    check(neighbours_of(parts, data), z.values[:, :2])


def test_equal_vectors_have_one_example(data: Dataset) -> None:
    near = neighbours_of(Embeddings.of(data, np.ones((len(data), 3))), data)
    assert near.examples == 1
    assert np.allclose(near.similarity, 1)


@pytest.mark.parametrize("most", [10_000, 60])
def test_histories_equal_a_slow_loop(data: Dataset, most: int) -> None:
    order = np.random.default_rng(2).permutation(len(data))
    drawn = timelines(data, order, most)
    rows, lengths, totals, times = numbers_of(drawn)
    table = events().sort("card", "day")
    assert rows == order[: len(rows)].tolist()
    assert len(times) <= most
    assert (len(rows) == len(data)) == (most == 10_000)
    shop, paid, region = drawn["columns"]  # the region is the same in each history, so that it comes last
    assert [column["name"] for column in drawn["columns"]] == ["shop", "paid", "region"]
    codes, amounts, start = decoded(shop["codes"], "u1"), decoded(paid["values"], "<f4"), 0
    assert region["names"] == ["x"]
    for row, length, total in zip(rows, lengths, totals, strict=True):
        history = table.filter(pl.col("card") == row)
        assert (length, total) == (len(history), len(history))
        assert times[start : start + length] == pytest.approx(history["day"].to_list())
        assert [shop["names"][code - 1] if code else None for code in codes[start : start + length]] == history[
            "shop"
        ].to_list()
        assert np.allclose(amounts[start : start + length], history["paid"])
        start += length


def test_of_long_histories_the_last_events_are_kept() -> None:
    table = pl.DataFrame({"card": [0] * 300 + [1] * 3, "day": [*range(300), 1, 2, 3]})
    data = read(table, key="card", time="day", numeric=[])
    drawn = timelines(data, np.array([0, 1]), 120)
    _, lengths, totals, times = numbers_of(drawn)
    assert (drawn["longest"], lengths, totals) == (100, [100, 3], [300, 3])
    assert times == pytest.approx([*range(200, 300), 1, 2, 3])
    assert timelines(data, np.array([0, 1]), 250)["longest"] == 200


def test_the_table_has_each_example_and_its_neighbours(data: Dataset, z: Embeddings) -> None:
    near = neighbours_of(z, data)
    names = pl.Series([f"k{i}" for i in range(len(z))])
    rows = neighbour_rows(near, names, z, data, count=2)
    assert list(rows[0])[-3:] == ["most frequent region", "most frequent shop", "in words"]
    assert len(rows) == 6 * 3
    for place, (query, found) in enumerate(zip(near.queries[:6], near.nearest[:6], strict=True)):
        block = rows[3 * place : 3 * place + 3]
        assert [row["entity"] for row in block] == [f"k{i}" for i in (query, *found[:2])]
        assert [row["example"] for row in block] == [str(place + 1), "", ""]
        assert [row["events"] for row in block] == [z.events[i] for i in (query, *found[:2])]
        assert np.isnan(block[0]["similarity"])
        assert block[1]["similarity"] == near.similarity[place, 0]


def test_sentences_equal_a_slow_loop(data: Dataset, z: Embeddings) -> None:
    table = describe(data, most=1_000)
    true_of = {row: set(part["sentence"]) for (row,), part in table.group_by("card")}
    counts = {text: sum(text in true for true in true_of.values()) for text in table["sentence"]}
    near = neighbours_of(z, data)
    assert near.in_words is not None
    rows = neighbour_rows(near, pl.Series(range(len(z))), z, data, count=2)
    shared = 0
    for place, query in enumerate(near.queries[:6].tolist()):
        for row in rows[3 * place : 3 * place + 3]:
            both = row["entity"] != query
            true = true_of[row["entity"]] & true_of[query]
            text = row["in words"].removeprefix("Both: ")
            shown = [f"{part}." for part in text.removesuffix(".").split(". ")] if text else []
            assert row["in words"].startswith("Both: ") == (both and bool(true))
            assert (len(shown), set(shown) <= true) == (min(3, len(true)), True)
            assert sorted(counts[text] for text in true)[: len(shown)] == [counts[text] for text in shown]
            shared += both and bool(true)
    assert shared > 3
    page = neighbours_data(near)["words"]
    lengths, ids = decoded(page["lengths"], "<u2"), decoded(page["ids"], "<u4")
    told = dict(zip(decoded(page["rows"], "<u4").tolist(), np.split(ids, lengths.cumsum()[:-1]), strict=True))
    assert {row: {page["texts"][place] for place in places} for row, places in told.items()} == true_of
    assert "those that are true of both" in near.rule


def test_of_many_histories_some_are_described(data: Dataset, z: Embeddings, monkeypatch: pytest.MonkeyPatch) -> None:
    order = np.random.default_rng(3).permutation(len(data))
    lengths = data.sequences.lengths.numpy()[order].cumsum()
    for most, events_, expected in ((7, 10_000, 7), (40, lengths[4], 5), (2, 1, 3)):
        monkeypatch.setattr(in_words, "DESCRIBED", most)
        monkeypatch.setattr(in_words, "EVENTS", events_)
        assert [*InWords.of(data, order, 3).ids] == order[:expected].tolist()
    assert neighbours_of(z, None).in_words is None
    assert "in words" not in neighbour_rows(neighbours_of(z, None), pl.Series(range(len(z))), z, None)[0]
