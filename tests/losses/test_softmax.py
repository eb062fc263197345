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


def slow_with_negatives(query, key, negatives, compared, temperature) -> tuple[float, float]:
    """Return the mean loss of the queries and that of the keys, by loops over pairs."""
    n, forward, backward = len(query), [], []
    for i in range(n):
        matched = math.exp(cosine(query[i], key[i]) / temperature)
        others = [math.exp(cosine(query[i], key[j]) / temperature) for j in range(n) if j != i and compared[i][j]]
        further = [other for other, used in zip(negatives[i], compared[i][n:], strict=True) if used]
        others += [math.exp(cosine(query[i], other) / temperature) for other in further]
        forward.append(-math.log(matched / (matched + sum(others))))
        others = [math.exp(cosine(query[j], key[i]) / temperature) for j in range(n) if j != i and compared[j][i]]
        backward.append(-math.log(matched / (matched + sum(others))))
    return sum(forward) / n, sum(backward) / n


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_further_negatives_and_a_mask_equal_a_loop(share):
    query, key, negatives = vectors(5, seed=1), vectors(5, seed=2), 3 * vectors(10, seed=3).view(5, 2, 4)
    compared = torch.rand(5, 7, generator=torch.Generator().manual_seed(4)) < share
    forward, backward = slow_with_negatives(query, key, negatives, compared.tolist(), 0.5)
    loss = functools.partial(INFO_NCE, query, key, negatives=negatives, compared=compared)
    assert loss().item() == pytest.approx(forward, rel=1e-9)
    assert loss(symmetric=True).item() == pytest.approx((forward + backward) / 2, rel=1e-9)


def test_all_pairs_and_no_negatives_are_the_plain_loss():
    query, key = vectors(5, seed=1), vectors(5, seed=2)
    everything, nothing = torch.ones(5, 5, dtype=torch.bool), vectors(0).view(5, 0, 4)
    assert torch.equal(INFO_NCE(query, key, negatives=nothing, compared=everything), INFO_NCE(query, key))


def test_masked_negatives_get_no_gradient_and_the_others_the_numerical_one():
    query, key = (vectors(4, seed=seed).requires_grad_() for seed in (1, 2))
    negatives = vectors(8, seed=3).view(4, 2, 4).requires_grad_()
    compared = torch.rand(4, 6, generator=torch.Generator().manual_seed(4)) < 0.5
    loss = functools.partial(INFO_NCE, symmetric=True, compared=compared)
    assert torch.autograd.gradcheck(lambda q, k, n: loss(q, k, negatives=n), (query, key, negatives))
    loss(query, key, negatives=negatives).backward()
    assert torch.equal(negatives.grad.any(2), compared[:, 4:])


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
