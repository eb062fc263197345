"""What blocks of features read, and what each of them gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.embedding import encode, read_states
from eventvec.encoders.handcrafted import MOMENT
from eventvec.encoders.interface import Encoder
from eventvec.sequences import Array, Sequences
from eventvec.tables.label_times import TimedLabels
from eventvec.tables.sources import Tabular

STATE, VALUES = "state of ", "values of "
"""What stands before the name of a block in the static value with its running states, where rows have the latest events
alone; and in that with its features, where these are known."""


@dataclass(frozen=True, eq=False)
class Rows:
    """What blocks read.

    Args:
        data: The histories, with the static value `MOMENT`.
        labels: The labels that are known, for the features of earlier ones, by the name of the label.
        features: Tables of the caller's features by name.
        key: The name of the key in the caller's tables, if it is another.
        cutoffs: `n` the times of the rows as the table of cutoffs has them; None without such a table.
    """

    data: Dataset
    labels: Mapping[str, TimedLabels] = field(default_factory=dict)
    features: Mapping[str, Tabular] = field(default_factory=dict)
    key: str | None = None
    cutoffs: pa.Array | None = None

    @property
    def moments(self) -> Array:
        """`(n,)` the moment of prediction of each row."""
        moments = self.data.sequences.static[MOMENT]
        assert isinstance(moments, Tensor)
        return moments.cpu().numpy()


Features: TypeAlias = tuple[Array, Sequence[str]]
"""`(n, d)` finite features, and the column that each is of, an empty text where it is of none."""


class Block(Protocol):
    """Features of one kind."""

    @property
    def dim(self) -> int:
        """The number of its features."""

    @property
    def names(self) -> Sequence[str]:
        """The names of its features; none if they have no meaning of their own."""

    def features(self, rows: Rows) -> Features:
        """Return the features of rows."""


def vectors_of(encoder: Encoder, x: Sequences, block: str) -> Array:
    """Return `(n, dim)` float32 the vectors of rows by a block's encoder, from histories or from states and events."""
    state, values = x.static.get(STATE + block), x.static.get(VALUES + block)
    if isinstance(values, Tensor):
        return values.numpy()
    vectors: Array = (read_states(encoder, x, state) if isinstance(state, Tensor) else encode(encoder, x)).numpy()
    return vectors


def filled(values: Array, means: Array) -> Array:
    """Return `(n, 2 d)` numbers minus their means, 0 where they are missing, and then whether they are missing.

    Without its mean, a time of today's epoch keeps its seconds in float32.

    Example:
        >>> filled(np.array([[1.0], [np.nan]]), np.array([5.0])).tolist()
        [[-4.0, 0.0], [0.0, 1.0]]
    """
    missing = np.isnan(values)
    return np.concatenate([np.where(missing, 0, values - means), missing], 1)
