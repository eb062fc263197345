"""NT-Xent and InfoNCE against loops, numbers worked by hand and numerical gradients."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from eventvec.losses import info_nce, nt_xent


def vectors(rows: int, dim: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def slow_nt_xent(z: torch.Tensor, source: list[int], temperature: float) -> float:
    found = []
    for i in range(len(z)):
        for j in range(len(z)):
            if i != j and source[i] == source[j]:
                others = sum(math.exp(cosine(z[i], z[k]) / temperature) for k in range(len(z)) if k != i)
                found.append(-math.log(math.exp(cosine(z[i], z[j]) / temperature) / others))
    return sum(found) / len(found)


def slow_info_nce(query: torch.Tensor, key: torch.Tensor, temperature: float) -> float:
    found = []
    for i in range(len(query)):
        scores = [math.exp(cosine(query[i], other) / temperature) for other in key]
        found.append(-math.log(scores[i] / sum(scores)))
    return sum(found) / len(found)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("source", [[0, 0, 1, 1, 2, 2], [2, 0, 1, 2, 1, 0], [0, 0, 0, 1, 1, 5, 6]])
def test_nt_xent_equals_a_loop(source, temperature):
    z = vectors(len(source)) * torch.rand(len(source), 1, dtype=torch.float64).add(0.1)
    found = nt_xent(z, torch.tensor(source), temperature=temperature)
    assert found.item() == pytest.approx(slow_nt_xent(z, source, temperature), rel=1e-9)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_info_nce_equals_a_loop_and_asks_one_way(temperature):
    query, key = vectors(5, seed=1), 3 * vectors(5, seed=2)
    found = info_nce(query, key, temperature=temperature)
    assert found.item() == pytest.approx(slow_info_nce(query, key, temperature), rel=1e-9)
    assert info_nce(key, query, temperature=temperature).item() != pytest.approx(found.item(), rel=1e-5)


@pytest.mark.parametrize("rows", [2, 3, 10])
def test_equal_vectors_cost_the_logarithm_of_the_candidates(rows):
    z = vectors(1).expand(2 * rows, -1)
    assert nt_xent(z, torch.arange(2 * rows) // 2).item() == pytest.approx(math.log(2 * rows - 1))
    assert info_nce(z[:rows], z[:rows]).item() == pytest.approx(math.log(rows))


def test_clear_answers_cost_nothing():
    z = torch.eye(4).repeat_interleave(2, 0)
    assert nt_xent(z, torch.arange(8) // 2, temperature=0.05).item() < 1e-6
    assert info_nce(torch.eye(4), torch.eye(4), temperature=0.05).item() < 1e-6


def test_one_temperature_unless_said():
    z, source = vectors(6), torch.arange(6) // 2
    assert torch.equal(nt_xent(z, source), nt_xent(z, source, temperature=0.5))
    assert torch.equal(info_nce(z, z.flip(1)), info_nce(z, z.flip(1), temperature=0.5))


def test_gradients_are_the_numerical_ones():
    source = torch.tensor([0, 1, 0, 1, 2, 2])
    assert torch.autograd.gradcheck(lambda z: nt_xent(z, source), vectors(6).requires_grad_())
    pair = vectors(4, seed=1).requires_grad_(), vectors(4, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k: info_nce(q, k), pair)


@pytest.mark.parametrize("z", [torch.zeros(4, 3), torch.ones(4, 3), torch.zeros(0, 3), torch.ones(1, 3)])
def test_nothing_to_tell_apart_has_a_finite_gradient(z):
    z = z.clone().requires_grad_()
    loss = nt_xent(z, torch.arange(len(z)) // 2)
    loss.backward()
    assert bool(loss.isfinite())
    assert bool(z.grad.isfinite().all())


def test_similarities_keep_their_digits_under_autocast():
    z, source = F.normalize(torch.ones(8, 16) + 0.05 * torch.randn(8, 16), dim=1), torch.arange(8) // 2
    exact = nt_xent(z, source), info_nce(z, z.flip(0))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(nt_xent(z, source), exact[0])
        assert torch.equal(info_nce(z, z.flip(0)), exact[1])
