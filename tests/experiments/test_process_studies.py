"""The studies of stochastic processes: their linear head, the pair of balls of the picture, and the pictures."""

from __future__ import annotations

import math
from xml.dom import minidom

import numpy as np
import pytest
import torch
from experiments.command_line import Row
from experiments.cresp import sinusoids, snooker
from experiments.cresp.linear_head import regression
from experiments.cresp.processes import Snooker
from experiments.cresp.processes import snooker as pairs_of_balls
from experiments.line_chart import svg


@pytest.mark.parametrize("decay", [1e-6, 1e-3, 1.0])
def test_the_linear_head_equals_ridge_regression_in_closed_form(decay: float) -> None:
    rng = torch.Generator().manual_seed(0)
    z, y = torch.randn(200, 7, generator=rng) * torch.logspace(-2, 1, 7) + 3, torch.randn(200, 2, generator=rng)
    head = regression(z, y, decay)
    x, t = z.double() - z.double().mean(0), y.double() - y.double().mean(0)
    # the gradient of mean((x w - t)²) + decay · Σw², where the mean is over 400 elements
    weights = torch.linalg.solve(x.T @ x + decay * 400 * torch.eye(7), x.T @ t)
    assert torch.allclose(head.weight.T, weights, atol=1e-4, rtol=1e-3)
    assert torch.allclose(head(z.double()).mean(0), y.double().mean(0), atol=1e-6)


def test_the_ratio_of_errors_pairs_networks_of_one_seed() -> None:
    a, b = [(0.2, 0.2), (0.4, 0.4), (0.8, 0.8)], [(0.1, 0.1), (0.2, 0.2), (0.4, 0.4)]
    ratio = sinusoids._log_ratio(a, b)
    assert math.exp(ratio.mean) == pytest.approx(2)
    assert ratio.interval == pytest.approx(0, abs=1e-9)


def test_the_pair_of_the_picture_is_apart_at_both_ends_and_overlaps_for_half_of_the_time() -> None:
    test = pairs_of_balls(300, 1)
    row = snooker._crossing(test)
    shares = []
    for place in range(len(test)):
        one = test[[place]].sequences
        overlap = [bool(Snooker().overlap(one, torch.tensor([float(time)]))[0]) for time in snooker.TIMES]
        shares.append(math.nan if overlap[0] or overlap[-1] else sum(overlap) / len(overlap))
    best = int(np.nanargmin(np.abs(np.array(shares) - 0.5)))
    assert torch.equal(row.static["start"], test[[best]].sequences.static["start"])


def test_the_majority_label_is_right_for_the_larger_part_of_the_time() -> None:
    test = pairs_of_balls(20, 1)
    right = []
    for place in range(len(test)):
        one, times = test[[place]].sequences, torch.linspace(0, 1, 201)
        share = np.mean([bool(Snooker().overlap(one, time[None])[0]) for time in times])
        right.append(max(share, 1 - share))
    assert snooker.majority(test) == pytest.approx(np.mean(right), abs=1e-6)


def test_figures_have_a_line_for_each_method() -> None:
    rows: list[Row] = [
        {"distance": noise, "views": views, "embedding": name, "phase": 0.1, "± phase": 0.05, "amplitude": 0.2,
         "± amplitude": 0.05}
        for noise, views in sinusoids.SETTINGS
        for name in sinusoids.METHODS.values()
    ]  # fmt: skip
    picture = minidom.parseString(svg(sinusoids.panels(rows)))
    assert len(picture.getElementsByTagName("polyline")) == 2 * len(sinusoids.METHODS)
    assert len(picture.getElementsByTagName("polygon")) == 2 * len(sinusoids.METHODS)
