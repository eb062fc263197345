"""Scores of sets of features on a label, with the same models, folds and shares of the labels for each set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, TypeAlias

import numpy as np
import torch

from eventvec.errors import ConfigError, shown
from eventvec.evaluation.conclusion import verdict
from eventvec.evaluation.folds import group_codes, subsample, units
from eventvec.evaluation.inputs import array, column, in_range, matrix, positive
from eventvec.evaluation.metrics import measure
from eventvec.evaluation.models import Job, Model, choose, predict
from eventvec.evaluation.parallel import side_by_side
from eventvec.evaluation.part_sets import is_part
from eventvec.evaluation.protocols import Protocol, choose_protocol
from eventvec.evaluation.resampling import replicates, resample
from eventvec.evaluation.result import TOGETHER, Difference, Evaluation, Result, Scores
from eventvec.evaluation.suspicion import strongest, suspicion
from eventvec.evaluation.task import Target, target
from eventvec.options import accepts, check_seed, gather
from eventvec.sequences import Array

Scored: TypeAlias = tuple[tuple[float, float], Array]
"""The two scores of a model on a test part, and `(replicates, 2)` those on its resampled rows."""


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
        models: The names of the models in `MODELS`; by default all that can do the task, without `mlp`.
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
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Evaluation:
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
        progress: Called with the number of models that are done and of all models.
        options: The fields of `EvaluationOptions` (task, folds, fractions, seed, models, num_threads).

    Raises:
        DataError: If a feature is NaN or infinite, lengths differ, or a class, a fold or a group has too few members.
        ConfigError: If an option is out of range or unknown.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.random(200) < 0.4
        >>> z = rng.normal(size=(200, 3)) + labels[:, None]
        >>> result = score_features({"embedding": z}, labels, models=["logistic_regression"], label="churn")
        >>> result.task, result.positive, round(result.get("embedding", "logistic_regression").main.mean, 2)
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
    models, model_notes = choose("binary" if labelled.task == "multilabel" else labelled.task, chosen.models)

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
    results = _score(sets, protocol, counts, chosen, models, progress)
    missing = n - len(labelled.y)
    notes = [f"{missing:,} of {n:,} entities have no label and were left out."] if missing else []
    evaluation = Evaluation(
        label, labelled.task, len(rows), chosen.folds, protocol.name, labelled.positive, results,
        _differences(results), (*notes, *protocol.notes, *model_notes),
    )  # fmt: skip
    named = {name: (sets[name], texts) for name, texts in (names or {}).items()}
    evaluation = replace(evaluation, strongest=strongest(protocol.target, protocol.groups, named))
    if entities is not None:
        evaluation = replace(evaluation, entities=len(np.unique(np.asarray(entities)[rows])))
    return replace(evaluation, verdict=f"{suspicion(evaluation)} {verdict(evaluation, learned_from)}".lstrip())


def _score(
    sets: Mapping[str, Array],
    protocol: Protocol,
    weights: Array | None,
    options: EvaluationOptions,
    models: Mapping[str, Model],
    progress: Callable[[int, int], None] | None,
) -> tuple[Result, ...]:
    """Return the scores of each model on each set of features at each share of the labels."""
    splits, labelled = protocol.splits, protocol.target
    parts = {
        fraction: [subsample(labelled, train, fraction, options.seed + fold) for fold, (train, _) in enumerate(splits)]
        for fraction in options.fractions
    }
    resampled = resample(len(labelled.y), protocol.groups, seed=options.seed)

    def train(fraction: float, features: str, fold: int) -> list[tuple[Scored, ...]]:
        """Return the scores of each model, one for each label."""
        rows, test = parts[fraction][fold], splits[fold][1]
        labels = [
            _train_and_score(label, models, sets[features], rows, test, weights, resampled, options.seed)
            for label in labelled.each
        ]
        return list(zip(*labels, strict=True))

    folds, threads = range(len(splits)), options.num_threads or torch.get_num_threads()
    same_test = all(test is splits[0][1] for _, test in splits)
    tasks = list(product(parts, sets, folds))
    tasks.sort(key=lambda task: -task[0] * sets[task[1]].shape[1])  # the longest first: no thread waits for it alone
    trained = dict(zip(tasks, side_by_side(train, tasks, threads, len(models), progress), strict=True))
    results = []
    for fraction, (i, model), name in product(parts, enumerate(models), sets):
        scored = [trained[fraction, name, fold][i] for fold in folds]
        scores = np.array([[each for each, _ in labels] for labels in scored])  # (folds, labels, 2)
        again = np.array([[each for _, each in labels] for labels in scored])  # (folds, labels, replicates, 2)
        main, secondary = (
            Scores(tuple(scores[..., metric].mean(1).tolist()), _macro(scores, again)[..., metric].T, same_test)
            for metric in range(2)
        )
        labels = {
            label: Scores(tuple(scores[:, j, 0].tolist()), again[:, j, :, 0].T, same_test)
            for j, label in enumerate(labelled.names)
        }
        results.append(Result(name, model, fraction, main, secondary, labels))
    return tuple(results)


def _macro(scores: Array, again: Array) -> Array:
    """Return `(folds, replicates, 2)` the mean over the labels of the replicates of their scores.

    A label whose score is not defined in a replicate, because one class is missing there, deviates from its score by as
    much as the mean of the others. The replicate is NaN if no label has a score.
    """
    deviations, is_defined = again - scores[:, :, None], ~np.isnan(again)
    with np.errstate(invalid="ignore"):
        return np.asarray(scores.mean(1)[:, None] + np.where(is_defined, deviations, 0).sum(1) / is_defined.sum(1))


def _train_and_score(
    label: Target,
    models: Mapping[str, Model],
    x: Array,
    train: Array,
    test: Array,
    weights: Array | None,
    resampled: Array,
    seed: int,
) -> list[Scored]:
    """Return the scores of each model on one label; the models share what they compute from the rows."""
    y = np.zeros(len(x), label.y.dtype)
    y[label.rows] = label.y
    has_label = np.zeros(len(x), bool)
    has_label[label.rows] = True
    train, test = train[has_label[train]], test[has_label[test]]
    job = Job(
        label.task, len(label.classes), x[train], y[train], x[test], seed, num_threads=1,
        weights=None if weights is None else weights[train],
    )  # fmt: skip
    of_test = None if weights is None else weights[test]
    truth, drawn = y[test], resampled[:, test]
    predictions = (predict(job, name, model) for name, model in models.items())
    return [
        (measure(label.task, truth, each, of_test), replicates(label.task, truth, each, drawn, of_test))
        for each in predictions
    ]


def _differences(results: Sequence[Result]) -> tuple[Difference, ...]:
    """Return the paired differences of all pairs of feature sets; the sets of `TOGETHER` come first in their pairs.

    A part of the embedding is compared with the whole only.
    """
    main = {(r.fraction, r.model, r.features): r.main for r in results}
    cells = dict.fromkeys((r.fraction, r.model) for r in results)
    names = dict.fromkeys(r.features for r in results)
    whole = [name for name in names if not is_part(name)]
    pairs = list(combinations(sorted(whole, key=lambda name: name not in TOGETHER), 2))
    pairs += [("embedding", name) for name in names if is_part(name) and "embedding" in names]
    return tuple(
        Difference(a, b, model, fraction, main[fraction, model, a] - main[fraction, model, b])
        for (fraction, model), (a, b) in product(cells, pairs)
    )
