"""A device that is pretended on the CPU, to count where a program would wait for a real one.

Every tensor counts as one on a GPU, unless it was made for the CPU or computed from such tensors. An operation on a
tensor of the GPU waits if the host needs its result: a value, or the size of what is computed.
"""

from __future__ import annotations

import traceback
from collections import Counter
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICE, HOST = torch.device("cuda", 0), torch.device("cpu")
WAITING = {
    *("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim", "bincount"),
    *("equal", "is_nonzero", "argwhere"),
}
"""Operations whose result has a size that only the device knows, or that the host reads."""
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}


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
        self.autocast = mock.patch.object(torch, "autocast", _autocast(torch.autocast))

    def __enter__(self) -> Pretended:
        self.autocast.start()
        self.operations.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.operations.__exit__(*error)
        self.autocast.stop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        host = bool(tensors) and all(hasattr(tensor, "pretended_host") for tensor in tensors)
        if getattr(func, "__self__", None) is Tensor.device:
            return HOST if host else DEVICE
        if getattr(func, "__self__", None) is Tensor.is_cuda:
            return not host
        device = kwargs.pop("device", None)
        if name == "to":
            device = next((value for value in args[1:] if isinstance(value, torch.device | str)), device)
            args = tuple(value for value in args if not isinstance(value, torch.device | str))
        device = HOST if name in ("cpu", "numpy", "tolist", "item") else device and torch.device(device)
        to_host = device.type == "cpu" if device else host or not tensors
        moved = to_host != host if tensors else not to_host and name in ("tensor", "as_tensor")
        if moved and not kwargs.get("non_blocking"):
            self.note()
        self.on_host, before = self.on_host or moved or host or not tensors, self.on_host
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
        return result

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
        waits |= any(isinstance(index, Tensor) and index.dtype == torch.bool for index in masks)
        if waits:
            self.pretended.note()
        return func(*args, **kwargs)


def _autocast(real: Any) -> Any:
    class OnCpu(real):  # type: ignore[misc]
        def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
            super().__init__("cpu", *args, **kwargs)

    return OnCpu
