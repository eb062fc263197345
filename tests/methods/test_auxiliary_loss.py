"""`Supervised` with the loss of the next event beside that of the labels: what is added, from which events."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import make
from eventvec.config import build_method, complete, describe
from eventvec.errors import ConfigError
from eventvec.methods import NextEvent, Supervised
from eventvec.sequences import Sequences
from eventvec.views import RandomSlices

LENGTHS = [6, 0, 9, 2, 7, 1]


def rows(lengths: list[int] = LENGTHS) -> Sequences:
    x = make.sequences(lengths)
    return Sequences(x.columns, x.starts, x.lengths, {"kind": 2 + torch.arange(len(lengths)) % 3})


def method(**options: Any) -> Supervised:
    torch.manual_seed(0)
    return Supervised(make.encoder("gru", batch_norm=False), make.schema(), "kind", **options).train()


def both(weight: float, **options: Any) -> tuple[Supervised, Supervised, NextEvent]:
    """Return a method with the auxiliary loss, and two with its weights that have one of the losses each."""
    together = method(auxiliary="next_event", auxiliary_weight=weight, **options)
    plain = method(**options)
    plain.head.load_state_dict(together.head.state_dict())
    plain.encoder.load_state_dict(together.encoder.state_dict())
    following = NextEvent(together.encoder, make.schema())
    states = together.next_event.state_dict()
    assert following.load_state_dict(states, strict=False).unexpected_keys == []
    return together, plain, following.train()


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def test_the_loss_of_the_next_event_is_added_in_training_and_not_in_validation() -> None:
    together, plain, following = both(0.3)
    x = rows()
    some = x[[0, 2, 3, 4]]  # those with an event to predict
    expected = plain.loss(x, seeded()) + 0.3 * following.loss(some, seeded())
    torch.testing.assert_close(together.loss(x, seeded()), expected)
    assert following.loss(some, seeded()).item() > 1  # nats
    torch.testing.assert_close(together.eval().loss(x, seeded()), plain.eval().loss(x, seeded()))


def test_views_are_of_the_labels_alone() -> None:
    together, plain, following = both(1.0, views=RandomSlices(count=2, shortest=1, longest=1))
    x, rng = rows([6, 9]), seeded()
    of_label = plain.loss(x, rng)  # slices of one event, in which there is none to predict
    torch.testing.assert_close(together.loss(x, seeded()), of_label + following.loss(x, rng))


def test_of_rows_that_begin_alike_the_longest_is_read() -> None:
    together, plain, following = both(1.0)
    x = rows([8, 5])
    starts, lengths = x.starts[[0, 0, 1, 0]], torch.tensor([3, 6, 5, 2])
    panel = Sequences(x.columns, starts, lengths, {"kind": torch.tensor([2, 3, 4, 2])})
    together.prepare(panel)
    plain.prepare(panel)
    assert together.rows_begin_alike
    expected = plain.loss(panel, seeded()) + following.loss(panel[[1, 2]], seeded())
    torch.testing.assert_close(together.loss(panel, seeded()), expected)


def test_no_event_after_the_end_of_a_row_is_read() -> None:
    together, _, _ = both(1.0)
    x = rows([8, 5])
    panel = Sequences(x.columns, x.starts[[0, 0, 1]], torch.tensor([3, 6, 4]), {"kind": torch.tensor([2, 3, 4])})
    together.prepare(panel)
    places = torch.cat([x.starts[0] + torch.arange(6), x.starts[1] + torch.arange(4)])
    unread = torch.ones(len(x.columns["gap"]), dtype=torch.bool).index_fill(0, places, False)
    changed = {name: torch.where(unread, 1, column) for name, column in x.columns.items()}
    other = Sequences(changed, panel.starts, panel.lengths, panel.static)
    assert torch.equal(together.loss(panel, seeded()), together.loss(other, seeded()))


@pytest.mark.parametrize("lengths", [[1, 0], [0, 0], [1, 2]])
def test_rows_without_an_event_to_predict_have_the_loss_of_their_labels(lengths: list[int]) -> None:
    together, plain, _ = both(1.0)
    loss = together.loss(rows(lengths), seeded())
    assert loss.isfinite()
    assert (max(lengths) < 2) == torch.equal(loss, plain.loss(rows(lengths), seeded()))


def test_a_weight_of_zero_is_a_method_without_it_to_the_last_bit() -> None:
    together, plain = method(auxiliary="next_event", auxiliary_weight=0.0), method()
    rng, other = seeded(), seeded()
    assert torch.equal(together.loss(rows(), rng), plain.loss(rows(), other))
    assert torch.equal(rng.get_state(), other.get_state())


def test_every_weight_has_a_gradient_and_is_saved_once() -> None:
    together = method(auxiliary="next_event", auxiliary_weight=0.1)
    together.loss(rows(), seeded()).backward()
    assert all(weight.grad is not None for weight in together.parameters())
    tensors = list(together.state_dict(keep_vars=True).values())
    assert len({id(tensor) for tensor in tensors}) == len(tensors)
    assert together.next_event.encoder is together.encoder


def test_a_description_builds_it_again() -> None:
    for options in ({}, {"auxiliary": "next_event"}, {"auxiliary": "next_event", "auxiliary_weight": 0.5}):
        config = describe(method(**options))
        assert {name: value for name, value in config["method"].items() if "auxiliary" in name} == options
        again = build_method(complete(config), make.schema())
        assert again.state_dict().keys() == method(**options).state_dict().keys()


def test_the_weights_that_are_tried_are_set() -> None:
    tried = method(auxiliary="next_event")
    assert list(tried.trials) == ["auxiliary_weight = 0", "auxiliary_weight = 0.1", "auxiliary_weight = 1"]
    tried.trials["auxiliary_weight = 0.1"]()
    assert torch.equal(tried.loss(rows(), seeded()), both(0.1)[0].loss(rows(), seeded()))
    assert not method().trials
    assert not method(auxiliary="next_event", auxiliary_weight=1.0).trials


@pytest.mark.parametrize(
    ("encoder", "options", "message"),
    [
        ("transformer", {"auxiliary": "next_event"}, r"state after each event .* got Transformer; accepted: .* gru"),
        ("gru", {"auxiliary": "next"}, "auxiliary 'next' is not known; accepted: next_event"),
        ("gru", {"auxiliary_weight": 0.1}, "auxiliary_weight is the weight of an auxiliary loss; add auxiliary"),
        (
            "gru",
            {"auxiliary": "next_event", "auxiliary_weight": -1.0},
            "auxiliary_weight must be at least 0 and finite",
        ),
    ],
)
def test_what_cannot_be_added_is_refused(encoder: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Supervised(make.encoder(encoder), make.schema(), "kind", **options)
