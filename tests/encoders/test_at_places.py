"""Cross-attention and the kernel mean, against loops over rows and events."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from eventvec.encoders.at_places import CrossAttention, KernelMean, context_at, targets_of
from eventvec.encoders.interface import capabilities
from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Sequences
from laws import rng

LENGTHS = [3, 1, 5]


def points(lengths: list[int] = LENGTHS) -> Sequences:
    """Return rows of covariates of two numbers and observations, with two events of no row before each row."""
    sizes = torch.tensor(lengths)
    total = int(sizes.sum()) + 2 * len(lengths)
    columns = {"x": torch.randn(total, 2, generator=rng()), "y": torch.randn(total, generator=rng(1))}
    place = torch.randn(len(lengths), 2, generator=rng(2))
    return Sequences(columns, (sizes + 2).cumsum(0) - sizes, sizes, {"x*": place})


def encoder(kind: str) -> CrossAttention | KernelMean:
    torch.manual_seed(0)
    events = PointEncoder(Numbers(1, 4), Numbers(2))
    built = CrossAttention(events, dim=8, heads=2) if kind == "cross" else KernelMean(events, ridge=0.1)
    for weight in built.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return built.eval()


def test_cross_attention_equals_a_loop():
    built, x = encoder("cross"), points()
    z = built.at(x, x.static["x*"])
    states = built.states(x) if hasattr(built, "states") else built.points.states(x)
    first = 0
    for row, length in enumerate(LENGTHS):
        covariates = x.values("x")[first : first + length]
        values = states[first : first + length]
        first += length
        query, keys = built.key(x.static["x*"][row]), built.key(covariates)
        for head in range(2):
            part = slice(4 * head, 4 * head + 4)
            weights = F.softmax(keys[:, part] @ query[part] / math.sqrt(4), 0)
            torch.testing.assert_close(z[row, part], weights @ values[:, part])


@pytest.mark.parametrize("softmax", [True, False])
def test_the_kernel_mean_equals_a_loop(softmax):
    built, x = encoder("kernel"), points()
    built.softmax = softmax
    z = built.at(x, x.static["x*"])
    scale, lengths = F.softplus(built.raw_scale), F.softplus(built.raw_length)

    def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return scale * torch.exp(-(((a - b) / lengths) ** 2).sum() / 2)

    first = 0
    for row, length in enumerate(LENGTHS):
        covariates, y = x.values("x")[first : first + length], x.values("y")[first : first + length]
        first += length
        matrix = torch.stack([torch.stack([kernel(a, b) for b in covariates]) for a in covariates])
        toward = torch.stack([kernel(a, x.static["x*"][row]) for a in covariates])
        weights = torch.linalg.inv(matrix + 0.1 * torch.eye(length)) @ toward
        weights = F.softmax(weights, 0) if softmax else weights
        torch.testing.assert_close(z[row], weights @ built.events.observation(y))


@pytest.mark.parametrize("kind", ["cross", "kernel"])
def test_a_row_depends_on_its_place_and_on_no_other_row(kind):
    built, x = encoder(kind), points()
    context, covariate = context_at(built, x)
    torch.testing.assert_close(covariate, x.static["x*"])
    for row in range(len(x)):
        torch.testing.assert_close(context_at(built, x[[row]])[0], context[[row]])
    elsewhere = built.at(x, covariate + 1)
    differs = ~torch.isclose(elsewhere, context, atol=1e-5).all(1)
    assert differs.tolist() == [True, False, True]  # a row of one event has one weight, 1
    assert capabilities(built).at is not None
    assert capabilities(SetEncoder(PointEncoder(), dim=8)).at is None


@pytest.mark.parametrize("kind", ["set", "cross", "kernel"])
def test_several_targets_equal_one_at_a_time(kind):
    built = SetEncoder(encoder("cross").events, dim=8, layers=1).eval() if kind == "set" else encoder(kind)
    x, counts = points(), torch.tensor([2, 0, 3])
    places = torch.randn(7, 2, generator=rng(3))
    nested = Sequences({"x": places}, torch.tensor([1, 0, 4]), counts)
    context, covariate = context_at(built, replace(x, static={"targets": nested}))
    torch.testing.assert_close(covariate, places[[1, 2, 4, 5, 6]])
    for target, (row, place) in enumerate(zip([0, 0, 2, 2, 2], [1, 2, 4, 5, 6], strict=True)):
        alone = replace(x[[row]], static={"x*": places[[place]]})
        torch.testing.assert_close(context_at(built, alone)[0][0], context[target])


def test_rows_of_which_none_has_a_target_give_no_prediction():
    x, none = points(), torch.zeros(3, dtype=torch.long)
    nested = Sequences({"x": torch.rand(1, 2)}, none, none)
    for built in (encoder("cross"), encoder("kernel")):
        context, covariate = context_at(built, replace(x, static={"targets": nested}))
        assert (context.shape, covariate.shape) == ((0, built.dim), (0, 2))


def test_targets_without_rows_or_contexts_are_refused():
    x = points([2, 0])
    with pytest.raises(DataError, match=r"static\['targets'\] must have one row for each of 2 rows, got 1"):
        targets_of(encoder("cross").events, replace(x, static={"targets": x[:1]}))
    with pytest.raises(DataError, match="a prediction needs a context, but 1 of 2 rows have no event"):
        targets_of(encoder("cross").events, replace(x, static={"targets": points([1, 1])}))


@pytest.mark.parametrize("kind", ["cross", "kernel"])
def test_an_empty_row_gives_finite_values_and_gradients(kind):
    built, x = encoder(kind), points([0, 2])
    z = torch.cat([built.at(x, x.static["x*"]), built(x)])
    z.square().sum().backward()
    assert z.isfinite().all()
    assert all(bool(weight.grad.isfinite().all()) for weight in built.parameters() if weight.grad is not None)


def test_without_a_place_the_points_have_equal_weights():
    x = points()
    kernel, cross = encoder("kernel"), encoder("cross")
    rows = kernel.events.observation(x.values("y")).split(LENGTHS)
    torch.testing.assert_close(kernel(x), torch.stack([row.mean(0) for row in rows]))
    torch.testing.assert_close(cross(x), cross.points(x))


def test_options_out_of_range_are_refused():
    with pytest.raises(ConfigError, match="ridge must be above 0 and finite, got 0"):
        KernelMean(PointEncoder(), ridge=0.0)
    with pytest.raises(ConfigError, match="dim must be a multiple of heads, got dim 10, heads 4"):
        CrossAttention(PointEncoder(), dim=10, heads=4)
    with pytest.raises(ConfigError, match="heads must be at least 1, got 0"):
        CrossAttention(PointEncoder(), dim=8, heads=0)
