"""Matrix products of a scan: few different shapes for oneDNN, and the default library where the products are small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from eventvec.precision import float32_precision
from eventvec.scan.buffers import Buffers
from eventvec.scan.pack import Pack

SMALL = 7e5  # multiply-adds of a step's matrix product, below which the default library is faster than oneDNN


class BackwardProduct:
    """The matrix product of gradients with a weight, in the type that matrix products are computed in.

    oneDNN compiles code for every shape and caches the code of 1,024 shapes. For a small matrix product, compiling
    takes ten times as long as the product. The number of rows is therefore rounded up for oneDNN; the additional rows
    are those that follow in memory, and their results are not used.
    """

    def __init__(self, weight: Tensor, dtype: torch.dtype, rows: int, buffers: Buffers) -> None:
        self.weight, self.out, self.rounded = weight.to(dtype), None, None
        round_up, few_shapes = row_rounding(dtype, weight.dtype)
        self.round_up = round_up if dtype == weight.dtype else int
        if few_shapes:
            self.out = buffers.take(weight, round_up(rows), weight.shape[1], dtype=dtype)
        if dtype != weight.dtype:
            self.rounded = buffers.take(weight, round_up(rows), len(weight), dtype=dtype).zero_()

    def add_to(self, out: Tensor, values: Tensor, beta: int = 1) -> None:
        """Add the product of `values` and the weight to `beta` times `out`; `values` may have more rows than `out`."""
        if self.out is None:
            out.addmm_(values, self.weight, beta=beta)
            return
        if self.rounded is not None:
            self.rounded[: len(values)] = values
            values = self.rounded[: _round_up(len(values))]
        product = torch.mm(values, self.weight, out=self.out[: len(values)])[: len(out)]
        out.add_(product) if beta else out.copy_(product)


def row_rounding(dtype: torch.dtype, state_dtype: torch.dtype) -> tuple[Callable[[int], int], bool]:
    """Return a function that rounds up the rows of a matrix product, and whether it rounds at all.

    Args:
        dtype: The type that matrix products are computed in.
        state_dtype: The type of the states.
    """
    few_shapes = dtype != state_dtype or (dtype == torch.float32 and float32_precision() not in (None, "highest"))
    return (_round_up if few_shapes else int), few_shapes


def is_small(pack: Pack, d: int, smallest: float | None = None) -> bool:
    """Return whether the matrix product of an average step has fewer than `smallest` (`SMALL`) multiply-adds."""
    return 3 * d * d * pack.offsets[-1] < (SMALL if smallest is None else smallest) * len(pack.sizes)


@contextmanager
def fastest_matmul(pack: Pack, d: int, smallest: float | None = None) -> Iterator[None]:
    """Compute float32 matrix products inside the block in the fastest way for steps of this size.

    Small matrix products are computed by the default library. Autocast, which would round the states, is off inside
    the block.

    Args:
        pack: The layout.
        d: Size of the state.
        smallest: Multiply-adds of a matrix product that is large enough for oneDNN; `SMALL` if not given.
    """
    current = float32_precision()
    before = current if current not in (None, "highest") and is_small(pack, d, smallest) else None
    autocast = torch.is_autocast_enabled("cpu")
    try:
        if before is not None:
            torch.set_float32_matmul_precision("highest")
        if autocast:
            torch.set_autocast_enabled("cpu", False)
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)
        if autocast:
            torch.set_autocast_enabled("cpu", True)


def _round_up(rows: int) -> int:
    """Return the rows of a matrix product, rounded up to few values, by at most a sixteenth or 7 rows."""
    unit = 1 if rows <= 16 else 1 << max(3, rows.bit_length() - 6)
    return -(-rows // unit) * unit
