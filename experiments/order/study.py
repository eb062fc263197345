"""The protocol of the real-data study (Agrawal et al. 2022, Section 4.2 and Appendix C), for any histories.

A note is a window of a history; the label of a note is that of its last event. Some entities give labels, and the
others give pairs of notes, of which the order is learned.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from scipy.stats import ttest_rel  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from torch import Tensor

import eventvec as ev
from eventvec.evaluation import precision_at_recall
from eventvec.texts import strings
from eventvec.views import restart_gap
from experiments.order.selection import liblinear
from experiments.tables import Row

FRACTIONS, FOLDS = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16), 5
GRID = tuple((l1, 10.0**power) for l1 in (True, False) for power in range(-3, 7))  # L1 or L2, and C

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Scores: TypeAlias = dict[tuple[str, float], Array]
"""By features or encoder, and fraction: `(folds, runs, 2)`, AUC and average precision at 80 % recall."""


@dataclass(frozen=True, eq=False)
class Notes:
    """One row per note, those of an entity together and in order of time.

    Args:
        data: the notes as rows; keys are their numbers.
        entity: `(n,)` the entity of each note.
        label: `(n,)` 0, 1, or NaN where there is none.
        features: `(n, d)` means of the numeric columns over each note, NaN where all are missing; or its texts.
    """

    data: ev.Dataset
    entity: Array
    label: Array
    features: Array | list[str]


@dataclass(frozen=True, eq=False)
class Fold:
    """Entities of one fold: 64 % train, 16 % validation, 20 % test; any first part of `train` is a fair sample of it.

    Args:
        train: `(k,)` entities, of which a fraction is the first so many.
        validation: on which settings are chosen.
        test: on which they are measured.
    """

    train: Array
    validation: Array
    test: Array

    def part(self, fraction: float) -> Array:
        """Return the training entities of a fraction; a larger one contains a smaller one."""
        return self.train[: max(1, round(fraction * len(self.train)))]


def without(data: ev.Dataset, label: str) -> ev.Dataset:
    """Return the same histories without the column of the label."""
    columns = {name: values for name, values in data.sequences.columns.items() if name != label}
    schema = replace(data.schema, numeric=tuple(field for field in data.schema.numeric if field.name != label))
    return replace(data, sequences=replace(data.sequences, columns=columns), schema=schema)


def notes(data: ev.Dataset, label: str, length: int = 1, text: str | None = None) -> Notes:
    """Return the histories cut into notes of `length` events, the last one ending where its history ends.

    Args:
        data: histories with the label as a numeric column of 0, 1 and NaN; it is taken out.
        label: that column.
        length: events in a note.
        text: the column whose texts are the features, instead of the numbers; then a note is one event.

    Notes at one time stand in the order of their table, and `pairs` takes it for their true one.
    """
    bare = without(data, label)
    x, schema = bare.sequences, bare.schema
    count = x.lengths // length
    entity = torch.repeat_interleave(torch.arange(len(x)), count)
    number = torch.arange(len(entity)) - (count.cumsum(0) - count)[entity]
    cut = x.slice(entity, x.lengths[entity] % length + length * number, torch.full_like(entity, length))
    last = data.sequences.columns[label]
    assert isinstance(last, Tensor)
    labels = last[cut.starts + length - 1].double().numpy()
    if text is None:
        features: Array | list[str] = _means(cut, [field.name for field in schema.numeric])
    else:
        features = strings(cut.columns[text][cut.starts])  # type: ignore[arg-type]
    rows = ev.Dataset(pa.array(range(len(cut)), pa.int64()), restart_gap(cut), schema)
    return Notes(rows, entity.numpy(), labels, features)


def labelled(found: Notes, most: int, seed: int) -> Array:
    """Return at most so many entities that have a label, drawn at random."""
    known = np.unique(found.entity[~np.isnan(found.label)])
    return np.random.default_rng(seed).permutation(known)[:most]


def folds(found: Notes, entities: Array, seed: int) -> Iterator[Fold]:
    """Yield five folds of entities, over which, and within whose parts, those with a positive note are evenly dealt."""
    rng, positive = np.random.default_rng(seed), np.unique(found.entity[found.label == 1])
    dealt = rng.permutation(entities)
    dealt = dealt[np.argsort(~np.isin(dealt, positive), kind="stable")]
    for fold in range(FOLDS):
        rest = np.delete(dealt, np.s_[fold::FOLDS])
        train = np.delete(rest, np.s_[::FOLDS])
        yield Fold(_even(train, np.isin(train, positive)), rest[::FOLDS], dealt[fold::FOLDS])


def pairs(found: Notes, entities: Array, sampler: Any, seed: int) -> Array:
    """Return `(3, m)` pairs of notes of some entities: the numbers of the first and of the second note, and the labels.

    Args:
        found: notes.
        entities: whose notes are paired; those with fewer than two are left out.
        sampler: a pair sampler for windows of length 1.
        seed: of the draw.

    Raises:
        DataError: no entity has two notes.
    """
    lengths = torch.from_numpy(np.bincount(found.entity, minlength=int(entities.max(initial=0)) + 1))
    x = ev.Sequences({"note": torch.arange(len(found.entity))}, lengths.cumsum(0) - lengths, lengths)
    x = x[torch.from_numpy(entities)]
    x = x[sampler.usable(x)]
    if not len(x):
        raise ev.DataError(f"none of {len(entities):,} entities has two notes, so there is no pair to learn from")
    views, label = sampler(x, torch.Generator().manual_seed(seed))
    first, second = views.values("note").view(2, -1).numpy()
    return np.stack([first, second, label.long().numpy()])


def tuned(x: Any, found: Notes, train: Array, validation: Array, test: Array, grid: Any = GRID) -> tuple[float, float]:
    """Return AUC and average precision at 80 % recall of a logistic regression on test notes.

    Liblinear with balanced classes; penalty and C are chosen on the validation notes, for each metric by itself.

    Args:
        x: `(n, d)` features of all notes.
        found: labels and entities.
        train: `(m,)` notes, and so on.
        validation: notes.
        test: notes.
        grid: whether the penalty is L1, and C, of each setting.

    Raises:
        DataError: the notes of a part all have the same label.
    """
    for part, rows in (("training", train), ("validation", validation), ("test", test)):
        if len(np.unique(found.label[rows])) < 2:
            raise ev.DataError(f"the {part} notes all have the same label; more entities are needed, or larger shares")
    scores: list[tuple[float, float]] = []
    tested: list[Array] = []
    for l1, c in grid:
        model = liblinear(c, l1=l1, class_weight="balanced")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a large C on few labels; validation decides
            model.fit(x[train], found.label[train])
        scores.append(measured(found, validation, model.decision_function(x[validation])))
        tested.append(model.decision_function(x[test]))
    best = np.array(scores).argmax(0)
    return measured(found, test, tested[best[0]])[0], measured(found, test, tested[best[1]])[1]


def measured(found: Notes, rows: Array, score: Array) -> tuple[float, float]:
    """Return AUC and average precision at 80 % recall of some notes' scores."""
    truth = found.label[rows]
    return float(roc_auc_score(truth, score)), precision_at_recall(truth, score, found.entity[rows])


def of(found: Notes, entities: Array) -> Array:
    """Return the labelled notes of some entities."""
    return np.flatnonzero(np.isin(found.entity, entities) & ~np.isnan(found.label))


def compared(name: str, scores: Scores, ours: str) -> list[Row]:
    """Return one row per set of features and fraction: mean and deviation over the folds, and beside ours.

    Args:
        name: of the data.
        scores: of all that is compared.
        ours: what the others are compared with: by how much they are behind, the p of a paired t-test over the folds
            (of the means of their runs), and in which share of folds and runs ours wins.
    """
    rows = []
    for (features, fraction), found in scores.items():
        row: Row = {"data": name, "features": features, "fraction": fraction}
        for i, metric in enumerate(("auc", "precision")):
            mean, own = found[..., i].mean(1), scores[ours, fraction][..., i]
            row |= {metric: float(mean.mean()), f"{metric} std": float(mean.std(ddof=1))}
            same = features == ours
            row[f"{metric} behind"] = "" if same else float((own.mean(1) - mean).mean())
            row[f"{metric} p"] = "" if same else float(ttest_rel(own.mean(1), mean).pvalue)
            row[f"{metric} wins"] = "" if same else float((own[:, :, None] > found[:, None, :, i]).mean())
        rows.append(row)
    return rows


def _means(x: ev.Sequences, names: list[str]) -> Array:
    """Return `(n, d)` the mean of each column over each row, NaN where all are missing."""
    values = torch.stack([x.values(name).double() for name in names], 1)
    there = ~values.isnan()
    zeros = values.new_zeros(len(x), len(names))
    total = zeros.index_add(0, x.rows(), values.nan_to_num())
    return (total / zeros.index_add(0, x.rows(), there.double())).numpy()


def _even(entities: Array, positive: Array) -> Array:
    """Return entities, each kind in its order, so that every first part has about the share of positive ones."""
    place = np.empty(len(entities))
    for kind in (positive, ~positive):
        place[kind] = (np.arange(kind.sum()) + 0.5) / max(1, kind.sum())
    return entities[np.argsort(place, kind="stable")]
