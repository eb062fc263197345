"""The application of the command line, and the arguments that commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer

from eventvec import distributed, interrupts
from eventvec.cli import terminal
from eventvec.cli.parameters import WRITTEN, not_empty
from eventvec.errors import ConfigError

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
    """Return the function as a command that reports an error that the user can correct in one sentence.

    Of several processes that torchrun started, only one on each machine prints, and all commands but `fit` are refused.
    """

    @functools.wraps(function)
    def accepted(*args: P.args, **kwargs: P.kwargs) -> R:
        if distributed.launched() and function.__name__ != "fit":
            raise ConfigError(
                f"torchrun starts several processes, which only fit can use; run {function.__name__} without it"
            )
        return function(*args, **kwargs)

    reporting = terminal.report_errors(accepted)

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with ExitStack() as stack:
            if distributed.launched() and distributed.local_rank() > 0:
                nowhere = stack.enter_context(open(os.devnull, "w"))
                stack.enter_context(redirect_stdout(nowhere))
                stack.enter_context(redirect_stderr(nowhere))
            return reporting(*args, **kwargs)

    return app.command()(run)


def main() -> None:
    """Run the command line."""
    interrupts.raise_again()
    terminal.replace_unknown_characters()
    try:
        app()
    except OSError as error:  # the help could not be printed
        terminal.say_wrong(f"{type(error).__name__}: {error}")
        raise SystemExit(1) from error
