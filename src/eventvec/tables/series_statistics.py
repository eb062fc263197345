"""About sixty features of a regular series, computed for all rows at once: what an expert would compute by hand.

The definitions are public: catch22 (Lubba et al. 2019), named below by its names, and the features of the UCI HAR data
set (Anguita et al. 2013), named as `har`. The order, and what each is::

    values            mean, standard deviation, quantiles, shape; histograms; trend; runs above the mean
    autocorrelation   at five lags, its first minimum and its fall below 1/e; coefficients of autoregression
    spectrum          centroid, spread, entropy, dominant frequency, energy of bands
    peaks             how many there are, how high, how far apart
    changes           the differences of neighbours, which experts on motion call jerk

Frequencies are in cycles per step, from 0 to ½; times are in steps. Nothing is fitted: the scales by which a method
standardises features are those of the schema, from training data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import polars as pl
import torch
from torch import Tensor

from eventvec.dataset import Dataset, check_dataset
from eventvec.errors import ConfigError, DataError, nearest
from eventvec.tables.keys import key_series

LAGS, ORDER, BANDS = (1, 2, 3, 5, 10), 4, 6
SHORTEST = 16
"""The smallest number of steps of a series that has features."""
BLOCK = 2**22
"""The number of values that are looked at at a time."""


def series_features(data: Dataset, channels: Sequence[str] | None = None, *, pairs: bool = True) -> pl.DataFrame:
    """Return 62 features of each channel of each entity, and the correlation of each two channels.

    Args:
        data: The entities. Times do not matter: values are taken to be at equal distances.
        channels: The numeric columns to compute features of; all of them by default.
        pairs: Whether to add the correlations.

    Returns:
        A table with the key, and columns such as `acc_x: spectral_entropy` and `acc_x, acc_y: correlation`. A feature
        is null where it is not defined: the series has fewer than 16 steps, lacks a value, or is constant in one whose
        shape the feature describes.

    Raises:
        ConfigError: If a channel is not a numeric column.
        DataError: If a key has several rows.

    Example:
        >>> import eventvec as ev
        >>> steps = torch.arange(64.0)
        >>> waves = torch.stack([(2 * math.pi * 0.125 * steps).sin(), (2 * math.pi * 0.25 * steps).sin()])
        >>> data = ev.read_series(waves[:, None].numpy(), channels=["x"])
        >>> features = series_features(data)
        >>> features.shape, features["x: dominant_frequency"].to_list()
        ((2, 63), [0.125, 0.25])
    """
    check_dataset(data)
    names = tuple(field.name for field in data.schema.numeric) if channels is None else tuple(channels)
    known = [field.name for field in data.schema.numeric]
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"channels must be numeric columns; {nearest(unknown[0], known)}")
    if not names:
        raise ConfigError("series_features needs a numeric column, and the data have none")
    if data.moments is not None:
        raise DataError("series_features needs one row for each key, and these data have several times of a key")
    x = data.sequences
    features = list(_features(torch.zeros(1, SHORTEST, dtype=torch.float64)))
    columns = [f"{name}: {feature}" for name in names for feature in features]
    two = list(combinations(names, 2)) if pairs else []
    columns += [f"{one}, {other}: correlation" for one, other in two]
    numbers = torch.full((len(x), len(columns)), math.nan, dtype=torch.float64)
    for length in x.lengths.unique().tolist():  # rows of one length are a matrix
        if length < SHORTEST:
            continue
        for rows in (x.lengths == length).nonzero().squeeze(1).split(max(1, BLOCK // length)):
            part = x[rows]
            values = {name: part.values(name).double().view(len(rows), length).cpu() for name in names}
            shapes = {name: _standardised(series)[0] for name, series in values.items()}
            of_channels = [value for series in values.values() for value in _features(series).values()]
            of_pairs = [(shapes[one] * shapes[other]).mean(1) for one, other in two]
            numbers[rows.cpu()] = torch.stack([*of_channels, *of_pairs], 1)
    table = {name: pl.Series(values.numpy()).fill_nan(None) for name, values in zip(columns, numbers.T, strict=True)}
    return pl.DataFrame({data.schema.key: key_series(data.keys, data.schema.key), **table})


def _features(x: Tensor) -> dict[str, Tensor]:
    """Return `(n,)` each feature of series `(n, length)` by name; NaN where a series lacks a value."""
    shape, scale = _standardised(x)
    features = {**_of_values(x, shape, scale), **_of_autocorrelation(shape), **_of_spectrum(shape)}
    features |= {**_of_peaks(shape), **_of_changes(x, shape)}
    return {name: _where(values, x) for name, values in features.items()}


def _standardised(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return series with mean 0 and deviation 1, NaN where they are constant, and the deviations `(n, 1)`."""
    centred = x - x.mean(1, keepdim=True)
    scale = centred.square().mean(1, keepdim=True).sqrt()
    size = x.abs().amax(1, keepdim=True)
    return centred / scale.where(scale > 1e-9 * size, torch.full_like(scale, math.nan)), scale


def _of_values(x: Tensor, shape: Tensor, scale: Tensor) -> dict[str, Tensor]:
    length = x.shape[1]
    quartiles = _quantiles(x, (0.25, 0.5, 0.75))
    step = torch.linspace(-1, 1, length, dtype=x.dtype)
    step = step / step.square().mean().sqrt()
    trend = (shape * step).mean(1)
    third = length // 3
    above = shape > 0
    return {
        "mean": x.mean(1), "std": scale.squeeze(1), "min": x.amin(1), "max": x.amax(1),
        "median": quartiles[1], "quartile_1": quartiles[0], "quartile_3": quartiles[2],
        "iqr": quartiles[2] - quartiles[0],  # har iqr
        "mad": _quantiles((x - quartiles[1][:, None]).abs(), (0.5,))[0],  # har mad
        "mean_absolute": x.abs().mean(1),  # har sma of one channel
        "energy": x.square().mean(1),  # har energy
        "skewness": shape.pow(3).mean(1), "kurtosis": shape.pow(4).mean(1),
        "entropy": _entropy(_histogram(x, 10)),  # of a histogram of ten bins
        "mode_5": _mode(shape, 5), "mode_10": _mode(shape, 10),  # DN_HistogramMode_5, DN_HistogramMode_10
        "share_above_mean": _where(above.double().mean(1), shape),
        "mean_crossings": _where((above[:, 1:] != above[:, :-1]).double().mean(1), shape),
        "longest_above_mean": _where(_longest_run(above), shape),  # SB_BinaryStats_mean_longstretch1
        "trend": trend, "trend_error": (1 - trend.square()).clamp(min=0).sqrt(),
        "first_third": shape[:, :third].mean(1), "last_third": shape[:, -third:].mean(1),
    }  # fmt: skip


def _of_autocorrelation(shape: Tensor) -> dict[str, Tensor]:
    length = shape.shape[1]
    spectrum = torch.fft.rfft(shape.nan_to_num(0.0), 2 * length)
    acf = torch.fft.irfft(spectrum.abs().square(), 2 * length)[:, :length] / length
    acf = acf.masked_fill(shape.isnan().any(1, keepdim=True), math.nan)
    low, inner = acf < 1 / math.e, acf[:, 1:-1]
    minimum = (inner < acf[:, :-2]) & (inner < acf[:, 2:])
    features = {f"autocorrelation_{lag}": acf[:, lag] for lag in LAGS}
    features["correlation_time"] = _where(_first(low, length), shape)  # CO_f1ecac, without interpolation
    features["first_minimum"] = _where(1 + _first(minimum, length - 1), shape)  # CO_FirstMin_ac
    features["reversibility"] = shape.diff(dim=1).pow(3).mean(1)  # CO_trev_1_num
    # har arCoeff, by the equations of Yule and Walker; a little is added to the diagonal of a pure wave
    lags = torch.arange(ORDER)
    matrix = acf[:, (lags[:, None] - lags).abs()].nan_to_num(0.0) + 1e-9 * torch.eye(ORDER, dtype=shape.dtype)
    matrix = matrix + torch.eye(ORDER, dtype=shape.dtype) * acf[:, :1, None].isnan()
    coefficients = torch.linalg.solve(matrix, acf[:, 1 : ORDER + 1].nan_to_num(0.0))
    return features | {f"regression_{i + 1}": _where(coefficients[:, i], shape) for i in range(ORDER)}


def _of_spectrum(shape: Tensor) -> dict[str, Tensor]:
    power = torch.fft.rfft(shape).abs().square()[:, 1:]  # without the mean
    power = power / power.sum(1, keepdim=True)
    bins = power.shape[1]
    frequency = torch.arange(1, bins + 1, dtype=power.dtype) / (2 * bins)
    centroid = (power * frequency).sum(1)  # SP_Summaries_welch_rect_centroid is its median
    spread = (power * (frequency - centroid[:, None]).square()).sum(1).sqrt()
    around = (frequency - centroid[:, None]) / spread[:, None].clamp(min=1e-9)
    total = power.cumsum(1)
    at = {share: frequency[(total < share).sum(1).clamp(max=bins - 1)] for share in (0.5, 0.85)}
    edges = [round(bins * i / BANDS) for i in range(BANDS + 1)]
    return {
        "dominant_frequency": _where(frequency[power.nan_to_num(0.0).argmax(1)], power),  # har maxInds
        "dominant_share": power.amax(1),
        "spectral_centroid": centroid, "spectral_spread": spread,  # har meanFreq
        "spectral_skewness": (power * around.pow(3)).sum(1),  # har skewness of the spectrum
        "spectral_kurtosis": (power * around.pow(4)).sum(1),
        "spectral_entropy": _entropy(power),
        "median_frequency": _where(at[0.5], power), "rolloff": _where(at[0.85], power),
        "low_share": power[:, : max(1, bins // 5)].sum(1),  # SP_Summaries_welch_rect_area_5_1
        **{f"band_{i + 1}": power[:, edges[i] : edges[i + 1]].sum(1) for i in range(BANDS)},  # har bandsEnergy
    }  # fmt: skip


def _of_peaks(shape: Tensor) -> dict[str, Tensor]:
    inner = shape[:, 1:-1]
    peak = (inner > shape[:, :-2]) & (inner >= shape[:, 2:]) & (inner > 0)
    count = peak.sum(1)
    place = torch.arange(inner.shape[1], dtype=shape.dtype)
    first = torch.where(peak, place, math.inf).amin(1)
    last = torch.where(peak, place, -math.inf).amax(1)
    distance = (last - first) / (count - 1)
    return {
        "peaks": _where(count / shape.shape[1], shape),
        "peak_height": _where((inner * peak).sum(1) / count, shape),
        "peak_distance": torch.where(count > 1, distance, math.nan),
    }


def _of_changes(x: Tensor, shape: Tensor) -> dict[str, Tensor]:
    change, of_shape = x.diff(dim=1), shape.diff(dim=1)
    standardised, scale = _standardised(change)
    return {
        "change_mean": change.abs().mean(1), "change_std": scale.squeeze(1),  # har tBodyAccJerk
        "change_min": change.amin(1), "change_max": change.amax(1),
        "change_kurtosis": standardised.pow(4).mean(1),
        "change_entropy": _entropy(_histogram(change, 10)),
        "large_changes": _where((of_shape.abs() > 0.04).double().mean(1), shape),  # MD_hrv_classic_pnn40
        "longest_decrease": _where(_longest_run(change < 0), shape),  # SB_BinaryStats_diff_longstretch0
    }  # fmt: skip


def _where(values: Tensor, of: Tensor) -> Tensor:
    """Return values as numbers, NaN in rows whose series have NaN."""
    return values.double().masked_fill(of.isnan().any(1), math.nan)


def _quantiles(x: Tensor, shares: Sequence[float]) -> Tensor:
    """Return `(shares, n)` quantiles; torch's refuses large inputs."""
    ordered, last = x.sort(1).values, x.shape[1] - 1
    places = [share * last for share in shares]
    return torch.stack([torch.lerp(ordered[:, math.floor(p)], ordered[:, math.ceil(p)], p % 1) for p in places])


def _histogram(x: Tensor, bins: int) -> Tensor:
    """Return `(n, bins)` the share of values in bins of equal width from the least to the largest."""
    low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    place = ((x - low) / (high - low) * bins).nan_to_num(0.0).long().clamp(0, bins - 1)
    counts = torch.zeros(len(x), bins, dtype=x.dtype).scatter_add(1, place, torch.ones_like(x))
    return counts / x.shape[1]


def _mode(shape: Tensor, bins: int) -> Tensor:
    """Return the middle of the fullest bin."""
    low, high = shape.amin(1), shape.amax(1)
    return low + (high - low) * (_histogram(shape, bins).argmax(1) + 0.5) / bins


def _entropy(shares: Tensor) -> Tensor:
    """Return the entropy of shares in nats over its largest value, in [0, 1]."""
    nats: Tensor = torch.special.entr(shares).sum(1)
    return nats / math.log(shares.shape[1])


def _longest_run(mask: Tensor) -> Tensor:
    """Return `(n,)` the length of the longest run of true in each row."""
    step = torch.arange(1, mask.shape[1] + 1)
    before = torch.where(mask, 0, step).cummax(1).values
    return (step - before).amax(1)


def _first(mask: Tensor, otherwise: int) -> Tensor:
    """Return `(n,)` the first place that is true, or another number."""
    return torch.where(mask.any(1), mask.double().argmax(1), otherwise)
