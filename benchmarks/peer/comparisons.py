"""The tables that compare both sides; their rows have the same columns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from benchmarks import measure
from benchmarks.peer import shared_inputs as data
from benchmarks.peer.worker import ROOT, Worker
from eventvec.precision import cpu_has_bfloat16

Row = dict[str, Any]
Timed = Callable[[], float]
PEER = ROOT / ".venv-peer/bin/python"
HIDDEN, BATCHES = (64, 256, 800), (16, 32, 64, 128)
OURS: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16") if cpu_has_bfloat16() else ("float32",)
SETTINGS = ("highest", "float32", "medium", *OURS[1:])
"""Theirs at torch's default precision, ours in float32, theirs at `medium`, ours in bfloat16 if the CPU has it."""
PAIRS = tuple(product(OURS, ("highest", "medium")))
KINDS: Mapping[str, Literal["float32", "float32, medium", "bfloat16"]] = {
    "float32": "float32, medium", "bfloat16": "bfloat16", "highest": "float32", "medium": "float32, medium",
}  # fmt: skip
"""The precision of matrix products in each setting."""
NONE = (None, None, None)
TRAINING: Mapping[str, tuple[float | None, ...]] = {
    "float32, highest": (2.5, 3.5, 3.0), "float32, medium": (1.8, 2.0, 1.5), "bfloat16, highest": (3.0, 4.0, 6.0),
}  # fmt: skip
EMBEDDING: Mapping[str, tuple[float, ...]] = {"float32": (1.5, 3.0, 2.5), "bfloat16": (2.0, 4.5, 5.0)}
"""The expected ratios of their seconds to ours, by hidden size."""


@dataclass(frozen=True)
class Bench:
    """The data of a run and its size.

    Args:
        folder: folder for the tables.
        small: whether only a fraction of the work is done.
    """

    folder: Path
    small: bool

    def pick(self, full: Any, small: Any) -> Any:
        """Return the first value in a full run, the second in a small one."""
        return small if self.small else full

    def rows(self, entities: int, events: int = data.EVENTS, make: Callable[..., pa.Table] = data.narrow) -> str:
        """Return the path of a table, which is written at the first call."""
        path = self.folder / f"{make.__name__}-{entities}-{events}.parquet"
        return str(path) if path.exists() else data.write(make(entities, events), path)

    @property
    def threads(self) -> tuple[int, ...]:
        """Numbers of threads per side."""
        return self.pick((1, 2), (1,))  # type: ignore[no-any-return]

    @property
    def hidden(self) -> tuple[int, ...]:
        """Sizes of the recurrent layer."""
        return HIDDEN[: self.pick(3, 1)]


@contextmanager
def sides(threads: int) -> Iterator[tuple[Worker, Worker]]:
    """Yield a process for each side: theirs, then ours."""
    with Worker("theirs", PEER, threads) as theirs, Worker("ours", Path(sys.executable), threads) as ours:
        yield theirs, ours


def turns(tasks: Mapping[str, Timed], repeats: int, warm_up: bool = True) -> dict[str, list[float]]:
    """Return the seconds of tasks that run in turn, by default after a round that is not counted."""
    rounds = [{name: task() for name, task in tasks.items()} for _ in range(repeats + warm_up)]
    return {name: [seconds[name] for seconds in rounds[warm_up:]] for name in tasks}


def row(
    what: str, case: str, threads: int, values: Sequence[float | None], unit: str, expected: float | None = None,
    ratio: Sequence[float | None] = NONE,
) -> Row:  # fmt: skip
    """Return a row: theirs and ours, their ratio (median, least and most over rounds), and the expected ratio."""
    print(f"{what}, {case}, {threads} thread(s): {list(values)} {unit}", file=sys.stderr, flush=True)
    columns = {"what": what, "case": case, "threads": threads, "theirs": values[0], "ours": values[1], "unit": unit}
    return {**columns, "times": ratio[0], "least": ratio[1], "most": ratio[2], "expected": expected}


def beside(
    what: str, case: str, threads: int, theirs: list[float], ours: list[float], unit: str = "s", amount: float = 0,
    expected: float | None = None,
) -> Row:  # fmt: skip
    """Return a row of two tasks: their seconds, or the amount per second if an amount is given."""
    values = [amount / median(seconds) if amount else median(seconds) for seconds in (theirs, ours)]
    return row(what, case, threads, values, unit, expected, measure.ratio(theirs, ours))


def check(bench: Bench) -> list[Row]:
    """Both compute the same: embeddings with equal weights, the loss of equal embeddings and its gradient.

    Raises:
        RuntimeError: If they differ, so that their times cannot be compared.
    """
    path, entities, hidden, slices = bench.rows(data.ENTITIES), data.ENTITIES, 64, data.ENTITIES * data.SLICES
    with sides(1) as (theirs, ours):
        our_results = ours.answer("weights", path=path, entities=entities, hidden=hidden)
        weights = {name: our_results.pop(name) for name in ("cell", "table", "values")}
        their_results = theirs.answer("with_weights", path=path, entities=entities, weights=weights)
        gradients = [side.answer("gradient", rows=slices, dim=hidden) for side in (theirs, ours)]
    differences = {
        "embeddings of the same windows with the same weights": _difference(their_results["z"], our_results["z"]),
        "loss of the same windows with the same weights": _difference(their_results["loss"], our_results["loss"]),
        "loss of the same vectors": _difference(gradients[0]["loss"], gradients[1]["loss"]),
        "gradient of the same vectors": _difference(gradients[0]["gradient"], gradients[1]["gradient"]),
    }
    if max(differences.values()) > 1e-4:
        raise RuntimeError(f"the two sides differ by more than 1e-4, so their times cannot be compared: {differences}")
    return [row("check", case, 1, (None, value), "difference", 1e-4) for case, value in differences.items()]


def preprocessing(bench: Bench) -> list[Row]:
    """From a Parquet file to what training takes: sorted and narrow, shuffled with 24 features."""
    narrow, wide = bench.pick(10_000, 50), bench.pick(1_000, 20)
    cases = {
        "sorted, 2 features": (bench.rows(narrow), narrow, 8.0),
        "shuffled, 24 features": (bench.rows(wide, make=data.wide), wide, 4.0),
    }
    rows = []
    for threads in bench.threads:
        with sides(threads) as (theirs, ours):
            for case, (path, entities, expected) in cases.items():
                tasks = {
                    "theirs": partial(theirs.seconds, "preprocessing", path=path),
                    "ours": partial(ours.seconds, "preprocessing", path=path),
                    "plain": partial(ours.seconds, "plain", path=path),
                }
                seconds = turns(tasks, bench.pick(4, 1))
                for name, suffix, target in (
                    ("ours", "", expected), ("plain", "; ours: only read, sorted and coded", None),
                ):  # fmt: skip
                    rate = {"unit": "million rows/s", "amount": entities * data.EVENTS / 1e6, "expected": target}
                    both = seconds["theirs"], seconds[name]
                    rows.append(beside("preprocessing", case + suffix, threads, *both, **rate))
    return rows


def sampling(bench: Bench) -> list[Row]:
    """A batch: 64 entities, five slices of 25 to 200 events of each."""
    path, rows = bench.rows(bench.pick(512, 128)), []
    for threads in bench.threads:
        with sides(threads) as (theirs, ours):
            options = {"path": path, "entities": data.ENTITIES}
            tasks = {
                "theirs": partial(theirs.seconds, "sampling", bench.pick(40, 4), **options),
                "ours": partial(ours.seconds, "sampling", bench.pick(400, 20), **options),
            }
            seconds = turns(tasks, bench.pick(5, 1))
            rows.append(beside("sampling", "a batch", threads, seconds["theirs"], seconds["ours"], expected=15.0))
    return rows


def loss(bench: Bench) -> list[Row]:
    """Mining and contrastive loss, forward and backward: 320 embeddings of 256 and of 800 numbers."""
    rows = []
    for threads in bench.threads:
        with sides(threads) as (theirs, ours):
            for dim in bench.pick((256, 800), (256,)):
                options = {"rows": data.ENTITIES * data.SLICES, "dim": dim}
                tasks = {
                    "theirs": partial(theirs.seconds, "loss", bench.pick(3, 1), **options),
                    "ours": partial(ours.seconds, "loss", bench.pick(100, 5), **options),
                }
                seconds, expected = turns(tasks, bench.pick(5, 1)), 100.0 if dim == 800 else None
                both = seconds["theirs"], seconds["ours"]
                rows.append(beside("loss", f"320 x {dim}", threads, *both, expected=expected))
    return rows


def training(bench: Bench) -> list[Row]:
    """A CoLES step: event encoder, GRU, loss, backward, Adam; and its useful work beside the machine's peak."""
    rows, path = [], bench.rows(data.ENTITIES)
    for threads in bench.threads:
        with sides(threads) as (theirs, ours):
            for place, hidden in enumerate(bench.hidden):
                options: Row = {"path": path, "entities": data.ENTITIES, "hidden": hidden}
                runs = bench.pick({64: 5, 256: 2, 800: 1}[hidden], 1)
                tasks = {
                    setting: partial(side.seconds, "training", runs, precision=setting, **options)
                    for side, setting in zip((theirs, ours, theirs, ours), SETTINGS, strict=False)
                }
                seconds = turns(tasks, bench.pick(3 if hidden == 800 else 5, 1))
                for ours_at, theirs_at in PAIRS:
                    expected = TRAINING.get(f"{ours_at}, {theirs_at}", NONE)[place]
                    case = f"hidden {hidden}: ours {ours_at}, theirs {theirs_at}"
                    rows.append(
                        beside("training", case, threads, seconds[theirs_at], seconds[ours_at], expected=expected)
                    )
                events = int(data.windows(data.ENTITIES).length.sum())
                rows += _useful("training", hidden, 3 * events, threads, seconds)
    return rows


def embedding(bench: Bench) -> list[Row]:
    """Whole histories of 880 events, beside their best batch size and their default of 512."""
    rows, few, many = [], bench.pick(128, 8), bench.pick(512, 16)
    for threads in bench.threads:
        with sides(threads) as (theirs, ours):
            for place, hidden in enumerate(bench.hidden):
                options: Row = {"path": bench.rows(many), "hidden": hidden}
                embed = {
                    setting: partial(side.seconds, "embedding", precision=setting, **options)
                    for side, setting in zip((theirs, ours, theirs, ours), SETTINGS, strict=False)
                }
                embed["highest"](entities=8, batch=8)
                by_size = {size: embed["highest"](entities=few, batch=size) for size in BATCHES[: bench.pick(4, 1)]}
                best = min(by_size, key=lambda size: by_size[size])
                batches = {setting: {"batch": best} if setting in ("highest", "medium") else {} for setting in embed}
                tasks = {setting: partial(task, entities=few, **batches[setting]) for setting, task in embed.items()}
                seconds = turns(tasks, bench.pick(3, 1), warm_up=hidden < 800)
                for ours_at, theirs_at in PAIRS:
                    case = f"hidden {hidden}: ours {ours_at}, theirs {theirs_at}, {best} a batch"
                    expected = EMBEDDING[ours_at][place] if theirs_at == "highest" else None
                    rate = {"unit": "entities/s", "amount": few, "expected": expected}
                    rows.append(beside("embedding", case, threads, seconds[theirs_at], seconds[ours_at], **rate))
                rows += _useful("embedding", hidden, few * data.EVENTS, threads, seconds)
                tasks = {setting: partial(embed[setting], entities=many) for setting in ("highest", "float32")}
                seconds = turns(tasks, bench.pick(1 if hidden == 800 else 2, 1), warm_up=False)
                case, rate = "ours float32, theirs highest, 512 a batch", {"unit": "entities/s", "amount": many}
                both = seconds["highest"], seconds["float32"]
                rows.append(beside("embedding", f"hidden {hidden}: {case}", threads, *both, **rate))
    return rows


def memory(bench: Bench) -> list[Row]:
    """The peak memory of a fresh process, including interpreter and libraries; `times` is theirs divided by ours."""
    narrow, wide, cards = bench.pick(10_000, 50), bench.pick(1_000, 20), bench.pick(512, 16)
    rows = []
    for case, path in (("sorted, 2 features", bench.rows(narrow)),
                       ("shuffled, 24 features", bench.rows(wide, make=data.wide))):  # fmt: skip
        rows.append(_memory(f"preprocessing, {case}", "preprocessing", {"path": path}, {"path": path}, 1 / 0.9))
    for hidden in bench.hidden:
        options = {"path": bench.rows(data.ENTITIES), "entities": data.ENTITIES, "hidden": hidden}
        theirs = options | {"precision": "highest"}
        for ours_at in OURS:
            case, ours = f"training, hidden {hidden}: ours {ours_at}", options | {"precision": ours_at}
            rows.append(_memory(case, "training", theirs, ours, 2.0))
    for hidden in bench.hidden:
        options = {"path": bench.rows(cards), "entities": cards, "hidden": hidden}
        for batch, batch_options in (("512 a batch (their default)", {}), ("32 a batch", {"batch": 32})):
            case = f"embedding, hidden {hidden}: ours float32, theirs {batch}"
            theirs, ours = options | {"precision": "highest"} | batch_options, options | {"precision": "float32"}
            rows.append(_memory(case, "embedding", theirs, ours, None if batch_options else 2.0))
    return rows


def growth(bench: Bench) -> list[Row]:
    """Growth of seconds with the events: preprocessing of more entities, embedding (hidden 256) of longer histories."""
    by_rows, by_length, repeats = {}, {}, bench.pick(2, 1)
    with sides(1) as (theirs, ours):
        for entities in bench.pick((1_250, 2_500, 5_000, 10_000), (25, 50, 100)):
            path = bench.rows(entities)
            tasks = {side.side: partial(side.seconds, "preprocessing", path=path) for side in (theirs, ours)}
            by_rows[entities * data.EVENTS] = turns(tasks, repeats)
        for length in bench.pick((220, 440, 880, 1_760), (20, 40, 80)):
            options: Row = {"path": bench.rows(data.ENTITIES, length), "entities": data.ENTITIES, "hidden": 256}
            tasks = {
                "theirs": partial(theirs.seconds, "embedding", precision="highest", batch=32, **options),
                "ours": partial(ours.seconds, "embedding", precision="float32", **options),
            }
            by_length[length] = turns(tasks, repeats)
    return _growth("preprocessing", "rows", by_rows) + _growth("embedding, hidden 256", "events each", by_length)


def _difference(first: Any, second: Any) -> float:
    """Return the largest difference, relative to the largest number of the second."""
    x, y = np.asarray(first), np.asarray(second)
    return float(np.abs(x - y).max() / np.abs(y).max())


def _memory(case: str, task: str, theirs: Row, ours: Row, expected: float | None) -> Row:
    """Return the row of the peak memory of one task on both sides."""
    begin = "import torch\ntorch.set_num_threads(1)\nfrom benchmarks.peer.{0} import TASKS\n"
    their_peak, our_peak = (
        measure.peak_memory(f"{begin.format(side)}TASKS[{task!r}](**{options!r})(1)", str(python))
        for side, options, python in (("theirs", theirs, PEER), ("ours", ours, sys.executable))
    )
    return row("memory", case, 1, (their_peak, our_peak), "GB", expected, (their_peak / our_peak, None, None))


def _useful(what: str, hidden: int, events: int, threads: int, seconds: Mapping[str, list[float]]) -> list[Row]:
    """Return the speed of the necessary arithmetic, products of events and weights of the GRU, and its share of peak.

    A training step needs each product three times: forward, for the gradient of the state and for that of the weight.
    """
    work = 6 * hidden * (data.WIDTH + hidden) * events / 1e9  # 2 per weight and event
    rows, expected = [], 0.65 if (what, hidden, threads) == ("training", 800, 1) else None
    for ours_at, theirs_at in zip(OURS, ("highest", "medium"), strict=False):
        peaks = {kind: measure.peak_flops(kind, threads) for kind in {KINDS[ours_at], KINDS[theirs_at]}}
        speeds = [work / median(seconds[setting]) for setting in (theirs_at, ours_at)]
        shares = [speed / peaks[KINDS[setting]] for speed, setting in zip(speeds, (theirs_at, ours_at), strict=True)]
        case = f"hidden {hidden}: ours {ours_at}, theirs {theirs_at}"
        rows.append(row(what, case, threads, speeds, "useful GFLOP/s"))
        rows.append(row(what, case, threads, shares, "of the measured peak", expected))
    return rows


def _growth(what: str, axis: str, seconds: Mapping[int, Mapping[str, list[float]]]) -> list[Row]:
    """Return the seconds by size, and the exponent of their growth."""
    rows = [
        beside("growth", f"{what}: {size:,} {axis}", 1, values["theirs"], values["ours"])
        for size, values in seconds.items()
    ]
    sizes = np.log(list(seconds))
    slopes = [
        float(np.polyfit(sizes, np.log([median(values[side]) for values in seconds.values()]), 1)[0])
        for side in ("theirs", "ours")
    ]
    return [*rows, row("growth", f"{what}: exponent", 1, slopes, f"of {axis}")]


TABLES: Mapping[str, Callable[[Bench], list[Row]]] = {
    "check": check, "preprocessing": preprocessing, "sampling": sampling, "loss": loss, "training": training,
    "embedding": embedding, "memory": memory, "growth": growth,
}  # fmt: skip
