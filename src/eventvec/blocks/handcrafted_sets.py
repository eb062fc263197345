"""Sets of hand-crafted features that are bounded in number, and the column of the events that each feature is of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.embedding import encode, with_moment
from eventvec.encoders.aggregates import Aggregates
from eventvec.encoders.handcrafted import Handcrafted
from eventvec.encoders.running import RunningHandcrafted
from eventvec.errors import shown
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.tables.times import Instant

MOST = 1000
"""The largest number of hand-crafted features that an evaluation computes, if the number of columns allows it."""
SIZES = (
    (200, 50), (100, 50), (100, 20), (50, 20), (50, 10), (20, 10), (20, 5), (10, 5), (10, 2), (10, 0), (5, 0), (2, 0),
    (1, 0), (0, 0),
)  # fmt: skip
"""The numbers of values of a categorical column with counts, and among them with statistics of the numbers within; the
first pair is taken that allows it."""
Sized = TypeVar("Sized", bound=Aggregates | Handcrafted | RunningHandcrafted)
"""The encoders whose number of features follows from these numbers; `Aggregates` has no statistics within values."""


def handcrafted_features(
    data: Dataset, moment: Instant | Tensor | Array | None = None
) -> tuple[Array, tuple[str, ...]]:
    """Return at most `MOST` hand-crafted features of each entity, `(n, dim)`, and their names; see `Handcrafted`."""
    encoder, _ = bounded(Handcrafted, data.schema)
    return encode(encoder, with_moment(data, moment).sequences).numpy(), encoder.names


def bounded(kind: type[Sized], schema: Schema) -> tuple[Sized, str]:
    """Return an encoder of at most `MOST` features, if the schema allows it, and a note if values were left out.

    Of each categorical column, the most frequent values have features; no label says which.
    """
    encoders = (_sized(kind, schema, *sizes) for sizes in SIZES)
    whole = encoder = next(encoders)
    while encoder.dim > MOST and (smaller := next(encoders, None)) is not None:
        encoder = smaller
    if encoder is whole:
        return encoder, ""
    inner = "" if isinstance(encoder, Aggregates) else f", and those of numbers within values of {encoder.within}"
    name = "Aggregates" if kind is Aggregates else "Hand-crafted features"
    return encoder, (
        f"{name} are of the {encoder.values} most frequent values of each categorical column{inner}: "
        f"{encoder.dim:,} instead of {whole.dim:,}."
    )


def _sized(kind: type[Sized], schema: Schema, values: int, within: int) -> Sized:
    sizes: dict[str, Any] = {} if kind is Aggregates else {"within": within}
    return kind(schema, values=values, **sizes)


def feature_texts(schema: Schema, encoder: Aggregates | Handcrafted) -> list[str]:
    """Return the name of each feature, with the column of the events that it is of, see `feature_columns`."""
    columns = feature_columns(schema, encoder.names)
    return [
        f"{shown(name)} of the column {shown(column)}" if column else shown(name)
        for name, column in zip(encoder.names, columns, strict=True)
    ]


def feature_columns(schema: Schema, names: Iterable[str]) -> list[str]:
    """Return the column of the events that each feature is of, and an empty text for a feature of none.

    The column is the longest one with which the name begins; features of several columns begin with the first.
    """
    fields = [column.name for kind in (schema.numeric, schema.categorical, schema.bags) for column in kind]
    columns = dict(zip(fields, fields, strict=True)) | {"time": schema.time, "gap": schema.time}

    def column(name: str) -> str:
        beginnings = (name[: end.start()] for end in re.finditer(": |=| where ", name))
        known = [each for each in beginnings if each in columns]  # from the shortest to the longest
        return columns[known[-1]] if known else ""

    return [column(name) for name in names]
