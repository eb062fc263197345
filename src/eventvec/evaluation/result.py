"""The result of an evaluation: scores per fold and paired differences, as a table, a frame or plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from eventvec.evaluation.baselines import BASELINES
from eventvec.evaluation.intervals import cross_validation_half_width, crossed_half_width
from eventvec.evaluation.metrics import METRICS, Task, half_width
from eventvec.evaluation.part_sets import is_part, lacking_a_part
from eventvec.evaluation.printing import Printed, stacked, terminal_table
from eventvec.sequences import Array

EARLIER = "earlier_labels"
"""The set of features of the entity's own earlier labels, and the option that adds it."""
TOGETHER = {
    "both": ("embedding", "aggregates"),
    "embedding_handcrafted": ("embedding", "handcrafted"),
    f"embedding_{EARLIER}": ("embedding", EARLIER),
}
"""The sets of features that consist of two others side by side, and are added if both are there."""

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class Scores:
    """One number per fold, of one metric.

    Args:
        values: The scores, in the order of the folds.
        replicates: `(replicates, folds)` the scores on resampled test entities, see `resampling`. Without them, the
            interval is the t-interval over the folds that papers print, which is too narrow.
        same_test: Whether all folds are tested on the same entities, as in a hold-out test.
    """

    values: tuple[float, ...]
    replicates: Array | None = field(default=None, compare=False, repr=False)
    same_test: bool = False

    @property
    def mean(self) -> float:
        """The mean over the folds."""
        return float(np.mean(self.values))

    @property
    def interval(self) -> float:
        """The half-width of the 95 % interval of the mean over the folds, see `intervals`."""
        if self.replicates is None:
            return half_width(self.values)
        if self.same_test:
            return crossed_half_width(self.replicates)
        return cross_validation_half_width(self.values, self.replicates)

    def __sub__(self, other: Scores) -> Scores:
        values = tuple(a - b for a, b in zip(self.values, other.values, strict=True))
        if self.replicates is None or other.replicates is None:
            return Scores(values)
        return Scores(values, self.replicates - other.replicates, self.same_test)

    @property
    def place(self) -> Literal["ahead", "behind", "level"]:
        """For a difference, which side is ahead: `level` if its interval holds 0."""
        if not abs(self.mean) > self.interval:
            return "level"
        return "ahead" if self.mean > 0 else "behind"

    def text(self, sign: str = "") -> str:
        """Return the mean and its interval as text, with `sign="+"` a plus before positive means."""
        return f"{self.mean:{sign}z.3f} ± {self.interval:.3f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the mean, the interval and the scores as plain numbers."""
        return {"mean": self.mean, "interval": self.interval, "scores": list(self.values)}


@dataclass(frozen=True)
class Result:
    """The scores of one model on one set of features with one share of each fold's training labels.

    `main` and `secondary` are of the task's two metrics, `labels` of the main one for each of several labels. Parts of
    the embedding are called `embedding: timing` and `embedding: without timing`.
    """

    features: str
    model: str
    fraction: float
    main: Scores
    secondary: Scores
    labels: Mapping[str, Scores] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """The main scores of the features `a` minus those of `b`, fold by fold, with one model and share of the labels."""

    a: str
    b: str
    model: str
    fraction: float
    main: Scores


@dataclass(frozen=True, repr=False)
class Evaluation(Printed):
    """How well a label can be predicted from sets of features. It prints as tables, in a notebook too.

    Args:
        label: The name of the label.
        task: What was predicted.
        n: The number of labelled rows, those held out included: one for each entity, or for each of its times.
        folds: The number of scores in each result.
        protocol: `cross-validation`, `holdout` for a test on entities that the encoder never saw, or `date` for a test
            on labels after a date.
        positive: For binary labels, the class whose probability is scored; for several labels that of each, by name.
        results: One result for each fraction, model and set of features.
        differences: One difference for each fraction, model and pair of feature sets; a part of the embedding is
            compared with the embedding only. The tables show the differences of learned features and an opponent, and
            of the embedding and the same without a part.
        notes: Sentences about what was counted, left out or assumed.
        verdict: What the embedding is worth, in one or two sentences, see `conclusion`; before them, what to check if
            the result is too good to be true, see `suspicion`.
        entities: The number of labelled entities, if some have labels at several times.
        run: The id of the run that embedded the entities; None if it is not known.
        strongest: What single feature predicts the label nearly without error, in words; empty if none.

    Example:
        >>> scores = Scores((0.80, 0.82, 0.84))
        >>> result = Result("embedding", "knn", 1.0, scores, scores)
        >>> evaluation = Evaluation("churn", "binary", 90, 3, "cross-validation", True, (result,), (), ())
        >>> evaluation.get("embedding", "knn").main.values
        (0.8, 0.82, 0.84)
        >>> evaluation.to_dict()["results"][0]["secondary"]["metric"]
        'average_precision'
        >>> evaluation.frame().columns
        ['features', 'model', 'fraction', 'auroc', 'interval', 'average_precision']
    """

    label: str
    task: Task
    n: int
    folds: int
    protocol: str
    positive: Any
    results: tuple[Result, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    verdict: str = ""
    entities: int | None = None
    run: str | None = None
    strongest: str = ""

    @property
    def metric(self) -> str:
        """The main metric: `auroc`, `accuracy` or `r2`. Higher is better."""
        return METRICS[self.task][0]

    @property
    def rows_text(self) -> str:
        """The number of labelled rows, and of their entities if there are fewer."""
        entities = f"{self.n if self.entities is None else self.entities:,} entities"
        return f"{self.n:,} labels of {entities}" if self.entities is not None else entities

    @property
    def shown_differences(self) -> tuple[Difference, ...]:
        """The differences that tables show: those of learned features and an opponent, or of an embedding and the same
        without a part; all if nothing is learned."""
        if all(result.features != "embedding" for result in self.results):
            return self.differences
        lacking = lacking_a_part(result.features for result in self.results)
        return tuple(d for d in self.differences if (d.b in lacking if is_part(d.b) else _has_learned_part(d)))

    def get(self, features: str, model: str, fraction: float = 1.0) -> Result:
        """Return the result of a model on a set of features.

        Raises:
            KeyError: If there is no such result.
        """
        for result in self.results:
            if (result.features, result.model, result.fraction) == (features, model, fraction):
                return result
        raise KeyError((features, model, fraction))

    def frame(self) -> pl.DataFrame:
        """Return the results as a polars frame with one row for each fraction, model and set of features."""
        main, secondary = METRICS[self.task]
        return pl.DataFrame(
            [
                {"features": r.features, "model": r.model, "fraction": r.fraction, main: r.main.mean}
                | {"interval": r.main.interval, secondary: r.secondary.mean}
                for r in self.results
            ]
        )

    def render(self) -> Group:
        """Return the tables of results and differences and the notes, for a `rich` console to print."""
        positive = f" (positive: {self.positive})" if self.task == "binary" else ""
        protocol = "split by date" if self.protocol == "date" else self.protocol
        heading = f"{self.label}{positive} · {self.rows_text} · {protocol}, {self.folds} folds"
        rows = [[percent(r.fraction), r.model, r.features, r.main.text(), r.secondary.text()] for r in self.results]
        parts: list[Any] = [self.verdict] if self.verdict else []
        parts.append(terminal_table(("labels", "model", "features", *METRICS[self.task]), rows))
        if self.differences:
            head = ("labels", "model", "difference", self.metric)
            shown = self.shown_differences
            rows = [[percent(d.fraction), d.model, f"{d.a} − {d.b}", d.main.text("+")] for d in shown]
            parts += [stacked("paired differences"), terminal_table(head, rows)]
        return stacked(heading, *parts, notes=self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which ``eventvec evaluate --json`` prints."""
        secondary = METRICS[self.task][1]
        names = ("label", "task", "metric", "n", "entities", "folds", "protocol", "run", "verdict", "positive")
        return {
            **{name: getattr(self, name) for name in names},
            "entities": self.n if self.entities is None else self.entities,
            "results": [
                {"features": r.features, "model": r.model, "fraction": r.fraction}
                | r.main.to_dict()
                | {"secondary": {"metric": secondary} | r.secondary.to_dict()}
                | ({"labels": {name: scores.to_dict() for name, scores in r.labels.items()}} if r.labels else {})
                for r in self.results
            ],
            "differences": [
                {"a": d.a, "b": d.b, "model": d.model, "fraction": d.fraction} | d.main.to_dict()
                for d in self.differences
            ],
            "notes": list(self.notes),
        }


def _has_learned_part(difference: Difference) -> bool:
    """Return whether a difference is one of what is learned and an opponent, alone or together."""
    if difference.a in TOGETHER:
        return difference.b in TOGETHER[difference.a]
    return difference.a == "embedding" and difference.b not in BASELINES


def percent(fraction: float) -> str:
    """Return a share of the labels as a percentage."""
    return f"{100 * fraction:g} %"
