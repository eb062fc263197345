"""The buffer pool: buffers come back with their `Buffers` object, and the pool does not grow beyond what was in use."""

from __future__ import annotations

import threading

import pytest
import torch

from eventvec.scan import buffers
from eventvec.scan.buffers import Buffers, buffer_pool

LIKE = torch.empty(0)


@pytest.fixture(autouse=True)
def pool_small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pool small buffers too, so that a buffer shared by mistake is noticed."""
    monkeypatch.setattr(buffers, "SMALLEST", 0)


def pooled_sizes() -> list[int]:
    """Return the sizes of the buffers in the pool."""
    return sorted(flat.numel() for flat in buffers._pool.get())


def test_outside_a_pool_every_buffer_is_newly_allocated() -> None:
    first, second = Buffers(), Buffers()
    assert first.take(LIKE, 2, 3).data_ptr() != second.take(LIKE, 2, 3).data_ptr()
    assert buffers._pool.get() is None


def test_buffers_return_to_the_pool_when_their_object_is_deleted() -> None:
    with buffer_pool():
        first, second = Buffers(), Buffers()
        address, _ = first.take(LIKE, 80).data_ptr(), second.take(LIKE, 80)
        assert pooled_sizes() == []
        del first
        assert pooled_sizes() == [90]
        assert Buffers().take(LIKE, 8, 10).data_ptr() == address
        del second
        assert pooled_sizes() == [90, 90]


def test_a_small_buffer_is_not_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "SMALLEST", 10)
    with buffer_pool():
        for size in (9, 10):
            Buffers().take(LIKE, size)
        assert pooled_sizes() == [11]


def test_what_autograd_saved_returns_only_after_the_backward() -> None:
    with buffer_pool():
        without_backward, after_backward = Buffers(saved=True), Buffers(saved=True)
        without_backward.take(LIKE, 80)
        after_backward.take(LIKE, 8)
        after_backward.saved = False
        del without_backward, after_backward
        assert pooled_sizes() == [9]


def test_the_smallest_sufficient_buffer_is_taken_and_a_new_one_replaces_one_that_is_too_short() -> None:
    with buffer_pool():
        step = Buffers()
        for size in (8, 80, 800):
            step.take(LIKE, size)
        del step
        step = Buffers()
        assert step.take(LIKE, 70).untyped_storage().size() == 4 * 90
        assert pooled_sizes() == [9, 900]
        step.take(LIKE, 8000)
        assert pooled_sizes() == [9]
        del step
        assert pooled_sizes() == [9, 90, 9000]


def test_types_do_not_mix() -> None:
    with buffer_pool():
        Buffers().take(LIKE, 80)
        step = Buffers()
        assert step.take(LIKE, 4, 4, dtype=torch.bfloat16).dtype == torch.bfloat16
        assert step.take(LIKE.double(), 3).dtype == torch.float64
        assert pooled_sizes() == [90]


def test_the_pool_belongs_to_one_thread_and_ends_with_its_block() -> None:
    pools: list[object] = []
    with buffer_pool():
        step = Buffers()
        step.take(LIKE, 80)
        thread = threading.Thread(target=lambda: pools.append(buffers._pool.get()))
        thread.start()
        thread.join()
    assert pools == [None]
    del step
    assert buffers._pool.get() is None
    with pytest.raises(RuntimeError, match="inside"), buffer_pool():
        raise RuntimeError("inside")
    assert buffers._pool.get() is None
