"""`eventvec audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eventvec import auditing, reporting, runs, tables
from eventvec.cli import terminal
from eventvec.cli.application import Overwrite, RunFolder, command
from eventvec.cli.parameters import EventsArgument, Json, not_empty, split_names
from eventvec.training.progress_bars import bar


@command
def audit(
    run: RunFolder,
    events: EventsArgument,
    protected: Annotated[
        str | None, typer.Option(callback=not_empty, help="Table with the key and protected columns, such as the age.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(callback=not_empty, help="Protected columns, like age,sex; all by default.")
    ] = None,
    models: Annotated[
        str | None, typer.Option(callback=not_empty, help="Models that predict them, separated by commas.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Number of folds.")] = terminal.default(auditing.audit, "folds"),
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = terminal.default(auditing.audit, "seed"),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML page to write.")] = None,
    overwrite: Overwrite = False,
    json_: Json = False,
) -> None:
    """Show what the vectors of a run reveal about people: protected columns, links across files, who was trained on.

    Example: `eventvec audit run events.parquet --protected people.parquet --columns age,sex -o audit.html`
    """
    if output is not None:
        tables.check_output(output, [run, events, protected], overwrite=overwrite)
    trained = runs.load(run)
    with bar("auditing") as tick:
        result = auditing.audit(
            trained,
            events,
            protected,
            None if columns is None else split_names(columns),
            models=None if models is None else split_names(models),
            folds=folds,
            seed=seed,
            progress=tick,
        )
    if output is not None:
        reporting.write_page(auditing.page(result), output)
    terminal.answer(result.to_dict(), result.render(), json_)
