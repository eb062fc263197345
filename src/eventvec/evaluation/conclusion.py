"""The decision that an evaluation leads to, in at most five lines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eventvec.evaluation.baselines import BASELINES
from eventvec.evaluation.choice import candidates, worth
from eventvec.evaluation.result import CONTROL, LEARNED, NAMES, TOGETHER, Evaluation, Result
from eventvec.learners.metrics import METRIC_NAMES
from eventvec.statistics import Estimate
from eventvec.statistics.intervals import RELEVANT, labels_needed

NEED_EVENTS = "Give the events (--events) to compare it with hand-crafted features of them."


def verdict(evaluation: Evaluation, doubt: str = "", learned_from: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return whether to use the embedding for a label, in at most five lines, by the largest share of the labels.

    The opponent is the strongest of the other sets of features, baselines and parts of the embedding left aside. Where
    a set was named because it scored highest among several, the line ends with what that choice is worth on rows that
    did not choose, see `choice`. The last line may be a warning.

    Args:
        evaluation: The scores.
        doubt: What to check before the result is believed; it then is the first line, and the only warning.
        learned_from: The static columns that the encoder was trained on.
    """
    cells = evaluation.deciding
    opponents = {name: result for name, result in candidates(cells).items() if name != "embedding"}
    if "embedding" not in cells:
        sets = opponents or cells
        best = max(sets.values(), key=lambda result: result.main.mean)
        highest = f"{_name(best.features)} scores highest on {evaluation.label}: {_score(best, evaluation)}"
        lines = [f"{highest}{worth(sets)}."]
    elif not opponents:
        lines = [f"For {evaluation.label}, the embedding scores {_score(cells['embedding'], evaluation)}.", NEED_EVENTS]
    else:
        lines = _decision(evaluation, cells, opponents)
    lines += _training(cells)
    warning = "" if doubt else _warning(evaluation, cells, learned_from)
    return tuple(line for line in (doubt, *lines, warning) if line)


def _decision(evaluation: Evaluation, cells: dict[str, Result], opponents: dict[str, Result]) -> list[str]:
    """Return the lines about the embedding and the strongest of its opponents, and about both together."""
    opponent, choice = max(opponents, key=lambda name: cells[name].main.mean), worth(opponents, "others")
    label, embedding, other = evaluation.label, cells["embedding"].main, cells[opponent].main
    lead, rival = (embedding - other).estimate, _name(opponent)
    scores = f"embedding {_score(cells['embedding'], evaluation)}, {rival} {other.estimate} ({lead}){choice}"
    together = next((cells[name] for name, parts in TOGETHER.items() if opponent in parts and name in cells), None)
    alone = cells[CONTROL].main if opponent == "handcrafted" and CONTROL in cells else other
    better = max(embedding, other, alone, key=lambda score: score.mean)
    both = (
        ""
        if together is None
        else f"{together.main.estimate} ({(together.main - better).estimate} to the better one alone)"
    )
    if lead.place == "ahead":
        return [f"Use it for {label}: {scores}.", *([f"Together with {rival}: {both}."] if both else [])]
    if together is not None and (gain := (together.main - alone).estimate).place == "ahead":
        return [
            f"Use it beside {rival} for {label}: together {_score(together, evaluation)}, {rival} "
            f"{alone.estimate} ({gain}){choice}.",
            f"Alone it is {'behind' if lead.place == 'behind' else 'level'}: {embedding.estimate} ({lead}).",
        ]
    lines = [f"Do not use it yet for {label}: {scores}.", *([f"Together with {rival}: {both}."] if both else [])]
    return [*lines, _advice(evaluation, lead)]


def _advice(evaluation: Evaluation, lead: Estimate) -> str:
    """Return what to try where the embedding is not ahead."""
    if not math.isfinite(lead.half_width):
        return "The test parts are too small for an interval; use fewer folds or more labels."
    n = min(evaluation.n, evaluation.entities)
    needed = labels_needed(n, lead.half_width)
    if lead.place == "level" and needed > n:
        unit = "labels" if evaluation.n == evaluation.entities else "entities"
        instead = f"{_rounded(needed)} {unit}, not {n:,}"
        return f"They are level; to see a difference of {RELEVANT:g} would take about {instead}."
    return "Try longer training, other settings (eventvec tune), or another method (eventvec compare)."


def _training(cells: dict[str, Result]) -> list[str]:
    """Return the line about the learned part and an encoder without training."""
    learned = cells.get(LEARNED, cells.get("embedding"))
    if learned is None or "untrained" not in cells:
        return []
    lead = (learned.main - cells["untrained"].main).estimate
    what = "learned part" if LEARNED in cells else "embedding"
    place = {"ahead": "ahead of", "behind": "behind", "level": "level with"}[lead.place]
    destroyed = ": training destroyed information" if lead.place == "behind" else ""
    return [
        f"The {what} ({learned.main.estimate}) is {place} an untrained encoder ({cells['untrained'].main.estimate}, "
        f"{lead}){destroyed}."
    ]


def _warning(evaluation: Evaluation, cells: dict[str, Result], learned_from: Sequence[str] | None) -> str:
    """Return a warning if the comparison is not fair, or if no features are clearly ahead of the baselines."""
    if learned_from and evaluation.protocol != "holdout":
        names = ", ".join(map(repr, learned_from))
        return f"The encoder was trained on {names}, and only a hold-out test is fair to that."
    present, others = ([name for name in cells if (name in BASELINES) == side] for side in (True, False))
    if not present or not others:
        return ""
    baseline = max(present, key=lambda name: cells[name].main.mean)
    if any((cells[name].main - cells[baseline].main).estimate.place == "ahead" for name in others):
        return ""
    score = cells[baseline].main.estimate
    meaning = (
        "this label cannot separate feature sets" if baseline == "event_count" else "for this label, random weights do"
    )
    return f"Nothing is clearly ahead of the {_name(baseline)} ({score}): {meaning}."


def _name(features: str) -> str:
    return NAMES.get(features, features)


def _score(result: Result, evaluation: Evaluation) -> str:
    """Return a score with its interval and its metric."""
    return f"{result.main.estimate} {METRIC_NAMES[evaluation.metric]}"


def _rounded(number: int) -> str:
    """Return a number with two significant digits."""
    digits = 10 ** max(len(str(number)) - 2, 0)
    return f"{math.ceil(number / digits) * digits:,}"
