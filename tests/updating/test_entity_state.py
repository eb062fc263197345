"""What is remembered of an entity: bytes that hold an encoder's state, or the latest events behind an embedding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import make
from eventvec.dataset import Dataset
from eventvec.embedding import embed
from eventvec.sequences import Sequences
from eventvec.updating.entity_state import memory


def halves(x: Sequences) -> tuple[Sequences, Sequences]:
    rows, middle = torch.arange(len(x)), x.lengths // 2
    return x.slice(rows, torch.zeros_like(middle), middle), x.slice(rows, middle, x.lengths - middle)


@pytest.mark.parametrize(("name", "layers", "parts"), [("gru", 1, 1), ("gru", 2, 2), ("lstm", 2, 4)])
def test_states_go_on_in_rows_that_are_known_and_begin_in_others(name: str, layers: int, parts: int) -> None:
    data, encoder = make.dataset([5, 0, 3, 9, 1]), make.encoder(name, layers=layers)
    states = memory(encoder, data, None)
    first, second = halves(data.sequences)
    known = np.array([True, True, False, True, False])
    stored = states.advance(first[known.tolist()], np.zeros(3, bool), [])
    assert {len(state) for state in stored} == {4 * 8 * parts}
    got = states.read(states.advance(second, known, stored))
    alone = embed(encoder, Dataset(data.keys, second, data.schema))
    wanted = torch.where(torch.from_numpy(known)[:, None], embed(encoder, data), alone)
    assert torch.allclose(got, wanted, atol=1e-6)


def test_windows_keep_the_latest_events_bit_by_bit() -> None:
    data, encoder = make.dataset([5, 0, 3, 9, 1]), make.encoder("set")
    windows = memory(encoder, data, 4)
    first, second = halves(data.sequences)
    known = np.ones(5, bool)
    stored = windows.advance(first, ~known, [])
    got = windows.advance(second, known, stored)
    x, kept = data.sequences, data.sequences.lengths.clamp(max=4)
    latest = x.slice(torch.arange(5), x.lengths - kept, kept)
    assert got == windows.advance(latest, ~known, [])
    assert torch.allclose(windows.read(got), embed(encoder, Dataset(data.keys, latest, data.schema)), atol=1e-6)
    record = 8 + 4 + 4 + 4  # time, gap, one code, one number
    assert [len(state) for state in got] == [4 * 8 + record * length for length in kept.tolist()]
