"""The study of language models on texts: what is trained, what is kept, and the intervals of its tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
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
    fold_scores,
    problem,
    share_of_groups,
    vectors,
    word_accuracy,
)
from experiments.order.text_tables import RATES, TRIALS, interval, lead_rows

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
def test_a_model_is_trained_once_and_gives_a_vector_of_each_note(objective: str, tmp_path: Path) -> None:
    arm = Arm(objective, 0.0 if objective == PLAIN else 1e-3, small=True)
    z, about = vectors(arm, tmp_path)
    assert z.shape == (240, backbones.WIDTH)
    assert np.isfinite(z).all()
    assert ("attention" in about) == (objective in (OCP, PLAIN))
    assert ("tested" in about) == (objective in (OCP, PCL, ENTITY))
    if objective in (OCP, PCL, ENTITY):
        assert about["pairs"] == 40 * 5
        assert 0 <= about["validation"][0] <= 1
    (file,) = tmp_path.iterdir()
    written = file.stat().st_mtime_ns
    assert np.array_equal(vectors(arm, tmp_path)[0], z)
    assert file.stat().st_mtime_ns == written


def test_a_linear_layer_finds_the_word_that_tells_the_label(tmp_path: Path) -> None:
    scores = fold_scores(Arm(PLAIN, small=True), tmp_path, (1, 0.5))
    assert scores.shape == (5, 2, 2)
    assert scores[:, 0, 0].min() > 0.9
    assert not list(Path(tmp_path).glob(f"{WORDS}*"))


def test_a_linear_model_of_words_reads_the_order_of_notes_that_advance() -> None:
    held_out, tested = word_accuracy(small=True)
    assert (held_out, tested["tested"], tested["pairs"]) == (1.0, 1.0, 40 * 5)


def test_the_chosen_rate_of_each_model_is_among_its_trials() -> None:
    assert all(Arm(objective, RATES[objective]) in TRIALS for objective in (OCP, LANGUAGE))
    assert RATES[OCP] == RATES[PCL] == RATES[ENTITY]
    assert len({str(arm) for arm in TRIALS}) == len(TRIALS)


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
