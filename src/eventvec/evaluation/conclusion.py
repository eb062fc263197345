"""The result of an evaluation in one sentence: what is ahead of what, or how many labels it would take to tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eventvec.evaluation.baselines import BASELINES
from eventvec.evaluation.intervals import NORMAL
from eventvec.evaluation.part_sets import is_part
from eventvec.evaluation.result import TOGETHER, Difference, Evaluation, Result

MODELS = ("blend", "lightgbm", "logistic_regression", "ridge", "mlp", "knn")
"""The model that a verdict is about: the first of these that was trained."""
RELEVANT = 0.03
"""A difference that would matter to most users, for which the number of labels is given."""
POWER = (NORMAL + 0.841621) / NORMAL
"""The difference that an interval of 95 % tells from 0 in 80 % of draws, in half-widths of the interval."""
LEARNED = ("embedding", *TOGETHER)
"""The sets of features that are not opponents of the embedding."""


def verdict(evaluation: Evaluation, learned_from: Sequence[str] | None = None) -> str:
    """Return one or two sentences that say what the embedding is worth, at the largest share of the labels.

    The opponent is the strongest of the other sets of features, baselines and parts of the embedding left aside, under
    the first model of `MODELS`. Where the interval of the difference holds 0, the sentence says how many labels would
    show a difference of .03 in four of five draws, if the interval shrinks with the square root of their number. Where
    entities have labels at several times, it counts entities.
    """
    model, fraction = deciding_cell(evaluation)
    cells = [r for r in evaluation.results if (r.model, r.fraction) == (model, fraction)]
    results = {r.features: r for r in cells if not is_part(r.features)}
    where = f"{evaluation.metric} ({model})"
    if "embedding" not in results:
        best = max(results.values(), key=lambda result: result.main.mean)
        return f"{best.features} scores highest, {best.main.text()} {where}."
    warning = _beside_baselines(results)
    decisive = deciding_difference(evaluation)
    if decisive is None:
        score = results["embedding"].main
        advice = "give the events (--events) to compare it with hand-crafted features"
        return f"The embedding scores {score.text()} {where}; {advice}.{warning}"
    opponent = decisive.b
    pairs = {(d.a, d.b): d for d in evaluation.differences if (d.model, d.fraction) == (model, fraction)}
    sentence = _compared(evaluation, decisive, where)
    together = next((name for name, parts in TOGETHER.items() if opponent in parts), "")
    if added := pairs.get((together, opponent)):
        shown = added.main.text("+")
        what = f"nothing that can be told ({shown})" if added.main.place == "level" else shown
        sentence += f" Beside {opponent}, it adds {what}."
    if learned_from and evaluation.protocol != "holdout":
        names = ", ".join(map(repr, learned_from))
        warning += f" The encoder was trained on {names}, and only a hold-out test is fair to that."
    return sentence + warning


def deciding_cell(evaluation: Evaluation) -> tuple[str, float]:
    """Return the model that a verdict is about, the first of `MODELS` that was trained, and the largest share."""
    present = {result.model for result in evaluation.results}
    model = next((name for name in MODELS if name in present), evaluation.results[0].model)
    return model, max(result.fraction for result in evaluation.results)


def deciding_difference(evaluation: Evaluation) -> Difference | None:
    """Return the difference of the embedding and its strongest opponent, on which a verdict rests.

    It is None if there is no embedding or no opponent.
    """
    cell = deciding_cell(evaluation)
    names = {r.features: r.main.mean for r in evaluation.results if (r.model, r.fraction) == cell}
    opponents = [name for name in names if name not in (*LEARNED, *BASELINES) and not is_part(name)]
    if "embedding" not in names or not opponents:
        return None
    opponent = max(opponents, key=lambda name: names[name])
    wanted = ("embedding", opponent, *cell)
    return next((d for d in evaluation.differences if (d.a, d.b, d.model, d.fraction) == wanted), None)


def labels_needed(n: int, half_width: float, difference: float = RELEVANT) -> int:
    """Return about how many labels would show a difference, given the half-width of the interval with `n` of them."""
    return math.ceil(n * (half_width * POWER / difference) ** 2)


def _compared(evaluation: Evaluation, difference: Difference, where: str) -> str:
    """Return the sentence about the embedding and its opponent."""
    score, opponent = difference.main, difference.b
    if score.place != "level":
        side = "ahead of" if score.place == "ahead" else "behind"
        return f"The embedding is {side} {opponent} by {abs(score.mean):.3f} ± {score.interval:.3f} {where}."
    open_ = f"It cannot be told whether the embedding or {opponent} is ahead"
    if not math.isfinite(score.interval):
        return f"{open_}: the test parts are too small for an interval; use fewer folds or more labels."
    n, unit = (evaluation.n, "labels") if evaluation.entities is None else (evaluation.entities, "entities")
    needed = labels_needed(n, score.interval)
    if needed <= n:
        power = f"a difference of {RELEVANT:g} would be seen in four of five draws"
    else:
        power = f"a difference of {RELEVANT:g} would take about {_rounded(needed)} {unit}, instead of {n:,}"
    return f"{open_}: the difference is {score.text('+')} {where}; {power}."


def _beside_baselines(results: dict[str, Result]) -> str:
    """Return a warning if no set of features is clearly ahead of the baselines; empty otherwise."""
    present = [name for name in BASELINES if name in results]
    others = [name for name in results if name not in BASELINES]
    if not present or not others:
        return ""
    baseline = max(present, key=lambda name: results[name].main.mean)
    differences = (results[name].main - results[baseline].main for name in others)
    if any(difference.mean > difference.interval for difference in differences):
        return ""
    score = f"{results[baseline].main.mean:.3f}"
    if baseline == "event_count":
        return f" But nothing is clearly ahead of the number of events ({score}): this label cannot rank features."
    return (
        f" But nothing is clearly ahead of an event encoder without training (untrained, {score}): training has not "
        "been shown to help with this label."
    )


def _rounded(number: int) -> str:
    """Return a number with two significant digits."""
    digits = 10 ** max(len(str(number)) - 2, 0)
    return f"{math.ceil(number / digits) * digits:,}"
