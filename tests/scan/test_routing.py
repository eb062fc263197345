"""The scan against torch's own cells, run row by row: values, gradients, precision, and memory."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from eventvec.precision import onednn_agrees
from eventvec.scan import layer, matmul, routing
from eventvec.scan.buffers import Buffers, buffer_pool

CELLS, ROUTES = ("gru", "lstm"), ("cells", "kernel", "rule")


@pytest.fixture(autouse=True)
def pool_small_buffers(monkeypatch):
    """Pool small buffers too, so that a buffer shared by mistake is noticed."""
    monkeypatch.setattr("eventvec.scan.buffers.SMALLEST", 0)


def packed(lengths: list[int], cell: str, dim: int = 3, dtype: torch.dtype = torch.float64, inputs: int = 2):
    """Return `(torch's cell, pack, inputs in row order, start h, start c)`, random and with gradients required."""
    torch.manual_seed(len(lengths) + sum(lengths))
    module = {"gru": nn.GRU, "lstm": nn.LSTM}[cell](inputs, dim).to(dtype)
    values = torch.randn(sum(lengths), inputs, dtype=dtype, requires_grad=True)
    starts = [torch.randn(len(lengths), dim, dtype=dtype, requires_grad=True) for _ in range(2)]
    return module, routing.Pack.of(torch.tensor(lengths, dtype=torch.int64)), values, *starts


def fast(
    module: nn.GRU | nn.LSTM, pack: routing.Pack, values: Tensor, h: Tensor, c: Tensor, whole: bool = True
) -> tuple[Tensor, ...]:
    """Return the scan's states and ends, both in row order."""
    states, [ends] = routing.states([module], values[pack.events], [begin(module, pack, h, c)], pack, whole)
    return states[pack.places], *(end[pack.ranks] for end in ends)


@contextmanager
def route(name: str) -> Iterator[None]:
    """Fix the code that runs on a CPU: `cells`, torch's kernel where it can, or what the rule chooses."""
    before = routing.kernel_rows
    routes = {"cells": lambda *_: None, "kernel": halves, "rule": before}
    try:
        routing.kernel_rows = routes[name]
        yield
    finally:
        routing.kernel_rows = before


def halves(cell: nn.GRU | nn.LSTM, pack: routing.Pack, whole: bool) -> list[tuple[int, int]] | None:
    """Return two calls of torch's kernel, or None where it cannot run."""
    if pack.active == 0 or (whole and isinstance(cell, nn.LSTM) and len(set(pack.sizes)) > 1):
        return None
    half = pack.active // 2
    return [(0, half), (half, pack.active)] if half else [(0, 1)]


def begin(module: nn.GRU | nn.LSTM, pack: routing.Pack, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """Return the states before the first events, in the order of the pack."""
    return (h[pack.order],) if isinstance(module, nn.GRU) else (h[pack.order], c[pack.order])


def slow(module: nn.GRU | nn.LSTM, lengths: list[int], values: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """Return the same as `fast` from torch's own cell, one row at a time."""
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


def weighted_sum(outputs: tuple[Tensor, ...]) -> Tensor:
    """Return a sum in which every number of an output has a different weight."""
    return sum((values * torch.arange(values.numel()).view(values.shape).cos()).sum() for values in outputs)


def gradients(outputs: tuple[Tensor, ...], tensors: list[Tensor]) -> list[Tensor]:
    """Return the gradients of the weighted sum of the outputs."""
    return list(torch.autograd.grad(weighted_sum(outputs), tensors, allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("name", "whole"), [("cells", True), ("kernel", True), ("kernel", False)])
@pytest.mark.parametrize("lengths", [[4, 0, 7, 1, 2, 5, 3, 6], [5], [1], [0], [0, 0], [3, 3, 3], [2, 9, 2]], ids=str)
def test_scan_equals_torch(lengths, name, whole, cell, dtype, tolerance):
    module, pack, *inputs = packed(lengths, cell, dtype=dtype)
    expected = slow(module, lengths, *inputs)
    with route(name), buffer_pool():
        actual = fast(module, pack, *inputs, whole)
    expected = expected[:3] if whole else expected[:2]
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)
    leaves = [*inputs[: 2 if cell == "gru" else 3], *module.parameters()]
    torch.testing.assert_close(
        gradients(actual, leaves), gradients(expected, leaves), rtol=tolerance, atol=10 * tolerance
    )
    with route(name), torch.no_grad():
        torch.testing.assert_close(fast(module, pack, *inputs, whole), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("precision", ["highest", "medium"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_many_rows_over_many_chunks_equal_torch(cell, threads, precision, monkeypatch):
    """Matrix products of steps are padded to few shapes, and those of chunks read past the chunk, without an effect."""
    if precision == "medium" and not onednn_agrees():
        pytest.skip("this CPU computes float32 matrix products of precision `medium` in bfloat16")
    monkeypatch.setattr(layer, "CHUNK", 100)
    monkeypatch.setattr(matmul, "SMALL", 0)
    lengths = np.random.default_rng(0).integers(0, 9, 70).tolist()
    module, pack, *inputs = packed(lengths, cell, dim=24, dtype=torch.float32, inputs=5)
    expected, leaves = slow(module, lengths, *inputs), [*inputs[: 2 if cell == "gru" else 3], *module.parameters()]
    before = torch.get_float32_matmul_precision(), torch.get_num_threads()
    try:
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)
        with route("cells"):
            actual = fast(module, pack, *inputs)
        actual_gradients = gradients(actual, leaves)
        with route("cells"), torch.no_grad():
            without_gradients = fast(module, pack, *inputs)
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.set_num_threads(before[1])
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(without_gradients, expected, rtol=0, atol=1e-5)
    for gradient, reference in zip(actual_gradients, gradients(expected, leaves), strict=True):
        assert float((gradient - reference).norm() / reference.norm()) < 1e-5


@pytest.mark.parametrize("cell", CELLS)
def test_graphs_may_interleave_be_deleted_and_run_backward_twice(cell):
    """The buffers of a graph are not reused until the graph is gone, whatever happens to other graphs."""
    lengths = [4, 0, 7, 1, 2]
    module, pack, *inputs = packed(lengths, cell)
    module_2, pack_2, *inputs_2 = packed([3, 9], cell)
    count = 2 if cell == "gru" else 3
    leaves, leaves_2 = [*inputs[:count], *module.parameters()], [*inputs_2[:count], *module_2.parameters()]
    expected = gradients(slow(module, lengths, *inputs), leaves)
    expected_2 = gradients(slow(module_2, [3, 9], *inputs_2), leaves_2)
    with route("cells"), buffer_pool():
        for _ in range(2):
            outputs, outputs_2 = fast(module, pack, *inputs), fast(module_2, pack_2, *inputs_2)
            fast(module_2, pack_2, *inputs_2)  # deleted without a backward pass
            loss = weighted_sum(outputs)
            first = torch.autograd.grad(loss, leaves, retain_graph=True)
            torch.testing.assert_close(gradients(outputs_2, leaves_2), expected_2)
            torch.testing.assert_close(list(first), expected)
            torch.testing.assert_close(list(torch.autograd.grad(loss, leaves)), expected)
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                torch.autograd.grad(loss, leaves)
            loss = fast(module, pack, *inputs)[0].square().sum()
            slope = torch.autograd.grad(loss, leaves[0], create_graph=True)[0].sum()
            with pytest.raises(RuntimeError, match="once_differentiable"):
                slope.backward()


def test_the_memory_of_a_result_is_never_reused():
    module, pack, *inputs = packed([4, 0, 7, 1, 2], "gru")
    with route("cells"), buffer_pool():
        results = fast(module, pack, *inputs)
        copies = [values.detach().clone() for values in results]
        sum(values.sum() for values in results).backward()
        results = [values.detach() for values in results]
        gc.collect()
        for seed in range(3):
            torch.manual_seed(seed)
            outputs = fast(module, pack, torch.randn_like(inputs[0]), *inputs[1:])
            sum(values.square().sum() for values in outputs).backward()
    torch.testing.assert_close(results, copies, rtol=0, atol=0)


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize("cell", CELLS)
def test_gradients_accumulate_in_separate_memory(cell, name):
    module, pack, *inputs = packed([4, 0, 7], cell)
    accumulated = []
    with route(name):
        for _ in range(2):
            sum(values.sum() for values in fast(module, pack, *inputs)).backward()
            accumulated.append([weight.grad.clone() for weight in module.parameters()])
    torch.testing.assert_close(accumulated[1], [2 * gradient for gradient in accumulated[0]])
    assert len({weight.grad.untyped_storage().data_ptr() for weight in module.parameters()}) == 4


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("value", [1e9, math.inf, math.nan])
def test_a_row_does_not_depend_on_other_rows(value, cell, name):
    module, pack, values, *starts = packed([3, 9, 5], cell)
    with route(name), torch.no_grad():
        expected = fast(module, pack, values, *starts)
        values[3:12] = value
        actual = fast(module, pack, values, *starts)
    for ends, expected_ends in zip(actual[1:], expected[1:], strict=True):
        torch.testing.assert_close(ends[[0, 2]], expected_ends[[0, 2]], rtol=0, atol=0)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("names", list(itertools.product(["cells", "kernel"], repeat=2)), ids=str)
def test_stacks_equal_torch_whatever_code_runs_each_layer(names, cell, monkeypatch):
    monkeypatch.setattr(layer, "CHUNK", 8)
    lengths = [4, 0, 7, 1, 2, 5, 12]
    lower, pack, values, *starts = packed(lengths, cell)
    upper = type(lower)(3, 3).double()
    calls = {"cells": lambda *_: None, "kernel": halves}
    monkeypatch.setattr(routing, "kernel_rows", lambda module, *args: calls[names[module is upper]](module, *args))
    lower_states, *lower_ends = slow(lower, lengths, values, *starts)
    expected = slow(upper, lengths, lower_states, *starts)
    first = [begin(module, pack, *starts) for module in (lower, upper)]
    for learning, whole in itertools.product((True, False), repeat=2):
        with torch.set_grad_enabled(learning):
            states, ends = routing.states([lower, upper], values[pack.events], first, pack, whole)
            only_ends = routing.ends([lower, upper], values[pack.events], first, pack, whole)
        assert states.requires_grad == learning
        parts = slice(None) if whole else slice(1)
        torch.testing.assert_close(states[pack.places], expected[0])
        torch.testing.assert_close([end[pack.ranks] for end in ends[1]], list(expected[1:][parts]))
        torch.testing.assert_close(only_ends, ends)
        torch.testing.assert_close([end[pack.ranks] for end in ends[0]], lower_ends[parts])


@pytest.mark.parametrize("cell", CELLS)
def test_batches_of_any_lengths_have_matrix_products_of_few_shapes(cell, monkeypatch):
    """oneDNN keeps compiled code of 0.6 MB for each shape, also where a batch ends within a chunk."""

    class Rows(TorchDispatchMode):
        """Records the numbers of rows of the first factors, and of the columns of transposed ones."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.addmm_):
                numbers.update(size for factor in args[-2:] for size in factor.shape)
            return func(*args, **(kwargs or {}))

    monkeypatch.setattr(matmul, "SMALL", 0)
    monkeypatch.setattr(matmul, "float32_precision", lambda: "medium")
    rng, numbers, product = np.random.default_rng(0), set(), None
    for _ in range(20):
        module, pack, *inputs = packed(rng.integers(20, 60, 40).tolist(), cell, dtype=torch.float32)
        with route("cells"), Rows():
            gradients(fast(module, pack, *inputs), [*module.parameters()])
        product = matmul.StepProduct(torch.ones(1, 1), torch.float32, 1, Buffers())
    assert max(numbers) > 500
    assert not [number for number in numbers if product.round_up(number) != number]


@pytest.mark.parametrize("cell", CELLS)
def test_recomputation_keeps_its_buffers(cell):
    """What is saved again for the backward pass outlives the graph that it was computed in."""
    module, pack, *inputs = packed([4, 0, 7, 1, 2], cell)
    leaves, results = [*inputs[: 2 if cell == "gru" else 3], *module.parameters()], []
    with route("cells"), buffer_pool():
        for run in (fast, lambda *args: checkpoint(fast, *args, use_reentrant=False)) * 2:
            fast(module, pack, *inputs)[0].sum().backward()  # returns buffers to the pool
            results.append(gradients(run(module, pack, *inputs), leaves))
    torch.testing.assert_close(results[1:], [results[0]] * 3, rtol=0, atol=0)


@pytest.mark.parametrize("mixed", [True, False])
def test_a_training_step_may_follow_inference_in_the_same_buffer_pool(mixed, monkeypatch):
    """A buffer that was allocated in inference mode could not be written to afterwards."""
    monkeypatch.setattr(matmul, "SMALL", 0)
    monkeypatch.setattr(matmul, "float32_precision", lambda: "medium")
    module, pack, *inputs = packed([1] * 400, "gru", dtype=torch.float32)
    with route("cells"), buffer_pool(), torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        with torch.inference_mode():
            routing.ends([module], inputs[0], [begin(module, pack, *inputs[1:])], pack)
        few = packed([4, 0, 7], "gru", dtype=torch.float32)
        weight_gradients = gradients(fast(*few), [*few[0].parameters()])
    assert all(bool(gradient.isfinite().all()) and bool(gradient.any()) for gradient in weight_gradients)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("name", ["cells", "kernel"])
@pytest.mark.parametrize("small", [0, 1e6])
def test_inputs_computed_under_autocast_are_accepted(small, name, gradient, monkeypatch):
    """The last operation of an event encoder may be a matrix product."""
    monkeypatch.setattr(matmul, "SMALL", small)
    module, pack, *inputs = packed([4, 0, 7, 1], "gru", dtype=torch.float32)
    with route(name), torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(gradient):
        outputs = fast(module, pack, inputs[0].bfloat16(), *inputs[1:])
    assert {values.dtype for values in outputs} == {torch.float32}
    torch.testing.assert_close(outputs, fast(module, pack, *inputs), rtol=0, atol=2e-2)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("lengths", [[4, 0, 7, 1, 2], [4, 0, 7, 6], [3, 3], [3, 3, 0], [0], []], ids=str)
def test_the_code_for_cuda_equals_the_scan(lengths, whole, cell):
    """The code for CUDA is torch's own, which also runs on a CPU, only slower; training mode has no part in it."""
    module, pack, values, h, c = packed(lengths, cell)
    states, ends = routing._cudnn(module.eval(), values[pack.events], begin(module, pack, h, c), pack, whole)
    outputs = states[pack.places], *(end[pack.ranks] for end in (ends if whole else ends[:1]))
    expected, leaves = fast(module, pack, values, h, c, whole), [values, h, c, *module.parameters()]
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(gradients(outputs, leaves), gradients(expected, leaves), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("lengths", "cell", "whole", "calls"),
    [([4, 0, 7, 6], "gru", True, ["padded"]), ([4, 0, 7, 1, 1], "gru", True, ["packed"]),
     ([4, 0, 7, 6], "lstm", True, ["packed"]), ([4, 0, 7, 6], "lstm", False, ["padded"]),
     ([3, 3, 0], "lstm", True, ["padded"])],
)  # fmt: skip
def test_rows_are_padded_for_cuda_where_that_adds_little_work(lengths, cell, whole, calls, monkeypatch):
    module, pack, values, h, c = packed(lengths, cell)
    seen, run = [], getattr(torch, cell)
    monkeypatch.setattr(
        torch, cell, lambda x, *rest: seen.append("padded" if x.dim() == 3 else "packed") or run(x, *rest)
    )
    routing._cudnn(module, values[pack.events], begin(module, pack, h, c), pack, whole)
    assert seen == calls


@given(st.lists(st.integers(0, 7), min_size=1, max_size=7), st.sampled_from(CELLS), st.sampled_from(ROUTES))
def test_scan_equals_torch_on_any_lengths(lengths, cell, name):
    module, pack, *inputs = packed(lengths, cell)
    with route(name):
        torch.testing.assert_close(fast(module, pack, *inputs), slow(module, lengths, *inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("cell", CELLS)
def test_scan_of_no_rows(cell):
    module, pack, *inputs = packed([], cell)
    with torch.no_grad():
        assert [tuple(values.shape) for values in fast(module, pack, *inputs)] == [(0, 3)] * (2 if cell == "gru" else 3)
    outputs = fast(module, pack, *inputs)
    assert [tuple(values.shape) for values in outputs] == [(0, 3)] * (2 if cell == "gru" else 3)
    assert all(not bool(gradient.any()) for gradient in gradients(outputs, [*module.parameters()]))


@pytest.mark.parametrize("cell", CELLS)
def test_scan_passes_gradcheck(cell):
    module, pack, *inputs = packed([2, 0, 3, 1], cell, dim=2)
    names = [name for name, _ in module.named_parameters()]

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        for name, weight in zip(names, tensors[3:], strict=True):
            setattr(module, name, weight)
        return fast(module, pack, *tensors[:3])

    weights = [weight.detach().clone().requires_grad_() for weight in module.parameters()]
    for name in names:
        delattr(module, name)
    with route("cells"):
        assert torch.autograd.gradcheck(run, (*inputs, *weights))


@pytest.mark.parametrize("cell", CELLS)
def test_scan_in_bfloat16_stays_close_and_keeps_float32_states(cell, monkeypatch):
    lengths = [9, 0, 40, 3, 17]
    module, pack, *inputs = packed(lengths, cell, dim=32, dtype=torch.float32, inputs=8)
    leaves = [*inputs[: 2 if cell == "gru" else 3], *module.parameters()]
    monkeypatch.setattr(matmul, "SMALL", 0)
    with route("cells"):
        exact = fast(module, pack, *inputs)
        with torch.autocast("cpu", torch.bfloat16):
            mixed = fast(module, pack, *inputs)
    assert {values.dtype for values in mixed} == {torch.float32}
    torch.testing.assert_close(mixed, exact, rtol=0, atol=2e-2)
    assert not torch.equal(mixed[0], exact[0])
    for gradient, expected in zip(gradients(mixed, leaves), gradients(exact, leaves), strict=True):
        assert float((gradient - expected).norm() / expected.norm()) < 8e-3


@pytest.mark.parametrize("cell", CELLS)
def test_the_product_with_the_state_is_in_bfloat16_too(cell, monkeypatch):
    module, pack, values, *starts = packed([20, 13], cell, dim=32, dtype=torch.float32)
    values = torch.zeros_like(values)
    for bias in (module.bias_ih_l0, module.bias_hh_l0):
        nn.init.zeros_(bias)  # so that only the product with the state is rounded
    monkeypatch.setattr(matmul, "SMALL", 0)
    with route("cells"):
        exact = fast(module, pack, values, *starts)
        with torch.autocast("cpu", torch.bfloat16):
            mixed = fast(module, pack, values, *starts)
    assert 1e-5 < float((mixed[0] - exact[0]).detach().abs().max()) < 2e-2


@pytest.mark.parametrize("cell", CELLS)
def test_scan_without_gradients_gives_the_same_and_allocates_less(cell, monkeypatch):
    class Largest(TorchDispatchMode):
        """Records the size of the largest tensor that `new_empty` allocates."""

        numbers = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.overloadpacket is torch.ops.aten.new_empty:
                self.numbers = max(self.numbers, math.prod(args[1]))
            return func(*args, **(kwargs or {}))

    monkeypatch.setattr(layer, "CHUNK", 8)
    module, pack, *inputs = packed([9, 0, 40, 3, 17], cell)
    first = begin(module, pack, *inputs[1:])
    monkeypatch.setattr(routing, "kernel_rows", lambda *_: None)
    with Largest() as with_gradients:
        expected = routing.states([module], inputs[0][pack.events], [first], pack)
    for no_gradient in (torch.no_grad, torch.inference_mode):
        with no_gradient(), Largest() as ends_only:
            ends = routing.ends([module], inputs[0][pack.events], [first], pack)
        torch.testing.assert_close(ends, expected[1], rtol=0, atol=0)
        with no_gradient(), Largest() as states:
            torch.testing.assert_close(routing.states([module], inputs[0][pack.events], [first], pack), expected)
        blocks = 3 if cell == "gru" else 4
        largest = with_gradients.numbers, ends_only.numbers, states.numbers
        assert largest == ((69 + 5) * blocks * 3, 5 * blocks * 3, 69 * 3)


@pytest.mark.parametrize("cell", CELLS)
def test_the_rule_gives_small_batches_to_torch(cell, monkeypatch):
    """An LSTM without its c, and few steps of a GRU on rows of one length, run in torch's kernel; large ones do not."""
    ragged, lstm = list(range(25, 200)), cell == "lstm"
    for lengths, dim, calls in (
        ([1], 8, (1, 1)), ([2, 2, 2, 0], 8, (1, 1)), ([5, 4, 4, 3, 1], 8, (0, lstm)), (ragged, 64, (0, lstm * 3)),
        ([1] * 200 + [16], 800, (0, lstm * 4)), ([1] * 200 + [900], 800, (0, 0)), ([0], 8, (0, 0)),
        ([9], routing.LARGE, (0, 0)), ([8] * 3, 64, (1, 1)), ([9] * 3, 64, (lstm, lstm)),
        ([2] * 4096, 64, (lstm, lstm)),
    ):  # fmt: skip
        pack = routing.Pack.of(torch.tensor(lengths))
        module = {"gru": nn.GRU, "lstm": nn.LSTM}[cell](1, dim, device="meta")
        rows = [routing.kernel_rows(module, pack, whole) or [] for whole in (True, False)]
        assert tuple(map(len, rows)) == calls, (lengths, dim)
        assert all(
            part == [] or [row for a, b in part for row in range(a, b)] == list(range(pack.active)) for part in rows
        )


@pytest.mark.parametrize("n", [1, 7])
def test_one_step_of_a_gru_has_the_bits_of_torchs_own_kernel(n):
    module, pack, values, h, c = packed([1] * n, "gru", dim=64, dtype=torch.float32, inputs=5)
    _, end = fast(module, pack, values, h, c)
    own = module(values[None], h[None])[1][0]
    assert torch.equal(end, own)
    for gradient, expected in zip(*(torch.autograd.grad(z.sum(), [values, h]) for z in (end, own)), strict=True):
        torch.testing.assert_close(gradient, expected)
