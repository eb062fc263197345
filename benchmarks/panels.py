"""Labels at ten times of each entity: training by one pass over each history beside row by row, and a million rows.

`speed` takes training steps of the method `supervised` on the same batch: `fine_tune` reads each history once for all
its labels, and row by row the encoder reads the beginning of the history before each label. Gradients that vanish over
hundreds of events become subnormal numbers, with which CPUs compute slowly; so both ways are measured as they are, and
with such numbers flushed to 0. `memory` measures what `fine_tune` does before its first step, in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import torch

import eventvec as ev
from benchmarks.measure import ROOT, Row, alternate, options, ratio, show, threads
from eventvec.methods import Supervised
from eventvec.precision import matmul_precision
from eventvec.scan.buffers import buffer_pool

START, DAYS, TIMES = np.datetime64("2024-01-01", "us"), 300, 10
READ_OUTS: tuple[tuple[Any, ...], ...] = (("last",), ("last", "mean", "max"))


class FirstStep(Exception):
    """The first step of a training is reached."""


def events(entities: int, least: int, most: int) -> pl.DataFrame:
    """Return random events over ten months of 30 days; the numbers of events of entities are uniform in a range."""
    rng = np.random.default_rng(0)
    card = np.repeat(np.arange(entities), rng.integers(least, most + 1, entities))
    at = START + rng.integers(0, DAYS * 86_400, len(card)).astype("timedelta64[s]")
    code, paid = rng.integers(0, 200, len(card)), rng.exponential(30, len(card))
    return pl.DataFrame({"card": card, "at": at, "code": code, "paid": paid})


def panel(entities: int) -> pl.DataFrame:
    """Return a random label of each entity at the end of each month."""
    month = np.tile(np.arange(1, TIMES + 1), entities)
    known = START + (month * (DAYS // TIMES)).astype("timedelta64[D]")
    churn = np.random.default_rng(1).integers(0, 2, len(month)) > 0
    return pl.DataFrame({"card": np.repeat(np.arange(entities), TIMES), "known": known, "churn": churn})


def step_of(method: Supervised, x: ev.Sequences, alike: bool) -> Callable[[], None]:
    """Return a training step that reads each history once, or each row."""
    weights, rng = torch.optim.Adam(method.parameters()), torch.Generator()

    def step() -> None:
        method.rows_begin_alike = alike
        weights.zero_grad()
        method(x, rng).backward()
        weights.step()

    return step


@contextmanager
def flushing(subnormal: bool) -> Iterator[None]:
    """Let this thread compute with 0 in place of subnormal numbers inside the block, if the CPU can."""
    torch.set_flush_denormal(subnormal)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def speed(small: bool, rounds: int) -> list[Row]:
    """Return the seconds of a training step by both ways, and their ratio."""
    entities, (least, most) = (6, (5, 20)) if small else (64, (100, 1000))
    table, labels = events(entities, least, most), panel(entities)
    kinds: dict[str, Any] = {"key": "card", "time": "at", "categorical": ["code"], "numeric": ["paid"]}
    data = ev.attach(ev.read(table, cutoffs=labels, cutoff_column="known", **kinds), labels)
    x, once = data.sequences, len(table)
    rows: list[Row] = []
    for hidden in (8,) if small else (64, 256):
        for read_out in READ_OUTS:
            torch.manual_seed(0)
            encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=hidden, read_out=read_out)
            method = Supervised(encoder, data.schema, "churn")
            method.prepare(x)  # as fit does
            steps = {"one pass": step_of(method, x, True), "row by row": step_of(method, x, False)}
            for flushed in (False, True):
                with threads(1), buffer_pool(), matmul_precision("float32", x.device), flushing(flushed):
                    seconds = alternate(steps, rounds)
                quotient, low, high = ratio(seconds["row by row"], seconds["one pass"])
                rows.append({
                    "hidden": hidden, "read out": "+".join(read_out), "flushed": flushed, "rows": len(x),
                    "events": once, "events, row by row": x.total,
                    **{f"{name}, s": median(times) for name, times in seconds.items()},
                    "times as fast": quotient, "least": low, "most": high,
                })  # fmt: skip
    return rows


def until_first_step(entities: int) -> None:
    """Print the seconds and the peak memory so far, in GB, after each stage before the first step of `fine_tune`."""
    table, labels = events(entities, 20, 80), panel(entities)
    kinds: dict[str, Any] = {"key": "card", "time": "at", "categorical": ["code"], "numeric": ["paid"]}
    stages: list[Row] = []

    def note(stage: str, begun: float) -> None:
        lines = Path("/proc/self/status").read_text().splitlines()
        peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e9
        stages.append({"stage": stage, "s": time.perf_counter() - begun, "peak GB": peak})

    begun = time.perf_counter()
    data = ev.read(table, **kinds)
    note("read", begun)
    run = ev.fit(data[:200], method="coles", epochs=1, dim=8, beside=[])

    def stop(_: object) -> None:
        raise FirstStep

    begun = time.perf_counter()
    try:
        ev.fine_tune(run, data, labels, "churn", epochs=1, progress=stop)
    except FirstStep:
        note("fine_tune until its first step", begun)
    print(json.dumps(stages))


def memory(entities: int) -> list[Row]:
    """Return seconds and peak memory of a fresh process, after each stage.

    Raises:
        RuntimeError: If the process fails.
    """
    command = [sys.executable, "-m", "benchmarks.panels", "--until-first-step", str(entities)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"measuring memory failed with exit code {done.returncode}: {done.stderr.strip()}")
    stages: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return [{"entities": entities, "rows": entities * TIMES, **stage} for stage in stages]


def main() -> None:
    """Print the tables."""
    parser = options(__doc__, "panels")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--until-first-step", type=int, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.until_first_step:
        until_first_step(parsed.until_first_step)
        return
    tables = {
        "speed": speed(parsed.small, 1 if parsed.small else parsed.rounds),
        "memory": memory(300 if parsed.small else 100_000),
    }
    about = {"times": TIMES, "small": parsed.small}
    if parsed.json:
        show("panels", [{"table": name, **row} for name, rows in tables.items() for row in rows], about, True)
        return
    for name, rows in tables.items():
        show(name, rows, about, False)


if __name__ == "__main__":
    main()
