"""Search by description: the rank at which each query finds the one row that belongs to it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.errors import DataError

TIE = 1e-6
"""Cosines that differ by at most this are equal, because embeddings are float32."""

BLOCK = 1024
"""The number of queries that are ranked at a time."""


def mean_reciprocal_rank(query: Tensor, key: Tensor) -> float:
    """Return the mean of 1 / rank in a search by cosine, where key i is the answer to query i, in (0, 1].

    Equal keys are not merged (Liu and Quan 2024, Section 5.2). Ties share their ranks, see `ranks`, so embeddings
    that have all collapsed onto one point score ``2 / (n + 1)``. A random order is expected to score ``H_n / n``: for
    150 rows .037, where collapsed embeddings score .013.

    Args:
        query: `(n, d)` embeddings, for example of descriptions.
        key: `(n, d)` embeddings, for example of histories.

    Raises:
        DataError: If there are no rows, the two shapes differ, or a value is not finite.
    """
    return float((1 / ranks(query, key)).mean())


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
