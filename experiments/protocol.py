"""The protocol of Babaev et al. 2022: a tenth of the labels for the test, five folds of the rest, two scores a model.

A representation is learned on all rows but the test set's, `PaperSplit.seen`. Then a model is trained without one fold
of the remaining labels and scored twice: on the fold that it did not see ("cv", Tables 1, 6, 7 and 8) and on the common
test set ("test", Table 2). The held-out fold lies inside the data of the representation, the test set does not: the two
scores are not comparable and never mixed here. Differences between two feature sets are paired, see `paired`.

Not here: the evaluation of embeddings that exist already, which is `evaluate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np

from eventvec.errors import ConfigError, DataError
from eventvec.evaluation.folds import Split, cross_validation, group_codes, subsample
from eventvec.evaluation.inputs import column, in_range, matrix
from eventvec.evaluation.metrics import METRICS, Array, measure
from eventvec.evaluation.models import Boosting, Job, choose
from eventvec.evaluation.result import Scores
from eventvec.evaluation.task import Target, target

Trainer: TypeAlias = Callable[[Array, Array, Array], Array]
"""Anything that learns from labels: ``(train (m,), y (m,), rows (k,)) -> (k,)`` predictions of `rows`.

`train` and `rows` are positions among the rows that `paper_split` was given, `y` codes from 0 (positions in
`PaperSplit.target.classes`) or numbers. Predictions are scores that rise with the probability of class 1, codes where
there are several classes, or numbers. Supervised training and fine-tuning enter the protocol this way.
"""

Part: TypeAlias = Literal["cv", "test"]
PARTS: tuple[Part, Part] = ("cv", "test")


@dataclass(frozen=True, eq=False)
class PaperSplit:
    """Which rows are trained on and tested on; every feature set and every run gets the same.

    Args:
        target: the labels; `target.rows` has their positions among the `n` rows that were given.
        test: `(k,)` positions of the common test set.
        folds: for each fold the positions of its training part and of the part that is held out.
        seen: `(n,)` bool, the rows that a representation may be trained on: all but the test set, those without a label
            included; with groups, no row of a test row's group.
        seed: of the test set, the folds and what is drawn within them.
    """

    target: Target
    test: Array
    folds: tuple[Split, ...]
    seen: Array
    seed: int


@dataclass(frozen=True)
class Cell:
    """The scores of one run of one feature set.

    Args:
        features: its name.
        run: 0, 1, … where several encoders were trained, for example with different seeds.
        split: `cv`, each model on the fold that it did not see, or `test`, each on the common test set.
        fraction: share of each fold's training labels.
        labels: how many these are, the mean over the folds, rounded.
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
    """What the protocol found: returned by `paper_protocol`.

    Args:
        target: what was predicted.
        cells: one per feature set, run, split and fraction.

    Example:
        >>> labels = np.arange(60) % 2
        >>> split = paper_split(labels, folds=2)
        >>> found = paper_protocol({"x": labels[:, None]}, split, model="logistic_regression")
        >>> found.metric, found.scores("x", "cv")[0].values, found.rows()[1]["split"]
        ('auroc', (1.0, 1.0), 'test')
    """

    target: Target
    cells: tuple[Cell, ...]

    @property
    def metric(self) -> str:
        """The main metric: `auroc`, `accuracy` or `r2`; higher is better."""
        return METRICS[self.target.task][0]

    def scores(self, features: str, split: Part = "test", fraction: float = 1.0) -> tuple[Scores, ...]:
        """Return the main scores of a feature set, one element per run, for `paired` and `relative`.

        Raises:
            KeyError: there are none.
        """
        wanted = (features, split, fraction)
        found = tuple(c.main for c in self.cells if (c.features, c.split, c.fraction) == wanted)
        if not found:
            raise KeyError(wanted)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return a row of plain Python values per cell, for a table or JSON."""
        main, second = METRICS[self.target.task]
        return [
            {"features": c.features, "run": c.run, "split": c.split, "fraction": c.fraction, "labels": c.labels}
            | {"metric": main, **c.main.to_dict(), "secondary": {"metric": second, **c.secondary.to_dict()}}
            for c in self.cells
        ]


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

    A tenth of the labelled entities, stratified, is the test set; the rest is cut into stratified folds. The test set
    is drawn before anything is trained: a representation is fitted to `data[split.seen]`.

    Args:
        labels: `(n,)` one label per row; None and NaN are rows without one.
        task: `binary`, `multiclass` or `numeric`; by the rule of `target` if not given.
        folds: of the labels outside the test set, 2 or more.
        test: share of the labels in the test set, in (0, 0.5].
        groups: `(n,)` rows of one group stay together, for example moments of one history; the test set then holds
            about its share of the rows.
        seed: of all draws; 42 in the public code.
        label: how messages call the label.

    Raises:
        ConfigError: `folds` or `test` is out of range.
        DataError: the label has one value only, or a class, or the groups, are too few for the test set or the folds.

    Example:
        >>> split = paper_split(np.array([0, 1] * 50 + [np.nan] * 20))
        >>> len(split.test), [len(held) for _, held in split.folds], int(split.seen.sum())
        (10, [18, 18, 18, 18, 18], 110)
    """
    if not 0 < test <= 0.5:
        raise ConfigError(f"test is {test:g}; the share of the labels in the test set lies in (0, 0.5]")
    n, wanted = len(np.asarray(labels)), target(labels, task, label)
    codes = None if groups is None else group_codes(column(groups, "groups", n))
    own = None if codes is None else codes[wanted.rows]
    tested = _test_set(wanted, test, own, seed)
    kept = np.flatnonzero(~tested)
    inner = Target(wanted.name, wanted.task, wanted.y[kept], wanted.rows[kept], wanted.classes)
    parts = cross_validation(inner, folds, None if own is None else own[kept], seed)
    rows = wanted.rows[tested]
    seen = ~np.isin(np.arange(n), rows) if codes is None else ~np.isin(codes, codes[rows])
    return PaperSplit(wanted, rows, tuple((inner.rows[a], inner.rows[b]) for a, b in parts), seen, seed)


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
        features: by name, `(n, d)` numbers, or a `Trainer`, or a list of these, one per run, for several seeds.
        split: of `paper_split`, whose rows are the features' rows.
        fractions: shares in (0, 1] of each fold's training labels, stratified by class, drawn once for all; a larger
            share contains a smaller one. What is scored on stays whole.
        model: name in `MODELS`, trained on features; the paper's are boosted trees.
        boosting: their settings, for example `lightgbm_settings("age_group")`.
        num_threads: for boosting; all cores if not given.
        progress: called with the number of models trained and the number in all.

    Raises:
        ConfigError: a fraction or the model is not possible, `boosting` is given for another model, or no feature set.
        DataError: features hold NaN, have another length than the labels, a fraction leaves too few labels of a class,
            or a trainer's predictions are not one finite number per row.

    Example:
        >>> labels = np.arange(200) % 2
        >>> z = np.random.default_rng(0).normal(size=(200, 2)) + labels[:, None]
        >>> ours = lambda train, y, rows: z[rows].sum(1)
        >>> found = paper_protocol({"z": z, "ours": [ours, ours]}, paper_split(labels), model="logistic_regression")
        >>> [(cell.features, cell.run, cell.split, round(cell.main.mean, 2)) for cell in found.cells][:3]
        [('z', 0, 'cv', 0.84), ('z', 0, 'test', 0.87), ('ours', 0, 'cv', 0.84)]
    """
    in_range(fractions)
    if not features:
        raise ConfigError("no feature set is given; give numbers, or a function that learns, by name")
    if boosting is not None and model != "lightgbm":
        raise ConfigError(f"boosting= is given for the model {model!r}; only 'lightgbm' takes it")
    trainers = {
        (name, run): one if callable(one) else _trainer(one, name, split, model, boosting, num_threads)
        for name, runs in features.items()
        for run, one in enumerate(runs if isinstance(runs, list | tuple) else [runs])
    }
    every = _every(split)
    parts = {
        f: [subsample(every, train, f, split.seed + k) for k, (train, _) in enumerate(split.folds)] for f in fractions
    }
    total, cells = len(parts) * len(trainers) * len(split.folds), list[Cell]()
    for fraction, ((name, run), trainer) in product(parts, trainers.items()):
        scores: list[tuple[tuple[float, float], tuple[float, float]]] = []
        for train, (_, held) in zip(parts[fraction], split.folds, strict=True):
            if progress:
                progress(len(cells) // 2 * len(split.folds) + len(scores), total)
            scores.append(_score(trainer, name, every, train, held, split.test))
        labels = round(float(np.mean([len(train) for train in parts[fraction]])))
        for part, values in zip(PARTS, zip(*scores, strict=True), strict=True):
            main, secondary = (Scores(tuple(numbers)) for numbers in zip(*values, strict=True))
            cells.append(Cell(name, run, part, fraction, labels, main, secondary))
    if progress:
        progress(total, total)
    return PaperResult(split.target, tuple(cells))


def _score(
    trainer: Trainer, name: str, every: Target, train: Array, held: Array, test: Array
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the scores on the held-out fold, then on the test set, of one model: both are predicted at once."""
    rows = np.concatenate([held, test])
    predicted = np.asarray(trainer(train, every.y[train], rows))
    if predicted.shape != rows.shape or predicted.dtype.kind not in "fiub" or not np.isfinite(predicted).all():
        raise DataError(
            f"{name!r} predicted {predicted.dtype} of shape {predicted.shape} for {len(rows):,} rows; one finite "
            "number per row is needed: a score of class 1, a code, or a number"
        )
    cut = len(held)
    return (
        measure(every.task, every.y[held], predicted[:cut]),
        measure(every.task, every.y[test], predicted[cut:]),
    )


def _trainer(
    values: Any, name: str, split: PaperSplit, model: str, boosting: Boosting | None, num_threads: int | None
) -> Trainer:
    """Return the model on one set of features."""
    x, wanted = matrix(values, name, len(split.seen)), split.target
    predict = choose(wanted.task, [model])[0][model]

    def trainer(train: Array, y: Array, rows: Array) -> Array:
        return predict(Job(wanted.task, len(wanted.classes), x[train], y, x[rows], split.seed, num_threads, boosting))

    return trainer


def _every(split: PaperSplit) -> Target:
    """Return the target over all rows that were given; what it says of rows without a label is never read."""
    wanted, n = split.target, len(split.seen)
    y = np.zeros(n, wanted.y.dtype)
    y[wanted.rows] = wanted.y
    return Target(wanted.name, wanted.task, y, np.arange(n), wanted.classes)


def _test_set(wanted: Target, share: float, groups: Array | None, seed: int) -> Array:
    """Return `(m,)` bool, the labels of the test set."""
    from sklearn import model_selection as ms

    _enough(wanted, share, groups)
    m, numeric = len(wanted.y), wanted.task == "numeric"
    if groups is None:
        strata = None if numeric else wanted.y
        rows = ms.train_test_split(np.arange(m), test_size=share, stratify=strata, random_state=seed)[1]
    elif numeric:
        rows = next(ms.GroupShuffleSplit(1, test_size=share, random_state=seed).split(wanted.y, None, groups))[1]
    else:
        splitter = ms.StratifiedGroupKFold(round(1 / share), shuffle=True, random_state=seed)
        rows = next(splitter.split(wanted.y, wanted.y, groups))[1]
    if len(found := np.unique(wanted.y[rows])) < 2:
        raise DataError(
            f"the test set of label {wanted.name!r} has {len(rows):,} labels with {len(found)} value; more labels or a "
            "larger test set are needed"
        )
    tested: Array = np.isin(np.arange(m), rows)
    return tested


def _enough(wanted: Target, share: float, groups: Array | None) -> None:
    least = math.ceil(1 / share)
    if groups is not None and (found := len(np.unique(groups))) < least:
        raise DataError(
            f"a test set of {share:g} of the labels needs {least:,} groups, which are never split; there are {found:,}"
        )
    rarest = len(wanted.y) if wanted.task == "numeric" else int(np.bincount(wanted.y).min())
    if rarest < least:
        what = "labels" if wanted.task == "numeric" else "members of each class"
        raise DataError(
            f"a test set of {share:g} of label {wanted.name!r} needs {least:,} {what}; there are {rarest:,}: take a "
            "larger test set, or leave that class out or merge it with another"
        )
