"""The order of packed events, the rectangles that cover them, and the shapes of matrix products over them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eventvec.scan import matmul
from eventvec.scan.pack import Pack


@given(st.lists(st.integers(0, 6), max_size=7))
@settings(max_examples=30, deadline=None)
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


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.floats(0, 30))
@settings(max_examples=60, deadline=None)
def test_rectangles_cover_all_events_at_the_least_cost(lengths, worth):
    """The oracle enumerates all partitions of the runs into groups of neighbours."""
    pack = Pack.of(torch.tensor(lengths, dtype=torch.int64))
    rectangles, costs = pack.rectangles(worth), []
    for cuts in itertools.product([False, True], repeat=max(len(pack.runs) - 1, 0)):
        groups = [[run] for run in pack.runs[:1]]
        for cut, run in zip(cuts, pack.runs[1:], strict=True):
            groups.append([run]) if cut else groups[-1].append(run)
        costs.append(sum(worth + group[0][0] * sum(steps for _, steps in group) for group in groups))
    assert sum(worth + rows * steps for rows, steps in rectangles) == pytest.approx(min(costs))
    sizes = [rows for rows, steps in rectangles for _ in range(steps)]
    assert len(sizes) == len(pack.sizes)
    first = 0
    for rows, steps in rectangles:
        event, padding = pack.rectangle(first, rows, steps)
        for step in range(steps):
            size = pack.sizes[first + step]
            events = list(range(pack.offsets[first + step], pack.offsets[first + step + 1]))
            assert padding[step].tolist() == [row >= size for row in range(rows)]
            assert event[step, :size].tolist() == events
            assert set(event[step].tolist()) <= set(events)
        first += steps


def test_rows_are_rounded_up_to_few_shapes():
    rows = range(1, 5001)
    rounded = [matmul._round_up(n) for n in rows]
    assert all(n <= up <= n + max(7, n / 16) for n, up in zip(rows, rounded, strict=True))
    assert len(set(rounded[:320])) == 16 + 38
    assert len(set(rounded)) < 300


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
