"""The verdict: which lines follow from which scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eventvec.evaluation.conclusion import verdict
from eventvec.evaluation.result import Evaluation, Result
from eventvec.statistics import Scores


def evaluation(model: str = "stacked", spread: float = 0.01, **means: float) -> Evaluation:
    """Return an evaluation whose sets of features have these means; their folds vary."""
    rng = np.random.default_rng(0)
    main = {name.replace("__", ": "): Scores(tuple(mean + rng.normal(0, spread, 5))) for name, mean in means.items()}
    results = tuple(Result(name, model, 1.0, scores, scores) for name, scores in main.items())
    few = tuple(Result(name, model, 0.1, Scores((0.1, 0.2)), Scores((0.1, 0.2))) for name in main)  # never looked at
    return Evaluation("churn", "binary", 1000, 1000, 5, "cross-validation", True, few + results)


def test_the_embedding_is_used_where_it_is_ahead_of_the_strongest_opponent() -> None:
    lines = verdict(evaluation(embedding=0.8, aggregates=0.6, handcrafted=0.7, embedding_handcrafted=0.85))
    assert lines[0].startswith("Use it for churn: embedding .8")
    assert "AUROC, hand-crafted features .6" in lines[0]
    assert "(+.1" in lines[0]
    assert lines[1].startswith("Together with hand-crafted features: .85")
    assert "(+.0" in lines[1]
    assert len(lines) == 2


def test_it_is_used_beside_features_that_it_adds_to() -> None:
    lines = verdict(evaluation(embedding=0.8, handcrafted=0.82, embedding_handcrafted=0.9))
    assert lines[0].startswith("Use it beside hand-crafted features for churn: together .8")
    assert lines[1].startswith("Alone it is ")


def test_it_is_not_used_where_neither_holds_and_the_line_says_what_to_try() -> None:
    lines = verdict(evaluation(embedding=0.8, aggregates=0.9, handcrafted=0.7, both=0.9))
    assert lines[0].startswith("Do not use it yet for churn: embedding .8")
    assert ", aggregates .9" in lines[0]
    assert lines[1].startswith("Together with aggregates: .9")
    assert "another method (eventvec compare)" in lines[2]
    lines = verdict(evaluation(embedding=0.8, aggregates=0.6, rfm=0.9))
    assert ", rfm .8" in lines[0]
    assert not any(line.startswith("Together") for line in lines)


@pytest.mark.parametrize(
    ("spread", "sentence"),
    [
        (0.03, "They are level; to see a difference of 0.03 would take about "),
        (0.003, "Try longer training, other settings"),
    ],
)
def test_what_cannot_be_told_comes_with_the_number_of_labels_that_would_tell(spread: float, sentence: str) -> None:
    lines = verdict(evaluation(spread=spread, embedding=0.71, handcrafted=0.709))
    assert lines[0].startswith("Do not use it yet for churn")
    assert lines[1].startswith(sentence)


def test_the_learned_part_is_compared_with_an_encoder_without_training() -> None:
    lines = verdict(evaluation(embedding=0.8, embedding__learned=0.58, handcrafted=0.7, untrained=0.73))
    (line,) = (line for line in lines if "untrained" in line)
    assert line.startswith("The learned part (.58")
    assert "is behind an untrained encoder (.73" in line
    assert line.endswith("training destroyed information.")
    lines = verdict(evaluation(embedding=0.8, handcrafted=0.7, untrained=0.6))
    assert any(line.startswith("The embedding (.8") and "is ahead of an untrained" in line for line in lines)


def test_a_label_that_a_baseline_predicts_as_well_gets_a_warning() -> None:
    sets, warning = {"embedding": 0.8, "handcrafted": 0.7}, "Nothing is clearly ahead of"
    assert warning not in " ".join(verdict(evaluation(**sets, event_count=0.6, untrained=0.65)))
    count = verdict(evaluation(**sets, event_count=0.82, untrained=0.6))
    assert count[-1].startswith(f"{warning} the number of events (.8")
    assert count[-1].endswith("): this label cannot separate feature sets.")
    untrained = verdict(evaluation(**sets, event_count=0.6, untrained=0.82))
    assert untrained[-1].startswith(f"{warning} the untrained encoder (.8")
    assert untrained[-1].endswith("): for this label, random weights do.")
    assert "hand-crafted" in untrained[0]  # a baseline is no opponent


def test_the_number_of_labels_follows_from_the_interval_and_a_mean_of_0_has_no_minus() -> None:
    ours, theirs = Scores((0.7499, 0.80, 0.85)), Scores((0.79, 0.80, 0.81))
    results = tuple(Result(n, "knn", 1.0, s, s) for n, s in (("embedding", ours), ("handcrafted", theirs)))
    e = Evaluation("churn", "binary", 300, 300, 3, "cross-validation", True, results)
    # The differences -.0401, 0, .04 have the half-width .0995, and 300 · (.0995 · 1.4294 / .03)² is 6,742.
    lines = verdict(e)
    assert lines[0].endswith("(+.000 ± .099).")
    assert lines[1] == "They are level; to see a difference of 0.03 would take about 6,800 labels, not 300."


def test_power_counts_entities_where_they_have_several_labels() -> None:
    e = evaluation(spread=0.03, embedding=0.71, handcrafted=0.709)
    assert verdict(replace(e, entities=100))[1].endswith("0 entities, not 100.")
    assert verdict(e)[1].endswith("0 labels, not 1,000.")


def test_an_encoder_that_was_trained_on_labels_is_mentioned() -> None:
    e, warning = evaluation(embedding=0.8, handcrafted=0.7), "The encoder was trained on 'churn', and only a hold-out"
    assert verdict(e, learned_from=["churn"])[-1].startswith(warning)
    assert "trained on" not in " ".join(verdict(e, learned_from=[]))
    assert "trained on" not in " ".join(verdict(replace(e, protocol="holdout"), learned_from=["churn"]))


def test_a_doubt_is_the_first_line_and_the_only_warning() -> None:
    lines = verdict(evaluation(embedding=0.8, handcrafted=0.7), "Too good to be true.", ["churn"])
    assert lines[0] == "Too good to be true."
    assert len(lines) == 2


def test_without_events_or_without_an_embedding_there_is_no_opponent() -> None:
    lines = verdict(evaluation(embedding=0.8))
    assert lines[0].startswith("For churn, the embedding scores .8")
    assert lines[1].startswith("Give the events (--events) to compare it")
    assert verdict(evaluation(mine=0.8, yours=0.6))[0].startswith("mine scores highest on churn: .8")


def test_a_set_that_was_named_for_its_score_comes_with_what_the_choice_is_worth() -> None:
    def lines(**means: float) -> tuple[str, ...]:
        e = evaluation(spread=0, **means)
        inside = dict(zip(means, ((0.6, 0.6, 0.6, 0.6, 0.6), (0.5, 0.7, 0.5, 0.7, 0.5)), strict=False))
        return verdict(
            replace(e, results=tuple(replace(each, inside=inside.get(each.features, (0.0,) * 5)) for each in e.results))
        )

    rule = " is worth .660 ± .068 on rows that did not choose it."
    assert lines(mine=0.7, yours=0.6) == (
        f"mine scores highest on churn: .700 ± .000 AUROC; taking the best of 2{rule}",
    )
    assert lines(mine=0.7, yours=0.6, embedding=0.8)[0].endswith(f"; taking the best of 2 others{rule}")
    assert lines(mine=0.7, yours=0.6, embedding=0.5)[0].endswith(f"; taking the best of 2 others{rule}")
    assert "taking" not in " ".join(lines(mine=0.7, embedding=0.6, untrained=0.5))
    assert "taking" not in " ".join(lines(mine=0.7))


def test_the_first_model_that_was_trained_is_the_one_of_the_verdict() -> None:
    linear = evaluation(model="logistic_regression", embedding=0.8, handcrafted=0.6)
    trees = evaluation(model="lightgbm", embedding=0.8, handcrafted=0.9)
    assert verdict(replace(linear, results=linear.results + trees.results)) == verdict(trees) != verdict(linear)


@pytest.mark.parametrize("seed", range(20))
def test_a_verdict_has_five_lines_at_most(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = ("embedding", "embedding__learned", "handcrafted", "untrained", "event_count", "embedding_handcrafted")
    e = evaluation(spread=float(rng.choice([0.002, 0.05])), **{name: float(rng.uniform(0.6, 0.8)) for name in names})
    assert 2 <= len(verdict(e, learned_from=["x"])) <= 5
