"""The order of packed events, rectangles of rows, and the shapes of matrix products over them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eventvec.scan import matmul
from eventvec.scan.buffers import Buffers
from eventvec.scan.pack import Pack


@given(st.lists(st.integers(0, 6), max_size=7))
def test_a_pack_orders_events_step_by_step(lengths):
    pack = Pack.of(torch.tensor(lengths, dtype=torch.int64))
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    offsets = np.cumsum([0, *lengths]).tolist()
    steps = [[offsets[row] + step for row in order if lengths[row] > step] for step in range(max(lengths, default=0))]
    assert pack.order.tolist() == order
    assert pack.order[pack.ranks].tolist() == list(range(len(lengths)))
    assert pack.events.tolist() == [event for step in steps for event in step]
    assert pack.events[pack.places].tolist() == list(range(sum(lengths)))
    assert pack.sizes == [len(step) for step in steps]
    values = torch.arange(10, 10 + len(lengths))
    assert pack.packed(values).tolist() == [10 + row for row in order]
    assert torch.equal(pack.unpacked(pack.packed(values)), values)
    assert pack.keeps_order == (len(set(lengths)) < 2)
    starts = torch.tensor(offsets[: len(lengths)], dtype=torch.int64)
    assert torch.equal(pack.positions(starts), pack.events)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.data())
def test_a_rectangle_has_the_events_of_some_rows_and_repeats_their_last(lengths, data):
    pack = Pack.of(torch.tensor(lengths))
    first, end = sorted(data.draw(st.sets(st.integers(0, pack.active), min_size=2, max_size=2)))
    place, padding = pack.rectangle(first, end)
    rows = [
        [at + rank for at, size in zip(pack.offsets, pack.sizes, strict=False) if size > rank]
        for rank in range(first, end)
    ]
    steps = max(map(len, rows), default=0)
    assert place.T.tolist() == [row + row[-1:] * (steps - len(row)) for row in rows]
    assert padding.T.tolist() == [[step >= len(row) for step in range(steps)] for row in rows]


def test_rows_are_rounded_up_to_few_shapes(monkeypatch):
    rows = range(1, 5001)
    monkeypatch.setattr(matmul, "float32_precision", lambda: "medium")
    product = matmul.StepProduct(torch.ones(1, 1), torch.float32, 1, Buffers())
    rounded = [product.round_up(n) for n in rows]
    assert all(n <= up <= n + max(7, n / 16) for n, up in zip(rows, rounded, strict=True))
    assert len(set(rounded[:320])) == 16 + 38
    assert len(set(rounded)) < 300
    monkeypatch.setattr(matmul, "float32_precision", lambda: "highest")
    assert matmul.StepProduct(torch.ones(1, 1), torch.float32, 1, Buffers()).round_up(333) == 333


def test_small_products_use_the_default_library_and_the_setting_is_restored(monkeypatch):
    before, pack = torch.get_float32_matmul_precision(), Pack.of(torch.tensor([3, 3]))
    try:
        torch.set_float32_matmul_precision("medium")
        for small, inside in ((1e6, "highest"), (0, "medium")):
            monkeypatch.setattr(matmul, "SMALL", small)
            with matmul.fastest_matmul(pack, 8):
                assert torch.get_float32_matmul_precision() == inside
            with pytest.raises(ValueError, match="inside"), matmul.fastest_matmul(pack, 8):
                raise ValueError("inside")
            assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
