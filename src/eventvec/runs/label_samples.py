"""Samples of what a run learned from, by which a copy of a label is recognised under another name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from eventvec.dataset import Dataset, storage
from eventvec.schema import FIRST, Categorical, Numeric
from eventvec.sequences import Array
from eventvec.tables.hashing import mix
from eventvec.tables.keys import key_hashes

CLASSES, NUMBERS = 500, 30
"""The largest number of entities in the sample of a column of classes, and of one of numbers."""
CHANCE = 1e-3
"""The largest probability of the same values by chance that counts as a copy."""


def samples(data: Dataset, names: tuple[str, ...]) -> dict[str, list[tuple[str, float]]]:
    """Return pairs of a hash of the key and the value, or its code, of some entities by the name of the static column.

    They are the entities with the smallest hashes, so two tables of the same entities have the same sample.
    """
    result = dict[str, list[tuple[str, float]]]()
    hashes = _hashes(data.keys)
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


def copied(of: Mapping[str, Any], keys: pa.Array, y: Array, numeric: bool) -> str | None:
    """Return the name of the column that a label is a copy of, by its values; None if it is of none.

    Classes may have other names, and numbers another scale.

    Args:
        of: What `samples` returned.
        keys: The keys of the labelled rows.
        y: `(n,)` codes of the classes, or numbers.
        numeric: Whether these are numbers.
    """
    from scipy.stats import spearmanr  # type: ignore[import-untyped]

    hashes = _hashes(keys)
    for name, pairs in of.items():
        known = np.array([int(key, 16) for key, _ in pairs], np.uint64)
        rows = np.flatnonzero(np.isin(hashes, known))
        if not len(rows):
            continue
        theirs = np.array([value for _, value in pairs])[np.searchsorted(known, hashes[rows])]
        entities = len(np.unique(hashes[rows]))
        if numeric:
            if entities >= NUMBERS // 2 and abs(spearmanr(theirs, y[rows]).statistic) > 1 - CHANCE:
                return name
            continue
        mapping = np.unique(np.stack([theirs, y[rows]]), axis=1)
        one_to_one = all(len(np.unique(side)) == mapping.shape[1] for side in mapping)
        rarest = min(len(np.unique(hashes[rows][y[rows] == code])) for code in np.unique(y[rows]))
        if one_to_one and mapping.shape[1] > 1 and math.comb(entities, rarest) > 1 / CHANCE:
            return name
    return None


def _hashes(keys: pa.Array) -> Array:
    return mix(key_hashes(storage(keys)))
