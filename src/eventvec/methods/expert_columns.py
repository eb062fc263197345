"""Expert features of each row, the columns by which `ExpCLR` and `ExpertTriplets` compare rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, cast

import torch
from torch import Tensor

from eventvec.dataset import static_values
from eventvec.errors import ConfigError, DataError
from eventvec.methods.label_losses import static_column
from eventvec.schema import FIRST, Categorical, Numeric, Schema, Vector
from eventvec.sequences import Sequences

Feature: TypeAlias = Categorical | Numeric | Vector
MOST_NAMES = 6
"""How many features a message names."""


def feature_fields(schema: Schema, features: Sequence[str]) -> list[Feature]:
    """Return the schema's fields of expert features, which are numeric, vector or categorical static columns."""
    if not features:
        raise ConfigError("features must name at least one static column, got none")
    fields = [static_column(schema, "each of features", name, Numeric, Vector, Categorical) for name in features]
    for field in fields:
        if isinstance(field, Categorical) and not feature_columns(field):
            raise ConfigError(f"feature {field.name!r} has no values in the schema: all are missing")
    return fields


def expert_features(x: Sequences, fields: Sequence[Feature]) -> Tensor:
    """Return `(n, d)` standardised features of each row, NaN where missing.

    A category has a column for each value: 1/√2 for that of the row, and 0 otherwise. Two different ones are then at
    distance 1.
    """
    return torch.column_stack([_columns(x, field) for field in fields])


def feature_entries(fields: Sequence[Feature]) -> Tensor:
    """Return `(d,)` float64, as how many features each column of `expert_features` counts: those of a category are one.

    Example:
        >>> feature_entries([Numeric("speed"), Categorical("kind", ("car", "bus"))]).tolist()
        [1.0, 0.5, 0.5]
    """
    sizes = [len(feature_columns(field)) for field in fields]
    shares = [
        [1 / size if isinstance(field, Categorical) else 1.0] * size for field, size in zip(fields, sizes, strict=True)
    ]
    return torch.tensor([share for of_field in shares for share in of_field], dtype=torch.float64)


def has_feature(x: Sequences, fields: Sequence[Feature]) -> Tensor:
    """Return `(n,)` bool: rows with at least one feature that is not missing."""
    return torch.stack([_values(x, field).isfinite().any(1) for field in fields]).any(0)


def check_differences(x: Sequences, fields: Sequence[Feature]) -> None:
    """Refuse rows to train on if no feature has two values in them, so all rows would be alike."""
    if not len(x) or not any(_differs(_values(x, field)) for field in fields):
        names = [field.name for field in fields]
        shown = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
        raise DataError(
            f"no feature has two different values in the {len(x):,} rows to train on ({shown}); at least one "
            "feature must differ, or no row would be nearer to another"
        )


def _differs(values: Tensor) -> bool:
    """Return whether a column of `(n, k)` values has two that differ."""
    low, high = values.nan_to_num(torch.inf), values.nan_to_num(-torch.inf)
    return bool((low.amin(0) < high.amax(0)).any())


def feature_columns(field: Feature) -> list[str]:
    """Return the name of each column of a feature in `expert_features`.

    Example:
        >>> feature_columns(Categorical("kind", ("car", "bus")))
        ['kind = car', 'kind = bus']
    """
    if isinstance(field, Numeric):
        return [field.name]
    if isinstance(field, Vector):
        return [f"{field.name}[{i}]" for i in range(field.size)]
    return [f"{field.name} = {value}" for value in field.values]


def _values(x: Sequences, field: Feature) -> Tensor:
    """Return `(n, k)` standardised numbers of a feature, or its `(n, 1)` codes; NaN where missing or unknown."""
    values = cast(Tensor, static_values(x, field.name))
    if isinstance(field, Categorical):
        return values.float().masked_fill(values < FIRST, torch.nan)[:, None]
    scaled = field.scale(values)
    return scaled if isinstance(field, Vector) else scaled[:, None]


def _columns(x: Sequences, field: Feature) -> Tensor:
    """Return `(n, k)` the columns of a feature in `expert_features`."""
    values = _values(x, field)
    if not isinstance(field, Categorical):
        return values
    codes = torch.arange(FIRST, field.size, device=values.device)
    return (values == codes).float().mul(math.sqrt(0.5)).masked_fill(values.isnan(), torch.nan)
