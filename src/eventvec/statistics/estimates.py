"""A number with its interval, and scores of folds, from which such numbers are made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from eventvec.statistics.intervals import cross_validation_half_width, crossed_half_width, half_width

if TYPE_CHECKING:
    from eventvec.sequences import Array

Place = Literal["ahead", "behind", "level"]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, of 95 % by default.

    Args:
        value: The number.
        low: The lower end of the interval, NaN where there is none.
        high: The upper end.
        signed: Whether it is a difference, which is written with its sign.

    Example:
        >>> str(Estimate(0.842, 0.83, 0.854)), str(Estimate.around(0.03, 0.012, signed=True))
        ('.842 ± .012', '+.030 ± .012')
        >>> Estimate.around(0.03, 0.012, signed=True).place
        'ahead'
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    signed: bool = field(default=False, compare=False)

    @classmethod
    def around(cls, value: float, half_width: float, signed: bool = False) -> Estimate:
        """Return a number in the middle of its interval."""
        return cls(value, value - half_width, value + half_width, signed)

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2

    @property
    def place(self) -> Place:
        """For a difference, which side is ahead: `level` if the interval holds 0, or if there is none."""
        if self.low > 0 or self.high < 0:
            return "ahead" if self.value > 0 else "behind"
        return "level"

    def widened(self, factor: float) -> Estimate:
        """Return the number with an interval that is longer by a factor."""
        below, above = self.value - self.low, self.high - self.value
        return replace(self, low=self.value - factor * below, high=self.value + factor * above)

    def __str__(self) -> str:
        sign = "+" if self.signed else ""
        if not math.isfinite(self.half_width):
            return decimal(self.value, sign)
        if math.isclose(self.value - self.low, self.high - self.value, rel_tol=0.01, abs_tol=5e-4):
            return f"{decimal(self.value, sign)} ± {decimal(self.half_width)}"
        return f"{decimal(self.value, sign)} ({decimal(self.low, sign)} to {decimal(self.high, sign)})"


def decimal(number: float, sign: str = "") -> str:
    """Return a number with three decimals, or three digits if it is 100 or more, without the 0 before the point.

    Example:
        >>> decimal(0.8421), decimal(-0.03, "+"), decimal(12.5), decimal(1234.5)
        ('.842', '-.030', '12.500', '1,234')
    """
    text = f"{number:{sign}z,.0f}" if abs(number) >= 100 else f"{number:{sign}z.3f}"
    return text.replace("0.", ".", 1) if abs(number) < 1 and text.lstrip("+-").startswith("0.") else text


@dataclass(frozen=True)
class Scores:
    """One number per fold, of one metric.

    Args:
        values: The scores, in the order of the folds.
        replicates: `(replicates, folds)` the scores on resampled test entities, see `resampling`. Without them, the
            interval is the t-interval over the folds that papers print, which is too narrow.
        same_test: Whether all folds are tested on the same entities, as in a hold-out test.
        signed: Whether they are differences.
    """

    values: tuple[float, ...]
    replicates: Array | None = field(default=None, compare=False, repr=False)
    same_test: bool = False
    signed: bool = False

    @property
    def mean(self) -> float:
        """The mean over the folds."""
        return float(np.mean(self.values))

    @property
    def interval(self) -> float:
        """The half-width of the 95 % interval of the mean over the folds, see `intervals`."""
        if self.replicates is None:
            return half_width(self.values)
        if self.same_test:
            return crossed_half_width(self.replicates)
        return cross_validation_half_width(self.values, self.replicates)

    @property
    def estimate(self) -> Estimate:
        """The mean with its interval."""
        return Estimate.around(self.mean, self.interval, self.signed)

    def __sub__(self, other: Scores) -> Scores:
        values = tuple(a - b for a, b in zip(self.values, other.values, strict=True))
        if self.replicates is None or other.replicates is None:
            return Scores(values, signed=True)
        return Scores(values, self.replicates - other.replicates, self.same_test, signed=True)
