"""Progress bars for people: on a terminal and in a notebook, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def bar(name: str, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Yield a function of (done, total, text) that moves a progress bar on standard error."""
    console = Console(stderr=True)
    if not shown or not (console.is_terminal or console.is_jupyter):  # a disabled bar of rich 13 prints an empty line
        yield lambda done, total, text="": None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=None, text="")
        yield lambda done, total, text="": progress.update(task, completed=done, total=total, text=text)


def of_training(tick: Callable[..., None]) -> Callable[[Mapping[str, Any]], None]:
    """Return a function of the records of `fit` that moves a bar."""

    def progress(record: Mapping[str, Any]) -> None:
        text = f"epoch {record['epoch']} · loss {record['loss']:.4g} · {record['events_per_second']:,} events/s"
        tick(record["share"] or 0, 1, text)

    return progress
