"""Numbers, shares, counts and lengths of time as people write them in a sentence."""

from __future__ import annotations

import math

LENGTHS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
"""The units of lengths of time, in seconds."""


def plain_number(value: float) -> str:
    """Return a number with four digits that count; whole, and with six, from 1,000 on.

    Example:
        >>> [plain_number(each) for each in (12.4, -1234.56, 0.03125, 2_000_000.4, 3e-9)]
        ['12.4', '-1,235', '0.03125', '2,000,000', '3e-09']
    """
    if not math.isfinite(value):
        return "beyond all numbers" if value > 0 else "below all numbers" if value < 0 else "no number"
    rounded = float(f"{value:.4g}")
    if abs(rounded) >= 1000:
        rounded = float(f"{round(value):.6g}")
    if abs(rounded) >= 1e15 or 0 < abs(rounded) < 1e-4:
        return f"{rounded:.4g}"
    return f"{rounded + 0.0:,}".removesuffix(".0")  # 0 has no sign


def share_text(share: float) -> str:
    """Return a share in percent; only all is 100 %, and only nothing 0 %.

    Example:
        >>> [share_text(each) for each in (1 / 3, 1, 0.99999, 0)]
        ['33.3 %', '100 %', 'over 99.9 %', '0 %']
    """
    percent = f"{100 * share:.3g}"
    return "over 99.9 %" if share < 1 and percent == "100" else f"{percent} %"


def times_text(count: float) -> str:
    """Return how often something is there.

    Example:
        >>> [times_text(count) for count in (0, 1, 2, 3)]
        ['never', 'once', 'twice', '3 times']
    """
    few = ("never", "once", "twice")
    return few[int(count)] if count in range(3) else f"{plain_number(count)} times"


def length_text(seconds: float) -> str:
    """Return a length of time in the largest unit of which there is one at least, up to days.

    Example:
        >>> [length_text(each) for each in (3_888_000, 5_400, 59.99, 0)]
        ['45 days', '1.5 hours', '1 minute', '0 seconds']
    """
    amounts = {unit: _three_digits(seconds / length) for unit, length in LENGTHS.items()}
    unit = next((unit for unit, amount in amounts.items() if abs(amount) >= 1), "second")
    return f"{plain_number(amounts[unit])} {unit}{'' if abs(amounts[unit]) == 1 else 's'}"


def _three_digits(amount: float) -> float:
    """Return a number with three digits that count, or a whole one from 100 on."""
    return float(round(amount) if abs(amount) >= 100 else f"{amount:.3g}")
