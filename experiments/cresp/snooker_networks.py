"""Networks of the snooker study: trained on pairs of balls, asked whether they overlap at x*, and kept in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import eventvec as ev
from eventvec import files
from eventvec.embedding import choose_device
from eventvec.encoders.at_places import KernelMean
from eventvec.encoders.heads import GatedHead, Head, PlainHead, SigmoidHead
from eventvec.encoders.points import Numbers, PointEncoder, points_of
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import CNP, CReSP, MetaCDE, TargetedCReSP, covariate_use
from eventvec.methods.cresp_targeted import Prediction
from eventvec.methods.permuted_covariates import CovariateUse
from eventvec.sequences import Array, Sequences
from eventvec.training.fit_options import OptimizerName
from eventvec.views import hold_out
from experiments.cresp.pictures import Images, PictureDecoder, ResNet18
from experiments.cresp.processes import Observations, Snooker, draw, snooker

HeadName: TypeAlias = Literal["gated", "sigmoid", "plain"]
PictureNetwork: TypeAlias = Literal["convolutions", "resnet18"]
HEADS: Mapping[HeadName, Head] = {"gated": GatedHead(), "sigmoid": SigmoidHead(), "plain": PlainHead()}
"""Target heads of CReSP: ours, and two of the public code."""
LOOKS = 5  # of a context in training
PAIRS = 3000
TRAINING, TEST, CHOOSING, MANY = 0, 1, 2, 3  # the seeds of the pairs of balls
TIMES = torch.linspace(0, 1, 41)  # of the curve
CONTEXTS, FEW_CONTEXTS = 50, 3  # of the curve, and of a small one
STEPS = 1_452
WIDTH, WARMUP = 128, 50
RATES: Mapping[OptimizerName, float] = {"adam": 0.002, "lars": 4.0}
WEIGHT_DECAY: Mapping[OptimizerName, float] = {"adam": 0.0, "lars": 1e-6}
SECONDS = 150.0
"""The most seconds that ResNet-18 is trained; on a GPU that other trainings share, it may not take all steps."""
HELD_OUT = 0.05  # of the training pairs, for a validation loss by which nothing is chosen


@dataclass(frozen=True)
class Probe:
    """What a trained network is asked: logistic regression on its features says whether the balls overlap at x*.

    Args:
        looks: At each pair of balls, in learning and in the test; the target is another look.
        pairs: From which the logistic regression learns.
        seed: Of these pairs.
    """

    looks: int
    pairs: int = PAIRS
    seed: int = TRAINING


PROBES: Mapping[Observations, tuple[Probe, ...]] = {
    "positions": (Probe(LOOKS), Probe(9), Probe(9, 15_000, MANY)),
    "pictures": (Probe(LOOKS), Probe(9)),
}
"""The paper trains with contexts of 5. Its public code tests with 10 looks, one of which is the target, and learns from
15,000 pairs, whose pictures would take 1.4 GB here."""


@dataclass(frozen=True)
class Arm:
    """One network.

    Args:
        name: Of the method: cresp, metacde, cnp, fclr or supervised.
        observations: What is observed.
        layers: Blocks of self-attention; those of cnp are ACNP, and those of fclr untargeted CReSP.
        batch: Pairs of balls in a step.
        seed: Of the network and its training.
        head: The target head of cresp.
        network: What represents pictures: three convolutions of width 16, or ResNet-18, with which all else has its
            width, 512.
        optimizer: Of the training.
    """

    name: str
    observations: Observations
    layers: int
    batch: int
    seed: int = 0
    head: HeadName = "gated"
    network: PictureNetwork = "convolutions"
    optimizer: OptimizerName = "adam"

    @property
    def cell(self) -> Arm:
        """What the networks of all seeds share."""
        return replace(self, seed=0)

    def __str__(self) -> str:
        """Return the settings, which name the file of what the network showed."""
        default = Arm(self.name, self.observations, self.layers, self.batch)
        names = [name for name in ("network", "optimizer", "head") if getattr(self, name) != getattr(default, name)]
        other = "".join(f"-{getattr(self, name)}" for name in names)
        return f"{self.observations}-{self.name}-layers{self.layers}-batch{self.batch}-seed{self.seed}{other}"


@dataclass(frozen=True)
class Outcome:
    """What one network showed.

    Args:
        test: `(probes, pairs)` bool, whether the answer for each test pair is right, by `PROBES`.
        choosing: `(probes, pairs)` bool, the same for pairs that are in neither set, by which a batch size is chosen.
        use: Whether the prediction uses x*, None for methods without a contrastive loss at x*.
        curve: `(contexts, times)` the probability of overlap for one pair of balls, empty for untargeted methods.
        training: The steps, the seconds that they took, and the device.
    """

    test: Array
    choosing: Array
    use: CovariateUse | None
    curve: Array
    training: Mapping[str, Any] = field(default_factory=dict)


class Overlap(nn.Module):
    """A network that learns from labels whether the balls overlap at x*: what a network of this size can know.

    Args:
        encoder: Of the context.
        views: Draws looks; the first is the target.
    """

    def __init__(self, encoder: SetEncoder, views: Snooker) -> None:
        super().__init__()
        self.encoder, self.views = encoder, views
        self.head = GatedHead().build(encoder.dim, points_of(encoder).covariate_dim, 1)

    @property
    def predictor(self) -> Prediction:
        """An encoder of rows from `hold_out` that returns the logit of an overlap at x*."""
        return Prediction(self.encoder, self.head, 1).train(self.training)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of whether the balls overlap at x*, over the rows of a batch."""
        context = hold_out(self.views(batch, rng)[0])
        truth = self.views.overlap(context, torch.as_tensor(context.static["x*"])[:, 0])
        return F.binary_cross_entropy_with_logits(self.predictor(context)[:, 0], truth.float())

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows that looks can be drawn from."""
        return self.views.usable(x)


AT_PLACES = (TargetedCReSP, MetaCDE, Overlap)
"""Methods whose representation depends on x*."""


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
        start = process_time()
        result = _trained(arm, small)
        about = {**asdict(arm), **result.training, "CPU seconds": round(process_time() - start)}
        use = "" if result.use is None else json.dumps(asdict(result.use))
        with files.whole(file) as draft, draft.open("wb") as written:
            np.savez(written, test=result.test, choosing=result.choosing, curve=result.curve, use=use,
                     about=json.dumps(about))  # fmt: skip
    with np.load(file) as kept:
        use = CovariateUse(**json.loads(text)) if (text := str(kept["use"])) else None
        return Outcome(kept["test"], kept["choosing"], use, kept["curve"], json.loads(str(kept["about"])))


@cache
def pairs(small: bool, seed: int, n: int = PAIRS) -> ev.Dataset:
    """Return n pairs of balls, or one for each 250 of them."""
    return snooker(n // 250 if small else n, seed)


def epochs(batch: int) -> int:
    """Return the epochs of `STEPS` steps, the same for all batch sizes that divide alike."""
    return round(STEPS / (int((1 - HELD_OUT) * len(pairs(False, TRAINING))) // batch))


def build(arm: Arm, small: bool = False) -> Any:
    """Return the method of an arm, untrained; if `small`, ResNet-18 has two channels in its first stage."""
    torch.manual_seed(arm.seed)
    pictures = arm.observations == "pictures"
    if arm.network == "resnet18":
        points = PointEncoder(ResNet18(width=2 if small else 64))
    else:
        points = PointEncoder(Images(dim=WIDTH) if pictures else Numbers(4, width=WIDTH))
    views = Snooker(count=1, length=LOOKS + 1, observations=arm.observations)
    if arm.name == "metacde":
        return MetaCDE(KernelMean(points), views)
    encoder = SetEncoder(points, dim=points.observation_dim, layers=arm.layers, pair="gated")
    if arm.name == "cresp":
        return TargetedCReSP(encoder, views, target_head=HEADS[arm.head])
    if arm.name == "supervised":
        return Overlap(encoder, views)
    if arm.name == "cnp":
        return CNP(encoder, views, PictureDecoder(width=32) if pictures else PlainHead())
    return CReSP(encoder, Snooker(count=2, length=(LOOKS + 1) // 2, observations=arm.observations))


def crossing(test: ev.Dataset) -> Sequences:
    """Return the first test pair that is apart at both ends and overlaps for half of the time, or the nearest to it."""
    x = test.sequences
    rows = torch.arange(len(x)).repeat_interleave(len(TIMES))
    overlap = Snooker().overlap(x[rows], TIMES.repeat(len(x))).view(len(x), -1)
    crosses = ~overlap[:, 0] & ~overlap[:, -1]
    distance = (overlap.float().mean(1) - 0.5).abs()
    return x[torch.where(crosses, distance, 1.0).argmin()[None]]


def _trained(arm: Arm, small: bool) -> Outcome:
    """Return what a network showed: each probe learns from one draw of each pair."""
    training, test, choosing = (pairs(small, seed) for seed in (TRAINING, TEST, CHOOSING))
    contexts = FEW_CONTEXTS if small else CONTEXTS
    method = build(arm, small)
    run = ev.fit(
        training, method=method, epochs=1 if small else epochs(arm.batch), batch_size=arm.batch,
        lr=RATES[arm.optimizer],
        optimizer=arm.optimizer, weight_decay=WEIGHT_DECAY[arm.optimizer], warmup=WARMUP, validation=HELD_OUT,
        keep="last", seed=arm.seed, device="auto", time_budget=SECONDS if arm.network == "resnet18" else None,
    )  # fmt: skip
    place, last = choose_device("auto"), run.history[-1]
    kind = torch.cuda.get_device_name(place) if place.type == "cuda" else place.type
    models = {
        probe: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(
            *_features(method, pairs(small, probe.seed, probe.pairs), arm.observations, probe.looks, probe.seed)
        )
        for probe in PROBES[arm.observations]
    }

    def right(data: ev.Dataset, seed: int) -> Array:
        asked = {probe: _features(method, data, arm.observations, probe.looks, seed) for probe in models}
        return np.array([model.predict(asked[probe][0]) == asked[probe][1] for probe, model in models.items()])

    use, curve = None, np.empty((0, len(TIMES)))
    if isinstance(method, TargetedCReSP | MetaCDE):
        use = covariate_use(method, choosing.sequences.to(place), torch.Generator(place).manual_seed(0))
    if isinstance(method, AT_PLACES):
        curve = _curve(method, models[Probe(LOOKS)], test, arm.observations, contexts)
    about = {"steps": last["step"], "seconds": last["seconds"], "device": kind}
    return Outcome(right(test, TEST), right(choosing, CHOOSING), use, curve, about)


def contexts_of(data: ev.Dataset, observations: Observations, looks: int, seed: int) -> Sequences:
    """Return looks at each pair of balls, and another one as the target (`x*` and `y*`)."""
    return hold_out(draw(data, Snooker(count=1, length=looks + 1, observations=observations), seed).sequences)


def _features(method: Any, data: ev.Dataset, observations: Observations, looks: int, seed: int) -> tuple[Array, Array]:
    """Return features of a context and a time, and whether the balls overlap then.

    They are the prediction at x* for methods that make one, and the context's embedding together with x* for others.
    """
    context = contexts_of(data, observations, looks, seed)
    time = context.static["x*"]
    assert isinstance(time, Tensor)
    return _representation(method, context), Snooker().overlap(context, time[:, 0]).numpy()


def _representation(method: Any, context: Sequences) -> Array:
    if isinstance(method, AT_PLACES):
        return ev.encode(method.predictor, context, events_per_batch=4096).numpy()
    time = torch.as_tensor(context.static["x*"])
    return torch.cat([ev.encode(method.encoder, context, events_per_batch=4096), time], 1).numpy()


def _curve(method: Any, model: Pipeline, test: ev.Dataset, observations: Observations, n: int) -> Array:
    """Return `(n, times)` the predicted probability of overlap for the pair of balls of `crossing`, from n contexts."""
    row = crossing(test)
    process = Snooker(count=1, length=LOOKS, observations=observations)
    contexts = process(row[torch.zeros(n).long()], torch.Generator().manual_seed(0))[0]
    each = contexts[torch.arange(n).repeat_interleave(len(TIMES))]
    places = replace(each, static={**each.static, "x*": TIMES.repeat(n)[:, None]})
    return np.asarray(model.predict_proba(_representation(method, places))[:, 1]).reshape(n, len(TIMES))
