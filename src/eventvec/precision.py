"""The precision of matrix products while a model is trained or used; the previous settings are restored afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import torch

from eventvec.errors import ConfigError
from eventvec.options import Precision as Precision
from eventvec.options import one_of

BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")
"""The flags of processors that compute in bfloat16: two of x86, one of ARM. Others convert, which takes far longer."""
FASTER = BFLOAT16_FLAGS[:2]
"""Those on which trainings were measured."""
WIDE = 3 * 256**2
"""The count of numbers of a model's largest matrix, that of a GRU of 256, from which the training of recurrent encoders
gains from bfloat16 on CPUs with AMX and on AMD's with avx512_bf16 alone: 1.1 to 1.5 times at 256, 1.6 to 2 at 800
(benchmarks/README.md)."""


@contextmanager
def matmul_precision(precision: Literal["auto"] | Precision, device: torch.device) -> Iterator[None]:
    """Compute matrix products in float32 or, by autocast, in bfloat16, inside the block only.

    On a CPU, float32 matrix products go through oneDNN if its results agree with the default library to 1e-5, which
    is checked once per process. oneDNN is up to twice as fast on some CPUs; on others it rounds to bfloat16 and is not
    used. It is not used either if torch's precisions were set device by device. The setting belongs to the process,
    so threads that train or embed at the same time share it.
    """
    check_precision(precision, device)
    with (
        float32_products("medium" if device.type == "cpu" and float32_precision() and onednn_agrees() else None),
        torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"),
    ):
        yield


@contextmanager
def float32_products(precision: Literal["highest", "medium"] | None) -> Iterator[None]:
    """Compute float32 matrix products inside the block at one of torch's precisions; None leaves it as it is.

    `highest` is torch's default library, and `medium` is oneDNN on a CPU.
    """
    before = float32_precision() if precision else None
    try:
        if precision:
            torch.set_float32_matmul_precision(precision)
        yield
    finally:
        if before:
            torch.set_float32_matmul_precision(before)


@contextmanager
def exact_cudnn() -> Iterator[None]:
    """Let cuDNN compute in float32 inside the block, where by default it rounds products to 10 bits (TensorFloat-32).

    Vectors of one history then agree to about 1e-5 whether they were computed at once, in parts or on a CPU, where
    otherwise they differ by 1e-4 and more. Training stays as torch has it. Nothing changes if torch's precisions were
    set device by device.
    """
    try:
        before = torch.backends.cudnn.allow_tf32
    except RuntimeError:  # torch 2.9 and later: there is no single answer
        before = False
    try:
        if before:
            torch.backends.cudnn.allow_tf32 = False
        yield
    finally:
        if before:
            torch.backends.cudnn.allow_tf32 = True


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that is unknown, or that the device does not compute in."""
    one_of("precision", precision, get_args(Precision))
    if precision == "bfloat16" and device.type == "cpu" and not cpu_has_bfloat16():
        flags = ", ".join(BFLOAT16_FLAGS)
        raise ConfigError(
            f"precision bfloat16 needs a CPU that computes in it (one of the flags {flags}); on this one it would take "
            "many times as long as float32; take precision float32, or a GPU"
        )


def pays(numbers: int, device: torch.device) -> bool:
    """Return whether training takes less time with products in bfloat16, by the CPU's flags and the model's size.

    On a GPU, recurrent encoders gain nothing (`python -m benchmarks.precision --device cuda`).

    Args:
        numbers: The count of numbers of the model's largest matrix, `threads.size`.
    """
    return device.type == "cpu" and numbers >= WIDE and cpu_has_bfloat16(FASTER)


@cache
def cpu_has_bfloat16(among: Sequence[str] = BFLOAT16_FLAGS) -> bool:
    """Return whether the CPU has instructions for bfloat16, by its flags and not by a timing."""
    capabilities = getattr(torch.cpu, "get_capabilities", None)
    if capabilities is not None:
        flags = capabilities()
        return any(flags.get(flag, False) for flag in among)
    try:  # an earlier torch
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return False
    return not words.isdisjoint(among)


def float32_precision() -> str | None:
    """Return torch's precision of float32 matrix products; None if it was set device by device in `torch.backends`."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # torch 2.9 and later: there is no single answer for all devices
        return None


@cache
def onednn_agrees() -> bool:
    """Return whether float32 matrix products through oneDNN agree with the default to 1e-5 on this CPU."""
    a, b = torch.randn(2, 256, 256, generator=torch.Generator().manual_seed(0), dtype=torch.float32, device="cpu")
    with torch.autocast("cpu", enabled=False):
        with float32_products("highest"):
            exact = a @ b
        with float32_products("medium"):
            return bool((a @ b - exact).abs().max() <= 1e-5 * exact.abs().max())
