"""One winner among several arms, or none and the reason, with intervals that allow for the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eventvec.evaluation.conclusion import labels_needed
from eventvec.evaluation.intervals import NORMAL, quantile
from eventvec.evaluation.result import Difference, Scores

LEVEL = 0.05
"""How often at most arms of equal worth have a winner."""


@dataclass(frozen=True)
class Choice:
    """Which arm to use, in words too: the winner if one is ahead of all, the arms level with the best one, best first,
    and the advised arm, which is the winner or the cheapest of those."""

    winner: str | None
    level: tuple[str, ...]
    advised: str
    sentence: str


def width(arms: int) -> float:
    """Return by how much a 95 % interval is widened, so that those of all pairs of arms hold together (Bonferroni)."""
    return quantile(2 * LEVEL / (arms * (arms - 1))) / NORMAL


def choose(
    scores: Mapping[str, Scores], differences: Sequence[Difference], cost: Mapping[str, float], labels: int, metric: str
) -> Choice:
    """Return the arm to use, from scores in the same folds.

    An arm wins if it is ahead of every other arm by more than the interval of their paired difference, widened for all
    pairs of arms. It was chosen because its score is the highest, so that its score alone says too much, and the pairs
    that were not chosen count too. Among arms of equal worth, a winner is declared in at most 5 % of draws.
    """
    factor = width(len(scores))
    pairs = {(d.a, d.b): (d.main.mean, factor * d.main.interval) for d in differences}
    pairs |= {(b, a): (-mean, interval) for (a, b), (mean, interval) in pairs.items()}
    ranked = sorted(scores, key=lambda name: -scores[name].mean)
    best = ranked[0]
    level = tuple(name for name in ranked if name == best or pairs[best, name][0] <= pairs[best, name][1])
    shown = f"{scores[best].mean:.3f} {metric}"
    if len(level) == 1:
        nearest = ranked[1]
        mean, interval = pairs[best, nearest]
        return Choice(
            best, level, best,
            f"{best} is ahead of all other arms: {shown}, {mean:.3f} ± {interval:.3f} ahead of the next, {nearest}.",
        )  # fmt: skip
    cheapest = min(level, key=lambda name: cost[name])
    mean, interval = max((pairs[best, name] for name in level[1:]), key=lambda pair: pair[1])
    behind = [name for name in ranked if name not in level]
    sentence = (
        f"There is no winner: {', '.join(level)} are level; {best} has the highest score ({shown}), and differences up "
        f"to ± {interval:.3f} cannot be told from chance with {labels:,} labels; a difference of .03 would take about "
        f"{labels_needed(labels, interval):,}. "
    )
    sentence += f"{', '.join(behind)} {'is' if len(behind) == 1 else 'are'} behind. " if behind else ""
    return Choice(None, level, cheapest, f"{sentence}The cheapest of the level arms is {cheapest}.")
