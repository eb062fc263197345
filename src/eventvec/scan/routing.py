"""GRU and LSTM over packed events: no work on padding, and the state of every row at its own last event.

Which code runs is decided here: on CUDA cuDNN on the same layout as a packed sequence; on a CPU the arithmetic of
`cells`, or torch's own kernel where that is faster (`rectangles`), which is for few rows, short ones or small states.
Equations and weight layout are those of `torch.nn.GRU` and `torch.nn.LSTM`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from eventvec.precision import setting
from eventvec.scan import cells, layer, products
from eventvec.scan.layer import BLOCK
from eventvec.scan.pack import Pack
from eventvec.scan.products import quickest

COSTS = {  # µs of a call, a step and an event: each constant, for a number of the state, for a weight
    ("gru", False, "kernel", "highest"): ((22.6, 0.0288, 0), (7.99, 0.00148, 9.14e-5), (0.0608, 0.00192, 6.81e-5)),
    ("gru", False, "kernel", "medium"): ((22.6, 0.0365, 0), (7.9, 0.00519, 1.24e-4), (0.0538, 0.00443, 3.16e-5)),
    ("gru", False, "cells", "highest"): ((96.5, 0.128, 5.70e-4), (8.35, 0, 1.17e-4), (0.0818, 3.46e-4, 6.42e-5)),
    ("gru", False, "cells", "medium"): ((96.1, 0, 0.0022), (8.02, 0.0101, 1.04e-4), (0.0703, 0.00292, 2.20e-5)),
    ("gru", False, "cells", "bfloat16"): ((131, 0, 0.00269), (19.1, 0, 1.82e-4), (0.08, 0.00209, 1.17e-5)),
    ("gru", True, "kernel", "highest"): ((82.6, 0, 0), (55.7, 0, 9.07e-4), (0.146, 0.0021, 1.86e-4)),
    ("gru", True, "kernel", "medium"): ((110, 0.048, 0), (61, 0.114, 9.63e-4), (0.175, 0.00899, 6.51e-5)),
    ("gru", True, "cells", "highest"): ((315, 0, 0.00315), (20, 0, 2.44e-4), (0.198, 1.25e-4, 1.98e-4)),
    ("gru", True, "cells", "medium"): ((333, 0, 0.00416), (20, 0.0297, 2.62e-4), (0.174, 0.00897, 7.29e-5)),
    ("gru", True, "cells", "bfloat16"): ((411, 0, 0.00622), (61.2, 0, 3.58e-4), (0.23, 0.00677, 4.04e-5)),
    ("lstm", False, "kernel", "highest"): ((65, 0.0363, 0.00136), (0.127, 0, 8.51e-5), (0.0485, 3.03e-4, 3.42e-5)),
    ("lstm", False, "kernel", "medium"): ((64, 0.0884, 0.0012), (0.151, 0, 8.43e-5), (0.0509, 6.50e-5, 3.49e-5)),
    ("lstm", False, "cells", "highest"): ((87.4, 0, 0.00143), (11.3, 0, 1.83e-4), (0.0826, 3.24e-4, 8.72e-5)),
    ("lstm", False, "cells", "medium"): ((82.5, 0, 0.00318), (11, 0.00995, 1.63e-4), (0.073, 0.00315, 3.25e-5)),
    ("lstm", False, "cells", "bfloat16"): ((98.3, 0, 0.00351), (24.8, 0, 2.25e-4), (0.086, 0.00192, 1.65e-5)),
    ("lstm", True, "kernel", "highest"): ((243, 0, 0.00502), (0.771, 0, 1.46e-4), (0.141, 0.00153, 1.20e-4)),
    ("lstm", True, "kernel", "medium"): ((253, 0, 0.00542), (0.806, 0, 1.53e-4), (0.129, 9.71e-4, 1.24e-4)),
    ("lstm", True, "cells", "highest"): ((309, 0, 0.00381), (31, 0.0035, 3.21e-4), (0.224, 0, 2.72e-4)),
    ("lstm", True, "cells", "medium"): ((319, 0, 0.00654), (31.1, 0.0766, 3.19e-4), (0.187, 0.011, 1.06e-4)),
    ("lstm", True, "cells", "bfloat16"): ((338, 0, 0.00932), (72.5, 0, 4.70e-4), (0.235, 0.00767, 6.20e-5)),
}
SMALL = 2e6  # as `products.SMALL`, for torch's kernel
PLACES, PLACE = 50, 0.03  # µs that it takes to fill a rectangle with places to spare, and each of its places
WIDE = 4096  # rows from which on what torch's kernel makes for all of them at once no longer stays in the caches
LARGE = 1 << 20  # numbers of all states from which on, beyond what was fitted, torch's kernel is rarely faster
PIECE = 16_384  # events that torch's kernel is given at a time where nothing is kept
HOLD = 1e4  # what an event that is none says to an LSTM's gates, so that c stays what it is to the last bit
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
    return _scan(stack, inputs, starts, pack, True)


def ends(stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack) -> list[Parts]:
    """Return each layer's state after each row's last event, `(n, d)` each, in the order of `pack`.

    Where no gradient is wanted, nothing is kept that grows with the number of events, but a lower layer's states if its
    cells are torch's. Arguments are those of `states`.

    Example:
        >>> pack, gru = Pack.of(torch.tensor([2, 0])), nn.GRU(3, 4)
        >>> [(last,)] = ends([gru], torch.randn(2, 3), [(torch.zeros(2, 4),)], pack)
        >>> last[1].tolist()
        [0.0, 0.0, 0.0, 0.0]
    """
    return _scan(stack, inputs, starts, pack, False)[1]


def rectangles(cell: Cell, pack: Pack, learning: bool, line: str) -> list[tuple[int, int]] | None:
    """Return the `(rows, steps)` that torch's kernel is best called with, on a CPU; none where `cells` are faster.

    A rectangle may be wider than some of its steps: what a call costs is weighed against what places without an event
    cost. What either way costs is taken to be as `COSTS` says, which `benchmarks.recurrent --only costs` measures; for
    one row, one step, and more than was fitted, plain bounds decide.

    Args:
        cell: a layer.
        pack: the layout.
        learning: whether there is a backward.
        line: how products are computed: `highest`, `medium` or, which torch's kernel never does, `bfloat16`.

    Example:
        >>> few, many = Pack.of(torch.tensor([3])), Pack.of(torch.arange(25, 200).repeat(2))
        >>> rectangles(nn.GRU(2, 64), few, True, "medium"), rectangles(nn.GRU(2, 64), many, True, "medium")
        ([(1, 3)], None)
    """
    kind, d, m = "lstm" if isinstance(cell, nn.LSTM) else "gru", cell.hidden_size, cell.input_size
    total, steps = pack.heads[-1], len(pack.sizes)
    call, step, event = _costs((kind, learning, "kernel", "medium" if line == "bfloat16" else line), d, m)
    our_call, our_step, our_event = _costs((kind, learning, "cells", line), d, m)
    most = our_call + steps * our_step + total * our_event - steps * step
    uneven = len(pack.runs) > 1 and (learning or (line != "highest" and d >= 128))
    far = total * d > LARGE and (kind == "gru" or uneven)
    if far or (not learning and pack.active > WIDE):
        return None
    if not learning and (pack.active == 1 or (steps == 1 and total <= BLOCK)):
        most = math.inf  # nothing of ours is faster for one row, or for one step of few
    if call + total * event > most:
        return None
    found, least = pack.runs, len(pack.runs) * call + total * event
    if len(found) > 1:
        more, each = call + PLACES, event + PLACE
        wide = pack.rectangles(more / each)
        cost = len(wide) * more + sum(rows * count for rows, count in wide) * each
        found, least = (wide, cost) if cost < least else (found, least)
    if least > most:
        return None
    return found if learning or total <= PIECE else list(_pieces(pack, found))


def _pieces(pack: Pack, parts: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield rectangles of at most `PIECE` events, as what is returned for every event is not kept."""
    first = 0
    for _, steps in parts:
        end = first + steps
        while first < end:
            rows = pack.sizes[first]  # of a rectangle with places without an event, fewer as steps go on
            yield rows, (count := min(max(PIECE // rows, 1), end - first))
            first += count


@lru_cache
def _costs(what: tuple[str, bool, str, str], d: int, m: int) -> list[float]:
    """Return what a call, a step and an event cost, in µs."""
    return [one + d * number + d * (d + m) * weight for one, number, weight in COSTS[what]]


def _wanted(stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts]) -> bool:
    """Return whether anything wants a gradient."""
    tensors = [inputs, *(part for start in starts for part in start)]
    tensors += [weight for cell in stack for weight in _weights(cell)[1:]]
    return any(tensor.requires_grad for tensor in tensors)


def _scan(
    stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack, every: bool
) -> tuple[Tensor, list[Parts]]:
    """Return the last layer's states, if every one is asked for, and the ends of all layers."""
    inputs = inputs.to(starts[0][0].dtype)  # autocast may have made them, not states
    found: list[Parts] = []
    if inputs.is_cuda:
        for cell, start in zip(stack, starts, strict=True):
            inputs, end = _cudnn(cell, inputs, start, pack)
            found.append(end)
        return inputs, found
    d, learning = stack[0].hidden_size, torch.is_grad_enabled() and _wanted(stack, inputs, starts)
    kind = _kind(inputs, pack, d)
    ways = [_parts(cell, inputs, pack, learning, kind) for cell in stack]
    if not learning and not any(ways):
        values = starts[0][0].new_empty(len(inputs), d) if every else None
        found = layer.run([_weights(cell) for cell in stack], pack, kind, inputs, starts, values)
        return inputs if values is None else values, found
    for cell, start, parts in zip(stack, starts, ways, strict=True):
        needed = every or cell is not stack[-1]
        if parts:
            inputs, end = _kernel(cell, inputs, start, pack, parts, needed)
        elif learning:
            inputs, *end = layer.Scan.apply(pack, kind, needed, inputs, *_weights(cell), *start)  # type: ignore[no-untyped-call]
        else:
            values = start[0].new_empty(len(inputs), d) if needed else None
            (end,) = layer.run([_weights(cell)], pack, kind, inputs, [start], values)
            inputs = inputs if values is None else values
        found.append(tuple(end))
    return inputs, found


def _kernel(
    cell: Cell, inputs: Tensor, start: Parts, pack: Pack, parts: list[tuple[int, int]], every: bool
) -> tuple[Tensor, Parts]:
    """Return one layer's states and ends from torch's kernel, called for each of some rectangles.

    Where a rectangle has places without an event, h is read where a row ends. An LSTM's c is not to be had there, so
    it is held: a further input, of weights ±`HOLD`, closes the input gate and opens the forget gate.
    """
    weights, lstm = list(_weights(cell)[1:]), isinstance(cell, nn.LSTM)
    holding, states, now, first = weights, [], start, 0
    ends = [tuple(part[pack.active :] for part in start)] if pack.active < len(start[0]) else []
    with quickest(pack, cell.hidden_size, SMALL):
        for (rows, steps), stay in zip(parts, [*(rows for rows, _ in parts[1:]), 0], strict=True):
            at, taken, full = pack.heads[first], weights, pack.sizes[first + steps - 1] == rows
            if full:
                value = inputs[at : at + rows * steps].view(steps, rows, -1)
            else:
                event, empty = pack.rectangle(first, rows, steps)
                value = inputs.index_select(0, event.view(-1)).view(steps, rows, -1)
                value = value.masked_fill(empty.unsqueeze(2), 0)  # another row's, which may be anything
                if lstm:
                    holding = _held(weights) if holding is weights else holding
                    value, taken = torch.cat([value, empty.to(value.dtype).unsqueeze(2)], 2), holding
            given = [(part if len(part) == rows else part[:rows]).unsqueeze(0) for part in now]
            if lstm:
                out, *last = torch.lstm(value, given, taken, True, 1, 0.0, False, False, False)
            else:
                out, *last = torch.gru(value, given[0], taken, True, 1, 0.0, False, False, False)
            now = tuple(part[0] for part in last)
            end = [part[stay:] for part in now] if stay else [*now]
            if not full:
                end[0] = out[pack.lengths[stay:rows] - (first + 1), torch.arange(stay, rows)]
            ends.append(tuple(end))
            first += steps
            if every:
                states.append(out.flatten(0, 1) if full else out[~empty])
    return _joined(states) if every else inputs, tuple(_joined(each) for each in zip(*reversed(ends), strict=True))


def _held(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return an LSTM's weights for one more input, which holds c where it is 1."""
    w_input, *others = weights
    hold = w_input.new_tensor([-HOLD, HOLD, 0, 0]).repeat_interleave(len(w_input) // 4).unsqueeze(1)
    return [torch.cat([w_input, hold], 1), *others]


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _weights(cell: Cell) -> layer.Weights:
    w_input, w_state, b_input, b_state = cell._flat_weights  # what torch's own forward reads
    return cells.LSTM if isinstance(cell, nn.LSTM) else cells.GRU, w_input, w_state, b_input, b_state  # type: ignore[return-value]


def _kind(inputs: Tensor, pack: Pack, d: int) -> torch.dtype:
    """Return the type of products: autocast's, if it is on and they are not too small for it; never that of states."""
    kind = inputs.device.type
    if torch.is_autocast_enabled(kind) and not products.small(pack, d):
        return torch.get_autocast_dtype(kind)
    return inputs.dtype


def _parts(cell: Cell, inputs: Tensor, pack: Pack, learning: bool, kind: torch.dtype) -> list[tuple[int, int]] | None:
    exactly = setting() in (None, "highest")
    line = "bfloat16" if kind != inputs.dtype else "highest" if exactly else "medium"
    return rectangles(cell, pack, learning, line)


def _cudnn(cell: Cell, inputs: Tensor, start: Parts, pack: Pack) -> tuple[Tensor, Parts]:
    if not pack.active:
        return start[0][:0], start
    begin = tuple(state[None, : pack.active].contiguous() for state in start)
    packed = PackedSequence(inputs, torch.tensor(pack.sizes))
    with torch.autocast("cuda", enabled=False):  # cuDNN wants one type for inputs, states and weights
        out, last = cell(packed, begin[0] if len(begin) == 1 else begin)
    ends = (last,) if len(begin) == 1 else last
    return out.data, tuple(torch.cat([end[0], state[pack.active :]]) for end, state in zip(ends, start, strict=True))
