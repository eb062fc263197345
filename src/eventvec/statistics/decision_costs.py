"""What acting on some rows costs, the threshold from which acting pays, and the net benefit.

An action costs something, and so does a case, such as a customer who leaves. An action prevents a share of the cases on
which one acts. So an action pays where the probability of a case is at least `action / (saves · case)`, if that is the
true probability. Predictions may be off, so the threshold is set where a recalibration of them, which is learned from
other rows, reaches that probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eventvec.options import above_zero, within
from eventvec.sequences import Array
from eventvec.statistics.estimates import Estimate
from eventvec.statistics.intervals import NORMAL

PARTS = 5
"""The number of parts of the entities; the threshold of each is chosen on the others."""
LEAST = 1e-6
"""The smallest probability that is told from 0, and the distance from 1 of the largest."""
SHIFT, SLOPE = 1.0, 0.5
"""The standard deviations of the prior of a recalibration: of its shift in log-odds, and of its slope around 1."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Rows on which decisions are judged.

    Args:
        probabilities: `(n,)` the predicted probabilities of a case.
        is_case: `(n,)` float64, 1 for a case and 0 for others.
        weights: `(n,)` how much each row counts, above 0.
        groups: `(n,)` int64 codes of the entities from 0, of which none is left out.
    """

    probabilities: Array
    is_case: Array
    weights: Array
    groups: Array

    @property
    def entities(self) -> int:
        """The number of entities."""
        return int(self.groups.max()) + 1

    def part(self, rows: Array) -> Judged:
        """Return the rows of a mask; entities keep their codes."""
        return Judged(self.probabilities[rows], self.is_case[rows], self.weights[rows], self.groups[rows])

    def sums(self, values: Array, entities: int) -> Array:
        """Return `(entities, k)` the sums of `(n, k)` values over the rows of each entity, 0 for those without any."""
        return np.column_stack([np.bincount(self.groups, column, entities) for column in values.T])


@dataclass(frozen=True)
class Costs:
    """What an action and a case cost, in one currency, and the share of the cases that an action prevents.

    Args:
        action: What one action costs.
        case: What one case costs.
        saves: The share of the cases with an action that the action prevents.

    Raises:
        ConfigError: If a cost is not above 0 and finite, or the share is not in (0, 1].

    Example:
        >>> round(Costs(action=1, case=40, saves=0.3).break_even, 3)
        0.083
    """

    action: float
    case: float
    saves: float = 1.0

    def __post_init__(self) -> None:
        above_zero("action", self.action)
        above_zero("case", self.case)
        within("saves", self.saves, 0, 1, "(]")

    @property
    def break_even(self) -> float:
        """The true probability of a case from which on an action pays; 1 or more where it never does."""
        return self.action / self.saves / self.case  # the product of the two may be 0

    @property
    def aim(self) -> float:
        """The log-odds of the break-even, infinity where an action never pays."""
        return float(log_odds(self.break_even)) if self.break_even < 1 else float("inf")

    def of(self, is_case: Array, acts: Array) -> Array:
        """Return `(n, …)` what each row costs, from `(n,)` whether it is a case and `(n, …)` whether one acts on it."""
        is_case = is_case.reshape(-1, *[1] * (acts.ndim - 1))
        return np.asarray(self.action * acts + self.case * is_case * (1 - self.saves * acts))


@dataclass(frozen=True, eq=False)
class Recalibration:
    """The log-odds of a case as a line in the log-odds of the predictions, and how it depends on each row.

    Args:
        centre: The mean log-odds of the predictions.
        line: The log-odds of a case at the centre, and the slope.
        pulls: `(n, 2)` by how much the line changes, to first order, if a row counts once more.
    """

    centre: float
    line: Array
    pulls: Array

    def reaches(self, aim: float, line: Array) -> Array:
        """Return the log-odds of the predictions at which lines, `(…, 2)`, reach the log-odds `aim`.

        Where a line does not rise, the order of the predictions says nothing: it is minus infinity or infinity.
        """
        shift, slope = line[..., 0], line[..., 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            at = self.centre + (aim - shift) / slope
        return np.asarray(np.where(slope > 0, at, np.where(shift >= aim, -np.inf, np.inf)))


def paying_threshold(judged: Judged, costs: Costs) -> float:
    """Return the predicted probability from which on acting pays, by a recalibration on the rows.

    The recalibration is a logistic regression of the cases on the log-odds of the predictions (Cox 1958, Platt 1999),
    with a prior around the predictions as they are: few rows leave the threshold near the break-even, many rows correct
    predictions that are too high, too low, too bold or too timid. The prediction with the least cost on the rows is a
    noisier choice, see `docs/how-to/decide.md`.

    Returns:
        A probability; 0 if one should act on all rows, infinity if on none.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p, rows = rng.random(4000), np.arange(4000)
        >>> is_case = (rng.random(4000) < p / 2).astype(float)  # the predictions are twice what is true
        >>> 0.35 < paying_threshold(Judged(p, is_case, np.ones(4000), rows), Costs(1, 5)) < 0.45
        True
    """
    fitted = recalibrate(judged)
    return probability_of(float(fitted.reaches(costs.aim, fitted.line)))


def log_odds(probability: Any) -> Any:
    """Return the log-odds of probabilities; those nearer to 0 or 1 than `LEAST` are taken as that far."""
    inside = np.clip(np.asarray(probability, np.float64), LEAST, 1 - LEAST)
    return np.log(inside) - np.log1p(-inside)


def probability_of(log_odds_: float) -> float:
    """Return the probability of log-odds, 0 below the least that is told from 0, and infinity above the largest."""
    if abs(log_odds_) >= log_odds(1):
        return 0.0 if log_odds_ < 0 else float("inf")
    return float(1 / (1 + np.exp(-log_odds_)))


def recalibrate(judged: Judged) -> Recalibration:
    """Return the line that maximises likelihood times prior.

    The likelihood is concave and the prior strictly so, so there is one maximum, also where a threshold separates the
    cases from the others.
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    z, weights = log_odds(judged.probabilities), judged.weights / judged.weights.mean()
    centre, n = float(np.average(z, weights=weights)), len(z)
    x = np.stack([np.ones(n), z - centre], 1)
    prior, precision = np.array([centre, 1.0]), np.array([SHIFT, SLOPE]) ** -2

    def pulls(line: Array) -> Array:
        return np.asarray(x * (weights * (judged.is_case - 1 / (1 + np.exp(-(x @ line)))))[:, None])

    def loss(line: Array) -> tuple[float, Array]:
        at, off = x @ line, line - prior
        height = weights @ (judged.is_case * at - np.logaddexp(0, at)) - precision @ off**2 / 2
        return -height / n, (precision * off - pulls(line).sum(0)) / n

    def curvature(line: Array) -> Array:
        p = 1 / (1 + np.exp(-(x @ line)))
        return np.asarray(((x * (weights * p * (1 - p))[:, None]).T @ x + np.diag(precision)) / n)

    line = minimize(loss, prior, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-10}).x
    return Recalibration(centre, line, np.linalg.solve(n * curvature(line), pulls(line).T).T)


def divide(entities: int, seed: int) -> Array:
    """Return `(entities,)` the part of each entity, `PARTS` of them with as many entities each, give or take one."""
    return np.asarray(np.random.default_rng(seed).permutation(entities) % PARTS)


@dataclass(frozen=True, eq=False)
class ChosenApart:
    """Decisions by thresholds each of which was chosen on other entities.

    Args:
        thresholds: `(parts,)` the threshold of each part, chosen on the rows of the others.
        acts: `(n,)` bool, whether one acts on each row, by the threshold of its part.
        again: `(replicates,)` the mean cost of a row on resampled entities.
    """

    thresholds: Array
    acts: Array
    again: Array


def chosen_apart(judged: Judged, costs: Costs, parts: Array, drawn: Array) -> ChosenApart:
    """Return decisions on the rows of each part, by the threshold that was chosen on the rows of the other parts.

    The thresholds are chosen again on resampled entities, by one Newton's step from those that were chosen, because
    they depend on these entities too; with fixed thresholds, decisions by random predictions would be called worse than
    the better of acting on nobody and on everybody too often.

    Args:
        judged: The rows.
        costs: What an action and a case cost.
        parts: `(entities,)` the part of each entity.
        drawn: `(replicates, entities)` how often each entity counts, see `resampling.resample`.
    """
    of_rows, lines, pulls = parts[judged.groups], list[Recalibration](), list[Array]()
    for part in range(int(parts.max()) + 1):
        others = judged.part(of_rows != part)
        lines.append(recalibrate(others))
        pulls.append(others.sums(lines[-1].pulls, len(parts)))  # 0 of the entities of the part itself
    thresholds = np.array([probability_of(float(each.reaches(costs.aim, each.line))) for each in lines])
    idle, busy = (costs.of(judged.is_case, np.full(len(of_rows), acts)) * judged.weights for acts in (False, True))
    x, again = log_odds(judged.probabilities), np.empty(len(drawn))
    for place, row in enumerate(drawn):
        counts = row.astype(np.float64)
        moved = (line.line + (counts - 1) @ pull for line, pull in zip(lines, pulls, strict=True))
        at = np.array([line.reaches(costs.aim, each) for line, each in zip(lines, moved, strict=True)])
        times = counts[judged.groups]
        again[place] = (times @ np.where(x >= at[of_rows], busy, idle)) / (times @ judged.weights)
    return ChosenApart(thresholds, judged.probabilities >= thresholds[of_rows], again)


@dataclass(frozen=True, eq=False)
class Resampled:
    """A number, and `(replicates,)` the same on resampled entities."""

    value: float
    again: Array

    def __sub__(self, other: Resampled) -> Resampled:
        return Resampled(self.value - other.value, self.again - other.again)

    def estimate(self, factor: float = 1.0, signed: bool = False, least: float = -np.inf) -> Estimate:
        """Return the number with its interval of 95 %.

        Args:
            factor: By what the variance is multiplied.
            signed: Whether it is a difference.
            least: The smallest number that is possible.
        """
        half = NORMAL * float(np.sqrt(factor) * np.std(self.again, ddof=1))
        return Estimate(self.value, max(self.value - half, least), self.value + half, signed)


def means(values: Array, judged: Judged, drawn: Array) -> list[Resampled]:
    """Return the weighted mean of each column of `(n, k)` values over rows; `drawn` is as for `chosen_apart`."""
    sums = judged.sums(np.column_stack([values, np.ones(len(values))]) * judged.weights[:, None], judged.entities)
    total, again = sums.sum(0), np.stack([each.astype(np.float64) @ sums for each in drawn])
    return [
        Resampled(float(each), column)
        for each, column in zip(total[:-1] / total[-1], (again[:, :-1] / again[:, -1:]).T, strict=True)
    ]


def net_benefit(is_case: Array, acts: Array, thresholds: Array) -> Array:
    """Return `(n, k)` what each row adds to the net benefit at thresholds (Vickers and Elkin 2006, equation 1).

    The mean over rows is `TP / n − FP / n · t / (1 − t)`: the cases that are found, minus the false alarms at the price
    at which someone who acts from a probability `t` on values them.

    Args:
        is_case: `(n,)` 0 and 1.
        acts: `(n, k)` whether one acts on each row at each threshold.
        thresholds: `(k,)` in (0, 1).

    Example:
        >>> net_benefit(np.array([1, 0]), np.array([[True], [True]]), np.array([0.2])).mean(0).tolist()
        [0.375]
    """
    odds = thresholds / (1 - thresholds)
    return np.asarray(acts * np.where(is_case[:, None] > 0, 1.0, -odds))
