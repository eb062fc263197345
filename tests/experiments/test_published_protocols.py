"""Published protocols: splits and numbers are those of the publications; scores and losses equal plain loops."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiments.protocols.__main__ import BASE, log_loss, over_splits, scored
from experiments.protocols.problems import PROBLEMS, RACES, RAINDROP, SPLITS, Problem, Published, raindrop, relarena
from sklearn import metrics

import eventvec as ev
from disk import parquet
from eventvec.statistics.resampling import resample

# scores


def problem(task: str, truth: np.ndarray, metric: str) -> Problem:
    """Return a protocol with an event for each row to test, and the same rows to train on."""
    data = ev.read(
        pl.DataFrame({"key": range(len(truth)), "time": 0, "x": 1.0}),
        key="key", time="time", numeric=["x"], categorical=[],
    )  # fmt: skip
    return Problem("made", task, data, truth, data, truth, {metric: []})


def test_log_loss_of_two_classes_and_of_several_equals_a_loop() -> None:
    truth = np.array([0, 1, 1, 0])
    likely = np.array([0.2, 0.9, 0.0, 1.0])
    losses = [-math.log(max(1e-15, p if one else 1 - p)) for p, one in zip(likely, truth, strict=True)]
    assert log_loss(problem("binary", truth, "auroc"), likely) == pytest.approx(sum(losses) / 4)
    shares = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.0, 0.5, 0.5]])
    expected = -(math.log(0.7) + math.log(0.8) + math.log(0.5)) / 3
    assert log_loss(problem("multiclass", np.array([0, 2, 1]), "accuracy"), shares) == pytest.approx(expected)


def test_numbers_have_no_log_loss() -> None:
    assert log_loss(problem("numeric", np.array([1.0, 2.0]), "mae"), np.array([1.0, 2.0])) is None


@pytest.mark.parametrize(
    ("task", "metric", "function"),
    [
        ("binary", "auroc", metrics.roc_auc_score),
        ("binary", "average_precision", metrics.average_precision_score),
        ("numeric", "mae", lambda truth, predicted: -metrics.mean_absolute_error(truth, predicted)),
    ],
)
def test_scores_equal_those_of_scikit_learn(task: str, metric: str, function: object) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(30) % 2 if task == "binary" else rng.normal(size=30)
    predicted = rng.random(30)
    counts = resample(30, np.arange(30), seed=0)
    result = scored(problem(task, truth, metric), metric, predicted, counts)
    assert result.mean == pytest.approx(function(truth, predicted))
    again = np.repeat(np.arange(30), counts[0].astype(int))
    assert result.replicates[0, 0] == pytest.approx(function(truth[again], predicted[again]))


def test_mean_over_splits_is_of_the_splits_and_of_paired_differences() -> None:
    rows = [
        {"protocol": f"split {split}", "rows": 9, "tested": 3, "metric": metric, "of": of, "score": score,
         "regime": "", "deviation": None, "interval": 0.1, "difference": "", "log loss": split, "seconds": 2.0 * split}
        for split, scores in ((1, (0.5, 0.6)), (2, (0.7, 0.9)))
        for metric in RAINDROP for of, score in zip((BASE, "EventPredictor"), scores, strict=True)
    ]  # fmt: skip
    means = list(over_splits(rows))
    assert {tuple(row) for row in means} == {tuple(rows[0])}  # the columns, in their order
    published = [(number.of, number.score, number.deviation) for number in RAINDROP["auroc"]]
    *others, base, ours = (row for row in means if row["metric"] == "auroc")
    assert [(row["of"], row["score"], row["deviation"]) for row in others] == published
    assert (base["score"], base["deviation"]) == pytest.approx((0.6, 0.1))
    assert (ours["score"], ours["deviation"], ours["log loss"], ours["seconds"]) == pytest.approx((0.75, 0.15, 1.5, 3))
    assert (base["difference"], ours["difference"]) == ("", "+.150, deviation .050")
    assert {row["metric"] for row in means} == set(RAINDROP)


# the splits of Raindrop


def test_values_are_scaled_by_the_training_rows_of_the_split(folder: Path) -> None:
    stays = [1, 2, 3, 4]
    parquet(folder / "physionet2012/outcomes.parquet", {"RecordID": stays, "In-hospital_death": [0, 1, 1, 0]})
    parquet(
        folder / "physionet2012/raindrop_splits.parquet",
        {"split": [1, 1, 1, 1], "record_id": stays, "part": ["train", "train", "test", "validation"]},
    )
    short = {name: pl.Series([50.0, 60.0, -1.0, 70.0]) for name in ("Age", "Gender", "Height", "ICUType", "Weight")}
    ids = pl.Series(stays, dtype=pl.Int32)
    pl.DataFrame({"record_id": ids, **short}).write_parquet(folder / "physionet2012/static.parquet")
    events = pl.DataFrame(
        {"record_id": pl.Series([1, 1, 2, 2, 2, 3, 3, 4], dtype=pl.Int32), "minutes": [0, 1, 0, 1, 2, 0, 1, 0],
         "parameter": ["HR"] * 8, "value": [1.0, 2.0, 3.0, 4.0, 5.0, 100.0, 200.0, 1e6]},
    )  # fmt: skip
    events.write_parquet(folder / "physionet2012/events.parquet")
    found = raindrop(1)
    assert found.train.keys.to_pylist() == [1, 2]
    assert found.test.keys.to_pylist() == [3]
    assert (found.y.tolist(), found.truth.tolist()) == ([0, 1], [1])
    assert found.test.sequences.values("value").tolist() == [(100 - 3) / (4 - 2), (200 - 3) / (4 - 2)]


@pytest.mark.data
def test_splits_of_raindrop_are_of_all_stays_with_events() -> None:
    data = Path(os.environ["EVENTVEC_DATA"]) / "physionet2012"
    splits = pl.read_parquet(data / "raindrop_splits.parquet").cast({"part": pl.String})
    outcomes = pl.read_parquet(data / "outcomes.parquet").select(record_id="RecordID", died="In-hospital_death")
    joined = splits.join(outcomes, on="record_id", how="left")
    assert joined["died"].null_count() == 0
    with_events = set(pl.read_parquet(data / "events.parquet", columns=["record_id"])["record_id"].unique())
    for split in range(1, len(SPLITS) + 1):
        rows = joined.filter(split=split)
        assert set(rows["record_id"]) == with_events
        assert len(rows) == len(with_events) == 11_988
        assert dict(rows.group_by("part").len().iter_rows()) == {"train": 9_590, "validation": 1_199, "test": 1_199}
        for (part,), of in rows.group_by("part"):
            assert of["died"].mean() == pytest.approx(0.1424, abs=0.002 if part == "train" else 0.02)


@pytest.mark.data
def test_rows_of_a_split_have_their_stays_labels() -> None:
    found = PROBLEMS["raindrop-1"]()
    data = Path(os.environ["EVENTVEC_DATA"]) / "physionet2012"
    outcomes = pl.read_parquet(data / "outcomes.parquet").select("RecordID", "In-hospital_death")
    died = dict(outcomes.iter_rows())
    splits = pl.read_parquet(data / "raindrop_splits.parquet").filter(split=1).cast({"part": pl.String})
    for part, rows, labels in (("train", found.train, found.y), ("test", found.test, found.truth)):
        assert sorted(rows.keys.to_pylist()) == sorted(splits.filter(part=part)["record_id"])
        assert labels.tolist() == [died[key] for key in rows.keys.to_pylist()]
    assert (len(found.y), found.y.sum(), len(found.truth), found.truth.sum()) == (9_590, 1_372, 1_199, 158)


# the numbers of RelArena


@pytest.mark.data
@pytest.mark.parametrize("task", RACES)
def test_numbers_of_relarena_are_of_one_regime(task: str) -> None:
    frozen, rolling = relarena(task, "frozen"), relarena(task, "rolling")
    assert len({number.of for number in frozen}) == len(frozen)
    assert [number.of for number in rolling] == ["the KumoRFM whitepaper: kumo_rfm_v1"]
    assert not any("kumo_rfm_v1" in number.of for number in frozen)
    assert all((number.score < 0) == (task == "position") for number in frozen + rolling)


@pytest.mark.data
def test_numbers_of_relarena_say_settings_and_training_rows() -> None:
    numbers = {number.of: number for number in relarena("dnf", "frozen")}
    tuned = numbers["RelArena: lightgbm, tuned"]
    assert tuned == Published("RelArena: lightgbm, tuned", pytest.approx(0.7303, abs=1e-4), "as here")
    assert numbers["RelArena: lightgbm, default"].score == pytest.approx(0.6933, abs=1e-4)
    assert "not trained on validation rows" in numbers["RelArena: relgnn-es, tuned"].regime
    assert "RelArena: constant-global, tuned = default" in numbers
    assert numbers["the TabPFN-3 report: kumo_rfm_v2"].score == 0.7203
