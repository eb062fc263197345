"""How a threshold is best chosen: what three rules lose on simulated rows."""

from __future__ import annotations

from itertools import product

import numpy as np

from eventvec.sequences import Array
from eventvec.statistics.decision_costs import Costs, Judged, log_odds, paying_threshold
from experiments.command_line import Row

SIZES, RATES, AIMS = (200, 1000, 5000), (0.02, 0.1, 0.3), (0.5, 1.0, 2.0)
"""The numbers of rows, the shares of cases, and the break-evens as multiples of that share."""
OFF = {"calibrated": (0.0, 1.0), "shifted by .7": (0.7, 1.0), "shifted by −.7": (-0.7, 1.0),
       "times 1.5": (0.0, 1.5), "times .6": (0.0, 0.6)}  # fmt: skip
"""What is added to the log-odds of the predictions after they were multiplied, around their mean."""
DRAWS, MANY, SPREAD = 40, 200_000, 1.2
"""The draws of rows, the rows on which thresholds are judged, and the deviation of true log-odds."""


def rules(small: bool) -> list[Row]:
    """What each rule loses of what the best threshold gains over acting on nobody or everybody."""
    draws, rows = 2 if small else DRAWS, list[Row]()
    for size, (name, (shift, slope)) in product(SIZES[:1] if small else SIZES, OFF.items()):
        lost = dict[str, list[float]]()
        for rate, multiple in product(RATES, AIMS):
            for rule, share in _lost(size, rate, multiple, shift, slope, draws).items():
                lost.setdefault(rule, []).append(share)
        rows += [
            {"rows": size, "predictions": name, "rule": rule, "least": min(shares), "most": max(shares)}
            for rule, shares in lost.items()
        ]
    return rows


def _lost(size: int, rate: float, multiple: float, shift: float, slope: float, draws: int) -> dict[str, float]:
    """Return the mean loss of each rule over draws of rows, as a share of the gain of the best threshold."""
    rng, costs = np.random.default_rng(0), Costs(1.0, 1 / (rate * multiple))
    true = log_odds(rate) - SPREAD**2 / 3 + SPREAD * rng.normal(size=MANY)
    p, predicted = _probability(true), _probability(true.mean() + shift + slope * (true - true.mean()))
    order = np.argsort(-predicted)
    saved = np.append(0.0, (costs.case * p[order] - costs.action).cumsum()) / MANY  # by acting on the first k rows
    idle = max(saved[0], saved[-1])
    gain = saved.max() - idle
    totals = dict.fromkeys(("break-even", "least cost so far", "recalibration"), 0.0)
    for _ in range(draws):
        chosen = rng.integers(MANY, size=size)
        case = (rng.random(size) < p[chosen]).astype(np.float64)
        judged = Judged(predicted[chosen], case, np.ones(size), np.arange(size))
        limits = {
            "break-even": costs.break_even,
            "least cost so far": _cheapest(judged, costs),
            "recalibration": paying_threshold(judged, costs),
        }
        for rule, limit in limits.items():
            acts = np.searchsorted(-predicted[order], -limit, side="right")
            totals[rule] += (saved.max() - saved[acts]) / gain / draws
    return totals


def _probability(of_log_odds: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-of_log_odds)))


def _cheapest(judged: Judged, costs: Costs) -> float:
    """Return the prediction from which on acting costs least on the rows themselves."""
    order = np.argsort(-judged.probabilities)
    saved = np.append(0.0, (costs.case * judged.is_case[order] - costs.action).cumsum())
    best = int(saved.argmax())
    return float(judged.probabilities[order][best - 1]) if best else np.inf
