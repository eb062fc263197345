"""A planted better arm wins, arms of equal worth seldom do, and the cheapest of those that are level is advised."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

import eventvec as ev
from eventvec.comparing.compared import COSTS, answer, choose
from eventvec.statistics import Scores


def decided(features: dict[str, np.ndarray], labels: np.ndarray, seed: int = 0) -> ev.Answer:
    """Return the choice among sets of features, scored by logistic regression in five folds; the last is cheapest."""
    result = ev.score_features(features, labels, models=["logistic_regression"], seed=seed, label="churn")
    costs = {name: {**dict.fromkeys(COSTS, 1), "training": 10.0 - place} for place, name in enumerate(features)}
    return answer(result.basis, costs, {}, "2 epochs", (), ())


def draw(rng: np.random.Generator, n: int, arms: int, lead: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return arms that see the same noisy signal of a label, each with noise of its own; the first sees it better."""
    label = rng.random(n) < 0.5
    noise = [2.0 - lead, *([2.0] * (arms - 1))]
    return {f"arm{i}": (label + each * rng.normal(size=n))[:, None] for i, each in enumerate(noise)}, label


def test_a_planted_arm_wins_and_equal_arms_are_level() -> None:
    rng = np.random.default_rng(0)
    planted = decided(*draw(rng, 600, 4, 1.5))
    assert [planted.facts[name] for name in ("winner", "level", "advised")] == ["arm0", ["arm0"], "arm0"]
    (line,) = planted.verdict
    following = planted.rows[1]["arm"]
    assert line.startswith(f"Use arm0 for churn: arm0 {planted.rows[0]['score']} AUROC, {following} ")
    assert [row["remark"] for row in planted.rows] == ["winner", "", "", ""]
    equal = decided(*draw(rng, 600, 4, 0.0))
    assert equal.facts["winner"] is None
    assert set(equal.facts["level"]) == {"arm0", "arm1", "arm2", "arm3"}
    assert equal.facts["advised"] == "arm3"
    assert equal.verdict[0].startswith("Use arm3 for churn, the cheapest of those that are level: arm3 ")
    assert equal.verdict[1].startswith("There is no winner: ")
    assert equal.verdict[1].endswith(" labels, not 600.")


def test_two_arms_are_one_sentence_with_their_paired_difference() -> None:
    features, labels = draw(np.random.default_rng(0), 600, 2, 1.5)
    result = decided(features, labels)
    lead = result.row("differences", a="arm0", b="arm1")["difference"]
    first, second = (result.row(arm=name)["score"] for name in ("arm0", "arm1"))
    choice = f"taking the best of 2 arms is worth {result.facts['best']} on rows that did not choose it"
    assert result.verdict == (f"Use arm0 for churn: arm0 {first} AUROC, arm1 {second} ({lead}); {choice}.",)


def test_the_width_is_that_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    for arms in (2, 3, 6):
        scores = {f"arm{i}": Scores(tuple(rng.random(5)), rng.random((50, 5))) for i in range(arms)}
        level, leads = choose(scores)
        pairs = len(list(combinations(range(arms), 2)))
        width = norm.ppf(1 - 0.05 / 2 / pairs) / norm.ppf(0.975)
        for name, lead in leads.items():
            assert lead.half_width == pytest.approx(width * (scores[level[0]] - scores[name]).interval, rel=1e-6)


@pytest.mark.filterwarnings("ignore:Degrees of freedom")
def test_arms_without_an_interval_are_level() -> None:
    absent = np.full((50, 2), np.nan)
    level, _ = choose({"a": Scores((0.9, 0.8), absent), "b": Scores((0.5, 0.5), absent)})
    assert level == ["a", "b"]


@pytest.mark.slow
def test_equal_arms_seldom_have_a_winner() -> None:
    rng, draws = np.random.default_rng(1), 300
    winners = sum(decided(*draw(rng, 300, 4, 0.0), seed=i).facts["winner"] is not None for i in range(draws))
    print(winners, draws)  # noqa: T201
    assert winners <= draws * 0.05 + 3 * np.sqrt(draws * 0.05 * 0.95)
