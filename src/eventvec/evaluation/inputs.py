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
        eventvec.errors.ConfigError: fractions must be in (0, 1], got 2
    """
    outside = [fraction for fraction in fractions if not 0 < fraction <= 1]
    if outside:
        raise ConfigError(f"fractions must be in (0, 1], got {outside[0]:g}")
    if not fractions:
        raise ConfigError("fractions must hold at least one number in (0, 1], got none")
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
            f"features {name!r} must be numbers of shape (n, d), got {features.dtype} of shape {features.shape}"
        )
    if len(features) != n:
        raise DataError(f"features {name!r} must have one row per label, got {len(features):,} rows for {n:,} labels")
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
        raise DataError(f"{name} must have one value per label, got shape {checked.shape} for {n:,} labels")
    if name == "holdout" and checked.dtype != bool:
        raise DataError(f"holdout must be booleans, got {checked.dtype}")
    return checked
