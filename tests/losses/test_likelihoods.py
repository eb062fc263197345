"""Likelihoods: the Gaussian, gaps and sampled softmax, against arithmetic, loops and differences."""

from __future__ import annotations

import math

import pytest
import torch

from eventvec.errors import ConfigError
from eventvec.losses import Gaussian, gap_nll, gaussian_nll, sampled_softmax_nll
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


def gap_values(n: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """Return log-odds, log weights, means and deviations of three components, and scaled gaps."""
    zero, y = torch.randn(2, n, generator=rng(1), dtype=dtype)
    weights, mean, raw = torch.randn(3, n, 3, generator=rng(2), dtype=dtype)
    return zero, weights.log_softmax(1), mean, Gaussian().deviation(raw), y


def test_the_likelihood_of_a_gap_is_that_of_a_mixture_and_of_a_coin():
    zero, log_weights, mean, deviation, y = gap_values(6)
    is_zero = torch.tensor([True, False, False, True, False, False])
    nll = gap_nll(zero, log_weights, mean, deviation, y, is_zero)
    for i in range(6):
        probability = 1 / (1 + math.exp(-zero[i]))
        density = sum(
            math.exp(log_weights[i, k])
            * math.exp(-(((y[i] - mean[i, k]) / deviation[i, k]) ** 2) / 2)
            / (deviation[i, k] * math.sqrt(2 * math.pi))
            for k in range(3)
        )
        expected = -math.log(probability) if is_zero[i] else -math.log((1 - probability) * density)
        assert nll[i].item() == pytest.approx(float(expected), rel=1e-4)


def test_the_probabilities_of_all_gaps_sum_to_one():
    zero, log_weights, mean, deviation, _ = (values[:1] for values in gap_values(1, torch.float64))
    y = torch.linspace(-40, 40, 200_001, dtype=torch.float64)
    n = len(y)
    rows = (zero.expand(n), *(values.expand(n, 3) for values in (log_weights, mean, deviation)))
    positive = torch.trapezoid(gap_nll(*rows, y, torch.zeros(n, dtype=torch.bool)).neg().exp(), y)
    none = gap_nll(zero, log_weights, mean, deviation, y[:1], torch.tensor([True])).neg().exp()
    assert float(positive + none) == pytest.approx(1, abs=1e-6)


def test_the_gradient_of_the_likelihood_of_gaps_is_that_of_differences():
    zero, log_weights, mean, deviation, y = gap_values(5, torch.float64)
    inputs = [values.requires_grad_() for values in (zero, log_weights, mean, deviation)]
    is_zero = torch.tensor([True, False, False, True, False])
    assert torch.autograd.gradcheck(lambda *values: gap_nll(*values, y, is_zero), inputs)


def test_a_gap_far_from_every_component_has_a_finite_loss_and_gradient():
    mean = torch.zeros(1, 2, requires_grad=True)
    deviation = torch.tensor([[0.01, 1.0]])
    log_weights = torch.tensor([[0.99, 0.01]]).log()
    nll = gap_nll(torch.zeros(1), log_weights, mean, deviation, torch.tensor([20.0]), torch.tensor([False]))
    nll.sum().backward()
    assert nll.item() == pytest.approx(math.log(2) + math.log(100) + 200 + math.log(2 * math.pi) / 2)
    assert mean.grad is not None
    assert float(mean.grad.abs().max()) == pytest.approx(20)


CODES = 40
SCORES = 2 * torch.randn(3, CODES, generator=rng(5), dtype=torch.float64)
TARGETS = torch.tensor([0, 7, 39])


def sampled(scores: torch.Tensor, drawn: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    return sampled_softmax_nll(scores[torch.arange(3), TARGETS], scores[:, drawn], TARGETS, drawn, expected)


def test_sampled_softmax_is_exact_if_each_code_is_drawn_once():
    expected = -SCORES.log_softmax(1)[torch.arange(3), TARGETS]
    torch.testing.assert_close(sampled(SCORES, torch.randperm(CODES), torch.ones(CODES).double()), expected)


def test_sampled_softmax_equals_a_loop_over_draws():
    drawn, probability = torch.tensor([3, 7, 7, 0, 12, 3]), torch.rand(6, generator=rng(6), dtype=torch.float64)
    nll = sampled(SCORES, drawn, 6 * probability)
    for row, target in enumerate(TARGETS.tolist()):
        total = math.exp(SCORES[row, target])
        for code, share in zip(drawn.tolist(), probability.tolist(), strict=True):
            total += math.exp(SCORES[row, code]) / (6 * share) if code != target else 0
        assert nll[row].item() == pytest.approx(math.log(total) - SCORES[row, target].item())


def test_the_sum_of_sampled_softmax_is_unbiased_and_its_gradient_near_the_exact_one():
    probability = torch.rand(CODES, generator=rng(7), dtype=torch.float64) + 0.2
    probability /= probability.sum()
    exact = SCORES.clone().requires_grad_()
    loss = -exact.log_softmax(1)[torch.arange(3), TARGETS]
    loss.sum().backward()
    sums, gradient, repeats, draws = [], torch.zeros_like(SCORES), 4000, 30
    for each in torch.multinomial(probability, repeats * draws, True, generator=rng(8)).view(repeats, draws):
        scores = SCORES.clone().requires_grad_()
        nll = sampled(scores, each, draws * probability[each])
        nll.sum().backward()
        sums.append((nll.detach() + SCORES[torch.arange(3), TARGETS]).exp())
        gradient += scores.grad / repeats
    total, values = SCORES.exp().sum(1), torch.stack(sums)
    error = values.std(0) / math.sqrt(repeats)
    assert ((values.mean(0) - total).abs() < 5 * error).all()
    assert (error < 0.03 * total).all()
    assert exact.grad is not None
    assert float((gradient - exact.grad).abs().max()) < 0.15 * float(exact.grad.abs().max())  # a biased logarithm


def test_the_gradient_of_sampled_softmax_is_that_of_differences():
    scores, drawn = SCORES.clone().requires_grad_(), torch.tensor([3, 7, 0, 12, 39])
    assert torch.autograd.gradcheck(lambda s: sampled(s, drawn, torch.full((5,), 0.4).double()), scores)
