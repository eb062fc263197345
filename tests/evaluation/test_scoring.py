"""`score_features`: against a plain loop, the same rows for all models and features, notes and refusals."""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from eventvec.errors import ConfigError, DataError
from eventvec.evaluation import Unfinished, fold_scores, score_features, scoring
from eventvec.evaluation.result import Evaluation
from eventvec.learners import single_learners
from eventvec.learners.folds import cross_validation
from eventvec.learners.metrics import measure
from eventvec.learners.prepared import TREES, Prepared
from eventvec.learners.single_learners import Samples
from eventvec.learners.stacking import PRIOR, learners_of, out_of_parts, parts_of, trained
from eventvec.learners.task import target
from eventvec.statistics.intervals import cross_validation_half_width


def problem(n: int = 120, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return two sets of features, each of which contains a part of a binary label, and the label."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    embedding, aggregates = (rng.normal(size=(n, 3)) + 0.7 * y[:, None] for _ in range(2))
    return {"embedding": embedding.astype(np.float32), "aggregates": aggregates}, y


def test_a_leaked_label_is_predicted_and_noise_predicts_nothing():
    _, y = problem(400)
    noise = np.random.default_rng(1).normal(size=(400, 2))
    evaluation = score_features({"leak": np.c_[noise, y], "noise": noise}, y, folds=3)
    assert {r.model for r in evaluation.basis.results} == {"stacked"}
    for result in evaluation.basis.results:
        if result.features == "leak":
            assert result.main.mean > 0.99
        else:
            assert abs(result.main.mean - 0.5) < 0.1


def test_scores_equal_those_of_a_plain_loop():
    sets, y = problem()
    evaluation = score_features(sets, y, folds=4, models=["logistic_regression"], seed=7)
    both = np.concatenate([sets["embedding"], sets["aggregates"]], axis=1)
    for name, x in (*sets.items(), ("both", both)):
        expected = [
            roc_auc_score(y[test], single_learners.linear_model(Samples("binary", 2, x[train], y[train] * 1, x[test])))
            for train, test in cross_validation(target(y), 4, None, 7)
        ]
        assert evaluation.basis.get(name, "logistic_regression").main.values == pytest.approx(expected)


def test_all_models_and_features_get_the_same_rows(monkeypatch):
    sets, y = problem()
    index = np.arange(len(y), dtype=float)[:, None]
    rows: dict[tuple[int, str], list[tuple[list[float], list[float]]]] = {}

    def recording(name):
        def model(job):
            width = job.x.shape[1]
            rows.setdefault((width, name), []).append((job.x[:, -1].tolist(), job.test[:, -1].tolist()))
            return job.test[:, 0]

        return model

    monkeypatch.setattr(scoring, "chosen_models", lambda task, names: (["a", "b"], []))
    monkeypatch.setattr(fold_scores, "predictions", lambda job, name: recording(name)(job))
    monkeypatch.setattr(Evaluation, "deciding", property(lambda self: {each.features: each for each in self.results}))
    score_features(
        {"embedding": np.c_[sets["embedding"], index], "aggregates": np.c_[sets["aggregates"], index][:, 1:]},
        y,
        fractions=(0.5, 1.0),
        num_threads=1,  # so that the rows are recorded in the order of the folds
    )
    assert list(rows) == [(width, name) for width in (4, 3, 7) for name in ("a", "b")]  # single sets first
    first, *others = rows.values()
    assert all(other == first for other in others)
    full, half = first[:5], first[5:]
    assert all(set(a[0]) < set(b[0]) and a[1] == b[1] for a, b in zip(half, full, strict=True))


def test_differences_are_paired_over_the_folds():
    sets, y = problem()
    evaluation = score_features(sets, y, models=["knn", "logistic_regression"], fractions=(1.0, 0.5))
    assert len(evaluation.basis.results) == 2 * 2 * 3
    rows = evaluation.tables["differences"]
    assert len(rows) == 2 * 2 * 3
    for row in rows:
        first, second = (evaluation.basis.get(row[side], row["model"], row["fraction"]).main for side in ("a", "b"))
        half = cross_validation_half_width(
            np.subtract(first.values, second.values), first.replicates - second.replicates
        )
        assert row["difference"].value == pytest.approx(first.mean - second.mean)
        assert row["difference"].half_width == pytest.approx(half)
    pairs = {("embedding", "aggregates"), ("both", "aggregates"), ("both", "embedding")}
    assert {(row["a"], row["b"]) for row in rows} == pairs


@pytest.mark.parametrize("task", ["binary", "numeric"])
def test_fused_sets_are_stacks_of_the_models_of_both(task):
    sets, y = problem()
    sets = {"embedding": sets["embedding"], "handcrafted": sets["aggregates"]}
    labels = y if task == "binary" else y + np.random.default_rng(0).normal(size=len(y))
    evaluation = score_features(sets, labels, folds=2, seed=7)
    again = {"handcrafted": sets["handcrafted"], "again": sets["handcrafted"]}
    for name, parts in (("embedding_handcrafted", sets), ("handcrafted_again", again)):
        expected = []
        for train, test in cross_validation(target(labels), 2, None, 7):
            jobs = {
                part: Samples(
                    task,
                    2 * (task == "binary"),
                    x[train],
                    labels[train] * 1,
                    x[test],
                    7 + (part == "again"),
                    num_threads=1,
                )
                for part, x in parts.items()
            }
            first, prepared = next(iter(jobs.values())), {part: Prepared(job) for part, job in jobs.items()}
            cells = [
                (part, learner) for part in jobs for learner in learners_of(task) if part != "again" or learner == TREES
            ]
            inside = out_of_parts(prepared, cells, parts_of(first))
            both = trained(prepared, first, inside, {cell: PRIOR[cell[1]] for cell in cells})
            together = both.predict({part: job.test for part, job in jobs.items()})
            expected.append(measure(task, labels[test], together)[0])
        assert evaluation.basis.get(name, "stacked").main.values == pytest.approx(expected)
    fixed = score_features(sets, labels, folds=2, models=["lightgbm"])
    assert "handcrafted_again" not in {row["features"] for row in fixed.rows}


def test_one_set_of_features_has_no_differences():
    sets, y = problem()
    evaluation = score_features({"embedding": sets["embedding"]}, y, models=["knn"])
    assert [r.features for r in evaluation.basis.results] == ["embedding"]
    assert evaluation.tables["differences"] == []


def test_missing_labels_are_left_out_and_counted():
    sets, y = problem()
    labels = y.astype(object)
    labels[::10] = None
    evaluation = score_features(sets, labels, models=["knn"])
    present = np.arange(120) % 10 > 0
    alone = score_features({name: x[present] for name, x in sets.items()}, y[present], models=["knn"])
    assert evaluation.facts["n"] == 108
    assert "12 of 120 entities have no label and were left out." in evaluation.notes
    assert evaluation.basis.results == alone.basis.results


def test_notes_say_what_the_encoder_has_seen():
    sets, y = problem()
    evaluation = score_features(sets, y, models=["knn"])
    assert evaluation.facts["protocol"] == "cross-validation"
    assert any("saw the test entities' events, without labels" in note for note in evaluation.notes)
    held_out = score_features(sets, y, models=["knn"], holdout=np.arange(120) < 40)
    assert held_out.facts["protocol"] == "holdout"
    assert (held_out.facts["n"], held_out.facts["folds"]) == (120, 5)
    assert not any("without labels" in note for note in held_out.notes)
    assert any("Tested on 40 labels of entities that the encoder never saw" in note for note in held_out.notes)


def test_holdout_scores_the_held_out_entities_only():
    y = problem()[1]
    held_out = np.arange(120) < 40
    inverted = np.where(held_out[:, None], y[:, None], ~y[:, None]) * 1.0  # right for those held out only
    assert score_features({"x": inverted}, y, models=["knn"], holdout=held_out).basis.results[0].main.mean == 0
    assert score_features({"x": y[:, None] * 1.0}, y, models=["knn"], holdout=held_out).basis.results[0].main.mean == 1


def test_holdout_trains_on_no_group_that_has_a_held_out_member():
    sets, y = problem()
    groups = np.arange(120) // 2
    held_out = np.isin(np.arange(120), [0, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    evaluation = score_features(sets, y, models=["knn"], holdout=held_out, groups=groups)
    assert any(
        note.startswith("4 labels of seen entities that share a group with held-out ones") for note in evaluation.notes
    )
    assert evaluation.facts["n"] == 116


def test_without_lightgbm_its_rows_are_absent_and_a_note_says_how_to_get_them(monkeypatch):
    sets, y = problem()
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    evaluation = score_features(sets, y)
    assert {head.split(", ")[-1] for row in evaluation.rows for head in row["weights"]} == {"linear"}
    reason = "model stacked is without boosted trees: needs lightgbm: pip install 'eventvec[eval]'"
    assert any(reason in note for note in evaluation.notes)
    knn = score_features(sets, y, models=["lightgbm", "knn"])
    assert {row["model"] for row in knn.rows} == {"knn"}
    assert any("lightgbm rows are left out: needs lightgbm" in note for note in knn.notes)
    with pytest.raises(ConfigError, match="needs lightgbm: pip install"):
        score_features(sets, y, models=["lightgbm"])


def test_progress_names_what_is_running():
    sets, y = problem()
    calls = []
    score_features(sets, y, models=["knn"], progress=lambda *call: calls.append(call))
    assert [call[:2] for call in calls] == [(i, 15) for i in range(16)]
    assert calls[-1][2] == "both, fold 5"
    assert {call[2].partition(",")[0] for call in calls} == {"both", "embedding", "aggregates"}


def test_ctrl_c_gives_what_is_finished():
    sets, y = problem()

    def stop(done, total, name):
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(Unfinished) as stopped:
        score_features(sets, y, models=["knn"], num_threads=1, progress=stop)
    answer = stopped.value.answer
    first, *others = sorted(sets, key=lambda name: -sets[name].shape[1])
    assert [row["features"] for row in answer.rows] == [first]
    assert answer.verdict[-1] == f"Interrupted before these were scored: {others[0]}, both."
    whole = score_features(sets, y, models=["knn"])
    assert answer.rows[0] == whole.row(features=first)

    def stop_at_once(done, total, name):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        score_features(sets, y, models=["knn"], progress=stop_at_once)
    assert not isinstance(stopped.value, Unfinished)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"features": {"z": np.zeros((119, 2))}},
            DataError,
            "'z' must have one row per label, got 119 rows for 120 labels",
        ),
        (
            {"features": {"z": np.where(np.arange(240).reshape(120, 2) == 7, np.nan, 0)}},
            DataError,
            "1 rows .first at row 3",
        ),
        (
            {"features": {"z": np.full((120, 1), -1e300)}},
            DataError,
            r"beyond ±1e\+100 in 120 rows .first at row 0",
        ),
        ({"labels": np.arange(120) * 1e200}, DataError, r"label 'label' has numbers up to 1.19e\+202 in size"),
        ({"features": {"z": np.zeros(120)}}, DataError, r"numbers of shape \(n, d\), got float64 of shape \(120,\)"),
        ({"features": {"both": np.zeros((120, 1))}}, ConfigError, "may not be called 'both'"),
        ({"fractions": (1.0, 0.0)}, ConfigError, r"fractions must be in \(0, 1\], got 0"),
        ({"fractions": (1.5,)}, ConfigError, r"fractions must be in \(0, 1\], got 1.5"),
        ({"fractions": (0.5, 0.5)}, ConfigError, "fractions must be distinct, got 0.5, 0.5"),
        ({"fractions": ()}, ConfigError, "fractions must hold at least one number"),
        ({"fraction": (0.5,)}, ConfigError, "there is no option 'fraction'; did you mean 'fractions'"),
        ({"models": ["xgboost"]}, ConfigError, "no model 'xgboost' for a binary label"),
        ({"groups": np.arange(3)}, DataError, r"groups must have one value per label, got shape \(3,\) for 120 labels"),
        ({"holdout": np.arange(120) % 2}, DataError, "holdout must be booleans, got int64"),
        (
            {"features": {"z": [[1], [2, 3]]}},
            DataError,
            "features 'z' must be an array with one row per label, got list",
        ),
        ({"features": {"z": None}}, DataError, "features 'z' must be an array with one row per label, got None"),
        ({"features": [1]}, ConfigError, "features must be numbers by name, such as {'embedding': z}, got list"),
        ({"labels": 5}, DataError, "label 'label' must be an array with one row per label, got 5"),
        ({"labels": pl.Series([1] * 120, dtype=pl.Int128)}, DataError, "label 'label' must be an array .*, got Series"),
        ({"labels": [0, 2**70] * 60}, DataError, "label 'label' mixes types"),
        ({"groups": [1, "a"] * 60}, DataError, "groups mix types or are nested"),
        ({"groups": [2**70, 1] * 60}, DataError, "groups mix types or are nested"),
        ({"groups": "x"}, DataError, "groups must be an array with one row per label, got 'x'"),
        ({"fractions": "x"}, ConfigError, r"fractions must be a list of numbers in \(0, 1\], got 'x'"),
        ({"fractions": 1.0}, ConfigError, r"fractions must be a list of numbers in \(0, 1\], got 1.0"),
        ({"fractions": ["a"]}, ConfigError, r"fractions must be in \(0, 1\], got 'a'"),
        ({"seed": -1}, ConfigError, r"seed must be in \[0, 2\^31\), got -1"),
        ({"seed": 2**31}, ConfigError, r"seed must be in \[0, 2\^31\), got 2147483648"),
    ],
)
def test_invalid_features_and_options_are_refused(change, error, message):
    sets, y = problem()
    with pytest.raises(error, match=message):
        score_features(**{"features": sets, "labels": y, **change})


def test_weights_count_in_training_and_in_scores():
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(150, 3)), rng.random(150) < 0.4
    weights = rng.integers(1, 4, 150)
    options = {"models": ["logistic_regression"], "folds": 3}
    evaluation = score_features({"embedding": x}, labels, weights=weights * 7.0, **options)
    labelled = target(labels)
    expected = []
    for train, test in cross_validation(labelled, 3, None, 42):
        relative = weights / weights.mean()
        job = Samples("binary", 2, x[train], labelled.y[train], x[test], weights=relative[train])
        truth, predicted = (
            np.repeat(labelled.y[test], weights[test]),
            np.repeat(single_learners.linear_model(job), weights[test]),
        )
        expected.append(measure("binary", truth, predicted)[0])
    result = evaluation.basis.get("embedding", "logistic_regression").main
    assert result.values == pytest.approx(expected)
    assert result.interval != score_features({"embedding": x}, labels, **options).basis.results[0].main.interval
    equal = score_features({"embedding": x}, labels, weights=np.full(150, 3.0), **options)
    assert equal.basis.results[0].main.values == pytest.approx(
        score_features({"embedding": x}, labels, **options).basis.results[0].main.values
    )
    with pytest.raises(DataError, match=r"weights must be finite and above 0, but 1 of 150 are not \(first at row 0\)"):
        score_features({"embedding": x}, labels, weights=np.arange(150), **options)


@pytest.mark.parametrize("factor", [1e-300, 5e-324, 1e307])
def test_weights_count_by_their_ratios_at_any_scale(factor):
    sets, y = problem()
    weights = np.full(120, factor)
    evaluation = score_features(sets, y, weights=weights, models=["knn"])
    again = score_features(sets, y, weights=np.ones(120), models=["knn"])
    assert [r.main.interval for r in evaluation.basis.results] == [r.main.interval for r in again.basis.results]
    weights[7] = 1.0 if factor < 1 else 1e-300
    with pytest.raises(DataError, match=r"weights must be within a factor of 1e\+06 of each other, but they reach"):
        score_features(sets, y, weights=weights, models=["knn"])


@pytest.mark.parametrize(("n_labels", "folds"), [(1, 20), (3, 5)])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_rare_labels_have_intervals(n_labels, folds):
    rng = np.random.default_rng(0)
    rows = rng.permutation(200) // folds  # each label has one positive row in each fold
    labels = {f"label {place}": rows == place for place in range(n_labels)}
    sets = {"embedding": rng.normal(size=(200, 2)), "mine": rng.normal(size=(200, 2))}
    chosen = labels if n_labels > 1 else labels["label 0"]
    evaluation = score_features(sets, chosen, models=["logistic_regression"], folds=folds)
    assert all(0 < result.main.interval < 1 for result in evaluation.basis.results)
    assert 0 < evaluation.tables["differences"][0]["difference"].half_width < 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_one_label_per_group_leaves_no_replicate_with_an_r2_of_rounding():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 5)
    labels = rng.normal(size=20)[groups]
    evaluation = score_features({"embedding": labels[:, None] + 1}, labels, groups=groups, models=["ridge"], folds=10)
    assert evaluation.basis.results[0].main.interval < 1


def test_several_labels_are_the_mean_of_each_alone_in_the_same_folds():
    rng = np.random.default_rng(0)
    x, n = rng.normal(size=(240, 3)), 240
    labels = {
        "a": (x[:, 0] + rng.normal(size=n) > 0).astype(float),
        "b": rng.random(n) < 0.2,
        "c": np.where(x[:, 1] > 0, "yes", "no").astype(object),
    }
    labels["a"][::7] = np.nan  # a missing label leaves the row to the others
    evaluation = score_features({"embedding": x}, labels, models=["logistic_regression", "knn"])
    facts = evaluation.facts
    assert (facts["task"], facts["metric"], facts["n"]) == ("multilabel", "macro_auroc", n)
    assert facts["positive"] == {"a": 1.0, "b": True, "c": "yes"}
    labelled = target(labels)
    assert labelled.strata.tolist() == [
        next((place for place, column in enumerate(order) if labelled.y[row, column] == 1), 3)
        for order in [np.argsort((labelled.y == 1).sum(0))] for row in range(n)
    ]  # fmt: skip
    expected = np.empty((5, 3, 2))
    for fold, (train, test) in enumerate(cross_validation(labelled, 5, None, 42)):
        for place, codes in enumerate(labelled.y.T):
            rows, tested = train[codes[train] >= 0], test[codes[test] >= 0]
            job = Samples("binary", 2, x[rows], codes[rows], x[tested])
            expected[fold, place] = measure("binary", codes[tested], single_learners.linear_model(job))
    result = evaluation.basis.get("embedding", "logistic_regression")
    assert result.main.values == pytest.approx(expected[..., 0].mean(1))
    assert result.secondary.values == pytest.approx(expected[..., 1].mean(1))
    for place, name in enumerate(labels):
        assert result.labels[name].values == pytest.approx(expected[:, place, 0])
    means = [scores.interval for scores in result.labels.values()]
    assert 0 < result.main.interval < max(means)
    assert set(evaluation.to_dict()["results"][0]["labels"]) == {"a", "b", "c"}
    shares = score_features({"embedding": x}, labels, models=["knn"], fractions=(1.0, 0.3))
    assert [r.fraction for r in shares.basis.results] == [1.0, 0.3]
    with pytest.raises(DataError, match="leaves one class of label 'a' without a training label"):
        score_features({"embedding": x}, labels, models=["knn"], fractions=(0.01,))
    for wrong, message in (
        ({"a": labels["a"]}, "several labels must be two or more, got 1"),
        ({"a": labels["a"], "b": labels["b"][:9]}, "the labels must have the same number of rows, got 9 and 240"),
    ):
        with pytest.raises((DataError, ConfigError), match=message):
            score_features({"embedding": x}, wrong)
    with pytest.raises(ConfigError, match="2 labels are a multilabel task, got the task 'binary'"):
        score_features({"embedding": x}, {"a": labels["a"], "b": labels["b"]}, task="binary")
