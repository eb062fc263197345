"""Scores of sets of features on a label, with the same models, folds and shares of the labels for each set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import torch

from eventvec.answers import Answer
from eventvec.errors import ConfigError, nearest, shown
from eventvec.evaluation.conclusion import NEED_EVENTS, verdict
from eventvec.evaluation.evaluation_charts import charts
from eventvec.evaluation.folds import group_codes, subsample, units
from eventvec.evaluation.inputs import array, column, in_range, matrix, positive
from eventvec.evaluation.metrics import Task, measure
from eventvec.evaluation.models import MODELS, Job, decided, predict, why_no_lightgbm
from eventvec.evaluation.parallel import Progress, side_by_side
from eventvec.evaluation.protocols import Protocol, choose_protocol
from eventvec.evaluation.resampled_scores import replicates
from eventvec.evaluation.result import TOGETHER, Evaluation, Result
from eventvec.evaluation.stacking import stacked
from eventvec.evaluation.suspicion import strongest, suspicion
from eventvec.evaluation.task import Target, target
from eventvec.options import accepts, check_seed, gather
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.resampling import resample

Scored: TypeAlias = tuple[tuple[float, float], Array, dict[str, float]]
"""The two scores of a model on a test part, `(replicates, 2)` those on its resampled rows, and weights of models."""
STACKED = "stacked"
"""The name of the model that is boosted trees and a linear model, weighted inside the training part."""


@dataclass(frozen=True)
class EvaluationOptions:
    """How features are evaluated on a label.

    Args:
        task: The kind of label: binary, multiclass, numeric or multilabel; inferred from the labels by default. The
            rule is that of `target`.
        folds: The number of folds of the cross-validation, at least 2.
        fractions: The shares of each fold's training labels, in (0, 1]. All models and features get the same labels. A
            larger share contains a smaller one, and the test part is the same for all shares.
        seed: The seed of the folds, the shares and the boosted trees, in [0, 2³¹).
        models: The names of models: `stacked`, the default, which is boosted trees and a linear model with weights from
            inner folds of the training part, and those with fixed settings in `MODELS`.
        num_threads: The number of threads, which train folds side by side; by default as many as PyTorch uses.

    Raises:
        ConfigError: If a fraction is outside (0, 1] or given twice, the seed is not in [0, 2^31), or `num_threads`
            is negative.
    """

    task: str | None = None
    folds: int = 5
    fractions: Sequence[float] = (1.0,)
    seed: int = 42
    models: Sequence[str] | None = None
    num_threads: int | None = None

    def __post_init__(self) -> None:
        in_range(self.fractions)
        check_seed("seed", self.seed, 31)
        if (self.num_threads or 0) < 0:
            raise ConfigError(f"num_threads must be at least 1, or 0 for all, got {self.num_threads}")


@accepts(EvaluationOptions)
def score_features(
    features: Mapping[str, Any],
    labels: Any,
    *,
    groups: Any = None,
    entities: Any = None,
    holdout: Any = None,
    later: Any = None,
    both_sides: bool = False,
    weights: Any = None,
    label: str = "label",
    learned_from: Sequence[str] | None = (),
    names: Mapping[str, Sequence[str]] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Answer:
    """Return how well models predict a label from each set of features, and the paired differences between the sets.

    By default, the models are trained and tested in stratified cross-validation over the labelled entities. The encoder
    has then seen the events of the test entities, and their labels if it was trained on them. With `holdout`, the
    protocol is the paper's "test" (Babaev et al. 2022): the entities that the encoder saw are split into folds, and
    each model is trained without one fold and tested on all held-out entities. There is still one score per fold.
    With `later`, labels before a date train models and labels after it test them, see `folds.date_splits`.

    Relations: `evaluate` takes embeddings and a table of labels, joins them, and adds aggregates.

    Args:
        features: `(n, d)` numbers for each set of features. If `embedding` and `aggregates` are among the names, `both`
            is added, in which the two are side by side; with `handcrafted` or `earlier_labels`, `embedding_handcrafted`
            or `embedding_earlier_labels`.
        labels: `(n,)` one label per row, or several such arrays by name, each binary, of which the mean score counts.
            Rows whose label is None or NaN are left out and counted.
        groups: `(n,)` the group of each row. Groups are never split between training and test, for example the
            patients of one hospital.
        entities: `(n,)` the entity of each row, if entities have rows at several times. They are never split either.
        holdout: `(n,)` bool, true for entities that the encoder never saw.
        later: `(n,)` bool, true for labels at or after a date, which are tested.
        both_sides: Whether an entity or a group may be trained on before that date and tested after it.
        weights: `(n,)` how much each row counts in training and in scores, above 0 and within a factor of a million of
            each other. They are divided by their mean.
        label: The name of the label in the result and in messages.
        learned_from: The static columns that the encoder was trained on; empty if it learned without labels, None if
            that is not known.
        names: What each feature of a set is, `d` texts. Single features are checked in these sets, and the verdict
            begins with one that predicts the label nearly without error.
        progress: Called with the number of folds that are done, of all folds, and the name of the next one.
        options: The fields of `EvaluationOptions` (task, folds, fractions, seed, models, num_threads).

    Raises:
        DataError: If a feature is NaN or infinite, lengths differ, or a class, a fold or a group has too few members.
        ConfigError: If an option is out of range or unknown.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.random(200) < 0.4
        >>> z = rng.normal(size=(200, 3)) + labels[:, None]
        >>> result = score_features({"embedding": z}, labels, models=["logistic_regression"], label="churn")
        >>> result.facts["task"], result.facts["positive"], round(result.row(features="embedding")["score"].value, 2)
        ('binary', True, 0.85)
    """
    chosen = gather(options, EvaluationOptions)
    if not isinstance(features, Mapping):
        kind = type(features).__name__
        raise ConfigError(f"features must be numbers by name, such as {{'embedding': z}}, got {kind}")
    if taken := [name for name in TOGETHER if name in features]:
        both = " and ".join(TOGETHER[taken[0]])
        raise ConfigError(f"features may not be called {taken[0]!r}, the name of {both} side by side; rename them")
    n = len(array(next(iter(labels.values())) if isinstance(labels, Mapping) else labels, f"label {shown(label)}"))
    matrices = {name: matrix(values, name, n) for name, values in features.items()}
    for name, texts in (names or {}).items():
        if name not in matrices or len(texts) != matrices[name].shape[1]:
            raise ConfigError(f"names must have a text for each feature of a set, got {len(texts):,} for {shown(name)}")
    labelled = target(labels, chosen.task, label)
    models, model_notes = chosen_models("binary" if labelled.task == "multilabel" else labelled.task, chosen.models)

    def beside(values: Any, name: str) -> Array | None:
        return None if values is None else column(values, name, n)[labelled.rows]

    counts = None if weights is None else positive(column(weights, "weights", n))
    if both_sides and (later is None or holdout is not None):
        raise ConfigError("both_sides needs later, and has no meaning with holdout")
    of_entities, of_groups = (
        None if each is None else group_codes(each) for each in (beside(entities, "entities"), beside(groups, "groups"))
    )
    protocol = choose_protocol(
        labelled,
        units(of_entities, of_groups),
        beside(holdout, "holdout"),
        beside(later, "later"),
        both_sides=both_sides,
        folds=chosen.folds,
        seed=chosen.seed,
        learned_from=learned_from,
    )
    rows = protocol.target.rows
    sets = {name: values[rows] for name, values in matrices.items()}
    for name, parts in TOGETHER.items():
        if all(part in sets for part in parts):
            sets[name] = np.concatenate([sets[part] for part in parts], axis=1)
    counts = None if counts is None else counts[rows] / counts[rows].mean()
    missing = n - len(labelled.y)
    notes = [f"{missing:,} of {n:,} entities have no label and were left out."] if missing else []
    notes += [*protocol.notes, *model_notes]
    named = {name: (sets[name], texts) for name, texts in (names or {}).items()}
    n_entities = len(rows) if entities is None else len(np.unique(np.asarray(entities)[rows]))

    def answer(results: tuple[Result, ...], *more: str) -> Answer:
        evaluation = Evaluation(
            label, labelled.task, len(rows), n_entities, chosen.folds, protocol.name, labelled.positive, results,
            strongest(protocol.target, protocol.groups, named),
        )  # fmt: skip
        lines = verdict(evaluation, suspicion(evaluation), learned_from)
        lines = tuple(line for line in lines if not more or line != NEED_EVENTS)  # they may have been given
        tables, facts = evaluation.tables, evaluation.facts
        return Answer(
            (*lines, *more), tables, tuple(notes), charts(tables["results"], facts), facts,
            title=f"What predicts {label}?", basis=evaluation,
        )  # fmt: skip

    cells = _Cells(sets, protocol, counts, chosen, models)
    try:
        cells.train(progress)
    except KeyboardInterrupt as stop:
        if not (results := cells.results()):
            raise
        unfinished = ", ".join(name for name in sets if name not in {each.features for each in results})
        raise Unfinished(answer(results, f"Interrupted before these were scored: {unfinished}.")) from stop
    return answer(cells.results())


class Unfinished(KeyboardInterrupt):
    """An evaluation was interrupted; `answer` has the sets of features that were finished."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class _Cells:
    """The scores of each model on each set of features at each share of the labels, as they are finished."""

    def __init__(
        self,
        sets: Mapping[str, Array],
        protocol: Protocol,
        weights: Array | None,
        options: EvaluationOptions,
        models: Sequence[str],
    ) -> None:
        self.sets, self.protocol, self.weights, self.options, self.models = sets, protocol, weights, options, models
        self.parts = {
            fraction: [
                subsample(protocol.target, train, fraction, options.seed + fold)
                for fold, (train, _) in enumerate(protocol.splits)
            ]
            for fraction in options.fractions
        }
        self.resampled = resample(len(protocol.target.y), protocol.groups, seed=options.seed)
        self.finished: dict[tuple[float, str, int], list[tuple[Scored, ...]]] = {}

    def train(self, progress: Progress | None) -> None:
        """Train all models, those on many features first, so that no thread waits for them alone at the end."""
        tasks = list(product(self.parts, self.sets, range(len(self.protocol.splits))))
        tasks.sort(key=lambda task: -task[0] * self.sets[task[1]].shape[1])
        names = [f"{features}, fold {fold + 1}" for _, features, fold in tasks]
        side_by_side(self._fold, tasks, self.options.num_threads or torch.get_num_threads(), progress, names)

    def _fold(self, fraction: float, features: str, fold: int) -> None:
        """Keep the scores of each model in a fold, one for each label."""
        x, train, test = self.sets[features], self.parts[fraction][fold], self.protocol.splits[fold][1]
        labels = [self._scored(label, x, train, test) for label in self.protocol.target.each]
        self.finished[fraction, features, fold] = list(zip(*labels, strict=True))

    def _scored(self, label: Target, x: Array, train: Array, test: Array) -> list[Scored]:
        """Return the scores of each model on one label."""
        y = np.zeros(len(x), label.y.dtype)
        y[label.rows] = label.y
        has_label = np.zeros(len(x), bool)
        has_label[label.rows] = True
        train, test = train[has_label[train]], test[has_label[test]]

        def of(values: Array | None, rows: Array) -> Array | None:
            return None if values is None else values[rows]

        job = Job(
            label.task, len(label.classes), x[train], y[train], x[test], self.options.seed, num_threads=1,
            weights=of(self.weights, train), groups=of(self.protocol.groups, train),
        )  # fmt: skip
        scored, truth, counts = list[Scored](), y[test], of(self.weights, test)
        for name in self.models:
            weights: dict[str, float] = {}
            if name == STACKED:
                together = stacked({"": job})
                predicted = decided(label.task, together.predict({"": job.test}))
                weights = {head: weight for (_, head), weight in together.weights.items()}
            else:
                predicted = predict(job, name)
            again = replicates(label.task, truth, predicted, self.resampled[:, test], counts)
            scored.append((measure(label.task, truth, predicted, counts), again, weights))
        return scored

    def results(self) -> tuple[Result, ...]:
        """Return the results of all sets of features and shares whose folds are all finished."""
        splits, names = self.protocol.splits, self.protocol.target.names
        same_test = all(test is splits[0][1] for _, test in splits)
        results = []
        for fraction, (i, model), features in product(self.parts, enumerate(self.models), self.sets):
            keys = [(fraction, features, fold) for fold in range(len(splits))]
            if not all(key in self.finished for key in keys):
                continue
            folds = [self.finished[key][i] for key in keys]
            scores = np.array([[each for each, _, _ in labels] for labels in folds])  # (folds, labels, 2)
            again = np.array([[each for _, each, _ in labels] for labels in folds])  # (folds, labels, replicates, 2)
            main, secondary = (
                Scores(tuple(scores[..., metric].mean(1).tolist()), _macro(scores, again)[..., metric].T, same_test)
                for metric in range(2)
            )
            labels = {
                label: Scores(tuple(scores[:, j, 0].tolist()), again[:, j, :, 0].T, same_test)
                for j, label in enumerate(names)
            }
            chosen = [weights for each in folds for _, _, weights in each]
            heads = dict.fromkeys(head for weights in chosen for head in weights)
            means = {head: sum(weights.get(head, 0.0) for weights in chosen) / len(chosen) for head in heads}
            results.append(Result(features, model, fraction, main, secondary, labels, means))
        return tuple(results)


def _macro(scores: Array, again: Array) -> Array:
    """Return `(folds, replicates, 2)` the mean over the labels of the replicates of their scores.

    A label whose score is not defined in a replicate, because one class is missing there, deviates from its score by as
    much as the mean of the others. The replicate is NaN if no label has a score.
    """
    deviations, is_defined = again - scores[:, :, None], ~np.isnan(again)
    with np.errstate(invalid="ignore"):
        return np.asarray(scores.mean(1)[:, None] + np.where(is_defined, deviations, 0).sum(1) / is_defined.sum(1))


def chosen_models(task: Task, names: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the names of the models to train, and notes if boosted trees are left out."""
    fitting = [STACKED, *(name for name, (_, tasks) in MODELS.items() if task in tasks)]
    for name in names or ():
        if name not in fitting:
            raise ConfigError(f"there is no model {name!r} for a {task} label; {nearest(name, fitting)}")
    chosen = list(names or [STACKED])
    if not (reason := why_no_lightgbm() if {STACKED, "lightgbm"} & set(chosen) else None):
        return chosen, []
    notes = [f"The model {STACKED} is without boosted trees: {reason}"] if STACKED in chosen else []
    if "lightgbm" in chosen:
        chosen.remove("lightgbm")
        notes.append(f"The lightgbm rows are left out: {reason}")
    if not chosen:
        raise ConfigError(reason)
    return chosen, notes
