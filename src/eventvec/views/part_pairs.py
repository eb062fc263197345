"""Pairs of the two parts of a slice, and a label: whether the second part follows the first.

Pair samplers are called as those of `window_pairs`: ``sampler(batch, rng) -> (views, label)``, with the first part of
each pair and then the second of each among the `2m` views.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eventvec.options import at_least
from eventvec.sequences import Sequences, stack
from eventvec.views.cuts import restart_gap
from eventvec.views.draws import coins, integers
from eventvec.views.windows import RandomSlices


@dataclass(frozen=True)
class _Parts:
    """The option of both samplers here, which `NextPairs` describes."""

    slices: RandomSlices = RandomSlices()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        at_least("shortest", self.slices.shortest, 2)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with at least the events of the shortest slice."""
        return x.lengths >= self.slices.shortest


@dataclass(frozen=True)
class NextPairs(_Parts):
    """The two parts of random slices (label 1), and the same first parts with second parts of other rows (label 0).

    Next sequence prediction, NSP (Devlin et al. 2019, as in Babaev et al. 2022, Section 4.1). A slice of L events is
    cut after a number of events that is uniform on `{max(⌊L/4⌋, 1), …, ⌊3L/4⌋}`. As in the public code, the labels are
    exactly balanced. With label 0 the second part is uniform over those of all slices of other rows; the public code
    shuffles the second parts of the batch, so some stay in their row. In a batch of one row, all labels are 1.

    Relations: `SwappedPairs` has the order of the parts as its label; `EntityPairs` takes windows of one length.

    Args:
        slices: How slices are drawn, at least 2 events each. Rows shorter than the shortest slice are not usable.

    Raises:
        ConfigError: If the shortest slice is below 2 events.

    Example:
        >>> x = Sequences({"code": torch.arange(8)}, torch.tensor([0, 4]), torch.tensor([4, 4]))
        >>> NextPairs(RandomSlices(2, 4, 4))(x, torch.Generator())[1].tolist()
        [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, two pairs for each slice."""
        slices, source = self.slices(batch, rng)
        left, right = _cut(slices, rng)
        other, label = torch.arange(len(right), device=right.device), torch.ones(2 * len(left), device=left.device)
        if len(batch) > 1:
            count = self.slices.count  # of each row, row after row
            drawn = integers(torch.full_like(source, len(right) - count), rng)
            other = drawn + count * (drawn >= count * source)
            label[len(left) :] = 0
        return restart_gap(stack(left, left, right, right[other])), label


@dataclass(frozen=True)
class SwappedPairs(_Parts):
    """The two parts of random slices, in order (label 1) or swapped (label 0), with equal probability.

    Sequence order prediction, SOP (Lan et al. 2020, as in Babaev et al. 2022, Section 4.1). Slices are drawn and cut as
    by `NextPairs`, with its option. A cut may fall between events at one time, whose order is the table's.

    Relations: `OrderPairs` takes windows of one length from any place of the row, and keeps such events together.

    Example:
        >>> x = Sequences({"code": torch.arange(8)}, torch.tensor([0]), torch.tensor([8]))
        >>> len(SwappedPairs(RandomSlices(2, 8, 8))(x, torch.Generator())[1])
        2
    """

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, label)`, one pair for each slice."""
        left, right = _cut(self.slices(batch, rng)[0], rng)
        label = coins(len(left), rng)
        index = torch.arange(len(left), device=left.device)
        order = torch.cat([index + len(left) * ~label, index + len(left) * label])
        return restart_gap(stack(left, right)[order]), label.float()


def _cut(slices: Sequences, rng: torch.Generator) -> tuple[Sequences, Sequences]:
    """Return the two parts of each slice; each part has at least one event."""
    low, high = (slices.lengths // 4).clamp(min=1), 3 * slices.lengths // 4
    length, rows = low + integers(high - low + 1, rng), torch.arange(len(slices), device=slices.device)
    return slices.slice(rows, torch.zeros_like(length), length), slices.slice(rows, length, slices.lengths - length)
