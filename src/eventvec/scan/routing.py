"""GRU and LSTM over packed events, without work on padding, by whichever code is fastest.

On CUDA, cuDNN runs on the same layout as a packed sequence. On a CPU, the arithmetic of `cells` runs, or torch's own
kernel where that is faster (`rectangles`): for few rows, short rows or small states. Equations and weight layout are
those of `torch.nn.GRU` and `torch.nn.LSTM`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from eventvec.precision import float32_precision
from eventvec.scan import cells, layer, matmul
from eventvec.scan.layer import BLOCK
from eventvec.scan.matmul import fastest_matmul
from eventvec.scan.pack import Pack

COSTS = {  # µs of a call, of a step and of an event: each constant, per number of the state and per weight
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
SMALL = 2e6  # as `matmul.SMALL`, for torch's kernel
PADDED_CALL, PADDING = 50, 0.03  # µs to fill a rectangle that has padding, and for each of its positions
WIDE = 4096  # rows above which the intermediate results of torch's kernel for all rows no longer fit the caches
LARGE = 1 << 20  # numbers of all states above which torch's kernel is rarely faster; the costs were fitted below
PIECE = 16_384  # events per call of torch's kernel where nothing is saved
HOLD = 1e4  # weight of padding in an LSTM's gates, so large that c keeps its value to the last bit
Cell = nn.GRU | nn.LSTM
Parts = tuple[Tensor, ...]


def states(stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack) -> tuple[Tensor, list[Parts]]:
    """Return the last layer's state after each event, `(total, d)` and packed, and the result of `ends`.

    Args:
        stack: Layers of one cell and one state size, the first at the bottom; one direction, without projection.
        inputs: `(total, input)` packed events, converted to the type of `starts`.
        starts: For each layer, the states `(n, d)` before the first events, in the order of `pack`: h, or h and c.
        pack: The layout.

    Example:
        >>> pack, gru = Pack.of(torch.tensor([2, 1])), nn.GRU(3, 4)
        >>> h, [(last,)] = states([gru], torch.randn(3, 3), [(torch.zeros(2, 4),)], pack)
        >>> h.shape, torch.equal(h[2], last[0])
        (torch.Size([3, 4]), True)
    """
    return _scan(stack, inputs, starts, pack, True)


def ends(stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack) -> list[Parts]:
    """Return each layer's state after each row's last event, `(n, d)` each, in the order of `pack`.

    Without gradients, memory does not grow with the number of events, except for the states of a lower layer that
    torch's kernel computes. The arguments are those of `states`.

    Example:
        >>> pack, gru = Pack.of(torch.tensor([2, 0])), nn.GRU(3, 4)
        >>> [(last,)] = ends([gru], torch.randn(2, 3), [(torch.zeros(2, 4),)], pack)
        >>> last[1].tolist()
        [0.0, 0.0, 0.0, 0.0]
    """
    return _scan(stack, inputs, starts, pack, False)[1]


def rectangles(cell: Cell, pack: Pack, learning: bool, precision: str) -> list[tuple[int, int]] | None:
    """Return the `(rows, steps)` to call torch's kernel with on a CPU, or None where `cells` are faster.

    A rectangle may have padding: the cost of another call is weighed against the cost of the padding. Costs are
    estimated from `COSTS`, which `benchmarks.recurrent --only costs` measures. Fixed bounds decide for one row, for one
    step, and for sizes beyond the fitted ones.

    Args:
        cell: a layer.
        pack: The layout.
        learning: Whether there is a backward pass.
        precision: The precision of matrix products: `highest`, `medium` or `bfloat16`, which torch's kernel never uses.

    Example:
        >>> few, many = Pack.of(torch.tensor([3])), Pack.of(torch.arange(25, 200).repeat(2))
        >>> rectangles(nn.GRU(2, 64), few, True, "medium"), rectangles(nn.GRU(2, 64), many, True, "medium")
        ([(1, 3)], None)
    """
    name, d, m = "lstm" if isinstance(cell, nn.LSTM) else "gru", cell.hidden_size, cell.input_size
    total, steps = pack.offsets[-1], len(pack.sizes)
    kernel_precision = "medium" if precision == "bfloat16" else precision
    call, step, event = _costs((name, learning, "kernel", kernel_precision), d, m)
    cells_call, cells_step, cells_event = _costs((name, learning, "cells", precision), d, m)
    budget = cells_call + steps * cells_step + total * cells_event - steps * step
    uneven = len(pack.runs) > 1 and (learning or (precision != "highest" and d >= 128))
    too_large = total * d > LARGE and (name == "gru" or uneven)
    if too_large or (not learning and pack.active > WIDE):
        return None
    if not learning and (pack.active == 1 or (steps == 1 and total <= BLOCK)):
        budget = math.inf  # `cells` are never faster for one row, or for one step of few rows
    if call + total * event > budget:
        return None
    calls, cost = pack.runs, len(pack.runs) * call + total * event
    if len(calls) > 1:
        padded_call, padded_event = call + PADDED_CALL, event + PADDING
        padded = pack.rectangles(padded_call / padded_event)
        padded_cost = len(padded) * padded_call + sum(rows * count for rows, count in padded) * padded_event
        calls, cost = (padded, padded_cost) if padded_cost < cost else (calls, cost)
    if cost > budget:
        return None
    return calls if learning or total <= PIECE else list(_pieces(pack, calls))


def _pieces(pack: Pack, calls: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield rectangles of at most `PIECE` events, because the kernel returns a state for every event."""
    first = 0
    for _, steps in calls:
        end = first + steps
        while first < end:
            rows = pack.sizes[first]  # fewer at later steps of a rectangle that has padding
            yield rows, (count := min(max(PIECE // rows, 1), end - first))
            first += count


@lru_cache
def _costs(key: tuple[str, bool, str, str], d: int, m: int) -> list[float]:
    """Return the costs of a call, of a step and of an event, in µs."""
    return [constant + d * number + d * (d + m) * weight for constant, number, weight in COSTS[key]]


def _requires_grad(stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts]) -> bool:
    """Return whether an input, a start or a weight requires a gradient."""
    tensors = [inputs, *(part for start in starts for part in start)]
    tensors += [weight for cell in stack for weight in _weights(cell)[1:]]
    return any(tensor.requires_grad for tensor in tensors)


def _scan(
    stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack, all_states: bool
) -> tuple[Tensor, list[Parts]]:
    """Return the last layer's states, if `all_states`, and the ends of all layers."""
    inputs = inputs.to(starts[0][0].dtype)  # autocast may have changed the type of inputs, not that of states
    ends: list[Parts] = []
    if inputs.is_cuda:
        for cell, start in zip(stack, starts, strict=True):
            inputs, end = _cudnn(cell, inputs, start, pack)
            ends.append(end)
        return inputs, ends
    d, learning = stack[0].hidden_size, torch.is_grad_enabled() and _requires_grad(stack, inputs, starts)
    dtype = _product_dtype(inputs, pack, d)
    kernel_calls = [_kernel_calls(cell, inputs, pack, learning, dtype) for cell in stack]
    if not learning and not any(kernel_calls):
        values = starts[0][0].new_empty(len(inputs), d) if all_states else None
        ends = layer.run([_weights(cell) for cell in stack], pack, dtype, inputs, starts, values)
        return inputs if values is None else values, ends
    for cell, start, calls in zip(stack, starts, kernel_calls, strict=True):
        needed = all_states or cell is not stack[-1]
        if calls:
            inputs, end = _kernel(cell, inputs, start, pack, calls, needed)
        elif learning:
            inputs, *last = layer.run_for_gradients(pack, dtype, needed, inputs, *_weights(cell), *start)
            end = tuple(last)
        else:
            values = start[0].new_empty(len(inputs), d) if needed else None
            (end,) = layer.run([_weights(cell)], pack, dtype, inputs, [start], values)
            inputs = inputs if values is None else values
        ends.append(end)
    return inputs, ends


def _kernel(
    cell: Cell, inputs: Tensor, start: Parts, pack: Pack, calls: list[tuple[int, int]], all_states: bool
) -> tuple[Tensor, Parts]:
    """Return one layer's states and ends from torch's kernel, which is called for each of some rectangles.

    Where a rectangle has padding, h is read at the last event of each row. The kernel does not return c there, so the
    padding of an LSTM must not change c: one more input, of weights ±`HOLD`, closes the input gate and opens the forget
    gate at padding.
    """
    weights, is_lstm = list(_weights(cell)[1:]), isinstance(cell, nn.LSTM)
    holding_weights, states, current, first = weights, [], start, 0
    ends = [tuple(part[pack.active :] for part in start)] if pack.active < len(start[0]) else []
    with fastest_matmul(pack, cell.hidden_size, SMALL):
        for (rows, steps), remaining in zip(calls, [*(rows for rows, _ in calls[1:]), 0], strict=True):
            at, call_weights, full = pack.offsets[first], weights, pack.sizes[first + steps - 1] == rows
            if full:
                values = inputs[at : at + rows * steps].view(steps, rows, -1)
            else:
                event, padding = pack.rectangle(first, rows, steps)
                values = inputs.index_select(0, event.view(-1)).view(steps, rows, -1)
                values = values.masked_fill(padding.unsqueeze(2), 0)  # another row's values, which may not be finite
                if is_lstm:
                    holding_weights = _holding(weights) if holding_weights is weights else holding_weights
                    values = torch.cat([values, padding.to(values.dtype).unsqueeze(2)], 2)
                    call_weights = holding_weights
            begin = [(part if len(part) == rows else part[:rows]).unsqueeze(0) for part in current]
            if is_lstm:
                out, *last = torch.lstm(values, begin, call_weights, True, 1, 0.0, False, False, False)
            else:
                out, *last = torch.gru(values, begin[0], call_weights, True, 1, 0.0, False, False, False)
            current = tuple(part[0] for part in last)
            end = [part[remaining:] for part in current] if remaining else [*current]
            if not full:
                end[0] = out[pack.lengths[remaining:rows] - (first + 1), torch.arange(remaining, rows)]
            ends.append(tuple(end))
            first += steps
            if all_states:
                states.append(out.flatten(0, 1) if full else out[~padding])
    return _cat(states) if all_states else inputs, tuple(_cat(parts) for parts in zip(*reversed(ends), strict=True))


def _holding(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return an LSTM's weights with one more input, which keeps c unchanged where it is 1."""
    w_input, *others = weights
    hold = w_input.new_tensor([-HOLD, HOLD, 0, 0]).repeat_interleave(len(w_input) // 4).unsqueeze(1)
    return [torch.cat([w_input, hold], 1), *others]


def _cat(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _weights(cell: Cell) -> layer.Weights:
    kind: cells.Cell = cells.LSTM if isinstance(cell, nn.LSTM) else cells.GRU
    w_input, w_state, b_input, b_state = cast("list[Tensor]", cell._flat_weights)  # which torch's own forward reads
    return kind, w_input, w_state, b_input, b_state


def _product_dtype(inputs: Tensor, pack: Pack, d: int) -> torch.dtype:
    """Return the type of matrix products: autocast's, if it is on and they are large enough to gain, or the states'."""
    device = inputs.device.type
    if torch.is_autocast_enabled(device) and not matmul.is_small(pack, d):
        return torch.get_autocast_dtype(device)
    return inputs.dtype


def _kernel_calls(
    cell: Cell, inputs: Tensor, pack: Pack, learning: bool, dtype: torch.dtype
) -> list[tuple[int, int]] | None:
    float32 = "highest" if float32_precision() in (None, "highest") else "medium"
    return rectangles(cell, pack, learning, "bfloat16" if dtype != inputs.dtype else float32)


def _cudnn(cell: Cell, inputs: Tensor, start: Parts, pack: Pack) -> tuple[Tensor, Parts]:
    """Return one layer's states and ends from cuDNN, or from torch's code for packed sequences on a CPU."""
    if not pack.active:
        return start[0][:0], start
    begin = tuple(state[None, : pack.active].contiguous() for state in start)
    packed = PackedSequence(inputs, torch.tensor(pack.sizes))
    with torch.autocast("cuda", enabled=False):  # cuDNN needs one type for inputs, states and weights
        out, last = cell(packed, begin[0] if len(begin) == 1 else begin)
    ends = (last,) if len(begin) == 1 else last
    return out.data, tuple(torch.cat([end[0], state[pack.active :]]) for end, state in zip(ends, start, strict=True))
