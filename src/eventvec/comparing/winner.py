"""One winner among several arms, or those that are level, with intervals that allow for the choice."""

from __future__ import annotations

from collections.abc import Mapping

from eventvec.statistics import Estimate, Scores
from eventvec.statistics.corrections import together


def choose(scores: Mapping[str, Scores]) -> tuple[list[str], dict[str, Estimate]]:
    """Return the arms that are not behind the best one, it first, and by how much the best is ahead of each other arm.

    An arm wins if it is ahead of every other arm by more than the interval of their paired difference, widened for all
    pairs of arms. It was chosen because its score is the highest, which biases this score upward (winner's curse), and
    the pairs that were not chosen count too. Among arms of equal worth, a winner is declared in at most 5 % of draws.

    Args:
        scores: The scores of the arms in the same folds.
    """
    factor = together(len(scores) * (len(scores) - 1) // 2)
    best, *others = sorted(scores, key=lambda name: -scores[name].mean)
    leads = {name: (scores[best] - scores[name]).estimate.widened(factor) for name in others}
    return [best, *(name for name in others if leads[name].place != "ahead")], leads
