"""Checks of the features, groups and options that a caller gives to an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from eventvec.errors import DataError, refuse_masked, shown
from eventvec.sequences import Array

LARGEST = 1e100
"""The largest feature or numeric label, by its size: sums of squares of larger ones overflow."""
LEAST_WEIGHT = 1e-6
"""The smallest weight, relative to the largest; boosted trees and networks compute with seven digits."""


def array(values: Any, name: str) -> Array:
    """Return values as an array with at least one dimension; text as objects, which keep NUL characters at its end."""
    try:
        converted = np.asarray(values)
        if converted.dtype.kind in "US" and not isinstance(values, np.ndarray):
            converted = np.asarray(values, object)
    except (TypeError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(f"{name} must be an array with one row per label, got {type(values).__name__}") from error
    if not converted.ndim:
        raise DataError(f"{name} must be an array with one row per label, got {shown(values)}")
    return converted


def matrix(values: Any, name: str, n: int) -> Array:
    """Return `(n, d)` features."""
    refuse_masked(values, f"features {shown(name)}")
    features = array(values, f"features {shown(name)}")
    if features.ndim != 2 or features.shape[1] == 0 or features.dtype.kind not in "fiub":
        raise DataError(
            f"features {shown(name)} must be numbers of shape (n, d), got {features.dtype} of shape {features.shape}"
        )
    if len(features) != n:
        rows = f"{len(features):,} rows for {n:,} labels"
        raise DataError(f"features {shown(name)} must have one row per label, got {rows}")
    invalid = ~(np.abs(features.astype(np.float64)) <= LARGEST).all(1)
    if invalid.any():
        raise DataError(
            f"features {shown(name)} have NaN or infinite numbers or some beyond ±{LARGEST:g} in "
            f"{int(invalid.sum()):,} rows (first at row {int(invalid.argmax())}), whose squares cannot be computed"
        )
    return features


def column(values: Any, name: str, n: int) -> Array:
    """Return `(n,)` values beside the labels, such as groups; `holdout` and `later` must be booleans."""
    refuse_masked(values, name)
    checked = array(values, name)
    if checked.shape != (n,):
        raise DataError(f"{name} must have one value per label, got shape {checked.shape} for {n:,} labels")
    if name in ("holdout", "later") and checked.dtype != bool:
        raise DataError(f"{name} must be booleans, got {checked.dtype}")
    return checked


def positive(weights: Array) -> Array:
    """Return weights as float64, relative to the largest."""
    if weights.dtype.kind not in "fiu":
        raise DataError(f"weights must be numbers, got {weights.dtype}")
    wrong = ~(np.isfinite(weights) & (weights > 0))
    if wrong.any():
        raise DataError(
            f"weights must be finite and above 0, but {int(wrong.sum()):,} of {len(weights):,} are not (first at row "
            f"{int(wrong.argmax())}); leave rows without weight out"
        )
    weights = weights.astype(np.float64)
    smallest, largest = weights.min(), weights.max()
    if smallest < LEAST_WEIGHT * largest:
        raise DataError(
            f"weights must be within a factor of {1 / LEAST_WEIGHT:g} of each other, but they reach from {smallest:g} "
            f"to {largest:g}; leave rows of little weight out"
        )
    return np.asarray(weights / largest)
