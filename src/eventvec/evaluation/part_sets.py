"""The parts of an embedding as sets of features, so an evaluation shows the worth of each: with it and without."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eventvec.sequences import Array

PART = "embedding: "
"""The beginning of the names of these sets, which no other set of features may have."""


def part_sets(values: Array, parts: Mapping[str, tuple[int, int]]) -> dict[str, Array]:
    """Return each part of an embedding alone, and the embedding without each part.

    If there are two parts, each is the embedding without the other, so there are only two sets.
    """
    if len(parts) < 2:
        return {}
    sets = {f"{PART}{name}": values[:, start:end] for name, (start, end) in parts.items()}
    if len(parts) > 2:
        sets |= {
            f"{PART}without {name}": np.delete(values, np.s_[start:end], axis=1) for name, (start, end) in parts.items()
        }
    return sets


def is_part(name: str) -> bool:
    """Return whether a set of features is a part of an embedding, or an embedding without a part."""
    return name.startswith(PART)
