"""The first sentence of a page: what the embedding is worth on the labels, or how training went without any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eventvec.evaluation import Evaluation
from eventvec.evaluation.conclusion import deciding_difference


def headline(evaluations: Sequence[Evaluation], history: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return one sentence or two that say what the page shows.

    Args:
        evaluations: The evaluations of the page.
        history: One record per epoch, as in `Run.history`.
    """
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
    return (
        f"{sentence} The loss went from {first['loss']:.4g} in epoch {first['epoch']} to {last['loss']:.4g} in epoch "
        f"{last['epoch']}."
    )


def _of_several(evaluations: Sequence[Evaluation]) -> str:
    """Return the sentence about several labels: on which the embedding is ahead, behind, or neither can be told."""
    places: dict[str, list[str]] = {"ahead": [], "behind": [], "open": [], "alone": []}
    for e in evaluations:
        difference = deciding_difference(e)
        if difference is None:
            place = "alone"
        elif abs(difference.main.mean) > difference.main.interval:
            place = "ahead" if difference.main.mean > 0 else "behind"
        else:
            place = "open"
        places[place].append(e.label)
    words = {
        "ahead": "is ahead of the strongest other features on {}",
        "behind": "is behind them on {}" if places["ahead"] else "is behind the strongest other features on {}",
        "open": "cannot be told from them on {}",
        "alone": "is compared with no other features on {}",
    }
    if not places["ahead"] and not places["behind"]:
        words["open"] = "cannot be told from the strongest other features on {}"
    parts = [words[place].format(_and(labels)) for place, labels in places.items() if labels]
    return f"The embedding {_and(parts)}."


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
