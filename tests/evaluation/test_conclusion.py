"""The verdict: which sentence follows from which scores."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from eventvec.evaluation import Evaluation
from eventvec.evaluation.conclusion import verdict
from eventvec.evaluation.result import Difference, Result, Scores


def evaluation(model: str = "lightgbm", spread: float = 0.01, **means: float) -> Evaluation:
    """Return an evaluation whose sets of features have these means; their folds vary."""
    rng = np.random.default_rng(0)
    main = {name: Scores(tuple(mean + rng.normal(0, spread, 5))) for name, mean in means.items()}
    results = tuple(Result(name, model, 1.0, scores, scores) for name, scores in main.items())
    few = tuple(Result(name, model, 0.1, Scores((0.1, 0.2)), Scores((0.1, 0.2))) for name in means)  # never looked at
    pairs = combinations(sorted(main, key=lambda name: name not in ("both", "embedding_handcrafted")), 2)
    differences = tuple(Difference(a, b, model, 1.0, main[a] - main[b]) for a, b in pairs)
    return Evaluation("churn", "binary", 1000, 5, "cross-validation", True, few + results, differences, ())


def test_the_embedding_is_compared_with_the_strongest_opponent() -> None:
    text = verdict(evaluation(embedding=0.8, aggregates=0.6, handcrafted=0.7, embedding_handcrafted=0.85))
    assert text.startswith("The embedding is ahead of handcrafted by 0.1")
    assert "auroc (lightgbm). Beside handcrafted, it adds +0.1" in text
    text = verdict(evaluation(embedding=0.8, aggregates=0.9, handcrafted=0.7, both=0.9))
    assert text.startswith("The embedding is behind aggregates by 0.")
    assert "Beside aggregates, it adds" in text
    text = verdict(evaluation(embedding=0.8, aggregates=0.6, rfm=0.9))
    assert text.startswith("The embedding is behind rfm by 0.")
    assert "Beside" not in text


@pytest.mark.parametrize(
    ("spread", "sentence"),
    [
        (0.03, "; a difference of 0.03 would take about "),
        (0.003, "; a difference of 0.03 would be seen in four of five draws."),
    ],
)
def test_what_cannot_be_told_comes_with_its_power(spread: float, sentence: str) -> None:
    text = verdict(evaluation(spread=spread, embedding=0.71, handcrafted=0.709))
    assert text.startswith("It cannot be told whether the embedding or handcrafted is ahead: the difference is ")
    assert sentence in text


def test_a_label_that_a_baseline_predicts_as_well_gets_a_warning() -> None:
    sets, warning = {"embedding": 0.8, "handcrafted": 0.7}, "But nothing is clearly ahead of"
    assert warning not in verdict(evaluation(**sets, event_count=0.6, untrained=0.65))
    count = verdict(evaluation(**sets, event_count=0.82, untrained=0.6))
    assert f"{warning} the number of events (0.8" in count
    assert count.endswith("): this label cannot rank features.")
    untrained = verdict(evaluation(**sets, event_count=0.6, untrained=0.82))
    assert f"{warning} an event encoder without training (untrained, 0.8" in untrained
    assert untrained.endswith("): training has not been shown to help with this label.")
    assert "handcrafted" in untrained.partition(warning)[0]  # a baseline is no opponent


def test_the_number_of_labels_follows_from_the_interval_and_a_mean_of_0_has_no_minus() -> None:
    ours, theirs = Scores((0.7499, 0.80, 0.85)), Scores((0.79, 0.80, 0.81))
    results = tuple(Result(n, "knn", 1.0, s, s) for n, s in (("embedding", ours), ("handcrafted", theirs)))
    difference = Difference("embedding", "handcrafted", "knn", 1.0, ours - theirs)
    e = Evaluation("churn", "binary", 300, 3, "cross-validation", True, results, (difference,), ())
    # The differences -.0401, 0, .04 have the half-width .0995, and 300 · (.0995 · 1.4294 / .03)² is 6,742.
    assert "the difference is +0.000 ± 0.099 auroc (knn); a difference of 0.03 would" in verdict(e)
    assert verdict(e).endswith("would take about 6,800 labels, instead of 300.")


def test_power_counts_entities_where_they_have_several_labels() -> None:
    e = evaluation(spread=0.03, embedding=0.71, handcrafted=0.709)
    few = verdict(Evaluation(**{**vars(e), "entities": 100}))
    assert few.endswith("0 entities, instead of 100.")
    assert verdict(e).endswith("0 labels, instead of 1,000.")


def test_an_encoder_that_was_trained_on_labels_is_mentioned() -> None:
    e, warning = (
        evaluation(embedding=0.8, handcrafted=0.7),
        " The encoder was trained on 'churn', and only a hold-out test",
    )
    assert warning in verdict(e, ["churn"])
    assert "trained on" not in verdict(e, [])
    assert "trained on" not in verdict(Evaluation(**{**vars(e), "protocol": "holdout"}), ["churn"])


def test_without_events_or_without_an_embedding_there_is_no_opponent() -> None:
    text = verdict(evaluation(embedding=0.8))
    assert text.startswith("The embedding scores 0.800")
    assert "give the events (--events) to compare it" in text
    assert verdict(evaluation(mine=0.8, yours=0.6)).startswith("mine scores highest, 0.800")


def test_the_first_model_that_was_trained_is_the_one_of_the_verdict() -> None:
    linear, trees = (
        evaluation(model=model, embedding=0.8, handcrafted=0.6) for model in ("logistic_regression", "lightgbm")
    )
    both = {name: getattr(linear, name) + getattr(trees, name) for name in ("results", "differences")}
    assert "(lightgbm)" in verdict(Evaluation(**{**vars(linear), **both}))
    assert "(logistic_regression)" in verdict(linear)
