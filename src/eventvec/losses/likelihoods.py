"""Losses by an explicit likelihood: a prediction is a distribution of the observation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.options import above_zero


def gaussian_nll(mean: Tensor, deviation: Tensor, y: Tensor) -> Tensor:
    """Return ``-log N(y; mean, deviation²)``, mean over all elements: a scalar.

    The loss of a conditional neural process (Garnelo et al. 2018; Mathieu et al. 2021, Equation 2), in the reading of
    the public code, which takes the mean over the numbers or pixels of an observation and not their sum.

    Args:
        mean: Means, of the shape of y.
        deviation: Standard deviations, above 0, of the shape of y.
        y: Observations.

    Example:
        >>> import torch
        >>> round(gaussian_nll(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])).item(), 4)
        2.1121
        >>> round(0.5 + math.log(2) + 0.5 * math.log(2 * math.pi), 4)
        2.1121
    """
    return (((y - mean) / deviation).square() / 2 + deviation.log()).mean() + math.log(2 * math.pi) / 2


def sampled_softmax_nll(positive: Tensor, negative: Tensor, target: Tensor, drawn: Tensor, expected: Tensor) -> Tensor:
    """Return `(n,)` estimates of ``-log softmax(scores)[target]`` from the scores of the target and of drawn codes.

    ``log(exp(s_y) + Σ_j exp(s_j - log e_j)) - s_y`` over the draws j other than y, where e_j is the number of times
    that code j is expected to be drawn (the log-q correction of Bengio and Senécal 2008). The sum inside the logarithm
    is an unbiased estimate of the sum over all codes, if each code can be drawn. The estimate of the logarithm is
    slightly too small, and exact if each code is drawn once and expected once.

    Args:
        positive: `(n,)` scores of the targets.
        negative: `(n, s)` scores of the codes that were drawn for all n.
        target: `(n,)` the code of each target.
        drawn: `(s,)` the codes that were drawn, with repetitions.
        expected: `(s,)` the expected number of draws of each of these codes, above 0.

    Example:
        >>> target, drawn, expected = torch.tensor([0]), torch.tensor([0, 1, 2]), torch.tensor([1.0, 1.0, 0.5])
        >>> nll = sampled_softmax_nll(torch.zeros(1), torch.zeros(1, 3), target, drawn, expected)
        >>> round(nll.item(), 4), round(math.log(1 + 1 + 2), 4)  # the first draw is the target itself
        (1.3863, 1.3863)
    """
    corrected = (negative - expected.log()).masked_fill(drawn == target[:, None], -math.inf)
    return torch.cat([positive[:, None], corrected], 1).logsumexp(1) - positive


def gap_nll(zero: Tensor, log_weights: Tensor, mean: Tensor, deviation: Tensor, y: Tensor, is_zero: Tensor) -> Tensor:
    """Return `(n,)` ``-log p`` of gaps that are zero with some probability and otherwise of a mixture of Gaussians.

    ``-log σ(z)`` for a gap of zero, and ``-log(1 - σ(z)) - log Σ_k w_k N(y; m_k, d_k²)`` for another one. The first is
    a probability and the second a density in the unit of y, which may be above 1, so the result may be negative.
    If y is a logarithm of the gap, the mixture is one of log-normals (Shchur et al. 2020).

    Args:
        zero: `(n,)` log-odds z that the gap is zero.
        log_weights: `(n, k)` logarithms of the weights, which sum to 1.
        mean: `(n, k)` means.
        deviation: `(n, k)` standard deviations, above 0.
        y: `(n,)` finite values of the gap, scaled; not read where the gap is zero.
        is_zero: `(n,)` bool.

    Example:
        >>> one, gaps = torch.ones(2, 1), torch.tensor([1.0, 5.0])
        >>> gap_nll(torch.zeros(2), torch.zeros(2, 1), one, one, gaps, torch.tensor([False, True]))
        tensor([1.6121, 0.6931])
        >>> round(math.log(2) + 0.5 * math.log(2 * math.pi), 4)  # one half, times the density of a mean
        1.6121
    """
    density = -((y[:, None] - mean) / deviation).square() / 2 - deviation.log() - math.log(2 * math.pi) / 2
    positive = F.softplus(zero) - (log_weights + density).logsumexp(1)
    return torch.where(is_zero, F.softplus(-zero), positive)


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian likelihood whose deviation is ``least + softplus(raw)``.

    Args:
        least: The smallest standard deviation, in the unit of the scaled observations; .01 in the public code of
            Mathieu et al. 2021. It bounds the likelihood of observations without noise.

    Raises:
        ConfigError: If `least` is not above 0 and finite.

    Example:
        >>> import torch
        >>> Gaussian().deviation(torch.tensor([-50.0])).tolist()
        [0.009999999776482582]
    """

    least: float = 0.01

    def __post_init__(self) -> None:
        above_zero("least", self.least)

    def deviation(self, raw: Tensor) -> Tensor:
        """Return standard deviations from any numbers."""
        return self.least + F.softplus(raw)
