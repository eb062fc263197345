"""The Gaussian likelihood, against scipy-free arithmetic and torch's distribution."""

from __future__ import annotations

import math

import pytest
import torch

from eventvec.errors import ConfigError
from eventvec.losses import Gaussian, gaussian_nll
from laws import rng


def test_the_loss_is_the_mean_over_all_elements():
    mean, raw, y = torch.randn(3, 5, 2, generator=rng())
    deviation = Gaussian(0.1).deviation(raw)
    expected = -torch.distributions.Normal(mean, deviation).log_prob(y).mean()
    torch.testing.assert_close(gaussian_nll(mean, deviation, y), expected)
    torch.testing.assert_close(deviation, 0.1 + (1 + raw.exp()).log())


def test_the_gradient_is_that_of_differences():
    mean, raw, y = (values.requires_grad_() for values in torch.randn(3, 4, 2, generator=rng(), dtype=torch.float64))
    torch.autograd.gradcheck(lambda m, r: gaussian_nll(m, Gaussian().deviation(r), y), (mean, raw))


@pytest.mark.parametrize("least", [0.0, -1.0, math.nan, math.inf])
def test_a_deviation_that_may_be_zero_is_refused(least):
    with pytest.raises(ConfigError, match=f"least must be above 0 and finite, got {least}"):
        Gaussian(least)
