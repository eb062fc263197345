"""Search by description, scored: at which rank does each query find the one row that belongs to it?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.errors import DataError

TIE = 1e-6
"""Cosines that differ by no more are equal: embeddings have the digits of float32."""
BLOCK = 1024


@dataclass(frozen=True)
class Retrieval:
    """How well queries find their rows, beside what chance finds.

    Args:
        n: queries, and rows that are searched.
        mrr: mean of 1 / rank, in (0, 1].
        recall: for each k, the share of queries whose row has rank k or better.
        chance_mrr: the same mean for a random order, ``H_n / n``.

    Example:
        >>> Retrieval(n=4, mrr=1.0, recall={1: 1.0}, chance_mrr=0.52).chance_recall(1)
        0.25
    """

    n: int
    mrr: float
    recall: dict[int, float]
    chance_mrr: float

    def chance_recall(self, k: int) -> float:
        """Return the recall of a random order, ``k / n``."""
        return min(k / self.n, 1.0)


def retrieval(query: Tensor, key: Tensor, at: tuple[int, ...] = (1, 5, 10)) -> Retrieval:
    """Return ranks by cosine, in figures: query i belongs to key i, and all keys are searched.

    Equal keys are not merged (Liu and Quan 2024, Section 5.2). Ties share their ranks, see `ranks`: embeddings that
    have all collapsed onto one point score a little below chance, not at the top.

    Args:
        query: `(n, d)` embeddings, for example of descriptions.
        key: `(n, d)` embeddings, for example of histories.
        at: the k of Recall@k.

    Raises:
        DataError: there are no rows, the two shapes differ, or a value is not finite.

    Example:
        >>> found = retrieval(torch.eye(3), torch.eye(3)[[0, 2, 1]])
        >>> round(found.mrr, 3), found.recall[1], round(found.chance_mrr, 3)  # ranks 1, 2.5, 2.5
        (0.6, 0.333..., 0.611)
    """
    rank, n = ranks(query, key), len(query)
    recall = {k: float((rank <= k).double().mean()) for k in at}
    chance = float((1 / torch.arange(1, n + 1, dtype=torch.float64)).mean())
    return Retrieval(n, float((1 / rank).mean()), recall, chance)


def ranks(query: Tensor, key: Tensor) -> Tensor:
    """Return `(n,)` float64 the rank of key i for query i: 1, one per more similar key, a half per equally similar one.

    Example:
        >>> ranks(torch.tensor([[1.0, 0.0]] * 2), torch.tensor([[1.0, 0.0], [0.0, 1.0]])).tolist()
        [1.0, 2.0]
    """
    if query.shape != key.shape or query.dim() != 2 or not len(query):
        raise DataError(f"queries {tuple(query.shape)} and keys {tuple(key.shape)}: both must be (n, d), n at least 1")
    if not bool(query.isfinite().all() & key.isfinite().all()):
        raise DataError("an embedding holds a value that is not finite")
    q, k = F.normalize(query.double(), dim=1), F.normalize(key.double(), dim=1)
    own = (q * k).sum(1, keepdim=True)
    found = []
    for part, mine in zip(q.split(BLOCK), own.split(BLOCK), strict=True):  # blocks bound the memory
        more = part @ k.T - mine
        found.append(1 + (more > TIE).sum(1) + ((more.abs() <= TIE).sum(1) - 1) / 2)
    return torch.cat(found).double()
