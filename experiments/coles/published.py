"""The scores that Babaev et al. 2022 report: AUROC for churn, accuracy for the other data sets.

Tables 1, 6, 7 and 8 and Figure 5 are cross-validation scores, Table 2 and Figures 2 and 6 test scores. Tables 1, 6, 7
and 8 are printed in the paper. It prints Table 2 as changes in percent and Figures 2, 5 and 6 without numbers; their
scores here are those in the result files of its public code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Scores: TypeAlias = Mapping[str, tuple[float | None, ...]]
"""By arm, one score per data set of `PAPER`, None if missing."""

PAPER = ("age_group", "rosbank", "bowl2019", "x5")
"""The paper's data sets, in the order of its columns."""

TABLE1 = {
    "random_samples": (0.613, 0.820, 0.563, 0.523),
    "disjoint_samples": (0.619, 0.819, None, 0.505),  # bowl2019: the public script ran random samples twice
    "coles": (0.639, 0.823, 0.618, 0.542),
}
TABLE2 = {
    "aggregates": (0.631, 0.825, 0.602, 0.547),
    "sop": (0.493, 0.782, 0.577, 0.428),
    "nsp": (0.622, 0.830, 0.581, 0.425),
    "rtd": (0.632, 0.801, 0.580, 0.520),
    "cpc": (0.594, 0.802, 0.588, 0.525),
    "coles": (0.638, 0.843, 0.601, 0.539),
    "untrained": (0.375, 0.725, 0.574, 0.374),  # in the results of the public code, not in the paper
    "supervised": (0.628, 0.817, 0.602, 0.542),
    "rtd, fine-tuned": (0.635, 0.819, 0.586, 0.544),
    "cpc, fine-tuned": (0.615, 0.810, 0.606, 0.549),
    "coles, fine-tuned": (0.644, 0.827, 0.615, 0.552),
}
TABLE6 = {
    "lstm": (0.621, 0.823, 0.620, 0.535),
    "gru": (0.638, 0.812, 0.618, 0.542),
    "transformer_paper": (0.622, 0.780, 0.542, 0.499),
}
TABLE7 = {
    "coles": (0.639, 0.823, 0.618, 0.542),
    "binomial_deviance": (0.621, 0.769, 0.589, 0.535),
    "histogram": (0.632, 0.815, 0.615, 0.533),
    "margin": (0.638, 0.823, 0.612, 0.541),
    "triplet": (0.636, 0.781, 0.600, 0.541),
}
TABLE8 = {
    "coles": (0.639, 0.823, 0.618, 0.542),
    "random_negatives": (0.626, 0.815, 0.593, 0.530),
    "distance_weighted": (0.629, 0.821, 0.603, 0.536),
}
FIGURE2: Mapping[str, tuple[tuple[int, ...], Mapping[str, tuple[float, ...]]]] = {
    "age_group": (
        (337, 675, 1350, 2700, 5400, 10800, 21600),
        {
            "aggregates": (0.537, 0.563, 0.580, 0.601, 0.611, 0.621, 0.629),
            "cpc": (0.504, 0.531, 0.550, 0.566, 0.584, 0.592, 0.595),
            "coles": (0.568, 0.585, 0.598, 0.615, 0.623, 0.633, 0.639),
            "cpc, fine-tuned": (0.530, 0.562, 0.572, 0.589, 0.590, 0.602, 0.615),
            "coles, fine-tuned": (0.558, 0.569, 0.587, 0.605, 0.619, 0.631, 0.648),
            "supervised": (0.497, 0.536, 0.568, 0.589, 0.601, 0.618, 0.628),
        },
    ),
    "rosbank": (
        (225, 450, 900, 1800, 3600),
        {
            "aggregates": (0.783, 0.802, 0.813, 0.817, 0.828),
            "cpc": (0.770, 0.773, 0.775, 0.792, 0.801),
            "coles": (0.813, 0.820, 0.830, 0.836, 0.840),
            "cpc, fine-tuned": (0.783, 0.789, 0.803, 0.801, 0.809),
            "coles, fine-tuned": (0.781, 0.804, 0.808, 0.813, 0.820),
            "supervised": (0.740, 0.756, 0.791, 0.806, 0.815),
        },
    ),
    "bowl2019": (
        (496, 994, 1986, 3971, 7943, 15887),
        {
            "aggregates": (0.522, 0.551, 0.573, 0.587, 0.595, 0.603),
            "cpc": (0.555, 0.559, 0.568, 0.579, 0.584, 0.589),
            "coles": (0.547, 0.568, 0.580, 0.592, 0.598, 0.600),
            "cpc, fine-tuned": (0.560, 0.575, 0.576, 0.594, 0.600, 0.606),
            "coles, fine-tuned": (0.562, 0.587, 0.594, 0.604, 0.608, 0.611),
            "supervised": (0.557, 0.559, 0.578, 0.589, 0.597, 0.602),
        },
    ),
    "x5": (
        (500, 1000, 3000, 6000, 12000, 25000, 50000, 100000, 200000, 290000),
        {
            "aggregates": (0.402, 0.431, 0.463, 0.481, 0.497, 0.513, 0.526, 0.535, 0.544, 0.547),
            "cpc": (0.423, 0.447, 0.472, 0.482, 0.492, 0.499, 0.507, 0.514, 0.522, 0.525),
            "coles": (0.453, 0.473, 0.494, 0.505, 0.511, 0.516, 0.523, 0.530, 0.537, 0.539),
            "cpc, fine-tuned": (0.432, 0.458, 0.492, 0.501, 0.512, 0.522, 0.532, 0.539, 0.545, 0.549),
            "coles, fine-tuned": (0.433, 0.463, 0.493, 0.505, 0.517, 0.530, 0.539, 0.544, 0.549, 0.552),
            "supervised": (0.415, 0.440, 0.473, 0.491, 0.503, 0.514, 0.524, 0.533, 0.538, 0.542),
        },
    ),
}
"""Labels in a training fold, all of them last, and the test score at each (Figure 2 and Figure 6)."""

FIGURE5 = {
    "age_group": dict(zip((32, 64, 96, 160, 224, 480, 800, 1200, 1600, 2400),
                          (0.591, 0.604, 0.608, 0.614, 0.622, 0.638, 0.638, 0.638, 0.640, 0.633), strict=True)),
    "rosbank": dict(zip((32, 64, 128, 256, 512, 1024, 2048, 3072),
                        (0.783, 0.799, 0.814, 0.821, 0.818, 0.823, 0.824, 0.814), strict=True)),
    "bowl2019": dict(zip((32, 64, 100, 200, 400), (0.592, 0.613, 0.617, 0.620, 0.622), strict=True)),
    "x5": dict(zip((64, 160, 480, 800, 1600), (0.521, 0.533, 0.539, 0.541, 0.541), strict=True)),
}  # fmt: skip
"""Cross-validation score by embedding size."""


def score(table: Scores, arm: str, dataset: str) -> float | None:
    """Return the paper's score of an arm on a data set, None if it has none."""
    scores = table.get(arm)
    return scores[PAPER.index(dataset)] if scores and dataset in PAPER else None
