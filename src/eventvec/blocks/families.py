"""The families of features from which a predictor predicts.

To add a family that is computed from events alone, add a line to `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from torch import Tensor

from eventvec.blocks.caller_features import caller_features
from eventvec.blocks.earlier_labels import delayed_labels
from eventvec.blocks.handcrafted_sets import bounded, feature_columns
from eventvec.dataset import Dataset
from eventvec.embedding import encode
from eventvec.encoders import Aggregates, Codes, Compressed, Convolutions, Encoder, Handcrafted
from eventvec.encoders.beside import convolutions
from eventvec.encoders.handcrafted import MOMENT
from eventvec.errors import ConfigError, DataError, shown
from eventvec.learners.task import Target
from eventvec.schema import FIRST, Categorical, Numeric, Schema, Vector
from eventvec.sequences import Array
from eventvec.tables.label_times import TimedLabels
from eventvec.tables.sources import Tabular
from eventvec.tables.times import Duration

FAMILIES: dict[str, Callable[[Schema], Any]] = {
    "handcrafted": lambda schema: bounded(Handcrafted, schema)[0],
    "aggregates": lambda schema: bounded(Aggregates, schema)[0],
    "codes": Codes,
    "convolutions": convolutions,
    "responses": lambda schema: Compressed(Convolutions(schema), components=None),
}
"""Encoders without training by name. One with a method `fit` is fitted to the rows; its tensors are saved with the
predictor."""
STATIC, EARLIER, VECTOR, NETWORK = "static", "earlier_labels", "vector", "network"
LARGEST = 1e30
"""The largest feature by its size."""
FITTED = 10_000
"""The largest number of rows to which the components of convolutions are fitted."""
VALUES = 20
"""How many values of a static column of categories have a feature."""


@dataclass(frozen=True, eq=False)
class Rows:
    """What families read.

    Args:
        data: The histories, with the static value `MOMENT`.
        labels: The labels that are known, for the features of earlier ones.
        features: Tables of the caller's features by name.
        key: The name of the key in the caller's tables, if it is another.
        cutoffs: `n` the times of the rows as the table of cutoffs has them; None without such a table.
    """

    data: Dataset
    labels: TimedLabels | None = None
    features: Mapping[str, Tabular] = field(default_factory=dict)
    key: str | None = None
    cutoffs: pa.Array | None = None

    @property
    def moments(self) -> Array:
        """`(n,)` the moment of prediction of each row."""
        moments = self.data.sequences.static[MOMENT]
        assert isinstance(moments, Tensor)
        return moments.cpu().numpy()


Block: TypeAlias = tuple[Array, Sequence[str]]
"""`(n, d)` finite features, and the column that each is of, an empty text where it is of none."""


class Family(Protocol):
    """Features of one kind."""

    def features(self, rows: Rows) -> Block:
        """Return the features of rows."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """The vectors of an encoder."""

    encoder: Encoder

    def features(self, rows: Rows) -> Block:
        """Return the vectors, as `Family` has them."""
        values = encode(self.encoder, rows.data.sequences).numpy()
        names = getattr(self.encoder, "names", ()) or [""] * values.shape[1]
        return values, feature_columns(rows.data.schema, names)


@dataclass(frozen=True, eq=False)
class StaticValues:
    """Static columns of the data.

    Numbers and vectors have their mean where they are missing, and an indicator of that. Categories have a feature for
    each of their most frequent values, and for missing and unknown ones.

    Args:
        fields: The columns, coded as in training.
    """

    fields: tuple[Numeric | Categorical | Vector, ...]

    def features(self, rows: Rows) -> Block:
        """Return the features, as `Family` has them."""
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
                f"the predictor reads the static column {shown(each.name)}, which the data lack; give a table with it: "
                "static= (--static)"
            )
        if data.schema.static_field(each.name) != each:
            raise DataError(
                f"the static column {shown(each.name)} was coded by another schema than the predictor's; give its "
                "table as static=, together with the events"
            )
        held = values.cpu().numpy()
        if isinstance(each, Categorical):
            return np.asarray(held[:, None] == np.arange(min(each.size, FIRST + VALUES)), np.float64)
        return filled(held.reshape(len(held), -1).astype(np.float64), np.atleast_1d(each.mean))


@dataclass(frozen=True, eq=False)
class EarlierLabels:
    """The entity's own earlier labels, those of a table that were known by the moment of prediction.

    Args:
        key: The name of the key in the table of labels.
        target: The label with its classes; its values are not read.
        delay: The length of time after which a label is known.
        inclusive: Whether what becomes known at the very moment is read.
    """

    key: str
    target: Target
    delay: Duration
    inclusive: bool

    def features(self, rows: Rows) -> Block:
        """Return the features, as `Family` has them."""
        if rows.labels is None:
            raise DataError(
                f"the predictor reads earlier labels; give the table of {shown(self.target.name)} as known so far: "
                "labels= (--labels)"
            )
        values, _, _ = delayed_labels(
            rows.data, rows.moments, rows.labels, self.key, [self.target], self.delay, self.inclusive
        )
        return values, [""] * values.shape[1]


@dataclass(frozen=True, eq=False)
class CallerFeatures:
    """Features from a table of the caller; where they are missing, they have the mean of training, and an indicator.

    Args:
        name: The name of the table.
        columns: Its columns besides key and time, in order.
        means: The mean of each in training, 0 where there was none.
        time: The name of the column of moments, if the table may have one.
    """

    name: str
    columns: tuple[str, ...]
    means: tuple[float, ...]
    time: str | None

    @staticmethod
    def of(name: str, rows: Rows, time: str | None) -> CallerFeatures:
        """Return the family of a table, with the means over the rows."""
        values, columns = _of_caller(name, rows, time)
        present = ~np.isnan(values)
        means = np.where(present, values, 0).sum(0) / np.maximum(present.sum(0), 1)
        return CallerFeatures(name, tuple(columns), tuple(means.tolist()), time)

    def features(self, rows: Rows) -> Block:
        """Return the features, as `Family` has them."""
        if self.name not in rows.features:
            raise DataError(
                f"the predictor reads the table of features {shown(self.name)}; give it: "
                f"features={{{self.name!r}: table}}"
            )
        values, columns = _of_caller(self.name, rows, self.time)
        if tuple(columns) != self.columns:
            raise DataError(
                f"the table of features {shown(self.name)} has other columns than in training; it needs "
                f"{', '.join(map(shown, self.columns))}, in this order"
            )
        return filled(values, np.array(self.means)), columns * 2


def _of_caller(name: str, rows: Rows, time: str | None) -> tuple[Array, list[str]]:
    """Return `(n, d)` numbers of a caller's table, NaN where missing, and the column of each."""
    moments = None if time is None else pl.Series(time, rows.moments)
    values, columns = caller_features(name, rows.features[name], rows.data, rows.key, moments)
    if (infinite := np.isinf(values)).any():
        raise DataError(
            f"the table of features {shown(name)} has {int(infinite.sum()):,} infinite numbers; accepted: finite or "
            "missing ones"
        )
    return values, columns


def filled(values: Array, means: Array) -> Array:
    """Return `(n, 2 d)` numbers minus their means, 0 where they are missing, and then whether they are missing.

    Without its mean, a time of today's epoch keeps its seconds in float32.

    Example:
        >>> filled(np.array([[1.0], [np.nan]]), np.array([5.0])).tolist()
        [[-4.0, 0.0], [0.0, 1.0]]
    """
    missing = np.isnan(values)
    return np.concatenate([np.where(missing, 0, values - means), missing], 1)


def of_static(schema: Schema, names: Sequence[str]) -> StaticValues | None:
    """Return the family of static columns that hold numbers, categories or vectors; None if there are none."""
    kinds = Numeric | Categorical | Vector
    fields = tuple(each for each in schema.static if each.name in names and isinstance(each, kinds))
    return StaticValues(fields) if fields else None


def names_for(schema: Schema) -> list[str]:
    """Return the names of the families of `FAMILIES` that data have.

    Aggregates are of columns of lists, which hand-crafted features do not read; codes need such a column or one of
    codes. All responses of the convolutions, beside their components, pay where there is none.
    """
    coded = bool(schema.categorical or schema.bags)
    needed = {"aggregates": bool(schema.bags), "codes": coded, "responses": not coded}
    return [name for name in FAMILIES if needed.get(name, True)]


def of_events(name: str, rows: Rows) -> Encoded:
    """Return a family of `FAMILIES`, fitted to rows; components to at most `FITTED` of them, at even distances."""
    encoder, x = FAMILIES[name](rows.data.schema), rows.data.sequences
    if isinstance(encoder, Compressed):
        x = x[torch.arange(0, len(x), -(-len(x) // FITTED))]
    if hasattr(encoder, "fit"):
        encoder.fit(x)
    return Encoded(encoder.eval())


def check_name(name: str) -> None:
    """Refuse a name of a caller's table that a family has."""
    if name in (*FAMILIES, STATIC, EARLIER, VECTOR, NETWORK) or not name:
        raise ConfigError(f"a table of features may not be called {shown(name)}; rename it: features={{'mine': table}}")


def matrix(blocks: Mapping[str, Block], names: Sequence[str]) -> tuple[Array, list[str]]:
    """Return `(n, d)` float32 the features of several families side by side, and the column that each is of."""
    columns = [column for name in names for column in blocks[name][1]]
    x, begin = np.empty((len(blocks[names[0]][0]), len(columns)), np.float32), 0
    for name in names:
        values = blocks[name][0]
        np.clip(values, -LARGEST, LARGEST, out=x[:, begin : begin + values.shape[1]], casting="same_kind")
        begin += values.shape[1]
    return x, columns


def matrices(
    blocks: Mapping[str, Block], sets: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Array], dict[str, list[str]]]:
    """Return what `matrix` does for each set; one whose families stand side by side in the widest is a part of it."""
    of_widest = max(sets.values(), key=len)
    whole = matrix(blocks, of_widest)
    ends = np.cumsum([0, *(blocks[family][0].shape[1] for family in of_widest)])
    x, columns = dict[str, Array](), dict[str, list[str]]()
    for name, families in sets.items():
        first = of_widest.index(families[0]) if families[0] in of_widest else 0
        if of_widest[first : first + len(families)] == families:
            part = slice(ends[first], ends[first + len(families)])
            x[name], columns[name] = whole[0][:, part], whole[1][part]
        else:
            x[name], columns[name] = matrix(blocks, families)
    return x, columns


def empty_target(target: Target) -> Target:
    """Return a label with its task and classes, and without values."""
    return target.part(np.zeros(0, int))


def tensors_of(families: Mapping[str, Family]) -> dict[str, Tensor]:
    """Return the tensors of encoders in `FAMILIES`, by the name of the family and their own."""
    encoders = {name: each.encoder for name, each in families.items() if name in FAMILIES and isinstance(each, Encoded)}
    states = {name: cast(torch.nn.Module, encoder).state_dict() for name, encoder in encoders.items()}
    return {f"family.{name}.{key}": value for name, state in states.items() for key, value in state.items()}
