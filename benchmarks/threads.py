"""What a second thread brings, and what it costs beside other programs: steps of a GRU and of a transformer.

`--busy N` runs the same steps while N processes compute something else.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.measure import Row, alternate, options, ratio, show
from eventvec.encoders.attention import attend
from eventvec.scan import routing
from eventvec.scan.pack import Pack
from eventvec.sequences import Sequences

SHORTEST, LONGEST, SMALL_LONGEST, INPUTS = 25, 200, 40, 64


def gru(dim: int, lengths: Tensor) -> Callable[[], Tensor]:
    """Return a function that reads rows of random events by a GRU."""
    pack, cell, events = Pack.of(lengths), nn.GRU(INPUTS, dim), torch.randn(int(lengths.sum()), INPUTS)
    start = (torch.zeros(len(lengths), dim),)
    return lambda: routing.ends([cell], events, [start], pack, whole=False)[0][0]


def transformer(dim: int, lengths: Tensor) -> Callable[[], Tensor]:
    """Return a function that reads a fifth of the rows by two layers of attention."""
    lengths = lengths[: len(lengths) // 5]
    x = Sequences({}, lengths.cumsum(0) - lengths, lengths)
    layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, 0.1, activation="gelu", batch_first=True, norm_first=True)
    blocks = nn.TransformerEncoder(layer, 2, nn.LayerNorm(dim), enable_nested_tensor=False)
    return partial(attend, blocks, torch.randn(dim), x, torch.randn(x.total, dim))


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Let other processes compute during the block."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(10**6))"]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def step(run: Callable[[], Tensor], training: bool, threads: int) -> None:
    """Compute once with a number of threads."""
    torch.set_num_threads(threads)
    with torch.set_grad_enabled(training):
        out = run()
    if training:
        out.sum().backward()


def rows(small: bool, threads: int) -> list[Row]:
    """Return how many times as fast several threads are."""
    table: list[Row] = []
    torch.manual_seed(0)
    lengths = torch.randint(SHORTEST, SMALL_LONGEST if small else LONGEST, (10 if small else 320,))
    for name, make in (("GRU", gru), ("transformer", transformer)):
        for dim in (16,) if small else (64, 128, 256):
            run = make(dim, lengths)
            for training in (True, False):
                functions = {str(count): partial(step, run, training, count) for count in (1, threads)}
                seconds = alternate(functions, 1 if small else 3)
                gain, least, most = ratio(seconds["1"], seconds[str(threads)])
                what = f"{name} of {dim}, {'training' if training else 'embedding'}"
                one = 1e3 * sorted(seconds["1"])[len(seconds["1"]) // 2]
                table.append({"what": what, "one thread, ms": one, "gain": gain, "least": least, "most": most})
    return table


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, "threads")
    parser.add_argument("--threads", type=int, default=2, help="the number of threads beside one")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="other processes that compute meanwhile")
    parsed = parser.parse_args()
    with busy(parsed.busy):
        table = rows(parsed.small, parsed.threads)
    show("threads", table, {"small": parsed.small, "threads": parsed.threads, "busy": parsed.busy}, parsed.json)


if __name__ == "__main__":
    main()
