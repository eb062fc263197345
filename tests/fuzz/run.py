"""The fuzzer: random tables, batches, folders, stores, sessions, servers, pages and commands, and laws that they obey.

`python tests/fuzz/run.py --minutes 60 --seed 0 --workers 2` plays cases of all kinds in turn. It prints how many were
accepted and refused, how often each way of reading or scoring was drawn and accepted, and each defect.
`--only tables --case 17` plays one case again. A case depends on the seed, its kind and its number, and on nothing
else. The exit code is 1 if there are defects.

Cases run in child processes. If one ends or hangs, that is a defect of its case, and another child goes on after it.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # helpers of other tests

KINDS = ("tables", "commands", "batches", "folders", "predictors", "stores", "sessions", "servers", "pages")
EVERY = {"commands": 8, "pages": 20, "predictors": 4, "servers": 8}
"""The kinds of slow cases are played in one of so many rounds, the others in each."""
HANGS = 90
"""The seconds after which a case counts as hanging; an ordinary one takes a fraction of a second."""

MEMORY = 16 * 2**30
"""The bytes that a child process may reserve: a case that asks for more fails, instead of taking them from others."""

FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where children have their files: in memory if possible, because stores wait for the disk at each commit."""


@dataclass
class Tally:
    """The number of cases of each kind and outcome, those of each way, and the defects, as (kind, case, description).

    Args:
        counts: The number of cases of each kind and outcome.
        ways: How often each kind drew a way, such as `store`, and how often what was drawn was accepted.
        defects: The defects.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    ways: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    defects: list[tuple[str, int, str]] = field(default_factory=list)

    def add(self, kind: str, case: int, outcome: str, description: str, ways: Sequence[Any] = ()) -> None:
        self.counts[kind, outcome] += 1
        for way, what, count in ways:
            self.ways[kind, way, what] += count
        if outcome == "defect":
            self.defects.append((kind, case, description))

    def render(self, seed: int) -> str:
        """Return the counts, and the defects in groups of equal laws or equal exceptions at equal places."""
        lines = [f"{'kind':<10}{'cases':>8}{'accepted':>10}{'refused':>10}{'defects':>10}"]
        for kind in KINDS:
            accepted, refused, defects = (self.counts[kind, outcome] for outcome in ("accepted", "refused", "defect"))
            lines.append(f"{kind:<10}{accepted + refused + defects:>8}{accepted:>10}{refused:>10}{defects:>10}")
        for kind, way in sorted({(kind, way) for kind, way, _ in self.ways}):
            drawn, accepted = (self.ways[kind, way, what] for what in ("drawn", "accepted"))
            lines.append(f"{kind}: {way} drawn {drawn:,}, accepted {accepted:,}")
        groups: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for kind, case, description in self.defects:
            alike = description.partition(" — ")[0]
            groups.setdefault((kind, alike), []).append((case, description))
        for (kind, _), members in sorted(groups.items(), key=lambda group: -len(group[1])):
            cases = ", ".join(str(case) for case, _ in members[:6]) + (", …" if len(members) > 6 else "")
            lines.append(f"\n{len(members)} × {kind}, case {cases}:\n    {members[0][1]}")
            lines.append(f"    python tests/fuzz/run.py --seed {seed} --only {kind} --case {members[0][0]}")
        return "\n".join(lines)


def play(kind: str, seed: int, case: int, strict: bool = False) -> tuple[str, str]:
    """Return the outcome of a case and, for a defect, its description."""
    import fuzz_folders
    from outcomes import Broken, Refused

    module = importlib.import_module(f"fuzz_{kind}")
    rng = Random(f"{seed} {kind} {case}")
    fuzz_folders.strict = strict
    start = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            return module.play(rng, Path(folder)), ""
        except Refused as refusal:
            return "refused", str(refusal)
        except Broken as broken:
            return "defect", str(broken)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic of polars is no Exception
            return "defect", _described(error)
        finally:
            os.chdir(start)


def _described(error: BaseException) -> str:
    """Return an unexpected exception with the last places in the package that led to it, and then its message."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if "eventvec" in frame.filename] or frames
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in places[:-4:-1])
    line = next((frame.lineno for frame in reversed(frames) if frame.filename.startswith(str(HERE))), 0)
    text = " ".join([*str(error).split(), *getattr(error, "__notes__", ())])[:400]
    return f"{type(error).__name__} at {where} — {text} (line {line} of the case)"


def work(kinds: list[str], seed: int, first: int, worker: int, workers: int, strict: bool) -> None:
    """Play rounds of cases of the kinds until standard output is closed; write a line before and after each case.

    Each worker plays every case whose number leaves the worker's as the remainder of a division by their number.
    """
    import outcomes

    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the package prints must not mix with the answers
    turn = first
    while True:
        for kind in kinds:
            every = EVERY.get(kind, 1) if len(kinds) > 1 else 1
            if turn % every:
                continue
            case = turn // every * workers + worker
            outcomes.ways.clear()
            print(json.dumps([turn, kind, case]), file=answers, flush=True)
            faulthandler.dump_traceback_later(HANGS, exit=True)
            outcome, description = play(kind, seed, case, strict)
            faulthandler.cancel_dump_traceback_later()
            ways = [[*way, count] for way, count in outcomes.ways.items()]
            print(json.dumps([turn, kind, case, outcome, description, ways]), file=answers, flush=True)
        turn += 1


class Child:
    """A process that plays cases, and its files.

    Args:
        options: The arguments of `run.py`, apart from the first round.
        first: The first round.
    """

    def __init__(self, options: list[str], first: int) -> None:
        self.options, self.turn, self.heard = options, first, time.monotonic()
        self.case: tuple[str, int] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=FOLDER))
        environment = {**os.environ, "TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
        command = [sys.executable, str(HERE / "run.py"), *options, "--case", str(first)]
        with (self.folder / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=stderr, env=environment, start_new_session=True
            )
        assert self.process.stdout is not None
        self.output: IO[bytes] = self.process.stdout
        self._rest = b""

    def lines(self) -> Iterator[list[Any]]:
        """Yield what the process has written since the last call; end it if it has been silent for too long."""
        text = os.read(self.output.fileno(), 1 << 16)
        self.heard = time.monotonic()
        *whole, self._rest = (self._rest + text).split(b"\n")
        for line in whole:
            self.turn, *answer = json.loads(line)
            self.case = (answer[0], answer[1]) if len(answer) == 2 else None
            yield answer
        if not text:
            self.process.wait()

    def describe(self) -> str:
        """Return how the process ended."""
        text = (self.folder / "stderr").read_text(errors="replace")
        if self.case is None:
            raise SystemExit(f"a child process did not start: {text[-1500:]}")
        last = text.rpartition("(most recent call first):")[2][:700] or text[-700:]
        return f"the process ended with code {self.process.returncode} — {last}"

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # it, and the servers and consumers that it has started
        self.process.wait()
        self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def fuzz(
    kinds: Sequence[str], seed: int, seconds: float, workers: int = 1, strict: bool = False, progress: bool = False
) -> Tally:
    """Return the tally of cases that are played for some seconds.

    Args:
        kinds: The kinds, which take turns.
        seed: The seed.
        seconds: How long new cases are begun.
        workers: The number of processes.
        strict: Whether changed values in a model folder must be noticed.
        progress: Whether the counts so far are shown on standard error.
    """
    tally, end, shown = Tally(), time.monotonic() + seconds, 0.0
    options = ["--work", *kinds, "--seed", str(seed), "--workers", str(workers), *(["--strict"] if strict else [])]
    children = [Child([*options, "--worker", str(worker)], 0) for worker in range(workers)]
    try:
        while time.monotonic() < end:
            _listen(children, tally)
            if progress and time.monotonic() - shown > 0.5:
                shown = time.monotonic()
                print(f"\r{sum(tally.counts.values()):,} cases, {len(tally.defects)} defects", end="", file=sys.stderr)
    finally:
        for child in children:
            child.close()
    if progress:
        print(file=sys.stderr)
    return tally


def _listen(children: list[Child], tally: Tally) -> None:
    """Wait for a second for what the children write, enter it, and replace those that ended."""
    with selectors.DefaultSelector() as waiting:
        for child in children:
            waiting.register(child.output, selectors.EVENT_READ, child)
        ready = [key.data for key, _ in waiting.select(timeout=1)]
    for place, child in enumerate(children):
        if time.monotonic() - child.heard > 2 * HANGS:
            child.process.kill()
        if child not in ready:
            continue
        for answer in child.lines():
            if len(answer) > 2:
                tally.add(*answer)
        if child.process.returncode is not None:
            description = child.describe()
            assert child.case is not None
            tally.add(*child.case, "defect", description)
            child.close()
            children[place] = Child(child.options, child.turn + 1)


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="number of processes that play cases")
    parser.add_argument("--only", choices=KINDS, help="play cases of one kind")
    parser.add_argument("--case", type=int, help="play one case, and show its traceback")
    parser.add_argument("--strict", action="store_true", help="changed values in a model folder must be noticed")
    parser.add_argument("--work", nargs="+", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work:
        work(chosen.work, chosen.seed, chosen.case, chosen.worker, chosen.workers, chosen.strict)
    kinds = [chosen.only] if chosen.only else list(KINDS)
    tally = Tally()
    if chosen.case is not None:
        for kind in kinds:
            outcome, description = play(kind, chosen.seed, chosen.case, chosen.strict)
            print(f"{kind} case {chosen.case}: {outcome} {description}")
            tally.add(kind, chosen.case, outcome, description)
        return bool(tally.defects)
    shows = sys.stderr.isatty()
    tally = fuzz(kinds, chosen.seed, 60 * chosen.minutes, chosen.workers, chosen.strict, progress=shows)
    print(tally.render(chosen.seed))
    return bool(tally.defects)


if __name__ == "__main__":
    sys.exit(main())
