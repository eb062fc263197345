"""The matrix product of each step: few shapes for oneDNN, and the default library where products are small."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor

from eventvec.precision import float32_precision, float32_products
from eventvec.scan.buffers import Buffers
from eventvec.scan.pack import Pack

SMALL = 7e5  # multiply-adds of a step's matrix product, below which the default library is faster than oneDNN


class StepProduct:
    """The product of a step's rows with one weight `(k, m)`, whose type is that of the states.

    oneDNN compiles code for every shape and caches the code of 1,024 shapes. For a small matrix product, compiling
    takes ten times as long as the product. The number of rows is therefore rounded up for oneDNN, see `round_up`; the
    additional rows are those that follow in memory, and their results are not used.
    """

    def __init__(self, weight: Tensor, dtype: torch.dtype, rows: int, buffers: Buffers) -> None:
        mixed = dtype != weight.dtype
        self.few_shapes = mixed or (dtype == torch.float32 and float32_precision() not in (None, "highest"))
        self.weight, most = weight.to(dtype), self.round_up(rows)
        if self.few_shapes or rows == 1:  # contiguous is faster for oneDNN, and for one row in the default library
            self.weight = self.weight.contiguous()
        self.out = buffers.take(weight, most, weight.shape[1])
        self.mixed = [buffers.take(weight, most, size, dtype=dtype).zero_() for size in weight.shape] if mixed else []

    def __call__(self, values: Tensor, out: Tensor | None = None) -> Tensor:
        """Return `(rows, m)` the product of `values`, `(rows, k)`, in `out` or in memory that is used again."""
        rows = len(values)
        out = self.out[:rows] if out is None else out
        if not self.mixed:
            return torch.mm(values, self.weight, out=out)
        rounded, product = self.mixed
        rounded[:rows] = values
        return out.copy_(torch.mm(rounded[:rows], self.weight, out=product[:rows]))

    def round_up(self, rows: int) -> int:
        """Return the number of rows that a product takes: one of few, larger by at most a sixteenth or 7."""
        unit = 1 if rows <= 16 or not self.few_shapes else 1 << max(3, rows.bit_length() - 6)
        return -(-rows // unit) * unit


def is_small(pack: Pack, d: int) -> bool:
    """Return whether the matrix product of an average step has fewer than `SMALL` multiply-adds."""
    return 3 * d * d * pack.offsets[-1] < SMALL * len(pack.sizes)


def fastest_matmul(pack: Pack, d: int) -> AbstractContextManager[None]:
    """Compute float32 matrix products inside the block in the fastest way for steps of this size, without autocast."""
    small = float32_precision() not in (None, "highest") and is_small(pack, d)
    return _set_products(small) if small or torch.is_autocast_enabled("cpu") else nullcontext()


@contextmanager
def _set_products(small: bool) -> Iterator[None]:
    with torch.autocast("cpu", enabled=False), float32_products("highest" if small else None):
        yield
