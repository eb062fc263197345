"""The graph of what a run predicts from embeddings: the layer on top of the encoder, and calibrated probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eventvec.encoders.static_inputs import StaticInputs
from eventvec.exporting.event_graph import scaled
from eventvec.exporting.graph import Value, concat
from eventvec.exporting.layers import applied
from eventvec.methods import Supervised
from eventvec.methods.label_losses import outputs_of
from eventvec.schema import Categorical, Numeric


def predictions(
    method: Supervised, temperatures: Mapping[str, float], embedding: Value, static: Mapping[str, Value]
) -> dict[str, Value]:
    """Return what `predict` gives for each label: `(rows, classes)` probabilities, or `(rows,)` numbers in its unit.

    Args:
        method: The method, with its layer on top of the encoder.
        temperatures: By which the logits of some labels are divided.
        embedding: `(rows, dim)` of the trained encoder.
        static: `(rows,)` the static columns that the layer reads beside it, by name.
    """
    beside = [] if method.inputs is None else _beside(method.inputs, static)
    outputs = applied(method.head, concat([embedding, *beside], 1))
    results, sizes = dict[str, Value](), [outputs_of(target) for target in method.label_fields]
    for target, output in zip(method.label_fields, outputs.split(sizes, axis=1), strict=True):
        if isinstance(target, Categorical):
            results[target.name] = (output / temperatures.get(target.name, 1.0)).op("Softmax", axis=1)
        else:
            number = output.squeeze(1) * target.std + target.mean
            results[target.name] = number.op("Sign") * number.op("Abs").expm1() if target.log else number
    return results


def static_fields(method: Supervised | None) -> tuple[Categorical | Numeric, ...]:
    """Return the static columns that a method's predictions read beside the events."""
    inputs = method and method.inputs
    return (*inputs.categorical, *inputs.numeric) if inputs else ()


def described_labels(method: Supervised | None) -> list[dict[str, Any]]:
    """Return what the metadata say of each label that a method predicts: its name, its kind, and its classes if any."""
    labels = list[dict[str, Any]]()
    for target in method.label_fields if method else ():
        classes = {"classes": target.values} if isinstance(target, Categorical) else {}
        labels.append({"name": target.name, "kind": "classes" if classes else "number", **classes})
    return labels


def _beside(inputs: StaticInputs, static: Mapping[str, Value]) -> list[Value]:
    """Return `(rows, ...)` the embeddings of codes, and scaled numbers with marks of missing ones."""
    tables = zip(inputs.categorical, inputs.embeddings, strict=True)
    parts = [applied(table, static[field.name]) for field, table in tables]
    for column in inputs.numeric:
        number = scaled([column], static[column.name].unsqueeze(1))
        missing = number.isnan()
        parts += [missing.where(0.0, number), missing.cast(np.float32)]
    return parts
