"""The sensor data sets: small tables in their format, loops over windows, and the counts of the published tables."""

from __future__ import annotations

import cmath
import math
import statistics
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from disk import parquet
from experiments import data as datasets

# cmapss: a table in the same format


@pytest.fixture
def engines(folder: Path) -> Path:
    for number, name in enumerate(datasets.CMAPSS_FILES):
        parquet(
            folder / f"cmapss/{name}.parquet",
            {
                "unit": [1, 1, 2, 2, 2],
                "cycle": [1, 2, 1, 2, 3],
                "set1": [0.1, 0.2, 0.3, 0.4, 0.5],
                "s1": [518.67] * 5,
                "s2": [number + 0.5] * 5,  # differs between the files only
            },
        )
    parquet(folder / "cmapss/RUL_FD001.parquet", {"RUL": [112, 98]})
    parquet(folder / "cmapss/RUL_FD003.parquet", {"RUL": [44, 51]})
    return folder


def test_cmapss_has_one_key_and_the_remaining_life_of_each_engine(engines: Path) -> None:
    events, labels = datasets.cmapss_frames()
    assert events.columns == ["engine", "cycle", "s2"]
    assert events.filter(engine="test_FD003_002").rows() == [("test_FD003_002", i, 2.5) for i in (1, 2, 3)]
    assert labels.rows() == [
        ("test_FD001_001", "test", "FD001", 2, 112),
        ("test_FD001_002", "test", "FD001", 3, 98),
        ("test_FD003_001", "test", "FD003", 2, 44),
        ("test_FD003_002", "test", "FD003", 3, 51),
        ("train_FD001_001", "train", "FD001", 2, 0),
        ("train_FD001_002", "train", "FD001", 3, 0),
    ]


def test_cmapss_times_count_down_to_the_end_of_each_engine(engines: Path) -> None:
    _, labels = datasets.cmapss_frames()
    expected = [
        (f"{engine}_{cycle:03}", engine, cycle, rul + cycles - cycle, rul + cycles - cycle < 30)
        for engine, _, _, cycles, rul in labels.iter_rows()
        for cycle in range(1, cycles + 1)
    ]
    assert sorted(datasets.cmapss_times().iter_rows()) == expected
    assert sum(near for *_, near in expected) == 5  # all cycles of the two engines that ran to failure


@pytest.mark.data
def test_cmapss_counts() -> None:
    data, labels = datasets.cmapss()
    assert data.keys.to_pylist() == labels["engine"].to_list()
    assert data.sequences.lengths.tolist() == labels["cycles"].to_list()
    assert (len(data), data.sequences.total, len(data.schema.numeric)) == (300, 50_323, 16)
    cycles = datasets.cmapss_times()
    assert (len(cycles), cycles["near_end"].sum()) == (50_323, 3_578)
    assert all(math.isfinite(column.std) and column.std > 0 and not column.log for column in data.schema.numeric)


# uci_hapt: a table in the same format


@pytest.fixture
def motion(folder: Path) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    stretches = [  # user, recording, label, samples
        (3, 0, -1, 10),  # no activity
        (3, 0, 5, 320),  # standing: windows from 0, 64, 128 and 192
        (3, 0, 4, 127),  # sitting: one sample short of a window
        (3, 0, 7, 200),  # a transition: no window
        (3, 1, 1, 191),  # walking: one window, from 0
        (4, 0, 1, 192),  # walking, another user: two windows, none across users
    ]
    columns: dict[str, list] = {"user": [], "exp": [], "t": [], "label": []}
    for user, recording, label, samples in stretches:
        before = sum(u == user and e == recording for u, e in zip(columns["user"], columns["exp"], strict=True))
        columns["user"] += [user] * samples
        columns["exp"] += [recording] * samples
        columns["label"] += [label] * samples
        columns["t"] += range(before, before + samples)
    for name in datasets.HAPT_CHANNELS:
        columns[name] = rng.normal(size=len(columns["t"])).tolist()
    return parquet(folder / "uci_hapt_raw/hapt_raw.parquet", columns)


def test_hapt_windows_overlap_by_half_inside_one_activity_of_one_user(motion: pl.DataFrame) -> None:
    events, labels = datasets.uci_hapt_frames()
    standing, walking = (3, "standing", False), (3, "walking", False)
    assert labels.rows() == [(i, *row) for i, row in enumerate([standing] * 4 + [walking] + [(4, "walking", True)] * 2)]
    starts = [10, 74, 138, 202, 0, 0, 64]
    expected = [(window, start + step) for window, start in enumerate(starts) for step in range(128)]
    assert events.select("window", "t").rows() == expected
    assert events.filter(window=1)["gyro_z"].to_list() == motion["gyro_z"].to_list()[74 : 74 + 128]
    last = motion.filter(user=4)["acc_x"].to_list()
    assert events.filter(window=6)["acc_x"].to_list() == last[64:192]


def test_hapt_features_equal_a_loop_over_windows(motion: pl.DataFrame) -> None:
    events, _ = datasets.uci_hapt_frames()
    features = datasets.uci_hapt_features(events)
    assert features.width == 13
    for window, row in zip(features["window"], features.iter_rows(named=True), strict=True):
        one = events.filter(window=window)
        acc = {axis: one[f"acc_{axis}"].to_list() for axis in "xyz"}
        for axis in "xyz":
            assert row[f"acc_mean_{axis}"] == pytest.approx(statistics.mean(acc[axis]))
            assert row[f"acc_std_{axis}"] == pytest.approx(statistics.stdev(acc[axis]))
        for a, b in ("xy", "xz", "yz"):
            assert row[f"acc_corr_{a}{b}"] == pytest.approx(statistics.correlation(acc[a], acc[b]))
        squares = [sum(one[f"gyro_{axis}"][i] ** 2 for axis in "xyz") for i in range(128)]
        assert row["gyro_energy"] == pytest.approx(statistics.mean(squares))
        length = [math.hypot(*(acc[axis][i] for axis in "xyz")) for i in range(128)]
        assert row["acc_length_std"] == pytest.approx(statistics.stdev(length))
        power = [abs(sum(v * cmath.exp(-2j * math.pi * k * i / 128) for i, v in enumerate(length))) for k in range(65)]
        assert row["acc_length_frequency"] == max(range(1, 65), key=lambda k: power[k]) * 50 / 128


def test_hapt_as_a_dataset_has_the_features_beside_the_samples(motion: pl.DataFrame) -> None:
    data, labels = datasets.uci_hapt()
    assert data.keys.to_pylist() == labels["window"].to_list()
    assert data.sequences.lengths.tolist() == [128] * 7
    features = datasets.uci_hapt_features(datasets.uci_hapt_frames()[0])
    assert [field.name for field in data.schema.static] == features.columns[1:]
    for field in data.schema.static:
        values = data.sequences.static[field.name]
        assert values.tolist() == pytest.approx(features[field.name].to_list())
        assert not field.log
        scaled = field.scale(values)
        assert float(scaled.mean()) == pytest.approx(0, abs=1e-5)


@pytest.mark.data
def test_hapt_counts() -> None:
    events, labels = datasets.uci_hapt_frames()
    assert (len(events), len(labels), int(labels["test"].sum())) == (10_411 * 128, 10_411, 2_996)
    assert dict(labels["activity"].value_counts().iter_rows())["laying"] == 1_958
    assert labels["user"].n_unique() == 30
    features = datasets.uci_hapt_features(events)
    assert sum(features.null_count().row(0)) == 0
