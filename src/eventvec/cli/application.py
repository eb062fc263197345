"""The application of the command line, and the arguments that commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer

from eventvec import distributed, interrupts
from eventvec.cli import terminal
from eventvec.cli.arguments import Command, Commands
from eventvec.cli.parameters import WRITTEN, not_empty
from eventvec.errors import ConfigError, EventvecError

P = ParamSpec("P")
R = TypeVar("R")
app = typer.Typer(
    help="Turns event histories into vectors, and measures what the vectors are worth.",
    no_args_is_help=True,
    add_completion=False,
    cls=Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a file that eventvec did not write, too.")]
Output = Annotated[str, typer.Option("--output", "-o", callback=not_empty, help=WRITTEN)]


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function as a command that reports an error that the user can correct in one sentence.

    Of several processes that torchrun started, only one on each machine prints, and another one only the error that
    it alone has. All commands but `fit` are refused.
    """

    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if distributed.launched() and function.__name__ != "fit":
            raise ConfigError(
                f"torchrun starts several processes, which only fit can use; run {function.__name__} without it"
            )
        return function(*args, **kwargs)

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not distributed.launched() or distributed.local_rank() == 0:
            return called(*args, **kwargs)
        try:
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                return called(*args, **kwargs)
        except (EventvecError, OSError, KeyboardInterrupt) as error:
            if distributed.only_here(error):
                raise
            raise typer.Exit(1) from error

    return app.command(cls=Command)(terminal.report_errors(run))


def main() -> None:
    """Run the command line."""
    interrupts.raise_again()
    terminal.replace_unknown_characters()
    try:
        app()
    except OSError as error:  # the help could not be printed
        terminal.say_wrong(f"{type(error).__name__}: {error}")
        raise SystemExit(1) from error
