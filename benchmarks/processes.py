"""What several processes gain: training steps a second of CoLES with a GRU, by one process and by two.

The events are those of `end_to_end`. Each way trains in processes of its own, in turn with the others, and the first
steps are not counted. Two processes are started by torchrun and exchange tensors over gloo on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.end_to_end import write_log
from benchmarks.measure import ROOT, Row, options, ratio, show
from benchmarks.peer.worker import POOLS

EVENTS, SMALL = 400_000, 20_000
BATCH, UNCOUNTED = 64, 4
HIDDEN = {64: 45, 256: 17}
"""How many steps are counted, by the size of the GRU."""
WAYS = ((1, 1), (1, 2), (2, 1))
"""Numbers of processes and of threads of each; the first is the one that the others are compared with."""


def train(events: str, hidden: int, steps: int, threads: int) -> None:
    """Train, and print the mean seconds of a step."""
    import torch

    import eventvec as ev

    torch.set_num_threads(threads)
    data = ev.read(events, key="client", time="time", categorical=["code"], numeric=["amount"])
    size = min(BATCH, len(data))
    tables = {"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": hidden}}
    epochs = -(-(UNCOUNTED + steps) // (len(data) // size))
    ends: dict[int, float] = {}  # stays empty in all processes but the first
    ev.fit(
        data, method=tables, epochs=epochs, batch_size=size, validation=0, beside=[],
        progress=lambda record: ends.setdefault(record["step"], time.perf_counter()),
    )  # fmt: skip
    if ends:
        print((ends[max(ends)] - ends[UNCOUNTED]) / (max(ends) - UNCOUNTED))


def measured(events: Path, hidden: int, steps: int, processes: int, threads: int) -> float:
    """Return the seconds of a step in fresh processes.

    Raises:
        RuntimeError: If the training fails.
    """
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    work = ["-m", "benchmarks.processes", "--train", json.dumps([str(events), hidden, steps, threads])]
    env = {**os.environ, **dict.fromkeys(POOLS, str(threads)), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *(torchrun if processes > 1 else []), *work]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"training failed with exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
    return float(done.stdout.split()[-1])


def rows_of(events: Path, small: bool, rounds: int) -> list[Row]:
    """Return a row for each size of the GRU and each way."""
    rows: list[Row] = []
    for hidden, steps in ({8: 4} if small else HIDDEN).items():
        seconds: dict[tuple[int, int], list[float]] = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way, times in seconds.items():
                times.append(measured(events, hidden, steps, *way))
        for (processes, threads), times in seconds.items():
            quotient, least, most = ratio(seconds[WAYS[0]], times)
            rows.append({
                "hidden": hidden, "processes": processes, "threads of each": threads, "steps/s": 1 / median(times),
                "times as fast": quotient, "least": least, "most": most,
            })  # fmt: skip
    return rows


def main() -> None:
    """Print the table."""
    parser = options(__doc__, "processes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.train:
        train(*json.loads(parsed.train))
        return
    rounds = 1 if parsed.small else parsed.rounds
    with tempfile.TemporaryDirectory() as folder:
        write_log(Path(folder) / "events.parquet", SMALL if parsed.small else EVENTS)
        rows = rows_of(Path(folder) / "events.parquet", parsed.small, rounds)
    show("processes", rows, {"batch": BATCH, "rounds": rounds, "small": parsed.small}, parsed.json)


if __name__ == "__main__":
    main()
