"""The scan beside torch's own cells, run row by row: values, gradients, precision, and what it keeps."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from eventvec.precision import onednn_agrees
from eventvec.scan import layer, products, routing
from eventvec.scan.buffers import workspace

CELLS, WAYS = ("gru", "lstm"), ("cells", "kernel", "padded", "rule")


@pytest.fixture(autouse=True)
def every_buffer_comes_back(monkeypatch):
    """Small ones too, so that sharing by mistake would show."""
    monkeypatch.setattr("eventvec.scan.buffers.LEAST", 0)


def packed(lengths: list[int], cell: str, dim: int = 3, kind: torch.dtype = torch.float64, inputs: int = 2):
    """Return `(torch's cell, pack, packed inputs, start h, start c)` with random numbers that want gradients."""
    torch.manual_seed(len(lengths) + sum(lengths))
    module = {"gru": nn.GRU, "lstm": nn.LSTM}[cell](inputs, dim).to(kind)
    values = torch.randn(sum(lengths), inputs, dtype=kind, requires_grad=True)
    starts = [torch.randn(len(lengths), dim, dtype=kind, requires_grad=True) for _ in range(2)]
    return module, routing.Pack.of(torch.tensor(lengths, dtype=torch.int64)), values, *starts


def fast(module: nn.GRU | nn.LSTM, pack: routing.Pack, values: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """Return the scan's states, row after row, and its ends, in the order of the rows."""
    states, [ends] = routing.states([module], values[pack.events], [begin(module, pack, h, c)], pack)
    return states[pack.places], *(end[pack.ranks] for end in ends)


@contextmanager
def way(name: str) -> Iterator[None]:
    """Take one of the ways on a CPU inside the block: our cells, torch's kernel as it is or padded, or the rule's."""
    before = routing.rectangles
    ways = {
        "cells": lambda *_: None,
        "kernel": lambda cell, pack, *_: pack.runs,
        "padded": lambda cell, pack, *_: pack.rectangles(1e9),
        "rule": before,
    }
    try:
        routing.rectangles = ways[name]
        yield
    finally:
        routing.rectangles = before


def begin(module: nn.GRU | nn.LSTM, pack: routing.Pack, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """Return what the first events meet, in the order of the pack."""
    return (h[pack.order],) if isinstance(module, nn.GRU) else (h[pack.order], c[pack.order])


def slow(module: nn.GRU | nn.LSTM, lengths: list[int], values: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """Return the same from torch's own cell, one row at a time."""
    states, ends = [], []
    for row, part in enumerate(values.split(lengths)):
        first = (h[row : row + 1], c[row : row + 1])
        if len(part) == 0:
            ends.append(first[: 1 if isinstance(module, nn.GRU) else 2])
            continue
        out, last = module(part, first[0] if isinstance(module, nn.GRU) else first)
        states.append(out)
        ends.append((last,) if isinstance(last, Tensor) else last)
    return torch.cat([*states, values.new_zeros(0, h.shape[1])]), *(torch.cat(end) for end in zip(*ends, strict=True))


def gradients(out: tuple[Tensor, ...], wanted: list[Tensor]) -> list[Tensor]:
    """Return gradients of a sum in which every output number has a weight of its own."""
    loss = sum((each * torch.arange(each.numel()).view(each.shape).cos()).sum() for each in out)
    return list(torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("by", ["cells", "kernel", "padded"])
@pytest.mark.parametrize("lengths", [[4, 0, 7, 1, 2, 5, 3, 6], [5], [1], [0], [0, 0], [3, 3, 3], [2, 9, 2]], ids=str)
def test_scan_equals_torch(lengths, by, cell, kind, tolerance):
    module, pack, *given = packed(lengths, cell, kind=kind)
    theirs = slow(module, lengths, *given)
    with way(by), workspace():
        ours = fast(module, pack, *given)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)
    wanted = [*given[: 2 if cell == "gru" else 3], *module.parameters()]
    torch.testing.assert_close(gradients(ours, wanted), gradients(theirs, wanted), rtol=tolerance, atol=10 * tolerance)
    with way(by), torch.no_grad():
        torch.testing.assert_close(fast(module, pack, *given), theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("precision", ["highest", "medium"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_many_rows_over_many_chunks_equal_torch(cell, threads, precision, monkeypatch):
    """Products of steps are padded to few shapes, and those over chunks reach behind them: none of it is seen."""
    if precision == "medium" and not onednn_agrees():
        pytest.skip("this CPU computes float32 products of precision `medium` in bfloat16")
    monkeypatch.setattr(layer, "CHUNK", 100)
    monkeypatch.setattr(products, "SMALL", 0)
    lengths = np.random.default_rng(0).integers(0, 9, 70).tolist()
    module, pack, *given = packed(lengths, cell, dim=24, kind=torch.float32, inputs=5)
    theirs, wanted = slow(module, lengths, *given), [*given[: 2 if cell == "gru" else 3], *module.parameters()]
    before = torch.get_float32_matmul_precision(), torch.get_num_threads()
    try:
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)
        with way("cells"):
            ours = fast(module, pack, *given)
        found = gradients(ours, wanted)
        with way("cells"), torch.no_grad():
            dropped = fast(module, pack, *given)
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.set_num_threads(before[1])
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    torch.testing.assert_close(dropped, theirs, rtol=0, atol=1e-5)
    for one, other in zip(found, gradients(theirs, wanted), strict=True):
        assert float((one - other).norm() / other.norm()) < 1e-5


@pytest.mark.parametrize("cell", CELLS)
def test_graphs_may_interleave_be_dropped_and_go_backward_twice(cell):
    """The buffers of a graph are its own until it is gone, whatever happens to others."""
    lengths = [4, 0, 7, 1, 2]
    module, pack, *given = packed(lengths, cell)
    module_2, pack_2, *given_2 = packed([3, 9], cell)
    count = 2 if cell == "gru" else 3
    wanted, wanted_2 = [*given[:count], *module.parameters()], [*given_2[:count], *module_2.parameters()]
    expected, expected_2 = (
        gradients(slow(module, lengths, *given), wanted), gradients(slow(module_2, [3, 9], *given_2), wanted_2)
    )  # fmt: skip
    with way("cells"), workspace():
        for _ in range(2):
            one, two = fast(module, pack, *given), fast(module_2, pack_2, *given_2)
            fast(module_2, pack_2, *given_2)  # dropped without its backward
            loss = sum((each * torch.arange(each.numel()).view(each.shape).cos()).sum() for each in one)
            first = torch.autograd.grad(loss, wanted, retain_graph=True)
            torch.testing.assert_close(gradients(two, wanted_2), expected_2)
            torch.testing.assert_close(list(first), expected)
            torch.testing.assert_close(list(torch.autograd.grad(loss, wanted)), expected)
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                torch.autograd.grad(loss, wanted)
            loss = fast(module, pack, *given)[0].square().sum()
            slope = torch.autograd.grad(loss, wanted[0], create_graph=True)[0].sum()
            with pytest.raises(RuntimeError, match="once_differentiable"):
                slope.backward()


def test_what_a_caller_holds_is_never_used_again():
    module, pack, *given = packed([4, 0, 7, 1, 2], "gru")
    with way("cells"), workspace():
        held = fast(module, pack, *given)
        kept = [each.detach().clone() for each in held]
        sum(each.sum() for each in held).backward()
        held = [each.detach() for each in held]
        gc.collect()
        for seed in range(3):
            torch.manual_seed(seed)
            sum(each.square().sum() for each in fast(module, pack, torch.randn_like(given[0]), *given[1:])).backward()
    torch.testing.assert_close(held, kept, rtol=0, atol=0)


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("cell", CELLS)
def test_gradients_add_up_in_memory_of_their_own(cell, by):
    module, pack, *given = packed([4, 0, 7], cell)
    found = []
    with way(by):
        for _ in range(2):
            sum(each.sum() for each in fast(module, pack, *given)).backward()
            found.append([weight.grad.clone() for weight in module.parameters()])
    torch.testing.assert_close(found[1], [2 * each for each in found[0]])
    assert len({weight.grad.untyped_storage().data_ptr() for weight in module.parameters()}) == 4


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("value", [1e9, math.inf, math.nan])
def test_a_row_knows_nothing_of_the_rows_beside_it(value, cell, by):
    module, pack, values, *starts = packed([3, 9, 5], cell)
    with way(by), torch.no_grad():
        expected = fast(module, pack, values, *starts)
        values[3:12] = value
        found = fast(module, pack, values, *starts)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one[[0, 2]], other[[0, 2]], rtol=0, atol=0)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("ways", list(itertools.product(["cells", "kernel", "padded"], repeat=2)), ids=str)
def test_stacks_equal_torch_whatever_way_each_layer_takes(ways, cell, monkeypatch):
    monkeypatch.setattr(layer, "BLOCK", 3)
    monkeypatch.setattr(layer, "CHUNK", 8)
    lengths = [4, 0, 7, 1, 2, 5, 12]
    below, pack, values, *starts = packed(lengths, cell)
    above = type(below)(3, 3).double()
    taken = {"cells": None, "kernel": pack.runs, "padded": pack.rectangles(1e9)}
    monkeypatch.setattr(routing, "rectangles", lambda module, *_: taken[ways[module is above]])
    between, *ends = slow(below, lengths, values, *starts)
    expected = slow(above, lengths, between, *starts)
    first = [begin(module, pack, *starts) for module in (below, above)]
    for learning in (True, False):
        with torch.set_grad_enabled(learning):
            states, found = routing.states([below, above], values[pack.events], first, pack)
            only = routing.ends([below, above], values[pack.events], first, pack)
        assert states.requires_grad == learning
        torch.testing.assert_close((states[pack.places], *(end[pack.ranks] for end in found[1])), expected)
        torch.testing.assert_close(only, found)
        torch.testing.assert_close([end[pack.ranks] for end in found[0]], ends)


@pytest.mark.parametrize("cell", CELLS)
def test_recomputation_keeps_its_buffers(cell):
    """What is saved anew for the backward outlives the graph that it was computed in."""
    module, pack, *given = packed([4, 0, 7, 1, 2], cell)
    wanted, found = [*given[: 2 if cell == "gru" else 3], *module.parameters()], []
    with way("cells"), workspace():
        for run in (fast, lambda *of: checkpoint(fast, *of, use_reentrant=False)) * 2:
            fast(module, pack, *given)[0].sum().backward()  # leaves buffers behind
            found.append(gradients(run(module, pack, *given), wanted))
    torch.testing.assert_close(found[1:], [found[0]] * 3, rtol=0, atol=0)


@pytest.mark.parametrize("half", [True, False])
def test_a_step_may_follow_on_embedding_in_the_same_workspace(half, monkeypatch):
    """A buffer that was made in inference mode could not be written to after it."""
    monkeypatch.setattr(products, "SMALL", 0)
    monkeypatch.setattr(products, "setting", lambda: "medium")
    module, pack, *given = packed([1] * 400, "gru", kind=torch.float32)
    with way("cells"), workspace(), torch.autocast("cpu", torch.bfloat16, enabled=half):
        with torch.inference_mode():
            routing.ends([module], given[0], [begin(module, pack, *given[1:])], pack)
        few = packed([4, 0, 7], "gru", kind=torch.float32)
        found = gradients(fast(*few), [*few[0].parameters()])
    assert all(bool(grad.isfinite().all()) and bool(grad.any()) for grad in found)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("by", ["cells", "kernel"])
@pytest.mark.parametrize("small", [0, 1e6])
def test_inputs_that_autocast_made_are_taken(small, by, gradient, monkeypatch):
    """An event encoder may end in a product."""
    monkeypatch.setattr(products, "SMALL", small)
    module, pack, *given = packed([4, 0, 7, 1], "gru", kind=torch.float32)
    with way(by), torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(gradient):
        found = fast(module, pack, given[0].bfloat16(), *given[1:])
    assert {each.dtype for each in found} == {torch.float32}
    torch.testing.assert_close(found, fast(module, pack, *given), rtol=0, atol=2e-2)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", [[4, 0, 7, 1, 2], [3, 3], [0], []], ids=str)
def test_the_packed_way_of_cuda_equals_the_scan(lengths, cell):
    """It is torch's own code, and runs on a CPU too, where it is only slower."""
    module, pack, values, h, c = packed(lengths, cell)
    states, ends = routing._cudnn(module, values[pack.events], begin(module, pack, h, c), pack)
    theirs = states[pack.places], *(end[pack.ranks] for end in ends)
    ours, wanted = fast(module, pack, values, h, c), [values, h, c, *module.parameters()]
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-10)
    torch.testing.assert_close(gradients(theirs, wanted), gradients(ours, wanted), rtol=1e-9, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=7), st.sampled_from(CELLS), st.sampled_from(WAYS))
def test_scan_equals_torch_on_any_lengths(lengths, cell, by):
    module, pack, *given = packed(lengths, cell)
    with way(by):
        torch.testing.assert_close(fast(module, pack, *given), slow(module, lengths, *given), rtol=0, atol=1e-10)


@pytest.mark.parametrize("cell", CELLS)
def test_scan_of_no_rows(cell):
    module, pack, *given = packed([], cell)
    with torch.no_grad():
        assert [tuple(each.shape) for each in fast(module, pack, *given)] == [(0, 3)] * (2 if cell == "gru" else 3)
    out = fast(module, pack, *given)
    assert [tuple(each.shape) for each in out] == [(0, 3)] * (2 if cell == "gru" else 3)
    assert all(not bool(grad.any()) for grad in gradients(out, [*module.parameters()]))


@pytest.mark.parametrize("cell", CELLS)
def test_scan_passes_gradcheck(cell):
    module, pack, *given = packed([2, 0, 3, 1], cell, dim=2)
    names = [name for name, _ in module.named_parameters()]

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        for name, weight in zip(names, tensors[3:], strict=True):
            setattr(module, name, weight)
        return fast(module, pack, *tensors[:3])

    weights = [weight.detach().clone().requires_grad_() for weight in module.parameters()]
    for name in names:
        delattr(module, name)
    with way("cells"):
        assert torch.autograd.gradcheck(run, (*given, *weights))


@pytest.mark.parametrize("cell", CELLS)
def test_scan_in_bfloat16_stays_close_and_keeps_float32_states(cell, monkeypatch):
    lengths = [9, 0, 40, 3, 17]
    module, pack, *given = packed(lengths, cell, dim=32, kind=torch.float32, inputs=8)
    wanted = [*given[: 2 if cell == "gru" else 3], *module.parameters()]
    monkeypatch.setattr(products, "SMALL", 0)
    with way("cells"):
        exact = fast(module, pack, *given)
        with torch.autocast("cpu", torch.bfloat16):
            half = fast(module, pack, *given)
    assert {each.dtype for each in half} == {torch.float32}
    torch.testing.assert_close(half, exact, rtol=0, atol=2e-2)
    assert not torch.equal(half[0], exact[0])
    for one, other in zip(gradients(half, wanted), gradients(exact, wanted), strict=True):
        assert float((one - other).norm() / other.norm()) < 8e-3


@pytest.mark.parametrize("cell", CELLS)
def test_the_product_with_the_state_is_in_bfloat16_too(cell, monkeypatch):
    module, pack, values, *starts = packed([20, 9], cell, dim=32, kind=torch.float32)
    values = torch.zeros_like(values)
    for bias in (module.bias_ih_l0, module.bias_hh_l0):
        nn.init.zeros_(bias)  # so that nothing else is rounded
    monkeypatch.setattr(products, "SMALL", 0)
    with way("cells"):
        exact = fast(module, pack, values, *starts)
        with torch.autocast("cpu", torch.bfloat16):
            half = fast(module, pack, values, *starts)
    assert 1e-5 < float((half[0] - exact[0]).detach().abs().max()) < 2e-2


@pytest.mark.parametrize("cell", CELLS)
def test_scan_without_gradients_gives_the_same_and_keeps_less(cell, monkeypatch):
    class Largest(TorchDispatchMode):
        """Remembers the largest tensor that was asked for."""

        cells = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.overloadpacket is torch.ops.aten.new_empty:
                self.cells = max(self.cells, math.prod(args[1]))
            return func(*args, **(kwargs or {}))

    monkeypatch.setattr(layer, "CHUNK", 8)
    module, pack, *given = packed([9, 0, 40, 3, 17], cell)
    first = begin(module, pack, *given[1:])
    monkeypatch.setattr(routing, "rectangles", lambda *_: None)
    with Largest() as kept:
        found, ends = routing.states([module], given[0][pack.events], [first], pack)
    for no_gradient in (torch.no_grad, torch.inference_mode):
        with no_gradient(), Largest() as dropped:
            again = routing.ends([module], given[0][pack.events], [first], pack)
        torch.testing.assert_close(again, ends, rtol=0, atol=0)
        with no_gradient(), Largest() as states:
            torch.testing.assert_close(routing.states([module], given[0][pack.events], [first], pack), (found, ends))
        blocks = 3 if cell == "gru" else 4
        assert (kept.cells, dropped.cells, states.cells) == ((69 + 4) * blocks * 3, 5 * blocks * 3, 69 * 3)


@pytest.mark.parametrize("cell", CELLS)
def test_the_rule_takes_each_way_where_it_is_meant_to(cell, monkeypatch):
    """Few rows, short ones or small states go to torch; learning from many long ragged rows never does."""
    taken, original = [], routing._kernel
    monkeypatch.setattr(routing, "_kernel", lambda *given: taken.append(1) or original(*given))
    for lengths, dim, expected in (([1], 8, 1), ([2, 2, 2], 8, 1), (list(range(25, 200)), 64, 0)):
        taken.clear()
        module, pack, *given = packed(lengths, cell, dim=dim, kind=torch.float32)
        fast(module, pack, *given)
        assert len(taken) == expected


@pytest.mark.parametrize("cell", CELLS)
def test_rows_in_blocks_and_rectangles_in_pieces_give_the_same(cell, monkeypatch):
    lengths = np.random.default_rng(1).integers(0, 30, 40).tolist()
    module, pack, *given = packed(lengths, cell, dim=8)
    first = [begin(module, pack, *given[1:])]
    expected = routing.states([module], given[0][pack.events], first, pack)[1]
    monkeypatch.setattr(layer, "BLOCK", 7)
    monkeypatch.setattr(layer, "CHUNK", 20)
    monkeypatch.setattr(routing, "PIECE", 20)
    for cost in (1e9, 0.0):
        monkeypatch.setattr(routing, "_costs", lambda what, *_: [9 if "kernel" in what else cost, 0, 1])  # noqa: B023
        with torch.no_grad():
            parts = routing.rectangles(module, pack, False, "highest")
            found = routing.ends([module], given[0][pack.events], first, pack)
        assert (max(rows * steps for rows, steps in parts) <= 40) if cost else parts is None
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
