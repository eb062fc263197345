"""The answer of `decide`: the verdict, the policies beside one another, the curve of costs, and the decision curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eventvec.answers import Answer
from eventvec.answers.charts import BLUE, GREY, ORANGE, PINK, Axes, Chart, Look, Series, curves, level
from eventvec.predicting.decision_rows import DecisionRows
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.statistics.decision_costs import (
    PARTS,
    Costs,
    Resampled,
    chosen_apart,
    divide,
    means,
    net_benefit,
    paying_threshold,
)
from eventvec.statistics.resampling import resample
from eventvec.tables.label_times import doubts

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
class _Decision:
    """What the policies do and cost.

    Args:
        rows: The rows.
        costs: What an action and a case cost.
        drawn: `(replicates, entities)` how often each entity counts, see `resampling.resample`.
        threshold: The threshold to use, which is chosen on all rows.
        acts: `(n,)` bool, whom each policy acts on, by its name.
        costing: What each policy costs per `PER` rows. The thresholds of the model are chosen anew on resampled
            entities.
    """

    rows: DecisionRows
    costs: Costs
    drawn: Array
    threshold: float
    acts: dict[str, Array]
    costing: dict[str, Resampled]

    def cost(self, name: str) -> Estimate:
        """Return what a policy costs."""
        return self.costing[name].estimate(self.rows.factor if name in (MODEL, BREAK_EVEN) else 1.0, least=0)

    def saved(self, name: str) -> Estimate:
        """Return by how much the model costs less than a policy, below 0 where it costs more."""
        return (self.costing[name] - self.costing[MODEL]).estimate(self.rows.factor, signed=True)

    @property
    def simple(self) -> str:
        """The cheaper one of acting on nobody and on everybody."""
        return min((NOBODY, EVERYBODY), key=lambda name: self.costing[name].value)

    @property
    def advantage(self) -> Estimate:
        """By how much the model costs less than the cheaper one, which is chosen anew on resampled entities."""
        nobody, everybody = self.costing[NOBODY], self.costing[EVERYBODY]
        cheaper = Resampled(min(nobody.value, everybody.value), np.minimum(nobody.again, everybody.again))
        return (cheaper - self.costing[MODEL]).estimate(self.rows.factor, signed=True)


def answered(rows: DecisionRows, costs: Costs, label: str, of: str, seed: int, with_net_benefit: bool) -> Answer:
    """Return the answer to what is decided.

    Args:
        rows: The rows.
        costs: What an action and a case cost.
        label: The name of the label.
        of: The class that is a case.
        seed: The seed of the parts and of the resampling.
        with_net_benefit: Whether there is a decision curve too.
    """
    judged, parts = rows.judged, divide(rows.judged.entities, seed)
    drawn = resample(judged.entities, seed=seed)
    chosen = chosen_apart(judged, costs, parts, drawn)
    acts = {
        MODEL: chosen.acts,
        BREAK_EVEN: judged.probabilities >= costs.break_even,
        NOBODY: np.zeros_like(chosen.acts),
        EVERYBODY: np.ones_like(chosen.acts),
    }
    acts |= {} if rows.by_rule is None else {RULE: rows.by_rule}
    fixed = means(PER * costs.of(judged.is_case, np.column_stack(list(acts.values()))), judged, drawn)
    costing = dict(zip(acts, [Resampled(fixed[0].value, PER * chosen.again), *fixed[1:]], strict=True))
    decision = _Decision(rows, costs, drawn, paying_threshold(judged, costs), acts, costing)
    tables: dict[str, Any] = {"policies": _policies(decision)}
    figures: tuple[Chart, ...] = ()
    if costs.break_even < 1:
        tables["curve"] = _curve(decision)
        figures = (_cost_chart(tables["curve"], decision),)
        counts = np.bincount(parts[judged.groups], minlength=PARTS).tolist()
        tables["parts"] = [
            {"part": part, "rows": count, "threshold": _finite(each)}
            for part, (count, each) in enumerate(zip(counts, chosen.thresholds.tolist(), strict=True), 1)
        ]
    if with_net_benefit:
        tables["net_benefit"] = _decision_curve(decision)
        figures = (*figures, _decision_chart(tables["net_benefit"]))
    acted = int((judged.probabilities >= decision.threshold).sum())
    facts = {
        "label": label, "of": of, "rows": len(judged.is_case), "entities": judged.entities,
        "cases": int(judged.is_case.sum()), "action": costs.action, "case": costs.case, "saves": costs.saves,
        "threshold": _finite(decision.threshold), "break_even": costs.break_even, "acted": acted,
        "cost": decision.cost(MODEL), "advantage": decision.advantage,
    }  # fmt: skip
    about = doubts(rows.notes)
    verdict = (*_verdict(decision, acted)[: 5 - len(about)], *about)
    return Answer(verdict, tables, (*_notes(decision), *rows.notes), figures, facts, title=f"On whom to act: {label}")


def _finite(threshold: float) -> float | None:
    return threshold if np.isfinite(threshold) else None


def _policies(decision: _Decision) -> list[dict[str, Any]]:
    """Return the table of policies."""
    judged = decision.rows.judged
    weights, cases = judged.weights, judged.weights * judged.is_case
    at = {MODEL: _finite(decision.threshold), BREAK_EVEN: min(decision.costs.break_even, 1.0)}
    return [
        {
            "policy": name,
            "threshold": at.get(name),
            "cost": decision.cost(name),
            "model_saves": None if name == MODEL else decision.saved(name),
            "acted": float(weights @ acts / weights.sum()),
            "reached": float(cases @ acts / cases.sum()) if cases.any() else None,
        }
        for name, acts in decision.acts.items()
    ]


def _curve(decision: _Decision) -> list[dict[str, Any]]:
    """Return the cost at thresholds around the chosen one, or around the break-even if that is at an end."""
    judged, factor = decision.rows.judged, decision.rows.factor
    centre = decision.threshold if 0 < decision.threshold < 1 else decision.costs.break_even
    odds = centre / (1 - centre) * np.exp(AROUND)
    places = odds / (1 + odds)
    places[len(AROUND) // 2] = centre
    acts = judged.probabilities[:, None] >= np.append(places, np.inf)  # the last one acts on nobody
    *costing, nobody = means(PER * decision.costs.of(judged.is_case, acts), judged, decision.drawn)
    shares = judged.weights @ acts / judged.weights.sum()
    return [
        {
            "threshold": at,
            "cost": cost.estimate(factor, least=0),
            "saved": (nobody - cost).estimate(factor, signed=True),
            "acted": share,
        }
        for at, cost, share in zip(places.tolist(), costing, shares[:-1].tolist(), strict=True)
    ]


def _decision_curve(decision: _Decision) -> list[dict[str, Any]]:
    """Return the net benefit of the model, of acting on everybody and on nobody, and by the rule, at thresholds."""
    judged, n = decision.rows.judged, len(DECISION_CURVE)
    of_model = judged.probabilities[:, None] >= DECISION_CURVE
    others = [name for name in (EVERYBODY, NOBODY, RULE) if name in decision.acts]
    sets = {MODEL: of_model} | {name: np.repeat(decision.acts[name][:, None], n, 1) for name in others}
    columns = dict[str, list[Estimate]]()
    for name, acts in sets.items():
        benefits = means(net_benefit(judged.is_case, acts, DECISION_CURVE), judged, decision.drawn)
        columns[name] = [each.estimate(decision.rows.factor if name == MODEL else 1.0) for each in benefits]
    return [
        {"threshold": at, **{name: column[place] for name, column in columns.items()}}
        for place, at in enumerate(DECISION_CURVE.tolist())
    ]


def _verdict(decision: _Decision, acted: int) -> list[str]:
    """Return the lines of the decision."""
    costs, simple, n = decision.costs, decision.simple, len(decision.rows.judged.is_case)
    cost = _amount(decision.cost(MODEL))
    if costs.break_even >= 1:
        lines = [
            f"Acting never pays: an action costs {costs.action:g}, and what it prevents is worth "
            f"{costs.saves * costs.case:g} at most, even if a case is certain.",
            f"Acting on nobody costs {cost} per {PER:,} rows, {_beside(decision, EVERYBODY)}.",
        ]
    else:
        lines = [
            _whom(decision.threshold, acted, n),
            f"That costs {cost} per {PER:,} rows, {_beside(decision, NOBODY)} and {_beside(decision, EVERYBODY)}.",
        ]
        differs = not np.array_equal(decision.acts[MODEL], decision.acts[simple])
        if decision.advantage.place != "ahead" and differs:
            lines.append(f"No gain over {WORDS[simple]} is shown, which needs no model.")
    if RULE in decision.acts:
        beside, end = _beside(decision, RULE), " Keep it." if decision.saved(RULE).place == "behind" else ""
        lines.append(
            f"Your rule acts on {int(decision.acts[RULE].sum()):,} and costs {_amount(decision.cost(RULE))}: the model "
            f"{'is' if beside.startswith('level') else 'costs'} {beside}.{end}"
        )
    return lines


def _whom(threshold: float, count: int, n: int) -> str:
    """Return the sentence that says on whom to act."""
    if threshold == 0:
        return f"Act on everybody: it pays for all {n:,} rows."
    if not np.isfinite(threshold):
        return f"Act on nobody: it pays for none of {n:,} rows."
    at = _number(threshold) if threshold < 0.9995 else f"{threshold:.6f}".removeprefix("0")
    if count == 0:
        return f"Act on those with a probability of {at} or above, which none of {n:,} rows has."
    if count == n:
        return f"Act on those with a probability of {at} or above, which all {n:,} rows have."
    return f"Act on those with a probability of {at} or above: the first {count:,} of {n:,}."


def _beside(decision: _Decision, name: str) -> str:
    """Return how the model's cost compares with that of a policy."""
    saved, other = decision.saved(name), WORDS[name]
    if max(abs(saved.low), abs(saved.high)) <= 1e-9 * decision.cost(MODEL).value:
        return f"the same as {other}"
    if saved.place == "level":
        return f"level with {other} ({_number(-saved.low)} more to {_number(saved.high)} less)"
    if saved.value > 0:
        return f"{_amount(saved)} less than {other}"
    return f"{_amount(Estimate(-saved.value, -saved.high, -saved.low))} more than {other}"


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


def _notes(decision: _Decision) -> tuple[str, ...]:
    """Return sentences about how the threshold was chosen, and whether the break-even would be another one."""
    if decision.costs.break_even >= 1:
        return (SAVED,)
    even, saved = _number(decision.costs.break_even), decision.saved(BREAK_EVEN)
    how = (
        f"With true probabilities, acting pays from action / (saves × case) = {even} on. The threshold is where a "
        f"recalibration of the predictions reaches {even}. Entities were divided into {PARTS} parts; the cost is that "
        "on the rows of each part with the threshold of the other parts, and the threshold to use is that of all rows.",
        "The intervals resample entities. The lowest cost of the curve was found on its own rows, so it is too low.",
    )
    if saved.place == "level":
        return (*how, SAVED)
    than, advice = ("less", "use the threshold") if saved.value > 0 else ("more", f"use {even} instead")
    differ = (
        f"The threshold costs {_number(abs(saved.value))} {than} per {PER:,} rows than {even} as it is: the "
        "probabilities are not calibrated on these rows, or not along the line on which the threshold rests; "
        f"{advice}."
    )
    return (*how, differ, SAVED)


def _cost_chart(curve: list[dict[str, Any]], decision: _Decision) -> Chart:
    places, series = [row["threshold"] for row in curve], Series([row["saved"] for row in curve])
    nobody, everybody = (decision.cost(name).value for name in (NOBODY, EVERYBODY))

    def draw(axes: Axes) -> None:
        curves(axes, places, series, across="threshold of the probability", up=f"saved per {PER:,} rows")
        level(axes, 0.0, WORDS[NOBODY], right=True)
        level(axes, nobody - everybody, WORDS[EVERYBODY], right=True)
        if 0 < decision.threshold < 1:
            axes.axvline(decision.threshold, color=ORANGE, lw=1.5)

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
