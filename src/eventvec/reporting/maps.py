"""A map of the entities: coordinates from their embeddings, and columns by which the points are coloured."""

from __future__ import annotations

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl
import torch

from eventvec.errors import need
from eventvec.sequences import Array

FITTED = 5_000
"""The number of entities that t-SNE places; further ones are placed between those that are nearest to them."""
BETWEEN = 3
"""The number of entities between which a further one is placed."""
LONGEST_NAME = 80
"""The number of characters after which the name of a value is cut."""
STEPS = 65_535
"""The number of steps into which each axis of the map is divided."""


def map2d(z: Array, seed: int = 0, *, fitted: int = FITTED) -> Array:
    """Return `(n, 2)` coordinates that keep near embeddings near, by t-SNE initialised with principal components.

    Columns are not standardised, so distances are those of the embedding itself, as in a search for nearest entities.
    The result is the same on every run. The time of t-SNE grows faster than the number of entities; 4,000 take half a
    minute. Of more than `fitted` entities, a random sample of that size is placed by t-SNE, and each further one
    between the three of the sample that are nearest to it, weighted by the inverse of their distances. The
    implementation of t-SNE is openTSNE (Poličar, Stražar and Zupan 2024).

    Args:
        z: `(n, dim)` embeddings, with `n` at least 4.
        seed: Seed of the sample and of the optimisation.
        fitted: The largest number of entities that t-SNE places, at least 4.

    Raises:
        ConfigError: If openTSNE is not installed.
    """
    if (z == z[:1]).all():
        return np.zeros((len(z), 2))  # equal embeddings have one place, which t-SNE would not find
    if z.shape[1] == 1:
        z = np.pad(z, ((0, 0), (0, 1)))  # the first two principal components need two columns
    sample = np.sort(np.random.default_rng(seed).permutation(len(z))[:fitted])
    placed = _tsne(np.asarray(z[sample], np.float64), seed)
    if len(sample) == len(z):
        return placed
    xy = _between(np.asarray(z, np.float32), np.asarray(z[sample], np.float32), placed)
    xy[sample] = placed
    return xy


def _tsne(z: Array, seed: int) -> Array:
    """Return coordinates by t-SNE.

    It runs in a thread of its own, which no signal interrupts: its compiled code crashes if Ctrl-C raises an exception
    inside. The thread ends within some iterations after that.
    """
    is_interrupted = threading.Event()
    tsne = need("openTSNE", "viz").TSNE(
        perplexity=min(30, (len(z) - 1) / 3),
        initialization="pca",
        neighbors="exact",
        negative_gradient_method="bh",
        random_state=seed,
        callbacks=lambda *_: is_interrupted.is_set(),
        callbacks_every_iters=10,
    )
    with ThreadPoolExecutor(1) as thread:
        try:
            return np.asarray(thread.submit(tsne.fit, z).result())
        finally:
            is_interrupted.set()


def _between(z: Array, sample: Array, placed: Array, chunk: int = 4096) -> Array:
    """Return `(n, 2)` places between the nearest embeddings of a sample, which are placed already."""
    known, places = torch.from_numpy(sample), torch.from_numpy(placed)
    parts = []
    for part in torch.from_numpy(z).split(chunk):
        distance, nearest = torch.cdist(part, known).topk(BETWEEN, largest=False)
        weight = 1 / distance.double().clamp(min=1e-9)
        parts.append((places[nearest] * (weight / weight.sum(1, keepdim=True)).unsqueeze(2)).sum(1))
    return torch.cat(parts).numpy()


def map_data(xy: Array, columns: pl.DataFrame, keys: pl.Series) -> dict[str, Any]:
    """Return what the script of the page draws the map from: keys, places in steps of the axes, and columns.

    Args:
        xy: `(n, 2)` coordinates.
        columns: `n` rows with what is known of each entity: numbers, text, booleans or times.
        keys: `n` texts, which are shown and exported; the name of the series is that of the key.
    """
    low, span = xy.min(0), max(float(np.ptp(xy, axis=0).max()), 1e-12)
    steps = np.round((xy - low) / span * STEPS).astype(np.uint16)
    return {
        "x": packed(steps[:, 0]),
        "y": packed(steps[:, 1]),
        "key": keys.name,
        "keys": keys.to_list(),
        "columns": [column_data(column) for column in columns],
    }


def packed(values: Array) -> str:
    """Return numbers as text, in the base of 64 that browsers decode, lowest bytes first."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode()


def column_data(column: pl.Series) -> dict[str, Any]:
    """Return a column as the page has it.

    A column of numbers has its `values`, NaN where missing, and the `ends` of its colour scale, its 2 % and 98 %
    quantiles; a column of times has milliseconds since 1970. Any other has the `names` of its values, most frequent
    first, the `counts` of each, and `codes`: the place of each value among them, from 1, and 0 where it is missing.
    """
    if column.dtype.is_float():
        column = column.fill_nan(None)
    common: dict[str, Any] = {"name": column.name, "missing": column.null_count()}
    if column.dtype.is_temporal() and column.dtype not in (pl.Time, pl.Duration):
        times = column.cast(pl.Datetime("ms")).cast(pl.Int64).cast(pl.Float64)
        return {**common, "kind": "time", **_numbers(times, np.dtype(np.float64))}
    if column.dtype.is_numeric():
        return {**common, "kind": "number", **_numbers(column.cast(pl.Float64), np.dtype(np.float32))}
    if column.dtype == pl.Boolean:
        column = column.replace_strict({True: "yes", False: "no"}, return_dtype=pl.String)
    cells = column.cast(pl.String).str.slice(0, LONGEST_NAME).alias("name").to_frame()
    names = cells.drop_nulls().group_by("name").len("count").sort("count", "name", descending=[True, False])
    coded = cells.join(names.with_row_index("code", 1), on="name", how="left", maintain_order="left")
    codes = coded["code"].fill_null(0).to_numpy()
    width = next(bits for bits in (8, 16, 32) if len(names) < 2**bits)
    return {
        **common,
        "kind": "names",
        "names": names["name"].to_list(),
        "counts": names["count"].to_list(),
        "codes": packed(codes.astype(f"uint{width}")),
        "bits": width,
    }


def _numbers(values: pl.Series, kind: np.dtype[Any]) -> dict[str, Any]:
    ends = [values.quantile(q, "nearest") for q in (0.02, 0.98)]
    finite = [0.0 if end is None or not np.isfinite(end) else end for end in ends]
    return {"values": packed(values.fill_null(np.nan).to_numpy().astype(kind)), "ends": finite}
