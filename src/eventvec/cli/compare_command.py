"""`eventvec compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from eventvec import comparing, reporting, tables
from eventvec.cli import terminal
from eventvec.cli.application import Overwrite, command
from eventvec.cli.parameters import EventsArgument, Json, not_empty, seconds, split_names, takes
from eventvec.options import option_types
from eventvec.tables.label_times import LabelTime
from eventvec.tables.read_options import Columns, Cuts, Storage, TableFormat
from eventvec.training.progress_bars import bar


@command
@takes(
    (Columns, ("key", "time", "categorical", "numeric", "hashed", "summed", "texts")),
    (TableFormat, ("time_format", "order", "ties", "explode")),
    (Cuts, ("until",)),
    Storage,
    LabelTime,
)
def compare(
    events: EventsArgument,
    labels: Annotated[str, typer.Argument(metavar="LABELS", callback=not_empty, help="Table with key and label.")],
    label: Annotated[str, typer.Option(help="Column to predict.")],
    out_: Annotated[Path, typer.Option("--out", help="Folder for the plan and the runs.")],
    methods: Annotated[
        str | None, typer.Option(callback=not_empty, help="Methods, like coles,ocp; by default one for each idea.")
    ] = None,
    encoders: Annotated[str, typer.Option(callback=not_empty, help="Encoders, like gru,transformer.")] = "gru",
    time_budget: Annotated[
        str | None, typer.Option(callback=not_empty, help="Training of each arm, like 60s (the default), 10m, 2h.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of each arm, in place of a time.")] = None,
    folds: Annotated[int, typer.Option(help="Number of folds.")] = terminal.default(comparing.compare, "folds"),
    models: Annotated[
        str | None, typer.Option(callback=not_empty, help="Models to score, like lightgbm,logistic_regression.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = terminal.default(comparing.compare, "seed"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the comparison in the folder.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML page to write.")] = None,
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Train several methods and encoders under one budget, score them in the same folds, and say which to use.

    Example: `eventvec compare events.parquet labels.parquet --key card --time when --label churn --out compared`
    """
    if output is not None:
        tables.check_output(output, [events, labels, out_], overwrite=overwrite)
    tables.check_place(out_)
    time = {name: options.pop(name) for name in option_types(LabelTime) if name in options}
    with bar("reading"):
        data = tables.read(events, **options)
    with bar("comparing") as tick:
        result = comparing.compare(
            data,
            labels,
            label,
            out=out_,
            methods=None if methods is None else split_names(methods),
            encoders=split_names(encoders),
            time_budget=None if time_budget is None else seconds("--time-budget", time_budget),
            epochs=epochs,
            folds=folds,
            models=None if models is None else split_names(models),
            seed=seed,
            resume=resume,
            progress=tick,
            **time,
        )
    if output is not None:
        reporting.write_page(comparing.page(result), output)
    terminal.answer(result.to_dict(), result.render(), json_)
