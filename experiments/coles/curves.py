"""What more steps are worth: one trajectory per network and seed, read at several numbers of steps.

The learning rate is constant, so that every reading is a training that ended there. A trajectory is never chosen by a
score: nothing stops early, and all readings are printed. Predictions are kept, so a killed run goes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eventvec as ev
from eventvec import models
from eventvec.config import Table, build_method
from eventvec.embedding import choose_device
from eventvec.learners.metrics import measure
from eventvec.learners.resampled_scores import replicates
from eventvec.learners.single_learners import Samples, predict
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.resampling import resample
from experiments.coles import study as studies
from experiments.coles.boosting_settings import lightgbm_settings
from experiments.coles.label_training import scores, train_on_labels, with_label
from experiments.coles.study import Study
from experiments.command_line import Row
from experiments.differences import Paired, of_one_model, paired

READ = (350, 1_400, 5_600)
"""The numbers of steps at which a trajectory is read."""
FROZEN, TUNED, SCRATCH, SLOW = "coles", "coles, fine-tuned", "from scratch", "from scratch, encoder at the tuned rate"
WIDER = "coles, more entities"
"""CoLES that also learned from entities of other sets, at the steps of the tables."""


def readings(small: bool) -> tuple[int, ...]:
    """Return the numbers of steps."""
    return (2, 4) if small else READ


def train_frozen(name: str, keep: Path, small: bool, seed: int) -> None:
    """Train CoLES, and keep the embeddings of all entities at each reading."""
    study = studies.kept(name, keep, small)
    files = {steps: study.keep / f"curve-coles-{seed}-{steps}.npy" for steps in readings(small)}
    if all(file.exists() for file in files.values()):
        return
    torch.manual_seed(seed)
    tables = study.tables("coles")
    method = build_method(tables, study.data.schema).to(choose_device("auto"))
    rows = study.data[torch.from_numpy(study.trained_on())]
    embed = partial(ev.encode, method.encoder, study.data.sequences)
    options = {**tables["fit"], **_constant(tables["fit"], len(rows), files)}
    ev.fit(rows, method=method, seed=seed, progress=_reader(files, embed), **options)


def train_labels(name: str, keep: Path, small: bool, network: str, seed: int) -> None:
    """Train a network on all labels outside the test set, and keep its predictions of the test set at each reading."""
    study = studies.kept(name, keep, small)
    files = {steps: _predictions(study, network, seed, steps) for steps in readings(small)}
    if all(file.exists() for file in files.values()):
        return
    labelled = with_label(study.data, *_training_part(study), len(study.split.target.classes))
    settings = {**study.config["fine_tuning"], **(studies.SMALL["fit"] if small else {})}
    if network == TUNED:
        encoder = models.load(study.run("coles", seed)).encoder
    else:
        encoder = study.new_encoder({}, labelled.schema, seed)
    if network == SCRATCH:
        settings.pop("encoder_lr", None)
    bounds = {"validation": 0, **_constant({**settings, "validation": 0}, len(labelled), files)}
    test, device = study.data[torch.from_numpy(study.split.test)], choose_device("auto")
    train_on_labels(
        encoder.to(device), labelled, settings, bounds, seed,
        progress=lambda method: _reader(files, lambda: torch.from_numpy(scores(method, test))),
    )  # fmt: skip


def rows(study: Study, wider: Study | None, seeds: Sequence[int]) -> list[Row]:
    """Return a row per network and reading: AUROC on the test set, and the lead of CoLES at the same steps over it."""
    networks = (SCRATCH, SLOW, TUNED)
    of_study = study.name, study.keep.parent, study.small
    study.side_by_side(train_frozen, [(*of_study, seed) for seed in seeds])
    study.train(["coles"], seeds)
    study.side_by_side(train_labels, [(*of_study, network, seed) for network, seed in product(networks, seeds)])
    scored: dict[tuple[str, int], list[Scores]] = {}
    for steps in readings(study.small):
        files = [study.keep / f"curve-coles-{seed}-{steps}.npy" for seed in seeds]
        scored[FROZEN, steps] = [_score(study, _boosted(study, np.load(file))) for file in files]
        for network in networks:
            scored[network, steps] = [
                _score(study, np.load(_predictions(study, network, seed, steps))) for seed in seeds
            ]
    table_steps = study.steps("coles") or 0
    scored["coles, as in the tables", table_steps] = [
        _score(study, _boosted(study, study.raw("coles", seed))) for seed in seeds
    ]
    if wider:
        wider.train(["coles"], seeds)
        scored[WIDER, wider.steps("coles") or 0] = [
            _score(wider, _boosted(wider, wider.raw("coles", seed))) for seed in seeds
        ]
    for name, features in study.opponents([0]).items():
        scored[name, 0] = [_score(study, _boosted(study, features[0]))]
    return [_row(study, scored, network, steps) for network, steps in scored]


def _row(study: Study, scored: dict[tuple[str, int], list[Scores]], network: str, steps: int) -> Row:
    frozen = scored.get((FROZEN, steps), scored["coles, as in the tables", study.steps("coles") or 0])
    ours, lead = Paired(tuple(scored[network, steps])), paired(frozen, scored[network, steps])
    return {
        "data": study.name, "network": network, "steps": steps, "seeds": len(ours.runs), "ours": ours.mean,
        "±": ours.interval, "coles ahead": lead.mean, "ahead ±": lead.interval, "clear": lead.clear,
        "of the seeds": " ".join(f"{run.mean:.3f}" for run in ours.runs),
    }  # fmt: skip


def _training_part(study: Study) -> tuple[Array, Array]:
    """Return the labelled rows outside the test set, and their labels."""
    chosen = np.sort(np.concatenate(study.split.folds[0]))
    return chosen, study.split.labels(chosen)


def _boosted(study: Study, features: Array) -> Array:
    """Return the predictions of the test set by boosted trees that learn from all other labels."""
    settings = "small" if study.small else study.config["data"].get("boosting")
    train, y = _training_part(study)
    task, classes = study.split.target.task, len(study.split.target.classes)
    boosting = lightgbm_settings(settings) if settings else None
    return predict(
        Samples(task, classes, features[train], y, features[study.split.test], study.split.seed, 1, boosting),
        "lightgbm",
    )


def _score(study: Study, predicted: Array) -> Scores:
    """Return the score on the test set."""
    task, truth = study.split.target.task, study.split.labels(study.split.test)
    again = replicates(task, truth, predicted, resample(len(truth), None, seed=study.split.seed))[:, 0]
    return of_one_model(float(measure(task, truth, predicted)[0]), again)


def _constant(fit: Table, n: int, files: dict[int, Path]) -> Table:
    """Return options of `fit` for at least as many steps as the last reading, at a constant rate."""
    per_epoch = max(1, math.floor((1 - fit.get("validation", 0.05)) * n / fit.get("batch_size", 64)))
    return {"epochs": math.ceil(max(files) / per_epoch), "schedule": "constant", "keep": "last"}


def _reader(files: dict[int, Path], read: Any) -> Any:
    """Return a function for `fit(progress=...)` that keeps what is read after each of some steps."""

    def progress(record: dict[str, Any]) -> None:
        file = files.get(record["step"])
        if file and record["validation"] is None and not file.exists():
            studies.save(file, read().numpy())

    return progress


def _predictions(study: Study, network: str, seed: int, steps: int) -> Path:
    return study.keep / f"curve-{network.replace(', ', '-').replace(' ', '-')}-{seed}-{steps}.npy"
