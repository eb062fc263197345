"""The demonstration: learn from real flights without labels, embed every aircraft, and evaluate the embedding.

`eventvec demo` runs it. Every step is a call that a user's own script would make.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from eventvec import reporting
from eventvec.answers import Answer
from eventvec.dataset import Dataset
from eventvec.datasets import aircraft, flights, flights_frames
from eventvec.errors import ConfigError, need
from eventvec.evaluation import evaluate
from eventvec.files import path_only
from eventvec.tables import Embeddings, write
from eventvec.training import fit

EPOCHS, FOLDS = 6, 3
FEWEST_FLIGHTS, SMALLEST_CLASS, FRACTIONS = 10, 50, (1.0, 0.05)
STEPS = 5
LABELS = {"built_2002": "built in 2002 or later", "seats": "number of seats", "engine": "engine type"}
"""The names of the labels, by their columns."""

TASKS = {"seats": "numeric"}
"""The tasks of labels whose task is not inferred, by their columns."""

LINEAR = {"seats": "ridge", "engine": "logistic_regression"}
"""The models of labels that are evaluated without boosted trees, which take most of the time, by their columns."""

AIRLINES = {
    "9E": "Endeavor Air", "AA": "American Airlines", "AS": "Alaska Airlines", "B6": "JetBlue", "DL": "Delta",
    "EV": "ExpressJet", "F9": "Frontier", "FL": "AirTran", "HA": "Hawaiian Airlines", "MQ": "Envoy Air",
    "OO": "SkyWest", "UA": "United", "US": "US Airways", "VX": "Virgin America", "WN": "Southwest", "YV": "Mesa",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Demo:
    """The results of the demonstration, and the paths of its files.

    Args:
        evaluations: One per label: built in 2002 or later, number of seats, engine type.
        seconds: The seconds that each step took.
    """

    evaluations: tuple[Answer, ...]
    seconds: dict[str, float]
    run: Path
    embeddings: Path
    page: Path

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which ``eventvec demo --json`` prints."""
        paths = {name: str(getattr(self, name)) for name in ("run", "embeddings", "page")}
        return {"evaluations": [each.to_dict() for each in self.evaluations], "seconds": self.seconds, **paths}


def run(
    out: Path | str,
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    console: Console | None = None,
    rows: slice = slice(None),
    models: Sequence[str] | None = None,
) -> Demo:
    """Return the results of CoLES on 4,043 aircraft and their 334,264 flights out of New York in 2013.

    The function writes the model folder `run`, `embeddings.parquet` and `report.html`. It takes about two minutes on
    two idle cores.

    Args:
        out: The folder to write; it must be absent or empty.
        seed: The seed of the weights, the training and the map; the folds of the evaluation do not depend on it.
        console: The console on which each step is announced, with a progress bar if it is a terminal.
        rows: Which aircraft are read; all by default.
        models: The models of the evaluations, in place of those of the demonstration.
    """
    out, step = path_only(out), _Steps(console or Console(quiet=True))
    with _new_folder(out):
        with step("Read the flights"):
            data, registry = _read(rows)
        with step(f"Learn with CoLES, {epochs} epochs") as advance:
            trained = fit(
                data, method="coles", epochs=epochs, seed=seed, out=out / "run",
                progress=lambda record: advance(float(record["share"] or 0)),
            )  # fmt: skip
        with step("Embed every aircraft") as advance:
            z = trained.embed(data, progress=lambda done, total: advance(done / total))
            write(out / "embeddings.parquet", z)
        with step("Compare the embedding with hand-crafted features") as advance:
            evaluations = _evaluate(data, z, registry, models, advance)
        with step("Draw the map and write the page"):
            page = reporting.report(
                trained, data, embeddings=z, evaluations=evaluations, labels=_known(registry), title=TITLE, lead=LEAD,
                map_seed=seed,
            )  # fmt: skip
            page.write(out / "report.html")
    return Demo(evaluations, step.seconds, out / "run", out / "embeddings.parquet", out / "report.html")


TITLE = "What flights reveal about aircraft"
LEAD = (
    "Every aircraft that flew out of New York in 2013 has a history of flights: carrier, route, hour, delays. From the "
    "histories alone, without labels, an encoder learned to place aircraft with similar histories close together. The "
    "embedding joins this learned part, features of timing and hand-crafted features. This page shows what can be "
    "predicted from that embedding, and from hand-crafted features of the same flights alone. Data: US Department of "
    "Transportation and Federal Aviation Administration, public domain."
)


class _Steps:
    """Announces each step and measures its time."""

    def __init__(self, console: Console) -> None:
        self.console, self.seconds = console, dict[str, float]()

    @contextmanager
    def __call__(self, title: str) -> Iterator[Callable[[float], None]]:
        """Yield a function that shows a share of the step as done."""
        self.console.print(f"{len(self.seconds) + 1}/{STEPS}  {title}", highlight=False)
        start = time.perf_counter()
        columns = (TextColumn("    "), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(title, total=1.0)
            yield lambda share: bar.update(task, completed=share)
        self.seconds[title] = round(time.perf_counter() - start, 1)
        self.console.print(f"     {self.seconds[title]:.0f} s", style="dim", highlight=False)


@contextmanager
def _new_folder(out: Path) -> Iterator[None]:
    """Create the folder; refuse a folder that has files and absent packages before anything is computed.

    An interrupted demonstration leaves the folder empty, so it can begin there again.
    """
    for module in ("lightgbm", "openTSNE", "matplotlib", "jinja2"):
        need(module, "demo")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists and is not empty; name a new folder with --out, or remove it")
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        yield
    except KeyboardInterrupt:
        for path in out.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


def _read(rows: slice) -> tuple[Dataset, pl.DataFrame]:
    """Return the flights, and in the same order the labels, airline, routes and model of each aircraft."""
    data = flights()[0][rows]
    events, labels = flights_frames()
    route = pl.format("{}–{}", "origin", "dest").alias("route")
    counts = events.group_by("tailnum", route).len().sort("tailnum", "len", "route", descending=[False, True, False])
    routes = counts.group_by("tailnum", maintain_order=True).agg(
        pl.format("{} ({})", "route", "len").head(3).str.join(", ").alias("routes")
    )
    airline = pl.col("carrier").mode().sort().first().replace(AIRLINES).alias("airline")
    airlines = events.group_by("tailnum").agg(airline)
    models = aircraft().select("tailnum", "year", pl.format("{} {}", "manufacturer", "model").alias("model"))
    registry = pl.DataFrame({"tailnum": pl.from_arrow(data.keys)})
    for table in (labels, airlines, routes, models):
        registry = registry.join(table, on="tailnum", how="left", maintain_order="left")
    return data, registry


def _evaluate(
    data: Dataset, z: Embeddings, registry: pl.DataFrame, models: Sequence[str] | None, advance: Callable[[float], None]
) -> tuple[Answer, ...]:
    """Return one evaluation per label, over the aircraft with enough flights, by given models or those of the demo."""
    flown = registry.filter(pl.col("flights") >= FEWEST_FLIGHTS)
    scope = f"Evaluated on the {len(flown):,} aircraft with {FEWEST_FLIGHTS} flights or more."
    answers = []
    for place, (column, name) in enumerate(LABELS.items()):
        labels, class_notes = _labels(flown[column])

        def progress(done: int, total: int, text: str, place: int = place) -> None:
            advance((place + done / total) / len(LABELS))

        table = pl.DataFrame([flown["tailnum"], labels.alias(name)])
        alone = [LINEAR[column]] if column in LINEAR else None
        answer = evaluate(
            z, data, table, name, task=TASKS.get(column), folds=FOLDS, fractions=FRACTIONS, models=models or alone,
            label_time="none", progress=progress,
        )  # fmt: skip
        answers.append(replace(answer, notes=(scope, *class_notes, *answer.notes)))
    return tuple(answers)


def _labels(column: pl.Series) -> tuple[pl.Series, list[str]]:
    """Return labels, those of small classes set to missing, and a note about these classes."""
    if column.dtype != pl.String:
        return column, []
    sizes = column.drop_nulls().value_counts(sort=True)
    small = sizes.filter(pl.col("count") < SMALLEST_CLASS).sort("count", column.name, descending=[True, False])
    if small.is_empty():
        return column, []
    remaining = pl.select(pl.when(~column.is_in(small[column.name].to_list())).then(column)).to_series()
    classes = ", ".join(f"{name} ({count})" for name, count in small.rows())
    return remaining, [f"Classes of fewer than {SMALLEST_CLASS} aircraft are left out: {classes}."]


def _known(registry: pl.DataFrame) -> pl.DataFrame:
    """Return what is known of each aircraft, under the names that the page shows."""
    return registry.select(
        "tailnum",
        *(pl.col(name).alias(text) for name, text in LABELS.items()),
        "airline",
        pl.col("year").alias("year of manufacture"),
        "model",
        "flights",
        pl.col("routes").alias("most frequent routes (flights)"),
    )
