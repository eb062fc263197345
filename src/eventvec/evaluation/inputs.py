"""What a caller gives to an evaluation, refused at the door where nothing could be made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eventvec.errors import ConfigError, DataError
from eventvec.evaluation.metrics import Array


def in_range(fractions: Sequence[float]) -> None:
    """Refuse shares of labels that are none, outside (0, 1] or given twice.

    Raises:
        ConfigError: they are.

    Example:
        >>> in_range([1.0, 2.0])
        Traceback (most recent call last):
        eventvec.errors.ConfigError: fraction 2 is outside (0, 1]
    """
    outside = [fraction for fraction in fractions if not 0 < fraction <= 1]
    if outside or not fractions:
        raise ConfigError(f"fraction {outside[0]:g} is outside (0, 1]" if outside else "no fraction of labels is given")
    if len(set(fractions)) < len(fractions):
        raise ConfigError(f"a fraction is given twice: {', '.join(f'{fraction:g}' for fraction in fractions)}")


def matrix(values: Any, name: str, n: int) -> Array:
    """Return `(n, d)` features.

    Args:
        values: numbers, one row per label.
        name: how messages call them.
        n: how many labels there are.

    Raises:
        DataError: they have another shape or length, or a number is not finite.

    Example:
        >>> matrix([[1.0], [2.0]], "embedding", 2).shape
        (2, 1)
    """
    found = np.asarray(values)
    if found.ndim != 2 or found.shape[1] == 0 or found.dtype.kind not in "fiub":
        raise DataError(
            f"features {name!r} are {found.dtype} of shape {found.shape}; numbers of shape (n, d) are needed"
        )
    if len(found) != n:
        raise DataError(f"features {name!r} have {len(found):,} rows for {n:,} labels; one row per label is needed")
    bad = ~np.isfinite(found).all(1)
    if bad.any():
        raise DataError(
            f"features {name!r} have NaN or infinite numbers in {int(bad.sum()):,} rows (first at row "
            f"{int(bad.argmax())}); every number must be finite"
        )
    return found


def column(values: Any, name: str, n: int) -> Array:
    """Return `(n,)` values beside the labels, for example groups.

    Args:
        values: one per label.
        name: how messages call them; those called `holdout` are true or false.
        n: how many labels there are.

    Raises:
        DataError: they have another shape or type.

    Example:
        >>> column(["a", "b"], "groups", 2).tolist()
        ['a', 'b']
    """
    found = np.asarray(values)
    if found.shape != (n,):
        raise DataError(f"{name} has shape {found.shape} for {n:,} labels; one value per label is needed")
    if name == "holdout" and found.dtype != bool:
        raise DataError(f"holdout is of type {found.dtype}; true and false are needed")
    return found
