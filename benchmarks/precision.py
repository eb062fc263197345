"""A step of `fit` and embedding in float32 and in bfloat16, in turns: what the choice of `precision="auto"` rests on.

The step is one of CoLES on 64 entities with five slices of 25 to 200 events each, the same slices in both precisions;
whole histories of 880 events are embedded. Both run in one process with one thread. Seconds are those of the CPU that
the process used, so that other programs count less; with `--device cuda`, those of the clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any, Literal

import pyarrow as pa
import torch

import eventvec as ev
from benchmarks.gpu import ENTITIES, EVENTS, SCHEMA, SLICES, histories
from benchmarks.measure import Row, options, ratio, show, threads
from benchmarks.peer.comparisons import turns
from eventvec.precision import cpu_has_bfloat16

Clock = Callable[[], float]
ENCODERS = {"gru": ev.encoders.GRU, "lstm": ev.encoders.LSTM, "transformer": ev.encoders.Transformer}
PRECISIONS: tuple[Literal["float32"], Literal["bfloat16"]] = ("float32", "bfloat16")
STATES = (64, 256, 512, 800)


def a_step(method: ev.methods.CoLES, data: ev.Dataset, precision: str, steps: int, clock: Clock) -> float:
    """Return the seconds of a step by `fit`; the first one, which takes longer, is not counted."""
    times: dict[int, float] = {}

    def note_time(record: dict[str, Any]) -> None:
        times.setdefault(record["step"], clock())

    settings: Row = {"batch_size": len(data), "validation": 0, "precision": precision}
    ev.fit(data, method=method, epochs=steps + 1, progress=note_time, **settings)
    return median(second - first for first, second in pairwise(times.values()))


def embedded(encoder: ev.Encoder, x: ev.Sequences, precision: str, clock: Clock) -> float:
    """Return the seconds of embedding."""
    begun = clock()
    ev.encode(encoder, x, precision=precision)
    if x.device.type == "cuda":
        torch.cuda.synchronize(x.device)
    return clock() - begun


def compared(name: str, state: int, small: bool, device: torch.device) -> list[Row]:
    """Return the milliseconds of a step and of embedding, and the ratio of float32 to bfloat16 over the rounds."""
    x, tasks = histories(8 if small else ENTITIES, 60 if small else EVENTS, device), dict[str, Callable[[], float]]()
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    data = ev.Dataset(pa.array(range(len(x))), x, SCHEMA)
    for precision in PRECISIONS:
        torch.manual_seed(0)
        encoder = ENCODERS[name](ev.encoders.EventEncoder(SCHEMA, time=()), dim=state)
        method = ev.methods.CoLES(encoder, ev.views.RandomSlices(SLICES, 25, 200)).to(device)
        tasks[f"training {precision}"] = partial(a_step, method, data, precision, 1 if small else 3, clock)
        tasks[f"embedding {precision}"] = partial(embedded, encoder, x, precision, clock)
    seconds = turns(tasks, 1 if small else 5)
    rows: list[Row] = []
    for what in ("training", "embedding"):
        slow, fast = (seconds[f"{what} {precision}"] for precision in PRECISIONS)
        mid, least, most = ratio(slow, fast)
        row = {"encoder": name, "state": state, "what": what, "float32, ms": 1000 * median(slow)}
        rows.append({**row, "bfloat16, ms": 1000 * median(fast), "ratio": mid, "least": least, "most": most})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Print the table for the encoders and states that the command line names."""
    parser = options(__doc__, "precision")
    parser.add_argument("--encoder", nargs="+", choices=list(ENCODERS), default=["gru", "lstm"])
    parser.add_argument("--state", nargs="+", type=int, default=list(STATES))
    parser.add_argument("--device", default="cpu", help="cpu, or cuda for a GPU")
    parsed = parser.parse_args()
    device = torch.device(parsed.device)
    if device.type == "cpu" and not cpu_has_bfloat16():
        parser.error("this CPU has no instructions for bfloat16, so that auto is float32")
    states = (16,) if parsed.small else parsed.state
    with threads(1):
        rows = [
            row for name in parsed.encoder for state in states for row in compared(name, state, parsed.small, device)
        ]
        show("precision", rows, {"small": parsed.small, "device": parsed.device}, parsed.json)


if __name__ == "__main__":
    main()
