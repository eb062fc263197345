"""The fuzzer: random tables, commands, batches and run folders, and laws that each of them must obey.

`python tests/fuzz/run.py --minutes 60 --seed 0` plays cases of all kinds in turn, and prints how many were accepted and
refused, and each defect. `--only tables --case 17` plays one case again. A case depends on the seed, its kind and its
number, and on nothing else. The exit code is 1 if there are defects.

Cases run in a child process. If it ends or hangs, that is a defect of its case, and another child goes on after it.
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
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

HERE = Path(__file__).parent
KINDS = ("tables", "commands", "batches", "folders")
HANGS = 90
"""The seconds after which a case counts as hanging; an ordinary one takes a fraction of a second."""

MEMORY = 16 * 2**30
"""The bytes that a child process may reserve: a case that asks for more fails, instead of taking them from others."""


@dataclass
class Tally:
    """The number of cases of each kind and outcome, and the defects, as (kind, case, description)."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    defects: list[tuple[str, int, str]] = field(default_factory=list)

    def add(self, kind: str, case: int, outcome: str, description: str) -> None:
        self.counts[kind, outcome] += 1
        if outcome == "defect":
            self.defects.append((kind, case, description))

    def render(self, seed: int) -> str:
        """Return the counts, and the defects in groups of equal laws or equal exceptions at equal places."""
        lines = [f"{'kind':<10}{'cases':>8}{'accepted':>10}{'refused':>10}{'defects':>10}"]
        for kind in KINDS:
            accepted, refused, defects = (self.counts[kind, outcome] for outcome in ("accepted", "refused", "defect"))
            lines.append(f"{kind:<10}{accepted + refused + defects:>8}{accepted:>10}{refused:>10}{defects:>10}")
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


def work(kinds: list[str], seed: int, first: int, strict: bool) -> None:
    """Play cases of the kinds in turn until standard output is closed; write a line before and after each."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the package prints must not mix with the answers
    case = first
    while True:
        for kind in kinds:
            print(json.dumps([kind, case]), file=answers, flush=True)
            faulthandler.dump_traceback_later(HANGS, exit=True)
            outcome, description = play(kind, seed, case, strict)
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps([kind, case, outcome, description]), file=answers, flush=True)
        case += 1


def fuzz(kinds: Sequence[str], seed: int, seconds: float, strict: bool = False, progress: bool = False) -> Tally:
    """Return the tally of cases that are played for some seconds.

    Args:
        kinds: The kinds, which take turns.
        seed: The seed.
        seconds: How long new cases are begun.
        strict: Whether changed values in a run folder must be noticed.
        progress: Whether the counts so far are shown on standard error.
    """
    tally, first, end = Tally(), 0, time.monotonic() + seconds
    options = ["--work", *kinds, "--seed", str(seed), *(["--strict"] if strict else [])]
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
            first = _session([*options, "--case", str(first)], end, tally, progress, Path(folder))
    return tally


def _session(options: list[str], end: float, tally: Tally, progress: bool, folder: Path) -> int:
    """Play cases in one child process, whose files are in a folder, until it ends or the time is over.

    Returns:
        The next case.
    """
    errors = folder / "stderr"
    environment = {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
    command = [sys.executable, str(HERE / "run.py"), *options]
    with errors.open("wb") as stderr:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)
    assert child.stdout is not None
    open_case: tuple[str, int] | None = None
    waiting = selectors.DefaultSelector()
    waiting.register(child.stdout, selectors.EVENT_READ)
    first, shown = 0, 0.0
    try:
        while time.monotonic() < end:
            if not waiting.select(timeout=2 * HANGS):
                child.kill()
            line = child.stdout.readline()
            if not line:
                child.wait()
                text = errors.read_text(errors="replace")
                if open_case is None:
                    raise SystemExit(f"the child process did not start: {text[-1500:]}")
                last = text.rpartition("(most recent call first):")[2][:700] or text[-700:]
                tally.add(*open_case, "defect", f"the process ended with code {child.returncode} — {last}")
                return open_case[1] + 1
            kind, case, *result = json.loads(line)
            open_case = (kind, case) if not result else None
            if result:
                tally.add(kind, case, *result)
                first = case + 1
            if progress and time.monotonic() - shown > 0.5:
                shown = time.monotonic()
                print(f"\r{sum(tally.counts.values()):,} cases, {len(tally.defects)} defects", end="", file=sys.stderr)
    finally:
        child.kill()
        child.wait()
    if progress:
        print(file=sys.stderr)
    return first


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=KINDS, help="play cases of one kind")
    parser.add_argument("--case", type=int, help="play one case, and show its traceback")
    parser.add_argument("--strict", action="store_true", help="changed values in a run folder must be noticed")
    parser.add_argument("--work", nargs="+", choices=KINDS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work:
        work(chosen.work, chosen.seed, chosen.case, chosen.strict)
    kinds = [chosen.only] if chosen.only else list(KINDS)
    tally = Tally()
    if chosen.case is not None:
        for kind in kinds:
            outcome, description = play(kind, chosen.seed, chosen.case, chosen.strict)
            print(f"{kind} case {chosen.case}: {outcome} {description}")
            tally.add(kind, chosen.case, outcome, description)
        return bool(tally.defects)
    tally = fuzz(kinds, chosen.seed, 60 * chosen.minutes, chosen.strict, progress=sys.stderr.isatty())
    print(tally.render(chosen.seed))
    return bool(tally.defects)


if __name__ == "__main__":
    sys.exit(main())
