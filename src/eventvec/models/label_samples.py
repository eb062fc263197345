"""Samples of what a run learned from, by which a copy of a label is recognised under another name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from eventvec.dataset import Dataset, repeated, storage
from eventvec.schema import FIRST, Categorical, Numeric
from eventvec.sequences import Array
from eventvec.tables.hashing import mix
from eventvec.tables.keys import key_hashes

CLASSES, NUMBERS = 500, 30
"""The largest number of rows in the sample of a column of classes, and of one of numbers."""
DISTINCT = 10
"""The fewest distinct numbers by which a copy is recognised."""
CHANCE = 1e-3
"""The largest probability of the same values by chance that counts as a copy."""


def samples(data: Dataset, names: tuple[str, ...]) -> dict[str, list[tuple[str, float]]]:
    """Return pairs of a hash of the key and the value, or its code, of some rows by the name of the static column.

    They are the rows with the smallest hashes, so two tables of the same rows have the same sample. If entities have
    rows at several times, the hash is of the key and the time.
    """
    result = dict[str, list[tuple[str, float]]]()
    hashes = _hashes(data.keys, data.moments if repeated(data.keys) else None)
    for field in data.schema.static:
        values = data.sequences.static.get(field.name)
        if field.name not in names or not isinstance(values, Tensor) or not isinstance(field, Categorical | Numeric):
            continue
        numbers = values.double().cpu().numpy()
        rows = np.flatnonzero(numbers >= FIRST if isinstance(field, Categorical) else ~np.isnan(numbers))
        _, first = np.unique(hashes[rows], return_index=True)  # in ascending order
        chosen = rows[first[: CLASSES if isinstance(field, Categorical) else NUMBERS]]
        result[field.name] = [(f"{hashes[row]:016x}", float(numbers[row])) for row in chosen]
    return result


def copied(of: Mapping[str, Any], data: Dataset, y: Array, numeric: bool) -> str | None:
    """Return the name of the column that a label is a copy of, by its values; None if it is of none.

    Classes may have other names, and numbers another scale.

    Args:
        of: What `samples` returned.
        data: The labelled rows.
        y: `(n,)` codes of the classes, or numbers.
        numeric: Whether these are numbers.
    """
    either = [_hashes(data.keys), *([] if data.moments is None else [_hashes(data.keys, data.moments)])]
    return next((name for name, pairs in of.items() for each in either if _same(pairs, each, y, numeric)), None)


def _same(pairs: Sequence[tuple[str, float]], hashes: Array, y: Array, numeric: bool) -> bool:
    """Return whether the values of a sample follow from labels of the same rows, and these from them."""
    from scipy.stats import spearmanr  # type: ignore[import-untyped]

    known = np.array([int(key, 16) for key, _ in pairs], np.uint64)
    rows = np.flatnonzero(np.isin(hashes, known))
    if not len(rows):
        return False
    learned, labels = np.array([value for _, value in pairs])[np.searchsorted(known, hashes[rows])], y[rows]
    if numeric:
        few = min(len(np.unique(side)) for side in (learned, labels)) < DISTINCT
        return not few and bool(abs(spearmanr(learned, labels).statistic) > 1 - CHANCE)
    mapping = np.unique(np.stack([learned, labels]), axis=1)
    one_to_one = mapping.shape[1] > 1 and all(len(np.unique(side)) == mapping.shape[1] for side in mapping)
    rarest = min(len(np.unique(hashes[rows][labels == code])) for code in np.unique(labels))
    return one_to_one and math.comb(len(np.unique(hashes[rows])), rarest) > 1 / CHANCE


def _hashes(keys: pa.Array, moments: Array | None = None) -> Array:
    """Return `(n,)` uint64 hashes of keys, or of keys and times."""
    hashes = mix(key_hashes(storage(keys)))
    return hashes if moments is None else mix(hashes ^ mix(moments.view(np.uint64)))
