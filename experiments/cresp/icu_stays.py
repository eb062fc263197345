"""Intensive-care stays as realisations of a process: value at (time, parameter), standardised within its parameter.

The stays are a random part of physionet2012, in three sets: training, validation for choosing settings, and test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

import eventvec as ev
from experiments.data.data_folder import data_file

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

ORIGIN = "https://physionet.org/content/challenge-2012"
KEY, DEATH = "record_id", "In-hospital_death"
LEFT_OUT = ("MechVent", "Weight")
"""Parameters without anything to predict: the first is always 1, the second repeats one entry for hours."""
TAIL, SKEWED = 0.005, 1.0
"""The share of a parameter's values in each tail that is clipped, and the skewness above which it is logarithmic."""
CUT, TARGETS, FEWEST = 36 * 60, 16, 8
"""Minutes before the events to forecast, and the most targets and the fewest context events of a stay."""
SHRINKAGE = (0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
HALF_LIVES = (60.0, 180.0, 360.0, 720.0, 1440.0)


@dataclass(frozen=True)
class Task:
    """A table of context events and a table of targets, whose values are predicted from the context of their stay."""

    name: str
    context: pl.DataFrame
    targets: pl.DataFrame

    def part(self, part: str) -> Task:
        """Return the stays of one set."""
        return Task(self.name, self.context.filter(part=part), self.targets.filter(part=part))


def load(training: int, validation: int, test: int, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the events and the stays of a random part of physionet2012.

    The events have the columns `record_id`, `part`, `minutes`, `hours`, `parameter` and `value`, and are in order of
    stays and times. The values are standardised by `scales` of the training stays, and `hours` is the time since
    admission in units of 12 hours, minus 2. The stays have `record_id`, `part` and `In-hospital_death`.

    Args:
        training: The number of training stays.
        validation: The number of validation stays.
        test: The number of test stays.
        seed: The seed of the choice.

    Raises:
        DataError: If a file is not in the folder that EVENTVEC_DATA names.
    """
    measured = ~pl.col("parameter").is_in(LEFT_OUT)
    table = pl.read_parquet(data_file("physionet2012/events.parquet", ORIGIN))
    events = table.with_columns(pl.col("parameter").cast(pl.String)).filter(measured)
    outcomes = pl.read_parquet(data_file("physionet2012/outcomes.parquet", ORIGIN))
    outcomes = outcomes.select(pl.col("RecordID").cast(pl.Int32).alias(KEY), DEATH)
    keys = events[KEY].unique().sort()
    chosen = np.random.default_rng(seed).permutation(len(keys))[: training + validation + test]
    parts = np.repeat(["training", "validation", "test"], [training, validation, test])[: len(chosen)]
    stays = pl.DataFrame({KEY: keys.gather(chosen), "part": parts}).join(outcomes, on=KEY, how="left").sort(KEY)
    events = events.drop("set").join(stays.select(KEY, "part"), on=KEY)
    scaled = standardised(events, scales(events.filter(part="training")))
    hours = ((pl.col("minutes") / 60 - 24) / 12).cast(pl.Float32).alias("hours")
    scaled = scaled.with_columns(pl.col("minutes").cast(pl.Int64), hours).sort(KEY, "minutes", "parameter", "value")
    return scaled.select(KEY, "part", "minutes", "hours", "parameter", "value"), stays


def scales(training: pl.DataFrame) -> pl.DataFrame:
    """Return how each parameter is scaled: bounds, whether it is logarithmic, the mean and the standard deviation.

    The bounds are the quantiles .005 and .995. A parameter without negative values whose clipped values have a skewness
    above 1 passes through ``log(1 + value)``. Mean and deviation are those of the clipped values after that.
    """
    value, within = pl.col("value"), pl.col("value").clip(pl.col("low"), pl.col("high"))
    bounds = training.group_by("parameter").agg(
        value.quantile(TAIL).alias("low"), value.quantile(1 - TAIL).alias("high")
    )
    clipped = training.join(bounds, on="parameter").with_columns(within)
    skewed = (value.skew().fill_nan(0.0) > SKEWED) & (pl.col("low").first() >= 0)
    log = clipped.group_by("parameter").agg(skewed.alias("log"))
    logarithmic = pl.when("log").then(value.log1p()).otherwise(value)
    moments = clipped.join(log, on="parameter").with_columns(logarithmic).group_by("parameter")
    spread = pl.when(value.std() > 0).then(value.std()).otherwise(1.0)
    return bounds.join(log, on="parameter").join(
        moments.agg(value.mean().alias("mean"), spread.alias("std")), on="parameter"
    )


def standardised(events: pl.DataFrame, by: pl.DataFrame) -> pl.DataFrame:
    """Return events with their values scaled by `scales`, without those of parameters that it lacks."""
    clipped = pl.col("value").clip(pl.col("low"), pl.col("high"))
    value = pl.when("log").then(clipped.log1p()).otherwise(clipped)
    scaled = ((value - pl.col("mean")) / pl.col("std")).cast(pl.Float32).alias("value")
    return events.join(by, on="parameter").with_columns(scaled).drop("low", "high", "log", "mean", "std")


def interpolation(events: pl.DataFrame, seed: int) -> Task:
    """Return random targets of each stay of at least 24 events; the context is all other events."""
    ranked = _ranked(events, seed).filter(pl.len().over(KEY) >= TARGETS + FEWEST)
    is_target = pl.col("rank") <= TARGETS
    return Task("interpolation", ranked.filter(~is_target).drop("rank"), ranked.filter(is_target).drop("rank"))


def forecasting(events: pl.DataFrame, seed: int) -> Task:
    """Return random targets from hour 36 on; the context is all events before, of which there are at least 8."""
    later = pl.col("minutes") >= CUT
    context = events.filter(~later).filter(pl.len().over(KEY) >= FEWEST)
    targets = _ranked(events.filter(later), seed).filter(pl.col("rank") <= TARGETS).drop("rank")
    return Task("forecasting", context.join(targets, on=KEY, how="semi"), targets.join(context, on=KEY, how="semi"))


def _ranked(events: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Return events with their rank in a random order within the stay."""
    order = pl.Series("rank", np.random.default_rng(seed).permutation(len(events)))
    return events.with_columns(order).with_columns(pl.col("rank").rank("ordinal").over(KEY))


def dataset(events: pl.DataFrame, schema: ev.schema.Schema | None = None) -> ev.Dataset:
    """Return one row per stay; values and hours are read as they are, because they are scaled already."""
    if schema is not None:
        return ev.read(events, schema=schema)
    fitting = ev.Fitting(min_count=1, log=False, standardise=False)
    names, numbers = ("parameter",), ("value", "hours")
    return ev.read(events, key=KEY, time="minutes", categorical=names, numeric=numbers, fitting=fitting)


def baselines(task: Task, validation: Task) -> dict[str, Array]:
    """Return predictions for the targets of a task, by the name of the baseline.

    All but the population mean read the values of the target's parameter in the context: their mean, the value nearest
    in time (the last one, where the context is earlier), the mean shrunken to the population's, and a mean whose
    weights fall with the distance in time, shrunken too. A parameter that the context lacks has the population mean.
    Shrinkage and half-life are those with the least squared error on validation stays.
    """
    seen, chosen = _seen(task), _seen(validation)
    truth = validation.targets["value"].to_numpy()
    shrunken = min(SHRINKAGE, key=lambda k: _squared(truth, _smoothed(chosen, k, None)))
    smooth = min(
        ((k, h) for k in SHRINKAGE for h in HALF_LIVES), key=lambda pair: _squared(truth, _smoothed(chosen, *pair))
    )
    return {
        "population mean": np.zeros(len(task.targets)),
        "mean of the stay": _smoothed(seen, 0.0, None),
        "nearest in time": _nearest(seen),
        f"shrunken mean ({shrunken:g})": _smoothed(seen, shrunken, None),
        f"smoothed mean ({smooth[0]:g}, half-life {smooth[1] / 60:g} h)": _smoothed(seen, *smooth),
    }


def _seen(task: Task) -> pl.DataFrame:
    """Return a row for each target and context event of its stay and parameter: `target`, `distance` and `value`."""
    context = task.context.select(KEY, "parameter", "minutes", "value")
    targets = task.targets.with_row_index("target").select("target", KEY, "parameter", at="minutes")
    joined = targets.join(context, on=[KEY, "parameter"], how="left", maintain_order="left")
    return joined.select("target", "value", distance=(pl.col("at") - pl.col("minutes")).abs())


def _smoothed(seen: pl.DataFrame, shrinkage: float, half_life: float | None) -> Array:
    """Return the weighted sum of values over the sum of weights plus the shrinkage, 0 without values."""
    weight = pl.lit(1.0) if half_life is None else (-pl.col("distance") / half_life).map_batches(np.exp2)
    weight = pl.when(pl.col("value").is_not_null()).then(weight).otherwise(0.0)
    of_target = seen.with_columns(weight.alias("weight")).group_by("target", maintain_order=True)
    sums = of_target.agg((pl.col("weight") * pl.col("value")).sum().alias("sum"), pl.col("weight").sum())
    total, weights = sums["sum"].to_numpy(), sums["weight"].to_numpy() + shrinkage
    predictions: Array = np.divide(total, weights, out=np.zeros_like(total), where=weights > 0)
    return predictions


def _nearest(seen: pl.DataFrame) -> Array:
    """Return the mean of the values nearest in time, 0 without values."""
    near = pl.col("value").filter(pl.col("distance") == pl.col("distance").min()).mean()
    return seen.group_by("target", maintain_order=True).agg(near.fill_null(0.0))["value"].to_numpy()


def _squared(truth: Array, prediction: Array) -> float:
    return float(np.square(truth - prediction).mean())


def aggregates(events: pl.DataFrame) -> Array:
    """Return count, mean, least, greatest and last value of each parameter, one row per stay in order of keys.

    Counts are logarithmic. What a parameter without events lacks is 0, the population mean.
    """
    value = pl.col("value")
    columns = [
        pl.len().cast(pl.Float64).log1p().alias("count"), value.mean().alias("mean"), value.min().alias("least"),
        value.max().alias("greatest"), value.last().alias("last"),
    ]  # fmt: skip
    by_parameter = events.group_by(KEY, "parameter", maintain_order=True).agg(columns)
    wide = by_parameter.pivot("parameter", index=KEY, values=[column.meta.output_name() for column in columns])
    return wide.sort(KEY).drop(KEY).fill_null(0.0).to_numpy()
