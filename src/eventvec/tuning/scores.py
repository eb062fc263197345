"""The labels of a search, and the scores of vectors on them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eventvec.answers import Answer
from eventvec.comparing.plans import usable_labels
from eventvec.dataset import Dataset, repeated
from eventvec.evaluation import score_features
from eventvec.evaluation.protocols import choose_protocol
from eventvec.learners.folds import group_codes
from eventvec.learners.task import target
from eventvec.sequences import Array
from eventvec.tables.keys import holdout_mask, texts
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows with a label each, as of its time.

    Args:
        data: The rows.
        labels: `(n,)` their labels.
        label: The name of the label.
        is_test: `(n,)` bool, whether the entity is one of those that the search never sees.
        task: The kind of the label.
        notes: Sentences about what was counted.
    """

    data: Dataset
    labels: Array
    label: str
    is_test: Array
    task: str
    notes: tuple[str, ...]

    @property
    def searched(self) -> Dataset:
        """The rows of the other entities."""
        return self.data[~self.is_test]

    @property
    def model(self) -> str:
        """The name of the model that is scored."""
        return "ridge" if self.task == "numeric" else "logistic_regression"

    @property
    def digest(self) -> str:
        """A digest of the labels, by which a search that goes on knows them."""
        return hashlib.blake2b(repr((self.label, self.labels.tolist())).encode(), digest_size=16).hexdigest()

    @property
    def test_entities(self) -> int:
        """The number of entities that the search never sees."""
        keys = self.data.keys.filter(pa.array(self.is_test))
        return len(keys) - repeated(keys)

    def score(self, vectors: Mapping[str, Array], folds: int, seed: int, *, test: bool) -> Answer:
        """Return the scores of sets of vectors.

        Args:
            vectors: `(n, d)` vectors by name, of all rows for a test, else of the searched ones.
            test: Whether the test entities are scored, by models trained on the others; or else the others, in
                cross-validation.
        """
        rows = np.full(len(self.labels), True) if test else ~self.is_test
        keys = self.data.keys.filter(pa.array(rows))
        return score_features(
            vectors, self.labels[rows], entities=texts(keys).to_numpy() if repeated(keys) else None,
            holdout=self.is_test if test else None, label=self.label, task=self.task, models=[self.model],
            folds=folds, seed=seed,
        )  # fmt: skip


def labelled_rows(
    data: Dataset, labels: Tabular, label: str, time: LabelTime, holdout: float, folds: int, seed: int
) -> LabelledRows:
    """Return the rows with a label; refuse what `score` would refuse after hours."""
    _, histories, joined = usable_labels(labels, label, time, data)
    rows = histories[joined.positions]
    values: Any = joined.labels
    is_test = holdout_mask(rows.keys, holdout, seed)
    searched = target(values[~is_test], name=label)
    entities = group_codes(texts(rows.keys).to_numpy()) if repeated(rows.keys) else None
    everyone = target(values, searched.task, label)
    for learned, test, groups in (
        (searched, None, None if entities is None else entities[~is_test]),
        (everyone, is_test, entities),
    ):
        choose_protocol(learned, groups, test, None, both_sides=False, folds=folds, seed=seed, learned_from=())
    return LabelledRows(rows, values, label, is_test, searched.task, (*rows.notes, *joined.notes))
