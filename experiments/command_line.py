"""The command line of the experiments: `python -m experiments.NAME TABLE [--small] [--json]` prints one table."""

from __future__ import annotations

import argparse
import inspect
import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from eventvec.errors import EventvecError
from eventvec.models import Record, versions
from experiments.stored_results import HERE, Row, store

Experiment = Callable[..., list[Row]]


def run(name: str, experiments: dict[str, Experiment], **options: dict[str, Any]) -> None:
    """Run the table or figure that the command line names, or list all of them if it names none.

    Args:
        name: of the folder in `experiments/`.
        experiments: functions by the names of their tables and figures. Each is called with `small` and with the
            values of those of `options` that it has a parameter for, and returns rows that have the same columns.
        options: further options of the command line, each with its arguments for `add_argument`.
    """
    parser = argparse.ArgumentParser(f"python -m experiments.{name}")
    parser.add_argument("table", nargs="?", choices=sorted(experiments))
    parser.add_argument("--small", action="store_true", help="a fraction of the work: shows that it runs, not how well")
    parser.add_argument("--json", action="store_true", help='print {"rows": [...]} to standard output')
    about_store = "write the rows to experiments/NAME/results/FILE.json, by default named as the table"
    parser.add_argument("--store", nargs="?", const="", metavar="FILE", help=about_store)
    for option, arguments in options.items():
        parser.add_argument(f"--{option}", **arguments)
    parsed = parser.parse_args()
    if parsed.table is None:
        for title, experiment in experiments.items():
            print(f"{title:12} {(experiment.__doc__ or '').splitlines()[0]}")
        return
    start = time.perf_counter()
    parameters = inspect.signature(experiments[parsed.table]).parameters
    values = {option: getattr(parsed, option) for option in options if option in parameters}
    try:
        rows = experiments[parsed.table](parsed.small, **values)
    except EventvecError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    settings = {option: value for option, value in values.items() if value is not None}
    about = {**provenance(), **settings, "seconds": round(time.perf_counter() - start)}
    about["small"] = parsed.small
    if parsed.store is not None:
        given = {option: value for option, value in settings.items() if value != options[option].get("default")}
        told = command(name, parsed.table, given)
        path = store(name, parsed.store or parsed.table, told, about, rows, parsed.small)
        print(f"written to {path}", file=sys.stderr)
    show(parsed.table, rows, about, parsed.json, _text)


def show(title: str, rows: list[Row], about: Row, as_json: bool, text: Callable[[Any], str]) -> None:
    """Print one table, or its rows as JSON.

    Args:
        title: The title of the table.
        rows: Its rows, which have the same columns.
        about: What is printed below it, such as the commit and the machine.
        as_json: Whether to print JSON.
        text: Returns the text of a value.
    """
    if as_json:
        print(json.dumps({"rows": rows, "about": about}, default=str))
        return
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(text(value) for value in row.values()))
    console = Console(width=160)
    console.print(table)
    console.print(" · ".join(f"{key} {value}" for key, value in about.items()), soft_wrap=True)


def command(name: str, table: str, values: dict[str, Any]) -> str:
    """Return the command that prints a table.

    Args:
        name: The folder in `experiments/`.
        table: The name of the table.
        values: The options that have other values than by default; of a folder, the last name is told.

    Example:
        >>> command("chance", "table", {"rows": [60, 200], "keep": Path("/home/me/runs")})
        'python -m experiments.chance table --rows 60 200 --keep runs'
    """
    words = ["python", "-m", f"experiments.{name}", table]
    for option, value in values.items():
        listed = [] if value is True else value if isinstance(value, list | tuple) else [value]
        words += [f"--{option}", *(Path(each).name if option == "keep" else str(each) for each in listed)]
    return shlex.join(words)


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:.2g}" if 0 < abs(value) < 0.01 else f"{value:.3f}"


def provenance() -> dict[str, Any]:
    """Return commit, date, machine, threads and version of torch, which every recorded result needs."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], capture_output=True, text=True, check=False, cwd=HERE).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--", "*.py", "../src/*.py") else ""
    return {
        "commit": (git("rev-parse", "--short=8", "HEAD") or "unknown") + changed,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": _processor(),
        "threads": torch.get_num_threads(),
        "torch": versions()["torch"],
    }


def _processor() -> str:
    """Return the name of the processor, or of its kind where the system does not say it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def print_epoch(record: Record) -> None:
    """Print the record of a finished epoch to standard error."""
    if record["validation"] is not None:
        text = f"epoch {record['epoch']} loss {record['loss']:.4g} validation {record['validation']:.4g}"
        print(f"{text} after {record['seconds']:.0f} s", file=sys.stderr, flush=True)
