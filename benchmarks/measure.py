"""Timing in turns, peak speed of the machine, memory of fresh processes, and tables: shared by all benchmarks."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Literal

import torch

from eventvec.precision import float32_products
from experiments import command_line

Row = command_line.Row
Function = Callable[[], object]
ROOT = Path(__file__).resolve().parent.parent
PRINT_PEAK_MEMORY = """
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024 / 1e9)
"""  # ru_maxrss would begin at the memory of the parent process


def options(doc: str | None, name: str) -> argparse.ArgumentParser:
    """Return the parser of `python -m benchmarks.NAME [--small] [--json]`."""
    parser = argparse.ArgumentParser(f"python -m benchmarks.{name}", description=doc)
    parser.add_argument("--small", action="store_true", help="a fraction of the work: shows that it runs, not how well")
    parser.add_argument("--json", action="store_true", help='print {"rows": [...]} to standard output')
    return parser


def timed(function: Function) -> float:
    """Return the seconds that a function takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def alternate(functions: Mapping[str, Function], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each function, called in turn (A B A B) after one round that is not counted.

    The speed of a shared machine varies by half and more, so only neighbouring times are compared, round by round; see
    `ratio`.
    """
    for function in functions.values():
        function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            seconds[name].append(timed(function))
    return seconds


def ratio(slow: list[float], fast: list[float]) -> tuple[float, float, float]:
    """Return the ratio of the first seconds to the second ones, as `(median, least, most)` over the rounds."""
    rounds = [first / second for first, second in zip(slow, fast, strict=True)]
    return median(rounds), min(rounds), max(rounds)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set torch's number of threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def peak_flops(kind: Literal["float32", "float32, medium", "bfloat16"], count: int) -> float:
    """Return the GFLOP/s of a large matrix product, the best of several.

    Args:
        kind: precision of the product; `float32, medium` is float32 through oneDNN.
        count: number of threads.
    """
    n = 2048
    a = torch.randn(n, n, dtype=torch.bfloat16 if kind == "bfloat16" else torch.float32)
    out = torch.empty_like(a)
    with threads(count), float32_products("medium" if kind == "float32, medium" else "highest"):
        torch.mm(a, a, out=out)
        return 2 * n**3 / min(timed(lambda: torch.mm(a, a, out=out)) for _ in range(9)) / 1e9


def peak_memory(code: str, python: str = sys.executable) -> float:
    """Return the peak memory, in GB, of a fresh process that runs this code, including the interpreter.

    Args:
        code: Python code, which may import from `benchmarks` and `experiments`. Its output is ignored.
        python: the interpreter, which may belong to another environment.

    Raises:
        RuntimeError: If the process fails; the message contains its standard error.
    """
    command = [python, "-c", code + PRINT_PEAK_MEMORY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"measuring memory failed with exit code {done.returncode}: {done.stderr.strip()}")
    return float(done.stdout.split()[-1])


def show(title: str, rows: list[Row], about: Row, as_json: bool) -> None:
    """Print the rows of one table, which have the same columns, with commit, machine and versions; or print JSON."""
    command_line.show(title, rows, {**command_line.provenance(), **about}, as_json, _cell)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "" if value is None else str(value)
