"""What each setting of CoLES changes, beside the defaults: the table of docs/how-to/what-to-set.md."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eventvec as ev
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.training.setup import settings
from eventvec.tuning.space import value_at, with_values
from experiments.command_line import Row, run
from experiments.worth.halves import Problem, problem

DATA_SETS = ("flights", "online_retail", "nafld")
SEEDS, EPOCHS = (1, 2, 3), 6
"""Other seeds than that of all trainings, which show what chance changes, and the epochs of the defaults."""
MODEL = "logistic_regression"
FACTORS: Mapping[str, tuple[float, float]] = {
    "encoder.dim": (1 / 4, 2), "fit.lr": (1 / 4, 4), "fit.batch_size": (1 / 4, 4), "fit.epochs": (1 / 2, 4),
    "method.views.longest": (1 / 4, 2), "method.views.count": (1 / 2, 2), "method.margin": (1 / 2, 2),
}  # fmt: skip
"""The settings whose defaults are multiplied, and by what."""
OTHERS: Mapping[str, Any] = {"encoder.name": "lstm", "encoder.read_out": ["last", "mean", "max"]}
BESIDE, SEED = "fit.beside", "fit.seed"
"""The parts beside what is learned, which can be left out without another training, and the seed."""


def effects(small: bool, keep: Path, only: str | None) -> list[Row]:
    """Each setting below and above its default, and other seeds: half of the entities, six epochs, seed 0 (AUROC)."""
    rows = []
    for name in [only] if only else DATA_SETS[: 1 if small else None]:
        of_half = problem(name, "choose", small)
        defaults, changes = _changes(of_half, small)
        cells = {
            at: _scores(of_half, change, keep / f"{name}-{at}{'-small' if small else ''}.npz")
            for at, change in changes.items()
        }
        rows += _compared(name, defaults, changes, cells)
    return rows


def _changes(of_half: Problem, small: bool) -> tuple[Row, dict[str, dict[str, Any]]]:
    """Return the defaults, and the settings of each training by its name, the defaults first."""
    config = settings(of_half.data.sequences, {"method": {"name": "coles"}})
    known = {"fit.lr": ev.FitOptions.lr, "fit.epochs": 1 if small else EPOCHS, SEED: 0}
    defaults = {name: known.get(name, value_at(config, name)) for name in (*FACTORS, *OTHERS, BESIDE, SEED)}
    changes: dict[str, dict[str, Any]] = {"defaults": {}}
    for name, factors in list(FACTORS.items())[: 1 if small else None]:
        for factor in factors:
            value = type(defaults[name])(defaults[name] * factor)
            changes[f"{name}={value:g}"] = {name: value}
    if not small:
        changes |= {f"{name}={i}": {name: value} for i, (name, value) in enumerate(OTHERS.items())}
        changes |= {f"{SEED}={seed}": {SEED: seed} for seed in SEEDS}
    base = {"fit.epochs": defaults["fit.epochs"], SEED: 0}
    return defaults, {at: {**base, **change} for at, change in changes.items()}


def _scores(of_half: Problem, change: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return the scores of the whole vector and of the learned part alone, from the folder if they are there."""
    if not file.exists():
        torch.set_num_threads(1)
        start = time.perf_counter()
        trained = ev.fit(of_half.data, method=with_values({"method": {"name": "coles"}}, change))
        z = trained.embed(of_half.data)
        measured: dict[str, Any] = {"steps": trained.steps, "seconds": trained.seconds}
        for part, columns in {"whole": slice(None), "learned": slice(*z.parts["learned"])}.items():
            main = _main(z.values[of_half.rows][:, columns], of_half.y)
            measured |= {part: main.values, f"{part} again": main.replicates}
        print(
            f"{file.stem}: {time.perf_counter() - start:.0f} s, {measured['steps']} steps", file=sys.stderr, flush=True
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        part_file = file.with_suffix(".part.npz")
        np.savez(part_file, **measured)
        part_file.rename(file)
    stored = np.load(file)
    scores = {part: Scores(tuple(stored[part].tolist()), stored[f"{part} again"]) for part in ("whole", "learned")}
    return {**scores, "steps": int(stored["steps"])}


def _main(vectors: Array, labels: Array) -> Scores:
    """Return the scores of five folds, which are the same for all vectors of a data set."""
    options: dict[str, Any] = {"models": [MODEL], "num_threads": 1}
    return ev.score_features({"embedding": vectors}, labels, **options).basis.get("embedding", MODEL).main


def _compared(
    name: str, defaults: Row, changes: Mapping[str, Mapping[str, Any]], cells: Mapping[str, Mapping[str, Any]]
) -> list[Row]:
    """Return the scores of the defaults, and a row for each other value with its differences from them."""

    def row(setting: str, default: Any, value: Any, whole: Scores, learned: Scores, steps: int) -> Row:
        return {
            "data": name, "setting": setting, "default": default, "tried": value, "effect": whole.mean,
            "±": whole.interval, "learned part": learned.mean, "± learned": learned.interval, "steps": steps,
        }  # fmt: skip

    base = cells["defaults"]
    rows = [row("defaults", None, None, base["whole"], base["learned"], base["steps"])]
    for at, change in changes.items():
        for setting in [each for each in change if change[each] != changes["defaults"].get(each)]:
            whole, learned = (cells[at][part] - base[part] for part in ("whole", "learned"))
            rows.append(row(setting, defaults[setting], change[setting], whole, learned, cells[at]["steps"]))
    without = base["learned"] - base["whole"]
    return [*rows, row(BESIDE, defaults[BESIDE], [], without, without, base["steps"])]


def main() -> None:
    """Run the table that the command line names."""
    run(
        "settings",
        {"effects": effects},
        keep={"type": Path, "default": Path("settings-runs"), "help": "the folder of scores; a killed run resumes"},
        only={"choices": DATA_SETS, "help": "one data set"},
    )


if __name__ == "__main__":
    main()
