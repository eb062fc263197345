"""A process for one side of a comparison, which prepares tasks, measures their seconds and answers over a pipe.

Only the side with a request runs and the other one waits, so that both can be compared round by round. It imports the
standard library only.
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

Task = Callable[[int], float]
"""A function of the number of runs that returns the seconds per run."""

ROOT = Path(__file__).resolve().parents[2]
POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


def repeated(run: Callable[[], object]) -> Task:
    """Return a task that calls the same function in each run."""

    def task(runs: int) -> float:
        start = time.perf_counter()
        for _ in range(runs):
            run()
        return (time.perf_counter() - start) / runs

    return task


class Worker:
    """One side in a process of its own.

    Args:
        side: `ours` or `theirs`, a module beside this one.
        python: the interpreter of that side's environment.
        threads: size of every thread pool that can be set; the 16 threads of pytorch-lifestream's preprocessing cannot.
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
        """Return the seconds per run of a task; its preparation, at the first request, is not measured."""
        return float(self._reply({"task": name, "runs": runs, "options": options}))

    def answer(self, name: str, **options: Any) -> Any:
        """Return the result of a function that is not measured."""
        return self._reply({"answer": name, "options": options})

    def _reply(self, request: dict[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.side} ended at {request} (exit code {self.process.wait()})")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"{self.side} failed at {request}:\n{reply['error']}")
        return reply["value"]


def serve(tasks: Mapping[str, Callable[..., Task]], answers: Mapping[str, Callable[..., Any]]) -> None:
    """Answer the requests of a `Worker` until its pipe closes. Output of the libraries goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    prepared: dict[str, Task] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "answer" in request:
                value = answers[request["answer"]](**request["options"])
            else:
                key = json.dumps([request["task"], request["options"]], sort_keys=True)
                if key not in prepared:
                    prepared[key] = tasks[request["task"]](**request["options"])
                value = prepared[key](request["runs"])
            reply = {"value": value}
        except Exception:
            reply = {"error": traceback.format_exc()}
        print(json.dumps(reply), file=out, flush=True)
