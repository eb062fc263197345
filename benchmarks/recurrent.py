"""The scan beside `torch.nn.GRU` and `torch.nn.LSTM` on padded rows: time, useful work and memory over many shapes.

torch's cell gets rows that are already padded, the scan events that are already packed. Both start from a given state
and return the last state h of each row, of an LSTM without c. `medium` is the matmul precision that `fit` and `embed`
set for float32 (oneDNN where that agrees); both sides are measured with it and at torch's default, `highest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Row, alternate, options, peak_flops, peak_memory, ratio, show, threads
from eventvec.precision import cpu_has_bfloat16, float32_products
from eventvec.scan import routing
from eventvec.scan.buffers import buffer_pool
from eventvec.scan.pack import Pack

INPUTS, ROWS, SHORTEST, LONGEST, CPU = 32, 320, 25, 200, torch.device("cpu")
CELLS, PRECISIONS = {"gru": nn.GRU, "lstm": nn.LSTM}, ("highest", "medium")
LENGTHS = {"1": (1, 1), "8": (8, 8), "25-200": (SHORTEST, LONGEST), "100": (100, 100)}


class Case:
    """One cell and some rows of random events, on which torch's cell and the scan run.

    Args:
        name: `gru` or `lstm`.
        hidden: size of the state.
        lengths: `(n,)` lengths of the rows.
        training: forward and backward pass instead of the forward pass only.
        device: where it runs.
    """

    def __init__(self, name: str, hidden: int, lengths: Tensor, training: bool, device: torch.device = CPU) -> None:
        torch.manual_seed(0)
        self.cell, self.pack = CELLS[name](INPUTS, hidden).to(device), Pack.of(lengths.to(device))
        self.training, n = training, len(lengths)
        self.packed = torch.randn(int(lengths.sum()), INPUTS).to(device)
        events = self.packed[self.pack.places].split(lengths.tolist())
        self.padded = nn.utils.rnn.pad_sequence([events[i] for i in self.pack.order.tolist()])
        self.last = self.pack.lengths - 1
        self.start = tuple(torch.zeros(n, hidden, device=device) for _ in range(1 if name == "gru" else 2))
        blocks = 3 if name == "gru" else 4
        factors = 3 * hidden + 2 * INPUTS if training else hidden + INPUTS  # no gradient of the inputs
        self.work = 2 * len(self.packed) * blocks * hidden * factors

    def torch(self) -> None:
        """Run torch's cell on the padded rows."""
        self._finish(lambda: self._padded(0, len(self.last)))

    def buckets(self) -> None:
        """Run torch's cell on four buckets of rows of similar length, each padded to its longest row."""
        ends = [len(self.last) * i // 4 for i in range(5)]
        self._finish(lambda: torch.cat([self._padded(*rows) for rows in pairwise(ends) if rows[0] < rows[1]]))

    def _padded(self, first: int, end: int) -> Tensor:
        """Return the last state h of some rows, in the order of the pack, from torch's cell."""
        begin = [part[None, first:end].contiguous() for part in self.start]
        last = self.last[first:end]
        values = self.padded[: int(last[0]) + 1, first:end].contiguous()
        states = self.cell(values, begin[0] if len(begin) == 1 else tuple(begin))[0]
        h: Tensor = states[last, torch.arange(end - first, device=last.device)]
        return h

    def scan(self) -> None:
        """Run the scan on the packed events."""
        self._finish(lambda: routing.ends([self.cell], self.packed, [self.start], self.pack, whole=False)[0][0])

    def _finish(self, run: Callable[[], Tensor]) -> None:
        with torch.set_grad_enabled(self.training):
            end = run()
        if self.training:
            end.sum().backward()


def at_precision(precision: Any, function: Callable[[], None], half: bool = False) -> Callable[[], None]:
    """Return the function at a matmul precision, with matrix products in bfloat16 if `half` is set."""

    def run() -> None:
        with float32_products(precision), torch.autocast("cpu", torch.bfloat16, enabled=half):
            function()

    return run


def lengths(rows: int, kind: str) -> Tensor:
    """Return `(rows,)` lengths, drawn uniformly from the range of their kind."""
    least, most = LENGTHS[kind]
    return torch.randint(least, most + 1, (rows,), generator=torch.Generator().manual_seed(rows))


def speed(small: bool) -> list[Row]:
    """Return time, ratio and share of the measured peak on one large batch of rows of different lengths."""
    rows: list[Row] = []
    for count in (1,) if small else (1, 2):
        half = ("bfloat16",) if cpu_has_bfloat16() else ()
        peaks = {kind: peak_flops(kind, count) for kind in ("float32", "float32, medium", *half)}
        for name in CELLS:
            for hidden in (16,) if small else (64, 256, 800) if name == "gru" else (256,):
                for training in (True, False):
                    case = Case(name, hidden, lengths(20 if small else ROWS, "25-200"), training)
                    functions = {
                        "torch": ("float32", at_precision("highest", case.torch)),
                        "torch, medium": ("float32, medium", at_precision("medium", case.torch)),
                        "scan": ("float32", at_precision("highest", case.scan)),
                        "scan, medium": ("float32, medium", at_precision("medium", case.scan)),
                    }
                    if half:
                        functions["scan, bfloat16"] = ("bfloat16", at_precision("medium", case.scan, True))
                    with threads(count), buffer_pool():
                        runs = {key: function for key, (_, function) in functions.items()}
                        seconds = alternate(runs, 3 if hidden > 500 else 7)
                    for key, (kind, _) in functions.items():
                        mid, least, most = ratio(seconds["torch"], seconds[key])
                        flops = case.work / median(seconds[key]) / 1e9
                        rows.append({
                            "cell": name, "hidden": hidden, "threads": count,
                            "what": "training" if training else "forward", "by": key,
                            "ms": 1e3 * median(seconds[key]), "times torch": mid, "least": least, "most": most,
                            "times torch, medium": ratio(seconds["torch, medium"], seconds[key])[0],
                            "GFLOP/s": flops, "share of peak": flops / peaks[kind],
                        })  # fmt: skip
    return rows


def grid(small: bool) -> list[Row]:
    """Return the speed of the scan relative to torch's cell over shapes, with one thread, and the code that ran."""
    rows: list[Row] = []
    for name in CELLS:
        for hidden, n, kind in shapes(small):
            rows.append({"cell": name, "hidden": hidden, "rows": n, "events": kind})
            for training in (False, True):
                case, what = Case(name, hidden, lengths(n, kind), training), "training" if training else "forward"
                functions = {
                    (by, precision): at_precision(precision, getattr(case, by))
                    for precision in PRECISIONS
                    for by in ("torch", "scan")
                }
                with threads(1), buffer_pool():
                    seconds = alternate(functions, rounds(case.torch, small))
                for precision in PRECISIONS:
                    theirs, ours = seconds["torch", precision], seconds["scan", precision]
                    rows[-1][f"{what}, {precision}"] = ratio(theirs, ours)[0]
                    rows[-1][f"{what}, {precision}, torch ms"] = 1e3 * median(theirs)
                rows[-1]["by"] = "torch's kernel" if routing.kernel_rows(case.cell, case.pack, False) else "cells"
    return rows


def shapes(small: bool) -> Iterator[tuple[int, int, str]]:
    """Yield hidden size, number of rows and kind of lengths of each shape in the grid."""
    for hidden in (8,) if small else (8, 16, 32, 64, 128, 256, 800):
        for n in (1, 4) if small else (1, 4, 16, 64, 320):
            for kind in LENGTHS:
                if hidden * n <= 800 * 64:  # `speed` has the largest shapes
                    yield hidden, n, kind


def rounds(function: Callable[[], None], small: bool) -> int:
    """Return how often to repeat a function."""
    seconds = min(alternate({"function": function}, 2)["function"])
    return 3 if small else min(max(int(0.1 / seconds), 5), 100)


def memory(small: bool) -> list[Row]:
    """Return the peak memory of a fresh process that takes two training steps or runs two forward passes."""
    rows: list[Row] = []
    for hidden in (16,) if small else (64, 256, 800):
        for training in (True, False):
            for by in ("torch", "scan"):
                code = (
                    "from benchmarks import recurrent as r; from eventvec.scan.buffers import buffer_pool\n"
                    f"case = r.Case('gru', {hidden}, r.lengths({20 if small else ROWS}, '25-200'), {training})\n"
                    f"with buffer_pool():\n    for _ in range(2): case.{by}()"
                )
                what = "training" if training else "forward"
                rows.append({"hidden": hidden, "what": what, "by": by, "GB": peak_memory(code)})
    return rows


TABLES = {"speed": speed, "grid": grid, "memory": memory}


def main() -> None:
    """Run the tables that the command line names."""
    parser = options(__doc__, "recurrent")
    parser.add_argument("--only", choices=list(TABLES), help="one of the tables; all of them if not given")
    parsed = parser.parse_args()
    results = {name: table(parsed.small) for name, table in TABLES.items() if parsed.only in (None, name)}
    about = {"small": parsed.small, "rows": ROWS, "inputs": INPUTS}
    if parsed.json:
        show("recurrent", [{"table": name, **row} for name, rows in results.items() for row in rows], about, True)
        return
    for name, rows in results.items():
        show(name, rows, about, False)


if __name__ == "__main__":
    main()
