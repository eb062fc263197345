"""The methods of the study, their settings, and their trainings, which are kept in a folder."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import nn

import eventvec as ev
from eventvec import losses
from eventvec.encoders import GRU, EventEncoder, ResidualNetwork, TemporalConvolution
from eventvec.methods import CoLES, ExpCLR, ExpertTriplets, Siamese, Supervised, TS2Vec
from eventvec.sequences import Array
from eventvec.views import Perturbed, RandomSlices
from eventvec.views.sizes import slice_bounds
from experiments.expclr.problems import LABEL, Problem, Variant, problem

Vectors: TypeAlias = dict[str, Any]
"""`training (n, d)`, `test (m, d)` and `about`, the steps and the seconds of the training."""
BATCH_SIZE = 64
STEPS = {"hapt": 920, "electric_devices": 920, "icu": 490}
"""The number of steps of a training if its arm names none, rounded to whole passes over the training part: 7 to 13."""
LAYERS, WIDTH = 5, 32  # of the temporal convolution, whose receptive field is 125 steps
RESIDUAL_WIDTH, STATE = 16, 64
FEATURES, UNTRAINED = "the features alone", "untrained encoder"
READ_LABELS = ("supervised", "labels only", "semi-supervised")
"""The methods that read the labels of the training part."""


@dataclass(frozen=True)
class Arm:
    """A method with its settings.

    Args:
        method: A name in `METHODS`, or `FEATURES` or `UNTRAINED`.
        lr: The highest learning rate.
        encoder: `tcn`, `resnet` or `gru`.
        options: Further options of the method.
        steps: The number of steps, that of the data set by default.
    """

    method: str
    lr: float = 0.005
    encoder: str = "tcn"
    options: dict[str, Any] = field(default_factory=dict)
    steps: int | None = None

    def __str__(self) -> str:
        """Return the method and what it is trained with."""
        options = [f"{name}={value}" for name, value in self.options.items()]
        return ", ".join([f"{self.method}: {self.encoder}", f"lr={self.lr:g}", *options])


def _expclr(encoder: Any, of: Problem, **options: Any) -> nn.Module:
    return ExpCLR(encoder, of.training.schema, of.features, **options)


def _simclr(encoder: Any, of: Problem, temperature: float = 0.5, **views: Any) -> nn.Module:
    return Siamese(encoder, Perturbed(of.training.schema, **views), losses.NTXent(temperature=temperature))


def _coles(encoder: Any, of: Problem) -> nn.Module:
    shortest, longest = slice_bounds(of.training.sequences)
    return CoLES(encoder, RandomSlices(shortest=max(shortest // 2, 1), longest=longest, count=4))


METHODS: dict[str, Callable[..., nn.Module]] = {
    "ExpCLR": _expclr,
    "quadratic loss": lambda encoder, of, **options: _expclr(encoder, of, temperature=math.inf, **options),
    "labels only": lambda encoder, of, **options: ExpCLR(encoder, of.training.schema, (LABEL,), **options),
    "semi-supervised": lambda encoder, of, **options: _expclr(encoder, of, label=LABEL, **options),
    "feature decoding": lambda encoder, of: Supervised(encoder, of.training.schema, of.features),
    "triplets": lambda encoder, of, **options: ExpertTriplets(encoder, of.training.schema, of.features, **options),
    "SimCLR": _simclr,
    "TS2Vec": lambda encoder, of: TS2Vec(encoder),
    "CoLES": _coles,
    "supervised": lambda encoder, of: Supervised(encoder, of.training.schema, LABEL),
}


def vectors(arm: Arm, variant: Variant, seed: int, keep: Path) -> Vectors:
    """Return `training (n, d)`, `test (m, d)` and `about`, trained once and kept in a folder.

    Args:
        arm: The method.
        variant: The problem.
        seed: The seed of the initial weights and of the training.
        keep: The folder.
    """
    file = keep / f"{file_name(arm, variant)} seed {seed}.npz"
    if not file.exists():
        of, start = problem(variant), perf_counter()
        training, test, steps = _trained(arm, of, variant, seed)
        about = {"steps": steps, "seconds": round(perf_counter() - start), "arm": str(arm)}
        print(f"{file.stem}: {about}", file=sys.stderr, flush=True)
        keep.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{seed}.part.npz")
        np.savez(part, training=training, test=test, about=json.dumps(about))
        part.rename(file)
    stored = np.load(file)
    return {"training": stored["training"], "test": stored["test"], "about": json.loads(str(stored["about"]))}


def _trained(arm: Arm, of: Problem, variant: Variant, seed: int) -> tuple[Array, Array, int]:
    if arm.method == FEATURES:
        return _features(of, of.training), _features(of, of.test), 0
    torch.manual_seed(seed)
    encoder, steps = _encoder(arm.encoder, of.training.schema), 0
    if arm.method != UNTRAINED:
        method = cast(Any, METHODS[arm.method](encoder, of, **arm.options))
        usable = int(method.usable(of.training.sequences).sum())
        per_epoch = max(usable // BATCH_SIZE, 1)
        epochs = 1 if variant.small else round((arm.steps or STEPS[variant.name]) / per_epoch)
        run = ev.fit(
            of.training, method=method, epochs=epochs, batch_size=min(BATCH_SIZE, usable), lr=arm.lr, seed=seed,
            validation=0,
            beside=(),
        )  # fmt: skip
        encoder, steps = method.encoder, run.steps
    with torch.no_grad():
        training, test = (ev.encode(encoder, part.sequences).numpy() for part in (of.training, of.test))
    return training, test, steps


def _encoder(name: str, schema: ev.Schema) -> Any:
    if name == "gru":  # irregular events: the times between them are inputs
        return GRU(EventEncoder(schema), dim=STATE, read_out=("last", "mean", "max"))
    events = EventEncoder(schema, time=())
    if name == "resnet":
        return ResidualNetwork(events, width=RESIDUAL_WIDTH)
    return TemporalConvolution(events, layers=LAYERS, width=WIDTH)


def _features(of: Problem, part: ev.Dataset) -> Array:
    """Return the features as the schema standardises them, 0 (the mean) where missing."""
    expert = ExpCLR(_encoder("tcn", of.training.schema), of.training.schema, of.features).expert(part.sequences)
    return expert.nan_to_num(0.0).numpy()


def file_name(arm: Arm, variant: Variant) -> str:
    """Return the name of an arm's vectors on a problem, without what has no influence on the training."""
    reads = "labels" if arm.method in READ_LABELS else ""
    steps = f"{arm.steps or STEPS[variant.name]} steps"
    parts = [variant.name, steps, str(arm).replace(":", ""), variant.features, "noise" if variant.noise else ""]
    parts += [f"{variant.fraction:g} of {reads} {variant.seed}"] if reads else []
    parts += ["choosing" if variant.choosing else "", "small" if variant.small else ""]
    return " ".join(part for part in parts if part)
