"""What is stored of an entity: running states and the latest events, to and from bytes, and what waits among these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import make
from eventvec.blocks.rows import STATE
from eventvec.blocks.untrained import EventBlock
from eventvec.embedding import encode, read_states
from eventvec.models import Model
from eventvec.models.learned import LEARNED, Learned
from eventvec.sequences import Sequences
from eventvec.updating.entity_state import CHUNK, Held, States
from eventvec.views.cuts import latest

ALL = ("last", "mean", "max")


class Method:
    """The least that a block of a trained encoder needs."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder


def model(encoder: Any, *kinds: str, x: Sequences | None = None) -> Model:
    """Return a model of an encoder and untrained blocks."""
    schema = make.schema()
    blocks: dict[str, Any] = {LEARNED: Learned(Method(encoder))}  # type: ignore[arg-type]
    return Model(schema, blocks | {kind: EventBlock.of(kind, schema, {}, x) for kind in kinds}, {"id": "3f2a"})


def halves(x: Sequences) -> tuple[Sequences, Sequences]:
    """Return the first and the second half of each row."""
    rows, middle = torch.arange(len(x)), x.lengths // 2
    return x.slice(rows, torch.zeros_like(middle), middle), x.slice(rows, middle, x.lengths - middle)


def read(states: States, content: list[bytes], known: np.ndarray, zeros: np.ndarray) -> Held:
    """Return what is read from running states alone."""
    return states.read([(state, b"") for state in content], known, zeros, zeros, [])


def last_time(x: Sequences) -> np.ndarray:
    ends = (x.starts + x.lengths - 1).clamp(min=0)
    return np.where(x.lengths > 0, x.columns["time"][ends], 0)  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "layers", "read_out", "numbers"),
    [("gru", 1, (), 8), ("gru", 2, (), 16), ("lstm", 2, (), 32), ("gru", 1, ALL, 25), ("lstm", 2, ALL, 49)],
)
def test_rows_with_a_stored_state_continue_and_others_begin_anew(
    name: str, layers: int, read_out: tuple[str, ...], numbers: int
) -> None:
    data, encoder = make.dataset([5, 0, 3, 9, 1]), make.encoder(name, layers=layers, read_out=read_out)
    states = States(model(encoder))
    assert states.depth == 0
    first, second = halves(data.sequences)
    known = np.array([True, True, False, True, False])
    some = first[known.tolist()]
    begun = states.advance(some, states.begun(3), last_time(some))
    content = states.written(begun)
    assert {len(state) for state in content} == {4 * numbers}
    zeros = np.zeros(5, np.int64)
    held = states.advance(
        second, states.read([(state, b"") for state in content], known, zeros, zeros, []), last_time(second)
    )
    x = states.rows(held, last_time(second))
    vectors = read_states(encoder, x, x.static[STATE + LEARNED])  # type: ignore[arg-type]
    whole, alone = encode(encoder, data.sequences), encode(encoder, second)
    assert torch.allclose(vectors, torch.where(torch.from_numpy(known)[:, None], whole, alone), atol=1e-6)


def test_sparse_states_are_a_mask_and_the_numbers_that_are_not_0() -> None:
    data = make.dataset([5, 0, 3, 9, 1])
    states = States(model(make.encoder("gru"), "codes", x=data.sequences))
    held = states.advance(data.sequences, states.begun(5), last_time(data.sequences))
    dense = held.running.numpy()
    content = states.written(held)
    size = -(-dense.shape[1] // 8)
    assert [len(state) for state in content] == (4 * (dense != 0).sum(1) + size).tolist()
    assert np.array_equal(np.frombuffer(content[3][size:], "<f4"), dense[3][dense[3] != 0])
    zeros = np.zeros(5, np.int64)
    assert np.array_equal(read(states, content, zeros == 0, zeros).running.numpy(), dense)


@pytest.mark.parametrize("batches", [1, 3, 40])
def test_the_latest_events_are_kept_bit_by_bit_however_they_came(batches: int) -> None:
    data, encoder = make.dataset([5, 0, 3, 90, 1, 200]), make.encoder("set")
    encoder.latest = 70
    states, x = States(model(encoder)), data.sequences
    assert (states.depth, states.waits) == (70, False)
    rows, at, held, kept = torch.arange(len(x)), torch.zeros(len(x), dtype=torch.int64), states.begun(len(x)), {}
    for batch in range(batches):
        ends = x.lengths * (batch + 1) // batches
        part = x.slice(rows, at, ends - at)
        held = states.advance(part, held, last_time(part))
        begin = at.numpy() // CHUNK * CHUNK
        kept |= {(row, number): chunk for row, number, chunk in states.chunks(held, ends.numpy(), begin)}
        lengths, at = held.events.lengths.numpy(), ends
        chunks = [
            (row, kept[row, number])
            for row, (end, length) in enumerate(zip(ends.tolist(), lengths.tolist(), strict=True))
            for number in (range((end - length) // CHUNK, (end - 1) // CHUNK + 1) if length else ())
        ]
        zeros = np.zeros(len(x), np.int64)
        held = states.read([(b"", b"")] * len(x), zeros == 0, lengths, zeros, chunks)
    expected = latest(x, 70)
    assert torch.equal(held.events.lengths, expected.lengths)
    for name in held.events.columns:
        assert torch.equal(held.events.values(name).nan_to_num(), expected.values(name).nan_to_num())
    assert torch.allclose(encode(encoder, states.rows(held, last_time(x))), encode(encoder, x), atol=1e-6)
