"""The evaluation protocol of Babaev et al. 2022: a common test set, five folds of the other labels, two scores a model.

A tenth of the labelled rows is the test set. A representation is learned on all other rows, `PaperSplit.seen`. Models
are then trained on all but one fold of the remaining labels and scored twice: on the fold left out ("cv", Tables 1, 6,
7 and 8) and on the test set ("test", Table 2). The representation has seen the fold left out, but not the test set, so
the two scores are not comparable and never mixed here. Each score comes with those on resampled test entities, the same
for all feature sets, from which `differences` computes the intervals.

Embeddings that exist already are evaluated by `eventvec.evaluate` instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from eventvec.errors import ConfigError, DataError
from eventvec.evaluation.evaluation_options import in_range
from eventvec.evaluation.scoring import chosen_models
from eventvec.learners.folds import Split, cross_validation, group_codes, subsample
from eventvec.learners.inputs import column, matrix
from eventvec.learners.metrics import METRICS, measure
from eventvec.learners.parallel import side_by_side
from eventvec.learners.resampled_scores import replicates
from eventvec.learners.single_learners import Boosting, Samples, predict
from eventvec.learners.task import Target, target
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.resampling import resample

Trainer: TypeAlias = Callable[[Array, Array, Array], Array]
"""A function that learns from labels and predicts: ``(train (m,), y (m,), rows (k,)) -> (k,)`` predictions of `rows`.

`train` and `rows` are positions among the rows given to `paper_split`. `y` are codes from 0 (positions in
`PaperSplit.target.classes`) or numbers. Predictions are scores that increase with the probability of class 1, codes for
several classes, or numbers. Supervised training and fine-tuning take part in the protocol as trainers.
"""

Part: TypeAlias = Literal["cv", "test"]
PARTS: tuple[Part, Part] = ("cv", "test")


@dataclass(frozen=True, eq=False)
class PaperSplit:
    """The rows to train and test on, the same for all feature sets and all runs.

    Args:
        target: the labels; `target.rows` are their positions among all `n` rows.
        test: `(k,)` positions of the common test set.
        folds: for each fold, the positions of its training part and of the part left out.
        seen: `(n,)` bool, the rows that a representation may be trained on: all but the test set, including those
            without a label. With groups, no row of a group that has a test row.
        seed: of the test set, the folds and the draws within them.
        groups: `(n,)` codes of the rows that are resampled together, if there are groups.
    """

    target: Target
    test: Array
    folds: tuple[Split, ...]
    seen: Array
    seed: int
    groups: Array | None = None

    def training_parts(self, fraction: float) -> list[Array]:
        """Return the rows that train the models of each fold with a share of the labels, drawn by class.

        A larger share contains a smaller one.
        """
        labels_by_row = _labels_by_row(self)
        return [subsample(labels_by_row, train, fraction, self.seed + k) for k, (train, _) in enumerate(self.folds)]

    def labels(self, rows: Array) -> Array:
        """Return `(k,)` the labels of some rows."""
        return np.asarray(_labels_by_row(self).y[rows])


@dataclass(frozen=True)
class Cell:
    """The scores of one run of one feature set.

    Args:
        features: its name.
        run: 0, 1, … if there are several encoders, for example with different seeds.
        split: `cv` if each model is scored on the fold left out of its training, `test` if on the common test set.
        fraction: share of each fold's training labels.
        labels: number of these labels, the mean over the folds, rounded.
        main: scores of the task's main metric.
        secondary: scores of its secondary metric.
    """

    features: str
    run: int
    split: Part
    fraction: float
    labels: int
    main: Scores
    secondary: Scores


@dataclass(frozen=True)
class PaperResult:
    """The scores of all feature sets under the protocol, as `paper_protocol` returns them.

    Args:
        target: the labels that were predicted.
        cells: one per feature set, run, split and fraction.

    Example:
        >>> labels = np.arange(60) % 2
        >>> split = paper_split(labels, folds=2)
        >>> result = paper_protocol({"x": labels[:, None]}, split, model="logistic_regression")
        >>> result.metric, result.scores("x", "cv")[0].values
        ('auroc', (1.0, 1.0))
    """

    target: Target
    cells: tuple[Cell, ...]

    @property
    def metric(self) -> str:
        """The main metric: `auroc`, `accuracy` or `r2`; higher is better."""
        return METRICS[self.target.task][0]

    @property
    def names(self) -> frozenset[str]:
        """The names of the feature sets."""
        return frozenset(cell.features for cell in self.cells)

    def scores(self, features: str, split: Part = "test", fraction: float = 1.0) -> tuple[Scores, ...]:
        """Return the main scores of a feature set, one element per run, for `paired` and `relative`.

        Raises:
            KeyError: If there is no such feature set, split or fraction.
        """
        key = (features, split, fraction)
        scores = tuple(c.main for c in self.cells if (c.features, c.split, c.fraction) == key)
        if not scores:
            raise KeyError(key)
        return scores


def paper_split(
    labels: Any,
    *,
    task: str | None = None,
    folds: int = 5,
    test: float = 0.1,
    groups: Any = None,
    seed: int = 42,
    label: str = "label",
) -> PaperSplit:
    """Return the test set and the folds of Babaev et al. 2022 (Section 4, Appendix E.1, and the public code).

    A tenth of the labelled entities, stratified, is the test set; the others are cut into stratified folds. The test
    set is drawn before anything is trained: a representation is fitted to `data[split.seen]`.

    Args:
        labels: `(n,)` one label per row; None and NaN are missing.
        task: `binary`, `multiclass` or `numeric`; inferred as by `target` if not given.
        folds: number of folds of the labels outside the test set, 2 or more.
        test: share of the labels in the test set, in (0, 0.5].
        groups: `(n,)` rows of one group stay together, for example several times of one history; the test set then
            holds about its share of the rows.
        seed: of all draws; 42 in the public code.
        label: name of the label in messages.

    Raises:
        ConfigError: If `folds` or `test` is out of range.
        DataError: If the label has one value only, or if a class or the groups are too few for the test set or the
            folds.

    Example:
        >>> split = paper_split(np.array([0, 1] * 50 + [np.nan] * 20))
        >>> len(split.test), [len(left_out) for _, left_out in split.folds], int(split.seen.sum())
        (10, [18, 18, 18, 18, 18], 110)
    """
    if not 0 < test <= 0.5:
        raise ConfigError(f"test, the share of the labels in the test set, must be in (0, 0.5], got {test:g}")
    n, labelled = len(np.asarray(labels)), target(labels, task, label)
    codes = None if groups is None else group_codes(column(groups, "groups", n))
    labelled_codes = None if codes is None else codes[labelled.rows]
    in_test = _test_set(labelled, test, labelled_codes, seed)
    rest = np.flatnonzero(~in_test)
    inner = Target(labelled.name, labelled.task, labelled.y[rest], labelled.rows[rest], labelled.classes)
    parts = cross_validation(inner, folds, None if labelled_codes is None else labelled_codes[rest], seed)
    rows = labelled.rows[in_test]
    seen = ~np.isin(np.arange(n), rows) if codes is None else ~np.isin(codes, codes[rows])
    return PaperSplit(labelled, rows, tuple((inner.rows[a], inner.rows[b]) for a, b in parts), seen, seed, codes)


def paper_protocol(
    features: Mapping[str, Any],
    split: PaperSplit,
    *,
    fractions: Sequence[float] = (1.0,),
    model: str = "lightgbm",
    boosting: Boosting | None = None,
    num_threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PaperResult:
    """Return the scores of each feature set and each trainer on the same folds, labels and test set.

    Args:
        features: by name, `(n, d)` numbers, a `Trainer`, or a list of these with one element per run (seed).
        split: of `paper_split`, whose rows are the rows of the features.
        fractions: shares in (0, 1] of each fold's training labels, stratified by class and drawn once for all feature
            sets; a larger share contains a smaller one. The rows that are scored stay the same.
        model: name in `MODELS`, trained on the features; boosted trees in the paper.
        boosting: settings of boosted trees, for example `lightgbm_settings("age_group")`.
        num_threads: the number of models that are trained side by side, with one thread each; as many as PyTorch uses
            by default. Trainers are called one after the other.
        progress: called with the number of trained models and the total number.

    Raises:
        ConfigError: If a fraction is out of range, the model is unknown, `boosting` comes with another model, or there
            is no feature set.
        DataError: If features hold NaN or differ in length from the labels, if a fraction leaves too few labels of a
            class, or if a trainer's predictions are not one finite number per row.

    Example:
        >>> labels = np.arange(200) % 2
        >>> z = np.random.default_rng(0).normal(size=(200, 2)) + labels[:, None]
        >>> ours = lambda train, y, rows: z[rows].sum(1)
        >>> result = paper_protocol({"z": z, "ours": [ours, ours]}, paper_split(labels), model="logistic_regression")
        >>> [(cell.features, cell.run, cell.split, round(cell.main.mean, 2)) for cell in result.cells][:3]
        [('z', 0, 'cv', 0.84), ('z', 0, 'test', 0.87), ('ours', 0, 'cv', 0.84)]
    """
    in_range(fractions)
    if not features:
        raise ConfigError("features has no feature set; give numbers or a trainer by name")
    if boosting is not None and model != "lightgbm":
        raise ConfigError(f"boosting needs model='lightgbm', got model={model!r}")
    given = {
        (name, run): one
        for name, runs in features.items()
        for run, one in enumerate(runs if isinstance(runs, list | tuple) else [runs])
    }
    trainers = {
        key: one if callable(one) else _trainer(one, key[0], split, model, boosting) for key, one in given.items()
    }
    parts = {fraction: split.training_parts(fraction) for fraction in fractions}
    weights = resample(len(split.seen), split.groups, seed=split.seed)
    labels_by_row = _labels_by_row(split)
    tasks = list(product(parts, trainers, range(len(split.folds))))
    in_turn = [task for task in tasks if callable(given[task[1]])]  # fit borrows generators that threads share
    in_threads = [task for task in tasks if not callable(given[task[1]])]

    def score(fraction: float, key: tuple[str, int], fold: int) -> _Scored:
        train, left_out = parts[fraction][fold], split.folds[fold][1]
        return _score(trainers[key], key[0], labels_by_row, train, (left_out, split.test), weights)

    def report(before: int) -> Callable[..., None] | None:
        return None if progress is None else lambda done, *_: progress(before + done, len(tasks))

    threads = num_threads or torch.get_num_threads()
    scored = dict[Any, _Scored]()
    for some, workers in ((in_turn, 1), (in_threads, threads)):
        if some:
            scored |= zip(some, side_by_side(score, some, workers, progress=report(len(scored))), strict=True)
    cells = list[Cell]()
    for fraction, key in product(parts, trainers):
        by_fold = [scored[fraction, key, fold] for fold in range(len(split.folds))]
        labels = round(float(np.mean([len(train) for train in parts[fraction]])))
        for place, part in enumerate(PARTS):
            main, secondary = (
                Scores(
                    tuple(float(fold[place][0][metric]) for fold in by_fold),
                    np.stack([fold[place][1][:, metric] for fold in by_fold], 1),
                    part == "test",
                )
                for metric in range(2)
            )
            cells.append(Cell(key[0], key[1], part, fraction, labels, main, secondary))
    return PaperResult(split.target, tuple(cells))


_Scored: TypeAlias = tuple[tuple[tuple[float, float], Array], ...]
"""For each part, the two scores and `(replicates, 2)` those on resampled entities."""


def _score(
    trainer: Trainer, name: str, labels: Target, train: Array, tested: tuple[Array, Array], weights: Array
) -> _Scored:
    """Return the scores of one model on the fold left out, then on the test set, both predicted in one call."""
    rows = np.concatenate(tested)
    predicted = np.asarray(trainer(train, labels.y[train], rows))
    if predicted.shape != rows.shape or predicted.dtype.kind not in "fiub" or not np.isfinite(predicted).all():
        raise DataError(
            f"{name!r} predicted {predicted.dtype} of shape {predicted.shape} for {len(rows):,} rows; one finite "
            "number per row is needed: a score of class 1, a code, or a number"
        )
    parts = zip(tested, np.split(predicted, [len(tested[0])]), strict=True)
    return tuple(
        (
            measure(labels.task, labels.y[part], values),
            replicates(labels.task, labels.y[part], values, weights[:, part]),
        )
        for part, values in parts
    )


def _trainer(values: Any, name: str, split: PaperSplit, model: str, boosting: Boosting | None) -> Trainer:
    """Return a trainer that fits the model to one set of features."""
    x, labels = matrix(values, name, len(split.seen)), split.target
    chosen_models(labels.task, [model])

    def trainer(train: Array, y: Array, rows: Array) -> Array:
        return predict(Samples(labels.task, len(labels.classes), x[train], y, x[rows], split.seed, 1, boosting), model)

    return trainer


def _labels_by_row(split: PaperSplit) -> Target:
    """Return the target with one label for each of the `n` rows; the labels of rows without one are never read."""
    labelled, n = split.target, len(split.seen)
    y = np.zeros(n, labelled.y.dtype)
    y[labelled.rows] = labelled.y
    return Target(labelled.name, labelled.task, y, np.arange(n), labelled.classes)


def _test_set(labelled: Target, share: float, groups: Array | None, seed: int) -> Array:
    """Return `(m,)` bool, true for the labels of the test set."""
    from sklearn import model_selection as ms

    _check_counts(labelled, share, groups)
    m, numeric = len(labelled.y), labelled.task == "numeric"
    if groups is None:
        strata = None if numeric else labelled.y
        rows = ms.train_test_split(np.arange(m), test_size=share, stratify=strata, random_state=seed)[1]
    elif numeric:
        rows = next(ms.GroupShuffleSplit(1, test_size=share, random_state=seed).split(labelled.y, None, groups))[1]
    else:
        splitter = ms.StratifiedGroupKFold(round(1 / share), shuffle=True, random_state=seed)
        rows = next(splitter.split(labelled.y, labelled.y, groups))[1]
    if len(distinct := np.unique(labelled.y[rows])) < 2:
        raise DataError(
            f"the test set of label {labelled.name!r} has {len(rows):,} labels with {len(distinct)} value; more labels "
            "or a larger test set are needed"
        )
    in_test: Array = np.isin(np.arange(m), rows)
    return in_test


def _check_counts(labelled: Target, share: float, groups: Array | None) -> None:
    """Raise DataError if there are too few labels, or groups, for the test set."""
    least = math.ceil(1 / share)
    if groups is not None and (n_groups := len(np.unique(groups))) < least:
        raise DataError(
            f"a test set of {share:g} of the labels needs {least:,} groups, which are never split, got {n_groups:,}"
        )
    rarest = len(labelled.y) if labelled.task == "numeric" else int(np.bincount(labelled.y).min())
    if rarest < least:
        what = "labels" if labelled.task == "numeric" else "members of each class"
        raise DataError(
            f"a test set of {share:g} of label {labelled.name!r} needs {least:,} {what}, got {rarest:,}; take a larger "
            "test set, leave that class out or merge it with another"
        )
