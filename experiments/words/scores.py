"""How many of the histories that a question means are among the first ten of a search."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from eventvec.statistics import Estimate
from experiments import bootstrap
from experiments.tpp.scores import ahead, among_first
from experiments.words.queries import Array

FIRST, SEED = 10, 0


def recalls(similarity: Array, relevant: Array, k: int = FIRST) -> list[float]:
    """Return the recall@k of each question: the expected number of relevant histories among the first k, by the most
    that there can be, if histories that are level come in random order (the rule of `experiments.tpp.scores`).

    Args:
        similarity: `(queries, histories)` what a search says of each history.
        relevant: `(queries, histories)` bool, at least one of each question.
        k: How many histories are looked at.

    Example:
        >>> import numpy as np
        >>> recalls(np.array([[3.0, 2.0, 2.0, 1.0]]), np.array([[True, False, True, False]]), k=2)
        [0.75]
    """
    return [_recall(*rows, k) for rows in zip(similarity, relevant, strict=True)]


def _recall(similarity: Array, relevant: Array, k: int) -> float:
    every = torch.from_numpy(similarity).double()
    before = ahead(every.expand(int(relevant.sum()), -1), every[torch.from_numpy(relevant)])
    within = among_first((before == 1).sum(1), (before == 0.5).sum(1), k)
    return float(within.sum()) / min(k, len(within))


def mean(each: Iterable[float], signed: bool = False) -> Estimate:
    """Return the mean over questions, with its interval from a bootstrap over questions.

    Args:
        each: A number for each question.
        signed: Whether the numbers are differences.
    """
    value = torch.tensor(list(each))
    found = bootstrap.estimate(
        lambda w: w @ value / w.sum(1), torch.arange(len(value)), torch.Generator().manual_seed(SEED)
    )
    return Estimate(found.value, found.low, found.high, signed)
