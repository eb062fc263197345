"""NT-Xent and InfoNCE against loops, hand-computed values and numerical gradients."""

from __future__ import annotations

import functools
import math

import pytest
import torch
import torch.nn.functional as F

from eventvec.losses import info_nce, nt_xent

NT_XENT, INFO_NCE = (functools.partial(loss, temperature=0.5) for loss in (nt_xent, info_nce))


def vectors(rows: int, dim: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def slow_nt_xent(z: torch.Tensor, source: list[int], temperature: float) -> float:
    losses = []
    for i in range(len(z)):
        for j in range(len(z)):
            if i != j and source[i] == source[j]:
                others = sum(math.exp(cosine(z[i], z[k]) / temperature) for k in range(len(z)) if k != i)
                losses.append(-math.log(math.exp(cosine(z[i], z[j]) / temperature) / others))
    return sum(losses) / len(losses)


def slow_info_nce(query: torch.Tensor, key: torch.Tensor, temperature: float) -> float:
    losses = []
    for i in range(len(query)):
        scores = [math.exp(cosine(query[i], other) / temperature) for other in key]
        losses.append(-math.log(scores[i] / sum(scores)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("source", [[0, 0, 1, 1, 2, 2], [2, 0, 1, 2, 1, 0], [0, 0, 0, 1, 1, 5, 6]])
def test_nt_xent_equals_a_loop(source, temperature):
    z = vectors(len(source)) * torch.rand(len(source), 1, dtype=torch.float64).add(0.1)
    loss = nt_xent(z, torch.tensor(source), temperature=temperature)
    assert loss.item() == pytest.approx(slow_nt_xent(z, source, temperature), rel=1e-9)


@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.5, 1.0, 2.0])
def test_info_nce_equals_a_loop_in_one_direction_and_in_both(temperature):
    query, key = vectors(6, seed=1), 3 * vectors(6, seed=2)
    forward, backward = (slow_info_nce(*pair, temperature) for pair in ((query, key), (key, query)))
    assert forward != pytest.approx(backward, rel=1e-5)
    assert info_nce(query, key, temperature=temperature).item() == pytest.approx(forward, rel=1e-9)
    symmetric = info_nce(query, key, temperature=temperature, symmetric=True)
    assert symmetric.item() == pytest.approx((forward + backward) / 2, rel=1e-9)


@pytest.mark.parametrize("rows", [2, 3, 10])
def test_equal_vectors_cost_the_logarithm_of_the_number_of_candidates(rows):
    z = vectors(1).expand(2 * rows, -1)
    assert NT_XENT(z, torch.arange(2 * rows) // 2).item() == pytest.approx(math.log(2 * rows - 1))
    assert INFO_NCE(z[:rows], z[:rows]).item() == pytest.approx(math.log(rows))


def test_separated_vectors_cost_nothing():
    z = torch.eye(4).repeat_interleave(2, 0)
    assert nt_xent(z, torch.arange(8) // 2, temperature=0.05).item() < 1e-6
    assert info_nce(torch.eye(4), torch.eye(4), temperature=0.05).item() < 1e-6


def test_orthogonal_keys_by_hand():
    loss = functools.partial(info_nce, temperature=1 / 20)
    assert loss(torch.eye(7), torch.eye(7)).item() == pytest.approx(6 * math.exp(-20), rel=1e-3, abs=1e-7)
    assert loss(torch.eye(7), torch.eye(7).roll(1, 0)).item() == pytest.approx(20, rel=1e-3)


def test_nt_xent_has_the_numerical_gradient():
    source = torch.tensor([0, 1, 0, 1, 2, 2])
    assert torch.autograd.gradcheck(lambda z: NT_XENT(z, source), vectors(6).requires_grad_())


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_info_nce_has_the_numerical_gradient(temperature, symmetric):
    loss = functools.partial(info_nce, temperature=temperature, symmetric=symmetric)
    assert torch.autograd.gradcheck(loss, (vectors(4, seed=1).requires_grad_(), vectors(4, seed=2).requires_grad_()))


@pytest.mark.parametrize("z", [torch.zeros(4, 3), torch.ones(4, 3), torch.zeros(0, 3), torch.ones(1, 3)])
def test_identical_or_missing_vectors_have_a_finite_gradient(z):
    z = z.clone().requires_grad_()
    loss = NT_XENT(z, torch.arange(len(z)) // 2)
    loss.backward()
    assert bool(loss.isfinite())
    assert bool(z.grad.isfinite().all())


def test_similarities_are_exact_under_autocast():
    z, source = F.normalize(torch.ones(8, 16) + 0.05 * torch.randn(8, 16), dim=1), torch.arange(8) // 2
    exact = NT_XENT(z, source), INFO_NCE(z, z.flip(0))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(NT_XENT(z, source), exact[0])
        assert torch.equal(INFO_NCE(z, z.flip(0)), exact[1])
