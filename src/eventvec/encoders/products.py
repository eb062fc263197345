"""Products of a scan's steps: few shapes for oneDNN, the default library where they are small, bfloat16 by choice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from eventvec.encoders.pack import Pack
from eventvec.precision import setting
from eventvec.workspace import Lease

SMALL = 1e6  # multiply-adds of a step's product, below which the default library is faster than oneDNN


class Product:
    """Products of states, or of their gradients, with one weight, in the type that products are computed in.

    oneDNN writes new code for every shape and keeps the code of 1,024 of them; for a small product the writing takes
    ten times the product. So what goes through oneDNN gets its rows rounded up, to rows that lie behind and whose
    results are not used.
    """

    def __init__(self, weight: Tensor, like: Tensor, kind: torch.dtype, rows: int, lease: Lease) -> None:
        self.weight, self.out = weight.to(kind), None
        self.rounded = None if kind == like.dtype else lease.take(like, _up(rows), len(weight), dtype=kind).zero_()
        if self.rounded is not None or _onednn(like.dtype):
            self.out = lease.take(like, _up(rows), weight.shape[1], dtype=kind)

    def rows(self, rows: int) -> int:
        """Return how many rows a product of so many takes, where that many can be read."""
        return rows if self.out is None or self.rounded is not None else _up(rows)

    def add(self, out: Tensor, values: Tensor, beta: int = 1) -> None:
        """Add the product with some values, of which the last rows may be too many, to `beta` times what is there."""
        if self.out is None:
            out.addmm_(values, self.weight, beta=beta)
            return
        if self.rounded is not None:
            self.rounded[: len(values)] = values
            values = self.rounded[: _up(len(values))]
        product = torch.mm(values, self.weight, out=self.out[: len(values)])[: len(out)]
        out.add_(product) if beta else out.copy_(product)


def small(pack: Pack, d: int) -> bool:
    """Return whether the products of an average step are small."""
    return 3 * d * d * pack.heads[-1] < SMALL * len(pack.sizes)


@contextmanager
def quickest(pack: Pack, d: int) -> Iterator[None]:
    """Compute float32 products inside the block as is fastest for steps of this size: exactly, if they are small."""
    before = setting()
    if before in (None, "highest") or not small(pack, d):
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _onednn(kind: torch.dtype) -> bool:
    return kind == torch.float32 and setting() not in (None, "highest")


def _up(rows: int) -> int:
    """Return the rows of a product, rounded up so that there are few shapes and at most a sixteenth more rows."""
    unit = 1 if rows <= 16 else 1 << max(3, rows.bit_length() - 6)
    return -(-rows // unit) * unit
