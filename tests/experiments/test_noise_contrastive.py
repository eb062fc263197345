"""MetaCDE with fake samples: the loss by a loop, where fakes are drawn from, what it learns, and what is read."""

from __future__ import annotations

import math

import pytest
import torch
from experiments.cresp import noise_contrastive
from experiments.cresp.noise_contrastive import FAKES, PLACES, SPREAD, NoiseContrastive, fakes
from experiments.cresp.processes import Sinusoids, draw, sinusoids

import eventvec as ev
from eventvec.encoders import KernelMean, Numbers, PointEncoder
from eventvec.views import hold_out
from laws import rng


def method(width: int, distance: float = 2.0) -> NoiseContrastive:
    torch.manual_seed(0)
    views = Sinusoids(count=1, length=6, noise=distance)
    return NoiseContrastive(KernelMean(PointEncoder(Numbers(1, width=width)), softmax=False), views)


def test_the_loss_is_the_cross_entropy_of_real_against_fake_targets() -> None:
    ours = method(8).eval()
    with torch.no_grad():
        ours.bias.fill_(0.3)
    x = sinusoids(7).sequences
    loss, generator = ours.loss(x, rng()), rng()
    context = hold_out(ours.views(x, generator)[0])
    drawn, total = fakes(torch.as_tensor(context.static["y*"]), generator), 0.0
    mean, observe = ours.encoder.at(context, context.static["x*"]), ours.encoder.events.observation
    for row in range(7):
        for place, y in enumerate([context.static["y*"][row], *drawn[row]]):
            density_ratio = math.exp((mean[row] @ observe(y[None])[0]).item() + 0.3)
            real = density_ratio / (density_ratio + FAKES)
            total -= math.log(real if place == 0 else 1 - real)
    assert loss.item() == pytest.approx(total / 7, rel=1e-4)
    loss.backward()
    assert ours.bias.grad is not None


def test_fakes_are_targets_of_other_rows_with_noise() -> None:
    real = torch.tensor([[0.0], [100.0], [200.0]])
    drawn = fakes(real, rng())
    assert drawn.shape == (3, FAKES, 1)
    many = torch.cat([fakes(real, torch.Generator().manual_seed(seed)) for seed in range(300)], 1)[:, :, 0]
    deviation = SPREAD * 100
    for row in range(3):
        others = [place for place in range(3) if place != row]
        nearest = (many[row][:, None] - real[others, 0]).abs()
        assert bool((nearest.min(1).values < 6 * deviation).all())
        shares = torch.bincount(nearest.argmin(1), minlength=2) / many.shape[1]
        assert shares.tolist() == pytest.approx([0.5, 0.5], abs=0.05)
        residual = (many[row][:, None] - real[others, 0]).gather(1, nearest.argmin(1, keepdim=True))
        assert residual.std().item() == pytest.approx(deviation, rel=0.05)


def test_it_learns_more_than_the_share_of_fakes() -> None:
    ours = method(32, distance=0.0)
    ev.fit(sinusoids(1000, seed=9), method=ours, epochs=12, batch_size=50, lr=0.01, validation=0.0)
    chance = math.log(1 + FAKES) + FAKES * math.log(1 + 1 / FAKES)  # the loss of s = 0
    with torch.no_grad():
        assert ours.eval().loss(sinusoids(640, seed=5).sequences, rng()).item() < 0.9 * chance


def test_predictions_at_places_are_those_at_each_place_alone() -> None:
    for name in ("fakes", "cresp"):
        torch.manual_seed(0)
        model = noise_contrastive.build(name).eval()
        context = hold_out(draw(sinusoids(4), Sinusoids(count=1, length=6), 0).sequences)
        found = noise_contrastive.predictions(model, context).unflatten(1, (len(PLACES), -1))
        for place, x in enumerate(PLACES):
            context.static["x*"] = torch.full((4, 1), float(x))
            with torch.no_grad():
                torch.testing.assert_close(found[:, place], model.predictor(context), rtol=1e-4, atol=1e-5)


def test_the_value_at_x_is_that_of_the_function_without_noise() -> None:
    context = hold_out(draw(sinusoids(50), Sinusoids(count=1, length=3, noise=0.0), 0).sequences)
    torch.testing.assert_close(noise_contrastive.value_at(context), torch.as_tensor(context.static["y*"])[:, 0])
    noisy = hold_out(draw(sinusoids(50), Sinusoids(count=1, length=3, noise=2.0), 0).sequences)
    difference = torch.as_tensor(noisy.static["y*"])[:, 0] - noise_contrastive.value_at(noisy)
    assert sorted(set(difference.round(decimals=3).abs().tolist())) == [0.0, 2.0]
