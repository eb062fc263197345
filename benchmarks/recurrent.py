"""The scan alone beside `torch.nn.GRU` and `torch.nn.LSTM` on padded rows: time, useful work, memory, any shape.

torch's cell is given rows that are padded already, the scan events that are packed already; both begin from a given
state and end with each row's last one. "medium" is the precision line inside which `fit` and `embed` work (float32
through oneDNN where that agrees); torch's cell is measured without it, as it is, and with it.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Row, alternate, matmul, options, peak_flops, peak_memory, ratio, show, threads
from eventvec.encoders import scan
from eventvec.encoders.pack import Pack
from eventvec.workspace import workspace

INPUTS, ROWS, SHORTEST, LONGEST = 32, 320, 25, 200
CELLS = {"gru": nn.GRU, "lstm": nn.LSTM}
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
        self._finish(lambda: scan.ends([self.cell], self.packed, [self.start], self.pack)[0][0])

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
            for hidden in (8,) if small else (8, 16, 32, 64, 128, 256, 800):
                for n in (1, 4) if small else (1, 4, 16, 64, 320):
                    for kind in LENGTHS:
                        if hidden * n > 800 * 64:
                            continue  # `speed` has the largest
                        rows.append(_cell(name, hidden, n, kind, count, 3 if small else 50))
    return rows


def _cell(name: str, hidden: int, n: int, kind: str, count: int, most: int) -> Row:
    row: Row = {"cell": name, "hidden": hidden, "rows": n, "events": kind, "threads": count}
    for learning in (True, False):
        case, what = Case(name, hidden, lengths(n, kind), learning), "training" if learning else "forward"
        works = {"torch": case.torch, "torch, medium": under("medium", case.torch), "scan": under("medium", case.scan)}
        with threads(count), workspace():
            few = alternate({"torch": case.torch}, 2)["torch"]
            repeats = min(max(int(0.05 / min(few)), 3), most)
            seconds = {key: median(taken) for key, taken in alternate(works, repeats).items()}
        row[what] = seconds["torch"] / seconds["scan"]
        row[f"{what}, medium"] = seconds["torch, medium"] / seconds["scan"]
        row[f"{what} by"] = "torch's kernel" if scan.kernel_pays(case.cell, case.pack, learning) else "cells"
    return row


def memory(small: bool) -> list[Row]:
    """Return the most memory of a fresh process that takes two training steps or goes forward once."""
    rows: list[Row] = []
    for hidden in (16,) if small else (64, 256, 800):
        for learning in (True, False):
            for by in ("torch", "scan"):
                code = (
                    "from benchmarks import recurrent as r; from eventvec.workspace import workspace\n"
                    f"case = r.Case('gru', {hidden}, r.lengths({20 if small else ROWS}, '25-200'), {learning})\n"
                    f"with workspace():\n    for _ in range(2): case.{by}()"
                )
                what = "training" if learning else "forward"
                rows.append({"hidden": hidden, "what": what, "by": by, "GB": peak_memory(code)})
    return rows


def main() -> None:
    """Run the benchmark that the command line asks for."""
    tables = {"speed": speed, "grid": grid, "memory": memory}
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
