"""The first sentence of a page: what the embedding is worth on the labels, or how training went without any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eventvec.evaluation import Evaluation
from eventvec.evaluation.conclusion import deciding_difference
from eventvec.evaluation.suspicion import OPENING


def headline(evaluations: Sequence[Evaluation], history: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return one sentence or two that say what a page shows of evaluations and of the history of a run."""
    if len(evaluations) == 1:
        return f"{evaluations[0].label}: {evaluations[0].verdict}".removesuffix(": ")
    if evaluations:
        return _of_several(evaluations)
    sentence = (
        "Nothing here says what the vectors are worth, because no label was evaluated: give labels (labels=, --labels "
        "and --label)."
    )
    if not history:
        return sentence
    first, last = history[0], history[-1]
    if first is last:
        return f"{sentence} The loss was {last['loss']:.4g} in epoch {last['epoch']}, the only one."
    losses = f"from {first['loss']:.4g} in epoch {first['epoch']} to {last['loss']:.4g} in epoch {last['epoch']}"
    return f"{sentence} The loss went {losses}."


def _of_several(evaluations: Sequence[Evaluation]) -> str:
    """Return the sentence about several labels: on which the embedding is ahead, behind, or neither can be told."""
    texts = {
        "ahead": "is ahead of {}",
        "behind": "is behind {}",
        "level": "cannot be told from {}",
        "alone": "is compared with no other features",
    }
    labels: dict[str, list[str]] = {place: [] for place in texts}
    for e in evaluations:
        difference = deciding_difference(e)
        labels["alone" if difference is None else difference.main.place].append(e.label)
    parts, opponent = list[str](), "the strongest other features"
    for place, text in texts.items():
        if labels[place]:
            parts.append(f"{text.format(opponent)} on {with_and(labels[place])}")
            opponent = "them"
    doubtful = with_and([e.label for e in evaluations if e.verdict.startswith(OPENING)])
    doubt = f"The results on {doubtful} are too good to be true, see what to check below. " if doubtful else ""
    return f"{doubt}The embedding {with_and(parts)}."


def with_and(parts: Sequence[str]) -> str:
    """Return texts with commas and an "and" between the last two."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
