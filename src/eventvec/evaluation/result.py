"""The scores of an evaluation, and the answer that is made of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

from eventvec.evaluation.part_sets import is_part
from eventvec.learners.metrics import METRICS, Task
from eventvec.statistics import Scores

EARLIER = "earlier_labels"
"""The set of features of the entity's own earlier labels, and the option that adds it."""
TOGETHER = {
    "both": ("embedding", "aggregates"),
    "embedding_handcrafted": ("embedding", "handcrafted"),
    f"embedding_{EARLIER}": ("embedding", EARLIER),
}
"""The sets of features that consist of two others together, and are added if both are there."""
CONTROL = "handcrafted_again"
"""The hand-crafted features under two sets of models: what the vector adds beside them is told from what models add."""
MADE = (*TOGETHER, CONTROL)
"""The sets of features that are made of others."""
NAMES = {
    "embedding: learned": "learned part",
    "handcrafted": "hand-crafted features",
    "untrained": "untrained encoder",
    "event_count": "number of events",
    EARLIER: "earlier labels",
    "both": "embedding and aggregates",
    "embedding_handcrafted": "embedding and hand-crafted features",
    CONTROL: "hand-crafted features with one more seed",
    f"embedding_{EARLIER}": "embedding and earlier labels",
}
"""What sets of features are called in sentences and on pages, where it is not their own name."""
LEARNED = "embedding: learned"
"""The set of features that is the learned part of an embedding with several parts."""
DECIDING = ("stacked", "lightgbm", "logistic_regression", "ridge", "knn")
"""The model that a verdict is about: the first of these that was trained, whatever the scores are."""


def deciding_model(names: Collection[str]) -> str | None:
    """Return which of some models a verdict is about."""
    return next((name for name in DECIDING if name in names), None)


@dataclass(frozen=True)
class Result:
    """The scores of one model on one set of features with one share of each fold's training labels.

    `main` and `secondary` are of the task's two metrics, `labels` of the main one for each of several labels. `weights`
    are the means over the folds of those of the models in `stacked`. `inside` is for each fold the main score of its
    training rows, each predicted by models without it, by which the set is chosen, see `choice`. It is NaN where there
    are too few rows, and where a verdict does not choose. Parts of the embedding are called `embedding: timing` and
    `embedding: without timing`.
    """

    features: str
    model: str
    fraction: float
    main: Scores
    secondary: Scores
    labels: Mapping[str, Scores] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    inside: tuple[float, ...] = field(default=(), compare=False)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The results of an evaluation, and what they are about.

    `n` is the number of labelled rows, those held out included, `entities` that of their entities. `protocol` is
    `cross-validation`, `holdout` for a test on entities that the encoder never saw, or `date` for a test on labels
    after a date. `positive` is the class whose probability is scored; for several labels that of each, by name.
    `strongest` is what the strongest single feature is, if it is too good to be true. `classes` are those of one label.
    """

    label: str
    task: Task
    n: int
    entities: int
    folds: int
    protocol: str
    positive: Any
    results: tuple[Result, ...]
    strongest: str = ""
    classes: tuple[Any, ...] = ()

    def get(self, features: str, model: str, fraction: float = 1.0) -> Result:
        """Return the result of a model on a set of features.

        Raises:
            KeyError: If there is no such result.
        """
        for result in self.results:
            if (result.features, result.model, result.fraction) == (features, model, fraction):
                return result
        raise KeyError((features, model, fraction))

    @property
    def metric(self) -> str:
        """The main metric: `auroc`, `accuracy` or `r2`. Higher is better."""
        return METRICS[self.task][0]

    @property
    def deciding(self) -> dict[str, Result]:
        """The results by which a verdict is reached, by the set of features: those of one model and most labels."""
        model = deciding_model({result.model for result in self.results})
        fraction = max(result.fraction for result in self.results)
        return {r.features: r for r in self.results if (r.model, r.fraction) == (model, fraction)}

    @property
    def facts(self) -> dict[str, Any]:
        """What the answer is about."""
        names = ("label", "task", "metric", "n", "entities", "folds", "protocol", "positive")
        return {name: getattr(self, name) for name in names} | {"secondary_metric": METRICS[self.task][1]}

    @property
    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The results and all paired differences as rows of an answer."""
        results = [
            {"features": r.features, "model": r.model, "fraction": r.fraction, "score": r.main.estimate}
            | {"secondary": r.secondary.estimate, "scores": r.main.values}
            | ({"weights": r.weights} if r.weights else {})
            | ({"labels": {name: each.estimate for name, each in r.labels.items()}} if r.labels else {})
            for r in self.results
        ]
        return {"results": results, "differences": list(self._differences())}

    def _differences(self) -> Iterator[dict[str, Any]]:
        """Yield the paired difference of each two sets of features; those of `TOGETHER` come first in their pairs.

        A part of the embedding is compared with the whole, and the learned one with an untrained encoder.
        """
        main = {(r.fraction, r.model, r.features): r.main for r in self.results}
        names = list(dict.fromkeys(r.features for r in self.results))
        whole = [name for name in names if not is_part(name)]
        pairs = list(combinations(sorted(whole, key=lambda name: name not in TOGETHER), 2))
        pairs += [("embedding", name) for name in names if is_part(name)]
        pairs.append((LEARNED, "untrained"))
        for (fraction, model), (a, b) in product(dict.fromkeys((r.fraction, r.model) for r in self.results), pairs):
            if (first := main.get((fraction, model, a))) and (second := main.get((fraction, model, b))):
                yield {"a": a, "b": b, "model": model, "fraction": fraction, "difference": (first - second).estimate}
