"""A process that holds one side of a comparison: it prepares works, times them inside, and answers over a pipe.

The side that is asked runs, the other one waits, so that both can be compared round by round. Standard library alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Work = Callable[[int], float]
"""Called with how many runs, returns seconds per run."""

ROOT = Path(__file__).resolve().parents[2]
POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


def repeated(run: Callable[[], object]) -> Work:
    """Return a work that does the same each run."""

    def work(runs: int) -> float:
        begun = time.perf_counter()
        for _ in range(runs):
            run()
        return (time.perf_counter() - begun) / runs

    return work


class Worker:
    """One side in a process of its own, with so many threads.

    Args:
        side: `ours` or `theirs`, a module beside this one.
        python: the interpreter of that side's environment.
        threads: of every pool that takes a number; the 16 that pytorch-lifestream's preprocessing starts do not.
    """

    def __init__(self, side: str, python: Path, threads: int) -> None:
        env = {**os.environ, **dict.fromkeys(POOLS, str(threads)), "PYTHONWARNINGS": "ignore"}
        self.side, self.process = side, subprocess.Popen(
            [python, "-m", f"benchmarks.peer.{side}"],
            cwd=ROOT, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def seconds(self, name: str, runs: int = 1, **options: Any) -> float:
        """Return the seconds per run of a work, which is prepared when it is first asked for, outside of the time."""
        return float(self._ask({"work": name, "runs": runs, "options": options}))

    def answer(self, name: str, **options: Any) -> Any:
        """Return what a function says that is no work."""
        return self._ask({"answer": name, "options": options})

    def _ask(self, asked: dict[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.side} ended at {asked} (exit code {self.process.wait()})")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"{self.side} failed at {asked}:\n{reply['error']}")
        return reply["value"]


def serve(works: Mapping[str, Callable[..., Work]], answers: Mapping[str, Callable[..., Any]]) -> None:
    """Answer what a `Worker` asks, until it stops asking. What the libraries print goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ready: dict[str, Work] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "answer" in asked:
                value = answers[asked["answer"]](**asked["options"])
            else:
                name = json.dumps([asked["work"], asked["options"]], sort_keys=True)
                if name not in ready:
                    ready[name] = works[asked["work"]](**asked["options"])
                value = ready[name](asked["runs"])
            reply = {"value": value}
        except Exception:
            reply = {"error": traceback.format_exc()}
        print(json.dumps(reply), file=out, flush=True)
