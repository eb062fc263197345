"""The protocol of the real-data study (Agrawal et al. 2022, Section 4.2 and Appendix C), for any histories.

A note is a window of a history; its label is that of its last event. The labels of some entities are used, and the
other entities provide pairs of notes whose order is learned.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from scipy.stats import ttest_rel  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from torch import Tensor

import eventvec as ev
from eventvec.dataset import strings
from eventvec.views import restart_gap
from experiments.command_line import Row
from experiments.order.sparse_selection import liblinear

FRACTIONS, FOLDS = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16), 5

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Grid: TypeAlias = Sequence[tuple[bool, float]]
"""Settings of a logistic regression: whether the penalty is L1, and C."""
GRID: Grid = tuple((l1, 10.0**power) for l1 in (True, False) for power in range(-3, 7))
Scores: TypeAlias = dict[tuple[str, float], Array]
"""By features or encoder, and fraction: `(folds, runs, 2)`, AUC and average precision at 80 % recall."""


class Labelled(Protocol):
    """Notes with the entity and the label of each, as `Notes` has them."""

    @property
    def entity(self) -> Array:
        """`(n,)` the entity of each note."""

    @property
    def label(self) -> Array:
        """`(n,)` 0 or 1, NaN where missing."""


@dataclass(frozen=True, eq=False)
class Notes:
    """One row per note; the notes of an entity are contiguous and in order of time.

    Args:
        data: the notes as rows; their keys are numbers.
        entity: `(n,)` the entity of each note.
        label: `(n,)` 0 or 1, NaN where missing.
        features: `(n, d)` means of the numeric columns over each note, NaN where all values are missing; or the texts.
    """

    data: ev.Dataset
    entity: Array
    label: Array
    features: Array | list[str]


@dataclass(frozen=True, eq=False)
class Fold:
    """The entities of one fold: 64 % train, 16 % validation, 20 % test.

    Args:
        train: `(k,)` training entities; a fraction of them is a first part, in which the share of positive entities is
            about the same.
        validation: entities on which settings are chosen.
        test: entities on which scores are measured.
    """

    train: Array
    validation: Array
    test: Array

    def part(self, fraction: float) -> Array:
        """Return a fraction of the training entities; a larger one contains a smaller one."""
        return self.train[: max(1, round(fraction * len(self.train)))]


def without_label(data: ev.Dataset, label: str) -> ev.Dataset:
    """Return the same histories without the column of the label."""
    columns = {name: values for name, values in data.sequences.columns.items() if name != label}
    schema = replace(data.schema, numeric=tuple(field for field in data.schema.numeric if field.name != label))
    return replace(data, sequences=replace(data.sequences, columns=columns), schema=schema)


def cut_notes(data: ev.Dataset, label: str, length: int = 1, text: str | None = None, step: int | None = None) -> Notes:
    """Return the histories cut into notes of `length` events; the last note ends with its history.

    Notes with equal times are in the order of their table, which `neighbouring_pairs` takes for the true order.

    Args:
        data: histories with the label of each event as a numeric column of 0, 1 and NaN, which is left out of the
            notes.
        label: name of that column.
        length: number of events in a note.
        text: name of a column whose texts are the features, instead of the numbers; a note is then one event.
        step: number of events from the beginning of a note to that of the next; `length` if None, so that no event is
            in two notes.
    """
    step = step or length
    unlabelled = without_label(data, label)
    x, schema = unlabelled.sequences, unlabelled.schema
    count = ((x.lengths - length).div(step, rounding_mode="floor") + 1).clamp(min=0)
    entity = torch.repeat_interleave(torch.arange(len(x)), count)
    number = torch.arange(len(entity)) - (count.cumsum(0) - count)[entity]
    end = x.lengths[entity] - step * (count[entity] - 1 - number)
    cut = x.slice(entity, end - length, torch.full_like(entity, length))
    event_labels = data.sequences.columns[label]
    assert isinstance(event_labels, Tensor)
    labels = event_labels[cut.starts + length - 1].double().numpy()
    if text is None:
        features: Array | list[str] = _means(cut, [field.name for field in schema.numeric])
    else:
        features = strings(cut.columns[text][cut.starts])  # type: ignore[arg-type]
    rows = ev.Dataset(pa.array(range(len(cut)), pa.int64()), restart_gap(cut), schema)
    return Notes(rows, entity.numpy(), labels, features)


def draw_entities(notes: Labelled, most: int, seed: int) -> Array:
    """Return at most `most` entities that have a label, drawn at random."""
    known = np.unique(notes.entity[~np.isnan(notes.label)])
    return np.random.default_rng(seed).permutation(known)[:most]


def split_folds(notes: Labelled, entities: Array, seed: int) -> Iterator[Fold]:
    """Yield five folds of entities, stratified by whether an entity has a positive note."""
    rng, positive = np.random.default_rng(seed), np.unique(notes.entity[notes.label == 1])
    shuffled = rng.permutation(entities)
    shuffled = shuffled[np.argsort(~np.isin(shuffled, positive), kind="stable")]
    for fold in range(FOLDS):
        rest = np.delete(shuffled, np.s_[fold::FOLDS])
        train = np.delete(rest, np.s_[::FOLDS])
        yield Fold(_interleaved(train, np.isin(train, positive)), rest[::FOLDS], shuffled[fold::FOLDS])


def neighbouring_pairs(notes: Notes, distance: int, seed: int) -> Array:
    """Return `(3, m)` all pairs of neighbouring notes: the index of the first note, of the second note, and the label.

    Each pair is taken once: in order (label 1) or swapped (label 0), with equal probability.

    Args:
        notes: all notes.
        distance: how many rows later in its entity the later note of a pair is.
        seed: of the orders.

    Raises:
        DataError: If no entity has two such notes.
    """
    earlier = np.flatnonzero(notes.entity[distance:] == notes.entity[:-distance])
    if not len(earlier):
        raise ev.DataError("no entity has two neighbouring notes; pairs need at least one such entity")
    label = np.random.default_rng(seed).integers(2, size=len(earlier))
    return np.stack([earlier + distance * (1 - label), earlier + distance * label, label])


def tuned_scores(
    x: Any, notes: Labelled, train: Array, validation: Array, test: Array, grid: Grid = GRID
) -> tuple[float, float]:
    """Return AUC and average precision at 80 % recall of a logistic regression on test notes.

    The regression is liblinear's with balanced classes. Penalty and C are chosen on the validation notes, separately
    for each metric.

    Args:
        x: `(n, d)` features of all notes.
        notes: labels and entities.
        train: `(m,)` training notes.
        validation: `(k,)` validation notes.
        test: `(l,)` test notes.
        grid: settings to choose from.

    Raises:
        DataError: If the notes of a part all have the same label.
    """
    for part, rows in (("training", train), ("validation", validation), ("test", test)):
        if len(np.unique(notes.label[rows])) < 2:
            raise ev.DataError(f"the {part} notes all have the same label; use more entities or a larger fraction")
    validation_scores: list[tuple[float, float]] = []
    test_logits: list[Array] = []
    for l1, c in grid:
        model = liblinear(c, l1=l1, class_weight="balanced")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # for a large C on few labels; validation decides
            model.fit(x[train], notes.label[train])
        validation_scores.append(note_scores(notes, validation, model.decision_function(x[validation])))
        test_logits.append(model.decision_function(x[test]))
    best_auc, best_precision = np.array(validation_scores).argmax(0)
    return note_scores(notes, test, test_logits[best_auc])[0], note_scores(notes, test, test_logits[best_precision])[1]


def note_scores(notes: Labelled, rows: Array, score: Array) -> tuple[float, float]:
    """Return AUC and average precision at 80 % recall of the scores of some notes."""
    truth = notes.label[rows]
    return float(roc_auc_score(truth, score)), precision_at_recall(truth, score, notes.entity[rows])


def precision_at_recall(truth: Array, score: Array, group: Array, recall: float = 0.8) -> float:
    """Return the precision at a given recall, averaged over groups.

    Agrawal et al. 2022, Appendix C.1, "average precision at 80 % recall": the threshold is the highest score at which
    the recall over all groups together is reached; rows with that score are retrieved. The precision of a group with no
    retrieved row is 1 if it has no positive row, otherwise 0.

    Relations: the average precision of `eventvec.evaluation` is instead the area under one curve over all rows.

    Args:
        truth: `(n,)` 0 or 1.
        score: `(n,)` increases with the probability of 1.
        group: `(n,)` the entity of each row, by any keys.
        recall: share of the positive rows that are retrieved, in (0, 1].

    Raises:
        ConfigError: If `recall` is out of range.
        DataError: If there is no positive row, a label is not 0 or 1, a score is missing, or the lengths differ.

    Example:
        >>> truth, score = np.array([1, 0, 1, 0, 0]), np.array([0.9, 0.8, 0.7, 0.6, 0.1])
        >>> precision_at_recall(truth, score, np.array([0, 0, 1, 1, 2]))  # mean of 1/2, 1/1, and 1 for group 2
        0.833...
    """
    truth, score = np.asarray(truth), np.asarray(score)
    if not 0 < recall <= 1:
        raise ev.ConfigError(f"recall must be in (0, 1], got {recall}")
    if not len(truth) == len(score) == len(group):
        raise ev.DataError(
            f"there are {len(truth):,} labels, {len(score):,} scores and {len(group):,} groups; each row needs one"
        )
    if invalid := int((~np.isin(truth, (0, 1)) | np.isnan(score)).sum()):
        raise ev.DataError(
            f"{invalid:,} of {len(truth):,} rows have a label that is not 0 or 1, or no score; leave them out"
        )
    positive = truth == 1
    if not positive.any():
        raise ev.DataError("there is no positive row; use larger or other parts")
    n_retrieved = int(np.ceil(recall * positive.sum() - 1e-9))
    retrieved = score >= np.sort(score[positive])[-n_retrieved]
    groups, code = np.unique(group, return_inverse=True)
    counts = np.bincount(code, retrieved, len(groups))
    correct = np.bincount(code, retrieved & positive, len(groups))
    without_positive = np.bincount(code, positive, len(groups)) == 0
    return float(np.where(counts > 0, correct / np.maximum(counts, 1), without_positive).mean())


def labelled_notes(notes: Labelled, entities: Array) -> Array:
    """Return the labelled notes of some entities."""
    return np.flatnonzero(np.isin(notes.entity, entities) & ~np.isnan(notes.label))


def comparison_rows(name: str, scores: Scores, ours: str) -> list[Row]:
    """Return one row per feature set and fraction: mean and standard deviation over the folds, compared with ours.

    Args:
        name: of the data set.
        scores: of all feature sets or encoders.
        ours: the one that the others are compared with. Their rows have the lead of ours, the p-value of a paired
            t-test over the folds (of the means over runs), and the share of folds and pairs of runs in which ours has
            the higher score.
    """
    rows = []
    for (features, fraction), values in scores.items():
        row: Row = {"data": name, "features": features, "fraction": fraction}
        for i, metric in enumerate(("auc", "precision")):
            mean, reference = values[..., i].mean(1), scores[ours, fraction][..., i]
            row |= {metric: float(mean.mean()), f"{metric} std": float(mean.std(ddof=1))}
            same = features == ours
            row[f"{metric} behind"] = "" if same else float((reference.mean(1) - mean).mean())
            row[f"{metric} p"] = "" if same else float(ttest_rel(reference.mean(1), mean).pvalue)
            row[f"{metric} wins"] = "" if same else float((reference[:, :, None] > values[:, None, :, i]).mean())
        rows.append(row)
    return rows


def _means(x: ev.Sequences, names: list[str]) -> Array:
    """Return `(n, d)` the mean of each column over each row, NaN where all values are missing."""
    values = torch.stack([x.values(name).double() for name in names], 1)
    present = ~values.isnan()
    zeros = values.new_zeros(len(x), len(names))
    total = zeros.index_add(0, x.rows(), values.nan_to_num())
    return (total / zeros.index_add(0, x.rows(), present.double())).numpy()


def _interleaved(entities: Array, positive: Array) -> Array:
    """Return the entities in an order in which every first part has about the same share of positive ones."""
    place = np.empty(len(entities))
    for kind in (positive, ~positive):
        place[kind] = (np.arange(kind.sum()) + 0.5) / max(1, kind.sum())
    return entities[np.argsort(place, kind="stable")]
