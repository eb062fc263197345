"""The CoLES paper's transformer against torch's own layers. Laws of all encoders are in test_encoders.py."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import make
from eventvec.encoders import EventEncoder, PaperTransformer
from eventvec.encoders.attention import attend
from eventvec.errors import ConfigError
from eventvec.sequences import stack


def test_the_encoder_is_torchs_layers_over_the_start_token_and_the_events():
    x = make.sequences([5], spare=0)
    encoder = make.encoder("transformer_paper", layers=2, time=())
    z = torch.cat([encoder.start[None], encoder.events(x) @ encoder.inputs.weight.T + encoder.inputs.bias])
    for layer in encoder.blocks.layers:
        query, key, value = (z @ layer.self_attn.in_proj_weight.T + layer.self_attn.in_proj_bias).chunk(3, 1)
        heads = []
        for q, k, v in zip(query.chunk(4, 1), key.chunk(4, 1), value.chunk(4, 1), strict=True):
            heads.append((q @ k.T / q.shape[1] ** 0.5).softmax(1) @ v)  # every event attends to all events
        z = layer.norm1(z + layer.self_attn.out_proj(torch.cat(heads, 1)))  # post-norm
        z = layer.norm2(z + layer.linear2(layer.linear1(z).relu()))
    torch.testing.assert_close(encoder(x)[0], encoder.blocks.norm(z)[0], rtol=1e-4, atol=1e-5)


def test_order_has_an_influence_through_columns_only():
    x = make.sequences([5], spare=0)
    shuffled = x.take(torch.tensor([3, 0, 4, 2, 1]), x.lengths)
    encoder = make.encoder("transformer_paper", time=())
    torch.testing.assert_close(encoder(x), encoder(shuffled), rtol=0, atol=1e-5)
    timed = make.encoder("transformer_paper", time=("hour",))
    torch.testing.assert_close(timed(x), timed(shuffled), rtol=0, atol=1e-5)  # the hour is a column of the event


def test_padding_has_no_influence():
    x, encoder = make.sequences([4, 2]), make.encoder("transformer_paper")
    padded = encoder(stack(x, make.sequences([40], seed=3)))[:2]
    torch.testing.assert_close(padded, encoder(x), rtol=0, atol=1e-5)


def test_the_latest_events_are_read():
    x = make.sequences([9, 3])
    encoder = make.encoder("transformer_paper")
    encoder.longest = 4
    lengths = x.lengths.clamp(max=4)
    latest = x.slice(torch.arange(2), x.lengths - lengths, lengths)
    assert torch.equal(encoder(x), encoder(latest))


def test_an_empty_row_gives_the_start_token_alone():
    encoder = make.encoder("transformer_paper")
    alone = encoder.blocks(encoder.start.view(1, 1, -1))[0, 0]
    torch.testing.assert_close(encoder(make.sequences([4, 0]))[1], alone, rtol=0, atol=1e-6)


def test_the_default_sizes_are_those_of_the_paper():
    encoder = PaperTransformer(EventEncoder(make.schema()))
    layer = encoder.blocks.layers[0]
    assert (encoder.dim, len(encoder.blocks.layers), layer.self_attn.num_heads) == (
        128,
        4,
        4,
    )  # for the Age data set
    assert (layer.linear1.out_features, layer.dropout.p, layer.norm_first) == (128, 0.1, False)
    assert layer.activation is nn.functional.relu


@pytest.mark.parametrize(
    "wrong",
    [{"dim": 6}, {"heads": 0}, {"layers": 0}, {"width": 0}, {"longest": 0}, {"dropout": 1}, {"dropout": -0.1}],
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=rf"{next(iter(wrong))} must be (at least 1|in \[0, 1\)|a multiple of heads)"):
        PaperTransformer(EventEncoder(make.schema()), **wrong)


@pytest.mark.parametrize("name", ["transformer", "transformer_paper"])
@pytest.mark.parametrize("lengths", [[3] * 9, [0, 7, 1, 30, 2, 2, 5, 0, 9, 11, 4, 3, 8, 1, 40, 6, 2, 5, 17, 3]])
def test_groups_of_rows_give_the_outputs_and_gradients_of_torchs_layers_on_padded_rows(name: str, lengths: list[int]):
    x, encoder = make.sequences(lengths), without_dropout(make.encoder(name)).train()
    tokens = torch.randn(x.total, encoder.dim, requires_grad=True)
    out = attend(encoder.blocks, encoder.start, x, tokens)
    padded = torch.cat([encoder.start.expand(len(x), 1, -1), x.pad(tokens)], 1)
    padding = nn.functional.pad(~x.mask(), (1, 0), value=False)
    expected = encoder.blocks(padded, src_key_padding_mask=padding)[:, 0]
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    weight, inputs = torch.randn_like(out), [tokens, encoder.start, *encoder.blocks.parameters()]
    ours, theirs = (torch.autograd.grad((z * weight).sum(), inputs) for z in (out, expected))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_activations_are_dropped_in_training_and_attention_weights_in_the_papers_encoder_alone():
    x = make.sequences([6] * 4)
    for name, in_attention in (("transformer", False), ("transformer_paper", True)):
        encoder = make.encoder(name).train()
        assert not torch.equal(encoder(x), encoder(x))
        without_dropout(encoder)
        assert torch.equal(encoder(x), encoder(x)) is not in_attention
        assert torch.equal(encoder.eval()(x), encoder(x))


def without_dropout(encoder: nn.Module) -> nn.Module:
    """Return an encoder whose modules drop nothing; `attend` is told the dropout of attention weights."""
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return encoder
