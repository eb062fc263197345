"""How products are computed while a model is trained or used, and given back after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Literal

import torch

from eventvec.errors import ConfigError

Precision = Literal["float32", "bfloat16"]


@contextmanager
def products(kind: Precision, device: torch.device) -> Iterator[None]:
    """Compute products in float32 or, by autocast, in bfloat16, inside the block only.

    On a CPU, float32 products go through oneDNN where that agrees with the default to 1e-5 (checked once per
    process): it is up to twice as fast on some CPUs, and rounds to bfloat16 on others, where it is left alone. So it
    is where precisions were set device by device. The setting is torch's and the process' own: threads that train or
    embed at the same time share it.

    Raises:
        ConfigError: the precision is not known.

    Example:
        >>> with products("bfloat16", torch.device("cpu")):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.bfloat16
    """
    if kind not in ("float32", "bfloat16"):
        raise ConfigError(f"precision {kind!r} is not known; accepted: float32, bfloat16")
    before = setting()
    changed = device.type == "cpu" and before is not None and onednn_agrees()
    try:
        if changed:
            torch.set_float32_matmul_precision("medium")
        with torch.autocast(device.type, torch.bfloat16, enabled=kind == "bfloat16"):
            yield
    finally:
        if changed:
            torch.set_float32_matmul_precision(before)  # type: ignore[arg-type]


def setting() -> str | None:
    """Return torch's float32 matmul precision; none if it was set device by device, as `torch.backends` lets one.

    Example:
        >>> setting() in (None, "highest", "high", "medium")
        True
    """
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # torch 2.9 and later: no one answer is true of all devices
        return None


@cache
def onednn_agrees() -> bool:
    """Return whether float32 products through oneDNN agree with the default to 1e-5 on this CPU.

    Example:
        >>> onednn_agrees() in (True, False)
        True
    """
    before, rng = torch.get_float32_matmul_precision(), torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 256, 256, generator=rng, dtype=torch.float32, device="cpu")
    try:
        with torch.autocast("cpu", enabled=False):
            torch.set_float32_matmul_precision("highest")
            exact = a @ b
            torch.set_float32_matmul_precision("medium")
            return bool((a @ b - exact).abs().max() <= 1e-5 * exact.abs().max())
    finally:
        torch.set_float32_matmul_precision(before)
