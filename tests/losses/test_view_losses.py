"""Losses of views against double loops, pytorch-metric-learning and numerical gradients, and their configured forms."""

from __future__ import annotations

import functools
import itertools
import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from eventvec.errors import ConfigError
from eventvec.losses import (
    BarlowTwins,
    BinomialDeviance,
    Contrastive,
    Histogram,
    Margin,
    NTXent,
    Triplet,
    VICReg,
    barlow_twins,
    binomial_deviance,
    contrastive,
    histogram,
    margin_loss,
    nt_xent,
    triplet,
    vicreg,
)
from eventvec.losses.negatives import (
    AllNegatives,
    BalancedNegatives,
    Candidates,
    DistanceWeightedNegatives,
    HardNegatives,
    RandomNegatives,
    SemiHardNegatives,
)
from laws import rng

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pytorch_metric_learning import distances, reducers
    from pytorch_metric_learning import losses as peer

HARD = HardNegatives()
LOSSES = {
    "contrastive": functools.partial(contrastive, margin=1.9, negatives=HARD),
    "margin": functools.partial(margin_loss, margin=0.5, beta=1.0, negatives=HARD),
    "triplet": functools.partial(triplet, margin=0.9, negatives=HARD),
    "binomial": functools.partial(binomial_deviance, alpha=1.5, beta=0.4, cost=2.0, negatives=HARD),
    "histogram": functools.partial(histogram, bins=5),
    "nt_xent": functools.partial(nt_xent, temperature=0.5),
    "vicreg": functools.partial(vicreg, invariance=25.0, variance=25.0, covariance=1.0),
    "barlow": functools.partial(barlow_twins, redundancy=0.1),
}
RULES = (HardNegatives(2), RandomNegatives(2), BalancedNegatives(), DistanceWeightedNegatives(), AllNegatives())
SOURCES = st.lists(st.integers(0, 3), min_size=1, max_size=9)
EUCLID = distances.LpDistance(normalize_embeddings=False)


def sphere(rows: int, dim: int = 4, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(rows, dim, generator=rng(seed), dtype=torch.float64), dim=1)


def split(source: list[int]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the positive and the negative unordered pairs of rows."""
    both = list(itertools.combinations(range(len(source)), 2))
    return [p for p in both if source[p[0]] == source[p[1]]], [p for p in both if source[p[0]] != source[p[1]]]


def hardest(z: torch.Tensor, source: list[int], i: int, count: int) -> list[int]:
    others = [j for j in range(len(source)) if source[j] != source[i]]
    return sorted(others, key=lambda j: math.dist(z[i].tolist(), z[j].tolist()))[:count]


def mean(values: list[float]) -> float:
    return sum(values) / max(len(values), 1)


# Against loops


@given(SOURCES, st.integers(1, 5), st.integers(0, 10**6))
def test_margin_triplet_and_binomial_deviance_equal_loops(source, count, seed):
    z, label = sphere(len(source), 3, seed), torch.tensor(source)
    positives, _ = split(source)
    negatives = [(i, j) for i in range(len(source)) for j in hardest(z, source, i, count)]
    distance = [[math.dist(a, b) for b in z.tolist()] for a in z.tolist()]
    cosine = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in z.tolist()] for a in z.tolist()]
    rule = HardNegatives(count)
    slow = sum(max(0, distance[i][j] - 0.9 + 0.3) for i, j in positives)
    slow += sum(max(0, 0.9 - distance[i][j] + 0.3) for i, j in negatives)
    assert margin_loss(z, label, margin=0.3, beta=0.9, negatives=rule).item() == pytest.approx(slow, abs=1e-9)
    slow = sum(
        max(0, distance[a][p] - distance[a][n] + 0.6) for a, p in positives for n in hardest(z, source, a, count)
    )
    assert triplet(z, label, margin=0.6, negatives=rule).item() == pytest.approx(slow, abs=1e-9)
    slow = mean([math.log(1 + math.exp(-2 * (cosine[i][j] - 0.4))) for i, j in positives])
    slow += mean([math.log(1 + math.exp(2 * 3 * (cosine[i][j] - 0.4))) for i, j in negatives])
    loss = binomial_deviance(3 * z, label, alpha=2.0, beta=0.4, cost=3.0, negatives=rule)
    assert loss.item() == pytest.approx(len(source) * slow, abs=1e-9)


@given(SOURCES, st.integers(2, 30), st.integers(0, 10**6))
def test_histogram_equals_a_loop(source, bins, seed):
    z, step = sphere(len(source), 2, seed), 2 / (bins - 1)
    heights = []
    for pairs in split(source):
        cosines = [float(z[i] @ z[j]) for i, j in pairs]
        heights.append([mean([max(0, 1 - abs(s - (-1 + r * step)) / step) for s in cosines]) for r in range(bins)])
    (positive, negative), expected = heights, 0.0
    for r in range(bins):
        expected += negative[r] * sum(positive[: r + 1])
    assert histogram(5 * z, torch.tensor(source), bins=bins).item() == pytest.approx(expected, abs=1e-6)


def slow_moments(branch: list[list[float]]) -> tuple[list[float], list[list[float]]]:
    """Return means and the covariance matrix, divided by the number of rows."""
    means = [mean([row[i] for row in branch]) for i in range(len(branch[0]))]
    centred = [[value - m for value, m in zip(row, means, strict=True)] for row in branch]
    dim = range(len(means))
    return means, [[mean([row[i] * row[j] for row in centred]) for j in dim] for i in dim]


@given(st.lists(st.integers(0, 2), min_size=3, max_size=8), st.integers(0, 10**6))
def test_vicreg_and_barlow_twins_equal_loops_over_pairs_of_views(source, seed):
    z = torch.randn(len(source), 3, generator=rng(seed), dtype=torch.float64)
    pairs, _ = split(source)
    if len(pairs) < 2:
        return
    n, dim = len(pairs), range(3)
    first, second = ([z[pair[side]].tolist() for pair in pairs] for side in (0, 1))
    difference = mean([(a - b) ** 2 for x, y in zip(first, second, strict=True) for a, b in zip(x, y, strict=True)])
    spread = overlap = 0.0
    for branch in (first, second):
        covariance = [[value * n / (n - 1) for value in row] for row in slow_moments(branch)[1]]
        spread += mean([max(0, 1 - math.sqrt(covariance[i][i] + 1e-4)) for i in dim])
        overlap += sum(covariance[i][j] ** 2 for i in dim for j in dim if i != j) / 3
    loss = vicreg(z, torch.tensor(source), invariance=3.0, variance=5.0, covariance=2.0)
    assert loss.item() == pytest.approx(3 * difference + 5 * spread / 2 + 2 * overlap, rel=1e-9)
    scaled = []
    for branch in (first, second):
        means, covariance = slow_moments(branch)
        std = [math.sqrt(covariance[i][i] + 1e-5) for i in dim]
        scaled.append([[(row[i] - means[i]) / std[i] for i in dim] for row in branch])
    cross = [[mean([a[i] * b[j] for a, b in zip(*scaled, strict=True)]) for j in dim] for i in dim]
    expected = sum((1 - cross[i][j]) ** 2 if i == j else 0.2 * cross[i][j] ** 2 for i in dim for j in dim)
    assert barlow_twins(z, torch.tensor(source), redundancy=0.2).item() == pytest.approx(expected, rel=1e-9)


def test_the_rule_chooses_the_negatives_of_triplets():
    z, source = sphere(9), [row // 3 for row in range(9)]
    label, positives = torch.tensor(source), split(source)[0]
    distance = torch.cdist(z, z)
    hinge = [[max(0.0, float(distance[a, p] - distance[a, n]) + 0.7) for n in range(9)] for a, p in positives]
    others = [[n for n in range(9) if source[n] != source[a]] for a, _ in positives]
    total = sum(row[n] for row, allowed in zip(hinge, others, strict=True) for n in allowed)
    assert triplet(z, label, margin=0.7, negatives=AllNegatives()).item() == pytest.approx(total)
    drawn = [triplet(z, label, margin=0.7, negatives=RandomNegatives(2), rng=rng(seed)).item() for seed in range(300)]
    assert mean(drawn) == pytest.approx(total / 3, rel=0.05)  # two of six negatives
    assert triplet(z, label, margin=0.7, negatives=SemiHardNegatives()).item() < total


# Against pytorch-metric-learning


def test_triplet_equals_the_peer():
    z, label = sphere(12), torch.arange(12) // 3
    anchor, positive = (label[:, None] == label).triu(1).nonzero().unbind(1)
    squared = torch.cdist(z, z).square()
    for rule in (HardNegatives(4), SemiHardNegatives(), AllNegatives()):
        candidates = Candidates(squared[anchor], label[anchor, None] == label, 4, squared[anchor, positive])
        chosen = rule(candidates, None)
        pair, column = (label[chosen] != label[anchor, None]).nonzero().unbind(1)
        theirs = peer.TripletMarginLoss(0.4, distance=EUCLID, reducer=reducers.SumReducer())
        expected = theirs(z, label, (anchor[pair], positive[pair], chosen[pair, column]))
        assert triplet(z, label, margin=0.4, negatives=rule).item() == pytest.approx(expected.item())


def test_margin_equals_the_peer():
    z, label = sphere(8), torch.arange(8) // 2
    anchor, positive = torch.arange(0, 8, 2), torch.arange(1, 8, 2)
    nearest = HardNegatives(1)

    def of_anchors(candidates: Candidates, generator: torch.Generator | None) -> torch.Tensor:
        row = torch.arange(8)[:, None]
        return torch.where(row % 2 == 0, nearest(candidates), row)  # anchors only, because the peer takes triplets

    negative = nearest(Candidates(torch.cdist(z, z).square(), label[:, None] == label, 4)).squeeze(1)[anchor]
    theirs = peer.MarginLoss(0.3, beta=0.9, distance=EUCLID, reducer=reducers.SumReducer())
    expected = theirs(z, label, (anchor, positive, negative))
    assert margin_loss(z, label, margin=0.3, beta=0.9, negatives=of_anchors).item() == pytest.approx(expected.item())


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")  # raised by the peer
def test_histogram_equals_the_peer():
    z, label = torch.randn(12, 3, generator=rng(), dtype=torch.float64), torch.arange(12) // 3
    for bins in (5, 25, 51):
        expected = peer.HistogramLoss(n_bins=bins - 1)(z, label)
        assert histogram(z, label, bins=bins).item() == pytest.approx(expected.item(), rel=1e-5)


def test_nt_xent_equals_the_peer():
    z, label = torch.randn(8, 5, generator=rng(), dtype=torch.float64), torch.arange(8) // 2
    expected = peer.NTXentLoss(temperature=0.3)(z, label)
    assert nt_xent(z, label, temperature=0.3).item() == pytest.approx(expected.item())
    z, label = torch.randn(20, 5, generator=rng(), dtype=torch.float64), torch.arange(20) // 5  # more than two views
    expected = peer.SupConLoss(temperature=0.3)(z, label)
    assert nt_xent(z, label, temperature=0.3).item() == pytest.approx(expected.item())


def test_vicreg_of_two_views_equals_the_peer():
    first, second = torch.randn(2, 6, 4, generator=rng(), dtype=torch.float64)
    expected = peer.VICRegLoss(invariance_lambda=25, variance_mu=20, covariance_v=2)(first, ref_emb=second)
    views, label = torch.stack([first, second], 1).view(12, 4), torch.arange(12) // 2
    loss = vicreg(views, label, invariance=25.0, variance=20.0, covariance=2.0)
    assert loss.item() == pytest.approx(expected.item())


def test_barlow_twins_of_two_views_equals_the_paper():
    first, second = torch.randn(2, 50, 4, generator=rng(), dtype=torch.float64)
    norm = torch.nn.BatchNorm1d(4, affine=False).double()
    cross = norm(first).T @ norm(second) / 50
    expected = (cross.diagonal() - 1).square().sum() + 0.0051 * (cross - cross.diag().diag()).square().sum()
    views, label = torch.stack([first, second], 1).view(100, 4), torch.arange(100) // 2
    assert barlow_twins(views, label, redundancy=0.0051).item() == pytest.approx(expected.item())


# Properties of all losses


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_equals_the_numerical_gradient(name):
    source, loss = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3]), LOSSES[name]
    z = sphere(8, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: loss(v, source), z)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["contrastive", "margin", "binomial"])
def test_gradient_under_each_rule_equals_the_numerical_gradient(name, rule):
    source, loss = torch.tensor([0, 0, 1, 1, 2, 2]), LOSSES[name]
    z = sphere(6, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: loss(v, source, negatives=rule, rng=rng()), z)


@pytest.mark.parametrize("source", [[], [0], [0, 0], [0, 1, 2], [0, 0, 0]])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_without_pairs_is_finite_and_zero_without_views(name, source):
    z = sphere(len(source)).requires_grad_()
    loss = LOSSES[name](z, torch.tensor(source, dtype=torch.long))
    loss.backward()
    assert loss.shape == ()
    assert bool(loss.isfinite())
    assert bool(z.grad.isfinite().all())
    if len(source) < 2:
        assert loss.item() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_identical_views_have_finite_gradients(name):
    z = sphere(1).float().repeat(6, 1).requires_grad_()
    LOSSES[name](z, torch.tensor([0, 0, 1, 1, 2, 2])).backward()
    assert bool(z.grad.isfinite().all())


@pytest.mark.parametrize("name", LOSSES)
def test_order_of_rows_does_not_matter(name):
    z, source = sphere(10), torch.arange(10) // 2
    order = torch.tensor([4, 0, 8, 2, 6, 9, 1, 5, 3, 7])  # the first view of each source still comes first
    assert LOSSES[name](z[order], source[order]).item() == pytest.approx(LOSSES[name](z, source).item())


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_exact_under_autocast(name):
    z, source = sphere(12).float(), torch.arange(12) // 3
    exact = LOSSES[name](z, source)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(LOSSES[name](z, source), exact)


# Configured forms


@pytest.mark.parametrize(
    ("configured", "loss", "options"),
    [
        (Contrastive(1.5, HardNegatives(2)), contrastive, {"margin": 1.5}),
        (Margin(0.7, 1.1, HardNegatives(2)), margin_loss, {"margin": 0.7, "beta": 1.1}),
        (Triplet(1.9, HardNegatives(2)), triplet, {"margin": 1.9}),
    ],
)
def test_losses_on_distances_normalise_embeddings_to_unit_length(configured, loss, options):
    z, source = 3 * torch.randn(9, 4, generator=rng()), torch.arange(9) // 3
    unit = z / z.square().sum(1, keepdim=True).sqrt()
    expected = loss(unit, source, negatives=HardNegatives(2), **options)
    torch.testing.assert_close(configured(z, source, rng()), expected)
    assert float(expected) > 0


@pytest.mark.parametrize(
    ("configured", "loss", "options"),
    [
        (
            BinomialDeviance(2.0, 0.5, 3.0),
            binomial_deviance,
            {"alpha": 2.0, "beta": 0.5, "cost": 3.0, "negatives": HARD},
        ),
        (Histogram(9), histogram, {"bins": 9}),
        (NTXent(0.2), nt_xent, {"temperature": 0.2}),
        (VICReg(2.0, 3.0, 4.0), vicreg, {"invariance": 2.0, "variance": 3.0, "covariance": 4.0}),
        (BarlowTwins(0.3), barlow_twins, {"redundancy": 0.3}),
    ],
)
def test_other_losses_take_embeddings_as_they_are(configured, loss, options):
    z, source = 3 * torch.randn(9, 4, generator=rng()), torch.arange(9) // 3
    assert torch.equal(configured(z, source, rng()), loss(z, source, **options))


@pytest.mark.parametrize("loss", [Contrastive, BinomialDeviance, Margin])
@pytest.mark.parametrize("rule", RULES)
def test_negatives_are_drawn_from_the_random_generator(loss, rule):
    z, source = 3 * torch.randn(9, 4, generator=rng()), torch.arange(9) // 3
    options = {"margin": 1.5} if loss is not BinomialDeviance else {}
    first, again, other = (loss(negatives=rule, **options)(z, source, rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert torch.equal(first, other) == isinstance(rule, HardNegatives | AllNegatives)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Contrastive(margin=2.1), r"margin must be in \(0, 2\], got 2.1"),
        (lambda: Margin(margin=0), "margin must be above 0 and finite, got 0"),
        (lambda: Margin(beta=3), r"beta must be in \(0, 2\], got 3"),
        (lambda: Triplet(margin=float("nan")), r"margin must be in \(0, 2\], got nan"),
        (lambda: BinomialDeviance(alpha=0), "alpha must be above 0 and finite, got 0"),
        (lambda: BinomialDeviance(cost=-1), "cost must be above 0 and finite, got -1"),
        (lambda: Histogram(1), "bins must be at least 2, got 1"),
        (lambda: NTXent(float("inf")), "temperature must be above 0 and finite, got inf"),
        (lambda: VICReg(variance=-1), r"must be at least 0 and finite, got \(25.0, -1, 1.0\)"),
        (lambda: BarlowTwins(0), "redundancy must be above 0 and finite, got 0"),
    ],
)
def test_options_out_of_range_are_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()
