"""GRU and LSTM over packed events: no work on padding, and the state of every row at its own last event.

Which code runs is decided here: on CUDA cuDNN on the same layout as a packed sequence; on a CPU the arithmetic of
`cells`, or torch's own kernel where `kernel_pays`, which is for few rows, short ones or small states.
Equations and weight layout are those of `torch.nn.GRU` and `torch.nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from eventvec.encoders import cells, products
from eventvec.encoders.pack import Pack

COSTS = {  # µs for a call, each step, each event, each number of its state, and each pair of them
    ("gru", "torch", False): (20, 9, 0.07, 0.0053, 0.00007),
    ("gru", "cells", False): (130, 14, 0.09, 0.0042, 0.00003),
    ("gru", "torch", True): (68, 69, 0.12, 0.0124, 0.00018),
    ("gru", "cells", True): (480, 28, 0.17, 0.0118, 0.00009),
    ("lstm", "torch", False): (63, 0.24, 0.063, 0.0008, 0.00005),
    ("lstm", "cells", False): (150, 16, 0.065, 0.0062, 0.00005),
    ("lstm", "torch", True): (230, 0.94, 0.2, 0.0057, 0.00021),
    ("lstm", "cells", True): (520, 31, 0.18, 0.015, 0.00016),
}
Cell = nn.GRU | nn.LSTM
Parts = tuple[Tensor, ...]


def states(stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack) -> tuple[Tensor, list[Parts]]:
    """Return the last layer's state after each event, `(total, d)` and packed, and what `ends` returns.

    Args:
        stack: layers on top of one another, of one kind and one size of state; one direction, without projection.
        inputs: `(total, input)` packed events, taken in the type of `starts`.
        starts: for each layer, `(n, d)` what each row's first event meets, in the order of `pack`: h, or h and c.
        pack: the layout.

    Example:
        >>> pack, gru = Pack.of(torch.tensor([2, 1])), nn.GRU(3, 4)
        >>> found, [(last,)] = states([gru], torch.randn(3, 3), [(torch.zeros(2, 4),)], pack)
        >>> found.shape, torch.equal(found[2], last[0])
        (torch.Size([3, 4]), True)
    """
    inputs = inputs.to(starts[0][0].dtype)  # autocast may have made them, not states
    if inputs.is_cuda or (learning := _learning(stack, inputs, starts)) or kernel_pays(stack[0], pack, learning):
        return _layers(stack, inputs, starts, pack, True)
    d = stack[0].hidden_size
    values = starts[0][0].new_empty(len(inputs), d)
    return values, cells.run([_layer(cell) for cell in stack], pack, _kind(inputs, pack, d), inputs, starts, values)


def ends(stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack) -> list[Parts]:
    """Return each layer's state after each row's last event, `(n, d)` each, in the order of `pack`.

    Where no gradient is wanted, nothing is kept that grows with the number of events. Arguments are those of `states`.

    Example:
        >>> pack, gru = Pack.of(torch.tensor([2, 0])), nn.GRU(3, 4)
        >>> [(last,)] = ends([gru], torch.randn(2, 3), [(torch.zeros(2, 4),)], pack)
        >>> last[1].tolist()
        [0.0, 0.0, 0.0, 0.0]
    """
    inputs = inputs.to(starts[0][0].dtype)  # autocast may have made them, not states
    if inputs.is_cuda or (learning := _learning(stack, inputs, starts)) or kernel_pays(stack[0], pack, learning):
        return _layers(stack, inputs, starts, pack, False)[1]
    d = stack[0].hidden_size
    return cells.run([_layer(cell) for cell in stack], pack, _kind(inputs, pack, d), inputs, starts)


def kernel_pays(cell: Cell, pack: Pack, learning: bool) -> bool:
    """Return whether torch's kernel is the faster one, on a CPU.

    It is called for each run of steps with equally many rows. What both cost is taken to be as `COSTS` says, which was
    fitted to times of one core: hidden 8 to 256, 1 to 320 rows of 1 to 200 events; `benchmarks.recurrent` shows how
    well the rule does.

    Args:
        cell: a layer.
        pack: the layout.
        learning: whether there is a backward.

    Example:
        >>> few, many = Pack.of(torch.tensor([3])), Pack.of(torch.arange(25, 200).repeat(2))
        >>> kernel_pays(nn.GRU(2, 64), few, True), kernel_pays(nn.GRU(2, 64), many, True)
        (True, False)
    """
    kind, d = "lstm" if isinstance(cell, nn.LSTM) else "gru", cell.hidden_size
    theirs = _time(COSTS[kind, "torch", learning], len(pack.runs), pack, d)
    return theirs < _time(COSTS[kind, "cells", learning], 1, pack, d)


def _time(costs: tuple[float, ...], calls: int, pack: Pack, d: int) -> float:
    call, step, event, number, pair = costs
    return calls * call + len(pack.sizes) * step + pack.heads[-1] * (event + d * (number + d * pair))


def _learning(stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts]) -> bool:
    """Return whether anything wants a gradient."""
    if not torch.is_grad_enabled():
        return False
    tensors = [inputs, *(part for start in starts for part in start)]
    tensors += [weight for cell in stack for weight in cell.all_weights[0]]
    return any(tensor.requires_grad for tensor in tensors)


def _layers(
    stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack, every: bool
) -> tuple[Tensor, list[Parts]]:
    """Return the last layer's states, if every one is asked for, and the ends of all layers."""
    found, kind = [], _kind(inputs, pack, stack[0].hidden_size)
    learning = torch.is_grad_enabled()
    for cell, start in zip(stack, starts, strict=True):
        if inputs.is_cuda:
            inputs, end = _cudnn(cell, inputs, start, pack)
        elif kernel_pays(cell, pack, learning):
            inputs, end = _kernel(cell, inputs, start, pack)
        else:
            needed = every or cell is not stack[-1]
            inputs, *end = cells.Scan.apply(pack, kind, needed, inputs, *_layer(cell), *start)  # type: ignore[no-untyped-call]
        found.append(tuple(end))
    return inputs, found


def _kernel(cell: Cell, inputs: Tensor, start: Parts, pack: Pack) -> tuple[Tensor, Parts]:
    """Return one layer's states and ends from torch's kernel, called for each run of steps with equally many rows."""
    weights, rest = tuple(cell.all_weights[0]), (True, 1, 0.0, False, False, False)
    states, now = [start[0][:0]] if not pack.active else [], start
    ends = [tuple(part[pack.active :] for part in start)] if pack.active < len(start[0]) or not pack.active else []
    values = inputs.split([size * steps for size, steps in pack.runs])
    staying = [size for size, _ in [*pack.runs, (0, 0)][1:]]
    with torch.autocast("cpu", enabled=False), products.quickest(pack, cell.hidden_size):  # autocast would round states
        for value, (size, steps), stay in zip(values, pack.runs, staying, strict=True):
            given = [part[None, :size] for part in now]
            if isinstance(cell, nn.GRU):
                out, *last = torch.gru(value.view(steps, size, -1), given[0], weights, *rest)
            else:
                out, *last = torch.lstm(value.view(steps, size, -1), given, weights, *rest)
            states.append(out.flatten(0, 1))
            now = tuple(part[0] for part in last)
            ends.append(tuple(part[stay:] for part in now))
    return _joined(states), tuple(_joined(parts) for parts in zip(*reversed(ends), strict=True))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _layer(cell: Cell) -> cells.Weights:
    """Return a cell's weights as the arithmetic wants them: one bias, its blocks in the order of the columns."""
    w_input, w_state, b_input, b_state = cell.all_weights[0]
    if isinstance(cell, nn.LSTM):
        return cells.LSTM, w_input, w_state, (b_input + b_state).roll(cell.hidden_size)
    d = cell.hidden_size
    both = b_input[: 2 * d] + b_state[: 2 * d]
    return cells.GRU, w_input, w_state, torch.cat([b_state[2 * d :], both, b_input[2 * d :]])


def _kind(inputs: Tensor, pack: Pack, d: int) -> torch.dtype:
    """Return the type of products: autocast's, if it is on and they are not too small for it; never that of states."""
    kind = inputs.device.type
    if torch.is_autocast_enabled(kind) and not products.small(pack, d):
        return torch.get_autocast_dtype(kind)
    return inputs.dtype


def _cudnn(cell: Cell, inputs: Tensor, start: Parts, pack: Pack) -> tuple[Tensor, Parts]:
    if not pack.active:
        return start[0][:0], start
    begin = tuple(state[None, : pack.active].contiguous() for state in start)
    packed = PackedSequence(inputs, torch.tensor(pack.sizes))
    with torch.autocast("cuda", enabled=False):  # cuDNN wants one type for inputs, states and weights
        out, last = cell(packed, begin[0] if len(begin) == 1 else begin)
    ends = (last,) if len(begin) == 1 else last
    return out.data, tuple(torch.cat([end[0], state[pack.active :]]) for end, state in zip(ends, start, strict=True))
