"""What acting costs, the threshold from which it pays, and the net benefit, against loops, other fits and chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from eventvec.errors import ConfigError
from eventvec.sequences import Array
from eventvec.statistics.decision_costs import (
    SHIFT,
    SLOPE,
    Costs,
    Judged,
    Resampled,
    chosen_apart,
    divide,
    means,
    paying_threshold,
    recalibrate,
)
from eventvec.statistics.resampling import resample


def judged(n: int = 2000, seed: int = 0, spread: float = 1.0, rows_each: int = 1) -> Judged:
    """Return rows with calibrated probabilities around .1."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(2.2 - spread * rng.normal(size=n)))
    groups = np.arange(n) // rows_each
    return Judged(p, (rng.random(n) < p).astype(float), rng.uniform(0.5, 2, n), groups)


def bent(rows: Judged, shift: float, slope: float) -> Judged:
    """Return the rows with probabilities whose log-odds are multiplied and shifted."""
    z = np.log(rows.probabilities / (1 - rows.probabilities))
    return Judged(1 / (1 + np.exp(-(slope * z + shift))), rows.is_case, rows.weights, rows.groups)


def test_the_cost_of_rows_is_that_of_a_loop() -> None:
    costs, rng = Costs(3, 40, 0.3), np.random.default_rng(0)
    is_case, acts = (rng.random((2, 50)) < 0.5).astype(float)
    expected = []
    for case, act in zip(is_case, acts, strict=True):
        cost = 3.0 if act else 0.0
        if case:
            cost += 40 * 0.7 if act else 40
        expected.append(cost)
    assert np.allclose(costs.of(is_case, acts), expected)
    both = costs.of(is_case, np.column_stack([acts, 1 - acts]))
    assert np.allclose(both[:, 0], expected)
    assert np.allclose(both[:, 1], costs.of(is_case, 1 - acts))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"action": 0.0}, "action must be above 0 and finite, got 0.0"),
        ({"case": float("inf")}, "case must be above 0 and finite, got inf"),
        ({"case": float("nan")}, "case must be above 0 and finite, got nan"),
        ({"saves": 0.0}, r"saves must be in \(0, 1\], got 0.0"),
        ({"saves": 1.1}, r"saves must be in \(0, 1\], got 1.1"),
    ],
)
def test_costs_and_shares_out_of_range_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Costs(**{"action": 1.0, "case": 40.0, **wrong})


def test_where_what_an_action_prevents_is_worth_nothing_it_never_pays() -> None:
    assert Costs(1, 1e-320, 1e-10).break_even == Costs(1, 1e-320, 1e-10).aim == np.inf


@pytest.mark.parametrize("weighted", [False, True])
def test_the_line_has_the_greatest_posterior_probability(weighted: bool) -> None:
    rows = bent(judged(400), 0.7, 1.5)
    rows = rows if weighted else Judged(rows.probabilities, rows.is_case, np.ones(400), rows.groups)
    fitted, z = recalibrate(rows), np.log(rows.probabilities / (1 - rows.probabilities))
    weights = rows.weights / rows.weights.mean()
    centre = np.average(z, weights=weights)

    def loss(line: Array) -> float:
        p = 1 / (1 + np.exp(-(line[0] + line[1] * (z - centre))))
        prior = ((line[0] - centre) / SHIFT) ** 2 / 2 + ((line[1] - 1) / SLOPE) ** 2 / 2
        return prior - weights @ (rows.is_case * np.log(p) + (1 - rows.is_case) * np.log(1 - p))

    best = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}).x
    assert fitted.centre == pytest.approx(centre)
    assert fitted.line == pytest.approx(best, abs=1e-5)


def test_a_row_pulls_the_line_as_one_more_copy_of_it_does() -> None:
    """The pulls are of first order, so a row that counts a little more is compared, for which others count less."""
    rows, more = judged(300), 1e-4
    fitted, share = recalibrate(rows), rows.weights / rows.weights.sum()
    for row in (0, 7, int(rows.is_case.argmax())):
        weights = rows.weights.copy()
        weights[row] *= 1 + more
        again = recalibrate(Judged(rows.probabilities, rows.is_case, weights, rows.groups))
        moved = again.line + again.line[1] * np.array([fitted.centre - again.centre, 0])  # at the same centre
        expected = fitted.pulls[row] - share[row] * fitted.pulls.sum(0)
        assert (moved - fitted.line) / more == pytest.approx(expected, rel=0.02, abs=1e-3)


@pytest.mark.parametrize("break_even", [0.05, 0.083, 0.2, 0.3])
def test_for_calibrated_probabilities_the_threshold_is_near_the_break_even(break_even: float) -> None:
    chosen = [paying_threshold(judged(3000, seed), Costs(break_even, 1)) for seed in range(8)]
    assert np.mean(chosen) == pytest.approx(break_even, rel=0.08)
    assert max(abs(np.log(np.array(chosen) / break_even))) < 0.4


@pytest.mark.parametrize(("shift", "slope"), [(0.7, 1.0), (-0.7, 1.0), (0.0, 1.5), (0.0, 0.6)])
def test_for_others_the_threshold_is_bent_as_they_are(shift: float, slope: float) -> None:
    rows, at = bent(judged(50_000), shift, slope), np.log(0.2 / 0.8)
    expected = 1 / (1 + np.exp(-(slope * at + shift)))
    assert paying_threshold(rows, Costs(0.2, 1)) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("size", [20, 200])
def test_thresholds_are_fine_where_predictions_are_certain_constant_or_reversed(size: int) -> None:
    is_case, rows = (np.arange(size) % 5 == 0).astype(float), np.arange(size)
    for predictions in (is_case, 1 - is_case, np.full(size, 0.2), np.zeros(size), np.ones(size)):
        for break_even in (1e-9, 0.1, 0.5, 0.999999, 1.0, 7.0):
            threshold = paying_threshold(Judged(predictions, is_case, np.ones(size), rows), Costs(break_even, 1))
            assert threshold >= 0
    perfect = Judged(is_case, is_case, np.ones(size), rows)
    assert (is_case >= paying_threshold(perfect, Costs(0.5, 1))).tolist() == is_case.astype(bool).tolist()
    assert paying_threshold(perfect, Costs(1.0, 1)) == np.inf


def test_reversed_predictions_act_on_all_or_on_none() -> None:
    low = np.arange(4000) % 2 == 0
    is_case = (np.random.default_rng(0).random(4000) < np.where(low, 0.3, 0.15)).astype(float)
    rows = Judged(np.where(low, 0.1, 0.3), is_case, np.ones(4000), np.arange(4000))
    assert recalibrate(rows).line[1] < 0
    assert paying_threshold(rows, Costs(0.05, 1)) == 0
    assert paying_threshold(rows, Costs(0.5, 1)) == np.inf


def test_parts_are_of_entities_and_equally_large() -> None:
    counts = np.bincount(divide(1003, 0))
    assert sorted(counts) == [200, 200, 201, 201, 201]
    assert not np.array_equal(divide(1003, 0), divide(1003, 1))


def test_the_threshold_of_a_part_does_not_see_its_rows() -> None:
    rows, costs = judged(600, rows_each=3), Costs(1, 5)
    parts, drawn = divide(200, 0), resample(200, seed=0)[:20]
    before = chosen_apart(rows, costs, parts, drawn)
    inside = parts[rows.groups] == 2
    is_case = rows.is_case.copy()
    is_case[inside] = np.random.default_rng(1).permutation(1 - is_case[inside])
    after = chosen_apart(Judged(rows.probabilities, is_case, rows.weights, rows.groups), costs, parts, drawn)
    same = before.thresholds == after.thresholds
    assert same.tolist() == [False, False, True, False, False]
    assert np.array_equal(before.acts[inside], after.acts[inside])
    others = parts[rows.groups] != 2
    alone = Judged(rows.probabilities[others], rows.is_case[others], rows.weights[others], rows.groups[others])
    assert before.thresholds[2] == paying_threshold(alone, Costs(0.2, 1))
    for part, threshold in enumerate(before.thresholds):
        of_part = parts[rows.groups] == part
        assert np.array_equal(before.acts[of_part], rows.probabilities[of_part] >= threshold)


def test_thresholds_are_chosen_again_on_resampled_entities() -> None:
    """They are near those of a fit on the resampled entities, of which the step is the first one."""
    rows, costs = judged(3000, rows_each=3), Costs(1, 5)
    parts, drawn = divide(1000, 0), resample(1000, seed=0)[:12]
    chosen = chosen_apart(rows, costs, parts, drawn)
    fixed = costs.of(rows.is_case, chosen.acts) * rows.weights
    exact, plain = [], []
    for counts in drawn:
        times, of_rows = counts[rows.groups], parts[rows.groups]
        cost = 0.0
        for part in range(5):
            others, inside = (of_rows != part) & (times > 0), of_rows == part
            weights = rows.weights[others] * times[others]
            again = Judged(rows.probabilities[others], rows.is_case[others], weights, rows.groups[others])
            acts = rows.probabilities[inside] >= paying_threshold(again, Costs(0.2, 1))
            cost += (times * rows.weights)[inside] @ costs.of(rows.is_case[inside], acts)
        exact.append(cost / (times @ rows.weights))
        plain.append(times @ fixed / (times @ rows.weights))
    error, without = (np.abs(each - np.array(exact)).max() for each in (chosen.again, plain))
    assert error < 0.01 * np.mean(exact)
    assert error < 0.5 * without


def test_where_acting_never_pays_nobody_is_acted_on() -> None:
    rows = judged(100)
    chosen = chosen_apart(rows, Costs(1, 2, 0.5), divide(100, 0), resample(100, seed=0)[:50])
    assert not chosen.acts.any()
    assert np.isinf(chosen.thresholds).all()
    (nobody,) = means(2 * rows.is_case[:, None], rows, resample(100, seed=0)[:50])
    assert np.allclose(chosen.again, nobody.again)


def test_means_on_resampled_entities_are_those_of_a_loop() -> None:
    rows, drawn = judged(60, rows_each=3), resample(20, seed=3)[:7]
    values = np.random.default_rng(0).normal(size=(60, 2))
    first, other = both = means(values, rows, drawn)
    assert np.allclose([each.value for each in both], [np.average(each, weights=rows.weights) for each in values.T])
    for row, counts in enumerate(drawn):
        copies = np.concatenate([np.repeat(i, counts[rows.groups[i]]) for i in range(60)])
        for column, each in enumerate(both):
            expected = np.average(values[copies, column], weights=rows.weights[copies])
            assert each.again[row] == pytest.approx(expected)
    difference = (first - other).estimate(signed=True)
    assert difference.value == pytest.approx(first.value - other.value)
    assert difference.half_width == pytest.approx(1.96 * np.std(first.again - other.again, ddof=1), rel=1e-4)
    assert (first - other).estimate(4.0).half_width == pytest.approx(2 * difference.half_width)


@pytest.mark.parametrize("relative", [0.5, 1.0, 1.2])
def test_random_labels_show_no_advantage(relative: float) -> None:
    """Also where acting on nobody and on everybody cost the same, which is where choosing between them errs most."""
    rate, n = 0.2, 300
    costs, covered = Costs(1, 1 / (rate * relative)), 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = 1 / (1 + np.exp(1.39 - rng.normal(size=n)))
        rows = Judged(p, (rng.random(n) < rate).astype(float), np.ones(n), np.arange(n))
        drawn = resample(n, seed=seed)[:200]
        chosen = chosen_apart(rows, costs, divide(n, seed), drawn)
        acts = np.column_stack([chosen.acts, np.zeros(n, bool), np.ones(n, bool)])
        model, nobody, everybody = means(costs.of(rows.is_case, acts), rows, drawn)
        cheaper = Resampled(min(nobody.value, everybody.value), np.minimum(nobody.again, everybody.again))
        advantage = (cheaper - Resampled(model.value, chosen.again)).estimate()
        covered += advantage.low <= 0 <= advantage.high
    assert covered >= 37
