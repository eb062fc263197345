"""The published numbers on cancer patients' notes (Agrawal et al. 2022, Tables 1 and 5, Figure 3b)."""

from __future__ import annotations

from experiments.order.note_protocol import FRACTIONS

Lead = dict[float, tuple[float, float | None]]
"""By fraction of labels: the mean lead of OCP, or for OCP its mean score, and the share of runs in which it wins."""


def _row(values: str, wins: str = "") -> Lead:
    shares = [int(percent) / 100 for percent in wins.split()] or [None] * len(FRACTIONS)
    return dict(zip(FRACTIONS, zip(map(float, values.split()), shares, strict=True), strict=True))


AUC = {
    "OCP": _row(".87 .86 .84 .82 .81"),
    "MiniLM": _row(".08 .12 .12 .18 .22", "93 100 100 100 100"),
    "FT-LM": _row(".03 .04 .04 .08 .10", "80 82 82 93 89"),
    "entity-contrastive": _row(".03 .03 .05 .09 .12", "86 77 91 91 97"),
    "PCL": _row(".00 .00 .03 .03 .06", "53 46 64 76 87"),
}
"""Table 1. The paper's model is BERT, and entity-contrastive is its patient-contrastive."""

PRECISION = {
    "OCP": _row(".57 .58 .55 .50 .50"),
    "MiniLM": _row(".16 .19 .19 .19 .22", "100 100 100 100 100"),
    "FT-LM": _row(".09 .09 .09 .11 .13", "80 80 84 87 93"),
    "entity-contrastive": _row(".08 .09 .14 .15 .17", "73 80 100 96 98"),
    "PCL": _row(".02 .04 .07 .10 .13", "56 69 73 84 91"),
}
"""Table 5."""

ATTENDED = (
    *("increased", "increase", "increasing", "change", "unchanged", "no", "stable", "negative", "persistent"),
    *("resolved", "prior"),
)
"""The tokens that the paper names among those with a mean attention above .1."""

POSITIVE = 0.76
"""Section 4.2: the share of the selected features whose weight is positive."""

SELECTED_TERMS = ("mass", "increased", "decreased", "stable", "change", "new", "suspicious")
EXCLUDED_TERMS = ("discussed", "imaging", "left", "mri", "also", "follow")
"""Figure 3b, examples. The paper prints no weight."""
