"""Several processes that train one model, as torchrun starts them.

All processes draw the same batches and views, from the same random numbers: that costs a few operations on integers.
An encoder reads only the share of the rows that belongs to its process, its results are gathered from all, and every
process computes the loss over all of them. So negatives come from all processes, statistics of a batch are those of the
whole batch, and neither the loss nor its gradient depends on the number of processes.

Gradients follow one convention. What all processes compute alike has its true gradient in each of them. What each
computes for its share has the gradient of that share, times the number of processes, so the mean over processes is
the true gradient of every weight, wherever it is used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils.hooks import RemovableHandle

from eventvec.errors import ConfigError, EventvecError
from eventvec.sequences import Sequences, on_host
from eventvec.torchrun import launched

T = TypeVar("T")
PATIENCE = timedelta(days=1)
"""How long a process waits for another, which may read a table or write a store. That of a dead one is not waited for:
its connections close, and torchrun stops the others."""
LOST = ("/gloo/", "ncclRemoteError")
"""What the error of a process names whose connection to another one has closed."""

_in_share: ContextVar[bool] = ContextVar("in_share", default=False)
_spreading: ContextVar[bool] = ContextVar("spreading", default=False)
_alone: Exception | None = None
"""The error that stopped this process and not the first one."""


def process_count() -> int:
    """Return the number of processes that train together; 1 outside `joined`."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_first() -> bool:
    """Return whether this process is the one that writes files and reports progress."""
    return (dist.get_rank() if process_count() > 1 else int(os.environ.get("RANK", "0"))) == 0


@contextmanager
def joined(device: torch.device) -> Iterator[None]:
    """Connect the processes that torchrun started, unless they are connected already; for a single one, do nothing.

    Messages go over gloo, and between GPUs over NCCL, which refuses two processes on one GPU.
    """
    connected = process_count() > 1
    if device.type == "cuda" and (connected or launched()):
        torch.cuda.set_device(device)
    if connected or not launched():
        yield
        return
    from torch.distributed.rendezvous import rendezvous  # absent where torch was built without

    store, rank, count = next(rendezvous("env://", timeout=PATIENCE))
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=PATIENCE)
    try:
        if device.type == "cuda":
            check_apart(f"GPU {torch.cuda.get_device_properties(device).uuid}")
        yield
    except Exception as error:
        if isinstance(error, RuntimeError) and any(name in str(error) for name in LOST):
            raise EventvecError(
                "another process of this training has ended, so this one cannot go on; its own message or that of "
                "torchrun says why"
            ) from error
        global _alone
        _alone = None if _first_failed_too(store) else error
        raise
    finally:
        dist.destroy_process_group()


def _first_failed_too(store: Any) -> bool:
    """Return whether the first process has an error as well, if this one has; it usually comes at the same moment."""
    try:
        if is_first():
            store.set("failed", "")
        for _ in range(40):  # two seconds
            if store.check(["failed"]):
                return True
            time.sleep(0.05)
    except RuntimeError:  # the store has ended with the first process
        return True
    return False


def only_here(error: BaseException) -> bool:
    """Return whether an error stopped this process and not the first one, which then does not report it."""
    return error is _alone


def broadcast_result(function: Callable[[], T]) -> T:
    """Return the result of a function that the first process alone calls; an error of it is raised in all processes."""
    if process_count() == 1:
        return function()
    outcome: list[Any] = [None, None]
    if is_first():
        try:
            outcome[0] = function()
        except (EventvecError, OSError) as error:
            outcome[1] = error
    dist.broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise outcome[1]
    result: T = outcome[0]
    return result


def broadcast_number(number: float) -> float:
    """Return the number of rank 0, broadcast to all processes."""
    if process_count() == 1:
        return number
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"  # a group that the caller made may have NCCL alone
    shared = torch.tensor([number], dtype=torch.float64, device=device)
    dist.broadcast(shared, 0)
    return float(shared)


def check_alike(**values: object) -> None:
    """Raise an error in all processes if they differ in a value, such as the versions or the data."""
    of_all = _objects_of_all(values)
    for name, first in of_all[0].items():
        other = next((place for place, others in enumerate(of_all) if others[name] != first), None)
        if other is not None:
            raise ConfigError(
                f"the processes differ in {name}: process 0 has {first}, process {other} has {of_all[other][name]}; "
                "all need the same versions of the libraries, kind of device, events and options"
            )


def check_apart(device: str) -> None:
    """Raise an error in all processes if two have the same device."""
    devices = _objects_of_all(device)
    if (distinct := len(set(devices))) < len(devices):
        raise ConfigError(
            f"each process needs a GPU of its own, got {len(devices)} processes on {distinct} GPUs; start fewer "
            "(--nproc-per-node), and let device be auto or cuda, or else cpu"
        )


def _objects_of_all(value: T) -> list[T]:
    """Return the object that each process gave, in order of the processes."""
    objects = [value] * process_count()
    if len(objects) > 1:
        dist.all_gather_object(objects, value)
    return objects


def wait_for_all() -> None:
    """Return when all processes have come here."""
    if process_count() > 1:
        dist.barrier()


@torch.no_grad()
def broadcast_weights(module: Any) -> None:
    """Give the weights and buffers of a module the values of the first process."""
    if process_count() > 1:
        for tensor in (*module.parameters(), *module.buffers()):
            values = _bytes(tensor)
            dist.broadcast(values, 0)
            tensor.copy_(values.view(tensor.dtype).view(tensor.shape))


@torch.no_grad()
def average_gradients(weights: Iterable[nn.Parameter]) -> None:
    """Replace the gradient of each weight by its mean over all processes; a weight without one anywhere stays so."""
    if process_count() == 1:
        return
    alike: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    for weight in weights:
        if weight.requires_grad:
            alike.setdefault((weight.dtype, weight.device), []).append(weight)
    for group in alike.values():
        has = torch.tensor([weight.grad is not None for weight in group]).to(group[0], non_blocking=True)
        parts = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in group]
        flat = torch.cat([has, *(part.reshape(-1) for part in parts)])
        dist.all_reduce(flat)
        present, *means = (flat / process_count()).split([len(group), *(weight.numel() for weight in group)])
        for weight, mean, anywhere in zip(group, means, present.tolist(), strict=True):
            weight.grad = mean.view(weight.shape).clone() if anywhere else None


@contextmanager
def spread(method: Any) -> Iterator[None]:
    """Let each process encode its share of the rows inside the block, wherever the method calls its encoder.

    Hooks do so for calls of the encoder, of its encoder of events and of a trained encoder of descriptions; `share`
    does for other functions of them. Everything else is computed by all processes alike.

    Args:
        method: The method that is trained; it has `encoder`.
    """
    if process_count() == 1:
        yield
        return
    token = _spreading.set(True)
    handles = [handle for module, by_event in _readers_of(method) for handle in _Shares(by_event).hook(module)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        _spreading.reset(token)


def share(function: Callable[..., Tensor], x: Any, *tensors: Tensor | None, by_event: bool = False) -> Tensor:
    """Return what a function of rows returns, such as the `states` of an encoder; inside `spread` by shares.

    Args:
        function: From `Sequences`, and perhaps tensors, to a tensor.
        x: The rows.
        tensors: The other arguments.
        by_event: Whether the result and the tensors have one entry for each event, and not for each row.
    """
    if not _spreading.get():
        return function(x, *tensors)
    shared, out = _Shares(by_event), None
    given = shared.begin(None, (x, *tensors)) or (x, *tensors)
    try:
        out = function(*given)
    finally:
        whole = shared.end(None, given, out)
    return out if whole is None else whole


def in_share() -> bool:
    """Return whether this process now encodes its share of the rows, and others theirs."""
    return _in_share.get()


def all_reduce(values: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes, with a gradient."""
    if process_count() == 1:
        return values
    from torch.distributed.nn.functional import all_reduce as summed  # absent where torch was built without

    out: Tensor = summed(values)
    return out


def shares(lengths: Tensor, count: int) -> list[int] | None:
    """Return `count + 1` bounds of contiguous shares of rows with about equal numbers of events.

    Each share has an event: encoders may return early without one, and the others would wait for them. None if fewer
    rows than shares have events.
    """
    lengths = on_host(lengths)
    filled = lengths.nonzero().squeeze(1)
    if len(filled) < count:
        return None
    ends = lengths[filled].cumsum(0)
    cuts = [0]  # positions among the rows with events
    for share, aim in enumerate((torch.arange(1, count) * int(ends[-1]) // count).tolist(), 1):
        at = int(torch.searchsorted(ends, aim)) + 1
        cuts.append(min(max(at, cuts[-1] + 1), len(filled) - count + share))
    return [0, *filled[cuts[1:]].tolist(), len(lengths)]


class _Cut(NamedTuple):
    """Where a tensor is cut into the parts of all processes: the bounds along its first dimension, and whose is own."""

    bounds: list[int]
    rank: int

    @property
    def own(self) -> slice:
        return slice(self.bounds[self.rank], self.bounds[self.rank + 1])


class _Shares:
    """Calls of a function of rows, of which each process computes its share; the results are gathered.

    With `by_event`, its results, and a tensor that it takes, have one entry for each event, and not for each row.
    """

    def __init__(self, by_event: bool) -> None:
        self.by_event = by_event
        self.calls: list[tuple[ExitStack, Sequences, _Cut] | None] = []

    def hook(self, module: nn.Module) -> tuple[RemovableHandle, RemovableHandle]:
        """Let a module compute its share whenever it is called, until the handles are removed."""
        before = module.register_forward_pre_hook(self.begin)
        return before, module.register_forward_hook(self.end, always_call=True)

    def begin(self, _: Any, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the arguments of this process in place of all, or None if it computes the whole."""
        x, *tensors = given
        bounds = None if in_share() or not isinstance(x, Sequences) else shares(x.lengths, process_count())
        if bounds is None:
            self.calls.append(None)
            return None
        by_row = _Cut(bounds, dist.get_rank())
        before = torch.nn.functional.pad(on_host(x.lengths).cumsum(0), (1, 0))
        cut = _Cut(before[bounds].tolist(), by_row.rank) if self.by_event else by_row
        own = [None if each is None else _Share.apply(each, cut) for each in tensors]  # type: ignore[no-untyped-call]
        draws = ExitStack()
        draws.enter_context(_own_draws(by_row.rank, x.device))
        self.calls.append((draws, x, by_row))
        return (x[by_row.own], *own)

    def end(self, _: Any, given: Any, out: Tensor | None) -> Tensor | None:
        """Return the results of all processes, or None for a call that computed the whole or failed."""
        call = self.calls.pop() if self.calls else None
        if call is None:
            return None
        draws, x, cut = call
        draws.close()
        if out is None:
            return None
        if self.by_event and out.dim() == 3:  # padded to the longest row of the share
            out = torch.nn.functional.pad(out, (0, 0, 0, x.longest - out.shape[1]))
        elif self.by_event:
            before = torch.nn.functional.pad(on_host(x.lengths).cumsum(0), (1, 0))
            cut = _Cut(before[cut.bounds].tolist(), cut.rank)
        whole: Tensor = _Gather.apply(out, cut)  # type: ignore[no-untyped-call]
        return whole


class _Gather(Function):
    """From the part of each process to the whole, which all then treat alike."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, cut: _Cut) -> Tensor:
        ctx.cut = cut
        return _gathered(part, cut)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0][ctx.cut.own] * process_count(), None


class _Share(Function):
    """From a tensor that all processes have to the part of this one: the inverse of `_Gather`."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, cut: _Cut) -> Tensor:
        ctx.cut = cut
        return whole[cut.own].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _gathered(gradients[0], ctx.cut) / process_count(), None


def _gathered(part: Tensor, cut: _Cut) -> Tensor:
    """Return the parts of all processes, one after the other; they are as long as the cut says, and may differ."""
    sizes = [end - begin for begin, end in pairwise(cut.bounds)]
    padded = part.new_zeros(max(sizes), *part.shape[1:])
    padded[: len(part)] = part
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather([_bytes(each) for each in parts], _bytes(padded))
    return torch.cat([each[:size] for each, size in zip(parts, sizes, strict=True)])


def _bytes(tensor: Tensor) -> Tensor:
    """Return a contiguous tensor as flat bytes, which every backend sends."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


@contextmanager
def _own_draws(rank: int, device: torch.device) -> Iterator[None]:
    """Mark the block as the share of one process, with random numbers of its own for dropout.

    Afterwards the generator of torch is in the same state in all processes.
    """
    token = _in_share.set(True)
    try:
        seed = int(torch.randint(2**62, ()))
        with torch.random.fork_rng(device_type=device.type, devices=[device] if device.type != "cpu" else []):
            torch.manual_seed((seed + rank) % 2**62)
            yield
    finally:
        _in_share.reset(token)


def _readers_of(method: Any) -> Iterator[tuple[nn.Module, bool]]:
    """Yield each module by which a method reads rows, and whether it returns a vector for each event."""
    yield method.encoder, False
    if events := dict(method.encoder.named_children()).get("events"):
        yield events, True
    tower = dict(method.named_children()).get("text_tower")
    if tower is not None and any(weight.requires_grad for weight in tower.parameters()):
        yield tower, False
