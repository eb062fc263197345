"""The study of language models on texts: what is trained, what is kept, and the intervals of its tables."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from experiments.order import text_study
from experiments.order.published import AUC
from experiments.order.real_histories import LabelledHistories
from experiments.order.text_study import (
    ENTITY,
    LANGUAGE,
    OCP,
    PCL,
    PLAIN,
    WORDS,
    Arm,
    cut_histories,
    problem,
    results,
    share_of_groups,
    shared_out,
    vectors,
    word_accuracy,
)
from experiments.order.text_tables import SIZES, both_intervals, chosen_rates, interval, lead_rows, text_pairs

import backbones
import eventvec as ev
from eventvec.dataset import text_column

pytestmark = pytest.mark.usefixtures("bfloat16_everywhere")  # the studies compute in it


def packages(count: int = 60) -> LabelledHistories:
    """Return packages of six notes; the first word of a note tells its label."""
    rng = np.random.default_rng(0)
    key, label = np.repeat(np.arange(count), 6), rng.random(6 * count) < 0.4
    texts = [f"{'xx' if urgent else 'yy'} {2 * 'abcdef'[step % 6]}" for step, urgent in enumerate(label)]
    events = pl.DataFrame({"package": key, "date": np.tile(np.arange(6), count), "urgent": label.astype(float)})
    data = ev.read(events, key="package", time="date", categorical=(), numeric=["urgent"])
    data.sequences.columns["text"] = text_column(pl.Series(texts).to_arrow())
    return LabelledHistories(data, "urgent", length=1, entities=40, text="text")


@pytest.fixture(autouse=True)
def small_set(monkeypatch: pytest.MonkeyPatch):
    """Put small texts and a small language model in place of the real ones."""
    monkeypatch.setattr(text_study, "DATA_SETS", {text_study.DATA: packages})
    monkeypatch.setattr(text_study, "MINILM", backbones.folder("bert"))
    problem.cache_clear()
    yield
    problem.cache_clear()


def test_packages_with_labels_are_in_no_training() -> None:
    of = problem(small=True)
    unlabelled, tested = (set(data.keys.to_pylist()) for data in (of.unlabelled, of.tested))
    assert (len(unlabelled), len(tested)) == (16, 40)
    assert not unlabelled & tested
    assert set(of.notes.entity[of.labelled]) == set(of.entities.tolist())
    assert "urgent" not in of.unlabelled.sequences.columns
    assert "urgent" not in of.notes.data.sequences.columns


@pytest.mark.parametrize("objective", [OCP, PCL, ENTITY, LANGUAGE, PLAIN])
def test_a_model_gives_a_vector_of_each_note(objective: str) -> None:
    z, about = vectors(Arm(objective, 0.0 if objective == PLAIN else 1e-3, small=True))
    assert z.shape == (240, backbones.WIDTH)
    assert np.isfinite(z).all()
    assert ("attention" in about) == (objective in (OCP, PLAIN))
    assert ("tested" in about) == (objective in (OCP, PCL, ENTITY))
    if objective in (OCP, PCL, ENTITY):
        assert about["pairs"] == 40 * 5
        assert 0 <= about["validation"][0] <= 1
        assert (about["given"], about["drawn"]) == (12 * 5, 12 * 5)  # 4 of 16 packages are held out


def test_a_model_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = Arm(OCP, 1e-3, small=True)
    scores, about = results(arm, tmp_path)
    assert scores.shape == (5, 1, 2)
    monkeypatch.setattr(text_study, "vectors", None)
    again, same = results(arm, tmp_path)
    assert np.array_equal(again, scores)
    assert same == about


def test_a_linear_layer_finds_the_word_that_tells_the_label(tmp_path: Path) -> None:
    for objective in (PLAIN, WORDS):
        scores, _ = results(Arm(objective, small=True), tmp_path)
        assert scores[:, 0, 0].min() > 0.9


def test_fewer_pairs_take_as_many_steps() -> None:
    every, few = (vectors(Arm(ENTITY, 1e-3, small=True, pairs=pairs))[1] for pairs in (0, 24))
    assert (every["given"], every["drawn"], every["steps"]) == (60, 60, 3)
    assert few["met"] == round(24 * (1 - 0.5**6))
    assert every["met"] == round(60 * (1 - 0.8**5))  # five draws of five pairs from each of 12 packages
    assert (few["given"], few["steps"], few["drawn"]) == (24, 3, 3 * 24)  # all 10 to 12 packages in each step


def test_stretches_of_notes_are_left_of_the_packages_trained_on() -> None:
    data = problem(small=True).unlabelled
    training = torch.tensor([3, 0, 7])
    x, left = data.sequences, cut_histories(data, training, 8, seed=1).sequences
    assert left.lengths[training].tolist() == [4, 4, 3]  # 3 + 3 + 2 pairs
    others = np.setdiff1d(np.arange(16), training)
    assert torch.equal(left.starts[others], x.starts[others])
    assert torch.equal(left.lengths[others], x.lengths[others])
    starts = torch.stack([cut_histories(data, training, 8, seed).sequences.starts[training] for seed in range(99)])
    places = starts - x.starts[training]
    assert [sorted(set(column.tolist())) for column in places.T] == [[0, 1, 2], [0, 1, 2], [0, 1, 2, 3]]


def test_shares_are_as_equal_as_what_each_has_allows() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        counts = rng.integers(1, 20, rng.integers(1, 30))
        total = int(rng.integers(1, counts.sum() + 5))
        given, expected = shared_out(counts, total), np.zeros_like(counts)
        for _ in range(min(total, counts.sum())):  # one by one, to the one that has given least
            expected[np.argmin(np.where(expected < counts, expected, 99))] += 1
        assert given.tolist() == expected.tolist()


def test_a_linear_model_of_words_reads_the_order_of_notes_that_advance() -> None:
    held_out, tested = word_accuracy(small=True)
    assert (held_out, tested["tested"], tested["pairs"]) == (1.0, 1.0, 40 * 5)


def test_the_rate_of_a_model_has_the_best_mean_on_what_is_held_out() -> None:
    validation = {
        Arm(OCP, 3e-5, 0): [0.5, 0.6], Arm(OCP, 3e-5, 1): [0.5, 0.4], Arm(OCP, 1e-4, 0): [0.5, 0.5],
        Arm(OCP, 1e-4, 1): [0.58, 0.5], Arm(LANGUAGE, 5e-5): [4.0, 3.5], Arm(LANGUAGE, 2e-4): [3.6, 3.7],
    }  # fmt: skip
    chosen = chosen_rates({arm: {"validation": curve} for arm, curve in validation.items()})
    assert chosen == {OCP: 3e-5, LANGUAGE: 5e-5}


def test_the_names_of_different_trainings_differ() -> None:
    arms = [Arm(name, 3e-5, seed, False, *size) for seed in (0, 1) for name, sizes in SIZES.items() for size in sizes]
    assert len({str(arm) for arm in arms}) == len(set(arms)) == len(arms)


def test_the_study_of_pairs_has_a_row_for_each_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # other processes would read the real texts
    few, every, plain, words = text_pairs(small=True, keep=tmp_path)
    assert (few["given"], every["given"], few["steps"], every["steps"]) == (24, 60, 3, 3)
    assert few.keys() == every.keys() == plain.keys() == words.keys()
    assert plain["AUC at 1"] > 0.9  # a word tells the label
    assert plain["over MiniLM at 1"] is None
    assert every["over MiniLM at 1"] == pytest.approx(every["AUC at 1"] - plain["AUC at 1"])
    assert (words["unseen pairs"], words["given"]) == (1.0, None)
    assert 0 <= few["unseen pairs"] <= 1
    assert len(every["held out by epoch"].split()) == 1


def test_an_interval_over_packages_and_trainings_has_both_parts() -> None:
    from scipy.stats import ttest_1samp

    shares = np.random.default_rng(4).random(3)
    confidence = ttest_1samp(shares, 0).confidence_interval(0.95)
    expected = np.hypot((confidence.high - confidence.low) / 2, 0.03)
    assert both_intervals(shares, np.array([0.02, 0.03, 0.04])) == pytest.approx(expected)
    assert both_intervals(shares[:1], np.array([0.02])) == pytest.approx(0.02)


def test_the_interval_of_a_share_is_that_of_single_rows_or_of_whole_groups() -> None:
    correct = np.random.default_rng(0).random(50) < 0.6
    share, half_width = share_of_groups(correct, np.arange(50))
    p = correct.mean()
    assert share == pytest.approx(p)
    assert half_width == pytest.approx(2.00958 * np.sqrt(p * (1 - p) / 49), rel=1e-4)  # Student's t, 49 degrees
    copies = share_of_groups(np.repeat(correct, 7), np.repeat(np.arange(50), 7))
    assert copies == pytest.approx((share, half_width))  # copies of a row say nothing new


def test_the_interval_of_a_share_contains_the_true_one_in_95_percent_of_draws() -> None:
    rng, hits = np.random.default_rng(1), 0
    for _ in range(400):
        sizes = rng.integers(1, 9, 60)
        group = np.repeat(np.arange(60), sizes)
        correct = rng.random(len(group)) < rng.uniform(0.3, 0.9, 60)[group]  # packages differ
        share, half_width = share_of_groups(correct, group)
        hits += abs(share - 0.6) <= half_width
    assert 0.92 < hits / 400 < 0.98


def test_leads_are_those_of_ocp_over_each_encoder() -> None:
    rng = np.random.default_rng(2)
    scores = {(name, 1.0): rng.random((5, runs, 2)) for name, runs in ((OCP, 3), (LANGUAGE, 3), (PLAIN, 1))}
    rows = {row["encoder"]: row for row in lead_rows("auc", scores, AUC)}
    ocp, language, plain = (scores[name, 1.0][..., 0] for name in (OCP, LANGUAGE, PLAIN))
    assert rows[OCP]["mean"] == pytest.approx(ocp.mean())
    assert (rows[OCP]["paper"], rows[OCP]["difference"]) == (0.87, pytest.approx(ocp.mean() - 0.87))
    for name, other in ((LANGUAGE, language), (PLAIN, plain)):
        assert rows[name]["OCP ahead by"] == pytest.approx(ocp.mean() - other.mean())
        assert rows[name]["difference"] == pytest.approx(ocp.mean() - other.mean() - rows[name]["paper"])
        wins = [ours > theirs for fold in range(5) for ours in ocp[fold] for theirs in other[fold]]
        assert rows[name]["wins"] == pytest.approx(np.mean(wins))
    assert rows[PLAIN]["seeds"] == f"{plain.mean():.3f} ± {plain.std(ddof=1):.3f}"
    assert len(rows[LANGUAGE]["seeds"].split(", ")) == 3


def test_the_interval_of_one_run_is_that_of_the_paired_t_test() -> None:
    from scipy.stats import ttest_rel

    ours, other = np.random.default_rng(3).random((2, 5, 1))
    expected = ttest_rel(ours[:, 0], other[:, 0]).confidence_interval(0.95)
    assert interval(ours, other) == pytest.approx((expected.high - expected.low) / 2)
