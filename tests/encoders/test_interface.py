"""What encoders may have besides: defaults for a plain module, and what a user's own encoder declares."""

from __future__ import annotations

import pytest
from torch import Tensor, nn

import eventvec as ev
import make
from eventvec.encoders import Aggregates, Compressed, Joined, RunningHandcrafted, Segmented
from eventvec.encoders.interface import Capabilities, capabilities, check_states, readable_rows, state_size
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences


class Lengths(nn.Module):
    """The least that an encoder has."""

    dim = 1

    def forward(self, x: Sequences) -> Tensor:
        return x.lengths.unsqueeze(1).float()


class Sums(Lengths):
    """An encoder that continues from a stored state, and reads no empty rows."""

    stored_dim, causal = 1, True

    def usable(self, x: Sequences) -> Tensor:
        return x.lengths > 0

    def state(self, x: Sequences, initial: Tensor | None = None) -> Tensor:
        return self(x) if initial is None else self(x) + initial

    def read(self, state: Tensor) -> Tensor:
        return state


def test_a_plain_module_has_the_defaults() -> None:
    x = make.sequences([3, 0, 2])
    assert capabilities(Lengths()) == Capabilities()
    assert (state_size(Lengths()), readable_rows(Lengths(), x).tolist()) == (1, [True, True, True])
    assert ev.encode(Lengths(), x).tolist() == [[3], [0], [2]]
    with pytest.raises(ConfigError, match=r"must have a state after each event, got Lengths; accepted: .* gru"):
        check_states(Lengths(), "gru")


def test_an_encoder_of_a_user_declares_what_it_has() -> None:
    own = capabilities(Sums())
    assert (own.continues, own.stored_dim, own.causal, own.states) == (True, 1, True, None)
    assert readable_rows(Sums(), make.sequences([3, 0])).tolist() == [True, False]
    assert capabilities(Joined({"a": Sums(), "b": Sums()})).continues
    assert not capabilities(Joined({"a": Sums(), "b": Lengths()})).continues


def test_wrappers_continue_if_what_is_inside_does() -> None:
    schema = make.schema()
    assert capabilities(Compressed(RunningHandcrafted(schema))).continues
    assert not capabilities(Compressed(Aggregates(schema))).continues


def test_the_encoder_of_events_tells_what_the_encoder_reads() -> None:
    events = ev.encoders.EventEncoder(make.schema())
    own = capabilities(ev.encoders.GRU(Segmented(events), dim=4))
    assert (own.joins, capabilities(own.events).joins, own.schema) == (False, True, None)
    assert capabilities(events).schema == make.schema()
    assert own.kept_as == {"dim": "state_dim"}
