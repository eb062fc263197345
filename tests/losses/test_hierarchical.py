"""The hierarchical loss of TS2Vec beside loops over scales, steps and series."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from eventvec.losses import hierarchical_contrast
from laws import rng


def find(query: Tensor, key: Tensor, candidates: list[Tensor]) -> float:
    """Return -log of the share of the key among candidates, of which it is one."""
    return math.log(sum(math.exp(float(query @ each)) for each in candidates)) - float(query @ key)


def slow(first: Tensor, second: Tensor, alpha: float) -> float:
    n, steps, _ = first.shape
    instance, temporal = [], []
    for i in range(n):
        for t in range(steps):
            for one, other in ((first, second), (second, first)):
                rest = [one[j, t] for j in range(n) if j != i] + [other[j, t] for j in range(n)]
                instance.append(find(one[i, t], other[i, t], rest))
                rest = [one[i, s] for s in range(steps) if s != t] + [other[i, s] for s in range(steps)]
                temporal.append(find(one[i, t], other[i, t], rest))
    value = alpha * (sum(instance) / len(instance) if n > 1 else 0)
    return value + ((1 - alpha) * sum(temporal) / len(temporal) if steps > 1 else 0)


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("alpha", [0.5, 0.2, 1.0])
def test_the_loss_equals_loops_over_scales(n: int, steps: int, alpha: float) -> None:
    first, second = torch.randn(2, n, steps, 3, generator=rng(), dtype=torch.float64)
    expected, one, other = [], first, second
    while True:
        expected.append(slow(one, other, alpha))
        if one.shape[1] < 2:
            break
        half = one.shape[1] // 2  # the last of an odd number of steps is left out
        one, other = (z[:, : 2 * half].reshape(n, half, 2, 3).amax(2) for z in (one, other))
    loss = hierarchical_contrast(first, second, alpha=alpha)
    assert loss.item() == pytest.approx(sum(expected) / len(expected), rel=1e-9, abs=1e-12)


def test_the_gradient_equals_the_numerical_gradient() -> None:
    first, second = torch.randn(2, 3, 4, 2, generator=rng(), dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: hierarchical_contrast(z, second), first.requires_grad_())
