"""Numbers, shares and lengths of time at their edges: where digits are cut off, and where units change."""

from __future__ import annotations

import math

import pytest

from eventvec.quantities import length_text, plain_number, share_text, times_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (1, "1"), (0.1, "0.1"), (999.94, "999.9"), (999.96, "1,000"), (-12345.6, "-12,346"),
        (1_234_567.8, "1,234,570"), (1e14, "100,000,000,000,000"), (2e15, "2e+15"), (0.00012344, "0.0001234"),
        (0.00002, "2e-05"), (math.inf, "beyond all numbers"), (-math.inf, "below all numbers"), (math.nan, "no number"),
    ],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert plain_number(value) == text


def test_shares_and_counts() -> None:
    assert [share_text(share) for share in (0, 1e-5, 0.005, 0.5, 0.9994, 0.9996, 1)] == [
        "0 %", "0.001 %", "0.5 %", "50 %", "99.9 %", "over 99.9 %", "100 %",
    ]  # fmt: skip
    assert [times_text(count) for count in (0, 1.0, 2, 7, 1234)] == [
        "never", "once", "twice", "7 times", "1,234 times",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 seconds"), (1, "1 second"), (0.25, "0.25 seconds"), (59.4, "59.4 seconds"), (59.99, "1 minute"),
        (90, "1.5 minutes"), (3599.9, "1 hour"), (3600, "1 hour"), (5400, "1.5 hours"), (86_399, "1 day"),
        (86_400, "1 day"), (129_600, "1.5 days"), (45 * 86_400 + 2, "45 days"), (1234.4 * 86_400, "1,234 days"),
        (-172_800, "-2 days"),
    ],
)  # fmt: skip
def test_lengths_of_time(seconds: float, text: str) -> None:
    assert length_text(seconds) == text
