"""The command that compares two periods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from eventvec import reporting, runs, shift, tables
from eventvec.cli import terminal
from eventvec.cli.application import Overwrite, command
from eventvec.cli.parameters import Device, Json, event_tables, not_empty, takes
from eventvec.embedding import choose_device
from eventvec.shift import DriftOptions
from eventvec.tables.read_options import Columns, TableFormat
from eventvec.training.progress_bars import bar

DIFFERENT = 3
"""The exit code of `--fail` if the periods differ."""
PERIOD = "Events as for `fit`, or embeddings that `embed` wrote."


@command
@takes(
    (Columns, ("key", "time", "categorical", "numeric", "hashed", "summed", "texts")),
    (TableFormat, ("time_format", "order", "ties", "explode")),
    DriftOptions,
)
def drift(
    old: Annotated[str, typer.Argument(metavar="OLD", callback=event_tables, help=PERIOD)],
    new: Annotated[str, typer.Argument(metavar="NEW", callback=event_tables, help=PERIOD)],
    run: Annotated[
        str | None,
        typer.Option(callback=not_empty, help="Run folder: it reads and embeds the events."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML page to write.")] = None,
    fail: Annotated[bool, typer.Option("--fail", help="Exit with code 3 if the periods differ.")] = False,
    device: Device = "auto",
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Show whether two periods differ, column by column and in their embeddings, with a bounded rate of false alarms.

    Example: `eventvec drift march.parquet april.parquet --run run -o drift.html`

    Without a run, the columns alone: `eventvec drift march.parquet april.parquet --key card --time when`
    """
    if output is not None:
        tables.check_output(output, [old, new, run], overwrite=overwrite)
    trained = None
    if run is not None:
        place = choose_device(device)
        trained = runs.load(run)
        trained.encoder.to(place)
    with bar("comparing") as tick:
        result = shift.drift(old, new, run=trained, progress=tick, **options)
    if output is not None:
        reporting.write_page(shift.page(result), output)
    terminal.answer(result.to_dict(), result.render(), json_)
    if fail and result.found:
        raise typer.Exit(DIFFERENT)
