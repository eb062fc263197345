"""Arrays of regular series as data sets."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev


def array(n: int = 6, channels: int = 3, length: int = 20) -> np.ndarray:
    return np.random.default_rng(0).normal(5, 2, (n, channels, length)).astype(np.float32)


def test_each_step_is_an_event_with_its_channels() -> None:
    values = array()
    data = ev.read_series(values, channels=["x", "y", "z"])
    assert data.keys.to_pylist() == list(range(6))
    assert [field.name for field in data.schema.numeric] == ["x", "y", "z"]
    x = data.sequences
    for channel, name in enumerate("xyz"):
        assert np.array_equal(x.values(name).view(6, 20).numpy(), values[:, channel])
    assert torch.equal(x.values("time"), torch.arange(20).repeat(6))


def test_numbers_are_standardised_without_the_logarithm() -> None:
    values = array()
    field = ev.read_series(values).schema.numeric[1]
    assert (field.name, field.log) == ("channel_1", False)
    assert field.mean == pytest.approx(values[:, 1].mean(), rel=1e-4)
    assert field.std == pytest.approx(values[:, 1].std(), rel=1e-4)


def test_an_array_of_two_axes_has_a_single_channel() -> None:
    data = ev.read_series(array()[:, 0])
    assert [field.name for field in data.schema.numeric] == ["channel_0"]
    assert data.sequences.lengths.tolist() == [20] * 6


def test_steps_without_values_at_the_end_are_left_out() -> None:
    values = array()
    values[1, :, 15:] = np.nan
    values[2, 0, 15:] = np.nan  # one channel alone
    values[3, :, 4] = np.nan  # a gap inside
    values[4] = np.nan
    x = ev.read_series(values).sequences
    assert x.lengths.tolist() == [20, 15, 20, 20, 1, 20]
    assert x[[3]].values("channel_0").isnan().sum().item() == 1


def test_later_arrays_get_the_scales_and_the_names_of_the_training_data() -> None:
    train = ev.read_series(array(), channels=["x", "y", "z"])
    later = ev.read_series(array() * 9, schema=train.schema)
    assert later.schema == train.schema


def test_features_join_by_the_number_of_the_series() -> None:
    static = pl.DataFrame({"series": range(6), "speed": np.arange(6.0)})
    data = ev.read_series(array(), static=static, static_columns={"speed": "numeric"})
    assert data.sequences.static["speed"].tolist() == list(range(6))


@pytest.mark.parametrize(
    ("values", "options", "error", "message"),
    [
        (np.zeros(3), {}, ev.DataError, r"series must be an array \(n, channels, length\) or \(n, length\) of numbers"),
        (np.full((2, 2, 2), "a"), {}, ev.DataError, "of numbers, got shape"),
        (np.zeros((2, 2, 20)), {"channels": ["x"]}, ev.ConfigError, "channels must be 2 different names"),
        (np.zeros((2, 2, 20)), {"channels": ["x", "x"]}, ev.ConfigError, "channels must be 2 different names"),
        (np.zeros((2, 1, 20)), {"channels": ["step"]}, ev.ConfigError, "other than 'series' and 'step'"),
        (np.full((2, 1, 20), np.inf), {}, ev.DataError, "infinite"),
        (np.zeros((2, 3, 0)), {}, ev.DataError, r"got shape \(2, 3, 0\) of float64"),
        (np.zeros((0, 20)), {}, ev.DataError, r"got shape \(0, 20\) of float64"),
        (
            np.zeros((2, 1, 20)),
            {"schema": ev.read_series(np.zeros((2, 1, 20))).schema, "channels": ["x"]},
            ev.ConfigError,
            "a schema has the channels, the static columns and the scales",
        ),
    ],
)
def test_other_arrays_are_refused(values: np.ndarray, options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ev.read_series(values, **options)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
def test_masked_numbers_are_missing(kind: type[np.generic]) -> None:
    values = np.ma.masked_array(np.arange(6, dtype=kind).reshape(2, 3), mask=[[0, 1, 0], [0, 0, 1]])
    expected = np.array([[0, np.nan, 2], [3, 4, np.nan]])
    assert ev.read_series(values).fingerprint == ev.read_series(expected).fingerprint
