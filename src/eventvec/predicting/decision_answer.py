"""The answer of `decide`: the verdict, the policies beside one another, the curve of costs, and the decision curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eventvec.answers import Answer
from eventvec.answers.charts import BLUE, GREY, ORANGE, PINK, Chart, Look, Series, curves, level
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.decision_costs import (
    PARTS,
    ChosenApart,
    Costs,
    Judged,
    Means,
    acted,
    around,
    chosen_apart,
    divide,
    log_odds,
    net_benefit,
    paying_threshold,
)
from eventvec.statistics.resampling import resample
from eventvec.tables.label_times import doubts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL, BREAK_EVEN, NOBODY, EVERYBODY, RULE = "model", "break-even", "nobody", "everybody", "rule"
"""The policies: by the model's threshold, by the break-even as the threshold, without one, and by the caller's rule."""
WORDS = {NOBODY: "acting on nobody", EVERYBODY: "acting on everybody", RULE: "your rule"}
PER = 1000
"""The number of rows of which costs are stated."""
AROUND = np.arange(-2.5, 2.51, 0.25)
"""The thresholds of the curve, as differences of their log-odds from that of the chosen one."""
DECISION_CURVE = np.array([0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
"""The thresholds of the decision curve."""
SAVED = "How much an action prevents is taken as given and alike for all; only a trial with random actions measures it."


@dataclass(frozen=True, eq=False)
class Decided:
    """What is decided, and on which rows.

    Args:
        judged: The rows.
        costs: What an action and a case cost.
        label: The name of the label.
        of: The class that is a case.
        by_rule: `(n,)` bool, whether the caller's rule acts on each row; None without a rule.
        factor: By what variances of the model's costs are multiplied, because its trainings overlap.
        seed: The seed of the parts and of the resampling.
    """

    judged: Judged
    costs: Costs
    label: str
    of: str
    by_rule: Array | None
    factor: float
    seed: int


@dataclass(frozen=True, eq=False)
class _Policies:
    """The policies by name, `(n,)` bool whom each acts on, and their costs per `PER` rows.

    The first column of `means` is the model's, whose thresholds are chosen anew on resampled entities.
    """

    names: list[str]
    acts: list[Array]
    means: Means
    factor: float

    def cost(self, name: str) -> Estimate:
        """Return what a policy costs."""
        return self.means.estimate(self.names.index(name), self.factor if name in (MODEL, BREAK_EVEN) else 1.0)

    def saved(self, name: str) -> Estimate:
        """Return by how much the model costs less than a policy, below 0 where it costs more."""
        return self.means.difference(self.names.index(name), 0, self.factor)

    @property
    def simple(self) -> str:
        """The cheaper one of acting on nobody and on everybody."""
        return min((NOBODY, EVERYBODY), key=lambda name: self.means.values[self.names.index(name)])

    @property
    def advantage(self) -> Estimate:
        """By how much the model costs less than the cheaper one, which is chosen anew on resampled entities."""
        places = [self.names.index(name) for name in (NOBODY, EVERYBODY)]
        again = self.means.again[:, places].min(1) - self.means.again[:, 0]
        value = self.means.values[places].min() - self.means.values[0]
        return around(float(value), again, self.factor, signed=True)


def answered(decided: Decided, notes: tuple[str, ...], with_net_benefit: bool) -> Answer:
    """Return the answer to what is decided.

    Args:
        decided: The rows and the costs.
        notes: Sentences about the rows.
        with_net_benefit: Whether there is a decision curve too.
    """
    judged, costs = decided.judged, decided.costs
    drawn, parts = resample(judged.entities, seed=decided.seed), divide(judged.entities, decided.seed)
    chosen, threshold = chosen_apart(judged, costs, parts, drawn), paying_threshold(judged, costs.break_even)
    policies = _policies(decided, chosen, drawn)
    tables: dict[str, Any] = {"policies": _rows(decided, policies, threshold)}
    figures: tuple[Chart, ...] = ()
    if costs.break_even < 1:
        tables["curve"] = _curve(decided, threshold, drawn)
        figures = (_cost_chart(tables["curve"], policies, threshold),)
        part_of_rows = parts[judged.groups]
        tables["parts"] = [
            {"part": part + 1, "rows": int((part_of_rows == part).sum()), "threshold": _finite(each)}
            for part, each in enumerate(chosen.thresholds.tolist())
        ]
    if with_net_benefit:
        tables["net_benefit"] = _decision_curve(decided, drawn)
        figures = (*figures, _decision_chart(tables["net_benefit"]))
    acts = acted(judged.probabilities, threshold)
    facts = {
        "label": decided.label, "of": decided.of, "rows": len(acts), "entities": judged.entities,
        "cases": int(judged.is_case.sum()), "action": costs.action, "case": costs.case, "saves": costs.saves,
        "threshold": _finite(threshold), "break_even": costs.break_even, "acted": int(acts.sum()),
        "cost": policies.cost(MODEL), "advantage": policies.advantage,
    }  # fmt: skip
    about = doubts(notes)
    verdict = (*_verdict(decided, policies, threshold, acts)[: 5 - len(about)], *about)
    about_costs = _notes(decided, policies, threshold)
    return Answer(verdict, tables, (*about_costs, *notes), figures, facts, title=f"On whom to act: {decided.label}")


def _finite(threshold: float) -> float | None:
    return threshold if np.isfinite(threshold) else None


def _policies(decided: Decided, chosen: ChosenApart, drawn: Array) -> _Policies:
    judged, n = decided.judged, len(decided.judged.is_case)
    acts = {
        MODEL: chosen.acts,
        BREAK_EVEN: acted(judged.probabilities, decided.costs.break_even),
        NOBODY: np.zeros(n, bool),
        EVERYBODY: np.ones(n, bool),
    }
    if decided.by_rule is not None:
        acts[RULE] = decided.by_rule
    means = Means.of(PER * decided.costs.of(judged.is_case, np.column_stack(list(acts.values()))), judged, drawn)
    again = np.column_stack([PER * chosen.again, means.again[:, 1:]])
    return _Policies(list(acts), list(acts.values()), Means(means.values, again), decided.factor)


def _rows(decided: Decided, policies: _Policies, threshold: float) -> list[dict[str, Any]]:
    """Return the table of policies."""
    weights, cases = decided.judged.weights, decided.judged.weights * decided.judged.is_case
    at = {MODEL: _finite(threshold), BREAK_EVEN: min(decided.costs.break_even, 1.0)}
    return [
        {
            "policy": name,
            "threshold": at.get(name),
            "cost": policies.cost(name),
            "model_saves": None if name == MODEL else policies.saved(name),
            "acted": float(weights @ acts / weights.sum()),
            "reached": float(cases @ acts / cases.sum()) if cases.any() else None,
        }
        for name, acts in zip(policies.names, policies.acts, strict=True)
    ]


def _curve(decided: Decided, threshold: float, drawn: Array) -> list[dict[str, Any]]:
    """Return the cost at thresholds around the chosen one, or around the break-even if that is at an end."""
    judged, centre = decided.judged, threshold if 0 < threshold < 1 else decided.costs.break_even
    places = 1 / (1 + np.exp(-(log_odds(centre) + AROUND)))
    places[len(AROUND) // 2] = centre
    acts = acted(judged.probabilities[:, None], np.append(places, np.inf))  # the last one acts on nobody
    means = Means.of(PER * decided.costs.of(judged.is_case, acts), judged, drawn)
    shares = judged.weights @ acts / judged.weights.sum()
    return [
        {
            "threshold": at,
            "cost": means.estimate(place, decided.factor),
            "saved": means.difference(-1, place, decided.factor),
            "acted": float(shares[place]),
        }
        for place, at in enumerate(places.tolist())
    ]


def _decision_curve(decided: Decided, drawn: Array) -> list[dict[str, Any]]:
    """Return the net benefit of the model, of acting on everybody and on nobody, and by the rule, at thresholds."""
    judged, n = decided.judged, len(DECISION_CURVE)
    of_model = acted(judged.probabilities[:, None], DECISION_CURVE)
    sets = {MODEL: of_model, EVERYBODY: np.ones_like(of_model), NOBODY: np.zeros_like(of_model)}
    if decided.by_rule is not None:
        sets[RULE] = np.broadcast_to(decided.by_rule[:, None], of_model.shape)
    values = np.column_stack([net_benefit(judged.is_case, acts, DECISION_CURVE) for acts in sets.values()])
    means = Means.of(values, judged, drawn)
    rows = []
    for place, at in enumerate(DECISION_CURVE.tolist()):
        better = max((n + place, 2 * n + place), key=lambda column: means.values[column])
        of_sets = {
            name: means.estimate(group * n + place, decided.factor if name == MODEL else 1.0)
            for group, name in enumerate(sets)
        }
        rows.append({"threshold": at, **of_sets, "gain": means.difference(place, better, decided.factor)})
    return rows


def _verdict(decided: Decided, policies: _Policies, threshold: float, acts: Array) -> list[str]:
    """Return the lines of the decision."""
    costs, n, simple = decided.costs, len(acts), policies.simple
    cost = _amount(policies.cost(MODEL))
    if costs.break_even >= 1:
        lines = [
            f"Acting never pays: an action costs {costs.action:g}, and what it prevents is worth "
            f"{costs.saves * costs.case:g} at most, even if a case is certain.",
            f"Acting on nobody costs {cost} per {PER:,} rows, {_beside(policies, EVERYBODY)}.",
        ]
    else:
        lines = [
            _whom(threshold, int(acts.sum()), n),
            f"That costs {cost} per {PER:,} rows, {_beside(policies, NOBODY)} and {_beside(policies, EVERYBODY)}.",
        ]
        if policies.advantage.place != "ahead" and not np.array_equal(
            policies.acts[0], policies.acts[policies.names.index(simple)]
        ):
            lines.append(f"No gain over {WORDS[simple]} is shown, which needs no model.")
    if decided.by_rule is not None:
        by_rule = policies.saved(RULE)
        end = {"ahead": "", "behind": " Keep it.", "level": ""}[by_rule.place]
        lines.append(
            f"Your rule acts on {int(decided.by_rule.sum()):,} and costs {_amount(policies.cost(RULE))}: the model "
            f"costs {_beside(policies, RULE)}.{end}"
        )
    return lines


def _whom(threshold: float, count: int, n: int) -> str:
    """Return the sentence that says on whom to act."""
    if threshold == 0:
        return f"Act on everybody: it pays for all {n:,} rows."
    if not np.isfinite(threshold):
        return f"Act on nobody: it pays for none of {n:,} rows."
    at = f"{threshold:.3g}".removeprefix("0")
    if count == 0:
        return f"Act on those with a probability of {at} or above, which none of {n:,} rows has."
    if count == n:
        return f"Act on those with a probability of {at} or above, which all {n:,} rows have."
    return f"Act on those with a probability of {at} or above: the first {count:,} of {n:,}."


def _beside(policies: _Policies, name: str) -> str:
    """Return how the model's cost compares with that of a policy."""
    saved, other = policies.saved(name), WORDS[name]
    if max(abs(saved.low), abs(saved.high)) <= 1e-9 * policies.cost(MODEL).value:
        return f"the same as {other}"
    if saved.place == "level":
        return f"level with {other} ({_number(-saved.low)} more to {_number(saved.high)} less)"
    size = Estimate(saved.value, saved.low, saved.high)
    if saved.value < 0:
        size = Estimate(-saved.value, -saved.high, -saved.low)
    return f"{_amount(size)} {'less' if saved.value > 0 else 'more'} than {other}"


def _amount(cost: Estimate) -> str:
    """Return a cost with the ends of its interval."""
    return f"{_number(cost.value)} ({_number(cost.low)} to {_number(cost.high)})"


def _number(value: float) -> str:
    """Return a number with three digits, or without decimals from 100 on.

    Example:
        >>> _number(2310.4), _number(0.1234)
        ('2,310', '.123')
    """
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _notes(decided: Decided, policies: _Policies, threshold: float) -> tuple[str, ...]:
    """Return sentences about how the threshold was chosen, and whether the break-even would be another one."""
    costs, saved = decided.costs, policies.saved(BREAK_EVEN)
    even = _number(min(costs.break_even, 1))
    if costs.break_even >= 1:
        return (SAVED,)
    how = (
        f"With true probabilities, acting pays from action / (saves × case) = {even} on. The threshold is where a "
        f"recalibration of the predictions reaches {even}. Entities were divided into {PARTS} parts; the cost is that "
        "on the rows of each part with the threshold of the other parts, and the threshold to use is that of all rows.",
        "The intervals resample entities. The lowest cost of the curve was found on its own rows, so it is too low.",
    )
    if saved.place == "level":
        return (*how, SAVED)
    than = "less" if saved.value > 0 else "more"
    advice = "use the threshold" if saved.value > 0 else f"use {even} instead"
    size = _number(abs(saved.value))
    differ = (
        f"The threshold costs {size} {than} per {PER:,} rows than {even} as it is: the probabilities are not "
        f"calibrated on these rows, or not along the line on which the threshold rests; {advice}."
    )
    return (*how, differ, SAVED)


def _cost_chart(curve: list[dict[str, Any]], policies: _Policies, threshold: float) -> Chart:
    places, series = [row["threshold"] for row in curve], Series([row["saved"] for row in curve])
    nobody, everybody = (policies.cost(name).value for name in (NOBODY, EVERYBODY))

    def draw(axes: Axes) -> None:
        curves(axes, places, series, across="threshold of the probability", up=f"saved per {PER:,} rows")
        level(axes, 0.0, WORDS[NOBODY], right=True)
        level(axes, nobody - everybody, WORDS[EVERYBODY], right=True)
        if 0 < threshold < 1:
            axes.axvline(threshold, color=ORANGE, lw=1.5)

    caption = (
        "By how much it costs less than acting on nobody to act on the rows whose probability is at or above each "
        "threshold, with intervals of 95 %; the upright line is the chosen threshold."
    )
    return Chart("What acting saves by threshold", caption, draw)


def _decision_chart(rows: list[dict[str, Any]]) -> Chart:
    places, colours = [row["threshold"] for row in rows], {MODEL: BLUE, EVERYBODY: ORANGE, NOBODY: GREY, RULE: PINK}
    drawn = {name: colour for name, colour in colours.items() if name in rows[0]}
    series = [Series([row[name] for row in rows], name, Look(colour)) for name, colour in drawn.items()]

    def draw(axes: Axes) -> None:
        curves(axes, places, *series, across="threshold of the probability", up="net benefit")
        top = max(row[name].high for row in rows for name in drawn)
        top = max(top, 0.001)  # cases may be rarer than the least threshold
        axes.set_ylim(-0.5 * top, 1.1 * top)

    caption = (
        "The net benefit at each threshold: the share of rows that are cases and acted on, minus the share of false "
        "alarms times the odds of the threshold (Vickers and Elkin 2006). Predictions are used as they are."
    )
    return Chart("Net benefit by threshold", caption, draw)
