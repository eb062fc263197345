"""The entity state as bytes: an encoder's state, or the latest events behind their embedding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import make
from eventvec.embedding import encode
from eventvec.encoders import Codes, Handcrafted, Joined, RunningHandcrafted
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.updating.entity_state import choose_state


def halves(x: Sequences) -> tuple[Sequences, Sequences]:
    """Return the first and the second half of each row."""
    rows, middle = torch.arange(len(x)), x.lengths // 2
    return x.slice(rows, torch.zeros_like(middle), middle), x.slice(rows, middle, x.lengths - middle)


ALL = ("last", "mean", "max")


@pytest.mark.parametrize(
    ("name", "layers", "read_out", "numbers"),
    [("gru", 1, (), 8), ("gru", 2, (), 16), ("lstm", 2, (), 32), ("gru", 1, ALL, 25), ("lstm", 2, ALL, 49)],
)
def test_rows_with_a_stored_state_continue_and_others_begin_anew(
    name: str, layers: int, read_out: tuple[str, ...], numbers: int
) -> None:
    data, encoder = make.dataset([5, 0, 3, 9, 1]), make.encoder(name, layers=layers, read_out=read_out)
    states = choose_state(encoder, data, None)
    first, second = halves(data.sequences)
    known = np.array([True, True, False, True, False])
    stored, _ = states.advance(first[known.tolist()], np.zeros(3, bool), [])
    assert {len(state) for state in stored} == {4 * numbers}
    advanced, vectors = states.advance(second, known, stored)
    assert torch.equal(states.read(advanced), vectors)
    whole, alone = encode(encoder, data.sequences), encode(encoder, second)
    assert torch.allclose(vectors, torch.where(torch.from_numpy(known)[:, None], whole, alone), atol=1e-6)


def test_sparse_states_are_a_mask_and_the_numbers_that_are_not_0() -> None:
    data = make.dataset([5, 0, 3, 9, 1])
    encoder = Joined({"learned": make.encoder("gru"), "codes": Codes(data.schema, 3, terms=50).fit(data.sequences)})
    states = choose_state(encoder, data, None)
    assert states.kind == "sparse state"
    first, second = halves(data.sequences)
    known = np.ones(5, bool)
    stored, _ = states.advance(second, known, states.advance(first, ~known, [])[0])
    dense = encoder.state(data.sequences).detach()
    numbers = (dense != 0).sum(1)
    assert [len(state) for state in stored] == (4 * numbers + -(-(8 + 50 + 1) // 8)).tolist()
    packed = np.frombuffer(stored[3][8:], "<f4")
    np.testing.assert_allclose(packed, dense[3][dense[3] != 0].numpy(), atol=1e-6)
    torch.testing.assert_close(states.read(stored), encode(encoder, data.sequences))
    assert choose_state(make.encoder("gru"), data, None).kind == "state"


def test_the_latest_events_are_kept_bit_by_bit() -> None:
    data, encoder = make.dataset([5, 0, 3, 9, 1]), make.encoder("set")
    recent = choose_state(encoder, data, 4)
    first, second = halves(data.sequences)
    known = np.ones(5, bool)
    stored, _ = recent.advance(first, ~known, [])
    stored, vectors = recent.advance(second, known, stored)
    assert torch.equal(recent.read(stored), vectors)
    x, lengths = data.sequences, data.sequences.lengths.clamp(max=4)
    latest = x.slice(torch.arange(5), x.lengths - lengths, lengths)
    assert stored == recent.advance(latest, ~known, [])[0]
    assert torch.allclose(recent.read(stored), encode(encoder, latest), atol=1e-6)
    record = 8 + 4 + 4 + 4  # time, gap, one code, one number
    assert [len(state) for state in stored] == [4 * 8 + record * length for length in lengths.tolist()]


def test_an_encoder_with_a_state_needs_no_window_and_one_without_needs_it() -> None:
    data = make.dataset([5, 3])
    with pytest.raises(ConfigError, match=r"SetEncoder cannot continue exactly from a stored state; with recent="):
        choose_state(make.encoder("set"), data, None)
    with pytest.raises(ConfigError, match=r"Recurrent continues exactly from a stored state; leave recent= .* out"):
        choose_state(make.encoder("gru"), data, 4)
    kinds = [choose_state(make.encoder(name), data, count).kind for name, count in (("lstm", None), ("set", 4))]
    assert kinds == ["state", "latest 4 events"]


def test_hand_crafted_features_that_follow_from_sums_continue_and_the_others_need_a_window() -> None:
    data, encoder = make.dataset([5, 0, 3, 9, 1]), RunningHandcrafted(make.schema())
    states = choose_state(encoder, data, None)
    first, second = halves(data.sequences)
    known = np.array([True, True, False, True, False])
    stored, _ = states.advance(first[known.tolist()], np.zeros(3, bool), [])
    advanced, vectors = states.advance(second, known, stored)
    assert torch.equal(states.read(advanced), vectors)
    whole, alone = encode(encoder, data.sequences), encode(encoder, second)
    assert torch.allclose(vectors, torch.where(torch.from_numpy(known)[:, None], whole, alone), atol=1e-6)
    with pytest.raises(ConfigError, match="Handcrafted cannot continue exactly from a stored state"):
        choose_state(Handcrafted(make.schema()), data, None)
