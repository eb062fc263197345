"""Losses on graded similarities against double loops, limits in the temperature, and numerical gradients."""

from __future__ import annotations

import functools
import math
from decimal import Decimal, localcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from eventvec.losses import expclr_loss, feature_similarity, largest_distance, pair_loss, quadratic, with_labels

NORMALIZE = ("none", "row_mean")
QUADRATIC = functools.partial(quadratic, delta=1.0, normalize="row_mean")
EXPCLR = functools.partial(expclr_loss, delta=1.0, temperature=1.0, normalize="row_mean")
PAIR_LOSS = functools.partial(pair_loss, margin=1.0, hinge="squared")


def draw(rows: int, dim: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_distance(a: list[float], b: list[float]) -> float:
    """Return the distance over the entries that both have, scaled to all entries; NaN if they share none."""
    shared = [(p - q) ** 2 for p, q in zip(a, b, strict=True) if not math.isnan(p - q)]
    return math.sqrt(sum(shared) * len(a) / len(shared)) if shared else math.nan


def slow_similarity(f: list[list[float]], largest: float | None = None) -> list[list[float]]:
    n = range(len(f))
    bound = largest or max(d for i in n for j in n if not math.isnan(d := slow_distance(f[i], f[j])))
    return [[max(1 - slow_distance(f[i], f[j]) / bound, 0 * slow_distance(f[i], f[j])) ** 2 for j in n] for i in n]


def slow_errors(z: list[list[float]], s: list[list[float]], delta: float | str, normalize: str) -> list[float]:
    """Return ((1 - s)Δ - D)² of each ordered pair, one at a time."""
    n, errors = len(z), []
    if delta == "auto":
        delta = n * n / sum(1 - s[i][j] for i in range(n) for j in range(n))
    for i in range(n):
        mean = sum(math.dist(z[i], z[j]) for j in range(n)) / n if normalize == "row_mean" else 1.0
        errors += [((1 - s[i][j]) * delta - math.dist(z[i], z[j]) / mean) ** 2 for j in range(n)]
    return errors


@given(st.integers(2, 9), st.integers(1, 5), st.integers(0, 10**6))
def test_feature_similarity_equals_a_double_loop(rows, dim, seed):
    f = draw(rows, dim, seed)
    expected = torch.tensor(slow_similarity(f.tolist()), dtype=torch.float64)
    torch.testing.assert_close(feature_similarity(f), expected)


@given(
    st.integers(2, 9),
    st.sampled_from([0.1, 1.0, 2.5, "auto"]),
    st.sampled_from([0.05, 1.0, 30.0]),
    st.sampled_from(NORMALIZE),
    st.integers(0, 10**6),
)
def test_quadratic_and_expclr_equal_a_double_loop(rows, delta, temperature, normalize, seed):
    z, s = draw(rows, 3, seed), feature_similarity(draw(rows, 2, seed + 1))
    errors = slow_errors(z.tolist(), s.tolist(), delta, normalize)
    mean = sum(errors) / rows**2
    assert quadratic(z, s, delta=delta, normalize=normalize).item() == pytest.approx(mean, rel=1e-9)
    worst = max(errors)
    expected = worst + temperature * math.log(sum(math.exp((e - worst) / temperature) for e in errors) / rows**2)
    loss = expclr_loss(z, s, delta=delta, temperature=temperature, normalize=normalize).item()
    assert loss == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("temperature", [1e-3, 0.1, 1.0, 30.0, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_digits_are_lost_at_any_temperature(temperature, dtype):
    z, s = draw(40, 3), feature_similarity(draw(40, 2, 1))
    s[3, 7] = math.nan
    errors = [Decimal(e) for e in slow_errors(z.tolist(), s.tolist(), 1.5, "none") if not math.isnan(e)]
    with localcontext(prec=60):
        tau = Decimal(temperature)
        expected = tau * (sum((e / tau).exp() for e in errors) / len(errors)).ln()
    z = z.to(dtype).requires_grad_()
    options = {"delta": 1.5, "normalize": "none"}
    loss = expclr_loss(z, s.to(dtype), temperature=temperature, **options)
    rel = 1e-5 if dtype is torch.float32 else 1e-12
    assert loss.item() == pytest.approx(float(expected), rel=rel)
    (gradient,) = torch.autograd.grad(loss, z)
    if temperature == 1e12:  # all pairs weigh equally
        (equal,) = torch.autograd.grad(quadratic(z, s.to(dtype), **options), z)
        torch.testing.assert_close(gradient, equal, rtol=10 * rel, atol=rel)


@given(st.integers(2, 9), st.integers(1, 5), st.floats(0.2, 3.0), st.integers(0, 10**6))
def test_features_that_are_missing_are_left_out_of_both_rows(rows, dim, largest, seed):
    f = draw(rows, dim, seed)
    f[torch.rand(f.shape, generator=torch.Generator().manual_seed(seed)) < 0.3] = math.nan
    f[0] = 1.0
    f[1] = 2.0
    for bound in (None, largest):
        expected = torch.tensor(slow_similarity(f.tolist(), bound), dtype=torch.float64)
        similarity = feature_similarity(f, largest=bound)
        torch.testing.assert_close(similarity, expected, equal_nan=True, rtol=1e-6, atol=1e-6)


def test_columns_that_are_missing_together_may_count_as_one_entry():
    f = draw(8, 4)
    f[1:3, 1:] = math.nan  # three columns of one entry
    f[3, 0] = math.nan
    entries = torch.tensor([1.0, *[1 / 3] * 3], dtype=torch.float64)
    expected = torch.empty(8, 8, dtype=torch.float64)
    for i, a in enumerate(f):
        for j, b in enumerate(f):
            shared = ~(a - b).isnan()
            count = float(shared[0]) + float(shared[1])
            expected[i, j] = ((a - b)[shared].square().sum() * 2 / count).sqrt() if count else math.nan
    largest = expected.nan_to_num(0).max()
    torch.testing.assert_close(
        feature_similarity(f, entries=entries), (1 - expected / largest).square(), equal_nan=True
    )
    assert largest_distance(f, entries=entries) == pytest.approx(float(largest))
    assert not torch.equal(feature_similarity(f)[0], feature_similarity(f, entries=entries)[0])


def test_the_largest_distance_of_a_data_set_is_that_of_its_rows(monkeypatch: pytest.MonkeyPatch):
    f = draw(1_100, 3)
    assert largest_distance(f) == pytest.approx(torch.cdist(f, f).max().item())
    batch = feature_similarity(f[:9], largest=largest_distance(f))
    torch.testing.assert_close(batch, feature_similarity(f)[:9, :9])
    f[3:, 1] = math.nan
    few = f[:40].tolist()
    assert largest_distance(f[:40]) == pytest.approx(max(slow_distance(a, b) for a in few for b in few))
    monkeypatch.setattr("eventvec.losses.similarity.MOST_ROWS", 10)
    assert largest_distance(f[:40]) == pytest.approx(largest_distance(f[:40:4]))
    assert largest_distance(f[:0]) == 0


def test_pairs_without_a_similarity_do_not_count():
    z, f = draw(6, 3), draw(6, 2, 1)
    s = feature_similarity(f)
    holes = s.clone()
    holes[1, 4] = holes[4, 1] = holes[2, 2] = math.nan
    known = ~holes.isnan()
    for delta in (1.3, "auto"):
        scale = known.sum() / (1 - s)[known].sum() if delta == "auto" else delta
        distance = torch.cdist(z, z)
        errors = ((1 - s) * scale - distance / distance.mean(1, keepdim=True)).square()[known]
        assert QUADRATIC(z, holes, delta=delta).item() == pytest.approx(errors.mean().item())
        expected = 0.5 * (torch.logsumexp(errors / 0.5, 0) - math.log(len(errors)))
        assert EXPCLR(z, holes, delta=delta, temperature=0.5).item() == pytest.approx(expected.item())
    squared = torch.cdist(z, z).square()
    pairs = (s * squared + (1 - s) * (1 - squared).clamp(min=0))[known]
    assert PAIR_LOSS(z, holes).item() == pytest.approx(pairs.mean().item())


@pytest.mark.parametrize("loss", [QUADRATIC, EXPCLR, PAIR_LOSS])
def test_without_any_similarity_the_loss_and_its_gradient_are_zero(loss):
    z = draw(4, 2).requires_grad_()
    value = loss(z, torch.full((4, 4), math.nan, dtype=torch.float64))
    value.backward()
    assert value.item() == 0
    assert torch.equal(z.grad, torch.zeros_like(z))


def test_labels_decide_about_the_pairs_that_have_them():
    s, label = feature_similarity(draw(4, 2)), torch.tensor([2, 3, 2, 0])
    joined = with_labels(s, label, torch.tensor([True, True, True, False]))
    for i in range(4):
        for j in range(4):
            both = 3 not in (i, j)
            assert joined[i, j].item() == (float(label[i] == label[j]) if both else s[i, j].item())


@given(
    st.integers(1, 9),
    st.sampled_from([0.2, 1.0, 4.0]),
    st.sampled_from(["squared", "distance"]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_pair_loss_equals_a_double_loop(rows, margin, hinge, labels, seed):
    z, graded = draw(rows, 3, seed), feature_similarity(draw(rows, 2, seed + 1))
    label = torch.randint(0, 3, (rows,), generator=torch.Generator().manual_seed(seed))
    s = (label[:, None] == label).double() if labels else graded
    total = 0.0
    for i in range(rows):
        for j in range(rows):
            distance = math.dist(z[i].tolist(), z[j].tolist())
            repulsion = max(0, margin**2 - distance**2) if hinge == "squared" else max(0, margin - distance) ** 2
            total += float(s[i, j]) * distance**2 + (1 - float(s[i, j])) * repulsion
    assert pair_loss(z, s, margin=margin, hinge=hinge).item() == pytest.approx(total / rows**2, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("margin", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("s", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_with_the_hinge_on_the_distance_the_pair_loss_is_the_quadratic_loss_and_a_constant(s, margin):
    similarity = torch.tensor([[1.0, s], [s, 1.0]], dtype=torch.float64)
    for distance in (0.0, 0.2 * margin, 0.9 * margin, margin):
        z = torch.tensor([[0.0], [distance]], dtype=torch.float64)
        pair = pair_loss(z, similarity, margin=margin, hinge="distance").item()
        square = quadratic(z, similarity, delta=margin, normalize="none").item()
        assert pair == pytest.approx(square + s * (1 - s) * margin**2 / 2)


@pytest.mark.parametrize(("s", "squared", "distance"), [(0.3, 1.0, 0.7), (0.7, 0.0, 0.3), (1.0, 0.0, 0.0)])
def test_the_printed_pair_loss_has_its_minimum_elsewhere(s, squared, distance):
    """The poster says that the quadratic loss has the same minimum; with the hinge on the distance it has."""
    similarity, grid = torch.tensor([[1.0, s], [s, 1.0]], dtype=torch.float64), torch.linspace(0, 1.5, 151).double()

    def best(loss) -> float:
        return float(grid[torch.stack([loss(torch.stack([g * 0, g])[:, None]) for g in grid]).argmin()])

    assert best(lambda z: pair_loss(z, similarity, margin=1.0, hinge="squared")) == pytest.approx(squared)
    assert best(lambda z: pair_loss(z, similarity, margin=1.0, hinge="distance")) == pytest.approx(distance)
    assert best(lambda z: quadratic(z, similarity, delta=1.0, normalize="none")) == pytest.approx(distance)


@given(st.integers(0, 10**6), st.sampled_from([0.5, 1.0, 3.0]))
def test_without_error_distances_are_between_two_multiples_of_those_of_the_features(seed, delta):
    """The bilipschitz property: D = Δ(1 - s) = Δ(2d/M - (d/M)²), which lies between Δd/M and 2Δd/M."""
    f = draw(3, 4, seed)
    apart, largest = torch.cdist(f, f), torch.cdist(f, f).max()
    target = delta * (1 - feature_similarity(f))  # three points: a triangle with these sides is a solution
    a, b, c = target[0, 1], target[0, 2], target[1, 2]
    x = (a.square() + b.square() - c.square()) / (2 * a)
    y = (b.square() - x.square()).clamp(min=0).sqrt()
    z = torch.stack([torch.stack([a * 0, a * 0]), torch.stack([a, a * 0]), torch.stack([x, y])])
    assert quadratic(z, feature_similarity(f), delta=delta, normalize="none").item() == pytest.approx(0, abs=1e-12)
    between = torch.cdist(z, z)[apart > 0] / (apart[apart > 0] * delta / largest)
    assert 1 - 1e-6 <= between.min().item() <= between.max().item() <= 2 + 1e-6


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_loss_falls_with_the_temperature_from_the_worst_pair_to_the_mean(normalize):
    z, s = draw(8, 3), feature_similarity(draw(8, 2, 1))
    errors = slow_errors(z.tolist(), s.tolist(), 1.0, normalize)
    losses = [EXPCLR(z, s, temperature=t, normalize=normalize).item() for t in (1e-4, 0.1, 1.0, 10.0, 1e6)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == pytest.approx(max(errors), rel=1e-2)
    mean = QUADRATIC(z, s, normalize=normalize).item()
    assert losses[-1] == pytest.approx(mean, rel=1e-4)
    assert EXPCLR(z, s, temperature=math.inf, normalize=normalize).item() == mean


@pytest.mark.parametrize("loss", [QUADRATIC, EXPCLR])
def test_loss_is_zero_only_if_distances_equal_their_targets(loss):
    position = torch.tensor([[0.0], [1.0], [3.0], [6.0]], dtype=torch.float64)
    similarity = 1 - torch.cdist(position, position) / 6  # linear, so that a line is a solution
    assert loss(position / 6 * 2.5, similarity, delta=2.5, normalize="none").item() == pytest.approx(0, abs=1e-12)
    assert loss(position / 6 * 2.4, similarity, delta=2.5, normalize="none").item() > 1e-4


@pytest.mark.parametrize("loss", [QUADRATIC, EXPCLR])
def test_normalised_distances_do_not_depend_on_the_scale(loss):
    z, s = draw(7, 4), feature_similarity(draw(7, 2, 1))
    assert loss(1e-3 * z, s).item() == pytest.approx(loss(z, s).item(), rel=1e-9)
    assert loss(2 * z, s, normalize="none").item() != pytest.approx(loss(z, s, normalize="none").item(), rel=1e-2)


@pytest.mark.parametrize("dim", [1, 3])
def test_automatic_delta_gives_target_distances_of_mean_one(dim):
    s = feature_similarity(draw(16, dim))
    delta = 1 / (1 - s).mean().item()
    z = draw(16, 3, 1)
    assert QUADRATIC(z, s, delta="auto").item() == pytest.approx(QUADRATIC(z, s, delta=delta).item())
    assert QUADRATIC(z, s, delta="auto").item() < QUADRATIC(z, s, delta=1.2 * delta).item()


def test_order_of_rows_does_not_matter():
    z, f = draw(9, 3), draw(9, 2, 1)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    for loss in (QUADRATIC, EXPCLR, PAIR_LOSS):
        shuffled = loss(z[order], feature_similarity(f[order])).item()
        assert shuffled == pytest.approx(loss(z, feature_similarity(f)).item(), rel=1e-9)


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("delta", [1.3, "auto"])
def test_gradient_equals_the_numerical_gradient(normalize, delta):
    z, s = draw(5, 3).requires_grad_(), feature_similarity(draw(5, 2, 1))
    assert torch.autograd.gradcheck(lambda v: quadratic(v, s, delta=delta, normalize=normalize), z)
    assert torch.autograd.gradcheck(lambda v: expclr_loss(v, s, delta=delta, temperature=0.5, normalize=normalize), z)
    assert torch.autograd.gradcheck(lambda v: pair_loss(v, s, margin=2.0, hinge="squared"), z)
    assert torch.autograd.gradcheck(lambda v: pair_loss(v, s, margin=2.0, hinge="distance"), z)


def test_gradient_weighs_pairs_by_a_softmax_of_their_errors():
    s = feature_similarity(draw(5, 2, 1))
    z = draw(5, 3).requires_grad_()
    gradient = torch.autograd.grad(EXPCLR(z, s, temperature=0.7), z)[0]
    distance = torch.cdist(z, z)
    errors = (1 - s - distance / distance.mean(1, keepdim=True)).square()
    weight = (errors / 0.7).flatten().softmax(0).view_as(errors).detach()
    torch.testing.assert_close(gradient, torch.autograd.grad((weight * errors).sum(), z)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("z", [torch.ones(4, 3), torch.tensor([[0.0], [0.0], [1.0], [1.0]]), torch.zeros(1, 2)])
def test_identical_rows_have_finite_losses_and_gradients(dtype, normalize, z):
    z = z.to(dtype).requires_grad_()
    for f in (torch.zeros(len(z), 2), torch.arange(2.0 * len(z)).view(-1, 2)):
        s = feature_similarity(f.to(dtype))
        for delta in (1.0, "auto"):
            loss = EXPCLR(z, s, delta=delta, normalize=normalize) + QUADRATIC(z, s, delta=delta, normalize=normalize)
            (gradient,) = torch.autograd.grad(loss + PAIR_LOSS(z, s), z)
            assert bool(loss.isfinite())
            assert bool(gradient.isfinite().all())


def test_rows_with_equal_features_should_have_equal_embeddings():
    s = feature_similarity(torch.ones(4, 2, dtype=torch.float64))
    assert torch.equal(s, torch.ones(4, 4, dtype=torch.float64))
    assert QUADRATIC(torch.ones(4, 3, dtype=torch.float64), s, delta="auto").item() == 0


def test_large_errors_do_not_overflow():
    z, s = 1e3 * draw(6, 2), torch.eye(6, dtype=torch.float64)
    worst = max(slow_errors(z.tolist(), s.tolist(), 1.0, "none"))
    assert EXPCLR(z, s, normalize="none").item() == pytest.approx(worst, rel=1e-4)
    assert EXPCLR(z.float(), s.float(), normalize="none").item() == pytest.approx(worst, rel=1e-4)
