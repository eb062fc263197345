"""Commands that are killed at any moment: no input changes, no output is half-written, and the next call completes.

`python tests/fuzz/kills.py --count 100` measures how long each command takes, and starts it again and again in a
process of its own. It sends SIGKILL after a random part of that time, or every second time as soon as a draft is
written. It checks what was left behind, and lets the same command run to its end. It prints a table; the exit code is
1 if a law is broken. With `--swept`, it is one of the laws that the second call deletes the drafts that the killed
one left.

The processes are forked from one that has imported eventvec and done nothing else, which saves seconds per kill.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

for _folder in (Path(__file__).parent, Path(__file__).parents[1]):
    sys.path.insert(0, str(_folder))

import processes  # noqa: E402

ROLES = ("--key", "id", "--time", "t")
FIT = ("--set", "encoder.dim=4", "--set", "fit.batch_size=4", "--set", "fit.checkpoint_every=1", "--epochs", "6")
CALLS = {
    "fit": ("--events", "events.parquet", *ROLES, "--method", "ocp", *FIT, "--out", "out", "--resume"),
    "embed": ("run", "events.parquet", "-o", "out"),
    "features": ("events.parquet", *ROLES, "-o", "out"),
    "update": ("run", "later.parquet", "--state", "state.db", "-o", "out"),
    "evaluate": (
        "z.parquet", "labels.parquet", "--label", "label", "--no-label-time", "--events", "events.parquet", "--folds",
        "2",
    ),
    "predict": ("tuned", "events.parquet", "-o", "out"),
    "surprise": ("judge", "events.parquet", "-o", "out"),
    "labels": ("events.parquet", *ROLES, "--every", "1d", "--horizon", "2d", "-o", "out"),
    "search": ("z.parquet", "--key", "secret-0003", "-o", "out"),
    "export": ("run", "-o", "out"),
    "report": ("run", "events.parquet", "-o", "out"),
    "compare": ("events.parquet", "labels.parquet", *ROLES, "--label", "label", "--methods", "ocp,rtd", "--models",
                "knn", "--folds", "2", "--epochs", "2", "--out", "out", "--resume"),
    "tune": ("events.parquet", "labels.parquet", *ROLES, "--label", "label", "--method", "ocp", "--setting",
             "encoder.dim=4", "--trials", "2", "--holdout", "0.4", "--folds", "2", "--epochs", "2", "--out", "out",
             "--resume"),
}  # fmt: skip
"""The arguments of each command, whose output, if it has one, is `out`."""


def command(folder: Path, arguments: list[str]) -> None:
    """Run a command in a folder; this is what a process does."""
    from eventvec.cli import app

    os.chdir(folder)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    app(arguments)


def kill(folder: Path, arguments: list[str], delay: float, draft: int) -> bool:
    """Start a command, kill it, and return whether it was still running.

    Args:
        folder: Where it runs.
        arguments: The command.
        delay: The seconds after which it is killed.
        draft: The number of the draft at whose sight it is killed instead; with 0, after the delay.
    """
    process = processes.start(command, folder, arguments)
    if draft:
        seen = set[str]()
        while process.exitcode is None and len(seen) < draft:
            for place in (folder, folder / "out"):
                with suppress(OSError):
                    seen.update(name for name in os.listdir(place) if name.endswith(".draft"))
    else:
        process.join(delay)
    running = process.exitcode is None
    if running:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return running and process.exitcode == -signal.SIGKILL


def seconds(folder: Path, arguments: list[str]) -> float:
    """Return the seconds that a command takes in a process of its own."""
    start = time.monotonic()
    code = processes.exit_code(command, folder, arguments)
    if code:
        raise SystemExit(f"{' '.join(arguments)} ended with exit code {code}")
    return time.monotonic() - start


def content(name: str, folder: Path) -> Any:
    """Return what the output of a command holds, to be compared; None if it is absent.

    Raises:
        Exception: Of any kind, if the output is not whole.
    """
    import onnx
    import polars as pl

    import eventvec as ev

    out = folder / "out"
    if not out.exists():
        return None
    if name == "fit":
        return _trained(out)
    if name in ("compare", "tune"):
        if (out / "plan.json").exists():
            json.loads((out / "plan.json").read_text())
        arms = [_trained(arm) for arm in sorted(out.iterdir()) if arm.is_dir()]
        return arms if len(arms) == 2 and None not in arms else None
    if name == "export":
        onnx.checker.check_model(onnx.load(out))
        return out.read_bytes()
    if name == "report":
        page = out.read_text()
        if not page.rstrip().endswith("</html>"):
            raise ValueError("the page is not whole")
        return len(page)
    if name in ("predict", "surprise", "search", "labels"):
        return pl.read_parquet(out).rows()
    z = ev.read_embeddings(out)
    return z.keys.to_pylist(), z.values.round(5).tolist(), z.events.tolist()


def _trained(folder: Path) -> Any:
    """Return the weights and the number of steps of a run; None if it has not finished, after a check of its files."""
    from safetensors.torch import load_file

    import eventvec as ev
    from eventvec.models import model_files

    if not (folder / "model.json").exists():
        return None
    if not model_files.read_info(folder)["finished"]:
        if (folder / "checkpoint.safetensors").exists():
            load_file(folder / "checkpoint.safetensors")
        return None
    run = ev.load(folder)
    return {part: tensor.tolist() for part, tensor in run.method.state_dict().items()}, run.steps


def check(
    name: str, folder: Path, before: dict[str, str], expected: Any, invoke: Callable[[], Any], swept: bool
) -> Counter[str]:
    """Return what a killed command left behind, in counts, after a check of the laws.

    Args:
        name: The command.
        folder: The folder in which it worked.
        before: The files before it.
        expected: The output of a command that was not killed.
        invoke: Runs the command to its end in this process.
        swept: Whether the second call must delete drafts.
    """
    from outcomes import require, snapshot

    import eventvec as ev

    def changed() -> list[str]:
        after = snapshot(folder)
        names = {each for each in before.keys() | after.keys() if before.get(each) != after.get(each)}
        store = {f"state.db{end}" for end in ("", "-wal", "-shm")} if name == "update" else set()
        return sorted(each for each in names - store if not each.startswith("out") and not each.endswith(".draft"))

    def drafts() -> int:
        return len(list(folder.rglob("*.draft")))

    require(not changed(), "files changed that are no output", changed())
    try:
        left = content(name, folder)
    except Exception as error:
        require(False, "the output is half-written", repr(error))
    require(left is None or left == expected, "the output of a killed command is another")
    counts = Counter({"output whole": left is not None, "drafts": drafts() > 0})
    if name == "update":
        run = ev.load(folder / "run")
        again = ev.update(run, folder / "later.parquet", folder / "state.db").embeddings
        rows = again.keys.to_pylist(), again.values.round(5).tolist(), again.events.tolist()
        require(rows == expected, "the batch given again has other rows")
    result = invoke()
    require(result.exit_code == 0, "the second call fails", result.output)
    require(content(name, folder) == expected, "the second call has another result")
    require(not changed(), "the second call changed files that are no output", changed())
    counts["drafts after the second call"] = drafts() > 0
    require(not swept or not drafts(), "drafts are left after the second call")
    return counts


def kills(count: int, seed: int = 0, swept: bool = False, progress: bool = False) -> tuple[list[str], list[str]]:
    """Return the lines of a table of counts per command, and the broken laws.

    Args:
        count: The number of kills of each command.
        seed: The seed of the delays.
        swept: Whether the second call must delete the drafts of the killed one.
        progress: Whether to show the number of kills on standard error.
    """
    import torch
    import workplace
    from outcomes import snapshot
    from typer.testing import CliRunner

    from eventvec.cli import app

    torch.set_num_threads(1)
    columns = ("seconds", "killed", "output whole", "drafts", "drafts after the second call", "broken")
    lines, broken, rng = (
        [f"{'command':<10}" + "".join(f"{name:>{len(name) + 2}}" for name in columns)],
        [],
        Random(seed),
    )
    for name, options in CALLS.items():
        arguments, counts = [name, *options], Counter[str]()

        def fresh(place: Path) -> dict[str, str]:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(workplace.master(), place, symlinks=True)
            return snapshot(place)

        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            place = Path(folder) / "work"

            def invoke(place: Path = place, arguments: list[str] = arguments) -> Any:
                start = os.getcwd()
                os.chdir(place)
                try:
                    return CliRunner().invoke(app, arguments)
                finally:
                    os.chdir(start)

            fresh(place)
            seconds(place, arguments)
            fresh(place)
            duration = seconds(place, arguments)
            expected = content(name, place)
            for number in range(count):
                before, delay = fresh(place), rng.uniform(0, duration)
                draft = rng.randint(1, 8 if name == "fit" else 1) if number % 2 and "out" in arguments else 0
                counts["killed"] += kill(place, arguments, delay, draft)
                try:
                    counts += check(name, place, before, expected, invoke, swept)
                except Exception as error:
                    counts["broken"] += 1
                    when = f"at draft {draft}" if draft else f"after {delay:.3f} s"
                    broken.append(f"{name}, kill {number} {when} of {duration:.3f} s: {error!r}"[:500])
                if progress:
                    print(f"\r{name}: {number + 1} kills   ", end="", file=sys.stderr)
        values = [f"{duration:.2f}", *[str(counts[column]) for column in columns[1:]]]
        lines.append(f"{name:<10}" + "".join(f"{v:>{len(c) + 2}}" for v, c in zip(values, columns, strict=True)))
    return lines, broken


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="number of kills of each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--swept", action="store_true", help="drafts must be gone after the second call")
    chosen = parser.parse_args()
    lines, broken = kills(chosen.count, chosen.seed, chosen.swept, progress=sys.stderr.isatty())
    print("\n".join([*lines, *broken]))
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
