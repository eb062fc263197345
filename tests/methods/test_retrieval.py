"""Ranks and recall, against a slow loop and by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from eventvec.errors import DataError
from eventvec.methods import retrieval as module
from eventvec.methods.retrieval import Retrieval, ranks, score_retrieval


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


def test_mrr_and_recall_are_means_over_queries():
    query, key = embeddings(30)
    expected = slow_ranks(query, key)
    result = score_retrieval(query, key, at=(1, 3))
    assert result.n == 30
    assert result.mrr == pytest.approx(sum(1 / rank for rank in expected) / 30)
    assert result.recall == {k: pytest.approx(sum(rank <= k for rank in expected) / 30) for k in (1, 3)}


def test_ties_share_their_ranks():
    query = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    key = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert ranks(query, key).tolist() == [1.5, 1.0, 1.5]


def test_collapsed_embeddings_score_far_below_chance():
    same = torch.randn(1, 8, generator=torch.Generator().manual_seed(0)).repeat(50, 1)
    noise = 1e-8 * torch.randn(50, 8, generator=torch.Generator().manual_seed(1))
    result = score_retrieval(same, same + noise)
    assert result.mrr == pytest.approx(2 / 51)
    assert result.mrr < result.chance_mrr
    assert result.recall[10] == 0
    collapsed = score_retrieval(same[:1].repeat(150, 1), same[:1].repeat(150, 1))
    assert (round(collapsed.mrr, 3), round(collapsed.chance_mrr, 3)) == (0.013, 0.037)


def test_chance_is_the_mean_over_random_orders():
    rng = torch.Generator().manual_seed(0)
    results = [
        score_retrieval(torch.randn(20, 4, generator=rng), torch.randn(20, 4, generator=rng), at=(5,))
        for _ in range(300)
    ]
    harmonic = sum(1 / rank for rank in range(1, 21)) / 20
    assert results[0].chance_mrr == pytest.approx(harmonic)
    assert sum(result.mrr for result in results) / 300 == pytest.approx(harmonic, abs=0.01)
    recall = sum(result.recall[5] for result in results) / 300
    assert recall == pytest.approx(results[0].chance_recall(5), abs=0.02)
    assert Retrieval(3, 1.0, {}, 1.0).chance_recall(5) == 1


def test_chance_of_the_papers_corpora():
    for n, chance in ((334, 0.0191), (404, 0.0163), (296, 0.0212), (301, 0.0209), (225, 0.0266), (466, 0.0144)):
        assert score_retrieval(torch.eye(n), torch.eye(n), at=(1,)).chance_mrr == pytest.approx(chance, abs=5e-5)


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
        score_retrieval(query, key)
