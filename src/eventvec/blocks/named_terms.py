"""What components are sums of: the terms of codes, and the columns that convolutions respond to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from eventvec.blocks.handcrafted_sets import feature_columns
from eventvec.blocks.rows import STATE, Block, Rows
from eventvec.blocks.untrained import EventBlock
from eventvec.embedding import encode, read_states
from eventvec.encoders.codes import Codes
from eventvec.encoders.compressed import Compressed
from eventvec.encoders.convolutions import Convolutions
from eventvec.sequences import Array

PATTERN = "pattern of "
"""What stands before a column in the name of what convolutions respond to in it."""
PART = 4096
"""The number of rows whose terms are weighed at once."""


class Terms(NamedTuple):
    """Terms, of which the components of a block are weighted sums, and what these are of.

    Args:
        names: `m` names, each with the column that it is of.
        terms: `(n, t)` the terms of rows.
        loadings: `(t, d)` how much of each term is in each component.
        parts: `(t, m)` the share of each term that is of each name.
        given: `(n, m)` the number that is told of each name, NaN without one.
    """

    names: list[tuple[str, str]]
    terms: Array
    loadings: Array
    parts: Array
    given: Array

    def linear(self, rows: slice, slopes: Array) -> Array:
        """Return `(n, m, k)` what names contribute to sums of components with slopes `(d, k)`, of some rows."""
        of_terms = (self.loadings @ slopes).T
        return np.stack([(self.terms[rows] * each) @ self.parts for each in of_terms], 2)

    @property
    def shares(self) -> Array:
        """`(d, m)` the share of each component that is of each name, by squared loadings; 0 for an empty component."""
        squares = self.loadings.T**2 @ self.parts
        return np.asarray(squares / np.maximum(squares.sum(1, keepdims=True), np.finfo(np.float64).tiny))


def terms_of(block: Block, rows: Rows) -> Terms | None:
    """Return the terms of rows that the features of a block are sums of; None for a block whose features have names."""
    if not isinstance(block, EventBlock) or block.names:
        return None
    if isinstance(block.encoder, Codes):
        return _of_codes(block.encoder, block.kind, rows)
    return _of_compressed(block.encoder, block.kind, rows) if isinstance(block.encoder, Compressed) else None


def _of_codes(encoder: Codes, kind: str, rows: Rows) -> Terms:
    """Return the terms of codes, with their counts; the last codes of a state are no terms."""
    x = rows.data.sequences
    state = x.static.get(STATE + kind)
    with torch.inference_mode():
        state = (state if isinstance(state, Tensor) else encoder.state(x)).cpu()
        weights = torch.cat([encoder.weights(part) for part in state.split(PART)])
    terms = [term for term in encoder.kept_terms() if term is not None]
    names, n = [(term.name, term.column) for term in terms], len(terms)
    loadings, counts = encoder.directions.cpu().double().numpy()[:n], state[:, :n].numpy()
    return Terms(names, weights.numpy()[:, :n], loadings, np.eye(n), counts)


def _of_compressed(encoder: Compressed, kind: str, rows: Rows) -> Terms:
    """Return the standardised features of the encoder inside; responses of convolutions are of columns."""
    inner, x = encoder.encoder, rows.data.sequences
    state = x.static.get(STATE + kind)
    features = read_states(inner, x, state) if isinstance(state, Tensor) else encode(inner, x)
    standardised = encoder.standardised(features).numpy()
    width = standardised.shape[1]
    loadings = np.eye(width) if encoder.projection is None else encoder.projection.cpu().double().numpy()
    given = features.numpy()
    if isinstance(inner, Convolutions):
        shares, columns = inner.column_shares()
        names, parts = [(f"{PATTERN}{column}", column) for column in columns], shares.double().numpy()
        given = np.full((len(given), len(names)), np.nan)
    else:
        called = list(getattr(inner, "names", ())) or [f"{kind}_{place}" for place in range(width)]
        names, parts = [*zip(called, feature_columns(rows.data.schema, called), strict=True)], np.eye(width)
    return Terms(names, standardised, loadings, parts, given)
