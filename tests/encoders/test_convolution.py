"""The dilated convolution against loops over events: its output, its receptive field, and padding."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import make
from eventvec.encoders import EventEncoder, TemporalConvolution
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences, stack


class Values(nn.Module):
    """An event encoder that returns one column."""

    dim = 2

    def forward(self, x: Sequences) -> Tensor:
        return x.values("v")


def series(*lengths: int, seed: int = 0) -> Sequences:
    sizes = torch.tensor(lengths)
    values = torch.randn(int(sizes.sum()), 2, generator=torch.Generator().manual_seed(seed))
    return Sequences({"v": values}, sizes.cumsum(0) - sizes, sizes)


def build(**options: int) -> TemporalConvolution:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = TemporalConvolution(Values(), **{"dim": 3, "width": 4, "layers": 3, **options})
        for weight in encoder.parameters():
            nn.init.normal_(weight, std=0.4)
    return encoder.eval()


def slow(encoder: TemporalConvolution, events: Tensor) -> Tensor:
    """Return the embedding of one row of events `(t, 2)`, one event and one tap at a time."""
    length, middle = len(events), encoder.kernel // 2
    h = [encoder.inputs(event) for event in events]
    for i, block in enumerate(encoder.blocks):
        inner = [values.clamp(min=0) for values in h]
        for conv in (block.first, block.second):
            outer = []
            for t in range(length):
                total = conv.bias.clone()
                for tap in range(encoder.kernel):
                    at = t + (tap - middle) * 2**i
                    if 0 <= at < length:
                        total = total + conv.weight[:, :, tap] @ inner[at]
                outer.append(total)
            inner = [values.clamp(min=0) for values in outer]
        h = [a + b for a, b in zip(h, outer, strict=True)]
    mean = sum(h) / length if length else torch.zeros(encoder.width)
    return encoder.outputs(mean)


@pytest.mark.parametrize(("layers", "kernel"), [(1, 1), (1, 3), (3, 3), (2, 5)])
def test_equals_a_loop_over_events(layers, kernel):
    encoder, x = build(layers=layers, kernel=kernel), series(7, 1, 0, 12, 2)
    rows = [x.columns["v"][start : start + length] for start, length in zip(x.starts, x.lengths, strict=True)]
    torch.testing.assert_close(encoder(x), torch.stack([slow(encoder, row) for row in rows]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("layers", "kernel", "field"), [(1, 3, 5), (3, 3, 29), (2, 5, 25), (4, 1, 1)])
def test_the_receptive_field_is_as_large_as_stated(layers, kernel, field):
    encoder = build(layers=layers, kernel=kernel)
    assert encoder.field == field
    x, reach = series(61), field // 2
    for weight in encoder.parameters():
        weight.data.abs_()  # with positive numbers, no ReLU blocks a gradient
    h = torch.rand(1, encoder.width, 61, generator=torch.Generator().manual_seed(0)).requires_grad_()
    out = h
    for block in encoder.blocks:
        out = block(out, x.mask().unsqueeze(1))
    (gradient,) = torch.autograd.grad(out[0, :, 30].sum(), h)
    reached = gradient[0].abs().sum(0).nonzero().squeeze(1)
    assert (int(reached[0]), int(reached[-1])) == (30 - reach, 30 + reach)


def test_padding_and_other_rows_have_no_influence():
    encoder, x = build(), series(3, 0, 9, 1)
    z = encoder(x)
    alone = torch.cat([encoder(x[[row]]) for row in range(len(x))])
    torch.testing.assert_close(alone, z, rtol=0, atol=1e-6)
    for length in (40, 41, 300):
        torch.testing.assert_close(encoder(stack(x, series(length, seed=1)))[:-1], z, rtol=0, atol=1e-6)


def test_the_order_of_events_matters_but_hardly_their_position_in_a_long_row():
    encoder = build()
    x = series(9)
    reversed_rows = x.take(torch.arange(9).flip(0), x.lengths)
    assert not torch.allclose(encoder(x), encoder(reversed_rows), atol=1e-3)
    early, late = torch.zeros(400, 2), torch.zeros(400, 2)
    early[100:109], late[250:259] = x.columns["v"], x.columns["v"]
    both = Sequences({"v": torch.cat([early, late])}, torch.tensor([0, 400]), torch.tensor([400, 400]))
    first, second = encoder(both)
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lengths", [(0,), (0, 0, 0), (0, 5, 0)])
def test_an_empty_row_gives_the_output_layers_bias(lengths):
    encoder = build()
    z = encoder(series(*lengths))
    for row, length in enumerate(lengths):
        assert torch.equal(z[row], encoder.outputs.bias) == (length == 0)
    z[0].sum().backward()
    assert encoder.outputs.bias.grad.tolist() == [1, 1, 1]


def test_gradients_reach_every_weight():
    encoder = build().train()
    encoder(series(6, 3)).square().sum().backward()
    assert all(bool(weight.grad.any()) for weight in encoder.parameters())


def test_any_event_encoder_is_accepted():
    x = make.sequences([5, 0, 8])
    encoder = TemporalConvolution(EventEncoder(make.schema(), make.ALL_TIMES), dim=6, layers=2, width=5)
    assert encoder(x).shape == (3, 6)
    assert encoder(x).dtype == torch.float32


@pytest.mark.parametrize("wrong", [{"kernel": 4}, {"kernel": 0}, {"layers": 0}, {"width": 0}, {"dim": 0}])
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be (at least 1|odd), got"):
        TemporalConvolution(Values(), **wrong)


def test_learns_the_frequency_of_a_series_whose_phase_is_random():
    rng = torch.Generator().manual_seed(0)
    label = torch.arange(40) % 2
    phase = 2 * math.pi * torch.rand(40, 1, generator=rng)
    angle = torch.arange(48) * torch.where(label == 0, 0.3, 0.6)[:, None] + phase
    values = torch.stack([angle.sin(), torch.zeros_like(angle)], -1).view(-1, 2)
    x = Sequences({"v": values}, torch.arange(40) * 48, torch.full((40,), 48))
    encoder = build(dim=1, layers=3, width=8).train()
    optimizer = torch.optim.Adam(encoder.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(encoder(x[:30]).squeeze(1), label[:30].float())
        loss.backward()
        optimizer.step()
    assert bool(((encoder(x[30:]).squeeze(1) > 0) == (label[30:] == 1)).all())
