"""MetaCDE by noise contrast with fake samples, as Ton et al. 2021 train it, beside the InfoNCE form of CReSP's code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import eventvec as ev
from eventvec.dataset import Dataset
from eventvec.encoders.at_places import KernelMean
from eventvec.encoders.interface import evaluating
from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import MetaCDE, TargetedCReSP
from eventvec.methods.cresp_targeted import Prediction
from eventvec.sequences import Sequences
from eventvec.statistics import Scores
from eventvec.statistics.estimates import Estimate
from eventvec.views import hold_out
from experiments.command_line import Row
from experiments.cresp.linear_head import STEPS, regression
from experiments.cresp.processes import PERIOD, Sinusoids, draw, sinusoids
from experiments.jobs import side_by_side

METHODS = {
    "untrained": ("untrained", False), "cresp": ("targeted CReSP", False), "info_nce": ("MetaCDE, InfoNCE", True),
    "info_nce_linear": ("MetaCDE, InfoNCE", False), "fakes": ("MetaCDE, fake samples", True),
    "fakes_linear": ("MetaCDE, fake samples", False),
}  # fmt: skip
"""The name of each method, and whether a softmax follows the weights of its kernel mean."""
DISTANCE, VIEWS, WIDTH = 2.0, 10, 64
CONTEXT = 20  # observations of a test function
PLACES = torch.linspace(-4.5, 4.5, 10)
"""Where predictions are read that together represent a function."""
FAKES, SPREAD = 10, 0.1
"""The fake targets of each real one, and the deviation of their noise, as a share of that of the batch's targets."""


class NoiseContrastive(nn.Module):
    """A kernel mean at x* that tells the real target of a row from fake ones, by binary classification.

    ``-log σ(s(y*) - log κ) - Σ log σ(log κ - s(y'))`` over κ fake targets y', with ``s(y) = ĉ · g_obs(y) + b``. At the
    optimum, s is the logarithm of the density of y at x*, over that of fakes. These are drawn from a kernel density
    estimate of the batch's targets: one of another row, plus noise.

    Args:
        encoder: Whose observation net also represents targets.
        views: One view per row, whose first event is the target.
    """

    compares_rows = True

    def __init__(self, encoder: KernelMean, views: Sinusoids) -> None:
        super().__init__()
        self.encoder, self.views, self.bias = encoder, views, nn.Parameter(torch.zeros(()))

    @property
    def predictor(self) -> Prediction:
        """An encoder of rows from `hold_out` that returns ĉ for each target."""
        return Prediction(self.encoder, lambda mean, covariate: mean, self.encoder.dim).train(self.training)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean over rows of the loss of one real target and its fakes."""
        context = hold_out(self.views(batch, rng)[0])
        real = torch.as_tensor(context.static["y*"])
        targets = torch.cat([real[:, None], fakes(real, rng)], 1)
        features = self.encoder.events.observation(targets.flatten(0, 1)).unflatten(0, targets.shape[:2])
        scores = torch.einsum("nd,nkd->nk", self.predictor(context), features) + self.bias
        logits = scores - math.log(FAKES)
        return (F.softplus(-logits[:, 0]) + F.softplus(logits[:, 1:]).sum(1)).mean()

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows that observations can be drawn from."""
        return self.views.usable(x)


def fakes(real: Tensor, rng: torch.Generator) -> Tensor:
    """Return `(n, FAKES, d)` fake targets of each row: real ones `(n, d)` of other rows, with normal noise."""
    n, device = len(real), real.device
    shift = torch.randint(1, n, (n, FAKES), generator=rng, device=device)
    other = real[(torch.arange(n, device=device)[:, None] + shift) % n]
    noise = torch.randn(other.shape, generator=rng, device=device)
    return other + SPREAD * real.std(0) * noise


def metacde(small: bool) -> list[Row]:
    """Mean squared error of a function's value at x*, and of its parameters, linear in predictions at places."""
    seeds = (0, 1) if small else (0, 1, 2)
    jobs = [(name, seed, small) for name in METHODS for seed in seeds]
    errors = dict(zip(jobs, side_by_side(errors_of, jobs), strict=True))
    runs = {name: [errors[name, seed, small] for seed in seeds] for name in METHODS}
    return [_row(name, runs) for name in METHODS]


def errors_of(name: str, seed: int, small: bool) -> tuple[float, float, float]:
    """Return the mean squared errors of the value at x*, the phase and the amplitude for one network.

    All heads are linear, trained on standardised predictions for the training functions: one at x* for the value, and
    those at ten places, side by side, for the parameters.

    Args:
        name: Of the method.
        seed: Of the functions, the network and its training; the test functions are others for each seed.
        small: Whether to do a fraction of the work.
    """
    size, tested, epochs, steps = (128, 50, 1, 10) if small else (5000, 1000, 60, STEPS)
    training, test = sinusoids(size, 2 * seed), sinusoids(tested, 2 * seed + 1)
    torch.manual_seed(seed)
    method = build(name)
    if name != "untrained":
        ev.fit(training, method=method, epochs=epochs, batch_size=256, lr=0.001, weight_decay=1e-6, seed=seed)
    at_place, everywhere = [], []
    for data in (training, test):
        context = hold_out(draw(data, Sinusoids(count=1, length=CONTEXT + 1, noise=DISTANCE), seed).sequences)
        at_place.append((ev.encode(method.predictor, context), value_at(context)[:, None]))
        everywhere.append((predictions(method, context), _parameters(data)))
    (value,) = _errors(at_place, steps)
    phase, amplitude = _errors(everywhere, steps)
    return value, phase, amplitude


def build(name: str) -> Any:
    """Return a method of width 64 without self-attention, untrained; all have the same network of observations."""
    points, views = PointEncoder(Numbers(1, width=WIDTH)), Sinusoids(count=1, length=VIEWS, noise=DISTANCE)
    if name == "cresp":
        return TargetedCReSP(SetEncoder(points, dim=WIDTH, layers=0), views)
    encoder = KernelMean(points, softmax=METHODS[name][1])
    return NoiseContrastive(encoder, views) if name.startswith("fakes") else MetaCDE(encoder, views)


def value_at(context: Sequences) -> Tensor:
    """Return `(n,)` the value of each function at its x*, without the distance of modes."""
    place = torch.as_tensor(context.static["x*"])[:, 0]
    phase, amplitude = (torch.as_tensor(context.static[name]).flatten() for name in ("phase", "amplitude"))
    return amplitude * (place * (2 * math.pi / PERIOD) + phase).sin()


def predictions(method: Any, context: Sequences) -> Tensor:
    """Return `(n, places * dim)` the predictions at each of `PLACES`, side by side."""
    static = {name: values for name, values in context.static.items() if name not in ("x*", "y*", "targets")}
    found = []
    with evaluating(method), torch.no_grad():
        for rows in torch.arange(len(context)).split(500):
            count = torch.full_like(rows, len(PLACES))
            columns = {"x": PLACES.repeat(len(rows))[:, None]}
            targets = Sequences(columns, count.cumsum(0) - count, count)
            block = context[rows]
            block = replace(block, static={**{name: static[name][rows] for name in static}, "targets": targets})
            found.append(method.predictor(block).unflatten(0, (len(rows), -1)).flatten(1))
    return torch.cat(found)


def _errors(parts: Sequence[tuple[Tensor, Tensor]], steps: int) -> list[float]:
    """Return the mean squared test error of each target of a linear head, from training and test parts."""
    (x, y), (test, truth) = parts
    mean, deviation = x.mean(0), x.std(0).clamp(min=1e-9)
    head = regression((x - mean) / deviation, y, 1e-6, steps)
    errors: list[float] = (head(((test - mean) / deviation).double()) - truth).square().mean(0).tolist()
    return errors


def _parameters(data: Dataset) -> Tensor:
    return torch.stack([torch.as_tensor(data.sequences.static[name]).flatten() for name in ("phase", "amplitude")], 1)


def _row(name: str, runs: dict[str, list[tuple[float, float, float]]]) -> Row:
    """Return the errors of a method; the first also less that of MetaCDE as in CReSP's code, network by network."""
    value, phase, amplitude = (Scores(tuple(part)) for part in zip(*runs[name], strict=True))
    ahead = Scores(tuple(a[0] - b[0] for a, b in zip(runs[name], runs["info_nce"], strict=True)))
    title, softmax = METHODS[name]
    return {
        "method": title, "softmax": softmax, "value at x*": value.mean, "± value": value.interval,
        "to InfoNCE": "" if name == "info_nce" else str(Estimate.around(ahead.mean, ahead.interval, signed=True)),
        "phase": phase.mean, "± phase": phase.interval, "amplitude": amplitude.mean, "± amplitude": amplitude.interval,
    }  # fmt: skip
