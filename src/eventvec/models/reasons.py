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
from eventvec.blocks.named_terms import Terms, terms_of
from eventvec.blocks.rows import Block, Features, Rows
from eventvec.learners.contributions import centred, contributions
from eventvec.learners.fitted import Linear
from eventvec.models.head import Head
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


def reasons(head: Head, blocks: Mapping[str, Block], rows: Rows) -> Iterator[tuple[slice, Reasons]]:
    """Yield the reasons of parts of rows, each after its place.

    Args:
        head: The head.
        blocks: The blocks of the model.
        rows: The rows.
    """
    read = {name: head.blocks[name] if name in head.blocks else blocks[name] for name in head.used}
    features = features_of(read, rows)
    x, _ = matrices(features, {name: head.sets[name] for name, _ in head.stack.models})
    terms = {name: found for name, block in read.items() if (found := terms_of(block, rows)) is not None}
    names, places = _names(read, features, terms)
    given = _given(features, terms, places, len(names))
    outputs = len(head.target.classes) if head.target.task == "multiclass" else 1
    size = max(NUMBERS // (max(len(names), sum(each.shape[1] for each in x.values()), 1) * outputs), 1)
    for start in range(0, len(rows.data), size):
        part = slice(start, start + size)
        parts = contributions(head.stack, {name: values[part] for name, values in x.items()})
        values = np.zeros((len(parts.rest), len(names), outputs))
        baseline, rest = parts.baseline, parts.rest
        for cell, of_cell in parts.features.items():
            ends = np.cumsum([0, *(read[name].dim for name in head.sets[cell[0]])])
            for name, *ends_of_block in zip(head.sets[cell[0]], ends, ends[1:], strict=False):
                columns = slice(*ends_of_block)
                of_block, model = of_cell[:, columns], head.stack.models[cell]
                if name not in places:
                    rest = rest + of_block.sum(1)
                elif name not in terms:
                    values[:, places[name]] += of_block
                elif isinstance(model, Linear):
                    slopes = head.stack.weights[cell] * model.weights[columns] / model.scale[columns, None]
                    slopes = centred(head.target.task, slopes)
                    of_terms, constant = terms[name].linear(part, slopes), -model.mean[columns] @ slopes
                    values[:, places[name]] += of_terms
                    baseline = baseline + constant
                    rest = rest + of_block.sum(1) - of_terms.sum(1) - constant  # of components that are cut off
                else:
                    values[:, places[name]] += np.einsum("njk,jm->nmk", of_block, terms[name].shares)
        yield part, Reasons(names, given[part], values, rest, baseline)


def importances(head: Head, blocks: Mapping[str, Block], rows: Rows) -> dict[str, Any]:
    """Return what the training tells of features: by `features` and by `columns`, the largest first.

    It is the mean size of what each contributes to the raw scores of at most `SAMPLE` rows, fewer for several classes;
    of a column, the sum over its features. Of the features, the first `MOST` are told. What has no name is of the
    column `OTHER`.
    """
    n, outputs = len(rows.data), len(head.target.classes) if head.target.task == "multiclass" else 1
    some = np.arange(0, n, -(-n // max(SAMPLE // outputs, FEWEST)))
    total, rest, names = np.zeros(0), 0.0, list[Name]()
    for _, found in reasons(head, blocks, replace(rows, data=rows.data[some], cutoffs=None)):
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


def _names(
    read: Mapping[str, Block], features: Mapping[str, Features], terms: Mapping[str, Terms]
) -> tuple[list[Name], dict[str, Array]]:
    """Return the names of all features, and the places of those of each block that has names."""
    names, places = list[Name](), dict[str, Array]()
    for name, block in read.items():
        if getattr(block, "is_network", False):
            continue
        if name in terms:
            found = [Name(*each, name) for each in terms[name].names]
        else:
            called = block.names or [f"{name}_{place}" for place in range(block.dim)]
            found = [Name(*each, name) for each in zip(called, features[name][1], strict=True)]
        places[name] = len(names) + np.arange(len(found))
        names += found
    return names, places


def _given(
    features: Mapping[str, Features], terms: Mapping[str, Terms], places: Mapping[str, Array], count: int
) -> Array:
    """Return `(n, count)` the features as their blocks compute them."""
    n = len(next(iter(features.values()))[0]) if features else 0
    given = np.full((n, count), np.nan, np.float32)
    for name, at in places.items():
        given[:, at] = terms[name].given if name in terms else features[name][0]
    return given
