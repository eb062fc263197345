"""Training, embedding, sampling and the layout of rows on a GPU, each beside the plain way, and the tests of CUDA.

The plain way is torch's own cell on rows that are padded to the longest, run by cuDNN too. Numbers are for the device
that `--device` names; `cpu` shows that the tables run where there is no GPU.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

import eventvec as ev
from benchmarks import attention
from benchmarks.measure import ROOT, Row, alternate, options, ratio, show
from benchmarks.recurrent import Case, lengths
from eventvec.schema import Categorical, Numeric, Schema

ENTITIES, SLICES, EVENTS, FEW_EVENTS = 64, 5, 880, 220
SCHEMA = Schema(
    "card", "time", "integer", categorical=(Categorical("code", tuple(f"{i}" for i in range(200))),),
    numeric=(Numeric("amount"),),
)  # fmt: skip


def synchronised(function: Callable[[], object], device: torch.device) -> Callable[[], None]:
    """Return the function, which then waits until the device has finished."""

    def run() -> None:
        function()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return run


def histories(n: int, events: int, device: torch.device) -> ev.Sequences:
    """Return `n` random histories of as many events, on the device."""
    rng, total = torch.Generator().manual_seed(0), n * events
    columns = {
        "time": torch.arange(total), "code": torch.randint(1, 200, (total,), generator=rng),
        "amount": torch.randn(total, generator=rng),
    }  # fmt: skip
    return ev.Sequences(columns, torch.arange(n) * events, torch.full((n,), events)).to(device)


class Padded(nn.Module):
    """A GRU encoder that pads its rows, as one writes it by hand: the plain way."""

    def __init__(self, encoder: ev.encoders.Recurrent) -> None:
        super().__init__()
        self.events, self.gru, self.dim = encoder.events, encoder.cells[0], encoder.dim

    def forward(self, x: ev.Sequences) -> Tensor:
        """Return `(n, dim)` the state after each row's last event, which must not be empty."""
        states = self.gru(x.pad(self.events(x)).transpose(0, 1))[0]
        last: Tensor = states[x.lengths - 1, torch.arange(len(x), device=x.device)]
        return last


def encoders(hidden: int, device: torch.device) -> dict[str, nn.Module]:
    """Return an encoder of this size and its padded twin, with the same weights."""
    torch.manual_seed(0)
    ours = ev.encoders.GRU(ev.encoders.EventEncoder(SCHEMA, time=()), dim=hidden).to(device)
    return {"padded": Padded(ours), "ours": ours}


def training(small: bool, device: torch.device) -> list[Row]:
    """Return the time of a CoLES step: slices, encoder, loss, backward pass and Adam."""
    rows = []
    x = histories(8, FEW_EVENTS, device) if small else histories(ENTITIES, EVENTS, device)
    for hidden in (16,) if small else (64, 256, 800):
        for precision in ("float32",) if device.type == "cpu" else ("float32", "bfloat16"):
            steps = {}
            for name, encoder in encoders(hidden, device).items():
                method = ev.methods.CoLES(encoder, ev.views.RandomSlices(SLICES, 25, 200))
                adam, rng = torch.optim.Adam(method.parameters()), torch.Generator(device).manual_seed(0)

                def step(method: Any = method, adam: Any = adam, rng: Any = rng, precision: str = precision) -> None:
                    adam.zero_grad()
                    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
                        loss = method.loss(x, rng)
                    loss.backward()
                    adam.step()

                steps[name] = synchronised(step, device)
            rows.append({"hidden": hidden, "precision": precision, **compared(steps, small)})
    return rows


def embedding(small: bool, device: torch.device) -> list[Row]:
    """Return the time to embed histories of 880 events."""
    rows, x = [], histories(8, FEW_EVENTS, device) if small else histories(512, EVENTS, device)
    for hidden in (16,) if small else (64, 256, 800):
        runs = {
            name: synchronised(lambda e=e: no_gradient(e, x), device) for name, e in encoders(hidden, device).items()
        }
        times = compared(runs, small)
        rows.append({"hidden": hidden, "histories/s": 1000 * len(x) / times["ours, ms"], **times})
    return rows


def no_gradient(encoder: nn.Module, x: ev.Sequences) -> None:
    """Embed without gradients."""
    with torch.no_grad():
        encoder(x)


def sampling(small: bool, device: torch.device) -> list[Row]:
    """Return the time of a batch of slices with their events, drawn on the device and on the CPU."""
    sampler, runs = ev.views.RandomSlices(SLICES, 25, 200), {}
    for name, where in (("CPU", torch.device("cpu")), ("ours", device)):
        x, rng = histories(100 if small else 1_000, EVENTS, where), torch.Generator(where).manual_seed(0)

        def draw(x: ev.Sequences = x, rng: torch.Generator = rng) -> None:
            views, _ = sampler(x[torch.randperm(len(x), generator=rng, device=x.device)[:ENTITIES]], rng)
            views.take(views.flat(), views.lengths).to(device)

        runs[name] = synchronised(draw, device)
    return [{"entities": ENTITIES, "slices": SLICES, **compared(runs, small, "CPU")}]


def layouts(small: bool, device: torch.device) -> list[Row]:
    """Return the time of a GRU on rows of 25 to 200 events: padded, in four buckets by length, and packed (ours)."""
    rows = []
    for hidden in (16,) if small else (64, 256, 800):
        for learning in (False, True):
            case = Case("gru", hidden, lengths(20 if small else 320, "25-200"), learning, device)
            runs = {"padded": case.torch, "buckets": case.buckets, "ours": case.scan}
            times = compared({name: synchronised(run, device) for name, run in runs.items()}, small)
            rows.append({"hidden": hidden, "what": "training" if learning else "forward", **times})
    return rows


def transformers(small: bool, device: torch.device) -> list[Row]:
    """Return the time of a transformer's layers on rows of 10 to 300 events: padded, in eight groups, and ours."""
    rows = []
    for dim in (16,) if small else (64, 128, 256):
        for learning in (False, True):
            case = attention.Case(dim, 8 if small else 512, learning, device)
            runs = {"padded": case.padded, "groups": case.by_groups, "ours": case.ours}
            times = compared({name: synchronised(run, device) for name, run in runs.items()}, small)
            rows.append({"dim": dim, "what": "training" if learning else "forward", **times})
    return rows


def compared(runs: dict[str, Callable[[], None]], small: bool, plain: str = "padded") -> Row:
    """Return milliseconds of each, and the ratio of the plain way to ours with the least and the largest."""
    seconds = alternate(runs, 1 if small else 20)
    mid, least, most = ratio(seconds[plain], seconds["ours"])
    times = {f"{name}, ms": 1000 * median(values) for name, values in seconds.items()}
    return {**times, "ratio": mid, "least": least, "most": most}


def tests(small: bool, device: torch.device) -> list[Row]:
    """Return how many of the tests that need a GPU passed, failed and were skipped, or could not run."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/scan/test_cuda.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    outcomes = dict.fromkeys(("passed", "failed", "skipped", "error"), 0)
    outcomes |= {name: int(count) for count, name in re.findall(rf"(\d+) ({'|'.join(outcomes)})", done.stdout)}
    return [{"tests": "tests/scan/test_cuda.py", **outcomes}]


TABLES = {
    "tests": tests, "training": training, "embedding": embedding, "sampling": sampling, "layouts": layouts,
    "transformers": transformers,
}  # fmt: skip


def main() -> None:
    """Run the tables that the command line names."""
    parser = options(__doc__, "gpu")
    parser.add_argument("--only", choices=list(TABLES), help="one of the tables; all of them if not given")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to see that the tables run")
    parsed = parser.parse_args()
    device = torch.device(parsed.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("torch finds no GPU here; --device cpu --small shows that the tables run")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    about = {"small": parsed.small, "device": name}
    results = {table: run(parsed.small, device) for table, run in TABLES.items() if parsed.only in (None, table)}
    if parsed.json:
        show("gpu", [{"table": table, **row} for table, rows in results.items() for row in rows], about, True)
        return
    for table, rows in results.items():
        show(table, rows, about, False)


if __name__ == "__main__":
    main()
