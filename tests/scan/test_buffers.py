"""The workspace: buffers come back when their lease is gone, and at most as many are kept as were in use."""

from __future__ import annotations

import threading

import pytest
import torch

from eventvec.scan import buffers
from eventvec.scan.buffers import Lease

LIKE = torch.empty(0)


@pytest.fixture(autouse=True)
def every_buffer_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones too, so that sharing by mistake would show."""
    monkeypatch.setattr(buffers, "LEAST", 0)


def free() -> list[int]:
    """Return the sizes of the buffers that lie in the workspace."""
    return sorted(flat.numel() for flat in buffers._free.get())


def test_outside_a_workspace_every_buffer_is_fresh() -> None:
    one, other = Lease(), Lease()
    first, second = one.take(LIKE, 2, 3), other.take(LIKE, 2, 3)
    assert first.data_ptr() != second.data_ptr()
    assert buffers._free.get() is None


def test_a_dropped_lease_gives_back_and_a_held_one_does_not() -> None:
    with buffers.workspace():
        one, other = Lease(), Lease()
        places = one.take(LIKE, 80).data_ptr(), other.take(LIKE, 80).data_ptr()
        assert free() == []
        del one
        assert free() == [90]
        assert Lease().take(LIKE, 8, 10).data_ptr() == places[0]
        del other
        assert free() == [90, 90]


def test_a_small_buffer_is_not_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "LEAST", 10)
    with buffers.workspace():
        for size in (9, 10):
            Lease().take(LIKE, size)
        assert free() == [11]


def test_what_autograd_saved_is_given_back_only_after_the_backward() -> None:
    with buffers.workspace():
        lost, lease = Lease(saved=True), Lease(saved=True)
        lost.take(LIKE, 80)
        lease.take(LIKE, 8)
        lease.saved = False
        del lost, lease
        assert free() == [9]


def test_the_smallest_that_fits_is_taken_and_one_too_short_makes_room() -> None:
    with buffers.workspace():
        lease = Lease()
        for size in (8, 80, 800):
            lease.take(LIKE, size)
        del lease
        again = Lease()
        assert again.take(LIKE, 70).untyped_storage().size() == 4 * 90
        assert free() == [9, 900]
        again.take(LIKE, 8000)
        assert free() == [9]
        del again
        assert free() == [9, 90, 9000]


def test_types_do_not_mix() -> None:
    with buffers.workspace():
        Lease().take(LIKE, 80)
        lease = Lease()
        assert lease.take(LIKE, 4, 4, dtype=torch.bfloat16).dtype == torch.bfloat16
        assert lease.take(LIKE.double(), 3).dtype == torch.float64
        assert free() == [90]


def test_another_thread_and_what_comes_after_the_block_have_no_part_in_it() -> None:
    seen: list[object] = []
    with buffers.workspace():
        lease = Lease()
        lease.take(LIKE, 80)
        thread = threading.Thread(target=lambda: seen.append(buffers._free.get()))
        thread.start()
        thread.join()
    assert seen == [None]
    del lease
    assert buffers._free.get() is None
    with pytest.raises(RuntimeError, match="inside"), buffers.workspace():
        raise RuntimeError("inside")
    assert buffers._free.get() is None
