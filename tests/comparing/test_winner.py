"""A planted better arm wins, arms of equal worth seldom do, and the cheapest of those that are level is advised."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

import eventvec as ev
from eventvec.comparing.winner import Choice, choose, width


def decided(features: dict[str, np.ndarray], labels: np.ndarray, seed: int = 0) -> Choice:
    """Return the choice among sets of features, scored by logistic regression in five folds."""
    result = ev.score_features(features, labels, models=["logistic_regression"], seed=seed)
    scores = {r.features: r.main for r in result.results}
    cost = {name: float(10 - place) for place, name in enumerate(features)}
    return choose(scores, result.differences, cost, result.n, result.metric)


def draw(rng: np.random.Generator, n: int, arms: int, lead: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return arms that see the same noisy signal of a label, each with noise of its own; the first sees it better."""
    label = rng.random(n) < 0.5
    noise = [2.0 - lead, *([2.0] * (arms - 1))]
    return {f"arm{i}": (label + each * rng.normal(size=n))[:, None] for i, each in enumerate(noise)}, label


def test_a_planted_arm_wins_and_equal_arms_are_level() -> None:
    rng = np.random.default_rng(0)
    planted = decided(*draw(rng, 600, 4, 1.5))
    assert (planted.winner, planted.level, planted.advised) == ("arm0", ("arm0",), "arm0")
    assert "arm0 is ahead of all other arms" in planted.sentence
    equal = decided(*draw(rng, 600, 4, 0.0))
    assert equal.winner is None
    assert set(equal.level) == {"arm0", "arm1", "arm2", "arm3"}
    assert equal.advised == "arm3"
    assert "There is no winner" in equal.sentence
    assert "with 600 labels" in equal.sentence


def test_the_width_is_that_of_all_pairs() -> None:
    for arms in (2, 3, 6):
        pairs = len(list(combinations(range(arms), 2)))
        assert width(arms) == pytest.approx(norm.ppf(1 - 0.05 / 2 / pairs) / norm.ppf(0.975), abs=1e-6)


@pytest.mark.slow
def test_equal_arms_seldom_have_a_winner() -> None:
    rng, draws = np.random.default_rng(1), 300
    winners = sum(decided(*draw(rng, 300, 4, 0.0), seed=i).winner is not None for i in range(draws))
    print(winners, draws)  # noqa: T201
    assert winners <= draws * 0.05 + 3 * np.sqrt(draws * 0.05 * 0.95)
