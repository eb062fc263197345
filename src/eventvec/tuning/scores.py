"""The labels of a search, and the scores of vectors on them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from eventvec.answers import Answer
from eventvec.dataset import Dataset, repeated
from eventvec.evaluation import score_features
from eventvec.evaluation.protocols import choose_protocol
from eventvec.examples.labelled import Examples, join_examples
from eventvec.sequences import Array
from eventvec.tables.keys import holdout_mask
from eventvec.tables.label_times import labelled_histories, labels_beside
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The examples of a search.

    Args:
        examples: `n` rows with a label each, as of its time.
        is_test: `(n,)` bool, whether the entity is one of those that the search never sees.
        task: The kind of the label.
    """

    examples: Examples[Dataset]
    is_test: Array
    task: str

    @property
    def searched(self) -> Dataset:
        """The rows of the other entities."""
        return self.examples.rows[~self.is_test]

    @property
    def model(self) -> str:
        """The name of the model that is scored."""
        return "ridge" if self.task == "numeric" else "logistic_regression"

    @property
    def digest(self) -> str:
        """A digest of the labels, by which a search that goes on knows them."""
        labels: Any = self.examples.labels
        return hashlib.blake2b(repr((self.examples.name, labels.tolist())).encode(), digest_size=16).hexdigest()

    @property
    def test_entities(self) -> int:
        """The number of entities that the search never sees."""
        keys = self.examples.rows.keys.filter(pa.array(self.is_test))
        return len(keys) - repeated(keys)

    def score(self, vectors: Mapping[str, Array], folds: int, seed: int, *, test: bool) -> Answer:
        """Return the scores of sets of vectors.

        Args:
            vectors: `(n, d)` vectors by name, of all rows for a test, else of the searched ones.
            test: Whether the test entities are scored, by models trained on the others; or else the others, in
                cross-validation.
        """
        examples = self.examples if test else self.examples[~self.is_test]
        return score_features(
            vectors, examples.labels, entities=examples.entities, holdout=self.is_test if test else None,
            label=examples.name, task=self.task, models=[self.model], folds=folds, seed=seed,
        )  # fmt: skip


def labelled_rows(
    data: Dataset, labels: Tabular, label: str, time: LabelTime, holdout: float, folds: int, seed: int
) -> LabelledRows:
    """Return the rows with a label; refuse what `score` would refuse after hours."""
    timed = labels_beside(data, labels, [label], time)
    examples = join_examples(labelled_histories(data, timed), timed)
    is_test = holdout_mask(examples.rows.keys, holdout, seed)
    searched = examples[~is_test]
    task = searched.target().task
    for part, test in ((searched, None), (examples, is_test)):
        choose_protocol(
            part.target(task), part.units, test, None, both_sides=False, folds=folds, seed=seed, learned_from=()
        )
    notes = tuple(dict.fromkeys([*examples.rows.notes, *examples.notes]))
    return LabelledRows(replace(examples, notes=notes), is_test, task)
