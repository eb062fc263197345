"""Scores of sets of features on a label, with the same models, folds and shares of the labels for each set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
import torch

from eventvec.errors import ConfigError, shown
from eventvec.evaluation.conclusion import verdict
from eventvec.evaluation.folds import Split, apart, cross_validation, group_codes, holdout_splits, subsample
from eventvec.evaluation.inputs import array, column, in_range, matrix
from eventvec.evaluation.metrics import Array, measure
from eventvec.evaluation.models import Job, Model, choose, predict
from eventvec.evaluation.parallel import side_by_side
from eventvec.evaluation.resampling import replicates, resample
from eventvec.evaluation.result import Difference, Evaluation, Result, Scores
from eventvec.evaluation.task import Target, target
from eventvec.options import accepts, check_seed, gather

TOGETHER = {"both": ("embedding", "aggregates"), "embedding_handcrafted": ("embedding", "handcrafted")}
"""The sets of features that consist of two others side by side, and are added if both are there."""


@dataclass(frozen=True)
class EvaluationOptions:
    """How features are evaluated on a label.

    Args:
        task: The kind of label: binary, multiclass or numeric; inferred from the labels by default. The rule is that of
            `target`.
        folds: The number of folds of the cross-validation, at least 2.
        fractions: The shares of each fold's training labels, in (0, 1]. All models and features get the same labels. A
            larger share contains a smaller one, and the test part is the same for all shares.
        seed: The seed of the folds, the shares and the boosted trees, in [0, 2³¹).
        models: The names of the models in `MODELS`; by default all that can do the task, without `mlp` and `blend`.
        num_threads: The number of threads, which train folds side by side; by default as many as PyTorch uses.

    Raises:
        ConfigError: If a fraction is outside (0, 1] or given twice, the seed is not in [0, 2^31), or `num_threads`
            is negative.

    Example:
        >>> EvaluationOptions(fractions=(1.0, 0.25)).folds
        5
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
    holdout: Any = None,
    label: str = "label",
    learned_from: Sequence[str] | None = (),
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Evaluation:
    """Return how well models predict a label from each set of features, and the paired differences between the sets.

    By default, the models are trained and tested in stratified cross-validation over the labelled entities. The encoder
    has then seen the events of the test entities, and their labels if it was trained on them. With `holdout`, the
    protocol is the paper's "test" (Babaev et al. 2022): the entities that the encoder saw are split into folds, and
    each model is trained without one fold and tested on all held-out entities. There is still one score per fold.

    Relations: `evaluate` takes embeddings and a table of labels, joins them, and adds aggregates.

    Args:
        features: `(n, d)` numbers for each set of features. If `embedding` and `aggregates` are among the names, `both`
            is added, in which the two are side by side; with `handcrafted`, `embedding_handcrafted`.
        labels: `(n,)` one label per row. Rows whose label is None or NaN are left out and counted.
        groups: `(n,)` the group of each entity. Groups are never split between training and test, for example the
            patients of one hospital.
        holdout: `(n,)` bool, true for entities that the encoder never saw.
        label: The name of the label in the result and in messages.
        learned_from: The static columns that the encoder was trained on; empty if it learned without labels, None if
            that is not known.
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
        raise ConfigError(
            f"features must be numbers by name, such as {{'embedding': z}}, got {type(features).__name__}"
        )
    if taken := [name for name in TOGETHER if name in features]:
        parts = " and ".join(TOGETHER[taken[0]])
        raise ConfigError(f"features may not be called {taken[0]!r}, the name of {parts} side by side; rename them")
    n = len(array(labels, f"label {shown(label)}"))
    matrices = {name: matrix(values, name, n) for name, values in features.items()}
    labelled = target(labels, chosen.task, label)
    notes = _missing_note(n, labelled)
    models, model_notes = choose(labelled.task, chosen.models)
    held_out = None if holdout is None else column(holdout, "holdout", n)[labelled.rows]
    codes = None if groups is None else group_codes(column(groups, "groups", n)[labelled.rows])
    if held_out is not None and codes is not None:
        labelled, held_out, codes, group_notes = _without_shared_groups(labelled, held_out, codes)
        notes += group_notes
    sets = _with_both({name: values[labelled.rows] for name, values in matrices.items()})
    if held_out is None:
        splits = cross_validation(labelled, chosen.folds, codes, chosen.seed)
    else:
        splits = holdout_splits(labelled, held_out, chosen.folds, codes, chosen.seed)
    weights = resample(len(labelled.y), codes, seed=chosen.seed)
    results = _score(sets, labelled, splits, weights, chosen, models, progress)
    protocol = "cross-validation" if held_out is None else "holdout"
    notes += [_protocol_note(held_out, learned_from), *model_notes]
    evaluation = Evaluation(
        label, labelled.task, len(labelled.y), chosen.folds, protocol, labelled.positive, results,
        _differences(results), tuple(notes),
    )  # fmt: skip
    return replace(evaluation, verdict=verdict(evaluation))


def _score(
    sets: Mapping[str, Array],
    labelled: Target,
    splits: Sequence[Split],
    weights: Array,
    options: EvaluationOptions,
    models: Mapping[str, Model],
    progress: Callable[[int, int], None] | None,
) -> tuple[Result, ...]:
    """Return the scores of each model on each set of features at each share of the labels."""
    parts = {
        fraction: [subsample(labelled, train, fraction, options.seed + fold) for fold, (train, _) in enumerate(splits)]
        for fraction in options.fractions
    }

    def train(fraction: float, features: str, fold: int) -> list[tuple[tuple[float, float], Array]]:
        """Return the scores of each model and their replicates; the models share what they compute from the rows."""
        rows, test, x = parts[fraction][fold], splits[fold][1], sets[features]
        y, classes = labelled.y, len(labelled.classes)
        job = Job(labelled.task, classes, x[rows], y[rows], x[test], options.seed, num_threads=1)
        predictions = [predict(job, name, model) for name, model in models.items()]
        drawn = weights[:, test]
        return [
            (measure(labelled.task, y[test], each), replicates(labelled.task, y[test], each, drawn))
            for each in predictions
        ]

    folds, threads = range(len(splits)), options.num_threads or torch.get_num_threads()
    same_test = all(test is splits[0][1] for _, test in splits)
    tasks = list(product(parts, sets, folds))
    trained = dict(zip(tasks, side_by_side(train, tasks, threads, len(models), progress), strict=True))
    results = []
    for fraction, (i, model), name in product(parts, enumerate(models), sets):
        values, resampled = zip(*(trained[fraction, name, fold][i] for fold in folds), strict=True)
        main, secondary = (
            Scores(tuple(scores), np.stack([each[:, metric] for each in resampled], 1), same_test)
            for metric, scores in enumerate(zip(*values, strict=True))
        )
        results.append(Result(name, model, fraction, main, secondary))
    return tuple(results)


def _differences(results: Sequence[Result]) -> tuple[Difference, ...]:
    """Return the paired differences of all pairs of feature sets; the sets of `TOGETHER` come first in their pairs."""
    main = {(r.fraction, r.model, r.features): r.main for r in results}
    cells = dict.fromkeys((r.fraction, r.model) for r in results)
    names = dict.fromkeys(r.features for r in results)
    pairs = list(combinations(sorted(names, key=lambda name: name not in TOGETHER), 2))
    return tuple(
        Difference(a, b, model, fraction, main[fraction, model, a] - main[fraction, model, b])
        for (fraction, model), (a, b) in product(cells, pairs)
    )


def _with_both(sets: dict[str, Array]) -> dict[str, Array]:
    """Return the sets of features, with those of `TOGETHER` whose parts are there."""
    for name, parts in TOGETHER.items():
        if all(part in sets for part in parts):
            sets[name] = np.concatenate([sets[part] for part in parts], axis=1)
    return sets


def _without_shared_groups(labelled: Target, held_out: Array, codes: Array) -> tuple[Target, Array, Array, list[str]]:
    """Return the labels without seen entities that share a group with held-out ones, and a note about them."""
    rest = apart(held_out, codes)
    if rest.all():
        return labelled, held_out, codes, []
    target = Target(labelled.name, labelled.task, labelled.y[rest], labelled.rows[rest], labelled.classes)
    note = f"{int((~rest).sum()):,} seen entities share a group with held-out ones and were not used for training."
    return target, held_out[rest], codes[rest], [note]


def _protocol_note(held_out: Array | None, learned_from: Sequence[str] | None) -> str:
    """Return a sentence about what the encoder and the models have seen of the test entities."""
    if held_out is None and learned_from:
        columns = f"column{'' if len(learned_from) == 1 else 's'} {', '.join(map(repr, learned_from))}"
        return (
            f"The encoder saw the test entities' events and was trained on the static {columns} too; only a hold-out "
            "test scores entities that it never saw."
        )
    if held_out is None:
        training = "without labels" if learned_from is not None else "and whether it was trained on labels is not known"
        sentence = f"The encoder saw the test entities' events, {training}"
        return f"{sentence}; only a hold-out test scores entities that it never saw."
    return (
        f"Tested on {int(held_out.sum()):,} entities that the encoder never saw; each score is over all of them, from "
        f"a model trained without one fold of the {int((~held_out).sum()):,} others."
    )


def _missing_note(n: int, labelled: Target) -> list[str]:
    """Return a sentence about missing labels, if there are any."""
    missing = n - len(labelled.y)
    return [f"{missing:,} of {n:,} entities have no label and were left out."] if missing else []
