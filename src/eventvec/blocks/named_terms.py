"""What components are sums of: the terms of codes, and the columns that convolutions respond to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from eventvec.blocks.handcrafted_sets import feature_columns
from eventvec.blocks.rows import STATE, Block
from eventvec.blocks.untrained import EventBlock
from eventvec.embedding import encode, read_states
from eventvec.encoders.code_terms import Term
from eventvec.encoders.codes import Codes
from eventvec.encoders.compressed import Compressed
from eventvec.encoders.convolutions import Convolutions
from eventvec.schema import Schema
from eventvec.sequences import Array, Sequences

PART = 4096
"""The number of rows whose terms are weighed at once."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms, of which the components of a block are weighted sums, and what these are of.

    Args:
        block: The block.
        names: `m` names, each with the column that it is of.
        loadings: `(t, d)` how much of each term is in each component.
        parts: `(t, m)` the share of each term that is of each name; None if each term has a name.
        codes: The terms of codes, none of other blocks.
    """

    block: EventBlock
    names: list[tuple[str, str]]
    loadings: Array
    parts: Array | None = None
    codes: Sequence[Term] = ()

    def of(self, x: Sequences) -> tuple[Array, Array]:
        """Return `(n, t)` the terms of rows, and `(n, m)` the number that is told of each name.

        This is the count of a code, the named feature, or how many events are read for the patterns of a column.
        """
        encoder, state = self.block.encoder, x.static.get(STATE + self.block.kind)
        if isinstance(encoder, Codes):
            with torch.inference_mode():
                counts = (state if isinstance(state, Tensor) else encoder.state(x)).cpu()
                weights = torch.cat([encoder.weights(part) for part in counts.split(PART)])
            n = len(self.names)  # the other numbers of a state are no terms
            return weights.numpy()[:, :n], counts.numpy()[:, :n]
        assert isinstance(encoder, Compressed)
        inner = encoder.encoder
        features = read_states(inner, x, state) if isinstance(state, Tensor) else encode(inner, x)
        terms: Array = encoder.standardised(features).numpy()
        if not isinstance(inner, Convolutions):
            return terms, features.numpy()
        events = x.lengths.cpu().clamp(max=inner.window).numpy()
        return terms, np.broadcast_to(events[:, None], (len(x), len(self.names)))

    def linear(self, terms: Array, slopes: Array) -> Array:
        """Return `(n, m, k)` what names contribute to sums of components with slopes `(d, k)`.

        Args:
            terms: `(n, t)` the terms of rows.
            slopes: The slope of each component in each sum.
        """
        of_terms = (self.loadings @ slopes).T
        values = [terms * each if self.parts is None else (terms * each) @ self.parts for each in of_terms]
        return np.stack(values, 2)

    @cached_property
    def shares(self) -> Array:
        """`(d, m)` the share of each component that is of each name, by squared loadings; 0 for an empty component."""
        squares = self.loadings.T**2 if self.parts is None else self.loadings.T**2 @ self.parts
        return np.asarray(squares / np.maximum(squares.sum(1, keepdims=True), np.finfo(np.float64).tiny))


def terms_of(block: Block, schema: Schema) -> Terms | None:
    """Return the terms that the features of a block are sums of; None for a block whose features have names."""
    if not isinstance(block, EventBlock) or block.names:
        return None
    encoder = block.encoder
    if isinstance(encoder, Codes):
        terms = encoder.kept_terms()
        names = [(term.name, term.column) for term in terms]
        return Terms(block, names, encoder.directions.cpu().double().numpy()[: len(names)], codes=terms)
    if not isinstance(encoder, Compressed):
        return None
    width = len(encoder.mean)
    loadings = np.eye(width) if encoder.projection is None else encoder.projection.cpu().double().numpy()
    if isinstance(encoder.encoder, Convolutions):
        shares, columns = encoder.encoder.column_shares()
        return Terms(block, [(f"pattern of {each}", each) for each in columns], loadings, shares.double().numpy())
    called = list(getattr(encoder.encoder, "names", ())) or [f"{block.kind}_{place}" for place in range(width)]
    return Terms(block, [*zip(called, feature_columns(schema, called), strict=True)], loadings)
