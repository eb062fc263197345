"""The main job on real data: learn from flights without labels, embed every aircraft, and ask what the embedding knows.

What `eventvec demo` runs. Every step is a call that a user's own script would make; nothing here is known elsewhere.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from eventvec import checkpoint, config, reporting
from eventvec.dataset import Dataset
from eventvec.datasets import aircraft, flights, flights_frames
from eventvec.embedding import embed
from eventvec.encoders.aggregates import aggregate_features
from eventvec.errors import ConfigError, need
from eventvec.evaluation import Evaluation, evaluate
from eventvec.tables import write
from eventvec.training.loop import Record, fit

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

EPOCHS = 20
FEWEST_FLIGHTS, SMALLEST_CLASS, FRACTIONS = 10, 50, (1.0, 0.05)
NEIGHBOURS = 10
STEPS = 6
QUESTIONS = {"built_2002": "built in 2002 or later", "seats": "number of seats", "engine": "engine type"}
TASKS = {"seats": "numeric"}
"""The columns that are asked for, in words; and the task where it is not to be inferred."""

AIRLINES = {
    "9E": "Endeavor Air", "AA": "American Airlines", "AS": "Alaska Airlines", "B6": "JetBlue", "DL": "Delta",
    "EV": "ExpressJet", "F9": "Frontier", "FL": "AirTran", "HA": "Hawaiian Airlines", "MQ": "Envoy Air",
    "OO": "SkyWest", "UA": "United", "US": "US Airways", "VX": "Virgin America", "WN": "Southwest", "YV": "Mesa",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demonstration found, and where its files are.

    Args:
        evaluations: one per question: built in 2002 or later, number of seats, engine type.
        neighbours: the aircraft nearest to the one that flew the most miles, itself first.
        seconds: time that each step took.
        run: folder of the trained run.
        embeddings: Parquet file with one vector per aircraft.
        page: HTML page that shows all of it.
    """

    evaluations: tuple[Evaluation, ...]
    neighbours: reporting.Table
    seconds: dict[str, float]
    run: Path
    embeddings: Path
    page: Path

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values that JSON can hold."""
        return {
            "evaluations": [evaluation.to_dict() for evaluation in self.evaluations],
            "neighbours": [dict(zip(self.neighbours.columns, row, strict=True)) for row in self.neighbours.rows],
            "seconds": self.seconds,
            "run": str(self.run),
            "embeddings": str(self.embeddings),
            "page": str(self.page),
        }


def run(out: Path | str, *, epochs: int = EPOCHS, seed: int = 0, console: Console | None = None) -> Demo:
    """Return what CoLES learns of 4,043 aircraft from their 334,264 flights out of New York in 2013.

    Writes the run folder `run`, `embeddings.parquet` and `report.html`. Takes three to four minutes on two cores.

    Args:
        out: folder to write; absent or empty.
        epochs: passes over the aircraft.
        seed: of weights, training and map; the folds of the evaluation are the same for every seed.
        console: is told of each step, with a bar if it is a terminal.

    Raises:
        ConfigError: `out` is not empty, or an optional package is not installed.

    Example:
        >>> result = run("demo-run")  # doctest: +SKIP
        >>> round(result.evaluations[0].get("embedding", "lightgbm").main.mean, 1)  # doctest: +SKIP
        0.9
    """
    return _run(Path(out), None, None, epochs, seed, console or Console(quiet=True))


def _run(
    out: Path, aircrafts: slice | None, models: Sequence[str] | None, epochs: int, seed: int, console: Console
) -> Demo:
    """Do what `run` says, for some of the aircraft and with some of the models if asked to."""
    _prepare(out)
    step = _Steps(console)
    with step("Read the flights"):
        data, known = _read(aircrafts)
    with step(f"Learn with CoLES, {epochs} epochs") as tell:
        trained, history = _learn(data, out / "run", epochs, seed, tell)
    with step("Embed every aircraft") as tell:
        z = embed(trained.encoder, data, progress=lambda done, of: tell(done / of))
        write(out / "embeddings.parquet", data, z, metadata=checkpoint.provenance(trained, data))
    with step("Ask what the embedding knows, beside aggregates") as tell:
        evaluations = _ask(data, z.numpy(), known, models, tell)
    with step("Draw the map"):
        points = reporting.Map(reporting.map2d(z.numpy(), seed), _colours(known), _hover(known), MAP_CAPTION)
    with step("Write the page"):
        neighbours = _neighbours(z, known)
        text = reporting.page(
            TITLE,
            LEAD,
            facts=_facts(data, trained),
            evaluations=evaluations,
            tables=[neighbours],
            points=points,
            history=history,
        )
        checkpoint.write_text(out / "report.html", text)
    paths = (out / "run", out / "embeddings.parquet", out / "report.html")
    return Demo(evaluations, neighbours, step.seconds, *paths)


TITLE = "What flights tell about aircraft"
LEAD = (
    "Every aircraft that flew out of New York in 2013 left a history of flights: carrier, route, hour, delays. From "
    "the histories alone, without labels, an encoder learned to put aircraft with similar lives close together. This "
    "page shows what that embedding knows, measured beside hand-made aggregates of the same flights. Data: US "
    "Department of Transportation and Federal Aviation Administration, public domain."
)
MAP_CAPTION = (
    "Each point is an aircraft; near points flew similar lives. t-SNE of the embedding: neighbourhoods mean something, "
    "distances between far groups and the axes do not. The scale of numbers ends at their 2 % and 98 % quantiles."
)


class _Steps:
    """Announces each step and takes its time."""

    def __init__(self, console: Console) -> None:
        self.console, self.seconds = console, dict[str, float]()

    @contextmanager
    def __call__(self, title: str) -> Iterator[Callable[[float], None]]:
        """Yield a function that is told the share of the step that is done."""
        self.console.print(f"{len(self.seconds) + 1}/{STEPS}  {title}", highlight=False)
        start = time.perf_counter()
        columns = (TextColumn("    "), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(title, total=1.0)
            yield lambda share: bar.update(task, completed=share)
        self.seconds[title] = round(time.perf_counter() - start, 1)
        self.console.print(f"     {self.seconds[title]:.0f} s", style="dim", highlight=False)


def _prepare(out: Path) -> None:
    """Make the folder, and refuse what would fail minutes later."""
    for module, extra in (("lightgbm", "demo"), ("openTSNE", "demo"), ("plotly", "demo"), ("jinja2", "demo")):
        need(module, extra)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is there already and not empty; name a new folder with --out, or remove it")
    out.mkdir(parents=True, exist_ok=True, mode=0o700)


def _read(aircrafts: slice | None) -> tuple[Dataset, pl.DataFrame]:
    """Return the flights, and in the same order what is known of each aircraft, its airline, miles and routes."""
    data, _ = flights()
    data = data if aircrafts is None else data[aircrafts]
    events, labels = flights_frames()
    route, flew = pl.format("{}–{}", "origin", "dest").alias("route"), ~pl.col("cancelled")
    counts = events.group_by("tailnum", route).len().sort("tailnum", "len", "route", descending=[False, True, False])
    routes = counts.group_by("tailnum", maintain_order=True).agg(
        pl.format("{} ({})", "route", "len").head(3).str.join(", ").alias("routes")
    )
    lives = events.group_by("tailnum").agg(
        pl.col("carrier").mode().sort().first().replace(AIRLINES).alias("airline"),
        pl.col("distance").filter(flew).cast(pl.Int64).sum().alias("miles"),
    )
    registry = aircraft().select("tailnum", "year", pl.format("{} {}", "manufacturer", "model").alias("model"))
    known = pl.DataFrame({"tailnum": pl.from_arrow(data.keys)})
    for table in (labels, lives, routes, registry):
        known = known.join(table, on="tailnum", how="left", maintain_order="left")
    return data, known


def _learn(
    data: Dataset, out: Path, epochs: int, seed: int, tell: Callable[[float], None]
) -> tuple[checkpoint.Run, Sequence[Record]]:
    """Return the trained run as it lies in its folder, and the records of its epochs."""
    settings = config.suggest(data.sequences, {"encoder": {"name": "gru", "dim": 128}})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        method = config.build_method(settings, data.schema)
    result = fit(
        method,
        data,
        epochs=epochs,
        seed=seed,
        out=out,
        config=settings,
        progress=lambda record: tell(float(record["share"] or 0)),
        **settings["fit"],
    )
    return checkpoint.load(out), result.history


def _ask(
    data: Dataset, z: Array, known: pl.DataFrame, models: Sequence[str] | None, tell: Callable[[float], None]
) -> tuple[Evaluation, ...]:
    """Return one evaluation per question, over aircraft with enough flights.

    Questions are asked side by side, one core each: a table this small leaves several cores waiting for one another.
    """
    rows = (known["flights"] >= FEWEST_FLIGHTS).arg_true().cast(pl.Int64).to_numpy()
    features = {"embedding": z[rows], "aggregates": aggregate_features(data[rows])[0]}
    shares = dict.fromkeys(QUESTIONS, 0.0)

    def ask(column: str) -> Evaluation:
        def progress(done: int, of: int) -> None:
            shares[column] = done / of
            tell(sum(shares.values()) / len(shares))

        labels, left_out = _labels(known[rows][column])
        found = evaluate(
            features,
            labels,
            task=TASKS.get(column),
            fractions=FRACTIONS,
            models=models,
            label=QUESTIONS[column],
            num_threads=1,
            progress=progress,
        )
        asked = f"Asked of the {len(rows):,} aircraft with {FEWEST_FLIGHTS} flights or more."
        return replace(found, notes=(asked, *left_out, *found.notes))

    for module in ("sklearn.linear_model", "sklearn.neighbors", "sklearn.pipeline", "scipy.stats"):
        importlib.import_module(module)  # before there are threads, which could meet on a half-imported package
    with ThreadPoolExecutor(min(len(QUESTIONS), os.cpu_count() or 1)) as pool:
        return tuple(pool.map(ask, QUESTIONS))


def _labels(column: pl.Series) -> tuple[Array, list[str]]:
    """Return the labels of a question, those of small classes set to missing, and what is to be said about it."""
    if column.dtype != pl.String:
        return column.cast(pl.Float64).to_numpy() if column.dtype.is_numeric() else column.to_numpy(), []
    sizes = column.drop_nulls().value_counts(sort=True)
    small = sizes.filter(pl.col("count") < SMALLEST_CLASS).sort("count", column.name, descending=[True, False])
    if small.is_empty():
        return column.to_numpy(), []
    kept = pl.select(pl.when(~column.is_in(small[column.name].to_list())).then(column)).to_series()
    named = ", ".join(f"{name} ({count})" for name, count in small.rows())
    return kept.to_numpy(), [f"Classes of fewer than {SMALLEST_CLASS} aircraft are left out: {named}."]


def _neighbours(z: torch.Tensor, known: pl.DataFrame) -> reporting.Table:
    """Return the aircraft that flew the most miles and those nearest to it, by Euclidean distance of embeddings."""
    asked = int(known["miles"].arg_max() or 0)
    distance = torch.linalg.vector_norm(z - z[asked], dim=1)
    distance[asked] = -1  # itself first, also before aircraft with the same history
    nearest = distance.argsort(stable=True)[: NEIGHBOURS + 1]
    rows = known[nearest.numpy()].with_columns(pl.Series("distance", distance[nearest].clamp(min=0).double().numpy()))
    shown = rows.select(
        pl.col("tailnum").alias("aircraft"),
        pl.col("distance").round(2),
        "airline",
        pl.col("routes").alias("most frequent routes (flights)"),
        pl.col("year").cast(pl.String).fill_null("not known").alias("built"),
        pl.col("model").fill_null("not known"),
        "flights",
    )
    caption = (
        f"The first row is the aircraft that flew the most miles out of New York in 2013; below it the {NEIGHBOURS} "
        f"that the embedding places nearest, of {len(known):,}; distance is "
        "Euclidean. Year and model come from the registry and took no part."
    )
    return reporting.Table("The nearest aircraft of one", shown.columns, shown.rows(), caption)


def _colours(known: pl.DataFrame) -> pl.DataFrame:
    return known.select(*(pl.col(name).alias(text) for name, text in QUESTIONS.items()), "airline")


def _hover(known: pl.DataFrame) -> pl.Series:
    build = pl.format("{}, built {}, {} seats, {}", "model", "year", "seats", "engine").fill_null("not in the registry")
    return known.select(
        pl.format("{} · {}\n{}\n{} flights: {}", "tailnum", "airline", build, "flights", "routes").alias("hover")
    ).to_series()


def _facts(data: Dataset, trained: checkpoint.Run) -> list[tuple[str, str]]:
    x, made = data.sequences, trained.config
    return [
        ("aircraft", f"{len(data):,}"),
        ("flights", f"{x.total:,}"),
        ("flights per aircraft, median", f"{int(x.lengths.median())}"),
        ("method", f"{made['method']['name']}, {made['encoder']['name']} {made['encoder']['dim']}"),
        ("training", f"{trained.info['steps']:,} steps, {trained.info['seconds']:.0f} s"),
        ("run", f"{trained.id}, seed {trained.info['seed']}"),
    ]
