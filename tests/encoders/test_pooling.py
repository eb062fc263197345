"""Sums and maxima of packed values, and their gradients, beside loops over rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eventvec.encoders.pooling import pooled
from eventvec.scan.pack import Pack

LENGTHS = [[3, 0, 5, 1, 5], [2], [4, 4, 4], [0, 0], [1, 1, 9]]


def slow(values: Tensor, pack: Pack) -> tuple[Tensor, Tensor]:
    """Return the sum and the maximum of each row, with a loop over rows."""
    rows = [values[pack.rows == row] for row in range(len(pack.order))]
    nothing = values.new_zeros(values.shape[1])
    return (
        torch.stack([row.sum(0) for row in rows]),
        torch.stack([row.amax(0) if len(row) else nothing - torch.inf for row in rows]),
    )


@pytest.mark.parametrize("lengths", LENGTHS)
def test_pooled_values_are_those_of_a_loop_over_rows(lengths: list[int]):
    pack = Pack.of(torch.tensor(lengths))
    values = torch.randn(sum(lengths), 4, dtype=torch.float64)
    for fast, expected in zip(pooled(values, pack), slow(values, pack), strict=True):
        torch.testing.assert_close(fast, expected)


@pytest.mark.parametrize("lengths", [[3, 0, 5, 1, 5], [4, 4, 4]])
def test_gradients_are_those_of_a_loop_over_rows(lengths: list[int]):
    pack = Pack.of(torch.tensor(lengths))
    values = torch.randn(sum(lengths), 4, dtype=torch.float64)
    weights = torch.randn(2, pack.active, 4, dtype=torch.float64)
    gradients = []
    for function in (pooled, slow):
        leaf = values.clone().requires_grad_()
        sums, maxima = function(leaf, pack)
        (weights[0] * sums[: pack.active] + weights[1] * maxima[: pack.active]).sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)
    leaf = values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: [part[: pack.active] for part in pooled(v, pack)], leaf)


def test_the_gradient_of_equal_maxima_goes_to_the_first():
    values = torch.tensor([[1.0], [2.0], [1.0], [2.0]], requires_grad=True)
    pooled(values, Pack.of(torch.tensor([2, 2])))[1].sum().backward()
    assert values.grad.tolist() == [[1.0], [1.0], [0.0], [0.0]]


def test_rows_name_the_row_of_each_packed_event():
    pack = Pack.of(torch.tensor([1, 3, 0]))
    assert pack.order[pack.rows].tolist() == [1, 0, 1, 1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("lengths", LENGTHS)
def test_a_gpu_gives_the_values_of_a_cpu(lengths: list[int]):
    values = torch.randn(sum(lengths), 4)
    on_cpu = pooled(values, Pack.of(torch.tensor(lengths)))
    on_gpu = pooled(values.cuda(), Pack.of(torch.tensor(lengths).cuda()))
    for cpu, gpu in zip(on_cpu, on_gpu, strict=True):
        torch.testing.assert_close(gpu.cpu(), cpu)
