"""The study of ExpCLR: its intervals hold what they claim, its parts are apart, and outcomes are no features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiments.expclr import problems
from experiments.expclr.arms import FEATURES, METHODS, Arm, file_name, vectors
from experiments.expclr.problems import Variant, expert_scores, labelled, problem
from experiments.expclr.scores import Scored, scored
from experiments.expclr.settings import CHOSEN, FEW_LABELS, FEW_TRIALS, LABEL_TRIALS, STAY_TRIALS, STAYS, TRIALS

import eventvec as ev
import make
from eventvec.learners.resampled_scores import replicates
from eventvec.statistics.resampling import resample


@pytest.mark.parametrize(("users", "seeds", "both"), [(0.1, 0.0, 0.0), (0.0, 0.05, 0.0), (0.1, 0.05, 0.1)])
def test_intervals_hold_the_true_accuracy_of_other_users_and_seeds(users: float, seeds: float, both: float) -> None:
    rng, draws, held = np.random.default_rng(0), 300, 0
    user = np.arange(9).repeat(40)
    truth = np.zeros(len(user), np.int64)
    for _ in range(draws):
        chance = 0.7 + rng.normal(0, users, 9)[:, None] + rng.normal(0, seeds, 3) + rng.normal(0, both, (9, 3))
        wrong = rng.random((len(user), 3)) > np.clip(chance, 0, 1)[user]
        weights = resample(9, seed=0)[:200, user]
        of_trainings = [replicates("multiclass", truth, wrong[:, k].astype(np.int64), weights)[:, 0] for k in range(3)]
        score = Scored(1 - wrong.mean(0), np.stack(of_trainings, 1), units=9)
        held += abs(score.mean - 0.7) <= score.half_width
    assert held / draws >= 0.92  # .95 less two binomial standard deviations of .0126, and a little


def test_differences_are_paired_and_a_score_of_one_training_counts_for_all() -> None:
    of = problem_of(y=np.array([0, 1, 0, 1]), units=np.array([0, 0, 1, 1]))
    one = scored(of, [np.array([0, 1, 0, 0])])
    two = scored(of, [np.array([0, 1, 0, 1]), np.array([0, 0, 0, 0])])
    assert (two - one).values.tolist() == [0.25, -0.25]
    assert (one - one).half_width == 0


def problem_of(y: np.ndarray, units: np.ndarray) -> problems.Problem:
    data = ev.read(pl.DataFrame({"id": [0], "t": [0], "v": [0.0]}), key="id", time="t", numeric=("v",))
    return problems.Problem("multiclass", data, data, (), ("a", "b"), y, y, units)


def test_labels_of_a_fraction_have_every_class_and_a_larger_one_contains_a_smaller() -> None:
    codes = np.repeat([0, 1, 2], [500, 40, 3])
    few, more = labelled(codes, 0.01, seed=1), labelled(codes, 0.1, seed=1)
    assert np.bincount(codes[few]).tolist() == [5, 1, 1]
    assert more[few].all()
    assert labelled(codes, 1.0, seed=1).all()


@pytest.mark.parametrize("name", ["Length_of_stay", "Survival", "In-hospital_death"])
def test_outcomes_of_a_stay_are_refused_as_features(name: str) -> None:
    table = pl.DataFrame({"RecordID": [1, 2], "SAPS-I": [6, -1], "SOFA": [1, 3], name: [5, 7]})
    with pytest.raises(ev.EventvecError, match=f"{name} is an outcome"):
        expert_scores(table, ["SOFA", name])
    assert expert_scores(table)["SAPS-I"].to_list() == [6.0, None]


def test_every_chosen_setting_is_a_listed_trial() -> None:
    assert all(arm in TRIALS[method] for method, arm in CHOSEN.items())
    assert all(arm in FEW_TRIALS for arm in FEW_LABELS.values())
    assert all(STAYS[method] in STAY_TRIALS for method in ("ExpCLR", "CoLES"))
    assert {STAYS[name].lr for name in ("quadratic loss", "feature decoding")} == {STAYS["ExpCLR"].lr}


def test_with_labels_alone_each_method_has_the_same_trials_and_a_training_is_named_by_its_labels() -> None:
    tried = [[(arm.lr, arm.encoder, arm.steps) for arm in arms] for arms in LABEL_TRIALS.values()]
    assert tried[0] == tried[1]
    arm, whole, few = LABEL_TRIALS["labels only"][0], Variant("hapt"), Variant("hapt", fraction=0.2)
    assert file_name(arm, whole) != file_name(arm, few)
    assert file_name(CHOSEN["ExpCLR"], whole) == file_name(CHOSEN["ExpCLR"], few)


@pytest.mark.data
def test_labels_alone_are_the_only_feature_of_their_arm() -> None:
    of = problem(Variant("hapt", features="twelve", small=True))
    method = METHODS["labels only"](make.encoder("gru"), of)
    assert method.static_columns == (problems.LABEL,)
    assert sorted(method.feature_names) == sorted(f"{problems.LABEL} = {name}" for name in of.classes)
    x = of.training.sequences
    code = np.asarray(x.static[problems.LABEL])
    assert (method.similarity(x).numpy() == (code[:, None] == code)).all()


@pytest.mark.data
@pytest.mark.parametrize("name", ["hapt", "electric_devices", "icu"])
def test_the_part_to_choose_on_is_inside_training(name: problems.Name) -> None:
    variant = Variant(name, features="twelve" if name == "hapt" else "all", small=True)
    judged, chosen = problem(variant), problem(replace(variant, choosing=True))
    training, test = set(np.asarray(judged.training.keys)), set(np.asarray(judged.test.keys))
    inner, held_out = set(np.asarray(chosen.training.keys)), set(np.asarray(chosen.test.keys))
    assert not training & test
    assert not inner & held_out
    assert held_out
    assert inner | held_out <= training


@pytest.mark.data
@pytest.mark.parametrize("name", ["hapt", "electric_devices", "icu"])
def test_codes_are_those_of_the_labels_that_training_reads(name: problems.Name) -> None:
    of = problem(Variant(name, features="twelve" if name == "hapt" else "all", fraction=0.3, small=True))
    field = of.training.schema.static_field(problems.LABEL)
    assert isinstance(field, ev.schema.Categorical)
    codes = np.asarray(of.training.sequences.static[problems.LABEL]) - ev.schema.FIRST
    read = [field.values[code] if code >= 0 else None for code in codes]
    assert read == [of.classes[code] if code >= 0 else None for code in of.y_training]
    assert len(of.test) == len(of.y_test) == len(of.units)


@pytest.mark.data
def test_scales_are_those_of_the_training_part_and_noise_doubles_the_features(tmp_path: Path) -> None:
    variant = Variant("hapt", features="twelve", small=True)
    plain, noisy = problem(variant), problem(replace(variant, noise=True))
    assert len(plain.features) == 12
    assert len(noisy.features) == 24
    z = vectors(Arm(FEATURES), variant, 0, tmp_path)
    known = z["training"] != 0
    assert np.allclose(np.nanmean(np.where(known, z["training"], np.nan), 0), 0, atol=1e-4)
    assert not np.allclose(z["test"].mean(0), 0, atol=1e-2)


@pytest.mark.data
def test_a_kept_training_is_not_repeated_and_labels_name_a_training_that_reads_them(tmp_path: Path) -> None:
    variant = Variant("hapt", features="twelve", small=True)
    first = vectors(CHOSEN["ExpCLR"], variant, 0, tmp_path)
    again = vectors(CHOSEN["ExpCLR"], replace(variant, fraction=0.2), 0, tmp_path)  # does not read labels
    assert (first["training"] == again["training"]).all()
    vectors(CHOSEN["supervised"], variant, 0, tmp_path)
    vectors(CHOSEN["supervised"], replace(variant, fraction=0.2), 0, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
