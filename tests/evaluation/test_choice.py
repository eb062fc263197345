"""The score of a choice: at chance on random labels in every protocol, and a plain loop of what is chosen inside."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import rankdata

from eventvec.evaluation import score_features
from eventvec.evaluation.choice import best, candidates, chosen_best, worth
from eventvec.evaluation.result import Result
from eventvec.learners import single_learners
from eventvec.learners.folds import cross_validation, holdout_splits
from eventvec.learners.metrics import measure
from eventvec.learners.prepared import divided
from eventvec.learners.resampled_scores import replicates
from eventvec.learners.single_learners import Samples
from eventvec.learners.task import target
from eventvec.statistics import Estimate, Scores
from eventvec.statistics.resampling import resample

ROWS, SETS, COLUMNS = 120, 5, 10
Arms = dict[str, Result]


def means_apart(x: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return predictions along the line between the means of two classes: a model that takes microseconds."""
    return np.asarray(test @ (x[y == 1].mean(0) - x[y == 0].mean(0)))


def area(y: np.ndarray, predicted: np.ndarray) -> float:
    positive = y == 1
    m, n = positive.sum(), (~positive).sum()
    return float((rankdata(predicted)[positive].sum() - m * (m + 1) / 2) / (m * n))


def drawn(seed: int, protocol: str) -> Arms:
    """Return the results of `means_apart` on random sets of features, with random labels."""
    rng = np.random.default_rng(seed)
    labels = target(rng.random(ROWS) < 0.5)
    if protocol == "holdout":
        splits = holdout_splits(labels, np.arange(ROWS) < ROWS // 2, 5, None, seed)
    else:
        splits = cross_validation(labels, 5, None, seed)
    resampled, results, y = resample(ROWS, seed=seed)[:200], Arms(), labels.y
    for name in map(str, range(SETS)):
        x, values, again, inside = rng.normal(size=(ROWS, COLUMNS)), list[float](), [], list[float]()
        for train, test in splits:
            predicted = means_apart(x[train], y[train], x[test])
            values.append(area(y[test], predicted))
            again.append(replicates("binary", y[test], predicted, resampled[:, test])[:, 0])
            parts = divided(Samples("binary", 2, x[train], y[train], x[test]), 3)
            out = np.empty(len(train))
            for part in range(3):
                rest, left = train[parts != part], train[parts == part]
                out[parts == part] = means_apart(x[rest], y[rest], x[left])
            inside.append(area(y[train], out))
        scores = Scores(tuple(values), np.stack(again, 1), protocol == "holdout")
        results[name] = Result(name, "linear", 1.0, scores, scores, inside=tuple(inside))
    return results


def highest(results: Arms) -> Scores:
    return max((each.main for each in results.values()), key=lambda scores: scores.mean)


def on_other_folds(results: Arms) -> Scores:
    """Return the scores of the set that is best in the other folds, whose models were trained on this fold's rows."""
    means = {name: np.array(each.main.values) for name, each in results.items()}
    inside = {name: tuple(np.delete(each, fold).mean() for fold in range(5)) for name, each in means.items()}
    scores = chosen_best({name: replace(each, inside=inside[name]) for name, each in results.items()})
    assert scores is not None
    return scores


def law(scores: list[Estimate]) -> tuple[float, float, float]:
    """Return by how much a mean is above chance, its standard error, and the share of intervals above chance."""
    values = [each.value for each in scores]
    return np.mean(values) - 0.5, np.std(values) / np.sqrt(len(values)), float(np.mean([s.low > 0.5 for s in scores]))


def assert_the_law_holds(scores: list[Estimate]) -> None:
    bias, error, above = law(scores)
    assert abs(bias) <= 0.01 + 2 * error
    assert above <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / len(scores))


@pytest.mark.parametrize("protocol", ["cross-validation", "holdout"])
def test_the_best_of_random_sets_is_at_chance_and_the_highest_score_is_not(protocol: str) -> None:
    draws = [drawn(seed, protocol) for seed in range(80)]
    assert law([highest(results).estimate for results in draws])[0] > 0.05
    assert_the_law_holds([score for results in draws if (score := best(results))])
    if protocol == "cross-validation":
        assert law([on_other_folds(results).estimate for results in draws])[0] > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["cross-validation", "holdout", "date"])
def test_the_law_holds_for_what_score_features_prints(protocol: str) -> None:
    printed, naive, later = [], [], np.arange(ROWS) < ROWS // 2
    for seed in range(200):
        rng = np.random.default_rng(seed)
        labels = rng.random(ROWS) < 0.5
        sets = {str(place): rng.normal(size=(ROWS, COLUMNS)) for place in range(SETS)}
        sides = {"holdout": {"holdout": later}, "date": {"later": later, "entities": np.arange(ROWS)}}
        answer = score_features(sets, labels, models=["logistic_regression"], **sides.get(protocol, {}))
        printed.append(answer.facts["best"])
        naive.append(highest(answer.basis.deciding).estimate)
    print(protocol, law(printed), law(naive))  # noqa: T201
    assert law(naive)[0] > 0.02
    assert_the_law_holds(printed)


@pytest.mark.parametrize("protocol", ["cross-validation", "holdout"])
def test_each_fold_has_the_score_of_the_set_that_is_best_inside_its_training_part(protocol: str) -> None:
    rng = np.random.default_rng(0)
    labels = target(y := rng.random(ROWS) < 0.4)
    sets = {name: rng.normal(size=(ROWS, 3)) + 0.3 * y[:, None] for name in ("a", "b", "c")}
    held_out = np.arange(ROWS) < 40 if protocol == "holdout" else None
    answer = score_features(sets, y, folds=4, models=["logistic_regression"], seed=7, holdout=held_out)
    if held_out is None:
        splits = cross_validation(labels, 4, None, 7)
    else:
        splits = holdout_splits(labels, held_out, 4, None, 7)
    expected, names = [], []
    for train, test in splits:
        inside, scores = {}, {}
        for name, x in sets.items():
            job = Samples("binary", 2, x[train], labels.y[train], x[test], 7)
            parts, out = divided(job, 3), np.empty(len(train))
            for part in range(3):
                rest, left = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
                out[left] = single_learners.linear_model(Samples("binary", 2, job.x[rest], job.y[rest], job.x[left]))
            inside[name] = measure("binary", job.y, out)[0]
            scores[name] = measure("binary", labels.y[test], single_learners.linear_model(job))[0]
        names.append(max(inside, key=lambda name: inside[name]))
        expected.append(scores[names[-1]])
    scores = chosen_best(answer.basis.deciding)
    assert scores is not None
    assert scores.values == pytest.approx(expected)
    for fold, name in enumerate(names):
        alone = answer.basis.deciding[name].main.replicates
        assert np.array_equal(scores.replicates[:, fold], alone[:, fold], equal_nan=True)
    assert scores.same_test == (protocol == "holdout")
    assert answer.facts["best"] == scores.estimate


@pytest.mark.parametrize("task", ["binary", "multiclass", "numeric", "multilabel"])
@pytest.mark.parametrize("stacked", [True, False])
def test_a_choice_has_a_score_in_every_task(task: str, stacked: bool) -> None:
    rng = np.random.default_rng(0)
    signal, n = rng.normal(size=90), 90
    labels = {
        "binary": signal > 0, "multiclass": np.digitize(signal, (-0.5, 0.5)), "numeric": signal,
        "multilabel": {"a": signal > 0, "b": signal > 1},
    }[task]  # fmt: skip
    linear = "ridge" if task == "numeric" else "logistic_regression"
    sets = {"noise": rng.normal(size=(n, 2)), "signal": signal[:, None] + 0.1 * rng.normal(size=(n, 2))}
    answer = score_features(sets, labels, folds=3, models=None if stacked else [linear], weights=rng.uniform(1, 2, n))
    assert str(answer.facts["best"]) == str(answer.row(features="signal")["score"])


def test_only_what_a_verdict_may_advise_is_chosen_among() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(ROWS) < 0.4
    names = ("embedding", "embedding: learned", "handcrafted", "untrained")
    sets = {name: rng.normal(size=(ROWS, 2)) + y[:, None] for name in names}
    answer = score_features(sets, y, folds=3, models=["knn", "logistic_regression"], fractions=(0.5, 1.0))
    cells = answer.basis.deciding
    assert list(candidates(cells)) == ["embedding", "handcrafted"]
    assert answer.facts["best"] == best({name: cells[name] for name in ("embedding", "handcrafted")})
    is_scored = {(each.features, each.model, each.fraction) for each in answer.basis.results if each.inside[0] > 0}
    chosen = ("embedding", "handcrafted", "untrained")
    assert is_scored == {(name, "logistic_regression", 1.0) for name in chosen}


def test_one_set_is_its_own_choice_and_too_few_rows_choose_none() -> None:
    first, second = (Result("a", "knn", 1.0, Scores(s), Scores(s), inside=(0.5, np.nan)) for s in ((0.7, 0.8), (0, 1)))
    assert chosen_best({}) is None
    assert chosen_best({"a": first}) is first.main
    assert worth({"a": first}) == ""
    assert chosen_best({"a": first, "b": second}) is None
    assert worth({"a": first, "b": second}, "arms") == "; too few rows to tell what taking the best of 2 arms is worth"
    first, second = replace(first, inside=(0.6, 0.5)), replace(second, inside=(0.5, 0.6))
    assert chosen_best({"a": first, "b": second}) == Scores((0.7, 1.0))
    taking = "; taking the best of 2 is worth .850 "
    assert worth({"a": first, "b": second}).startswith(taking)


@pytest.mark.parametrize("model", ["lightgbm", "ridge", "knn", "stacked"])
def test_five_numbers_are_scored_by_every_model(model: str) -> None:
    rng = np.random.default_rng(0)
    sets = {"embedding": rng.random((5, 3)), "handcrafted": rng.random((5, 3))}
    result = score_features(sets, rng.random(5), folds=2, models=[model])
    assert {*sets, "embedding_handcrafted"} <= {each.features for each in result.basis.results}
