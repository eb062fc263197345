"""The synthetic study (Agrawal et al. 2022, Section 4.1 and Appendix B): which features do pairs of windows pick?"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from eventvec.sequences import Sequences
from eventvec.views.pairs import BiasedOrderPairs, OrderPairs, PermutationPairs
from experiments.order.reference import ALL, ANALYTIC, BY_ERROR, BY_LOSS, POPULATION, SIZES
from experiments.order.selection import Subsets, exhaustive
from experiments.tables import Row

SEED, REPEATS, LENGTH = 0, 100, 10
ACTIVE = (0.4, 0.4, 0.6, 0.6)  # chance that a feature of S is ever turned on
SCHEMES = {"ocp": OrderPairs(), "ocp_biased": BiasedOrderPairs(), "pcl": PermutationPairs()}
BLOCK = 200_000  # trajectories that are drawn at a time


@dataclass(frozen=True)
class Distribution:
    """Trajectories of bits: four irreversible features S, then noisy copies of the first of them, then a background.

    A feature of S is turned on with its chance, at a step that is uniform over the trajectory (the first included),
    and stays on. The paper writes `P[copy = feature] = 1 - ε`, so ε is the chance that a copy disagrees; the other
    reading is its complement, which spans the same representations. The background starts uniformly.

    Args:
        copies: how many features of S have a noisy copy.
        flip: chance that a copy disagrees with its feature, at each step anew: the paper's ε.
        stay: chance that the background bit stays as it was; 0 alternates ("periodic with period 1").
    """

    copies: int
    flip: float
    stay: float

    def draw(self, rows: int, rng: torch.Generator) -> Sequences:
        """Return trajectories of 10 steps with a column `bits (events, features)`, bool."""
        begins = torch.randint(LENGTH, (rows, 1, 4), generator=rng)
        ever = torch.rand(rows, 1, 4, generator=rng) < torch.tensor(ACTIVE)
        s = ever & (torch.arange(LENGTH)[:, None] >= begins)
        copies = s[..., : self.copies] ^ (torch.rand(rows, LENGTH, self.copies, generator=rng) < self.flip)
        turns = torch.rand(rows, LENGTH, 1, generator=rng) >= self.stay
        turns[:, 0] = torch.rand(rows, 1, generator=rng) < 0.5  # the uniform start
        background = turns.cumsum(1) % 2 == 1
        bits = torch.cat([s, copies, background], 2).flatten(0, 1)
        return Sequences({"bits": bits}, LENGTH * torch.arange(rows), torch.full((rows,), LENGTH))


DISTRIBUTIONS = {1: Distribution(copies=3, flip=0.7, stay=0.0), 2: Distribution(copies=2, flip=0.55, stay=0.3)}


def selected(x: Sequences, scheme: str, sets: int, rng: torch.Generator) -> Subsets:
    """Return what each subset of four features is worth on one pair of each trajectory, the rows cut into data sets."""
    views, label = SCHEMES[scheme](x, rng)
    first, second = views.values("bits").view(2, sets, len(x) // sets, -1)
    return exhaustive(first, second, label.view(sets, -1), size=len(ACTIVE))


def figure2(small: bool, by: Literal["error", "loss"]) -> list[Row]:
    """Return one row per distribution, scheme and size: how many features of S the best subset has, over 100 sets."""
    rows, begun = [], time.perf_counter()
    for number in DISTRIBUTIONS:
        for m in SIZES[:3] if small else SIZES:
            rng = torch.Generator().manual_seed(SEED + 100_000 * number + m)  # no cell depends on another one
            parts = list(_recovered(number, m, 5 if small else REPEATS, by, rng))
            for scheme in SCHEMES:
                rows.append(_row(number, scheme, m, torch.cat([part[scheme] for part in parts]), by))
            print(f"distribution {number}, {m} pairs: {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    return sorted(rows, key=lambda row: (row["distribution"], row["scheme"]))


def population(small: bool) -> list[Row]:
    """Return the errors of S and of the best other subset on as many pairs as stand for the population."""
    rng, rows, pairs = torch.Generator().manual_seed(SEED), [], 6_000 if small else 600_000
    for number, distribution in DISTRIBUTIONS.items():
        x = distribution.draw(pairs, rng)
        for scheme in SCHEMES:
            found = selected(x, scheme, 1, rng)
            error, known = found.error[0], POPULATION[number, scheme]
            other = int(error[1:].argmin()) + 1  # S, the first four features, is the first subset
            rows.append(
                {
                    "distribution": number, "scheme": scheme, "pairs": pairs,
                    "S": float(error[0]), "S analytic": ANALYTIC.get(scheme, ""), "S known": known[0],
                    "best other": float(error[other]), "its features": _names(number, found.features[other]),
                    "best other known": known[1],
                }
            )  # fmt: skip
    return rows


def _recovered(
    number: int, m: int, repeats: int, by: Literal["error", "loss"], rng: torch.Generator
) -> Iterator[dict[str, Tensor]]:
    """Yield, of some data sets at a time, how many features of S each scheme's best subset has; the trajectories are
    the same for all schemes."""
    for sets in torch.arange(repeats).split(max(1, BLOCK // m)):
        x = DISTRIBUTIONS[number].draw(len(sets) * m, rng)
        yield {
            scheme: (selected(x, scheme, len(sets), rng).best(rng, by) < len(ACTIVE)).sum(1).double()
            for scheme in SCHEMES
        }


def _row(number: int, scheme: str, m: int, recovered: Tensor, by: Literal["error", "loss"]) -> Row:
    ours, known = float(recovered.mean()), (BY_ERROR if by == "error" else BY_LOSS)[number, scheme][m]
    share = float((recovered == len(ACTIVE)).double().mean())
    known_share = ALL[number, scheme][m] if by == "error" else ""
    least = spread(known, known_share if by == "error" else float(known == 4))
    error = math.sqrt(2 * max(float(recovered.var()), least) / len(recovered))
    return {
        "distribution": number, "scheme": scheme, "m": m, "recovered": ours, "all": share, "recovered known": known,
        "all known": known_share, "difference": ours - known, "standard error": error,
    }  # fmt: skip


def spread(mean: float, share: float) -> float:
    """Return the least variance of whole numbers up to 4 with this mean, of which this share is 4.

    The reference tells no variance; where all of our own repeats agree, its variance is at least this.
    """
    if share == 1:
        return 0.0
    rest = (mean - 4 * share) / (1 - share)
    return share * (1 - share) * (4 - rest) ** 2 + (1 - share) * (rest % 1) * (1 - rest % 1)


def _names(number: int, features: Tensor) -> str:
    """Return what the features are called: S1 to S4, their copies C1 …, and the background B."""
    copies = DISTRIBUTIONS[number].copies
    names = [f"S{i}" for i in range(1, 5)] + [f"C{i}" for i in range(1, copies + 1)] + ["B"]
    return " ".join(names[i] for i in features.tolist())
