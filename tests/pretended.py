"""A device that is pretended on the CPU, to count where a program would wait for a real one.

Every tensor counts as one on a GPU, unless it was made for the CPU or computed from such tensors. An operation on a
tensor of the GPU waits if the host needs its result: a value, or the size of what is computed. So does a copy that is
not said to be `non_blocking`, also of numbers in a list. Tensors in both places raise an error, as on a GPU.

What it cannot tell: whether a copy that is said not to wait is read too early, or waits nevertheless because it is
large and its memory is not pinned; and what waits inside kernels of CUDA alone.
"""

from __future__ import annotations

import traceback
from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICE, HOST = torch.device("cuda", 0), torch.device("cpu")
WAITING = {
    *("_local_scalar_dense", "nonzero", "masked_select", "_unique", "_unique2", "unique_consecutive", "unique_dim"),
    *("bincount", "equal", "allclose", "is_nonzero", "argwhere", "_to_sparse", "_linalg_check_errors"),
    *("linalg_cholesky", "linalg_inv", "linalg_solve", "linalg_eigh", "_linalg_eigh"),
}
"""Operations whose result has a size that only the device knows, or that the host reads."""
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}
READING = {"cpu", "numpy", "tolist", "item", "__array__", "__repr__"}
"""Functions that give the host the values of a tensor."""
FROM_PYTHON = {"tensor", "as_tensor", "asarray", "new_tensor"}
"""Functions that make a tensor from numbers of Python, which are copied to a device."""
COPYING = {"__getitem__", "__setitem__", "index_put", "index_put_", "copy_"}
"""Functions of a tensor on a device that take others from the host, which are copied."""
MIXING = {"_pack_padded_sequence", "gru", "lstm", "backward", "__set__"}
"""Functions that take tensors of both places and copy none, such as lengths of the host."""


class Generator(torch.Generator):
    """A generator of the pretended device."""

    @property
    def device(self) -> torch.device:
        """The pretended device."""
        return DEVICE


class Pretended(TorchFunctionMode):
    """In this context, tensors are on a GPU; `waits` has the lines of the package at which the host waits for it.

    `waits_of_backbones` has those inside the library of language models, which reads whether a mask is all ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        self.waits_of_backbones: Counter[str] = Counter()
        self.operations = _Operations(self)
        self.on_host = False
        grouped = _grouped(clip_grad._group_tensors_by_device_and_dtype)
        self.patches = [
            mock.patch.object(torch, "autocast", _autocast(torch.autocast)),
            mock.patch.object(clip_grad, "_group_tensors_by_device_and_dtype", grouped),
        ]

    def __enter__(self) -> Pretended:
        for patch in self.patches:
            patch.start()
        self.operations.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.operations.__exit__(*error)
        for patch in self.patches:
            patch.stop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        host = bool(tensors) and all(_is_host(tensor) for tensor in tensors)
        if getattr(func, "__self__", None) is Tensor.device:
            return HOST if host else DEVICE
        if getattr(func, "__self__", None) is Tensor.is_cuda:
            return not host
        device = kwargs.pop("device", None)
        if name in ("to", "type_as"):
            device = next((value for value in args[1:] if isinstance(value, torch.device | str)), device)
            args = tuple(value for value in args if not isinstance(value, torch.device | str))
            if len(args) > 1 and isinstance(args[1], Tensor):
                device, host = HOST if _is_host(args[1]) else DEVICE, _is_host(args[0])
        elif name == "_pack_padded_sequence" and not _is_host(args[1]):
            raise RuntimeError("lengths must be on the CPU")
        elif name in COPYING:
            host = _is_host(args[0])
            self._note_copies(args, kwargs)
        elif name not in MIXING:
            _refuse_both(name, tensors)
        device = HOST if name in READING else device and torch.device(device)
        to_host = device.type == "cpu" if device else host or not tensors
        moved = to_host != host if tensors else not to_host and name in FROM_PYTHON
        listed = name in FROM_PYTHON and not host and isinstance(args[0 if name != "new_tensor" else 1], list | tuple)
        if (moved or (tensors and listed)) and not kwargs.get("non_blocking"):
            self.note()
        counted = moved or host or not tensors or (name == "one_hot" and args[1:] != ())
        self.on_host, before = self.on_host or counted, self.on_host
        try:
            result = (
                args[0]
                if name == "to" and len(args) == 1 and not set(kwargs) - {"non_blocking", "copy"}
                else func(*args, **kwargs)
            )
        finally:
            self.on_host = before
        if moved and isinstance(result, Tensor):
            result = result.clone() if tensors else result
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and to_host and not any(tensor is known for known in tensors):
                tensor.pretended_host = True  # type: ignore[attr-defined]
        if name == "_pack_padded_sequence":
            result[1].pretended_host = True  # the sizes of its steps
        return result

    def _note_copies(self, args: Any, kwargs: Any) -> None:
        """Count a wait if a tensor of the device takes an index, or values, from the host."""
        if _is_host(args[0]) or kwargs.get("non_blocking"):
            return
        given = [part for value in args[1:] for part in (value if isinstance(value, tuple) else (value,))]
        if any(isinstance(each, list | np.ndarray) or (_is_host(each) and each.dim()) for each in given):
            self.note()

    def note(self) -> None:
        """Count a wait at the line of the package that is running."""
        if self.on_host:
            return
        stack = traceback.extract_stack()
        frames = [f for f in stack if "/src/eventvec/" in f.filename]
        places = [f"{f.filename.rpartition('eventvec/')[2]}:{f.lineno}" for f in frames[-7:]]
        in_backbone = any("/transformers/" in f.filename for f in stack)
        (self.waits_of_backbones if in_backbone else self.waits)[" < ".join(reversed(places))] += 1


class _Operations(TorchDispatchMode):
    """What torch computes, below its functions."""

    def __init__(self, pretended: Pretended) -> None:
        super().__init__()
        self.pretended = pretended

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func.overloadpacket.__name__
        waits = name in WAITING
        waits |= name == "repeat_interleave" and kwargs.get("output_size") is None
        masks = args[1] if name in INDEXED else []
        waits |= any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in masks)
        waits |= name == "multinomial" and (args[1] == 1 or args[2:3] != (True,))
        waits |= name == "histc" and len(args) < 4  # the limits are those of the values
        waits |= name == "tensor_split" and isinstance(args[1], Tensor)
        if waits:
            self.pretended.note()
        return func(*args, **kwargs)


def _is_host(value: Any) -> bool:
    return hasattr(value, "pretended_host")


def _refuse_both(name: str, tensors: list[Tensor]) -> None:
    """Refuse tensors of both places, but for single numbers of the host."""
    places = {_is_host(tensor) for tensor in tensors if tensor.dim() or not _is_host(tensor)}
    if len(places) > 1:
        raise RuntimeError(f"{name} takes tensors of one device, got some on the CPU and some on {DEVICE}")


def _grouped(real: Any) -> Any:
    """Return the function that groups tensors by device, with the pretended devices."""

    def function(*args: Any) -> Any:
        groups = real(*args)
        return {(HOST if _is_host(value[0][0][0]) else DEVICE, key[1]): value for key, value in groups.items()}

    return function


def _autocast(real: Any) -> Any:
    class OnCpu(real):  # type: ignore[misc]
        def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
            super().__init__("cpu", *args, **kwargs)

    return OnCpu
