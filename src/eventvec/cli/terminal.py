"""What the commands of the command line share: where they print, bars, and how options in text are read."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import tomli_w
import torch
import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from eventvec import tables
from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, EventvecError

P = ParamSpec("P")
R = TypeVar("R")
out, err = Console(), Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to standard output.")]
Until = Annotated[str | None, typer.Option(help="Use only events before this time (ISO text, or a number).")]
LabelsAt = Annotated[Path | None, typer.Option("--labels", help="Table with the key and a time per entity.")]
LabelTime = Annotated[str | None, typer.Option(help="Its time column: each entity is cut at its own time.")]
Static = Annotated[str | None, typer.Option(help="Table with the key and a row per entity: labels, features, texts.")]
KeyAs = Annotated[str | None, typer.Option(help="Name of the key in the file.")]
TimeFormat = Annotated[str | None, typer.Option(help="How times are written in text, e.g. '%d/%m/%Y %H:%M'.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, …; auto takes a GPU if there is one.")]


def sentences(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that ends the program with one sentence and an exit code where a user can put it right."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (EventvecError, OSError) as error:
            err.print(f"{type(error).__name__}: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from error
        except KeyboardInterrupt as error:
            err.print("interrupted; nothing is half-written (a run goes on with --resume)")
            raise typer.Exit(1) from error

    return run


def default(function: Callable[..., Any], name: str) -> Any:
    """Return an argument's default, which stands in the function's signature and nowhere else."""
    return inspect.signature(function).parameters[name].default


@contextmanager
def bar(name: str) -> Iterator[Callable[..., None]]:
    """Yield a function of (done, all, text) that moves a bar; on a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None, text="")
        yield lambda done, total, text="": bar.update(task, completed=done, total=total, text=text)


def notes(notes: Iterable[str]) -> None:
    """Print sentences about what was counted or left out."""
    for note in notes:
        err.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)


def say(found: Mapping[str, Any], shown: RenderableType, json_: bool) -> None:
    """Print one answer: JSON for a machine, what is shown for people."""
    if json_:
        typer.echo(json.dumps(found))
    else:
        out.print(shown)


def show(found: Mapping[str, Any], json_: bool) -> None:
    """Print one answer: JSON for a machine, a table for people."""
    table = Table(show_header=False)
    for name, value in found.items():
        shown = f"{value:,}" if type(value) is int else f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(name, Text(shown))
    say(found, table, json_)


def describe(data: Dataset, settings: Mapping[str, Any], json_: bool) -> None:
    """Print what would be learned from, and the settings."""
    rows = tables.describe(data)
    if json_:
        typer.echo(json.dumps({"columns": rows, "notes": data.notes, "config": settings}, default=str))
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(Text(f"{value:.4g}" if isinstance(value, float) else str(value)) for value in row.values()))
    out.print(repr(data), table, Text(tomli_w.dumps(settings)), sep="\n")
    notes(data.notes)


def file(path: Path | None, example: str) -> None:
    """Refuse a folder where a file is to be written, before the work is done.

    Raises:
        ConfigError: it is one.
    """
    if path is not None and path.is_dir():
        raise ConfigError(f"-o {path} is a folder; name a file to write, such as {path / example}")


def device(name: str) -> torch.device:
    """Return the device of that name; `auto` is a GPU if there is one.

    Raises:
        ConfigError: it cannot be used here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"--device {name!r} cannot be used here; see: eventvec doctor") from error


def names(text: str | None) -> list[str] | None:
    """Return the names in a list with commas; None if there is no list.

    Example:
        >>> names("a, b")
        ['a', 'b']
    """
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def numbers(text: str) -> list[float]:
    """Return the numbers in a list with commas.

    Raises:
        ConfigError: one of them is no number.

    Example:
        >>> numbers("1,0.25")
        [1.0, 0.25]
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--fractions {text!r}: write numbers in (0, 1] with commas, like 1,0.25,0.05") from error


def seconds(text: str) -> float:
    """Return the seconds that a text says: plain, or with s, m or h behind.

    Raises:
        ConfigError: it says none.

    Example:
        >>> seconds("10m")
        600.0
    """
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        return float(number) * unit
    except ValueError as error:
        raise ConfigError(f"--time-budget {text!r}: write seconds, minutes or hours, like 120s, 10m, 2h") from error
