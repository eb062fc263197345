"""Why a head predicts what it does: what named features contribute to its raw scores.

Blocks name their features. Components, such as those of codes, are traced to the terms that they are sums of, and these
to what they are of: exactly where a learner is linear, and where it is trees by shares of squared loadings. What
networks read, and the predictions of the caller's learners, have no names; they contribute together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from eventvec.blocks.matrices import features_of, matrices
from eventvec.blocks.named_terms import terms_of
from eventvec.blocks.rows import Block, Features, Rows
from eventvec.learners.contributions import Contributions, centred, contributions
from eventvec.learners.fitted import Linear
from eventvec.models.head import Head
from eventvec.schema import Schema
from eventvec.sequences import Array

NUMBERS = 2**23
"""The number of contributions that are in memory at once."""
SAMPLE, FEWEST, MOST = 300, 30, 50
"""The number of rows by which features are ranked in training, divided by that of several classes, and the fewest; and
the number of features that are told."""
OTHER = "(no name)"
"""How what networks read, and what the caller's learners predict, is called."""
LEAST = 1e-9
"""The mean size of a contribution up to which it is rounding."""


class Name(NamedTuple):
    """A feature: what it is called, the column of the events that it is of, and its block."""

    feature: str
    column: str
    block: str


class Reasons(NamedTuple):
    """What adds up to the raw scores of `n` rows, which have `k` numbers, see `learners.contributions`.

    Args:
        names: `m` the features.
        given: `(n, m)` the features as their blocks compute them, or the counts of terms; NaN where there is no number.
        values: `(n, m, k)` what each contributes.
        rest: `(n, k)` what nothing with a name contributes.
        baseline: `(k,)` the score of no row in particular.
    """

    names: list[Name]
    given: Array
    values: Array
    rest: Array
    baseline: Array

    @property
    def scores(self) -> Array:
        """`(n, k)` the raw scores."""
        return np.asarray(self.baseline + self.values.sum(1) + self.rest)


class HeadReasons:
    """Why a head predicts what it does.

    Args:
        head: The head.
        blocks: The blocks of its model.
        schema: The schema of the model.
    """

    def __init__(self, head: Head, blocks: Mapping[str, Block], schema: Schema) -> None:
        self.head = head
        self._read = {name: head.blocks[name] if name in head.blocks else blocks[name] for name in head.used}
        found = {name: terms_of(block, schema) for name, block in self._read.items()}
        self._terms = {name: terms for name, terms in found.items() if terms is not None}
        self._outputs = len(head.target.classes) if head.target.task == "multiclass" else 1
        self._places, self._names = dict[str, Array](), list[Name]()

    def of(self, rows: Rows) -> Iterator[tuple[slice, Reasons]]:
        """Yield the reasons of parts of rows, each after its place."""
        head = self.head
        features = features_of(self._read, rows)
        names = self._named(features)
        x, _ = matrices(features, {name: head.sets[name] for name, _ in head.stack.models})
        terms, given = dict[str, Array](), np.full((len(rows.data), len(names)), np.nan, np.float32)
        for name, places in self._places.items():
            if name in self._terms:
                terms[name], given[:, places] = self._terms[name].of(rows.data.sequences)
            else:
                given[:, places] = features[name][0]
        width = max(len(names), sum(each.shape[1] for each in x.values()), 1)
        size = max(NUMBERS // (width * self._outputs), 1)
        for start in range(0, len(rows.data), size):
            part = slice(start, start + size)
            found = contributions(head.stack, {name: values[part] for name, values in x.items()})
            yield part, self._of_part(found, {name: each[part] for name, each in terms.items()}, given[part])

    def _of_part(self, found: Contributions, terms: Mapping[str, Array], given: Array) -> Reasons:
        """Return the reasons of rows from the contributions to each learner."""
        head, baseline, rest = self.head, found.baseline, found.rest
        values = np.zeros((len(rest), len(self._names), self._outputs))
        for cell, of_cell in found.features.items():
            begin, model = 0, head.stack.models[cell]
            for name in head.sets[cell[0]]:
                columns = slice(begin, begin + self._read[name].dim)
                begin, of_block = columns.stop, of_cell[:, columns]
                if name not in self._places:
                    rest = rest + of_block.sum(1)
                elif name not in terms:
                    values[:, self._places[name]] += of_block
                elif isinstance(model, Linear):
                    slopes = head.stack.weights[cell] * model.weights[columns] / model.scale[columns, None]
                    slopes = centred(head.target.task, slopes)
                    of_terms = self._terms[name].linear(terms[name], slopes)
                    constant = -model.mean[columns] @ slopes
                    values[:, self._places[name]] += of_terms
                    baseline = baseline + constant
                    rest = rest + of_block.sum(1) - of_terms.sum(1) - constant  # of components that are cut off
                else:
                    values[:, self._places[name]] += np.einsum("njk,jm->nmk", of_block, self._terms[name].shares)
        return Reasons(self._names, given, values, rest, baseline)

    def _named(self, features: Mapping[str, Features]) -> list[Name]:
        """Return the names of all features, after the places of those of each block that has names were found."""
        for name, block in () if self._names else self._read.items():
            if getattr(block, "is_network", False):
                continue
            called = block.names or [f"{name}_{place}" for place in range(block.dim)]
            found = self._terms[name].names if name in self._terms else zip(called, features[name][1], strict=True)
            of_block = [Name(*each, name) for each in found]
            self._places[name] = len(self._names) + np.arange(len(of_block))
            self._names += of_block
        return self._names


def importances(reasons: HeadReasons, rows: Rows) -> dict[str, Any]:
    """Return what the training tells of features: by `features` and by `columns`, the largest first.

    It is the mean size of what each contributes to the raw scores of at most `SAMPLE` rows by the number of classes;
    of a column, the sum over its features. Of the features, the first `MOST` are told. What has no name is of the
    column `OTHER`.
    """
    n, classes = len(rows.data), max(len(reasons.head.target.classes), 1)
    some = np.arange(0, n, -(-n // max(SAMPLE // classes, FEWEST)))
    total, rest, names = np.zeros(0), 0.0, list[Name]()
    for _, found in reasons.of(replace(rows, data=rows.data[some], cutoffs=None)):
        names = found.names
        total = (total if len(total) else np.zeros(len(names))) + np.abs(found.values).mean(2).sum(0)
        rest += float(np.abs(found.rest).mean(1).sum())
    of_features = [*zip(names, (total / len(some)).tolist(), strict=True), (Name(OTHER, OTHER, ""), rest / len(some))]
    of_features = sorted((each for each in of_features if each[1] > LEAST), key=lambda each: -each[1])
    columns = dict[str, float]()
    for name, size in of_features:
        column = name.column or name.block.replace("_", " ")
        columns[column] = columns.get(column, 0.0) + size
    return {
        "features": [{**name._asdict(), "contribution": size} for name, size in of_features[:MOST]],
        "columns": dict(sorted(columns.items(), key=lambda each: -each[1])),
    }
