"""What `Supervised` learns: the fields of its labels, their losses, and the weights of classes and rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.dataset import static_values
from eventvec.errors import ConfigError, DataError, nearest
from eventvec.schema import FIRST, Categorical, Numeric, Schema
from eventvec.sequences import Sequences

Label: TypeAlias = Categorical | Numeric
ClassWeights: TypeAlias = str | Mapping[str, float] | Sequence[float]
BALANCED = "balanced"


def label_names(label: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns to learn."""
    names = (label,) if isinstance(label, str) else column_names("label", label)
    if not names:
        raise ConfigError("label must name at least one static column, got none")
    return names


def column_names(option: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns that an option lists."""
    if isinstance(names, str) or not isinstance(names, Sequence) or any(not isinstance(name, str) for name in names):
        raise ConfigError(f"{option} must be a list of names of columns, got {names!r}")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{option} names {twice!r} twice; name each column once")
    return tuple(names)


def static_column(schema: Schema, option: str, name: str, *kinds: type) -> Any:
    """Return the schema's field of a static column that an option names, which is of one of some kinds."""
    field = schema.static_field(name)
    if not isinstance(field, kinds):
        words = [kind.__name__.lower() for kind in kinds]
        raise ConfigError(
            f"{option} must be a {' or '.join(words)} column, got {name!r}, which is {type(field).__name__.lower()}; "
            f'read it with static_columns = {{{name} = "{words[0]}"}}'
        )
    return field


def label_field(schema: Schema, label: str) -> Label:
    """Return the schema's field of a static column that is to be learned."""
    target: Label = static_column(schema, "label", label, Categorical, Numeric)
    if isinstance(target, Categorical) and len(target.values) < 2:
        raise ConfigError(f"label {label!r} must have at least 2 classes in the schema, got {len(target.values)}")
    return target


def outputs_of(target: Label) -> int:
    """Return the number of outputs that a network needs for a label: one for each class, or one for a number."""
    return 1 if isinstance(target, Numeric) else len(target.values)


def has_label(x: Sequences, target: Label) -> Tensor:
    """Return `(n,)` bool: rows whose label is not missing and, if it is a class, is in the schema."""
    label = cast(Tensor, static_values(x, target.name))
    return label >= FIRST if isinstance(target, Categorical) else ~label.isnan()


def labelled(x: Sequences, target: Label) -> Tensor:
    """Return `(n,)` bool: rows with a label."""
    known = has_label(x, target)
    values = cast(Tensor, static_values(x, target.name))[known]
    if len(values) > 1 and bool((values == values[0]).all()):
        raise DataError(
            f"static column {target.name!r} has a single value in all {len(values):,} rows with a label; "
            "at least 2 different values are needed to learn from them"
        )
    return known


def row_losses(target: Label, outputs: Tensor, x: Sequences) -> Tensor:
    """Return `(n,)` the cross-entropy of each row's class, or the squared error of its standardised number.

    `outputs` are `(n, outputs_of(target))` logits or standardised numbers. Rows without a label have a loss that means
    nothing.
    """
    label = cast(Tensor, static_values(x, target.name))
    if isinstance(target, Categorical):
        return F.cross_entropy(outputs, label.long().clamp(min=FIRST) - FIRST, reduction="none")
    return (outputs.squeeze(1) - target.scale(label).nan_to_num(0.0)).square()


def row_weights(x: Sequences, column: str | None) -> Tensor:
    """Return `(n,)` float32, the weight of each row; 1 without a column of weights."""
    if column is None:
        return torch.ones(len(x), device=x.device)
    return cast(Tensor, static_values(x, column)).float()


def check_row_weights(x: Sequences, column: str | None, rows: Tensor) -> None:
    """Refuse weights of `rows` `(n,)` bool that are missing, infinite or not above 0."""
    values = row_weights(x, column)
    wrong = rows & ~(values.isfinite() & (values > 0))
    if bool(wrong.any()):
        raise DataError(
            f"static column {column!r} has weights, which must be finite and above 0, but {int(wrong.sum()):,} of "
            f"{int(rows.sum()):,} are not (first at row {int(wrong.nonzero()[0])}); leave entities without weight out"
        )


def given_class_weights(targets: Sequence[Label], weights: ClassWeights) -> dict[str, Tensor]:
    """Return the weight of each class of each label, in the order of the schema; 1 where they are to be balanced.

    They are `balanced`; or, for one label, given by the names of classes or in the order of the schema. Classes that
    are not named have the weight 1.
    """
    classes = {target.name: target.values for target in targets if isinstance(target, Categorical)}
    if not classes:
        raise ConfigError("class_weights is for labels with classes, but the label is a number; leave it out")
    if isinstance(weights, str):
        if weights != BALANCED:
            raise ConfigError(f"class_weights must be 'balanced' or the weight of each class, got {weights!r}")
        return {name: torch.ones(len(values)) for name, values in classes.items()}
    if len(targets) > 1:
        raise ConfigError("class_weights by class is for one label, but there are several; accepted: 'balanced'")
    name, values = next(iter(classes.items()))
    numbers = list(weights.values() if isinstance(weights, Mapping) else weights)
    if not all(isinstance(number, int | float) for number in numbers):
        raise ConfigError(f"class_weights must be numbers, got {weights!r}")
    if isinstance(weights, Mapping):
        for value in weights:
            if value not in values:
                raise ConfigError(f"class_weights: {name!r} has no class {value!r}; {nearest(str(value), values)}")
        numbers = [weights.get(value, 1.0) for value in values]
    elif len(numbers) != len(values):
        raise ConfigError(
            f"class_weights must have a number for each of the {len(values)} classes of {name!r}, "
            f"{', '.join(values)}, in this order, got {len(numbers)}"
        )
    if wrong := [number for number in numbers if not 0 < number < math.inf]:
        raise ConfigError(f"class_weights must be above 0 and finite, got {float(wrong[0])}")
    return {name: torch.tensor([float(number) for number in numbers])}


def balanced_weights(x: Sequences, target: Categorical, weights: Tensor) -> Tensor:
    """Return `(classes,)` weights w_c = W / (K W_c): the weighted rows of each class then count the same.

    W is the sum of the weights of all rows with a label, W_c of those of class c, and K the number of classes that have
    rows; a class without rows has the weight 1.
    """
    known = has_label(x, target)
    codes = cast(Tensor, static_values(x, target.name)).long()[known] - FIRST
    sums = torch.zeros(len(target.values), device=x.device).index_add(0, codes, weights[known])
    counted = sums > 0
    return torch.where(counted, sums.sum() / (counted.sum() * sums.clamp(min=torch.finfo().tiny)), 1.0)
