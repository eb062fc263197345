"""What reads all events goes by blocks of rows, so that a data set may be larger than memory.

The blocks are made small here, and every result of torch is measured: none may be as large as the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import cases
import eventvec as ev
import make
from eventvec import sequences
from eventvec.embedding import encode, with_moment
from eventvec.encoders import Aggregates, Codes, Handcrafted, codes
from eventvec.methods import revealed_order
from eventvec.methods.declarations import usable_rows
from eventvec.tables import describe, facts
from eventvec.training.validation import all_equal
from eventvec.views import TimeWindows, count_times

LENGTHS = [260 + i % 9 for i in range(100)]
ALL = sum(LENGTHS)
SLICES = {"name": "random_slices", "count": 2, "shortest": 5, "longest": 30}


class Largest(TorchDispatchMode):
    """The largest tensor that is computed in the context, in numbers; views of what was there do not count."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        known = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in known:
                self.numbers = max(self.numbers, tensor.numel())
        return result


def learned(method: str, **options: Any) -> Callable[[ev.Dataset], Any]:
    """Return a function that trains a small encoder for a moment."""
    tables = {"method": {"name": method, **options}, "encoder": {"name": "gru", "dim": 2, "events": {"width": 2}}}
    return lambda data: ev.fit(data, method=tables, batch_size=4, time_budget=0.01, beside=[], validation=0.01)


USES = {
    "describe": describe,
    "facts": facts,
    "all_equal": lambda data: all_equal(data.sequences),
    "fingerprint": lambda data: data[torch.arange(len(data)).flip(0)].fingerprint,
    "handcrafted": lambda data: encode(Handcrafted(data.schema, None, 1, 1, 1), with_moment(data).sequences),
    "aggregates": lambda data: ev.embed(Aggregates(data.schema, 2), data),
    "codes": lambda data: ev.embed(Codes(data.schema, 2, terms=20).fit(data.sequences), data),
    "distinct times": lambda data: count_times(data.sequences),
    "time windows": lambda data: TimeWindows(10.0**13).usable(data.sequences),
    "coles": learned("coles", views=SLICES),
    "ocp": learned("ocp", length=2),
    "ocp within": learned("ocp", length=2, within="code"),
    "next_event": learned("next_event", views=SLICES),
}


@pytest.mark.parametrize("use", USES)
def test_nothing_as_large_as_the_data_is_computed(monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    data = make.dataset(LENGTHS)
    monkeypatch.setattr(sequences, "BLOCK", ALL // 20)
    monkeypatch.setattr(revealed_order, "EVENTS", ALL // 20)
    monkeypatch.setattr(codes, "SAMPLE", ALL // 20)
    USES[use](data[:20])  # what is measured once of a machine, such as its speed, has a size of its own
    with Largest() as largest:
        USES[use](data)
    assert 0 < largest.numbers < ALL // 3


@pytest.mark.parametrize("name", cases.CASES)
def test_no_method_needs_all_events_at_once_to_tell_which_rows_it_can_use(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    method, few = cases.CASES[name]()
    x = few[torch.arange(len(few)).repeat(200)]
    expected = usable_rows(method, few).repeat(200)
    monkeypatch.setattr(sequences, "BLOCK", x.total // 50)
    with Largest() as largest:
        usable = usable_rows(method, x)
    assert torch.equal(usable, expected)
    assert largest.numbers < x.total


def test_a_tensor_as_large_as_the_data_is_noticed() -> None:
    x = make.dataset(LENGTHS).sequences
    with Largest() as largest:
        assert x.columns["time"][:9].shape == (9,)
        assert largest.numbers == 0
        x.values("time")
    assert largest.numbers == ALL


def test_a_description_by_blocks_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make.dataset(LENGTHS)
    whole = describe(data)
    monkeypatch.setattr(sequences, "BLOCK", ALL // 7)
    by_blocks = describe(data)
    for row, expected in zip(by_blocks, whole, strict=True):
        assert {
            name: value if isinstance(value, str) else pytest.approx(value) for name, value in expected.items()
        } == row
    amount = data.sequences.values("amount").double()
    found = next(row for row in by_blocks if row["name"] == "amount")
    assert found["mean"] == pytest.approx(amount.nanmean().item())
    assert found["std"] == pytest.approx(amount[~amount.isnan()].std(correction=0).item())
    assert found["missing"] == pytest.approx(amount.isnan().double().mean().item())
