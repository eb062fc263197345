"""The scan alone beside `torch.nn.GRU` and `torch.nn.LSTM` on padded rows: time, useful work, memory, any shape.

torch's cell is given rows that are padded already, the scan events that are packed already; both begin from a given
state and end with each row's last one. "medium" is the precision line inside which `fit` and `embed` work (float32
through oneDNN where that agrees); both are measured without it, as torch is, and with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor, nn

from benchmarks.measure import Row, alternate, matmul, options, peak_flops, peak_memory, ratio, show, threads
from eventvec.scan import products, routing
from eventvec.scan.buffers import workspace
from eventvec.scan.pack import Pack

INPUTS, ROWS, SHORTEST, LONGEST = 32, 320, 25, 200
CELLS, LINES = {"gru": nn.GRU, "lstm": nn.LSTM}, ("highest", "medium")
LENGTHS = {"1": (1, 1), "8": (8, 8), "25-200": (SHORTEST, LONGEST), "100": (100, 100)}


class Case:
    """One cell, some rows of random events, and both ways to go over them.

    Args:
        name: of the cell.
        hidden: size of its state.
        lengths: `(n,)` of the rows.
        learning: forward and backward, or forward only.
    """

    def __init__(self, name: str, hidden: int, lengths: Tensor, learning: bool) -> None:
        torch.manual_seed(0)
        self.cell, self.pack, self.learning = CELLS[name](INPUTS, hidden), Pack.of(lengths), learning
        self.packed = torch.randn(int(lengths.sum()), INPUTS)
        n = len(lengths)
        events = self.packed[self.pack.places].split(lengths.tolist())
        self.padded = nn.utils.rnn.pad_sequence([events[i] for i in self.pack.order.tolist()])
        self.last = self.pack.lengths - 1
        self.start = tuple(torch.zeros(n, hidden) for _ in range(1 if name == "gru" else 2))
        blocks = 3 if name == "gru" else 4
        each = 3 * hidden + 2 * INPUTS if learning else hidden + INPUTS  # the inputs want no gradient
        self.work = 2 * len(self.packed) * blocks * hidden * each

    def torch(self) -> None:
        """Go over padded rows with torch's cell."""
        given = self.start[0][None] if len(self.start) == 1 else tuple(part[None] for part in self.start)
        self._finish(lambda: self.cell(self.padded, given)[0][self.last, torch.arange(len(self.last))])

    def scan(self) -> None:
        """Go over packed events."""
        self._finish(lambda: routing.ends([self.cell], self.packed, [self.start], self.pack)[0][0])

    def _finish(self, run: Callable[[], Tensor]) -> None:
        with torch.set_grad_enabled(self.learning):
            end = run()
        if self.learning:
            end.sum().backward()


def under(precision: Any, work: Callable[[], None], half: bool = False) -> Callable[[], None]:
    """Return the work under a precision line, its products in bfloat16 if asked for."""

    def run() -> None:
        with matmul(precision), torch.autocast("cpu", torch.bfloat16, enabled=half):
            work()

    return run


def lengths(rows: int, kind: str) -> Tensor:
    """Return `(rows,)` lengths, drawn evenly where they are not equal."""
    least, most = LENGTHS[kind]
    return torch.randint(least, most + 1, (rows,), generator=torch.Generator().manual_seed(rows))


def speed(small: bool) -> list[Row]:
    """Return time, ratio and share of the measured peak on one large batch of ragged rows."""
    rows: list[Row] = []
    for count in (1,) if small else (1, 2):
        peaks = {kind: peak_flops(kind, count) for kind in ("float32", "float32, medium", "bfloat16")}
        for name in CELLS:
            for hidden in (16,) if small else (64, 256, 800) if name == "gru" else (256,):
                for learning in (True, False):
                    case = Case(name, hidden, lengths(20 if small else ROWS, "25-200"), learning)
                    works = {
                        "torch": ("float32", under("highest", case.torch)),
                        "torch, medium": ("float32, medium", under("medium", case.torch)),
                        "scan": ("float32", under("highest", case.scan)),
                        "scan, medium": ("float32, medium", under("medium", case.scan)),
                        "scan, bfloat16": ("bfloat16", under("medium", case.scan, True)),
                    }
                    with threads(count), workspace():
                        seconds = alternate({key: work for key, (_, work) in works.items()}, 3 if hidden > 500 else 7)
                    for key, (kind, _) in works.items():
                        mid, least, most = ratio(seconds["torch"], seconds[key])
                        flops = case.work / median(seconds[key]) / 1e9
                        rows.append({
                            "cell": name, "hidden": hidden, "threads": count,
                            "what": "training" if learning else "forward", "by": key,
                            "ms": 1e3 * median(seconds[key]), "times torch": mid, "least": least, "most": most,
                            "times torch, medium": ratio(seconds["torch, medium"], seconds[key])[0],
                            "GFLOP/s": flops, "share of peak": flops / peaks[kind],
                        })  # fmt: skip
    return rows


def grid(small: bool) -> list[Row]:
    """Return how many times as fast as torch's cell the scan is, over shapes, and which code the rule took."""
    rows: list[Row] = []
    for count in (1,) if small else (1, 2):
        for name in CELLS:
            for hidden, n, kind in shapes(small):
                rows.append({"cell": name, "hidden": hidden, "rows": n, "events": kind, "threads": count})
                for learning in (False, True):
                    case, what = Case(name, hidden, lengths(n, kind), learning), "training" if learning else "forward"
                    works = {(by, line): under(line, getattr(case, by)) for line in LINES for by in ("torch", "scan")}
                    with threads(count), workspace():
                        seconds = alternate(works, rounds(case.torch, small))
                    for line in LINES:
                        rows[-1][f"{what}, {line}"] = ratio(seconds["torch", line], seconds["scan", line])[0]
                        taken = routing.rectangles(case.cell, case.pack, learning, line)
                        rows[-1][f"{what}, {line}, by"] = "torch's kernel" if taken else "cells"
                    rows[-1][f"{what}, theirs highest, ours medium"] = ratio(
                        seconds["torch", "highest"], seconds["scan", "medium"]
                    )[0]
    return rows


def shapes(small: bool) -> Iterator[tuple[int, int, str]]:
    """Yield hidden size, rows and kind of lengths of each shape of the grid."""
    for hidden in (8,) if small else (8, 16, 32, 64, 128, 256, 800):
        for n in (1, 4) if small else (1, 4, 16, 64, 320):
            for kind in LENGTHS:
                if hidden * n <= 800 * 64:  # `speed` has the largest
                    yield hidden, n, kind


def rounds(work: Callable[[], None], small: bool) -> int:
    """Return how often to repeat some work."""
    few = min(alternate({"work": work}, 2)["work"])
    return 3 if small else min(max(int(0.1 / few), 5), 100)


def costs(small: bool) -> list[Row]:
    """Return what `routing.COSTS` should say: microseconds of each way, fitted over the grid.

    torch's kernel is timed on rows of equal length only; what it costs on others follows.
    """
    rows: list[Row] = []
    ways = ("kernel", "highest"), ("kernel", "medium"), ("cells", "highest"), ("cells", "medium"), ("cells", "bfloat16")
    for name, learning, (way, line) in product(CELLS, (False, True), ways):
        half, sums, times = line == "bfloat16", [], []
        for hidden, n, kind in shapes(small):
            case = Case(name, hidden, lengths(n, kind), learning)
            if kind == "25-200" if way == "kernel" else half and products.small(case.pack, hidden) and not small:
                continue
            with forced(way), threads(1), workspace():
                work = under("medium" if half else line, case.scan, half)
                seconds = alternate({"work": work}, rounds(work, small))["work"]
            sizes, counts = (1, hidden, hidden * (hidden + INPUTS)), (1, len(case.pack.sizes), len(case.packed))
            sums.append([count * size for count in counts for size in sizes])
            times.append(1e6 * median(seconds))
        told, measured = np.array(sums, float), np.array(times)
        found, _ = nnls(told / measured[:, None], np.ones(len(measured)))  # least squares of relative errors
        names = [f"{what}{of}" for what in ("call", "step", "event") for of in ("", ", number", ", weight")]
        error = abs(told @ found / measured - 1)
        rows.append({
            "cell": name, "learning": learning, "way": way, "line": line,
            **dict(zip(names, found.tolist(), strict=True)),
            "median error": float(np.median(error)), "largest error": float(error.max()),
        })  # fmt: skip
    return rows


@contextmanager
def forced(way: str) -> Iterator[None]:
    """Take torch's kernel, or our own cells, for everything inside the block."""
    rule = routing.rectangles
    routing.rectangles = lambda cell, pack, *_: pack.runs if way == "kernel" else None
    try:
        yield
    finally:
        routing.rectangles = rule


def memory(small: bool) -> list[Row]:
    """Return the most memory of a fresh process that takes two training steps or goes forward once."""
    rows: list[Row] = []
    for hidden in (16,) if small else (64, 256, 800):
        for learning in (True, False):
            for by in ("torch", "scan"):
                code = (
                    "from benchmarks import recurrent as r; from eventvec.scan.buffers import workspace\n"
                    f"case = r.Case('gru', {hidden}, r.lengths({20 if small else ROWS}, '25-200'), {learning})\n"
                    f"with workspace():\n    for _ in range(2): case.{by}()"
                )
                what = "training" if learning else "forward"
                rows.append({"hidden": hidden, "what": what, "by": by, "GB": peak_memory(code)})
    return rows


def main() -> None:
    """Run the benchmark that the command line asks for."""
    tables = {"speed": speed, "grid": grid, "memory": memory, "costs": costs}
    parser = options(__doc__, "recurrent")
    parser.add_argument("--only", choices=list(tables), help="one of the tables; all, one after the other, otherwise")
    chosen = parser.parse_args()
    found = {name: table(chosen.small) for name, table in tables.items() if chosen.only in (None, name)}
    about = {"small": chosen.small, "rows": ROWS, "inputs": INPUTS}
    if chosen.json:
        show("recurrent", [{"table": name, **row} for name, rows in found.items() for row in rows], about, True)
        return
    for name, rows in found.items():
        show(name, rows, about, False)


if __name__ == "__main__":
    main()
