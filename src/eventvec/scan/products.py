"""Products of a scan's steps: few shapes for oneDNN, the default library where they are small, bfloat16 by choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from eventvec.precision import setting
from eventvec.scan.buffers import Lease
from eventvec.scan.pack import Pack

SMALL = 7e5  # multiply-adds of a step's product, below which the default library is faster than oneDNN


class Product:
    """Adds products of gradients with one weight, in the type that products are computed in.

    oneDNN writes new code for every shape and keeps the code of 1,024 of them; for a small product the writing takes
    ten times the product. So what goes through oneDNN gets its rows rounded up, to rows that lie behind and whose
    results are not used.
    """

    def __init__(self, weight: Tensor, kind: torch.dtype, rows: int, lease: Lease) -> None:
        self.weight, self.out, self.rounded = weight.to(kind), None, None
        up, few = rounding(kind, weight.dtype)
        self.up = up if kind == weight.dtype else int
        if few:
            self.out = lease.take(weight, up(rows), weight.shape[1], dtype=kind)
        if kind != weight.dtype:
            self.rounded = lease.take(weight, up(rows), len(weight), dtype=kind).zero_()

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


def rounding(kind: torch.dtype, states: torch.dtype) -> tuple[Callable[[int], int], bool]:
    """Return how many rows a product is given for so many that are wanted, and whether that may be more.

    Args:
        kind: of the product.
        states: their type.
    """
    few = kind != states or (kind == torch.float32 and setting() not in (None, "highest"))
    return (_up if few else int), few


def small(pack: Pack, d: int, least: float | None = None) -> bool:
    """Return whether the products of an average step are small, of fewer multiply-adds than `SMALL` or so many."""
    return 3 * d * d * pack.heads[-1] < (SMALL if least is None else least) * len(pack.sizes)


@contextmanager
def quickest(pack: Pack, d: int, least: float | None = None) -> Iterator[None]:
    """Compute float32 products inside the block as is fastest for steps of this size: exactly, if they are small.

    Autocast, which would round states, is off inside.

    Args:
        pack: the layout.
        d: size of the state.
        least: of the multiply-adds of a step's product, for oneDNN to be used; `SMALL`, if not given.
    """
    before = setting()
    changed = before not in (None, "highest") and small(pack, d, least)
    casting = torch.is_autocast_enabled("cpu")
    try:
        if changed:
            torch.set_float32_matmul_precision("highest")
        if casting:
            torch.set_autocast_enabled("cpu", False)
        yield
    finally:
        if changed:
            torch.set_float32_matmul_precision(before)  # type: ignore[arg-type]
        if casting:
            torch.set_autocast_enabled("cpu", True)


def _up(rows: int) -> int:
    """Return the rows of a product, rounded up so that there are few shapes and at most a sixteenth more rows."""
    unit = 1 if rows <= 16 else 1 << max(3, rows.bit_length() - 6)
    return -(-rows // unit) * unit
