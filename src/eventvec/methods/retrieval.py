"""Search by description: the rank at which each query finds the one row that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.errors import DataError

TIE = 1e-6
"""Cosines that differ by at most this are equal, because embeddings are float32."""

BLOCK = 1024
"""The number of queries that are ranked at a time."""


@dataclass(frozen=True)
class Retrieval:
    """How well queries find their rows, beside chance.

    Args:
        n: The number of queries, and of rows that are searched.
        mrr: The mean of 1 / rank, in (0, 1].
        recall: For each k, the share of queries whose row has rank k or better.
        chance_mrr: The expected `mrr` of a random order, ``H_n / n``.
    """

    n: int
    mrr: float
    recall: dict[int, float]
    chance_mrr: float

    def chance_recall(self, k: int) -> float:
        """Return the expected recall of a random order, ``k / n``."""
        return min(k / self.n, 1.0)


def score_retrieval(query: Tensor, key: Tensor, at: tuple[int, ...] = (1, 5, 10)) -> Retrieval:
    """Return the mean reciprocal rank and the recall of a search by cosine, where key i is the answer to query i.

    Equal keys are not merged (Liu and Quan 2024, Section 5.2). Ties share their ranks, see `ranks`, so embeddings
    that have all collapsed onto one point score ``2 / (n + 1)``, for 150 rows .013 where chance is .037.

    Args:
        query: `(n, d)` embeddings, for example of descriptions.
        key: `(n, d)` embeddings, for example of histories.
        at: The values k of Recall@k.

    Raises:
        DataError: If there are no rows, the two shapes differ, or a value is not finite.
    """
    rank, n = ranks(query, key), len(query)
    recall = {k: float((rank <= k).double().mean()) for k in at}
    chance = float((1 / torch.arange(1, n + 1, dtype=torch.float64)).mean())
    return Retrieval(n, float((1 / rank).mean()), recall, chance)


def ranks(query: Tensor, key: Tensor) -> Tensor:
    """Return `(n,)` float64 the rank of key i for query i.

    The rank is 1, plus 1 for each key that is more similar to the query, plus a half for each key that is equally
    similar.
    """
    if query.shape != key.shape or query.dim() != 2 or not len(query):
        raise DataError(
            f"queries and keys must both have the shape (n, d) with n at least 1, got {tuple(query.shape)} and "
            f"{tuple(key.shape)}"
        )
    if not bool(query.isfinite().all() & key.isfinite().all()):
        raise DataError("an embedding of a query or a key is not finite; every number must be finite")
    q, k = F.normalize(query.double(), dim=1), F.normalize(key.double(), dim=1)
    matching = (q * k).sum(1, keepdim=True)
    blocks = []
    for queries, cosines in zip(q.split(BLOCK), matching.split(BLOCK), strict=True):  # bounds the memory
        excess = queries @ k.T - cosines  # (block, n)
        blocks.append(1 + (excess > TIE).sum(1) + ((excess.abs() <= TIE).sum(1) - 1) / 2)
    return torch.cat(blocks).double()
