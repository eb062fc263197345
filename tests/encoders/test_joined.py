"""Joined encoders: the parts' vectors side by side, states that continue exactly, and parts without a state."""

from __future__ import annotations

import copy

import pytest
import torch

import make
from eventvec.embedding import embed, encode
from eventvec.encoders import GRU, LSTM, Aggregates, Compressed, Joined, RunningHandcrafted
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences

MIXED = [3, 0, 7, 1, 12, 4]


def joined(name: str = "gru") -> Joined:
    """Return a learned encoder beside two others without weights."""
    schema = make.schema()
    compressed = Compressed(RunningHandcrafted(schema), components=4).fit(make.sequences(MIXED, seed=5))
    return Joined({"learned": make.encoder(name), "raw": RunningHandcrafted(schema), "small": compressed}).eval()


def test_vectors_are_those_of_the_parts_side_by_side() -> None:
    encoder, x = joined(), make.sequences(MIXED)
    z = encoder(x)
    assert z.shape == (6, encoder.dim)
    assert list(encoder.parts) == ["learned", "raw", "small"]
    for name, (start, end) in encoder.parts.items():
        assert torch.equal(z[:, start:end], encoder.encoders[name](x))
    assert encoder.parts["small"] == (encoder.dim - 4, encoder.dim)


@pytest.mark.parametrize("name", ["gru", "lstm"])
@pytest.mark.parametrize("read_out", [("last",), ("mean", "max")])
def test_a_continued_state_gives_the_vector_of_the_whole_history(name: str, read_out: tuple[str, ...]) -> None:
    parts, x = joined(name).encoders, make.sequences(MIXED)
    kind = GRU if name == "gru" else LSTM
    learned = kind(parts["learned"].events, dim=8, layers=2, read_out=read_out).eval()
    encoder = Joined({"learned": learned, **{other: parts[other] for other in ("raw", "small")}})
    assert encoder.parts["learned"] == (0, 8 * len(read_out))
    every, third = torch.arange(len(x)), x.lengths // 3
    state = None
    for first, length in ((0 * third, third), (third, third), (2 * third, x.lengths - 2 * third)):
        state = encoder.state(x.slice(every, first, length), state)
    assert state.shape == (6, encoder.stored_dim)
    assert torch.allclose(encoder.read(state), encoder(x), atol=1e-5)


def test_rows_of_one_history_are_read_once() -> None:
    encoder, x = joined(), make.sequences([9, 5])
    rows = torch.tensor([0, 0, 1, 0, 1])
    prefixes = x.slice(rows, torch.zeros(5, dtype=torch.int64), torch.tensor([2, 9, 5, 0, 3]))
    apart = torch.cat([encoder(prefixes[[row]]) for row in range(5)])
    assert torch.allclose(encode(encoder, prefixes), apart, atol=1e-5)


def test_the_order_of_rows_does_not_matter() -> None:
    encoder, x = joined(), make.sequences(MIXED)
    order = torch.tensor([4, 1, 0, 5, 3, 2])
    assert torch.allclose(encoder(x[order]), encoder(x)[order], atol=1e-6)
    assert torch.allclose(encode(encoder, x, events_per_batch=3), encode(encoder, x), atol=1e-6)


def test_no_event_outside_a_row_counts() -> None:
    encoder, x = joined(), make.sequences(MIXED)
    assert torch.allclose(encoder(make.elsewhere(x)), encoder(x), atol=1e-6)


def test_there_is_no_state_if_a_part_has_none() -> None:
    schema = make.schema()
    for other in (make.encoder("transformer"), Aggregates(schema), Compressed(Aggregates(schema))):
        encoder = Joined({"learned": make.encoder("gru"), "other": other})
        assert not hasattr(encoder, "state")
    assert hasattr(joined(), "state")


def test_rows_are_usable_if_all_parts_can_read_them() -> None:
    first, second = make.encoder("gru"), make.encoder("set")
    first.usable = lambda x: x.lengths > 1
    second.usable = lambda x: x.lengths < 7
    encoder, x = Joined({"first": first, "second": second, "third": RunningHandcrafted(make.schema())}), MIXED
    assert encoder.usable(make.sequences(x)).tolist() == [1 < n < 7 for n in x]


def test_embeddings_name_the_parts_of_their_vectors() -> None:
    encoder = joined()
    z = embed(encoder, make.dataset(MIXED))
    assert z.metadata["parts"] == {name: list(place) for name, place in encoder.parts.items()}
    assert z.parts == encoder.parts
    assert embed(make.encoder("gru"), make.dataset(MIXED)).parts == {}


def test_copies_and_modes_are_those_of_one_module() -> None:
    encoder, x = joined(), make.sequences(MIXED)
    twin = copy.deepcopy(encoder)
    assert torch.equal(twin(x), encoder(x))
    for weight in twin.parameters():
        torch.nn.init.zeros_(weight)
    assert not torch.equal(twin.state(x), encoder.state(x))
    learned = make.encoder("gru")
    assert not Joined({"learned": learned}).training
    assert Joined({"learned": learned.train()}).training
    encode(Joined({"learned": learned.eval()}), x)
    assert not learned.training


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "parts must name at least one encoder, got none"),
        ({"a.b": make.encoder("gru")}, "parts cannot have these names: .*a.b"),
        ({"keys": make.encoder("gru")}, "parts cannot have these names: .*keys"),
        ({"learned": "gru"}, "the encoder must be a module"),
    ],
)
def test_wrong_parts_are_refused(parts: dict[str, torch.nn.Module], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Joined(parts)


def test_no_rows_give_no_vectors() -> None:
    encoder, x = joined(), make.sequences(MIXED)
    assert encoder(x[:0]).shape == (0, encoder.dim)
    empty = Sequences(x.columns, torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    assert encoder(empty).isfinite().all()
