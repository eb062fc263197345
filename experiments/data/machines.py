"""Sensors: engines until their failure, and smartphones worn by people."""

from __future__ import annotations

import numpy as np
import polars as pl

from eventvec.datasets.bundled import Frames, Labelled
from eventvec.tables import Fitting, read
from experiments.data.data_folder import data_file

CMAPSS_FILES = ("train_FD001", "test_FD001", "test_FD003")
NEAR_END = 30  # cycles
HAPT_RATE, HAPT_WINDOW = 50, 128  # Hz, samples
HAPT_CHANNELS = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
HAPT_ACTIVITIES = {1: "walking", 2: "upstairs", 3: "downstairs", 4: "sitting", 5: "standing", 6: "laying"}
HAPT_TEST_USERS = (2, 4, 9, 10, 12, 13, 18, 20, 24)


def cmapss() -> Labelled:
    """Return the sensor readings of 300 simulated turbofan engines, one event per flight, and their remaining life.

    Entities are the engines of FD001 (train, run to failure; test, stopped before) and FD003 (test). Sensors that
    never change are left out, and so are the three operating settings, which are noise in these subsets. The schema
    standardises without the logarithm, in which readings such as 2388.1 ± 0.07 would lose digits.
    Labels: `set`, `subset`, the number of `cycles` in the data, and `rul`, the cycles left after the last one (0 for
    train).
    Source: NASA C-MAPSS, Saxena et al. 2008, a work of the US government.

    Raises:
        DataError: If a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data, labels = cmapss()  # doctest: +SKIP
        >>> labels.columns  # doctest: +SKIP
        ['engine', 'set', 'subset', 'cycles', 'rul']
    """
    events, labels = cmapss_frames()
    sensors = tuple(name for name in events.columns if name not in ("engine", "cycle"))
    fitting = Fitting(log=False)
    return read(events, key="engine", time="cycle", categorical=(), numeric=sensors, fitting=fitting), labels


def cmapss_frames() -> Frames:
    """Return the events and labels of `cmapss` as tables; `engine` is set, subset and unit, such as train_FD001_007.

    Raises:
        DataError: If a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> events, labels = cmapss_frames()  # doctest: +SKIP
    """
    parts = [_engines(name) for name in CMAPSS_FILES]
    events = pl.concat([part[0] for part in parts])
    sensors = [name for name in events.columns if name.startswith("s") and events[name].n_unique() > 1]
    return events.select("engine", "cycle", *sensors), pl.concat([part[1] for part in parts]).sort("engine")


def cmapss_times() -> pl.DataFrame:
    """Return labels for each cycle of `cmapss`: the number of cycles left after it, and whether it is below 30.

    The columns are `engine_cycle` (such as train_FD001_007_120), `engine`, `cycle`, `rul` and `near_end`. Cycles of one
    engine belong on one side of a split. Engines of test were stopped before they failed, so they have fewer cycles
    near the end.

    Raises:
        DataError: If a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> rows = histories(data, cmapss_times(), name="engine_cycle", time="cycle", last=30)  # doctest: +SKIP
    """
    events, labels = cmapss_frames()
    cycles = events.select("engine", "cycle").join(labels, on="engine", maintain_order="left")
    left = pl.col("rul") + pl.col("cycles") - pl.col("cycle")
    name = pl.format("{}_{}", "engine", pl.col("cycle").cast(pl.String).str.zfill(3))
    return cycles.select(name.alias("engine_cycle"), "engine", "cycle", rul=left, near_end=left < NEAR_END)


def uci_hapt() -> Labelled:
    """Return windows of smartphone motion at 50 Hz, each with twelve simple features, and the wearer's activity.

    A window is 128 samples (2.56 s) of acceleration (g) and rotation (rad/s) in x, y and z, cut from a stretch of one
    basic activity; it shares half of its samples with the next one. `t` is the number of the sample. The features of
    `uci_hapt_features` are static columns. All scales are fitted without the logarithm, to all windows: to leave the
    test users out of them, read the tables of `uci_hapt_frames` yourself.
    Labels: `user` (30), `activity` (6), and `test`, true if the user is one of the nine in the test set of UCI HAR.
    Source: UCI repository, data set 341, Reyes-Ortiz et al. 2015, CC BY 4.0.

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data, labels = uci_hapt()  # doctest: +SKIP
        >>> data, int(labels["test"].sum())  # doctest: +SKIP
        (Dataset(10,411 entities, 1,332,608 events, 6 fields), 2996)
    """
    events, labels = uci_hapt_frames()
    fitting, features = Fitting(log=False), uci_hapt_features(events)
    data = read(events, key="window", time="t", categorical=(), numeric=HAPT_CHANNELS, static=features, fitting=fitting)
    return data, labels


def uci_hapt_frames() -> Frames:
    """Return the events and labels of `uci_hapt` as tables, with windows numbered by user, recording and time.

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> events, labels = uci_hapt_frames()  # doctest: +SKIP
    """
    origin = "https://archive.ics.uci.edu/dataset/341"
    samples = pl.read_parquet(data_file("uci_hapt_raw/hapt_raw.parquet", origin)).sort("user", "exp", "t")
    stretches = (
        samples.with_row_index("start")
        .group_by(pl.struct("user", "exp", "label").rle_id().alias("stretch"), maintain_order=True)
        .agg(pl.first("start"), pl.first("user"), pl.first("label"), pl.len().cast(pl.Int64))
        .filter(pl.col("label").is_in(list(HAPT_ACTIVITIES)), pl.col("len") >= HAPT_WINDOW)
    )
    half = HAPT_WINDOW // 2
    windows = (
        stretches.with_columns(step=pl.int_ranges(0, (pl.col("len") - HAPT_WINDOW) // half + 1))
        .explode("step")
        .with_row_index("window")
        .with_columns(pl.col("window").cast(pl.Int32), first=pl.col("start").cast(pl.Int64) + half * pl.col("step"))
    )
    index = (windows["first"].to_numpy()[:, None] + np.arange(HAPT_WINDOW)).ravel()
    number = pl.Series("window", windows["window"].to_numpy().repeat(HAPT_WINDOW))
    events = samples[index].select(number, "t", *HAPT_CHANNELS)
    activity = pl.col("label").replace_strict(HAPT_ACTIVITIES, return_dtype=pl.String).alias("activity")
    return events, windows.select("window", "user", activity, pl.col("user").is_in(HAPT_TEST_USERS).alias("test"))


def uci_hapt_features(events: pl.DataFrame) -> pl.DataFrame:
    """Return twelve simple features of each window of `uci_hapt_frames`.

    These are the mean of the acceleration in x, y and z (the posture), its standard deviations, and its correlations
    xy, xz and yz; the energy of the rotation (mean of the squared length); and, for the length of the acceleration, its
    standard deviation and the frequency (Hz) with the most power, apart from the mean. A correlation with a constant
    channel is null.

    Args:
        events: windows of 128 rows each, in order of time.

    Example:
        >>> wave = 3 + np.sin(2 * np.pi * 6 * np.arange(128) / 128)  # 6 periods in 2.56 s
        >>> still = {name: np.zeros(128) for name in HAPT_CHANNELS[1:]}
        >>> features = uci_hapt_features(pl.DataFrame({"window": [0] * 128, "acc_x": wave, **still}))
        >>> features.select("acc_mean_x", "acc_corr_xy", "acc_length_frequency").with_columns(pl.all().round(9)).row(0)
        (3.0, None, 2.34375)
    """
    grouped, pairs = events.group_by("window", maintain_order=True), (("x", "y"), ("x", "z"), ("y", "z"))
    squares = [pl.col(f"gyro_{axis}").cast(pl.Float64).pow(2) for axis in "xyz"]
    table = grouped.agg(
        *(pl.col(f"acc_{axis}").mean().alias(f"acc_mean_{axis}") for axis in "xyz"),
        *(pl.col(f"acc_{axis}").std().alias(f"acc_std_{axis}") for axis in "xyz"),
        *(pl.corr(f"acc_{a}", f"acc_{b}").fill_nan(None).alias(f"acc_corr_{a}{b}") for a, b in pairs),
        pl.sum_horizontal(squares).mean().alias("gyro_energy"),
    )
    length = np.sqrt(sum(events[f"acc_{axis}"].to_numpy().astype(float) ** 2 for axis in "xyz"))
    rows = length.reshape(-1, HAPT_WINDOW)
    power = np.abs(np.fft.rfft(rows)[:, 1:])  # without the mean
    strongest = (1 + power.argmax(1)) * HAPT_RATE / HAPT_WINDOW
    return table.with_columns(
        pl.Series("acc_length_std", rows.std(1, ddof=1)), pl.Series("acc_length_frequency", strongest)
    )


def _engines(name: str) -> Frames:
    """Return the events and labels of one file, whose name is the set followed by the subset."""
    origin = "https://www.nasa.gov/intelligent-systems-division/discovery-and-systems-health/pcoe"
    part, subset = name.split("_")
    unit = pl.col("unit").cast(pl.String).str.zfill(3)
    raw = pl.read_parquet(data_file(f"cmapss/{name}.parquet", origin))
    events = raw.with_columns(pl.format(f"{name}_{{}}", unit).alias("engine")).drop("^set.*$")
    ends = events.group_by("unit", "engine").agg(pl.col("cycle").max().alias("cycles")).sort("unit")
    left = pl.Series("rul", [0] * len(ends))
    if part == "test":  # row i of the file belongs to unit i + 1
        left = pl.read_parquet(data_file(f"cmapss/RUL_{subset}.parquet", origin))["RUL"].alias("rul")
    labels = ends.select("engine", pl.lit(part).alias("set"), pl.lit(subset).alias("subset"), "cycles")
    return events.drop("unit"), labels.with_columns(left.cast(pl.Int64))
