"""The command that writes a table of features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from eventvec import models, tables
from eventvec.cli import terminal
from eventvec.cli.application import Output, Overwrite, command
from eventvec.cli.event_inputs import counts
from eventvec.cli.parameters import EventsArgument, Json, given, not_empty, split_names, takes
from eventvec.tables.addresses import name_of
from eventvec.tables.read_options import Columns, Cuts, Storage, TableFormat
from eventvec.training.progress_bars import bar


@command
@takes(Columns, TableFormat, Cuts, Storage)
def features(
    events: EventsArgument,
    output: Output,
    parts: Annotated[
        str | None,
        typer.Option(
            callback=not_empty,
            help="The features: handcrafted, lists, timing, aggregates, codes, convolutions or responses, one or "
            "several of them; learned of a trained model. Separated by commas, like a,b,c.",
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Model of an earlier table (--save) or another, whose features the table gets.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Model folder to write, for later tables.")] = None,
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write hand-crafted features of each entity as named columns, without training.

    Example: `eventvec features events.parquet --key card --time when -o features.parquet`

    As of the times of a table, with the columns of every later table fixed: `eventvec features events.parquet --key
    card --time when --cutoffs labels.parquet --cutoff-column month --save features-model -o features.parquet`

    Tomorrow: `eventvec features events.parquet --model features-model -o features.parquet`
    """
    chosen = given(parts=None if parts is None else split_names(parts))
    tables.check_output(output, [events, model, options.get("cutoffs")], overwrite=overwrite)
    with bar("computing") as tick:
        z = models.features(events, model=model, save=save, progress=tick, **chosen, **options)
    terminal.notes(z.metadata["notes"])
    tables.write(output, z, overwrite=overwrite)
    folder = {} if save is None else {"model": str(save)}
    terminal.show({"output": name_of(output), **counts(z), "features": z.shape[1], **folder}, json_)
