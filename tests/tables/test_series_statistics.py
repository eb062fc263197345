"""Features of series: known waves, plain numpy, and rows that lack something."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
import scipy.stats

import eventvec as ev
from eventvec.tables.series_statistics import series_features


def features(*rows: np.ndarray, **options: object) -> pl.DataFrame:
    data = ev.read_series(np.stack(rows)[:, None].astype(np.float32), channels=["x"])
    return series_features(data, **options).rename(lambda name: name.removeprefix("x: "))  # type: ignore[arg-type]


def noise(length: int = 128, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(2, 3, length).astype(np.float32).astype(float)


def wave(frequency: float, length: int = 128) -> np.ndarray:
    return np.sin(2 * np.pi * frequency * np.arange(length) + 0.1)


def test_there_are_sixty_two_features_and_a_correlation_of_each_two_channels() -> None:
    data = ev.read_series(np.random.default_rng(0).normal(size=(3, 4, 64)))
    table = series_features(data)
    assert table.shape == (3, 1 + 4 * 62 + 6)
    assert series_features(data, pairs=False).shape == (3, 1 + 4 * 62)
    assert series_features(data, ["channel_2"]).shape == (3, 1 + 62)
    assert table["series"].to_list() == [0, 1, 2]
    assert table.drop("series").null_count().sum_horizontal().item() == 0


def test_features_of_values_equal_those_of_numpy_and_scipy() -> None:
    x = noise()
    named = features(x, x[::-1].copy()).row(0, named=True)
    change = np.diff(x)
    expected = {
        "mean": x.mean(), "std": x.std(), "min": x.min(), "max": x.max(), "median": np.median(x),
        "quartile_1": np.quantile(x, 0.25), "quartile_3": np.quantile(x, 0.75), "iqr": scipy.stats.iqr(x),
        "mad": scipy.stats.median_abs_deviation(x), "mean_absolute": np.abs(x).mean(), "energy": (x**2).mean(),
        "skewness": scipy.stats.skew(x), "kurtosis": scipy.stats.kurtosis(x, fisher=False),
        "share_above_mean": (x > x.mean()).mean(),
        "mean_crossings": ((x > x.mean())[1:] != (x > x.mean())[:-1]).mean(),
        "trend": np.corrcoef(x, np.arange(len(x)))[0, 1],
        "entropy": scipy.stats.entropy(np.histogram(x, 10)[0]) / math.log(10),
        "change_mean": np.abs(change).mean(), "change_std": change.std(), "change_min": change.min(),
        "change_max": change.max(), "change_kurtosis": scipy.stats.kurtosis(change, fisher=False),
        "large_changes": (np.abs(change) / x.std() > 0.04).mean(),
        "reversibility": ((change / x.std()) ** 3).mean(),
    }  # fmt: skip
    assert {name: named[name] for name in expected} == pytest.approx(expected, rel=1e-4, abs=1e-5)


def longest(mask: list[bool]) -> int:
    best = run = 0
    for each in mask:
        run = run + 1 if each else 0
        best = max(best, run)
    return best


def test_runs_peaks_and_correlation_times_equal_loops() -> None:
    for seed in range(8):
        x = np.cumsum(noise(60, seed)) if seed % 2 else noise(60, seed)
        x = x.astype(np.float32).astype(float)
        named = features(x).row(0, named=True)
        z = (x - x.mean()) / x.std()
        acf = [float((z[: len(z) - lag] * z[lag:]).sum() / len(z)) for lag in range(len(z))]
        for lag in (1, 2, 3, 5, 10):
            assert named[f"autocorrelation_{lag}"] == pytest.approx(acf[lag], abs=1e-5)
        assert named["correlation_time"] == next(lag for lag, value in enumerate(acf) if value < 1 / math.e)
        minima = [lag for lag in range(1, 59) if acf[lag] < acf[lag - 1] and acf[lag] < acf[lag + 1]]
        assert named["first_minimum"] == minima[0]
        assert named["longest_above_mean"] == longest([value > 0 for value in z])
        assert named["longest_decrease"] == longest([after < before for before, after in pairwise(x)])
        peaks = [i for i in range(1, 59) if z[i] > z[i - 1] and z[i] >= z[i + 1] and z[i] > 0]
        assert named["peaks"] == pytest.approx(len(peaks) / 60)
        assert named["peak_height"] == pytest.approx(np.mean([z[i] for i in peaks]), abs=1e-5)
        if len(peaks) > 1:
            assert named["peak_distance"] == pytest.approx((peaks[-1] - peaks[0]) / (len(peaks) - 1))


def test_the_spectrum_of_waves() -> None:
    table = features(wave(0.125), wave(0.25) + 0.01 * wave(0.0625), noise())
    assert table["dominant_frequency"].to_list()[:2] == [0.125, 0.25]
    assert table["dominant_share"].to_list()[:2] == pytest.approx([1, 1], abs=1e-3)
    assert table["spectral_centroid"].to_list()[:2] == pytest.approx([0.125, 0.25], abs=1e-3)
    assert table["spectral_entropy"].to_list()[0] < 0.01 < 0.8 < table["spectral_entropy"].to_list()[2]
    assert table["median_frequency"].to_list()[:2] == [0.125, 0.25]
    bands = table.select(pl.selectors.starts_with("band_")).to_numpy()
    assert bands.sum(1) == pytest.approx([1, 1, 1])
    assert bands[:2].argmax(1).tolist() == [1, 2]


def test_the_coefficients_of_an_autoregression_are_found() -> None:
    rng, x = np.random.default_rng(0), np.zeros(20_000)
    for t in range(2, len(x)):
        x[t] = 0.6 * x[t - 1] - 0.3 * x[t - 2] + rng.normal()
    row = features(x).row(0, named=True)
    assert [row[f"regression_{i}"] for i in (1, 2, 3, 4)] == pytest.approx([0.6, -0.3, 0, 0], abs=0.02)


def test_shape_does_not_depend_on_the_unit() -> None:
    x = noise()
    one, other = features(x, 7 * x + 40).rows(named=True)
    for name in (
        "skewness",
        "mode_5",
        "autocorrelation_3",
        "spectral_entropy",
        "peaks",
        "peak_height",
        "large_changes",
    ):
        assert one[name] == pytest.approx(other[name], rel=1e-3, abs=1e-3), name


def test_series_of_other_lengths_have_the_features_that_they_have_alone() -> None:
    values = np.full((3, 1, 64), np.nan)
    for row, length in enumerate((64, 40, 15)):
        values[row, 0, :length] = noise(length, row)
    together = series_features(ev.read_series(values, channels=["x"]))
    alone = series_features(ev.read_series(values[1:2, :, :40], channels=["x"]))
    assert together.row(1)[1:] == pytest.approx(alone.row(0)[1:])
    assert set(together.row(2)[1:]) == {None}  # fewer than 16 steps


def test_what_is_not_defined_is_missing() -> None:
    with_gap = noise()
    with_gap[5] = np.nan
    table = features(np.full(128, 3.0), with_gap)
    constant, lacking = table.rows(named=True)
    assert (constant["mean"], constant["std"], constant["min"], constant["change_mean"]) == (3.0, 0.0, 3.0, 0.0)
    assert {constant[name] for name in ("skewness", "autocorrelation_1", "spectral_entropy", "peaks")} == {None}
    assert {value for name, value in lacking.items() if name != "series"} == {None}


def test_columns_that_are_not_numbers_are_refused() -> None:
    data = ev.read_series(np.zeros((2, 1, 20)))
    with pytest.raises(ev.ConfigError, match=r"channels must be numeric columns; .*channel_0"):
        series_features(data, ["chanel_0"])
