"""What all benchmarks share: works that take turns, what the machine can do, memory of fresh processes, tables."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
from experiments.tables import provenance
from rich.console import Console
from rich.table import Table

Row = dict[str, Any]
Work = Callable[[], object]
ROOT = Path(__file__).resolve().parent.parent
MOST_MEMORY = """
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024 / 1e9)
"""  # not ru_maxrss, which begins at what the process that started this one held


def options(doc: str | None, name: str) -> argparse.ArgumentParser:
    """Return the parser of `python -m benchmarks.NAME [--small] [--json]`."""
    parser = argparse.ArgumentParser(f"python -m benchmarks.{name}", description=doc)
    parser.add_argument("--small", action="store_true", help="a fraction of the work: shows that it runs, not how well")
    parser.add_argument("--json", action="store_true", help='print {"rows": [...]} to standard output')
    return parser


def timed(work: Work) -> float:
    """Return the seconds that some work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def alternate(works: Mapping[str, Work], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each work, all of them run in turn, A B A B, after one round that is not counted.

    A shared machine's speed moves by half and more: only works that were timed next to one another can be compared,
    round by round (`ratio`).
    """
    for work in works.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            seconds[name].append(timed(work))
    return seconds


def ratio(slow: list[float], fast: list[float]) -> tuple[float, float, float]:
    """Return how many times faster the second was, as `(median, least, most)` over the rounds."""
    rounds = [one / other for one, other in zip(slow, fast, strict=True)]
    return median(rounds), min(rounds), max(rounds)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Give torch so many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def matmul(precision: Literal["highest", "medium"]) -> Iterator[None]:
    """Set torch's float32 matmul precision inside the block: `medium` is oneDNN's float32, `highest` the default."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def peak_flops(kind: Literal["float32", "float32, medium", "bfloat16"], count: int) -> float:
    """Return the GFLOP/s of a large matrix product on so many threads, the best of several.

    Args:
        kind: of the product; `float32, medium` is float32 through oneDNN.
        count: threads.
    """
    n = 2048
    a = torch.randn(n, n, dtype=torch.bfloat16 if kind == "bfloat16" else torch.float32)
    out = torch.empty_like(a)
    with threads(count), matmul("medium" if kind == "float32, medium" else "highest"):
        torch.mm(a, a, out=out)
        return 2 * n**3 / min(timed(lambda: torch.mm(a, a, out=out)) for _ in range(9)) / 1e9


def peak_memory(code: str, python: str = sys.executable) -> float:
    """Return the most memory, in GB, that a fresh process holds while it runs this code, interpreter included.

    Args:
        code: Python; may import from `benchmarks` and `experiments`. What it prints is not read.
        python: the interpreter, so that a peer can run in an environment of its own.

    Raises:
        RuntimeError: the process failed; with what it said.
    """
    done = subprocess.run([python, "-c", code + MOST_MEMORY], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"measuring memory failed with exit code {done.returncode}: {done.stderr.strip()}")
    return float(done.stdout.split()[-1])


def show(title: str, rows: list[Row], about: Row, as_json: bool) -> None:
    """Print rows of one table, all with the same names, with commit, machine and versions; or as JSON."""
    about = {**provenance(), **about}
    if as_json:
        print(json.dumps({"rows": rows, "about": about}))
        return
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console = Console(width=140)
    console.print(table)
    console.print(" · ".join(f"{key} {value}" for key, value in about.items()), soft_wrap=True)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "" if value is None else str(value)
