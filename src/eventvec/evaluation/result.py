"""What an evaluation found: scores per fold, paired differences, as plain numbers for a file and as a table to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eventvec.evaluation.metrics import METRICS, Task, half_width

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class Scores:
    """One number per fold, of one metric.

    Args:
        values: in the order of the folds.

    Example:
        >>> scores = Scores((0.80, 0.82, 0.84))
        >>> f"{scores.mean:.3f} ± {scores.interval:.3f}"
        '0.820 ± 0.050'
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the folds."""
        return float(np.mean(self.values))

    @property
    def interval(self) -> float:
        """Half-width of the 95 % t-interval of the mean, over the folds."""
        return half_width(self.values)

    def __sub__(self, other: Scores) -> Scores:
        return Scores(tuple(a - b for a, b in zip(self.values, other.values, strict=True)))

    def to_dict(self) -> dict[str, Any]:
        """Return mean, interval and scores as plain numbers."""
        return {"mean": self.mean, "interval": self.interval, "scores": list(self.values)}


@dataclass(frozen=True)
class Result:
    """What one model makes of one set of features at one share of the labels.

    Args:
        features: `embedding`, `aggregates`, `both` or what the caller named.
        model: name in `MODELS`.
        fraction: share of each fold's training labels.
        main: scores of the task's main metric.
        secondary: scores of its secondary metric.
    """

    features: str
    model: str
    fraction: float
    main: Scores
    secondary: Scores


@dataclass(frozen=True)
class Difference:
    """Main scores of features `a` minus those of features `b`, fold by fold, same model and share of the labels."""

    a: str
    b: str
    model: str
    fraction: float
    main: Scores


@dataclass(frozen=True)
class Evaluation:
    """What an embedding is worth: returned by `evaluate`.

    Args:
        label: name of the label.
        task: what was predicted.
        n: labelled entities, those held out included.
        folds: scores per result.
        protocol: `cross-validation`, or `holdout`: tested on entities that the encoder never saw.
        positive: for binary labels, the class whose probability is scored.
        results: one per features, model and fraction.
        differences: one per pair of features, model and fraction.
        notes: sentences about what was counted, left out or assumed.

    Example:
        >>> scores = Scores((0.80, 0.82, 0.84))
        >>> result = Result("embedding", "knn", 1.0, scores, scores)
        >>> found = Evaluation("churn", "binary", 90, 3, "cross-validation", True, (result,), (), ())
        >>> found.get("embedding", "knn").main.values
        (0.8, 0.82, 0.84)
        >>> found.to_dict()["results"][0]["secondary"]["metric"]
        'average_precision'
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

    @property
    def metric(self) -> str:
        """The main metric: `auroc`, `accuracy` or `r2`; higher is better."""
        return METRICS[self.task][0]

    def get(self, features: str, model: str, fraction: float = 1.0) -> Result:
        """Return one result.

        Raises:
            KeyError: there is none.
        """
        for result in self.results:
            if (result.features, result.model, result.fraction) == (features, model, fraction):
                return result
        raise KeyError((features, model, fraction))

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values that JSON can hold; the contract of ``eventvec evaluate --json``."""
        second = METRICS[self.task][1]
        return {
            "label": self.label,
            "task": self.task,
            "metric": self.metric,
            "n": self.n,
            "folds": self.folds,
            "protocol": self.protocol,
            "positive": self.positive,
            "results": [
                {"features": r.features, "model": r.model, "fraction": r.fraction}
                | r.main.to_dict()
                | {"secondary": {"metric": second} | r.secondary.to_dict()}
                for r in self.results
            ],
            "differences": [
                {"a": d.a, "b": d.b, "model": d.model, "fraction": d.fraction} | d.main.to_dict()
                for d in self.differences
            ],
            "notes": list(self.notes),
        }


def render(evaluation: Evaluation) -> Group:
    """Return tables of results and differences and the notes below them, for a `rich` console to print.

    Example:
        >>> from rich.console import Console
        >>> scores = Scores((0.80, 0.82, 0.84))
        >>> result = Result("embedding", "knn", 1.0, scores, scores)
        >>> found = Evaluation("churn", "binary", 90, 3, "holdout", True, (result,), (), ("One note.",))
        >>> Console(width=90).print(render(found))
        churn (positive: True) · 90 entities · holdout, 3 folds
        ┏...
         labels ... model ... features ... auroc ... average_precision ...
         100 % ... knn ... embedding ... 0.820 ± 0.050 ... 0.820 ± 0.050 ...
        One note.
    """
    from rich.console import Group
    from rich.text import Text

    positive = f" (positive: {evaluation.positive})" if evaluation.task == "binary" else ""
    counted = f"{evaluation.n:,} entities · {evaluation.protocol}, {evaluation.folds} folds"
    parts = [Text(f"{evaluation.label}{positive} · {counted}", "bold"), _results(evaluation)]
    if evaluation.differences:
        parts += [Text("paired over the folds", "bold"), _differences(evaluation)]
    return Group(*parts, *(Text(note) for note in evaluation.notes))


def _results(found: Evaluation) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table("labels", "model", "features", *METRICS[found.task])
    for r in found.results:
        table.add_row(_share(r.fraction), r.model, Text(r.features), _shown(r.main), _shown(r.secondary))
    return table


def _differences(found: Evaluation) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table("labels", "model", "difference", found.metric)
    for d in found.differences:
        table.add_row(_share(d.fraction), d.model, Text(f"{d.a} − {d.b}"), _shown(d.main, "+"))
    return table


def _shown(scores: Scores, sign: str = "") -> str:
    return f"{scores.mean:{sign}.3f} ± {scores.interval:.3f}"


def _share(fraction: float) -> str:
    return f"{100 * fraction:g} %"
