"""Output that the commands share: results, notes and errors. A terminal obeys nothing of what they show."""

from __future__ import annotations

import functools
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from eventvec import interrupts, tables
from eventvec.credentials import without_secrets
from eventvec.errors import ConfigError, EventvecError, EventvecWarning, printable

if TYPE_CHECKING:
    from eventvec.answers import Answer
    from eventvec.dataset import Dataset

P = ParamSpec("P")
R = TypeVar("R")
out, err = Console(), Console(stderr=True)


def report_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that reports an error that the user can correct as one sentence and an exit code."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with _warnings_as_sentences():
                return function(*args, **kwargs)
        except BrokenPipeError:
            raise  # the reader of the output has closed it; click then ends the command without a message
        except (EventvecError, OSError) as error:
            code = 2 if isinstance(error, ConfigError) else 1
            say_wrong(f"{type(error).__name__}: {error}", code)
            raise typer.Exit(code) from error
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            say_wrong("this needs more memory than this machine has; choose smaller batches, views or encoders", 1)
            raise typer.Exit(1) from error

    return run


@contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """Print the warnings of eventvec on standard error without a place in a program, each time, inside the block."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, EventvecWarning):
            # A progress bar moves out of the way of what is written there.
            sys.stderr.write(f"warning: {printable(str(message))}\n")
        else:
            others(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", EventvecWarning)
        others, warnings.showwarning = warnings.showwarning, show
        yield


def say_wrong(sentence: str, code: int) -> None:
    """Print a sentence about what is wrong, without passwords in addresses, before the command ends with a code."""
    if interrupts.received():
        raise KeyboardInterrupt
    interrupts.over(code)
    err.print(printable(without_secrets(sentence)), style="red", markup=False, highlight=False, soft_wrap=True)


def _out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory is exhausted; on a CPU, torch raises a plain RuntimeError."""
    is_full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # of torch, if it is there
    return is_full or "DefaultCPUAllocator" in str(error)


def replace_unknown_characters() -> None:
    """Let the standard streams replace characters that their encoding lacks, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # it is None where the stream was closed before the start
            stream.reconfigure(errors="replace")


def notes(sentences: Iterable[str]) -> None:
    """Print sentences about what was counted or left out."""
    for note in sentences:
        err.print(printable(f"note: {note}"), markup=False, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """Print a text on standard output as it is, line by line."""
    typer.echo("\n".join(map(printable, text.split("\n"))))


def answer(values: Mapping[str, Any], shown: RenderableType, json_: bool) -> None:
    """Print a result: values as JSON for a machine, or a table for a person."""
    if json_:
        typer.echo(json.dumps(values))
    else:
        out.print(shown)


def decide(result: Answer, json_: bool, full: bool, page: Path | None = None, overwrite: bool = False) -> None:
    """Print a decision, or with `full` everything that was computed for it; as JSON it is always everything.

    If a file is named for the page of the answer, it is written first.
    """
    if page is not None:
        result.write(page, overwrite=overwrite)
    answer(result.to_dict(), result.full if full else result.render(), json_)
    if not (full or json_ or result.lists):
        out.print("--full prints all tables and notes.", style="dim", highlight=False)


def show(values: Mapping[str, Any], json_: bool) -> None:
    """Print named values: as JSON for a machine, or as a table for a person, which leaves out those that are None."""
    drawn = Table(show_header=False)
    for name, value in values.items():
        if value is None:
            continue
        text = f"{value:,}" if type(value) is int else f"{value:.4g}" if isinstance(value, float) else str(value)
        drawn.add_row(name, Text(printable(text)))
    answer(values, drawn, json_)


def plan(data: Dataset, facts: Mapping[str, Any], text: str, json_: bool, *further: RenderableType) -> None:
    """Print the columns of a data set, further tables, and what would be trained, in words.

    As JSON, print the columns and the facts, whose `notes` are printed either way.
    """
    from eventvec.answers.printing import table

    rows = tables.describe(data)
    if json_:
        typer.echo(json.dumps({"columns": rows, **facts}, default=str))
        return
    texts = [{name: f"{cell:.4g}" if isinstance(cell, float) else cell for name, cell in row.items()} for row in rows]
    out.print(repr(data), table(texts), *further, sep="\n")
    say(text)
    notes(facts["notes"])
