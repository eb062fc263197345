"""The application of the command line, and the arguments that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer

from eventvec import interrupts
from eventvec.cli import terminal
from eventvec.cli.parameters import WRITTEN, not_empty

P = ParamSpec("P")
R = TypeVar("R")
app = typer.Typer(
    help="Turns event histories into vectors, and measures what the vectors are worth.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a file that eventvec did not write, too.")]
Output = Annotated[str, typer.Option("--output", "-o", callback=not_empty, help=WRITTEN)]


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function as a command that reports an error that the user can correct in one sentence."""
    return app.command()(terminal.report_errors(function))


def main() -> None:
    """Run the command line."""
    interrupts.raise_again()
    terminal.replace_unknown_characters()
    try:
        app()
    except OSError as error:  # the help could not be printed
        terminal.say_wrong(f"{type(error).__name__}: {error}")
        raise SystemExit(1) from error
