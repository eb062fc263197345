"""The chart of an evaluation: the scores of all sets of features by the model of the verdict, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventvec.answers.charts import Chart, Series, curves, dots, lines_height, looks
from eventvec.evaluation.part_sets import is_part
from eventvec.evaluation.result import DECIDING, NAMES
from eventvec.learners.metrics import METRIC_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEANINGS = {
    "auroc": "AUROC is the probability that a random entity of the class ranks above another; .5 is guessing.",
    "accuracy": "Accuracy is the share of entities whose class is predicted correctly.",
    "r2": "R² is the share of the label's variance that is explained; 0 is no better than the mean.",
    "macro_auroc": "The AUROC of a label is the probability that a random entity of the class ranks above another; .5 "
    "is guessing.",
}
PROTOCOLS = {
    "cross-validation": "cross-validation",
    "holdout": "tested on entities the encoder never saw",
    "date": "tested after a date",
}
GUESSING = {"auroc": 0.5, "macro_auroc": 0.5, "r2": 0.0}
LOWEST = {"r2": -0.25}
"""The lowest score that is drawn, if there is a higher one; with few labels, scores can be far below it."""


def charts(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> tuple[Chart, ...]:
    """Return the chart of the rows of results of an evaluation, or of none if there are no rows.

    With one or two shares of the labels, sets of features are on lines, the highest score first. With more, the chart
    shows the score by the share; parts of the embedding are left out there, to keep the lines distinguishable.
    """
    if not rows:
        return ()
    metric, names = facts["metric"], list(dict.fromkeys(row["features"] for row in rows))
    models = {row["model"] for row in rows}
    model = next((name for name in DECIDING if name in models), rows[0]["model"])
    fractions = sorted({row["fraction"] for row in rows}, reverse=True)
    scores = {(row["features"], row["fraction"]): row["score"] for row in rows if row["model"] == model}
    names.sort(key=lambda name: -scores[name, fractions[0]].value if (name, fractions[0]) in scores else 0)
    known, lowest = looks([row["features"] for row in rows]), LOWEST.get(metric, float("-inf"))
    across = f"{METRIC_NAMES[metric]}, higher is better"
    lowest = lowest if any(score.value >= lowest for score in scores.values()) else float("-inf")

    def on_lines(axes: Axes) -> None:
        series = [
            Series(
                [scores.get((name, fraction)) for name in names],
                f"{100 * fraction:g} % of the labels" if len(fractions) > 1 else "",
                [known[name] for name in names],
                pale=fraction < fractions[0],
            )
            for fraction in fractions
        ]
        shown = [NAMES.get(name, name) for name in names]
        dots(axes, shown, *series, across=across, reference=GUESSING.get(metric))
        axes.set_xlim(left=max(axes.get_xlim()[0], lowest))

    def by_share(axes: Axes) -> None:
        series = [
            Series([scores.get((name, fraction)) for fraction in fractions], NAMES.get(name, name), known[name])
            for name in names
            if not is_part(name)
        ]
        up = METRIC_NAMES[metric]
        curves(axes, [100 * each for each in fractions], *series, across="share of the labels, %", up=up, log=True)
        axes.set_ylim(bottom=max(axes.get_ylim()[0], lowest))

    few = len(fractions) < 3
    caption = f"{MEANINGS[metric]} {_how(facts, model)}"
    height = lines_height(len(names), len(fractions)) if few else 440
    return (Chart(_title(facts), caption, on_lines if few else by_share, height),)


def _title(facts: Mapping[str, Any]) -> str:
    """Return the label, and for a class its name."""
    positive = facts.get("positive")
    of_class = f", class “{positive}”" if facts["task"] == "binary" and positive is not True else ""
    return f"{facts['label']}{of_class}: {METRIC_NAMES[facts['metric']]}"


def _how(facts: Mapping[str, Any], model: str) -> str:
    """Return how the scores came about."""
    n, entities = facts["n"], facts["entities"]
    rows = f"{n:,} entities" if n == entities else f"{n:,} labels of {entities:,} entities"
    folds = f"{facts['folds']} folds, {PROTOCOLS[facts['protocol']]}"
    return f"Model: {model.replace('_', ' ')}; {rows}; {folds}; bars are 95 % intervals."
