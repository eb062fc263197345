"""The application of the command line, and the arguments that commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from eventvec import interrupts, models
from eventvec.cli import terminal
from eventvec.cli.arguments import HEADINGS, Command, Commands
from eventvec.cli.parameters import WRITTEN, table_output
from eventvec.errors import ConfigError, EventvecError, printable
from eventvec.torchrun import launched, local_rank

P = ParamSpec("P")
R = TypeVar("R")
app = typer.Typer(
    help="Turns event histories of customers, patients or machines into predictions of labels, and into vectors.",
    no_args_is_help=True,
    add_completion=False,
    cls=Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"eventvec {models.versions()['eventvec']}")
        raise typer.Exit


@app.callback()
def options(
    version_: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version, and stop.")
    ] = False,
) -> None:
    """Take the options of the application itself."""


RunFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a file that eventvec did not write, too.")]
Output = Annotated[str, typer.Option("--out", "-o", callback=table_output, help=WRITTEN)]

BEGUN = ("model.json", "plan.json")
"""The files of `fit` and `compare` in a folder in which `--resume` continues."""


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function as a command that reports an error that the user can correct in one sentence.

    Of several processes that torchrun started, only one on each machine prints, and another one only the error that
    it alone has. All commands but `fit` are refused.
    """

    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if launched() and function.__name__ != "fit":
            raise ConfigError(
                f"torchrun starts several processes, which only fit can use; run {function.__name__} without it"
            )
        try:
            return function(*args, **kwargs)
        except KeyboardInterrupt:
            out: Any = kwargs.get("out_")
            if "resume" in kwargs and out is not None and any((out / name).is_file() for name in BEGUN):
                interrupts.advise(printable(f"--resume continues in {out}"))
            raise

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not launched() or local_rank() == 0:
            return called(*args, **kwargs)
        try:
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                return called(*args, **kwargs)
        except (EventvecError, OSError) as error:
            from eventvec.distributed import only_here

            if only_here(error):
                raise
            raise typer.Exit(1) from error

    (heading,) = (heading for heading, names in HEADINGS.items() if function.__name__ in names)
    return app.command(cls=Command, rich_help_panel=heading)(terminal.report_errors(run))


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    interrupts.run(_run)


def _run() -> None:
    terminal.replace_unknown_characters()
    try:
        app()
    except OSError as error:  # the help could not be printed
        terminal.say_wrong(f"{type(error).__name__}: {error}", 1)
        raise SystemExit(1) from error
