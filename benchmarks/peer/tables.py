"""The tables of the comparison, each a list of rows with the same names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from benchmarks import measure
from benchmarks.peer import data
from benchmarks.peer.worker import ROOT, Worker

Row = dict[str, Any]
Timed = Callable[[], float]
PEER = ROOT / ".venv-peer/bin/python"
HIDDEN, BATCHES = (64, 256, 800), (16, 32, 64, 128)
PAIRS = (("float32", "as it is"), ("float32", "mended"), ("bfloat16", "as it is"), ("bfloat16", "mended"))
KINDS: Mapping[str, Literal["float32", "float32, medium", "bfloat16"]] = {
    "float32": "float32, medium", "bfloat16": "bfloat16", "as it is": "float32", "mended": "float32, medium",
}  # fmt: skip
"""The products that each side's way of working uses."""
NONE = (None, None, None)
TRAINING: Mapping[str, tuple[float | None, ...]] = {
    "float32, as it is": (2.5, 3.5, 3.0), "float32, mended": (1.8, 2.0, 1.5), "bfloat16, as it is": (3.0, 4.0, 6.0),
}  # fmt: skip
EMBEDDING: Mapping[str, tuple[float, ...]] = {"float32": (1.5, 3.0, 2.5), "bfloat16": (2.0, 4.5, 5.0)}
"""How many times faster ours was expected to be, at each hidden size."""


@dataclass(frozen=True)
class Bench:
    """Where the data of a run lies, and how much of the work is done.

    Args:
        folder: of the tables.
        small: a fraction of the work.
    """

    folder: Path
    small: bool

    def pick(self, full: Any, small: Any) -> Any:
        """Return what a full run or a small one takes."""
        return small if self.small else full

    def rows(self, entities: int, events: int = data.EVENTS, make: Callable[..., pa.Table] = data.narrow) -> str:
        """Return the path of a table, which is written when it is first asked for."""
        path = self.folder / f"{make.__name__}-{entities}-{events}.parquet"
        return str(path) if path.exists() else data.write(make(entities, events), path)

    @property
    def threads(self) -> tuple[int, ...]:
        """Threads that each side gets."""
        return self.pick((1, 2), (1,))  # type: ignore[no-any-return]

    @property
    def hidden(self) -> tuple[int, ...]:
        """Sizes of the recurrent layer."""
        return HIDDEN[: self.pick(3, 1)]


@contextmanager
def sides(threads: int) -> Iterator[tuple[Worker, Worker]]:
    """Yield a process of theirs and one of ours."""
    with Worker("theirs", PEER, threads) as theirs, Worker("ours", Path(sys.executable), threads) as ours:
        yield theirs, ours


def turns(works: Mapping[str, Timed], repeats: int, warm: bool = True) -> dict[str, list[float]]:
    """Return the seconds that works report, all of them run in turn, after a round that is not counted."""
    rounds = [{name: work() for name, work in works.items()} for _ in range(repeats + warm)]
    return {name: [each[name] for each in rounds[warm:]] for name in works}


def row(
    what: str, case: str, threads: int, values: Sequence[float | None], unit: str, asked: float | None = None,
    ratio: Sequence[float | None] = (None, None, None),
) -> Row:  # fmt: skip
    """Return a row: theirs and ours, the ratio (median, least and most over rounds), and the ratio that was asked."""
    print(f"{what}, {case}, {threads} thread(s): {list(values)} {unit}", file=sys.stderr, flush=True)
    found = {"what": what, "case": case, "threads": threads, "theirs": values[0], "ours": values[1], "unit": unit}
    return {**found, "times": ratio[0], "least": ratio[1], "most": ratio[2], "asked": asked}


def beside(
    what: str, case: str, threads: int, theirs: list[float], ours: list[float], unit: str = "s", amount: float = 0,
    asked: float | None = None,
) -> Row:  # fmt: skip
    """Return a row of two works: seconds (`amount` 0), or how much of an amount is done in a unit of time."""
    values = [amount / median(seconds) if amount else median(seconds) for seconds in (theirs, ours)]
    return row(what, case, threads, values, unit, asked, measure.ratio(theirs, ours))


def check(bench: Bench) -> list[Row]:
    """Both compute the same: embeddings with equal weights, the loss of equal embeddings and its gradient.

    Raises:
        RuntimeError: they do not, so that their times mean nothing.
    """
    path, entities, hidden, slices = bench.rows(data.ENTITIES), data.ENTITIES, 64, data.ENTITIES * data.SLICES
    with sides(1) as (theirs, ours):
        mine = ours.answer("weights", path=path, entities=entities, hidden=hidden)
        weights = {name: mine.pop(name) for name in ("cell", "table", "values")}
        yours = theirs.answer("with_weights", path=path, entities=entities, weights=weights)
        both = [side.answer("gradient", rows=slices, dim=hidden) for side in (theirs, ours)]
    found = {
        "embeddings of the same windows with the same weights": _off(yours["z"], mine["z"]),
        "loss of the same windows with the same weights": _off(yours["loss"], mine["loss"]),
        "loss of the same vectors": _off(both[0]["loss"], both[1]["loss"]),
        "gradient of the same vectors": _off(both[0]["gradient"], both[1]["gradient"]),
    }
    if max(found.values()) > 1e-4:
        raise RuntimeError(f"the two sides do not compute the same, so their times mean nothing: {found}")
    return [row("check", case, 1, (None, value), "difference", asked=1e-4) for case, value in found.items()]


def preprocessing(bench: Bench) -> list[Row]:
    """From a Parquet file to what training takes: sorted and narrow, shuffled with 24 features."""
    narrow, wide = bench.pick(10_000, 50), bench.pick(1_000, 20)
    cases = {
        "sorted, 2 features": (bench.rows(narrow), narrow, 8.0),
        "shuffled, 24 features": (bench.rows(wide, make=data.wide), wide, 4.0),
    }
    found = []
    for threads in bench.threads:
        with sides(threads) as (theirs, ours):
            for case, (path, entities, asked) in cases.items():
                works = {
                    "theirs": partial(theirs.seconds, "preprocessing", path=path),
                    "ours": partial(ours.seconds, "preprocessing", path=path),
                    "plain": partial(ours.seconds, "plain", path=path),
                }
                seconds = turns(works, bench.pick(4, 1))
                for mine, more, bound in (("ours", "", asked), ("plain", "; ours: only read, sorted and coded", None)):
                    rate = {"unit": "million rows/s", "amount": entities * data.EVENTS / 1e6, "asked": bound}
                    both = seconds["theirs"], seconds[mine]
                    found.append(beside("preprocessing", case + more, threads, *both, **rate))
    return found


def sampling(bench: Bench) -> list[Row]:
    """A batch: 64 entities, five slices of 25 to 200 events of each."""
    path, found = bench.rows(bench.pick(512, 128)), []
    for threads in bench.threads:
        with sides(threads) as (theirs, ours):
            given = {"path": path, "entities": data.ENTITIES}
            works = {
                "theirs": partial(theirs.seconds, "sampling", bench.pick(40, 4), **given),
                "ours": partial(ours.seconds, "sampling", bench.pick(400, 20), **given),
            }
            seconds = turns(works, bench.pick(5, 1))
            found.append(beside("sampling", "a batch", threads, seconds["theirs"], seconds["ours"], asked=15.0))
    return found


def loss(bench: Bench) -> list[Row]:
    """Mining and contrastive loss, forward and backward: 320 embeddings of 256 and of 800 numbers."""
    found = []
    for threads in bench.threads:
        with sides(threads) as (theirs, ours):
            for dim in bench.pick((256, 800), (256,)):
                given = {"rows": data.ENTITIES * data.SLICES, "dim": dim}
                works = {
                    "theirs": partial(theirs.seconds, "loss", bench.pick(3, 1), **given),
                    "ours": partial(ours.seconds, "loss", bench.pick(100, 5), **given),
                }
                seconds, asked = turns(works, bench.pick(5, 1)), 100.0 if dim == 800 else None
                found.append(beside("loss", f"320 x {dim}", threads, seconds["theirs"], seconds["ours"], asked=asked))
    return found


def training(bench: Bench) -> list[Row]:
    """A CoLES step: event encoder, GRU, loss, backward, Adam; and useful work beside what the machine can do."""
    found, path = [], bench.rows(data.ENTITIES)
    for threads in bench.threads:
        with sides(threads) as (theirs, ours):
            for place, hidden in enumerate(bench.hidden):
                given: Row = {"path": path, "entities": data.ENTITIES, "hidden": hidden}
                runs = bench.pick({64: 5, 256: 2, 800: 1}[hidden], 1)
                works = {
                    how: partial(side.seconds, "training", runs, how=how, **given)
                    for side, how in ((theirs, "as it is"), (ours, "float32"), (theirs, "mended"), (ours, "bfloat16"))
                }
                seconds = turns(works, bench.pick(3 if hidden == 800 else 5, 1))
                for mine, yours in PAIRS:
                    asked = TRAINING.get(f"{mine}, {yours}", NONE)[place]
                    case = f"hidden {hidden}: ours {mine}, theirs {yours}"
                    found.append(beside("training", case, threads, seconds[yours], seconds[mine], asked=asked))
                found += _useful(hidden, threads, {how: median(each) for how, each in seconds.items()})
    return found


def embedding(bench: Bench) -> list[Row]:
    """Whole histories of 880 events, beside their best batch size and beside their default one, 512."""
    found, few, many = [], bench.pick(128, 8), bench.pick(512, 16)
    for threads in bench.threads:
        with sides(threads) as (theirs, ours):
            for place, hidden in enumerate(bench.hidden):
                given: Row = {"path": bench.rows(many), "hidden": hidden}
                work = {
                    how: partial(side.seconds, "embedding", how=how, **given)
                    for side, how in ((theirs, "as it is"), (ours, "float32"), (theirs, "mended"), (ours, "bfloat16"))
                }
                work["as it is"](entities=8, batch=8)
                swept = {size: work["as it is"](entities=few, batch=size) for size in BATCHES[: bench.pick(4, 1)]}
                best = min(swept, key=lambda size: swept[size])
                options = {how: {"batch": best} if how in ("as it is", "mended") else {} for how in work}
                works = {how: partial(each, entities=few, **options[how]) for how, each in work.items()}
                seconds = turns(works, bench.pick(3, 1), warm=hidden < 800)
                for mine, yours in PAIRS:
                    case = f"hidden {hidden}: ours {mine}, theirs {yours}, {best} a batch"
                    asked = EMBEDDING[mine][place] if yours == "as it is" else None
                    rate = {"unit": "entities/s", "amount": few, "asked": asked}
                    found.append(beside("embedding", case, threads, seconds[yours], seconds[mine], **rate))
                works = {how: partial(work[how], entities=many) for how in ("as it is", "float32")}
                seconds = turns(works, bench.pick(1 if hidden == 800 else 2, 1), warm=False)
                case, rate = "ours float32, theirs as it is, 512 a batch", {"unit": "entities/s", "amount": many}
                both = seconds["as it is"], seconds["float32"]
                found.append(beside("embedding", f"hidden {hidden}: {case}", threads, *both, **rate))
    return found


def memory(bench: Bench) -> list[Row]:
    """The most memory of a fresh process, interpreter and libraries included; `times` is theirs by ours."""
    narrow, wide, cards = bench.pick(10_000, 50), bench.pick(1_000, 20), bench.pick(512, 16)
    found = []
    for case, path in (("sorted, 2 features", bench.rows(narrow)),
                       ("shuffled, 24 features", bench.rows(wide, make=data.wide))):  # fmt: skip
        found.append(_memory(f"preprocessing, {case}", "preprocessing", {"path": path}, {"path": path}, 1 / 0.9))
    for hidden in bench.hidden:
        given = {"path": bench.rows(data.ENTITIES), "entities": data.ENTITIES, "hidden": hidden}
        for mine in ("float32", "bfloat16"):
            case = f"training, hidden {hidden}: ours {mine}"
            found.append(_memory(case, "training", given | {"how": "as it is"}, given | {"how": mine}, 2.0))
    for hidden in bench.hidden:
        given = {"path": bench.rows(cards), "entities": cards, "hidden": hidden}
        for yours, more in (("512 a batch (their default)", {}), ("32 a batch", {"batch": 32})):
            case = f"embedding, hidden {hidden}: ours float32, theirs {yours}"
            asked = None if more else 2.0
            found.append(
                _memory(case, "embedding", given | {"how": "as it is"} | more, given | {"how": "float32"}, asked)
            )
    return found


def growth(bench: Bench) -> list[Row]:
    """How seconds grow with the events: preprocessing with more entities, embedding (hidden 256) with longer rows."""
    rows, repeats = {}, bench.pick(2, 1)
    events = {}
    with sides(1) as (theirs, ours):
        for entities in bench.pick((1_250, 2_500, 5_000, 10_000), (25, 50, 100)):
            path = bench.rows(entities)
            works = {side.side: partial(side.seconds, "preprocessing", path=path) for side in (theirs, ours)}
            rows[entities * data.EVENTS] = turns(works, repeats)
        for each in bench.pick((220, 440, 880, 1_760), (20, 40, 80)):
            given: Row = {"path": bench.rows(data.ENTITIES, each), "entities": data.ENTITIES, "hidden": 256}
            works = {
                "theirs": partial(theirs.seconds, "embedding", how="as it is", batch=32, **given),
                "ours": partial(ours.seconds, "embedding", how="float32", **given),
            }
            events[each] = turns(works, repeats)
    return _growth("preprocessing", "rows", rows) + _growth("embedding, hidden 256", "events each", events)


def _off(one: Any, other: Any) -> float:
    """Return the largest difference, as a share of the largest number."""
    first, second = np.asarray(one), np.asarray(other)
    return float(np.abs(first - second).max() / np.abs(second).max())


def _memory(case: str, work: str, theirs: Row, ours: Row, asked: float | None) -> Row:
    begin = "import torch\ntorch.set_num_threads(1)\nfrom benchmarks.peer.{0} import WORKS\n"
    yours, mine = (
        measure.peak_memory(f"{begin.format(side)}WORKS[{work!r}](**{given!r})(1)", str(python))
        for side, given, python in (("theirs", theirs, PEER), ("ours", ours, sys.executable))
    )
    return row("memory", case, 1, (yours, mine), "GB", asked, (yours / mine, None, None))


def _useful(hidden: int, threads: int, seconds: Mapping[str, float]) -> list[Row]:
    """Return how much of a step's time the arithmetic needs that cannot be left out: products with the weights."""
    events = int(data.windows(data.ENTITIES).length.sum())
    work = 18 * hidden * (data.WIDTH + hidden) * events / 1e9  # 2 per weight and event, forward and twice backward
    found, asked = [], 0.65 if (hidden, threads) == (800, 1) else None
    for mine, yours in (("float32", "as it is"), ("bfloat16", "mended")):
        peaks = {kind: measure.peak_flops(kind, threads) for kind in {KINDS[mine], KINDS[yours]}}
        speeds = [work / seconds[how] for how in (yours, mine)]
        shares = [speed / peaks[KINDS[how]] for speed, how in zip(speeds, (yours, mine), strict=True)]
        case = f"hidden {hidden}: ours {mine}, theirs {yours}"
        found.append(row("training", case, threads, speeds, "useful GFLOP/s"))
        found.append(row("training", case, threads, shares, "of the measured peak", asked))
    return found


def _growth(what: str, axis: str, seconds: Mapping[int, Mapping[str, list[float]]]) -> list[Row]:
    found = [
        beside("growth", f"{what}: {size:,} {axis}", 1, each["theirs"], each["ours"]) for size, each in seconds.items()
    ]
    sizes = np.log(list(seconds))
    slopes = [
        float(np.polyfit(sizes, np.log([median(each[side]) for each in seconds.values()]), 1)[0])
        for side in ("theirs", "ours")
    ]
    return [*found, row("growth", f"{what}: exponent", 1, slopes, f"of {axis}")]


TABLES: Mapping[str, Callable[[Bench], list[Row]]] = {
    "check": check, "preprocessing": preprocessing, "sampling": sampling, "loss": loss, "training": training,
    "embedding": embedding, "memory": memory, "growth": growth,
}  # fmt: skip
