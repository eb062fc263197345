"""The share of held-out pairs that a classifier of pairs labels correctly, by which its best epoch is chosen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor

from eventvec.sequences import Sequences
from eventvec.views import Windowed

SCORED_BY, SEED = "accuracy", 0
"""The name of the score, and the seed of the pairs, which are the same each time."""


class PairClassifier(Protocol):
    """A method that classifies pairs of windows, such as `Order` and `CrossOrder`."""

    pairs: Windowed

    def logits(self, views: Sequences) -> Tensor:
        """Return `(m,)` log-odds that each pair of `2m` views has label 1."""


def pair_accuracy(method: PairClassifier, batches: Iterable[Sequences]) -> float:
    """Return the share of pairs that a method labels correctly, over the pairs of all batches together.

    Agrawal et al. 2022, Appendix C.2: the checkpoint with the highest accuracy on held-out pairs is used.

    Args:
        method: The method.
        batches: Rows; each row gives as many pairs as in training.

    Example:
        >>> from eventvec.methods import ocp
        >>> from eventvec.encoders import EventEncoder, GRU
        >>> from eventvec.schema import Categorical, Schema
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> x = Sequences({"code": torch.tensor([2, 2, 3, 3])}, torch.tensor([0, 2]), torch.tensor([2, 2]))
        >>> pair_accuracy(ocp(GRU(EventEncoder(schema, time=()), dim=4)).eval(), [x]) in (0.0, 0.5, 1.0)
        True
    """
    correct = count = 0
    rng: torch.Generator | None = None
    for batch in batches:
        rng = rng or torch.Generator(batch.device).manual_seed(SEED)
        views, label = method.pairs(batch, rng)
        correct += int(((method.logits(views) > 0) == (label == 1)).sum())
        count += len(label)
    return correct / count
