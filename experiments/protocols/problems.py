"""Published protocols as rows to train on and rows to test: which events each row has, its label, and its group.

The test rows are those of the publication. Vocabularies and scales follow from the training rows' events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import torch

import eventvec as ev
from eventvec.learners.metrics import Task
from eventvec.schema import Numeric
from eventvec.sequences import Array
from eventvec.tables.statics import attach_known
from experiments.data import physionet2012_frames
from experiments.data.data_folder import data_file

TEN_DAYS = pl.duration(days=10)
TEINEMAA = {"accepted": 0.695, "declined": 0.61, "cancelled": 0.70}
"""The outcomes of an application, with the best numbers of Teinemaa et al. 2019."""
PHYSIONET = "https://physionet.org/content/challenge-2012"
LONGEST = 40
"""The largest number of events of a prefix."""
FROZEN = pl.datetime(2010, 1, 1)
SPLITS = tuple(f"raindrop-{split}" for split in range(1, 6))
"""The protocols whose mean is the number that is published."""
AS_HERE, NOT_STATED = "as here", "not stated"


class Published(NamedTuple):
    """A number of others on the same test rows.

    Args:
        of: The model, and where the number is from.
        score: The number; an error has a minus, so that higher is better.
        regime: What its test rows see and what it is trained on, compared with the protocol here.
        deviation: The standard deviation over splits, if it is a mean over splits.
    """

    of: str
    score: float
    regime: str = AS_HERE
    deviation: float | None = None


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
        published: Each metric of the protocol with the numbers of others. A metric is one of `METRICS`, of which `mae`
            is counted with a minus, or `by length`: the mean AUROC of the numbers of events, weighted by their rows.
        earlier: The labels to train on, those of all rows, each with key and `date`, and the length of time after which
            one is known; None if earlier labels are not read.
    """

    name: str
    task: Task
    train: ev.Dataset
    y: Array
    test: ev.Dataset
    truth: Array
    published: Mapping[str, Sequence[Published]]
    earlier: tuple[pl.DataFrame, pl.DataFrame, str] | None = None


def stays(labels: int | None = None) -> Problem:
    """Return PhysioNet 2012 as EBES has it: set a trains, set b tests, death in hospital."""
    events, outcomes = physionet2012_frames("ab")
    train, test = (outcomes.filter(set=name) for name in "ab")
    if labels is not None:
        train = train.sample(labels, seed=0, shuffle=True)
    name = "physionet2012, set a to b" + (f", {labels:,} labels" if labels else "")
    regime = AS_HERE if labels else "70 % of set a train"
    numbers = _published({"EBES: GRU": 0.846, "EBES: MLEM": 0.846, "EBES: CoLES": 0.840}, regime)
    return _of_stays(name, events, train, test, {"auroc": numbers})


RAINDROP = {
    "auroc": [
        Published("Raindrop", 0.828, deviation=0.017),
        Published("ViTST", 0.851, deviation=0.008),
        Published("Warpformer", 0.865, deviation=0.012),
        Published("GraFITi", 0.866, deviation=0.011),
        Published("MTM", 0.880, deviation=0.010),
    ],
    "average_precision": [
        Published("Raindrop", 0.440, deviation=0.030),
        Published("ViTST", 0.511, deviation=0.041),
        Published("Warpformer", 0.543, deviation=0.027),
        Published("GraFITi", 0.548, deviation=0.031),
        Published("MTM", 0.586, deviation=0.041),
    ],
}
"""Published numbers of the metrics of `raindrop`, means over the five splits: Table 3 of MTM (arXiv 2509.17809)."""


def raindrop(split: int) -> Problem:
    """Return PhysioNet 2012 in one of the five random splits of Raindrop, death in hospital.

    The 9,590 training rows of the publication train, and their events give the vocabularies and scales. The published
    networks use the 1,199 validation rows to stop, but are not trained on them, so these rows are not used here.
    """
    events = pl.read_parquet(data_file("physionet2012/events.parquet", PHYSIONET))
    events = events.with_columns(pl.col("parameter").cast(pl.String))
    file = data_file("physionet2012/raindrop_splits.parquet", "https://github.com/mims-harvard/Raindrop")
    parts = pl.read_parquet(file).filter(split=split).cast({"record_id": pl.Int32, "part": pl.String})
    outcomes = pl.read_parquet(data_file("physionet2012/outcomes.parquet", PHYSIONET))
    outcomes = outcomes.select(pl.col("RecordID").cast(pl.Int32).alias("record_id"), "In-hospital_death")
    train, test = (outcomes.join(parts.filter(part=name), on="record_id", how="semi") for name in ("train", "test"))
    value = pl.col("value")
    spread = value.quantile(0.75) - value.quantile(0.25)
    scales = (
        events.filter(pl.col("record_id").is_in(train["record_id"].implode()))
        .group_by("parameter")
        .agg(value.median().alias("centre"), pl.when(spread > 0).then(spread).otherwise(1.0).alias("spread"))
    )
    scaled = events.join(scales, on="parameter", maintain_order="left").with_columns(
        ((value - pl.col("centre")) / pl.col("spread")).cast(pl.Float32)
    )
    name = f"physionet2012, split {split} of Raindrop"
    return _of_stays(name, scaled, train, test, {metric: [] for metric in RAINDROP})


def _of_stays(
    name: str, events: pl.DataFrame, train: pl.DataFrame, test: pl.DataFrame, published: Mapping[str, list[Published]]
) -> Problem:
    """Return the prediction of deaths of some stays from those of others, with the static columns of the stays."""
    parts = [events.filter(pl.col("record_id").is_in(part["record_id"].implode())) for part in (train, test)]
    data = ev.read(parts[0], key="record_id", time="minutes", categorical=["parameter"], numeric=["value"])
    tested = ev.read(parts[1], schema=data.schema)
    known = pl.read_parquet(data_file("physionet2012/static.parquet", PHYSIONET)).with_columns(
        pl.when(pl.col(each) >= 0).then(pl.col(each)).alias(each) for each in ("Gender", "Height", "Weight")
    )
    static = known.with_columns(pl.col("Gender", "ICUType").cast(pl.Int32).cast(pl.String))
    data, tested = _attached([data, tested], static)
    y, truth = (
        _labels(rows, part.select("record_id", "In-hospital_death")) for rows, part in ((data, train), (tested, test))
    )
    return Problem(name, "binary", data, y, tested, truth, published)


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
    published = {"accuracy": _published({"EBES: GRU": 0.741, "EBES: MLEM": 0.736, "EBES: CoLES": 0.729})}
    tested = ev.read(test, schema=data.schema)
    return Problem("ElectricDevices", "multiclass", data, labels["train"], tested, labels["test"], published)


def applications(outcome: str) -> Problem:
    """Return BPI Challenge 2012 as the benchmark of Teinemaa et al. 2019 has it: each prefix of 1 to 40 events."""
    events, cases = _applications(outcome)
    first_test = cases.filter(pl.col("split") == "test")["start"].min()
    train = events.filter((pl.col("split") == "train") & (pl.col("time") < first_test))
    return _of_prefixes(
        f"bpic2012 {outcome}, prefixes", train, events.filter(pl.col("split") == "test"), cases, "case", "time",
        ["event", "resource"], [], outcome, ["amount_requested"], LONGEST,
        {"by length": _published({"best of Teinemaa et al. 2019": TEINEMAA[outcome]})},
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
    y, truth = (_labels(data, cases.select("case", outcome)) for data in (train, test))
    return Problem(f"bpic2012 {outcome}, ten days", "binary", train, y, test, truth, {"auroc": []})


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
        {"auroc": _published(LOGS[log])},
    )


def _of_prefixes(
    name: str, train: pl.DataFrame, test: pl.DataFrame, cases: pl.DataFrame, key: str, time: str,
    categorical: list[str], numeric: list[str], label: str, static: list[str], longest: int,
    published: Mapping[str, list[Published]],
) -> Problem:  # fmt: skip
    data = ev.read(train, key=key, time=time, categorical=categorical, numeric=numeric)
    tested = ev.read(test, schema=data.schema)
    if static:
        data, tested = _attached([data, tested], cases.select(key, *static))
    rows, tested_rows = (prefixes(each, longest) for each in (data, tested))
    y, truth = (_labels(each, cases.select(key, label)) for each in (rows, tested_rows))
    return Problem(name, "binary", rows, y, tested_rows, truth, published)


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
RACING = {
    "dnf": {"KumoRFM, fine-tuned": 0.826, "RT": 0.842, "KumoRFM-2": 0.846},
    "top3": {"KumoRFM, fine-tuned": 0.996, "RT": 0.921, "KumoRFM-2": 0.922},
    "position": {},
}
"""Numbers of a leaderboard that does not state the regime."""
NOT_FROZEN, VALIDATION_UNKNOWN = "not frozen, says RelArena", "frozen; validation rows: not known"
SOURCES = {
    "relbenchv1_paper": ("RelBench v1", VALIDATION_UNKNOWN),
    "relgnn_paper": ("the RelGNN paper", NOT_STATED),
    "relgt_paper": ("the RelGT paper", NOT_STATED),
    "kumorfmv2_report": ("the KumoRFM-2 report", NOT_STATED),
    "tabpfn3_report": ("the TabPFN-3 report", VALIDATION_UNKNOWN),
    "kumorfm_v1_whitepaper": ("the KumoRFM whitepaper", "likely not frozen, says RelArena"),
}
"""What the sources of RelArena's references are called here, and their regimes."""
CHECKPOINTED = ("rdblearn", "relgnn-es", "relgt")
"""Models that RelArena does not train on validation rows; it trains the others on them after it chose the settings."""


def relarena(task: str, regime: str) -> list[Published]:
    """Return the numbers of RelArena for a task on rel-f1.

    In the frozen regime these are its own runs, all on a frozen database, and its references. A reference that is
    likely not of a frozen database belongs to the rolling regime. `tuned = default` is a model without settings to
    choose, or one whose default settings were the best on the validation rows.
    """
    origin = "https://github.com/PriorLabs/relarena"
    runs, references = (
        pl.read_csv(data_file(f"rel_f1/relarena_{name}.csv", origin)).filter(task=f"driver-{task}")
        for name in ("results", "reference_results")
    )
    sign = -1 if RACES[task][3] == "mae" else 1
    numbers = []
    if regime == "frozen":
        for model, selected, tag, score in runs.select("model", "selected", "config_tag", "test_score").iter_rows():
            settings = "default" if not selected else "tuned = default" if tag == "default" else "tuned"
            trained_on = "frozen; not trained on validation rows" if model in CHECKPOINTED else AS_HERE
            numbers.append(Published(f"RelArena: {model}, {settings}", sign * score, trained_on))
    for source, model, score in references.select("source", "model", "test_score").iter_rows():
        if (source == "kumorfm_v1_whitepaper") == (regime == "rolling"):
            name, stated = SOURCES[source]
            numbers.append(Published(f"{name}: {model.removesuffix('_MR')}", sign * score, stated))
    return numbers


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
    schema = ev.read(known, key="driverId", time="date", **names).schema
    train = ev.read(known, schema=schema, cutoffs=parts["train"], **cut)
    test = ev.read(events, schema=schema, cutoffs=parts["test"], **cut)
    people = pl.read_parquet(data_file("rel_f1/drivers.parquet", origin))
    static = people.select("driverId", "nationality", born=pl.col("dob").str.slice(0, 4).cast(pl.Float64, strict=False))
    train, test = _attached([train, test], static)
    train, test = _of_each(train, parts["train"]), _of_each(test, parts["test"])
    y, truth = (part["label"].to_numpy() for part in parts.values())
    numbers = relarena(task, regime)
    if regime == "rolling":
        stated = {"KumoRFM-2": NOT_FROZEN}
        numbers += [Published(of, score, stated.get(of, NOT_STATED)) for of, score in RACING[task].items()]
    return Problem(
        f"rel_f1 {task}, {regime}", kind, train, y, test, truth, {metric: numbers},
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


def _published(scores: Mapping[str, float], regime: str = AS_HERE) -> list[Published]:
    """Return numbers of others of one regime, from what they are of."""
    return [Published(of, score, regime) for of, score in scores.items()]


def _labels(data: ev.Dataset, table: pl.DataFrame) -> Array:
    """Return the labels of rows, from a table with two columns: key and label."""
    labels = dict(table.iter_rows())
    return np.array([int(labels[key]) for key in data.keys.to_pylist()])


def _attached(parts: list[ev.Dataset], static: pl.DataFrame) -> list[ev.Dataset]:
    """Return data with static columns, whose vocabularies and scales are those of the first of them."""
    first = ev.attach(parts[0], static)
    return [first, *(attach_known(replace(part, schema=first.schema), static) for part in parts[1:])]


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "stays": stays,
    "stays-2800": lambda: stays(2800),
    **{name: (lambda split=split: raindrop(split)) for split, name in enumerate(SPLITS, 1)},
    "devices": devices,
    **{f"applications-{name}": (lambda name=name: applications(name)) for name in TEINEMAA},
    **{f"undecided-{name}": (lambda name=name: undecided(name)) for name in TEINEMAA},
    **{f"races-{task}-{regime}": (lambda task=task, regime=regime: drivers(task, regime))
       for task in RACES for regime in ("rolling", "frozen")},
    **{f"log-{log}": (lambda log=log: outcomes(log)) for log in LOGS},
}  # fmt: skip
