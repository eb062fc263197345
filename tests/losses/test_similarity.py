"""Losses over graded similarities against double loops, their limits, numbers worked by hand, numerical gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eventvec.losses import expclr, feature_similarity, pair_loss, quadratic

NORMALIZE = ("none", "row_mean")


def draw(rows: int, dim: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_similarity(f: list[list[float]]) -> list[list[float]]:
    n = range(len(f))
    bound = max(math.dist(f[i], f[j]) for i in n for j in n)
    return [[(1 - math.dist(f[i], f[j]) / bound) ** 2 for j in n] for i in n]


def slow_errors(z: list[list[float]], s: list[list[float]], delta: float | str, normalize: str) -> list[float]:
    """Return ((1 - s)Δ - D)² of each ordered pair, one at a time."""
    n, errors = len(z), []
    if delta == "auto":
        delta = n * n / sum(1 - s[i][j] for i in range(n) for j in range(n))
    for i in range(n):
        mean = sum(math.dist(z[i], z[j]) for j in range(n)) / n if normalize == "row_mean" else 1.0
        errors += [((1 - s[i][j]) * delta - math.dist(z[i], z[j]) / mean) ** 2 for j in range(n)]
    return errors


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.integers(1, 5), st.integers(0, 10**6))
def test_similarity_equals_a_double_loop(rows, dim, seed):
    f = draw(rows, dim, seed)
    expected = torch.tensor(slow_similarity(f.tolist()), dtype=torch.float64)
    torch.testing.assert_close(feature_similarity(f), expected)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 9),
    st.sampled_from([0.1, 1.0, 2.5, "auto"]),
    st.sampled_from([0.05, 1.0, 30.0]),
    st.sampled_from(NORMALIZE),
    st.integers(0, 10**6),
)
def test_both_losses_equal_a_double_loop(rows, delta, temperature, normalize, seed):
    z, s = draw(rows, 3, seed), feature_similarity(draw(rows, 2, seed + 1))
    errors = slow_errors(z.tolist(), s.tolist(), delta, normalize)
    mean = sum(errors) / rows**2
    assert quadratic(z, s, delta=delta, normalize=normalize).item() == pytest.approx(mean, rel=1e-9)
    top = max(errors)
    soft = top + temperature * math.log(sum(math.exp((e - top) / temperature) for e in errors) / rows**2)
    found = expclr(z, s, delta=delta, temperature=temperature, normalize=normalize).item()
    assert found == pytest.approx(soft, rel=1e-9, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.sampled_from([0.2, 1.0, 4.0]), st.booleans(), st.integers(0, 10**6))
def test_pair_loss_equals_a_double_loop(rows, margin, labels, seed):
    z, graded = draw(rows, 3, seed), feature_similarity(draw(rows, 2, seed + 1))
    label = torch.randint(0, 3, (rows,), generator=torch.Generator().manual_seed(seed))
    s = (label[:, None] == label).double() if labels else graded
    total = 0.0
    for i in range(rows):
        for j in range(rows):
            squared = math.dist(z[i].tolist(), z[j].tolist()) ** 2
            total += float(s[i, j]) * squared + (1 - float(s[i, j])) * max(0, margin**2 - squared)
    assert pair_loss(z, s, margin=margin).item() == pytest.approx(total / rows**2, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_temperature_leads_from_the_worst_pair_to_the_mean(normalize):
    z, s = draw(8, 3), feature_similarity(draw(8, 2, 1))
    errors = slow_errors(z.tolist(), s.tolist(), 1.0, normalize)
    losses = [expclr(z, s, temperature=t, normalize=normalize).item() for t in (1e-4, 0.1, 1.0, 10.0, 1e6)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == pytest.approx(max(errors), rel=1e-2)
    mean = quadratic(z, s, normalize=normalize).item()
    assert losses[-1] == pytest.approx(mean, rel=1e-4)
    assert expclr(z, s, temperature=math.inf, normalize=normalize).item() == mean


@pytest.mark.parametrize("loss", [quadratic, expclr])
def test_zero_exactly_where_distances_are_the_ones_asked_for(loss):
    place = torch.tensor([[0.0], [1.0], [3.0], [6.0]], dtype=torch.float64)
    similarity = 1 - torch.cdist(place, place) / 6  # linear, so that a line is a solution
    assert loss(place / 6 * 2.5, similarity, delta=2.5, normalize="none").item() == pytest.approx(0, abs=1e-12)
    assert loss(place / 6 * 2.4, similarity, delta=2.5, normalize="none").item() > 1e-4


@pytest.mark.parametrize("loss", [quadratic, expclr])
def test_distances_by_their_rows_mean_know_no_scale(loss):
    z, s = draw(7, 4), feature_similarity(draw(7, 2, 1))
    assert loss(1e-3 * z, s).item() == pytest.approx(loss(z, s).item(), rel=1e-9)
    assert loss(z, s).item() == loss(z, s, normalize="row_mean").item()
    assert loss(2 * z, s, normalize="none").item() != pytest.approx(loss(z, s, normalize="none").item(), rel=1e-2)


@pytest.mark.parametrize("dim", [1, 3])
def test_auto_asks_for_distances_of_mean_one(dim):
    s = feature_similarity(draw(16, dim))
    delta = 1 / (1 - s).mean().item()
    z = draw(16, 3, 1)
    assert quadratic(z, s, delta="auto").item() == pytest.approx(quadratic(z, s, delta=delta).item())
    assert quadratic(z, s, delta="auto").item() < quadratic(z, s, delta=1.2 * delta).item()


def test_order_of_rows_does_not_matter():
    z, f = draw(9, 3), draw(9, 2, 1)
    turn = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    for loss in (quadratic, expclr, pair_loss):
        found = loss(z[turn], feature_similarity(f[turn])).item()
        assert found == pytest.approx(loss(z, feature_similarity(f)).item(), rel=1e-9)


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("delta", [1.3, "auto"])
def test_gradient_is_the_numerical_one(normalize, delta):
    z, s = draw(5, 3).requires_grad_(), feature_similarity(draw(5, 2, 1))
    assert torch.autograd.gradcheck(lambda v: quadratic(v, s, delta=delta, normalize=normalize), z)
    assert torch.autograd.gradcheck(lambda v: expclr(v, s, delta=delta, temperature=0.5, normalize=normalize), z)
    assert torch.autograd.gradcheck(lambda v: pair_loss(v, s, margin=2.0), z)


def test_gradient_weighs_pairs_by_a_softmax_of_their_errors():
    s = feature_similarity(draw(5, 2, 1))
    z = draw(5, 3).requires_grad_()
    soft = torch.autograd.grad(expclr(z, s, temperature=0.7), z)[0]
    distance = torch.cdist(z, z)
    errors = (1 - s - distance / distance.mean(1, keepdim=True)).square()
    weight = (errors / 0.7).flatten().softmax(0).view_as(errors).detach()
    torch.testing.assert_close(soft, torch.autograd.grad((weight * errors).sum(), z)[0])


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("z", [torch.ones(4, 3), torch.tensor([[0.0], [0.0], [1.0], [1.0]]), torch.zeros(1, 2)])
def test_identical_rows_have_finite_losses_and_gradients(kind, normalize, z):
    z = z.to(kind).requires_grad_()
    for f in (torch.zeros(len(z), 2), torch.arange(2.0 * len(z)).view(-1, 2)):
        s = feature_similarity(f.to(kind))
        for delta in (1.0, "auto"):
            loss = expclr(z, s, delta=delta, normalize=normalize) + quadratic(z, s, delta=delta, normalize=normalize)
            (gradient,) = torch.autograd.grad(loss + pair_loss(z, s), z)
            assert bool(loss.isfinite())
            assert bool(gradient.isfinite().all())


def test_equal_features_ask_for_nothing_but_coincidence():
    s = feature_similarity(torch.ones(4, 2, dtype=torch.float64))
    assert torch.equal(s, torch.ones(4, 4, dtype=torch.float64))
    assert quadratic(torch.ones(4, 3, dtype=torch.float64), s, delta="auto").item() == 0


def test_large_errors_do_not_overflow():
    z, s = 1e3 * draw(6, 2), torch.eye(6, dtype=torch.float64)
    worst = max(slow_errors(z.tolist(), s.tolist(), 1.0, "none"))
    assert expclr(z, s, normalize="none").item() == pytest.approx(worst, rel=1e-4)
    assert expclr(z.float(), s.float(), normalize="none").item() == pytest.approx(worst, rel=1e-4)
