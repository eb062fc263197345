"""Pair samplers: two windows of each row and a label, whether they stand as they were drawn.

A pair sampler is a frozen dataclass that is called: ``(batch, rng) -> (views, label)``: `2n` views, the firsts and then
the seconds, and one label per pair. `usable(x)` says of which rows it can draw. The generator must live on the device
of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eventvec.sequences import Sequences
from eventvec.views import at_least, integers, restart_gap


@dataclass(frozen=True)
class OrderPairs:
    """Two consecutive windows of each row, in their order (label 1) or swapped (label 0), with equal chance.

    Order-contrastive pre-training (Agrawal et al. 2022, Section 2). A row of T events is
    cut into windows of `length` events from a random first place, so that every event can be in a window; the pair is
    uniform over the neighbours. The interval of a window's first event is made missing, since it reaches out of it.

    Relations: `BiasedOrderPairs` and `PermutationPairs` differ only in the pairs with label 0.

    Args:
        length: events in a window; rows with fewer than two windows are not usable.

    Example:
        >>> x = Sequences({"code": torch.arange(6)}, torch.tensor([0]), torch.tensor([6]))
        >>> views, label = OrderPairs(length=3)(x, torch.Generator().manual_seed(0))
        >>> views.pad(views.values("code")).tolist(), label.tolist()
        ([[0, 1, 2], [3, 4, 5]], [1.0])
    """

    length: int = 1

    def __post_init__(self) -> None:
        at_least("length", self.length, 1)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least two windows."""
        return x.lengths >= 2 * self.length

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, one pair per row."""
        label = _coins(batch, rng)
        window = integers(batch.lengths // self.length - 1, rng)
        return _pairs(batch, window + ~label, window + label, self.length, rng), label.float()


@dataclass(frozen=True)
class BiasedOrderPairs:
    """As `OrderPairs`, but a pair with label 0 is a neighbouring pair in *either* order, so half of those are right.

    OCP-biased (Agrawal et al. 2022, Section 3.2).

    Relations: learns the same features as `OrderPairs` from more pairs; it shows what clean negatives are worth.

    Args:
        length: events in a window; rows with fewer than two windows are not usable.

    Example:
        >>> x = Sequences({"code": torch.arange(2)}, torch.tensor([0]), torch.tensor([2]))
        >>> views, label = BiasedOrderPairs()(x[[0] * 400], torch.Generator().manual_seed(0))
        >>> first = views.values("code")[:400]
        >>> bool((first[label == 1] == 0).all()), 0.4 < float(first[label == 0].double().mean()) < 0.6
        (True, True)
    """

    length: int = 1

    def __post_init__(self) -> None:
        at_least("length", self.length, 1)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least two windows."""
        return x.lengths >= 2 * self.length

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, one pair per row."""
        label = _coins(batch, rng)
        forward = label | _coins(batch, rng)
        window = integers(batch.lengths // self.length - 1, rng)
        return _pairs(batch, window + ~forward, window + forward, self.length, rng), label.float()


@dataclass(frozen=True)
class PermutationPairs:
    """As `OrderPairs`, but a pair with label 0 is any ordered pair of two distinct windows of the row.

    Permutation-contrastive learning, PCL (Hyvärinen and Morioka 2017, as in Agrawal et al. 2022, Section 2). The two
    windows are distinct: drawn with replacement, PCL could not recover what the paper reports.

    Relations: `OrderPairs` has neighbours only and no label 0 in the right order.

    Args:
        length: events in a window; rows with fewer than two windows are not usable.

    Example:
        >>> x = Sequences({"code": torch.arange(9)}, torch.tensor([0]), torch.tensor([9]))
        >>> views, label = PermutationPairs()(x[[0] * 200], torch.Generator().manual_seed(0))
        >>> first, second = views.values("code").view(2, 200)
        >>> bool((first != second).all()), bool((second - first)[label == 1].eq(1).all())
        (True, True)
    """

    length: int = 1

    def __post_init__(self) -> None:
        at_least("length", self.length, 1)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least two windows."""
        return x.lengths >= 2 * self.length

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, one pair per row."""
        label = _coins(batch, rng)
        windows = batch.lengths // self.length
        window = integers(windows - 1, rng)
        one, other = integers(windows, rng), integers(windows - 1, rng)
        other = other + (other >= one)  # uniform over the windows that are not `one`
        first, second = torch.where(label, window, one), torch.where(label, window + 1, other)
        return _pairs(batch, first, second, self.length, rng), label.float()


PAIRS: Mapping[str, Callable[..., Any]] = {
    "order_pairs": OrderPairs,
    "biased_order_pairs": BiasedOrderPairs,
    "permutation_pairs": PermutationPairs,
}
"""One name per sampler, as a configuration names it."""


def _pairs(batch: Sequences, first: Tensor, second: Tensor, length: int, rng: torch.Generator) -> Sequences:
    """Return `2n` views: the first window of each row's pair, then the second."""
    phase = integers(batch.lengths % length + 1, rng)  # where the first whole window starts
    rows = torch.arange(len(batch), device=batch.device).repeat(2)
    offset = phase.repeat(2) + length * torch.cat([first, second])
    return restart_gap(batch.slice(rows, offset, torch.full_like(rows, length)))


def _coins(batch: Sequences, rng: torch.Generator) -> Tensor:
    return torch.rand(len(batch), generator=rng, device=batch.device) < 0.5
