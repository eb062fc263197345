"""The command that shows the model card of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eventvec import runs, tables
from eventvec.cli.application import RunFolder, command
from eventvec.errors import ConfigError
from eventvec.files import write_text


@command
def card(
    run: RunFolder,
    evaluations: Annotated[
        list[Path] | None, typer.Argument(metavar="[EVALUATION.json]…", help="What `evaluate --json` printed.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Markdown file to write.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Replace the card in the run folder, README.md.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Print the model card of a run: data, settings, scores, limits, and how to use it.

    Example: `eventvec card run churn.json --save`, after `eventvec evaluate … --json > churn.json`
    """
    if output is not None and save:
        raise ConfigError("give -o FILE or --save, not both; without them the card is printed")
    if output is not None:
        tables.check_output(output, [run, *(evaluations or ())], overwrite=overwrite)
    text = runs.card(runs.load(run), evaluations or (), save=save)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_text(output, text)
    elif not save:
        typer.echo(text, nl=False)
