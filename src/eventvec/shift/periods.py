"""Two periods as rows: which entities are in both of them, and which are sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import torch
from torch import Tensor

from eventvec.tables.keys import align, key_series


@dataclass(frozen=True, eq=False)
class Sample:
    """The sampled entities of two periods, as positions of rows.

    A *row* is an entity in a period. The rows of a sample have an order of their own: the entities of the old period,
    those that are in both periods first, then the entities of the new one, in the same way. `both` is `(m, 2)`, the
    place in either period; `shares` are those of the entities of each period that are in both, before sampling.
    """

    both: Tensor
    only_old: Tensor
    only_new: Tensor
    shares: tuple[float, float]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of sampled entities in both periods, in the old one only and in the new one only."""
        return len(self.both), len(self.only_old), len(self.only_new)

    @property
    def old(self) -> Tensor:
        """The positions of the sampled entities of the old period, in the order of the sample."""
        return torch.cat([self.both[:, 0], self.only_old])

    @property
    def new(self) -> Tensor:
        """The positions of the sampled entities of the new period, in the order of the sample."""
        return torch.cat([self.both[:, 1], self.only_new])

    @property
    def entity(self) -> Tensor:
        """`(rows,)` the number of each row's entity, from 0; an entity in both periods has one number."""
        m, a, b = self.sizes
        return torch.cat([torch.arange(m + a), torch.arange(m), torch.arange(m + a, m + a + b)])

    def weights(self, count: int, rng: torch.Generator) -> Tensor:
        """Return `(count + 1, rows)` float64, the weight of each row as it is, and after `count` random permutations.

        Weights are negative for rows of the old period and positive for rows of the new one, and sum to −1 and 1. A
        permutation exchanges the periods of an entity that is in both with probability ½, and the periods of the other
        entities among them. If the periods are alike, all of these have the same distribution.
        """
        m, a, b = self.sizes
        in_old, in_new = ((share / m if m else 0.0) for share in self.shares)
        exchanged = torch.rand(count + 1, m, generator=rng) < 0.5
        exchanged[0] = False
        old, new = torch.tensor([-in_old, in_new], dtype=torch.float64)
        first, second = torch.where(exchanged, new, old), torch.where(exchanged, old, new)
        only_old, only_new = -(1 - self.shares[0]) / max(a, 1), (1 - self.shares[1]) / max(b, 1)
        single = torch.tensor([only_old] * a + [only_new] * b, dtype=torch.float64)
        order = torch.rand(count + 1, a + b, generator=rng).argsort(1)
        order[0] = torch.arange(a + b)
        permuted = single[order]
        return torch.cat([first, permuted[:, :a], second, permuted[:, a:]], dim=1)

    @property
    def arrangements(self) -> float:
        """The base-2 logarithm of the number of different permutations."""
        m, a, b = self.sizes
        return m + (math.lgamma(a + b + 1) - math.lgamma(a + 1) - math.lgamma(b + 1)) / math.log(2)


def sampled(old: pa.Array, new: pa.Array, entities: int, rng: torch.Generator) -> Sample:
    """Return a random sample of the entities of two periods.

    Entities that are in both periods are sampled for both, in about the proportion that they have in the smaller
    period; `Sample.weights` corrects for the proportion.
    """
    positions = torch.from_numpy(align(old, pl.DataFrame({"key": key_series(new, "key")}), "key").copy())
    matched = positions >= 0
    both = torch.stack([positions[matched], matched.nonzero()[:, 0]], dim=1)
    only_old = torch.isin(torch.arange(len(old)), both[:, 0], invert=True).nonzero()[:, 0]
    only_new = (~matched).nonzero()[:, 0]
    smaller = min(len(old), len(new))
    wanted = min(entities, max(round(entities * len(both) / smaller), 1)) if len(both) else 0
    in_both = _drawn(both, wanted, rng)
    rest = max(entities - len(in_both), 1)
    shares = (len(both) / len(old), len(both) / len(new))
    return Sample(in_both, _drawn(only_old, rest, rng), _drawn(only_new, rest, rng), shares)


def _drawn(rows: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """Return at most `count` of the rows, drawn at random."""
    return rows[torch.randperm(len(rows), generator=rng)[:count]]
