"""Published protocols as rows to train on and rows to test: which events each row has, its label, and its group.

The test rows are those of the publication. Vocabularies and scales follow from the training rows' events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import torch

import eventvec as ev
from eventvec.evaluation.metrics import Task
from eventvec.schema import Numeric
from eventvec.sequences import Array
from eventvec.tables.statics import attach_known
from experiments.data import physionet2012_frames
from experiments.data.data_folder import data_file

TEN_DAYS = pl.duration(days=10)
OUTCOMES = ("accepted", "declined", "cancelled")
LONGEST = 40
"""The largest number of events of a prefix."""
FROZEN = pl.datetime(2010, 1, 1)


@dataclass(frozen=True, eq=False)
class Problem:
    """A protocol.

    Args:
        name: The data, the label and the regime.
        task: `binary`, `multiclass` or `numeric`.
        train: One row for each label to train on; rows of one entity have the same key.
        y: `(n,)` their labels.
        test: One row for each label of the test.
        truth: `(m,)` their labels.
        metric: `auroc`, `by length` (the mean AUROC of the numbers of events, weighted by their rows), `accuracy`, or
            `mae`, the mean absolute error.
        published: Numbers of others on the same split, by what they are of.
        learned: The entities whose events a vector learns from; None if they are `train`.
        earlier: The labels to train on, those of all rows, each with key and `date`, and the length of time after which
            one is known; None if earlier labels are not read.
    """

    name: str
    task: Task
    train: ev.Dataset
    y: Array
    test: ev.Dataset
    truth: Array
    metric: str
    published: Mapping[str, float]
    learned: ev.Dataset | None = None
    earlier: tuple[pl.DataFrame, pl.DataFrame, str] | None = None


def stays(labels: int | None = None) -> Problem:
    """Return PhysioNet 2012 as EBES has it: set a trains, set b tests, death in hospital."""
    parts = {}
    for name in "ab":
        events, outcomes = physionet2012_frames(name)
        if name == "a" and labels is not None:
            outcomes = outcomes.sample(labels, seed=0, shuffle=True).sort("record_id")
            events = events.join(outcomes, on="record_id", how="semi")
        schema = {"schema": parts["a"][0].schema} if parts else {}
        columns = (
            {} if parts else {"key": "record_id", "time": "minutes", "categorical": ["parameter"], "numeric": ["value"]}
        )
        data = ev.read(events, **columns, **schema)
        parts[name] = data, outcomes["In-hospital_death"].to_numpy()
    file = data_file("physionet2012/static.parquet", "https://physionet.org/content/challenge-2012")
    known = pl.read_parquet(file).with_columns(
        pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in ("Gender", "Height", "Weight")
    )
    static = known.with_columns(pl.col("Gender", "ICUType").cast(pl.Int32).cast(pl.String))
    train, test = _attached([parts["a"][0], parts["b"][0]], static)
    published = {"EBES: GRU": 0.846, "EBES: MLEM": 0.846, "EBES: CoLES": 0.840}
    name = "physionet2012, set a to b" + (f", {labels:,} labels" if labels else "")
    return Problem(name, "binary", train, parts["a"][1], test, parts["b"][1], "auroc", published)


def devices() -> Problem:
    """Return ElectricDevices as EBES has it: the published split, seven classes."""
    table = pl.read_parquet(data_file("ucr/ElectricDevices.parquet", "https://www.timeseriesclassification.com"))
    table = table.with_row_index("series")
    events = table.select("series", "split", pl.int_ranges(pl.col("x").list.len()).alias("step"), "x").explode(
        "step", "x"
    )
    train, test = (events.filter(pl.col("split") == part) for part in ("train", "test"))
    data = ev.read(train, key="series", time="step", numeric=["x"], categorical=[])
    labels = {part: table.filter(pl.col("split") == part)["label"].to_numpy() - 1 for part in ("train", "test")}
    published = {"EBES: GRU": 0.741, "EBES: MLEM": 0.736, "EBES: CoLES": 0.729}
    tested = ev.read(test, schema=data.schema)
    return Problem(
        "ElectricDevices", "multiclass", data, labels["train"], tested, labels["test"], "accuracy", published
    )


def applications(outcome: str) -> Problem:
    """Return BPI Challenge 2012 as the benchmark of Teinemaa et al. 2019 has it: each prefix of 1 to 40 events."""
    events, cases = _applications(outcome)
    first_test = cases.filter(pl.col("split") == "test")["start"].min()
    train = events.filter((pl.col("split") == "train") & (pl.col("time") < first_test))
    return _of_prefixes(
        f"bpic2012 {outcome}, prefixes", train, events.filter(pl.col("split") == "test"), cases, "case", "time",
        ["event", "resource"], [], outcome, ["amount_requested"], LONGEST, "by length",
        {"best of Teinemaa et al. 2019": {"accepted": 0.695, "declined": 0.61, "cancelled": 0.70}[outcome]},
    )  # fmt: skip


def undecided(outcome: str) -> Problem:
    """Return BPI Challenge 2012 strictly: the events of the first ten days of cases that are undecided then."""
    events, cases = _applications(outcome)
    cases = cases.filter(pl.col("first_decision").is_null() | (pl.col("first_decision") > pl.col("start") + TEN_DAYS))
    events = events.join(cases.select("case"), on="case").filter(pl.col("time") < pl.col("start") + TEN_DAYS)
    cutoffs = cases.select("case", "split", at=pl.col("start") + TEN_DAYS)

    def part(split: str, **columns: Any) -> ev.Dataset:
        is_in = pl.col("split") == split
        return ev.read(events.filter(is_in), cutoffs=cutoffs.filter(is_in), cutoff_column="at", **columns)

    train = part("train", key="case", time="time", categorical=["event", "resource"], numeric=[])
    test = part("test", schema=train.schema)
    train, test = _attached([train, test], cases.select("case", "amount_requested"))
    labels = dict(cases.select("case", outcome).iter_rows())
    y, truth = (np.array([labels[key] for key in data.keys.to_pylist()]) for data in (train, test))
    return Problem(f"bpic2012 {outcome}, ten days", "binary", train, y, test, truth, "auroc", {})


def _applications(outcome: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    origin = "https://doi.org/10.4121/uuid:3926db30-f712-4394-aebc-75976070e91f"
    cases = pl.read_parquet(data_file("bpic2012/cases.parquet", origin)).drop_nulls(outcome)
    events = pl.read_parquet(data_file("bpic2012/events.parquet", origin))
    return events.join(cases.select("case", "split", "start"), on="case").sort("case", "position"), cases


LOGS = {
    "sepsis_cases_1": {"LR": 0.540, "XGB": 0.394, "LSTM": 0.563},
    "sepsis_cases_2": {"LR": 0.923, "XGB": 0.875, "LSTM": 0.847},
    "sepsis_cases_4": {"LR": 0.744, "RF": 0.739, "LSTM": 0.663},
    "production": {"XGB": 0.759, "CNN": 0.695, "LSTM": 0.606},
    "bpic15_4_f2": {"LR": 0.948, "RF": 0.939, "LSTM": 0.907},
}
"""The logs of `outcomes`, with the numbers of Stevens and De Smedt 2024."""
LATER = (
    "timesincemidnight",
    "month",
    "weekday",
    "hour",
    "timesincelastevent",
    "timesincecasestart",
    "event_nr",
    "open_cases",
)
"""Columns of these logs that say how events lie in time, from which the features follow."""


def outcomes(log: str) -> Problem:
    """Return a log as Stevens and De Smedt 2024 have it: 80 % by start time, prefixes, AUROC over all of them."""
    table = pl.read_parquet(
        data_file(f"process_outcomes/{log}.parquet", "https://github.com/irhete/predictive-monitoring-benchmark")
    )
    time = "Complete Timestamp" if "Complete Timestamp" in table.columns else "time:timestamp"
    table = table.with_row_index("place").sort("Case ID", time, "place")
    cases = (
        table.group_by("Case ID")
        .agg(
            pl.col(time).min().alias("start"),
            pl.len().alias("events"),
            (pl.col("label").first() == "deviant").alias("deviant"),
        )
        .sort("start", "Case ID")
        .with_row_index("order")
    )
    split = (
        pl.when(pl.col("order") < int(0.8 * len(cases))).then(pl.lit("train")).otherwise(pl.lit("test")).alias("split")
    )
    cases = cases.with_columns(split)
    positive = cases.filter("deviant")["events"].quantile(0.9)
    longest = min(LONGEST, int(np.ceil(positive or LONGEST)))
    events = table.join(cases.select("Case ID", "split", "start"), on="Case ID").sort("Case ID", time, "place")
    used = [name for name in table.columns if name not in ("place", "Case ID", "label", time, *LATER)]
    numbers = [name for name in used if table[name].dtype.is_float()]
    texts = [name for name in used if name not in numbers]
    events = events.with_columns(pl.col(texts).cast(pl.String))
    first_test = cases.filter(pl.col("split") == "test")["start"].min()
    train = events.filter((pl.col("split") == "train") & (pl.col(time) < first_test))
    test = events.filter(pl.col("split") == "test")
    return _of_prefixes(
        f"{log}, prefixes",
        train,
        test,
        cases,
        "Case ID",
        time,
        texts,
        numbers,
        "deviant",
        [],
        longest,
        "auroc",
        LOGS[log],
    )


def _of_prefixes(
    name: str, train: pl.DataFrame, test: pl.DataFrame, cases: pl.DataFrame, key: str, time: str,
    categorical: list[str], numeric: list[str], label: str, static: list[str], longest: int, metric: str,
    published: Mapping[str, float],
) -> Problem:  # fmt: skip
    data = ev.read(train, key=key, time=time, categorical=categorical, numeric=numeric)
    tested = ev.read(test, schema=data.schema)
    if static:
        data, tested = _attached([data, tested], cases.select(key, *static))
    labels = dict(cases.select(key, label).iter_rows())
    parts = []
    for each in (data, tested):
        rows = prefixes(each, longest)
        parts += [rows, np.array([int(labels[one]) for one in rows.keys.to_pylist()])]
    train_rows, y, test_rows, truth = parts
    return Problem(name, "binary", train_rows, y, test_rows, truth, metric, published, data)


def prefixes(data: ev.Dataset, longest: int) -> ev.Dataset:
    """Return a row for each of the first events of each row, with the events up to it."""
    x = data.sequences
    counts = x.lengths.clamp(max=longest)
    row = torch.repeat_interleave(torch.arange(len(x)), counts)
    length = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row] + 1
    rows = x.slice(row, torch.zeros_like(row), length)
    last = x.values("time")[(x.lengths.cumsum(0) - x.lengths)[row] + length - 1]
    keys = pa.array(data.keys).take(pa.array(row.numpy()))
    return replace(data, keys=keys, sequences=rows, moments=(last + 1).numpy())


RACES = {
    "dnf": ("driver_dnf", "did_not_finish", "binary", "auroc", "30d"),
    "top3": ("driver_top3", "qualifying", "binary", "auroc", "30d"),
    "position": ("driver_position", "position", "numeric", "mae", "60d"),
}
"""For each task of RelBench on rel-f1: table, label, task, metric, and the length of time that a label describes."""
RACING: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("dnf", "rolling"): {"KumoRFM": 0.826, "RT": 0.842, "KumoRFM-2": 0.846},
    ("dnf", "frozen"): {"RDL": 0.726, "RelGNN": 0.753},
    ("top3", "rolling"): {"RT": 0.921, "KumoRFM-2": 0.922},
    ("top3", "frozen"): {"RDL": 0.755, "RelGNN": 0.857},
    ("position", "frozen"): {"RDL": -4.02, "RelGNN": -3.80},
}
"""Published numbers by task and regime; errors have a minus, so that higher is better."""


def drivers(task: str, regime: str) -> Problem:
    """Return a task of RelBench on rel-f1: a test row sees events up to its date, or frozen, up to 2010-01-01.

    In the frozen regime a row to train on sees events up to a time before its date, as long before as in a test row
    that is drawn for it, and both have the number of days between as a static column. In the rolling one, the driver's
    earlier labels are read as soon as the time that they describe has passed.
    """
    table, label, kind, metric, span = RACES[task]
    origin = "https://relbench.stanford.edu/datasets/rel-f1"
    rows = pl.read_parquet(data_file(f"rel_f1/{table}.parquet", origin)).rename({label: "label"})
    events = _race_events(origin)
    names = {"categorical": ["kind", "constructorId", "circuitId", "statusId"],
             "numeric": ["position", "points", "grid", "laps", "positionOrder", "wins"]}  # fmt: skip
    is_test = pl.col("split") == "test"
    rows = rows.with_columns(ahead=pl.lit(0.0))
    if regime == "frozen":
        days = rows.filter(is_test).select((pl.col("date") - FROZEN).dt.total_days().clip(0)).to_series().to_numpy()
        drawn = np.random.default_rng(0).choice(days, len(rows)).astype(float)
        own = (pl.col("date") - FROZEN).dt.total_days().clip(0)
        rows = rows.with_columns(ahead=pl.when(is_test).then(own).otherwise(pl.lit(pl.Series(drawn))))
    rows = rows.with_columns(at=pl.col("date") - pl.duration(days=pl.col("ahead")))
    parts = {name: rows.filter(is_test == (name == "test")) for name in ("train", "test")}
    begin = parts["test"]["date"].min()
    assert begin is not None
    cut = {"cutoff_column": "at" if regime == "frozen" else "date", "inclusive": True}
    known = events.filter(pl.col("date") < begin)
    learned = ev.read(known, key="driverId", time="date", **names)
    train = ev.read(known, schema=learned.schema, cutoffs=parts["train"], **cut)
    test = ev.read(events, schema=learned.schema, cutoffs=parts["test"], **cut)
    people = pl.read_parquet(data_file("rel_f1/drivers.parquet", origin))
    static = people.select("driverId", "nationality", born=pl.col("dob").str.slice(0, 4).cast(pl.Float64, strict=False))
    train, test = _attached([train, test], static)
    train, test = _of_each(train, parts["train"]), _of_each(test, parts["test"])
    y, truth = (part["label"].to_numpy() for part in parts.values())
    return Problem(
        f"rel_f1 {task}, {regime}", kind, train, y, test, truth, metric, RACING.get((task, regime), {}), learned,
        (*(each.select("driverId", "date", "label") for each in (parts["train"], rows)), span)
        if regime == "rolling" else None,
    )  # fmt: skip


def _race_events(origin: str) -> pl.DataFrame:
    """Return results, qualifyings and standings of all drivers as one table."""
    results, qualifying, standings = (
        pl.read_parquet(data_file(f"rel_f1/{name}.parquet", origin)) for name in ("results", "qualifying", "standings")
    )
    shared = [pl.col("circuitId").cast(pl.String), "driverId", "date", pl.col("position").cast(pl.Float64)]
    return pl.concat(
        [
            results.select(
                *shared, pl.lit("result").alias("kind"), "points",
                pl.col("grid", "laps", "positionOrder").cast(pl.Float64),
                pl.col("constructorId", "statusId").cast(pl.String),
            ),
            qualifying.select(*shared, pl.lit("qualifying").alias("kind"), pl.col("constructorId").cast(pl.String)),
            standings.select(*shared, pl.lit("standing").alias("kind"), "points", pl.col("wins").cast(pl.Float64)),
        ],
        how="diagonal",
    ).sort("driverId", "date", "kind")  # fmt: skip


def _of_each(data: ev.Dataset, rows: pl.DataFrame) -> ev.Dataset:
    """Return the data of each row of a table, by key and time, with the days by which it is cut early, if any are."""
    assert data.moments is not None
    places = {each: place for place, each in enumerate(zip(data.keys.to_pylist(), data.moments.tolist(), strict=True))}
    wanted = rows.select("driverId", pl.col("at").dt.epoch("us")).iter_rows()
    chosen = data[torch.tensor([places[key, at] for key, at in wanted])]
    ahead = rows["ahead"].to_numpy().astype(np.float64)
    if not ahead.any():
        return chosen
    x, schema = chosen.sequences, chosen.schema
    static = {**x.static, "ahead": torch.from_numpy(ahead)}
    return replace(
        chosen,
        schema=replace(schema, static=(*schema.static, Numeric("ahead", log=False))),
        sequences=replace(x, static=static),
    )


def _attached(parts: list[ev.Dataset], static: pl.DataFrame) -> list[ev.Dataset]:
    """Return data with static columns, whose vocabularies and scales are those of the first of them."""
    first = ev.attach(parts[0], static)
    return [first, *(attach_known(replace(part, schema=first.schema), static) for part in parts[1:])]


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "stays": stays,
    "stays-2800": lambda: stays(2800),
    "devices": devices,
    **{f"applications-{name}": (lambda name=name: applications(name)) for name in OUTCOMES},
    **{f"undecided-{name}": (lambda name=name: undecided(name)) for name in OUTCOMES},
    **{f"races-{task}-{regime}": (lambda task=task, regime=regime: drivers(task, regime))
       for task in RACES for regime in ("rolling", "frozen")},
    **{f"log-{log}": (lambda log=log: outcomes(log)) for log in LOGS},
}  # fmt: skip
