"""Ranks and their mean reciprocal, against a slow loop and by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from eventvec.errors import DataError
from eventvec.methods import retrieval as module
from eventvec.methods.retrieval import mean_reciprocal_rank, ranks


def slow_ranks(query: torch.Tensor, key: torch.Tensor) -> list[float]:
    """Return the rank of key i for query i, one query at a time."""
    result = []
    for i, row in enumerate(query):
        cosines = [float(F.cosine_similarity(row, other, dim=0)) for other in key]
        better = sum(cosine > cosines[i] + module.TIE for cosine in cosines)
        equal = sum(abs(cosine - cosines[i]) <= module.TIE for cosine in cosines) - 1
        result.append(1 + better + equal / 2)
    return result


def embeddings(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random queries and keys near them, three of which have the same direction."""
    rng = torch.Generator().manual_seed(seed)
    query = torch.randn(n, 3, generator=rng, dtype=torch.float64)
    key = query + torch.randn(n, 3, generator=rng, dtype=torch.float64)
    key[3], key[5] = 2 * key[1], key[1]
    return query, key


@pytest.mark.parametrize("block", [1, 4, 100])
def test_ranks_equal_those_of_a_slow_loop(block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    query, key = embeddings(30)
    assert ranks(query, key).tolist() == slow_ranks(query, key)


def test_the_score_is_the_mean_over_queries():
    query, key = embeddings(30)
    assert mean_reciprocal_rank(query, key) == pytest.approx(sum(1 / rank for rank in slow_ranks(query, key)) / 30)


def test_ties_share_their_ranks():
    query = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    key = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert ranks(query, key).tolist() == [1.5, 1.0, 1.5]


def test_collapsed_embeddings_score_far_below_chance():
    same = torch.randn(1, 8, generator=torch.Generator().manual_seed(0)).repeat(50, 1)
    noise = 1e-8 * torch.randn(50, 8, generator=torch.Generator().manual_seed(1))
    assert mean_reciprocal_rank(same, same + noise) == pytest.approx(2 / 51)
    assert bool((ranks(same, same + noise) > 10).all())
    collapsed = mean_reciprocal_rank(same[:1].repeat(150, 1), same[:1].repeat(150, 1))
    assert (round(collapsed, 3), round(chance(150), 3)) == (0.013, 0.037)


def chance(n: int) -> float:
    """Return the expected score of a random order of n keys."""
    return sum(1 / rank for rank in range(1, n + 1)) / n


def test_chance_of_the_papers_corpora():
    for n, of_chance in ((334, 0.0191), (404, 0.0163), (296, 0.0212), (301, 0.0209), (225, 0.0266), (466, 0.0144)):
        assert chance(n) == pytest.approx(of_chance, abs=5e-5)


def test_random_embeddings_score_chance():
    rng = torch.Generator().manual_seed(0)
    drawn = [torch.randn(2, 20, 4, generator=rng) for _ in range(300)]
    scores = [mean_reciprocal_rank(query, key) for query, key in drawn]
    assert sum(scores) / 300 == pytest.approx(chance(20), abs=0.01)


@pytest.mark.parametrize(
    ("query", "key", "message"),
    [
        (torch.zeros(0, 2), torch.zeros(0, 2), "n at least 1"),
        (torch.zeros(2, 2), torch.zeros(3, 2), r"got \(2, 2\) and \(3, 2\)"),
        (torch.zeros(2), torch.zeros(2), r"must both have the shape \(n, d\)"),
        (torch.full((1, 2), torch.nan), torch.zeros(1, 2), "not finite"),
    ],
)
def test_invalid_embeddings_are_refused(query, key, message):
    with pytest.raises(DataError, match=message):
        mean_reciprocal_rank(query, key)
