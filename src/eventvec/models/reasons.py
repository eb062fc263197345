"""Why a head predicts what it does: what named features contribute to its raw scores.

Blocks name their features. Components, such as those of codes, are traced to the terms that they are sums of, and these
to what they are of: exactly where a learner is linear, and where it is trees by shares of squared loadings. What
networks read, and the predictions of the caller's learners, have no names; they contribute together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

    @property
    def source(self) -> str:
        """What contributions are summed by: the column, or what the block is called if the feature is of none."""
        return self.column or self.block.replace("_", " ")


class Reasons(NamedTuple):
    """What adds up to the raw scores of `n` rows, which have `k` numbers, see `learners.contributions`.

    Args:
        names: `m` the features.
        given: `(n, m)` the features as their blocks compute them, or what `Terms.of` tells in their place.
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
        self.head, self.schema = head, schema
        used = dict.fromkeys(part for name, _ in head.stack.models for part in head.sets[name])
        self.blocks: dict[str, Block] = {name: {**blocks, **head.blocks}[name] for name in used}
        found = {name: terms_of(block, schema) for name, block in self.blocks.items()}
        self.terms = {name: terms for name, terms in found.items() if terms is not None}
        self._outputs = len(head.target.classes) if head.target.task == "multiclass" else 1

    @property
    def networks(self) -> dict[str, Block]:
        """The blocks without names."""
        return {name: block for name, block in self.blocks.items() if getattr(block, "is_network", False)}

    def of(self, rows: Rows) -> Iterator[tuple[slice, Reasons]]:
        """Yield the reasons of parts of rows, each after its place."""
        head, n = self.head, len(rows.data)
        features = features_of(self.blocks, rows)
        names = {name: self._names(name, features[name]) for name in self.blocks if name not in self.networks}
        sets = {name: head.sets[name] for name, _ in head.stack.models}
        x = matrices(features, sets)[0] if sets else {"": np.empty((n, 0))}
        width = max(sum(map(len, names.values())), sum(each.shape[1] for each in x.values()), 1)
        size = max(NUMBERS // (width * self._outputs), 1)
        for start in range(0, n, size):
            part = slice(start, start + size)
            sequences = rows.data.sequences[part]
            told = {name: self.terms[name].of(sequences) for name in names if name in self.terms}
            given = [told[name][1] if name in told else features[name][0][part] for name in names]
            found = contributions(head.stack, {name: values[part] for name, values in x.items()})
            yield part, self._of_part(found, names, {name: terms for name, (terms, _) in told.items()}, given)

    def _of_part(
        self, found: Contributions, names: Mapping[str, list[Name]], terms: Mapping[str, Array], given: list[Array]
    ) -> Reasons:
        """Return the reasons of rows from the contributions to each learner."""
        head, baseline, rest = self.head, found.baseline, found.rest
        values = {name: np.zeros((len(rest), len(each), self._outputs)) for name, each in names.items()}
        for cell, of_cell in found.features.items():
            end, model = 0, head.stack.models[cell]
            for name in head.sets[cell[0]]:
                begin, end = end, end + self.blocks[name].dim
                columns = slice(begin, end)
                of_block = of_cell[:, columns]
                if name not in names:
                    rest = rest + of_block.sum(1)
                elif name not in terms:
                    values[name] += of_block
                elif isinstance(model, Linear):
                    slopes = head.stack.weights[cell] * model.weights[columns] / model.scale[columns, None]
                    slopes = centred(head.target.task, slopes)
                    of_terms = self.terms[name].linear(terms[name], slopes)
                    constant = -model.mean[columns] @ slopes
                    values[name] += of_terms
                    baseline = baseline + constant
                    rest = rest + of_block.sum(1) - of_terms.sum(1) - constant  # of components that are cut off
                else:
                    values[name] += np.einsum("njk,jm->nmk", of_block, self.terms[name].shares)
        n = len(rest)
        together = np.concatenate([np.empty((n, 0, self._outputs)), *values.values()], 1)
        told = np.concatenate([np.empty((n, 0), np.float32), *given], 1, dtype=np.float32, casting="same_kind")
        return Reasons([name for each in names.values() for name in each], told, together, rest, baseline)

    def _names(self, block: str, features: Features) -> list[Name]:
        """Return the names of the features of a block, or of what its components are sums of."""
        if block in self.terms:
            return [Name(*each, block) for each in self.terms[block].names]
        called = self.blocks[block].names or [f"{block}_{place}" for place in range(self.blocks[block].dim)]
        return [Name(*each, block) for each in zip(called, features[1], strict=True)]


def ranked(names: Sequence[Name], sizes: Array) -> list[dict[str, Any]]:
    """Return the features whose contributions have the largest sizes, at most `MOST`, as rows of a table."""
    order = [place for place in np.argsort(-sizes, kind="stable").tolist() if sizes[place] > LEAST]
    return [{**names[place]._asdict(), "contribution": float(sizes[place])} for place in order[:MOST]]


def importances(reasons: HeadReasons, rows: Rows) -> dict[str, Any]:
    """Return what the training tells of features: by `features` and by `columns`, the largest first.

    It is the mean size of what each contributes to the raw scores of at most `SAMPLE` rows by the number of classes;
    of a column, the sum over its features. Of the features, the first `MOST` are told. What has no name is of the
    column `OTHER`.
    """
    n, classes = len(rows.data), max(len(reasons.head.target.classes), 1)
    some = np.arange(0, n, -(-n // max(SAMPLE // classes, FEWEST)))
    total, names = np.zeros(1), list[Name]()
    for _, found in reasons.of(replace(rows, data=rows.data[some], cutoffs=None)):
        names = [*found.names, Name(OTHER, OTHER, "")]
        total = total + np.abs(np.append(found.values, found.rest[:, None], 1)).mean(2).sum(0)
    columns, sizes = dict[str, float](), total / len(some)
    for name, size in zip(names, sizes.tolist(), strict=True):
        columns[name.source] = columns.get(name.source, 0.0) + size
    told = sorted(((name, size) for name, size in columns.items() if size > LEAST), key=lambda each: -each[1])
    return {"features": ranked(names, sizes), "columns": dict(told)}
