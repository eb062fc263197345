"""The command `report`, which writes a page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from eventvec import attribution, reporting, runs, tables
from eventvec.cli import terminal
from eventvec.cli.application import Overwrite, RunFolder, command
from eventvec.cli.parameters import Device, Json, event_tables, not_empty, takes
from eventvec.embedding import choose_device
from eventvec.errors import ConfigError
from eventvec.evaluation import EvaluationOptions, LabelOptions
from eventvec.options import option_types
from eventvec.tables.label_times import LabelTime
from eventvec.tables.read_options import TableFormat
from eventvec.training.progress_bars import bar


@command
@takes(LabelOptions, (EvaluationOptions, ("task", "folds", "fractions", "seed", "models")), TableFormat)
def report(
    run: RunFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML page to write.")],
    events: Annotated[
        str | None, typer.Option(callback=event_tables, help="Events, for what the data are and for histories.")
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="Embeddings that `embed` wrote; made from the events if not given.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(callback=not_empty, help="Table with the key; its columns colour the map.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="Column of LABELS to evaluate; may be repeated.")] = None,
    drivers: Annotated[
        bool, typer.Option("--drivers", help="Show what drives the score of the first label; needs the events.")
    ] = False,
    title: Annotated[str | None, typer.Option(callback=not_empty, help="Title of the page.")] = None,
    map_seed: Annotated[int, typer.Option(help="Seed of the map and of the examples.")] = terminal.default(
        reporting.report, "map_seed"
    ),
    device: Device = "auto",
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write a page about a run: its training, and with events and labels the data, results, a map and neighbours.

    Example: `eventvec report run --events events.parquet --labels labels.parquet --label churn -o page.html`
    """
    inputs = [run, events, embeddings, labels]
    tables.check_output(output, inputs, overwrite=overwrite)
    place = choose_device(device)
    trained = runs.load(run)
    trained.encoder.to(place)
    table_format = {name: options.pop(name) for name in list(options) if name in option_types(TableFormat)}
    data = None
    if events is not None:
        with bar("reading"):
            data = trained.read(events, **table_format)
        terminal.notes(data.notes)
    driving = None
    if drivers:
        if data is None or labels is None or not label:
            raise ConfigError("--drivers needs the events and a label: --events, --labels and --label")
        with bar("leaving out") as tick:
            time = {name: options[name] for name in option_types(LabelTime) if name in options}
            driving = attribution.influence(trained, data, labels, label[0], progress=tick, **time)
    with bar("reporting") as tick:
        result = reporting.report(
            trained,
            data,
            embeddings=None if embeddings is None else tables.read_embeddings(embeddings),
            labels=labels,
            label=label or (),
            drivers=driving,
            title=title,
            map_seed=map_seed,
            progress=tick,
            **options,
        )
    result.write(output, overwrite=overwrite)
    terminal.answer({"output": str(output), **result.to_dict()}, Text(f"{result.verdict}\nthe page: {output}"), json_)
