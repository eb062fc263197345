"""The columns of predictions of labels, from what heads and networks return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from torch import Tensor

from eventvec.errors import ConfigError
from eventvec.methods.label_losses import outputs_of
from eventvec.models.model import Model
from eventvec.schema import Categorical, Numeric
from eventvec.sequences import Array

ENDS = ("low", "high")
"""The columns of the ends of intervals."""


def predicted_columns(class_names: Sequence[str], values: Array) -> dict[str, pa.Array]:
    """Return the columns of predictions: of numbers, or of `(n, classes)` probabilities of classes.

    Numbers are `(n,)`, or `(n, 3)` with the ends of their intervals.
    """
    if not class_names:
        names = ("prediction",) if values.ndim == 1 else ("prediction", *ENDS)
        numbers = [values] if values.ndim == 1 else list(values.T)
        return {name: pa.array(column) for name, column in zip(names, numbers, strict=True)}
    likeliest = pa.array(class_names, pa.string()).take(pa.array(values.argmax(1)))
    columns = zip(class_names, values.T, strict=True)
    return {"prediction": likeliest, **{f"p_{name}": pa.array(column) for name, column in columns}}


def prefixed(
    label: str, predicted: Mapping[str, pa.Array], several: bool, taken: Mapping[str, Any]
) -> dict[str, pa.Array]:
    """Return columns with the name of their label before them, if the model predicts several."""
    named = {f"{label}_{name}" if several else name: column for name, column in predicted.items()}
    if twice := named.keys() & taken:
        raise ConfigError(f"two labels have predictions of the name {min(twice)!r}; rename a label and train again")
    return named


def label_columns(model: Model, outputs: Tensor) -> dict[str, pa.Array]:
    """Return the columns of the predictions of labels, from `(n, k)` what the predictor of a method returns."""
    several = len(model.declared.label_fields) + len(model.heads) > 1
    columns: dict[str, pa.Array] = {}
    for target, values in zip(model.declared.label_fields, network_values(model, outputs), strict=True):
        columns |= prefixed(target.name, predicted_columns(class_names(target), values), several, columns)
    return columns


def network_values(model: Model, outputs: Tensor) -> list[Array]:
    """Return what a network predicts of each label: `(n,)` numbers, or `(n, classes)` probabilities."""
    targets, results = model.declared.label_fields, list[Array]()
    for target, output in zip(targets, outputs.split([outputs_of(each) for each in targets], 1), strict=True):
        output = output / model.info.get("temperatures", {}).get(target.name, 1.0)
        results.append((output.squeeze(1) if isinstance(target, Numeric) else output.softmax(1)).numpy())
    return results


def class_names(target: Categorical | Numeric) -> list[str]:
    """Return the classes of a label; none for a number."""
    return list(target.values) if isinstance(target, Categorical) else []
