"""Static columns of the data as a block of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from eventvec.blocks.rows import Features, Rows, filled
from eventvec.dataset import Dataset
from eventvec.describing.other_words import static_names
from eventvec.errors import DataError, shown
from eventvec.schema import FIRST, Categorical, Numeric, Schema, Vector
from eventvec.sequences import Array

STATIC = "static"
"""The name of the block."""
KINDS = Numeric | Categorical | Vector
"""The kinds of static columns that are read."""
VALUES = 20
"""How many values of a static column of categories have a feature."""


@dataclass(frozen=True, eq=False)
class StaticValues:
    """Static columns of the data.

    Numbers and vectors have their mean where they are missing, and an indicator of that. Categories have a feature for
    each of their most frequent values, and for missing and unknown ones.

    Args:
        fields: The columns, coded as in training.
    """

    fields: tuple[Numeric | Categorical | Vector, ...]

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str]) -> StaticValues:
        """Return the block of some static columns of a schema, in the order of the names.

        Raises:
            ValueError: If a column is absent, or holds no numbers, categories or vectors.
        """
        fields = {each.name: each for each in schema.static if isinstance(each, KINDS)}
        if absent := next((name for name in names if name not in fields), None):
            raise ValueError(f"there is no static column {absent!r} of a kind that is read")
        return cls(tuple(fields[name] for name in names))

    @property
    def dim(self) -> int:
        """The number of features."""
        return sum(
            min(each.size, FIRST + VALUES) if isinstance(each, Categorical) else 2 * len(np.atleast_1d(each.mean))
            for each in self.fields
        )

    @property
    def names(self) -> list[str]:
        """The name of each feature, see `describing.feature_words`."""
        return [name for each in self.fields for name in static_names(each, VALUES)]

    def features(self, rows: Rows) -> Features:
        """Return the features, as `Block` has them."""
        parts, columns = list[Array](), list[str]()
        for each in self.fields:
            part = self._column(rows.data, each)
            parts.append(part)
            columns += [each.name] * part.shape[1]
        return np.concatenate(parts, 1), columns

    def _column(self, data: Dataset, each: Numeric | Categorical | Vector) -> Array:
        values = data.sequences.static.get(each.name)
        if not isinstance(values, Tensor):
            raise DataError(
                f"the model reads the static column {shown(each.name)}, which the data lack; give a table with it: "
                "static= (--static)"
            )
        if data.schema.static_field(each.name) != each:
            raise DataError(
                f"the static column {shown(each.name)} was coded by another schema than the model's; give its "
                "table as static=, together with the events"
            )
        held = values.cpu().numpy()
        if isinstance(each, Categorical):
            return np.asarray(held[:, None] == np.arange(min(each.size, FIRST + VALUES)), np.float64)
        return filled(held.reshape(len(held), -1).astype(np.float64), np.atleast_1d(each.mean))


def of_static(schema: Schema, names: Sequence[str]) -> StaticValues | None:
    """Return the block of static columns that hold numbers, categories or vectors; None if there are none."""
    known = [each.name for each in schema.static if each.name in names and isinstance(each, KINDS)]
    return StaticValues.of(schema, known) if known else None
