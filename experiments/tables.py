"""What all experiments share: `python -m experiments.NAME TABLE [--small] [--json]` prints one table's rows."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from eventvec.checkpoint import versions
from eventvec.errors import EventvecError
from eventvec.training.loop import Record

Row = dict[str, Any]
Experiment = Callable[..., list[Row]]


def main(name: str, experiments: dict[str, Experiment], **options: dict[str, Any]) -> None:
    """Run the experiment that the command line names, or list them.

    Args:
        name: of the folder.
        experiments: tables and figures by name; each is called with `small` and with the options by their names.
        options: what `add_argument` is told of each further option.
    """
    parser = argparse.ArgumentParser(f"python -m experiments.{name}")
    parser.add_argument("table", nargs="?", choices=sorted(experiments))
    parser.add_argument("--small", action="store_true", help="a fraction of the work: shows that it runs, not how well")
    parser.add_argument("--json", action="store_true", help='print {"rows": [...]} to standard output')
    for option, kind in options.items():
        parser.add_argument(f"--{option}", **kind)
    chosen = parser.parse_args()
    if chosen.table is None:
        for title, experiment in experiments.items():
            print(f"{title:10} {(experiment.__doc__ or '').splitlines()[0]}")
        return
    begun = time.perf_counter()
    given = {option: getattr(chosen, option) for option in options}
    try:
        rows = experiments[chosen.table](chosen.small, **given)
    except EventvecError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    said = {option: value for option, value in given.items() if value is not None}
    about = {**provenance(), **said, "seconds": round(time.perf_counter() - begun), "small": chosen.small}
    if chosen.json:
        print(json.dumps({"rows": rows, "about": about}))
        return
    table = Table(*rows[0], title=chosen.table)
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    console = Console(width=160)
    console.print(table)
    console.print(" · ".join(f"{key} {value}" for key, value in about.items()), soft_wrap=True)


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def provenance() -> dict[str, Any]:
    """Return commit, machine, threads and versions: what a recorded result has to say."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "commit": commit.stdout.strip() or "unknown",
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": versions()["torch"],
    }


def told(record: Record) -> None:
    """Print an epoch's record to standard error, so that long work can be watched."""
    if record["validation"] is not None:
        text = f"epoch {record['epoch']} loss {record['loss']:.4g} validation {record['validation']:.4g}"
        print(f"{text} after {record['seconds']:.0f} s", file=sys.stderr, flush=True)
