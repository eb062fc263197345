"""What a targeted method predicts at any places: representations of observations, or their mean and deviation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eventvec.embedding import Progress, batches
from eventvec.encoders.interface import Encoder
from eventvec.encoders.points import points_of
from eventvec.errors import DataError
from eventvec.methods import CNP
from eventvec.precision import exact_cudnn
from eventvec.schema import Numeric
from eventvec.sequences import Sequences
from eventvec.tables.prediction_places import Places

PIECE, PER_BATCH, SHARE = 4096, 131_072, 16
"""The most places of a row that are predicted at once, the work of a batch, and the pairs that cost as an event."""
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(32)


def predictions(method: Any, x: Sequences, places: Places, progress: Progress | None = None) -> dict[str, pa.Array]:
    """Return the predictions of a targeted method as columns, in the order of the places.

    A contrastive method gives `prediction`, representations of the observation. A neural process gives the mean and the
    standard deviation of each column of the observation, `_mean` and `_std` after its name, in the unit of the column.

    Args:
        method: The method, on the device on which it predicts.
        x: The rows.
        places: Where they are predicted.
        progress: Called with the number of pieces of rows done and of all.
    """
    outputs = encode_targets(method, x, places.rows, places.values, progress)
    if not isinstance(method, CNP):
        return {"prediction": _lists(outputs.numpy())}
    points, columns = points_of(method.encoder), dict[str, pa.Array]()
    parts = [part.chunk(len(points.observations), 1) for part in outputs.double().chunk(2, 1)]
    for name, mean, deviation in zip(points.observations, *parts, strict=True):
        moments = raw_moments(points.scales.get(name), mean, deviation)
        for end, values in zip(("mean", "std"), moments, strict=True):
            columns[f"{name}_{end}"] = _lists(values.numpy()) if values.shape[1] > 1 else pa.array(values[:, 0].numpy())
    return columns


def encode_targets(
    method: Any,
    x: Sequences,
    rows: np.ndarray[Any, Any],
    values: Mapping[str, Tensor],
    progress: Progress | None = None,
) -> Tensor:
    """Return `(m, dim)` the outputs of a method's predictor at places, on the CPU; a context is encoded once for many.

    Args:
        method: The targeted method.
        x: The rows.
        rows: `(m,)` the row of each place.
        values: The covariates, `(m, ...)` each.
        progress: As for `predictions`.
    """
    predictor: Encoder = method.predictor
    device = next((weight.device for weight in predictor.parameters()), x.device)
    row = torch.from_numpy(rows)
    order = row.argsort(stable=True)
    counts = row.bincount(minlength=len(x))
    if empty := int(((counts > 0) & (x.lengths.cpu() == 0)).sum()):
        raise DataError(
            f"{empty:,} of {int((counts > 0).sum()):,} rows to predict have no event to predict from; name the places "
            "of the others, with the key, in the table of places"
        )
    pieces = -(-counts // PIECE)
    source = torch.arange(len(x)).repeat_interleave(pieces)
    offset = (torch.arange(len(source)) - (pieces.cumsum(0) - pieces)[source]) * PIECE
    every = Sequences({name: column[order] for name, column in values.items()}, counts.cumsum(0) - counts, counts)
    targets = every.slice(source, offset, (counts[source] - offset).clamp(max=PIECE))
    contexts = replace(x, static={}).to(device)[source.to(device)]
    outputs, size, lengths = torch.empty(len(rows), predictor.dim), targets.lengths, contexts.lengths.cpu()
    done, training = 0, method.training
    try:
        predictor.eval()
        with torch.inference_mode(), exact_cudnn():
            for piece in batches(lengths + size + lengths * size // SHARE, PER_BATCH):
                some = targets[piece]
                part = replace(contexts[piece.to(device)], static={"targets": some.to(device)})
                outputs[order[some.flat()]] = predictor(part).float().cpu()
                done += len(piece)
                if progress:
                    progress(done, len(source))
    finally:
        method.train(training)
    if len(wrong := (~outputs.isfinite().all(1)).nonzero()):
        raise DataError(
            f"{len(wrong):,} of {len(outputs):,} predictions are not finite (first at place {int(wrong[0]):,}): the "
            "method's weights are not finite, or a value is too large"
        )
    return outputs


def raw_moments(field: Numeric | None, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation of a column whose scaled values are normal, by Gauss-Hermite sums.

    Args:
        field: How the column is scaled; None if it is not.
        mean: `(...)` the mean of the scaled values, float64.
        deviation: `(...)` their standard deviation.
    """
    if field is None:
        return mean, deviation
    if not field.log:
        return mean * field.std + field.mean, deviation * field.std
    weights = torch.from_numpy(WEIGHTS / WEIGHTS.sum())
    raw = field.unscale(mean[..., None] + deviation[..., None] * torch.from_numpy(NODES))
    center = raw @ weights
    return center, ((raw - center[..., None]).square() @ weights).sqrt()


def _lists(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), values.shape[1])
