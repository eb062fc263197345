"""Harmonics, against a loop, and heads that read a place."""

from __future__ import annotations

import math

import pytest
import torch

from eventvec.encoders.heads import GatedHead, PlainHead, SigmoidHead
from eventvec.encoders.sinusoidal import Harmonics
from eventvec.errors import ConfigError, DataError
from eventvec.precision import matmul_precision
from laws import rng


def test_harmonics_equal_a_loop():
    assert Harmonics().state_dict() == {}
    values = torch.randn(4, 2, generator=rng())
    features = Harmonics(size=2, count=3, period=5.0)(values)
    for row in range(4):
        angles = [2 * math.pi * k * float(values[row, i]) / 5 for i in range(2) for k in (1, 2, 3)]
        expected = [*map(math.sin, angles), *map(math.cos, angles)]
        assert features[row].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.usefixtures("bfloat16_everywhere")
def test_angles_keep_their_precision_where_products_are_bfloat16():
    network, values = Harmonics(), 5 * torch.randn(50, generator=rng())
    with matmul_precision("bfloat16", torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        rounded = network(values)
    torch.testing.assert_close(rounded, network(values), rtol=0, atol=1e-4)


def test_values_of_another_shape_are_refused():
    with pytest.raises(DataError, match=r"covariates have shape \(3,\), but this network takes 2 numbers"):
        Harmonics(size=2)(torch.rand(4, 3))


@pytest.mark.parametrize("build", [Harmonics, GatedHead])
@pytest.mark.parametrize("option", [{"count": 0}, {"period": 0.0}, {"period": math.inf}, {"period": math.nan}])
def test_numbers_out_of_range_are_refused(build, option):
    with pytest.raises(ConfigError, match=r"count must be at least 1, got 0|period must be above 0 and finite, got"):
        build(**option)


def test_a_gated_head_scales_and_shifts_the_context():
    torch.manual_seed(0)
    head = GatedHead(count=3, period=4.0).build(context=5, covariate=2, out=4)
    context, place = torch.randn(6, 5, generator=rng()), torch.randn(6, 2, generator=rng(1))
    f = head.features(place)
    expected = head.net(context * head.scale(f) + head.shift(f))
    torch.testing.assert_close(head(context, place), expected)
    assert not torch.allclose(head(context, place + 0.1), expected)


def test_a_sigmoid_head_gates_the_normalised_context_and_place():
    torch.manual_seed(0)
    head = SigmoidHead().build(context=3, covariate=2, out=4).requires_grad_(False)
    context, place = 5 + torch.randn(6, 3, generator=rng()), torch.randn(6, 2, generator=rng(1))
    out, expected = head(context, place), torch.empty(6, 4)
    values = torch.cat([context, place], 1)
    mean, variance = values.mean(0), values.var(0, unbiased=False)
    for row in range(6):
        h = [(values[row, k] - mean[k]) / (variance[k] + 1e-5) ** 0.5 for k in range(5)]
        for k in range(4):
            gate, value = (
                sum(float(layer.weight[k, i]) * float(h[i]) for i in range(5)) + float(layer.bias[k])
                for layer in (head.net.gate, head.net.value)
            )
            expected[row, k] = value / (1 + math.exp(-gate))
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(head.eval()(context[:1], place[:1]), head(context, place)[:1])


def test_a_plain_head_reads_both_side_by_side():
    head = PlainHead().build(context=5, covariate=2, out=4)
    assert list(head.state_dict())[:2] == ["0.weight", "0.bias"]  # the names in runs of earlier versions
    assert head[0].weight.shape == (5, 7)
