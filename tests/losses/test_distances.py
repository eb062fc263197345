"""The contrastive loss and squared distances against double loops, hand-computed values and numerical gradients."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from eventvec.losses import Contrastive, contrastive, squared_distances
from eventvec.losses.negatives import HardNegatives

FIVE = HardNegatives(5)


def sphere(rows: int, dim: int = 6, seed: int = 0) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(rows, dim, generator=rng, dtype=torch.float64), dim=1)


def slow(z: torch.Tensor, source: list[int], margin: float, count: int) -> float:
    """Return the contrastive loss with the `count` nearest rows of other sources, one pair at a time."""
    total, n = 0.0, len(z)
    for i in range(n):
        others = []
        for j in range(n):
            distance = math.dist(z[i].tolist(), z[j].tolist())
            if source[i] == source[j]:
                total += distance**2 if i < j else 0
            else:
                others.append(distance)
        total += sum(max(0, margin - distance) ** 2 for distance in sorted(others)[:count])
    return total


@given(
    st.lists(st.integers(0, 4), max_size=12),
    st.integers(1, 14),
    st.sampled_from([0.3, 0.5, 1.0, 1.9]),
    st.integers(0, 10**6),
)
def test_equals_a_double_loop(source, count, margin, seed):
    z = sphere(len(source), 3, seed)
    loss = contrastive(z, torch.tensor(source), margin=margin, negatives=HardNegatives(count))
    assert loss.item() == pytest.approx(slow(z, source, margin, count), rel=1e-9, abs=1e-9)


def test_default_options():
    z, source, rng = 0.5 * sphere(20), [i // 2 for i in range(20)], torch.Generator()
    assert Contrastive(margin=1.5)(z, torch.tensor(source), rng).item() == pytest.approx(slow(2 * z, source, 1.5, 5))
    assert Contrastive()(z, torch.tensor(source), rng).item() == pytest.approx(slow(2 * z, source, 0.5, 5))


def test_hand_computed_value():
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0], [0.0, 1.5]], dtype=torch.float64)
    source = torch.tensor([0, 0, 1, 2])
    # positive: 25; nearest to row 0: row 2 at 1; to row 1: row 3 at √15.25; to rows 2 and 3: each other at 0.5
    loss = contrastive(z, source, margin=2.0, negatives=HardNegatives(1))
    assert loss.item() == pytest.approx(25 + 1 + 0 + 2 * 1.5**2)


@pytest.mark.parametrize("entities", [2, 3, 8])
def test_equal_embeddings_cost_the_margin_of_each_negative(entities):
    z = sphere(1).expand(2 * entities, -1)
    source = torch.arange(entities).repeat_interleave(2)
    n_negatives = 2 * entities * min(5, 2 * entities - 2)  # fewer than 5 per row if the batch has fewer
    loss = contrastive(z, source, margin=0.7, negatives=FIVE)
    assert loss.item() == pytest.approx(n_negatives * 0.7**2, rel=1e-4)


def test_equal_positives_and_distant_negatives_cost_nothing():
    z = torch.eye(4).repeat_interleave(3, 0)
    assert contrastive(z, torch.arange(4).repeat_interleave(3), margin=1.4, negatives=FIVE).item() == 0


def test_a_single_source_has_no_negatives_and_single_rows_have_no_positives():
    z = sphere(4)
    distances = [math.dist(z[i].tolist(), z[j].tolist()) for i in range(4) for j in range(i)]
    positives = contrastive(z, torch.zeros(4, dtype=torch.long), margin=2.0, negatives=FIVE)
    assert positives.item() == pytest.approx(sum(d**2 for d in distances))
    negatives = contrastive(z, torch.arange(4), margin=2.0, negatives=FIVE)
    assert negatives.item() == pytest.approx(2 * sum((2 - d) ** 2 for d in distances))


@pytest.mark.parametrize("rows", [0, 1])
def test_loss_without_pairs_is_zero_with_a_gradient(rows):
    z = sphere(rows).requires_grad_()
    loss = contrastive(z, torch.arange(rows), margin=0.5, negatives=FIVE)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert bool(z.grad.isfinite().all())


def test_order_of_rows_does_not_matter():
    z, source = sphere(12), torch.arange(12) // 3
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    shuffled, loss = (contrastive(z[o], source[o], margin=0.5, negatives=FIVE) for o in (order, torch.arange(12)))
    assert shuffled.item() == pytest.approx(loss.item())


def test_gradient_equals_the_numerical_gradient():
    z, source = sphere(7).requires_grad_(), torch.tensor([0, 0, 1, 1, 2, 2, 3])
    assert torch.autograd.gradcheck(lambda v: contrastive(v, source, margin=1.2, negatives=HardNegatives(2)), z)
    assert torch.autograd.gradcheck(squared_distances, sphere(5).requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_identical_rows_have_finite_gradients(dtype):
    z = sphere(1).to(dtype).repeat(6, 1).requires_grad_()
    contrastive(z, torch.tensor([0, 0, 1, 1, 2, 2]), margin=0.5, negatives=FIVE).backward()
    assert bool(z.grad.isfinite().all())


def test_distances_equal_a_loop_and_are_never_negative():
    z = sphere(30) * 5
    expected = [[math.dist(a, b) ** 2 for b in z.tolist()] for a in z.tolist()]
    torch.testing.assert_close(squared_distances(z), torch.tensor(expected, dtype=torch.float64))
    near = sphere(1).float() + 1e-4 * torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    assert bool((squared_distances(near) >= 0).all())


def test_distances_are_exact_under_autocast():
    z = F.normalize(sphere(1) + 0.05 * sphere(40, seed=1), dim=1).float()
    exact, source = squared_distances(z), torch.arange(40) // 4
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(squared_distances(z), exact)
        loss = contrastive(z, source, margin=0.5, negatives=FIVE)
    assert torch.equal(loss, contrastive(z, source, margin=0.5, negatives=FIVE))
