"""Sinusoids: how well are a function's phase and amplitude read from its embedding? Figure 2 of Mathieu et al. 2021."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

import eventvec as ev
from eventvec.encoders.points import PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import CNP, CReSP, acnp, cnp, fclr
from eventvec.statistics import Scores
from experiments.command_line import Row
from experiments.cresp.linear_head import STEPS, regression
from experiments.cresp.processes import Sinusoids, draw, sinusoids
from experiments.jobs import side_by_side
from experiments.line_chart import Axis, Line, Panel

TEST_VIEW = 20  # observations of a function that is embedded
DISTANCES, VIEWS = (0.0, 2.0, 8.0), (2, 10, 50)
SETTINGS = (*((noise, 10) for noise in DISTANCES), (2.0, 2), (2.0, 50))
METHODS = {"untrained": "untrained", "fclr": "FCLR", "cnp": "CNP", "acnp": "ACNP", "cresp": "CReSP"}
PAPER = {  # what Section 5.1 says of Figure 2, which has no printed values
    (0.0, "acnp"): "best", (8.0, "acnp"): "unable", (2.0, "fclr"): "orders of magnitude worse"
}  # fmt: skip


def study(small: bool) -> tuple[list[Row], list[Panel]]:
    """Mean squared error of phase and amplitude, linear in the embedding, by distance of modes and number of views."""
    settings, seeds = (((2.0, 10),), (0, 1)) if small else (SETTINGS, (0, 1, 2))
    jobs = [(method, *setting, seed, small) for setting in settings for method in METHODS for seed in seeds]
    jobs.sort(key=lambda job: -job[2])  # the long ones first
    errors = dict(zip(jobs, side_by_side(errors_of, jobs), strict=True))
    rows = []
    for noise, views in settings:
        runs = {name: [errors[name, noise, views, seed, small] for seed in seeds] for name in METHODS}
        for name, values in runs.items():
            phase, amplitude, raw = (Scores(tuple(value[part] for value in values)) for part in range(3))
            ratio = _log_ratio(values, runs["cresp"])
            low, high = ratio.mean - ratio.interval, ratio.mean + ratio.interval
            rows.append(
                {
                    "distance": noise, "views": views, "embedding": METHODS[name],
                    "phase": phase.mean, "± phase": phase.interval,
                    "amplitude": amplitude.mean, "± amplitude": amplitude.interval, "code's head": raw.mean,
                    "paper": PAPER.get((noise, name), "") if views == 10 else "",
                    "of CReSP": math.exp(ratio.mean), "from": math.exp(low), "to": math.exp(high),
                }
            )  # fmt: skip
    return rows, panels(rows)


def errors_of(name: str, noise: float, views: int, seed: int, small: bool) -> tuple[float, float, float]:
    """Return the mean squared errors of phase and amplitude for one network, and the mean error of the code's head.

    The linear head is trained by L-BFGS on the embeddings of the training functions, standardised, with a decay of
    1e-6. The head of the public code reads them as they are, with a decay of .001, and so depends on their scale.

    Args:
        name: Of the method, or `untrained`.
        noise: The distance between the modes.
        views: Observations of a function in training: two halves for CReSP and FCLR, a context and one target else.
        seed: Of the functions, the network and its training; the test functions are others for each seed.
        small: Whether to do a fraction of the work.
    """
    size, tested, epochs, steps = (128, 50, 1, 10) if small else (5000, 1000, 60, STEPS)
    training, test = sinusoids(size, 2 * seed), sinusoids(tested, 2 * seed + 1)
    torch.manual_seed(seed)
    method = _method(name, noise, views)
    if name != "untrained":
        ev.fit(training, method=method, epochs=epochs, batch_size=256, lr=0.001, weight_decay=1e-6, seed=seed)
    process = Sinusoids(count=1, length=TEST_VIEW, noise=noise)
    z = [ev.encode(method.encoder, draw(data, process, seed).sequences) for data in (training, test)]
    y = [_parameters(data) for data in (training, test)]
    mean, deviation = z[0].mean(0), z[0].std(0).clamp(min=1e-9)
    scaled = [(each - mean) / deviation for each in z]
    phase, amplitude = _errors(scaled, y, 1e-6, steps)
    return phase, amplitude, sum(_errors(z, y, 1e-3, steps)) / 2


def panels(rows: list[Row]) -> list[Panel]:
    """Return Figures 2b and 2c: the mean error of both parameters by distance of modes, and by number of views.

    A band is the mean of both intervals, which is at least as wide as the interval of the mean.
    """
    error = Axis("mean squared error", (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3), log=True)
    return [
        _panel([row for row in rows if row["views"] == 10], "distance", Axis("distance between the modes", DISTANCES),
               error, "Figure 2b: 10 views in training"),
        _panel([row for row in rows if row["distance"] == 2], "views", Axis("views in training", VIEWS, log=True),
               error, "Figure 2c: distance 2"),
    ]  # fmt: skip


def _panel(rows: list[Row], column: str, x: Axis, y: Axis, title: str) -> Panel:
    lines = []
    for name in METHODS.values():
        by_x = sorted((row for row in rows if row["embedding"] == name), key=lambda row: float(row[column]))
        points = [(row[column], (row["phase"] + row["amplitude"]) / 2) for row in by_x]
        lines.append(Line(name, points, [(row["± phase"] + row["± amplitude"]) / 2 for row in by_x]))
    return Panel(title, x, y, lines)


def _method(name: str, noise: float, views: int) -> CReSP | CNP:
    """Return a method of width 64, with two layers of self-attention unless it is FCLR or CNP."""
    encoder = SetEncoder(PointEncoder(), dim=64, layers=0 if name in ("fclr", "cnp") else 2)
    if name in ("cnp", "acnp"):
        return (cnp if name == "cnp" else acnp)(encoder, Sinusoids(count=1, length=views, noise=noise))
    halves = Sinusoids(count=2, length=views // 2, noise=noise)
    return fclr(encoder, halves) if name == "fclr" else CReSP(encoder, halves)


def _errors(z: Sequence[Tensor], y: Sequence[Tensor], decay: float, steps: int) -> tuple[float, float]:
    """Return the mean squared test errors of phase and amplitude."""
    head = regression(z[0], y[0], decay, steps)
    phase, amplitude = (head(z[1].double()) - y[1]).square().mean(0).tolist()
    return phase, amplitude


def _parameters(data: ev.Dataset) -> Tensor:
    return torch.stack([torch.as_tensor(data.sequences.static[name]) for name in ("phase", "amplitude")], 1)


def _log_ratio(errors: Sequence[tuple[float, ...]], reference: Sequence[tuple[float, ...]]) -> Scores:
    """Return the logarithms of the ratio of mean errors of both parameters, network by network with equal seeds."""
    pairs = zip(errors, reference, strict=True)
    return Scores(tuple(math.log((a[0] + a[1]) / (b[0] + b[1])) for a, b in pairs))
