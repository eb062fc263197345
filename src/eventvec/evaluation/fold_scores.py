"""The scores of each model on each set of features at each share of the labels, as they are finished."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from eventvec.evaluation.part_sets import is_part
from eventvec.evaluation.protocols import Protocol
from eventvec.evaluation.result import CONTROL, TOGETHER, Result, deciding_model
from eventvec.learners.fitted import Fitted
from eventvec.learners.folds import subsample
from eventvec.learners.held_out_scores import HeldOut
from eventvec.learners.metrics import measure
from eventvec.learners.parallel import Progress, side_by_side
from eventvec.learners.prepared import TREES, Prepared, divided
from eventvec.learners.resampled_scores import replicates
from eventvec.learners.single_learners import Samples, decided, predict, predictions
from eventvec.learners.stacking import (
    PRIOR,
    Cell,
    Stacked,
    alone,
    assembled,
    learners_of,
    out_of_parts,
    parts_of,
    summed,
    trained,
)
from eventvec.learners.task import Target
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.resampling import resample

STACKED = "stacked"
"""The name of the model that is boosted trees and a linear model, weighted inside the training part."""
AGAIN = "handcrafted, another seed"
"""What is fused with the hand-crafted features in `CONTROL`: the same features, under boosted trees of another seed."""
INSIDE = 3
"""The parts of a training part by which a set of features is chosen under a model with fixed settings."""


class Scored(NamedTuple):
    """What a model scores on one label in one fold.

    Args:
        scores: The main and the secondary score on the test rows.
        again: `(replicates, 2)` those on resampled test rows.
        weights: The weights of the models in `stacked`.
        inside: The main score of the training rows, each predicted by models without it; NaN where no set is chosen, or
            where there are too few rows to divide.
        predicted: `(m,)` or `(m, classes)`, what was predicted for the test rows by the model of the verdict;
            None of other models.
    """

    scores: tuple[float, float]
    again: Array
    weights: dict[str, float]
    inside: float
    predicted: Array | None = None


class Cells:
    """The scores of each model on each set of features and each two that belong together, as they are finished.

    Two sets are fused under `stacked`: the models of both predict together. Under other models they are side by side.

    Args:
        sets: `(n, d)` features by name.
        protocol: The folds.
        weights: `(n,)` how much each row counts, if not all count equally.
        fractions: The shares of each training part's labels.
        seed: The seed of the shares and of boosted trees.
        models: The names of the models.
    """

    def __init__(
        self,
        sets: Mapping[str, Array],
        protocol: Protocol,
        weights: Array | None,
        fractions: Sequence[float],
        seed: int,
        models: Sequence[str],
    ) -> None:
        self.sets, self.protocol, self.weights, self.seed, self.models = sets, protocol, weights, seed, models
        self.fused = {name: parts for name, parts in TOGETHER.items() if all(part in sets for part in parts)}
        if "embedding_handcrafted" in self.fused and TREES in learners_of(protocol.target.each[0].task):
            self.fused |= {CONTROL: ("handcrafted", AGAIN)} if STACKED in models else {}
        self.names = [*sets, *self.fused]
        self.training = {
            fraction: [
                subsample(protocol.target, train, fraction, seed + fold)
                for fold, (train, _) in enumerate(protocol.splits)
            ]
            for fraction in fractions
        }
        self.resampled = resample(len(protocol.target.y), protocol.groups, seed=seed)
        self.chosen_among = {name for name in sets if not is_part(name)}
        self.deciding = deciding_model(models), max(fractions)
        self.finished: dict[tuple[float, str, int], dict[str, tuple[Scored, ...]]] = {}
        self.trained: dict[tuple[float, int, int, str], dict[Cell, tuple[Array, Fitted]]] = {}

    def train(self, threads: int, progress: Progress | None) -> None:
        """Train all models: first those on single sets, which are part of the others, and those on many features first.

        So no thread waits for them alone at the end.
        """
        folds = range(len(self.protocol.splits))
        single = list(product(self.training, self.sets, folds))
        single.sort(key=lambda task: -task[0] * self.sets[task[1]].shape[1])
        tasks = [*single, *product(sorted(self.training, reverse=True), self.fused, folds)]
        names = [f"{features}, fold {fold + 1}" for _, features, fold in tasks]
        for first, part in ((0, single), (len(single), tasks[len(single) :])):

            def told(done: int, _: int, name: str, before: int = first) -> None:
                if progress and (done or not before):
                    progress(before + done, len(tasks), name)

            if part:
                side_by_side(self._fold, part, threads, told, names[first:])

    def _fold(self, fraction: float, features: str, fold: int) -> None:
        """Keep the scores of each model in a fold, one for each label."""
        models = [STACKED] if features == CONTROL else self.models
        labels = [
            self._scored((fraction, fold, place), label, features, models)
            for place, label in enumerate(self.protocol.target.each)
        ]
        self.finished[fraction, features, fold] = {
            model: tuple(scored[i] for scored in labels) for i, model in enumerate(models)
        }

    def _scored(
        self, where: tuple[float, int, int], label: Target, features: str, models: Sequence[str]
    ) -> list[Scored]:
        """Return the scores of each model on one label in a fold."""
        fraction, fold, _ = where
        y, has_label = np.zeros(len(self.protocol.target.y), label.y.dtype), np.zeros(len(self.protocol.target.y), bool)
        y[label.rows], has_label[label.rows] = label.y, True
        train, test = self.training[fraction][fold], self.protocol.splits[fold][1]
        train, test = train[has_label[train]], test[has_label[test]]

        def of(values: Array | None, rows: Array) -> Array | None:
            return None if values is None else values[rows]

        def job(part: str) -> Samples:
            x, seed = self.sets["handcrafted" if part == AGAIN else part], self.seed + (part == AGAIN)
            return Samples(
                label.task, len(label.classes), x[train], y[train], x[test], seed, num_threads=1,
                weights=of(self.weights, train), groups=of(self.protocol.groups, train),
            )  # fmt: skip

        jobs = {part: job(part) for part in self.fused.get(features, (features,))}
        scored, truth, counts = list[Scored](), y[test], of(self.weights, test)
        is_candidate = features in self.chosen_among and len(self.chosen_among) > 1
        for name in models:
            weights, inside, chosen_by = dict[str, float](), None, math.nan
            is_choice = is_candidate and (name, fraction) == self.deciding
            if name == STACKED:
                together, inside = self._stacked(where, jobs)
                told = together.predict({part: each.test for part, each in jobs.items()})
                weights = {
                    head if len(jobs) == 1 else f"{part}, {head}": each
                    for (part, head), each in together.weights.items()
                }
            else:
                joined = _side_by_side(list(jobs.values()))
                told = predictions(joined, name)
                inside = _inside(joined, name) if is_choice else None
            predicted = decided(label.task, told)
            again = replicates(label.task, truth, predicted, self.resampled[:, test], counts)
            if is_choice and inside is not None:
                chosen_by = measure(label.task, y[train], inside, of(self.weights, train))[0]
            kept = told if (name, fraction) == self.deciding else None
            scored.append(Scored(measure(label.task, truth, predicted, counts), again, weights, chosen_by, kept))
        return scored

    def _stacked(self, where: tuple[float, int, int], jobs: Mapping[str, Samples]) -> tuple[Stacked, Array | None]:
        """Return the models on one or two sets, weighed together; those of a single set are kept for the pairs.

        With them come the predictions of all training rows by models of the other parts; None where there are too few
        rows for parts.
        """
        first = next(iter(jobs.values()))
        prepared = {part: Prepared(job) for part, job in jobs.items()}
        parts = parts_of(replace(first, seed=self.seed))
        if parts is None:
            return alone(prepared), None
        predictions, models = dict[Cell, Array](), dict[Cell, Fitted]()
        for part, of_set in prepared.items():
            if (of_part := self.trained.get((*where, part))) is None:
                cells = [(part, learner) for learner in learners_of(first.task) if part != AGAIN or learner == TREES]
                of_parts = out_of_parts(prepared, cells, parts)
                of_part = {cell: (of_parts[cell], of_set.train(cell[1])) for cell in cells}
                if any(part in pair for pair in self.fused.values()):
                    self.trained[*where, part] = of_part
            for cell, (inside_, model) in of_part.items():
                predictions[cell], models[cell] = inside_, model
        result = trained(prepared, first, predictions, {cell: PRIOR[cell[1]] for cell in predictions}, models)
        inside = summed(first.task, predictions, result.weights, result.offset, len(first.y))
        return result, decided(first.task, inside)

    def results(self) -> tuple[Result, ...]:
        """Return the results of all sets of features and shares whose folds are all finished."""
        splits, names = self.protocol.splits, self.protocol.target.names
        same_test, results = self.same_test, []
        for fraction, model, features in product(self.training, self.models, self.names):
            done = [self.finished.get((fraction, features, fold), {}) for fold in range(len(splits))]
            if not all(model in each for each in done):
                continue
            folds = [each[model] for each in done]
            scores = np.array([[each.scores for each in labels] for labels in folds])  # (folds, labels, 2)
            again = np.array([[each.again for each in labels] for labels in folds])  # (folds, labels, replicates, 2)
            main, secondary = (
                Scores(tuple(scores[..., metric].mean(1).tolist()), _macro(scores, again)[..., metric].T, same_test)
                for metric in range(2)
            )
            each_label = {
                label: Scores(tuple(scores[:, j, 0].tolist()), again[:, j, :, 0].T, same_test)
                for j, label in enumerate(names)
            }
            chosen = [each.weights for labels in folds for each in labels]
            heads = dict.fromkeys(head for weights in chosen for head in weights)
            means = {head: sum(weights.get(head, 0.0) for weights in chosen) / len(chosen) for head in heads}
            inside = tuple(float(np.mean([each.inside for each in labels])) for labels in folds)
            results.append(Result(features, model, fraction, main, secondary, each_label, means, inside))
        return tuple(results)

    def held_out(self, subgroups: Array | None = None) -> dict[str, HeldOut]:
        """Return what the model of the verdict predicted for test rows, by the set of features; none of several labels.

        Where all folds are tested on the same rows, they are the predictions of the first one.

        Args:
            subgroups: `(n,)` codes of the groups for which measures are told one by one.
        """
        target, splits = self.protocol.target, self.protocol.splits
        if target.task == "multilabel":
            return {}
        model, fraction = self.deciding
        folds = range(1 if self.same_test else len(splits))
        rows = np.concatenate([splits[fold][1] for fold in folds])
        groups = np.arange(len(rows)) if self.protocol.groups is None else self.protocol.groups[rows]
        codes = np.unique(groups, return_inverse=True)[1].astype(np.int64)
        weights = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        of_rows = None if subgroups is None else subgroups[rows]
        held = dict[str, HeldOut]()
        for features in self.names:
            scored = [self.finished.get((fraction, features, fold), {}).get(model or "") for fold in folds]
            parts = [each[0].predicted for each in scored if each is not None and each[0].predicted is not None]
            if len(parts) == len(folds):
                y = target.y[rows].astype(np.float64)
                held[features] = HeldOut(y, np.concatenate(parts), codes, weights, of_rows)
        return held

    @property
    def same_test(self) -> bool:
        """Whether all folds are tested on the same rows."""
        splits = self.protocol.splits
        return all(test is splits[0][1] for _, test in splits)


def _inside(job: Samples, model: str) -> Array | None:
    """Return the predictions of the training rows, each by a model without its part; None where rows are too few."""
    if (parts := divided(job, INSIDE)) is None:
        return None
    rows = [np.flatnonzero(parts == part) for part in range(parts.max() + 1)]
    return assembled([predict(job.part(np.flatnonzero(parts != i), each), model) for i, each in enumerate(rows)], parts)


def _side_by_side(jobs: Sequence[Samples]) -> Samples:
    """Return the job of predicting from the features of several sets, side by side."""
    if len(jobs) == 1:
        return jobs[0]
    x, test = (np.concatenate([getattr(job, name) for job in jobs], axis=1) for name in ("x", "test"))
    return replace(jobs[0], x=x, test=test)


def _macro(scores: Array, again: Array) -> Array:
    """Return `(folds, replicates, 2)` the mean over the labels of the replicates of their scores.

    A label whose score is not defined in a replicate, because one class is missing there, deviates from its score by as
    much as the mean of the others. The replicate is NaN if no label has a score.
    """
    deviations, is_defined = again - scores[:, :, None], ~np.isnan(again)
    with np.errstate(invalid="ignore"):
        return np.asarray(scores.mean(1)[:, None] + np.where(is_defined, deviations, 0).sum(1) / is_defined.sum(1))
