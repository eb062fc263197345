"""Networks of the study of intensive-care stays: trained, asked for values and deaths, and kept in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import polars as pl
import torch
from torch import Tensor

import eventvec as ev
from eventvec import files
from eventvec.embedding import choose_device
from eventvec.encoders.at_places import CrossAttention
from eventvec.encoders.heads import GatedHead, PlainHead
from eventvec.encoders.points import Numbers, PointEncoder, points_of
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import CNP, CovariateUse, CReSP, TargetedCReSP, covariate_use
from eventvec.predicting.grids import encode_targets
from eventvec.tables.prediction_places import read_places
from eventvec.views import ShuffledParts
from eventvec.views.draws import integers, shuffled_order
from experiments.command_line import print_epoch
from experiments.cresp import icu_deaths, icu_stays
from experiments.cresp.icu_stays import FEWEST, Array, Task

SEED = 0  # of stays, tasks and bootstraps
STAYS, SMALL_STAYS = (3000, 700, 1500), (16, 14, 14)
UNTRAINED = "untrained"
EPOCHS, WARMUP = 40, 100


@dataclass(frozen=True)
class Settings:
    """The sizes of a method.

    Args:
        covariates: The columns of the covariate.
        dim: The size of the embedding.
        layers: The blocks of self-attention of methods that have it.
        head: The network on context and x* of neural processes.
        targets: The targets of each row of a neural process, and of targeted CReSP.
        length: The events of a training view with its targets, or of both views of untargeted methods.
        later: The share of training rows whose targets are later than the context.
    """

    covariates: tuple[str, ...] = ("hours", "parameter")
    dim: int = 128
    layers: int = 2
    head: PlainHead | GatedHead = field(default_factory=PlainHead)
    targets: tuple[int, int] = (16, 4)
    length: int = 144
    later: float = 0.5


SETTINGS = {
    "targeted": Settings(), "acnp": Settings(head=GatedHead()), "cresp": Settings(), "acnp_cross": Settings(),
    "cnp": Settings(head=GatedHead()), "fclr": Settings(), UNTRAINED: Settings(),
}  # fmt: skip
"""The sizes of each method, those first that take longest."""


@dataclass(frozen=True)
class Arm:
    """One network.

    Args:
        name: Of the method.
        lr: The highest learning rate; 0 for the untrained one.
        epochs: The passes over the training stays, equally many for all methods; 0 for the untrained one.
        seed: Of the network and its training.
    """

    name: str
    lr: float
    epochs: int = EPOCHS
    seed: int = 0

    def __str__(self) -> str:
        """Return the settings, which name the file of what the network showed."""
        return f"stays-{self.name}-rate{self.lr:g}-epochs{self.epochs}-seed{self.seed}"


@dataclass(frozen=True)
class CutStays:
    """Views of stays for targeted methods: targets first, and then a context, both in random order.

    For a share of the rows, the targets are later than the context in the order of events: a random number of a row's
    last events may be targets, and the others the context. For all other rows, both are random events.

    Args:
        length: The most events of a view.
        targets: The events of a view that are targets.
        later: The share of rows whose targets are later.
    """

    length: int
    targets: int
    later: float
    count: ClassVar[int] = 1

    def usable(self, x: ev.Sequences) -> Tensor:
        """Return `(n,)` bool: the rows with enough events."""
        return x.lengths >= self.targets + FEWEST

    def __call__(self, batch: ev.Sequences, rng: torch.Generator) -> tuple[ev.Sequences, Tensor]:
        """Return `(views, source)`, one view of each row."""
        row, n = batch.rows(), batch.lengths
        later = torch.rand(len(batch), generator=rng, device=batch.device) < self.later
        late = self.targets + integers(n - self.targets - FEWEST + 1, rng)  # how many events may be targets
        random = shuffled_order(row, rng)
        eligible = (batch.steps() >= (n - late)[row])[random] | ~later[row]
        order = random[(2 * row + (~eligible).long()).argsort(stable=True)]
        first = torch.where(later, late, self.targets)[row]  # the place of the first context event
        step = batch.steps()
        selected = (step < self.targets) | ((step >= first) & (step < first + self.length - self.targets))
        lengths = torch.zeros_like(n).index_add(0, row, selected.long())
        return batch.take(batch.flat()[order[selected]], lengths), torch.arange(len(batch), device=batch.device)


@dataclass(frozen=True)
class Outcome:
    """What one network showed.

    Args:
        moments: `(targets, 2)` the predicted means and deviations of test targets, by task; none but for neural
            processes.
        validation: The errors on validation stays by task and measure, and the AUROC of death, by which a rate is
            chosen.
        deaths: `(stays,)` what models on the embedding predict for test stays, by model.
        use: Whether the prediction uses x*, of targeted CReSP only.
        training: The steps, the seconds that they took, and the device.
    """

    moments: Mapping[str, Array]
    validation: Mapping[str, float]
    deaths: Mapping[str, Array]
    use: CovariateUse | None
    training: Mapping[str, Any]


def outcome(arm: Arm, small: bool, keep: Path) -> Outcome:
    """Return what a network showed, which is trained once and kept in a folder.

    Args:
        arm: The network.
        small: Whether to do a fraction of the work.
        keep: The folder.
    """
    file = keep / f"{arm}{'-small' * small}.npz"
    if not file.exists():
        keep.mkdir(parents=True, exist_ok=True)
        result = _trained(arm, small)
        arrays = {f"{kind}-{name}": values.astype(np.float32)
                  for kind, parts in (("moments", result.moments), ("deaths", result.deaths))
                  for name, values in parts.items()}  # fmt: skip
        about = {"arm": asdict(arm), "training": result.training, "validation": result.validation,
                 "use": result.use and asdict(result.use)}  # fmt: skip
        with files.whole(file) as draft, draft.open("wb") as written:
            np.savez(written, about=json.dumps(about), **arrays)
    with np.load(file) as kept:
        about = json.loads(str(kept["about"]))
        parts = {kind: {name.removeprefix(f"{kind}-"): kept[name] for name in kept if name.startswith(f"{kind}-")}
                 for kind in ("moments", "deaths")}  # fmt: skip
    use = CovariateUse(**about["use"]) if about["use"] else None
    return Outcome(parts["moments"], about["validation"], parts["deaths"], use, about["training"])


@cache
def load(small: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the events and the stays of the study, or of a small one."""
    return icu_stays.load(*(SMALL_STAYS if small else STAYS), SEED)


@cache
def tasks(small: bool) -> tuple[Task, Task]:
    """Return interpolation and forecasting, with all stays."""
    events, _ = load(small)
    return icu_stays.interpolation(events, SEED), icu_stays.forecasting(events, SEED)


def _trained(arm: Arm, small: bool) -> Outcome:
    """Return what a method showed that was trained on the training stays, or was not trained."""
    events, stays = load(small)
    data = icu_stays.dataset(events.filter(part="training").drop("part"))
    settings = replace(SETTINGS[arm.name], dim=32, layers=1, length=32) if small else SETTINGS[arm.name]
    place = choose_device("auto")
    method, training = build(arm, data.schema, settings).to(place), {"steps": 0, "seconds": 0.0}
    if arm.epochs:
        run = ev.fit(
            data, method=method, epochs=arm.epochs, batch_size=64, lr=arm.lr, warmup=WARMUP, clip=1.0,
            validation=0.0, seed=arm.seed, progress=print_epoch,
        )  # fmt: skip
        training = {"steps": run.history[-1]["step"], "seconds": run.history[-1]["seconds"]}
    moments, validation = dict[str, Array](), dict[str, float]()
    if isinstance(method, CNP):
        for task in tasks(small):
            moments[task.name] = predicted(method, task.part("test"), data.schema)
            held_out = task.part("validation")
            of_values = values_errors(held_out, predicted(method, held_out, data.schema))
            validation |= {f"{task.name} {name}": float(each.mean()) for name, each in of_values.items()}
    use = None
    if isinstance(method, TargetedCReSP):
        unseen = icu_stays.dataset(events.filter(part="test").drop("part"), data.schema).sequences.to(place)
        use = covariate_use(method, unseen, torch.Generator(place).manual_seed(SEED))
    every = icu_stays.dataset(events.drop("part"), data.schema)
    embedding = ev.encode(method.encoder, every.sequences, events_per_batch=8192).numpy()
    deaths, validation["death auroc"] = icu_deaths.predictions(embedding, stays, SEED)
    kind = torch.cuda.get_device_name(place) if place.type == "cuda" else place.type
    return Outcome(moments, validation, deaths, use, {**training, "device": kind})


def values_errors(task: Task, moments: Array) -> dict[str, Array]:
    """Return `(targets,)` the squared error and the negative log-likelihood of normal distributions, by name."""
    truth = task.targets["value"].to_numpy().astype(float)
    mean, deviation = moments.astype(float).T
    nll = np.square((truth - mean) / deviation) / 2 + np.log(deviation) + np.log(2 * np.pi) / 2
    return {"squared error": np.square(truth - mean), "nll": nll}


def build(arm: Arm, schema: ev.schema.Schema, settings: Settings) -> Any:
    """Return a method before training."""
    torch.manual_seed(arm.seed)
    name = arm.name
    numbers = Numbers(1, width=settings.dim) if name == "targeted" else None
    points = PointEncoder(numbers, schema=schema, covariates=settings.covariates, observations=("value",))
    layers = 0 if name in ("cnp", "fclr", "acnp_cross") else settings.layers
    encoder = (CrossAttention if name == "acnp_cross" else SetEncoder)(points, settings.dim, layers)
    if name in ("cresp", "fclr", UNTRAINED):
        return CReSP(encoder, ShuffledParts(2, longest=settings.length // 2))
    targets = settings.targets[name == "targeted"]
    views = cast(ShuffledParts, CutStays(settings.length, targets, settings.later))
    if name == "targeted":
        return TargetedCReSP(encoder, views, targets=targets)
    return CNP(encoder, views, settings.head, targets=targets)


def predicted(method: CNP, task: Task, schema: ev.schema.Schema) -> Array:
    """Return `(targets, 2)` the mean and the standard deviation that a neural process predicts for each target."""
    data = icu_stays.dataset(task.context.drop("part"), schema)
    covariates = points_of(method.encoder).covariates
    at = task.targets.drop("part", "value")
    places = read_places(data, at, covariates, None)
    return encode_targets(method, data.sequences, places.rows, places.values).numpy()
