"""The vectors of a candidate on one half of a data set, trained once and kept in a folder."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eventvec as ev
from eventvec.config import Table
from eventvec.sequences import Array
from experiments.worth.candidates import method, tables
from experiments.worth.halves import Half, problem

BESIDE = ("timing", "aggregates")


@dataclass(frozen=True, eq=False)
class Vectors:
    """What a candidate gives for the labelled entities of a half.

    Args:
        learned: `(n, dim)` the learned part.
        joined: `(n, d)` the learned part with timing and aggregates beside it.
        about: The steps, seconds and epochs of the training, and what ended it.
    """

    learned: Array
    joined: Array
    about: dict[str, Any]


def vectors(
    name: str, half: Half, candidate: str, seed: int, bound: Table, threads: int, keep: Path, small: bool
) -> Vectors:
    """Return the vectors of a candidate; from the folder, if they are kept there already.

    Args:
        name: The data set.
        half: The half of its entities on which the candidate is trained.
        candidate: A name in `CANDIDATES`.
        seed: The seed of the training.
        bound: `time_budget` or `epochs` of the training; the default bound if empty.
        threads: The number of threads of the training.
        keep: The folder.
        small: Whether there are few entities and one epoch.
    """
    bound = {"epochs": 1} if small else bound
    until = " ".join(f"{option}={value}" for option, value in bound.items()) or "default"
    file = keep / f"{name}-{half}-{candidate}-{seed}-{until}{'-small' if small else ''}.npz"
    if not file.exists():
        torch.set_num_threads(threads)
        of_half = problem(name, half, small)
        config = tables(candidate, of_half.data.sequences)
        fit = {**config.pop("fit"), "seed": seed, "beside": BESIDE, **bound}
        run = ev.fit(of_half.data, method=method(candidate, config, of_half.data, seed), **fit)
        z = run.embed(of_half.data)
        about = {
            "steps": run.steps, "seconds": round(run.seconds), "epochs": len(run.history), "stopped": run.stopped,
            "threads": threads,
        }  # fmt: skip
        print(f"{name}, {candidate}, seed {seed}: {about}", file=sys.stderr, flush=True)
        labelled, learned = z.values[of_half.rows], slice(*z.parts["learned"])
        keep.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part.npz")
        np.savez(part, learned=labelled[:, learned], joined=labelled, about=json.dumps(about))
        part.rename(file)
    stored = np.load(file)
    return Vectors(stored["learned"], stored["joined"], json.loads(str(stored["about"])))
