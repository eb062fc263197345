"""Scores of a search and their intervals: the slow version, and how often the intervals hold what they claim."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from experiments.tpp.scores import (
    Array,
    Scored,
    cosines,
    found,
    mean_of,
    perfect_reader,
    share_told_apart,
    told_apart_by_others,
)

from eventvec.methods.retrieval import ranks

RNG = np.random.default_rng(0)


def embeddings(n: int, rng: np.random.Generator, noise: float = 1.0) -> tuple[Array, Array]:
    """Return descriptions and histories that have something in common."""
    shared = rng.normal(size=(n, 6))
    return shared + noise * rng.normal(size=(n, 6)), shared + noise * rng.normal(size=(n, 6))


def test_scores_are_those_of_the_package_where_nothing_is_level() -> None:
    query, key = embeddings(40, RNG)
    mrr, recall = found(query, key)
    rank = ranks(torch.from_numpy(query), torch.from_numpy(key)).numpy()
    assert mrr.value == pytest.approx((1 / rank).mean())
    assert recall.value == pytest.approx((rank <= 5).mean())


def test_what_is_level_comes_in_random_order() -> None:
    query, key = embeddings(12, RNG)
    key[7] = key[5] = key[3]
    scores, rng = found(query, key), np.random.default_rng(0)
    cosine = query @ (key / np.linalg.norm(key, axis=1, keepdims=True)).T
    orders = []
    for _ in range(3000):
        drawn = np.round(cosine, 6) + 1e-9 * rng.random(12)
        orders.append([1 + (row > row[i]).sum() for i, row in enumerate(drawn)])
    assert scores[0].value == pytest.approx((1 / np.array(orders)).mean(), abs=0.005)
    assert scores[1].value == pytest.approx((np.array(orders) <= 5).mean(), abs=0.005)


def test_the_jackknife_leaves_a_history_out_as_query_and_as_candidate() -> None:
    query, key = embeddings(30, RNG)
    scores = found(query, key)
    for row in range(30):
        rest = np.delete(np.arange(30), row)
        for score, without in zip(scores, found(query[rest], key[rest]), strict=True):
            assert score.without[row] == pytest.approx(without.value)


def test_the_jackknife_of_the_perfect_reader_leaves_a_history_out() -> None:
    fit = (RNG.random((20, 20)) < 0.2) | np.eye(20, dtype=bool)
    scores = perfect_reader(fit)
    for row in range(20):
        rest = np.delete(np.arange(20), row)
        for score, without in zip(scores, perfect_reader(fit[np.ix_(rest, rest)]), strict=True):
            assert score.without[row] == pytest.approx(without.value)


def test_candidates_without_a_description_are_searched_and_left_out_too() -> None:
    query, key = embeddings(30, RNG)
    query = query[:8]
    scores = found(query, key)
    cosine = query @ (key / np.linalg.norm(key, axis=1, keepdims=True)).T
    ranks = np.array([1 + (row > row[i]).sum() for i, row in enumerate(cosine)])
    assert [score.value for score in scores] == pytest.approx([(1 / ranks).mean(), (ranks <= 5).mean()])
    for row in range(30):
        queries, candidates = (np.delete(np.arange(n), row) if row < n else np.arange(n) for n in (8, 30))
        for score, without in zip(scores, found(query[queries], key[candidates]), strict=True):
            assert score.without[row] == pytest.approx(without.value)


@pytest.mark.parametrize(("described", "n"), [(40, 119), (30, 180)])
def test_intervals_of_few_descriptions_contain_the_mean_over_other_histories(described: int, n: int) -> None:
    rng = np.random.default_rng(n)
    scores = []
    for _ in range(400):
        query, key = embeddings(n, rng)
        scores.append(found(query[:described], key)[0])
    truth = np.mean([score.value for score in scores])
    assert 0.92 <= np.mean([abs(score.value - truth) <= score.half_width for score in scores]) <= 0.995


@pytest.mark.parametrize("n", [84, 150])
def test_intervals_contain_the_mean_over_other_histories(n: int) -> None:
    rng = np.random.default_rng(n)
    drawn: list[tuple[Scored, Scored]] = []
    for _ in range(400):
        query, key = embeddings(n, rng)
        better, other = found(query, key)[0], found(query + rng.normal(size=query.shape), key)[0]
        drawn.append((better, better - other))
    for scores in zip(*drawn, strict=True):
        truth = np.mean([score.value for score in scores])  # its own error is a twentieth of a half-width's
        inside = np.mean([abs(score.value - truth) <= score.half_width for score in scores])
        assert 0.93 <= inside <= 0.995


def test_counterfeits_are_share_told_apart_by_cosine() -> None:
    query, key = embeddings(25, RNG)
    counterfeits, differ = RNG.normal(size=(25, 3, 6)), RNG.random((25, 3)) < 0.6
    counterfeits[4, 1] = key[4]
    differ[4], differ[9] = (True, True, False), False
    each = []
    for row in range(25):
        cosine = [float(query[row] @ z / np.linalg.norm(z)) for z in (key[row], *counterfeits[row][differ[row]])]
        wins = [0.5 if abs(cosine[0] - other) < 1e-6 else float(cosine[0] > other) for other in cosine[1:]]
        each += [np.mean(wins)] if wins else []
    score = share_told_apart(cosines(query, key), cosines(query, counterfeits), differ)
    assert score.value == pytest.approx(np.mean(each))
    assert len(score.without) == len(each) < 25
    assert mean_of(np.array(each)).half_width == pytest.approx(1.96 * np.std(each, ddof=1) / np.sqrt(len(each)))


def test_counterfeits_are_told_apart_by_the_descriptions_of_all_others() -> None:
    query, key = embeddings(9, RNG)
    counterfeits, differ = RNG.normal(size=(9, 3, 6)), RNG.random((9, 3)) < 0.7
    counterfeits[4, 1], differ[:], differ[6] = key[4], differ | np.eye(9, 3, dtype=bool), False
    each = [
        np.mean([
            share_told_apart(
                cosines(query[[other]], key[[row]]), cosines(query[[other]], counterfeits[[row]]), differ[[row]]
            ).value
            for other in range(9) if other != row
        ]) for row in range(9) if differ[row].any()
    ]  # fmt: skip
    score = told_apart_by_others(cosines(query, key), cosines(query, counterfeits), differ)
    assert score.value == pytest.approx(np.mean(each))
    assert len(score.without) == len(each)
