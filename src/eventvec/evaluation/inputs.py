"""Checks of the features, groups and options that a caller gives to an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eventvec.errors import ConfigError, DataError
from eventvec.evaluation.metrics import Array


def in_range(fractions: Sequence[float]) -> None:
    """Refuse shares of labels that are empty, outside (0, 1] or repeated.

    Raises:
        ConfigError: If there is no fraction, one is outside (0, 1], or one is given twice.

    Example:
        >>> in_range([1.0, 2.0])
        Traceback (most recent call last):
        eventvec.errors.ConfigError: fraction 2 is outside (0, 1]
    """
    outside = [fraction for fraction in fractions if not 0 < fraction <= 1]
    if outside:
        raise ConfigError(f"fraction {outside[0]:g} is outside (0, 1]")
    if not fractions:
        raise ConfigError("fractions is empty; give at least one number in (0, 1]")
    if len(set(fractions)) < len(fractions):
        raise ConfigError(f"fractions must be distinct, got {', '.join(f'{fraction:g}' for fraction in fractions)}")


def matrix(values: Any, name: str, n: int) -> Array:
    """Return `(n, d)` features.

    Args:
        values: Numbers, one row per label.
        name: The name of the features, for messages.
        n: The number of labels.

    Raises:
        DataError: If the features have another shape or length, or a number is not finite.

    Example:
        >>> matrix([[1.0], [2.0]], "embedding", 2).shape
        (2, 1)
    """
    features = np.asarray(values)
    if features.ndim != 2 or features.shape[1] == 0 or features.dtype.kind not in "fiub":
        raise DataError(
            f"features {name!r} are {features.dtype} of shape {features.shape}; numbers of shape (n, d) are needed"
        )
    if len(features) != n:
        raise DataError(f"features {name!r} have {len(features):,} rows for {n:,} labels; one row per label is needed")
    invalid = ~np.isfinite(features).all(1)
    if invalid.any():
        raise DataError(
            f"features {name!r} have NaN or infinite numbers in {int(invalid.sum()):,} rows (first at row "
            f"{int(invalid.argmax())}); every number must be finite"
        )
    return features


def column(values: Any, name: str, n: int) -> Array:
    """Return `(n,)` values beside the labels, such as groups.

    Args:
        values: One value per label.
        name: The name of the values, for messages; those called `holdout` must be booleans.
        n: The number of labels.

    Raises:
        DataError: If the values have another shape or type.

    Example:
        >>> column(["a", "b"], "groups", 2).tolist()
        ['a', 'b']
    """
    checked = np.asarray(values)
    if checked.shape != (n,):
        raise DataError(f"{name} has shape {checked.shape} for {n:,} labels; one value per label is needed")
    if name == "holdout" and checked.dtype != bool:
        raise DataError(f"holdout is of type {checked.dtype}; booleans are needed")
    return checked
