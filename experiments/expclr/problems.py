"""The three data sets of the study, each in a training part and a test part, with expert features.

::

    hapt              smartphone motion of 30 people: 12, 62 or 387 features, tested on nine people
    electric_devices  electricity of household devices: 62 features, tested on the published test part
    icu               intensive-care stays: the severity scores SAPS-I and SOFA, tested on a third of the stays

For choosing settings, a part of the training part takes the place of the test part, which is then not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import numpy as np
import polars as pl

import eventvec as ev
from eventvec.errors import DataError
from eventvec.learners.metrics import Task
from eventvec.sequences import Array
from experiments import data as private
from experiments.cresp import icu_stays
from experiments.cresp.icu_stays import DEATH
from experiments.data.data_folder import data_file

Name = Literal["hapt", "electric_devices", "icu"]
LABEL = "label"
SCORES = ("SAPS-I", "SOFA")
OUTCOMES = (DEATH, "Length_of_stay", "Survival")
"""The columns of physionet2012 that are known only after the stay."""
IN_UNITS = (
    *("mean", "std", "min", "max", "median", "quartile_1", "quartile_3", "iqr", "mad", "mean_absolute", "energy"),
    *("change_mean", "change_std", "change_min", "change_max"),
)
"""The features that are in units of the channel; the others describe its shape."""
CHOOSING_USERS, TEST_SHARE, CHOOSING_SHARE = 5, 3, 5
"""The training users to choose on; a third of the stays is the test part, and a fifth of the others chooses."""


@dataclass(frozen=True)
class Variant:
    """What a problem is made of.

    Args:
        name: The data set.
        features: For hapt, `twelve`, `one series` (62 of the length of the acceleration), `all` (62 of each of the six
            channels, and 15 correlations) or `in units` (the 90 of `all` that are in units of their channel, see
            `IN_UNITS`); the other data sets have one set of features, `all`.
        noise: Whether as many columns of random numbers are added to the features.
        fraction: The share of the training entities that have a label in training.
        seed: The seed of the choice of these.
        choosing: Whether the test part is made of training entities, to choose settings on.
        small: Whether there are few entities.
    """

    name: Name
    features: str = "all"
    noise: bool = False
    fraction: float = 1.0
    seed: int = 0
    choosing: bool = False
    small: bool = False


@dataclass(frozen=True, eq=False)
class Problem:
    """A training part, whose scales apply to both parts, and a test part.

    Args:
        task: `multiclass` or `binary`.
        training: The entities to train on, with the features and the label `LABEL` as static columns; the label is
            missing for those that have none in training.
        test: The entities to test on, with the features.
        features: The names of the features.
        classes: The labels in the order of their codes.
        y_training: `(n,)` codes of the labels of the training entities; -1 where training does not have it.
        y_test: `(m,)` codes of the labels of the test entities.
        units: `(m,)` codes of what the interval resamples: the user of each test entity, or the entity itself.
    """

    task: Task
    training: ev.Dataset
    test: ev.Dataset
    features: tuple[str, ...]
    classes: tuple[str, ...]
    y_training: Array
    y_test: Array
    units: Array


@dataclass(frozen=True, eq=False)
class _Parts:
    """Tables of a data set: its events, and for each entity the key, `LABEL`, `unit` and whether it is for testing."""

    task: Task
    events: pl.DataFrame
    entities: pl.DataFrame
    features: pl.DataFrame


@lru_cache(maxsize=4)  # the arms of a table follow one another on the same data
def problem(variant: Variant) -> Problem:
    """Return a problem; callers share it and leave it as it is.

    Raises:
        DataError: If a file is not in the folder that EVENTVEC_DATA names.
    """
    makers = {"hapt": _hapt, "electric_devices": _electric_devices, "icu": _icu}
    parts = makers[variant.name](variant.features, variant.choosing, variant.small)
    key = parts.entities.columns[0]
    features = _with_noise(parts.features, key) if variant.noise else parts.features
    classes = sorted(parts.entities[LABEL].unique())
    code = pl.col(LABEL).replace_strict(classes, range(len(classes)), return_dtype=pl.Int64)
    training, test = (parts.entities.filter(pl.col("test") == of_test) for of_test in (False, True))
    codes = training.select(code)[LABEL].to_numpy()
    known = labelled(codes, variant.fraction, variant.seed)
    label = training.select(key, LABEL).with_columns(pl.when(pl.Series(known)).then(pl.col(LABEL)).alias(LABEL))
    names = [name for name in features.columns if name != key]
    data = _read(parts.events, training[key], features.join(label, on=key, how="left"), names, None)
    unseen = _read(parts.events, test[key], features.join(label, on=key, how="left"), names, data.schema)
    units = np.unique(test["unit"].to_numpy(), return_inverse=True)[1]
    return Problem(
        parts.task, data, unseen, tuple(names), tuple(classes), np.where(known, codes, -1),
        test.select(code)[LABEL].to_numpy(), units,
    )  # fmt: skip


def labelled(codes: Array, fraction: float, seed: int) -> Array:
    """Return `(n,)` bool: a random share of the entities of each class, at least one of each.

    Example:
        >>> int(labelled(np.repeat([0, 1], [100, 10]), 0.05, seed=0)[100:].sum())
        1
    """
    order = np.random.default_rng(seed).permutation(len(codes))
    known = np.zeros(len(codes), bool)
    for value in np.unique(codes):
        of_class = order[codes[order] == value]
        known[of_class[: max(1, round(fraction * len(of_class)))]] = True
    return known


def expert_scores(outcomes: pl.DataFrame, names: Sequence[str] = SCORES) -> pl.DataFrame:
    """Return the columns of the table of outcomes of physionet2012 that an encoder may learn from, with -1 as missing.

    Raises:
        DataError: If a column is an outcome of the stay, which would tell the encoder what it is tested on.
    """
    if outcome := next((name for name in names if name in OUTCOMES), None):
        raise DataError(
            f"{outcome} is an outcome of the stay and known only after it, so it cannot be an expert feature; those at "
            f"hand are {' and '.join(SCORES)}"
        )
    values = [pl.when(pl.col(name) >= 0).then(pl.col(name)).cast(pl.Float64).alias(name) for name in names]
    return outcomes.select(pl.col("RecordID").cast(pl.Int32).alias(icu_stays.KEY), *values)


def stay_aggregates(variant: Variant) -> tuple[Array, Array]:
    """Return five features of each parameter of the training stays, and of the test stays: `icu_stays.aggregates`."""
    parts = _icu(variant.features, variant.choosing, variant.small)
    table = icu_stays.aggregates(parts.events)  # one row per stay in order of keys, as in `entities`
    of_test = parts.entities["test"].to_numpy()
    return table[~of_test], table[of_test]


def _read(
    events: pl.DataFrame, keys: pl.Series, static: pl.DataFrame, features: list[str], schema: ev.Schema | None
) -> ev.Dataset:
    """Return the entities with these keys, in their order, by a schema or with one that is fitted to them.

    The columns of the events are the key, the time and values; those that are text are categorical.
    """
    part = events.filter(pl.col(keys.name).is_in(keys.implode()))
    if schema is not None:
        return ev.read(part, schema=schema, static=static)
    key, time, *values = part.columns
    categorical = [name for name in values if part.schema[name] == pl.String]
    numeric = [name for name in values if name not in categorical]
    kinds = {**dict.fromkeys(features, "numeric"), LABEL: "categorical"}
    return ev.read(
        part, key=key, time=time, categorical=categorical, numeric=numeric, static=static, static_columns=kinds,
        fitting=ev.Fitting(min_count=1, log=False),
    )  # fmt: skip


def _with_noise(features: pl.DataFrame, key: str) -> pl.DataFrame:
    """Return features with as many columns of random numbers beside them."""
    count = len(features.columns) - 1
    noise = np.random.default_rng(0).normal(size=(len(features), count))
    return features.with_columns(pl.Series(f"noise {i}", noise[:, i]) for i in range(count)).select(
        key, pl.exclude(key)
    )


@cache
def _hapt(features: str, choosing: bool, small: bool) -> _Parts:
    events, labels = private.uci_hapt_frames()
    users = np.array(labels.filter(~pl.col("test"))["user"].unique().sort())
    held_out = np.random.default_rng(0).permutation(users)[:CHOOSING_USERS].tolist()
    if choosing:
        labels = labels.filter(~pl.col("test")).with_columns(test=pl.col("user").is_in(held_out))
    if small:
        labels = labels.filter(pl.col("window") % 160 == 0)
    entities = labels.select("window", pl.col("activity").alias(LABEL), unit="user", test="test")
    events = events.join(entities, on="window", how="semi", maintain_order="left")
    return _Parts("multiclass", events, entities, _motion_features(events, features))


def _motion_features(events: pl.DataFrame, features: str) -> pl.DataFrame:
    if features == "twelve":
        return private.uci_hapt_features(events)
    if features == "one series":
        squares = [pl.col(f"acc_{axis}").cast(pl.Float64).pow(2) for axis in "xyz"]
        events = events.select("window", "t", acc_length=pl.sum_horizontal(squares).sqrt())
    channels = [name for name in events.columns if name not in ("window", "t")]
    table = ev.series_features(ev.read(events, key="window", time="t", categorical=(), numeric=channels))
    if features == "in units":
        table = table.select("window", *(f"{channel}: {name}" for channel in channels for name in IN_UNITS))
    return table


@cache
def _electric_devices(features: str, choosing: bool, small: bool) -> _Parts:
    table = pl.read_parquet(data_file("ucr/ElectricDevices.parquet", "https://www.timeseriesclassification.com"))
    table = table.with_row_index("series").with_columns(pl.col("series").cast(pl.Int64))
    if small:
        table = table.filter(pl.col("series") % 122 == 0)
    if choosing:
        table = table.filter(split="train").with_columns(
            split=pl.when(pl.col("series") % CHOOSING_SHARE == 0).then(pl.lit("test")).otherwise("split")
        )
    label = pl.col("label").cast(pl.String).alias(LABEL)
    entities = table.select("series", label, unit="series", test=pl.col("split") == "test")
    long = table.select("series", "x", t=pl.int_ranges(pl.col("x").list.len())).explode("x", "t")
    events = long.select("series", "t", "x")
    series = ev.read(events, key="series", time="t", categorical=(), numeric=("x",))
    return _Parts("multiclass", events, entities, ev.series_features(series))


@cache
def _icu(features: str, choosing: bool, small: bool) -> _Parts:
    """Return the stays of set a, whose values are clipped and standardised with the scales of the training stays."""
    in_a = pl.col("set").cast(pl.String) == "a"
    table = pl.read_parquet(data_file("physionet2012/events.parquet", icu_stays.ORIGIN)).filter(in_a)
    outcomes = pl.read_parquet(data_file("physionet2012/outcomes.parquet", icu_stays.ORIGIN)).filter(in_a)
    measured = table.with_columns(pl.col("parameter").cast(pl.String)).filter(
        ~pl.col("parameter").is_in(icu_stays.LEFT_OUT)
    )
    keys = measured[icu_stays.KEY].unique().sort()
    order = np.random.default_rng(0).permutation(len(keys))
    held_out, others = np.split(order, [len(keys) // TEST_SHARE])
    if small:
        held_out, others = held_out[:40], others[:80]
    if choosing:
        held_out, others = np.split(others, [len(others) // CHOOSING_SHARE])
    of_test = np.isin(np.arange(len(keys)), held_out)
    chosen = of_test | np.isin(np.arange(len(keys)), others)
    stays = pl.DataFrame({icu_stays.KEY: keys, "test": of_test}).filter(pl.Series(chosen))
    death = outcomes.select(pl.col("RecordID").cast(pl.Int32).alias(icu_stays.KEY), pl.col(DEATH).cast(pl.String))
    entities = stays.join(death, on=icu_stays.KEY, how="left", maintain_order="left").select(
        icu_stays.KEY, pl.col(DEATH).alias(LABEL), unit=icu_stays.KEY, test="test"
    )
    measured = measured.join(stays, on=icu_stays.KEY, how="inner", maintain_order="left")
    scaled = icu_stays.standardised(measured, icu_stays.scales(measured.filter(~pl.col("test"))))
    events = scaled.select(icu_stays.KEY, pl.col("minutes").cast(pl.Int64), "parameter", "value")
    return _Parts("binary", events.sort(icu_stays.KEY, "minutes", "parameter"), entities, expert_scores(outcomes))
