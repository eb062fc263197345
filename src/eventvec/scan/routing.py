"""GRU and LSTM over packed events, without work on padding, by the code that suits the batch.

On CUDA, cuDNN runs: on padded rows if that is little more work, because its kernel that keeps weights on the chip
takes no others, and else on the same layout as a packed sequence. On a CPU, the arithmetic of `cells` runs, or torch's
own kernel for what it is made for: see `kernel_rows`. Equations and weight layout are those of `torch.nn.GRU` and
`torch.nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn

from eventvec.precision import float32_precision
from eventvec.scan import cells, layer, matmul
from eventvec.scan.pack import Pack

# Chosen on two CPUs. AMD EPYC (AVX2, 2.4 GHz), GRU of 64 and 256: torch's kernel takes .46 to 1.1 of our cells' time on
# rows of one length within the first two bounds, 0.82 to 1.8 times beyond them, and 1.04 to 1.9 on rows of several
# lengths (0.82 to 1.4 with 16 rows). On a Xeon with AMX, our cells are 1.4 to 1.5 times as fast on short histories.
STEPS = 8  # up to which torch's GRU runs, on rows of one length
SMALL = 1 << 18  # numbers in all states of a GRU, up to which torch's kernel is faster
LARGE = 1 << 21  # the same for an LSTM
PADDED = 2  # times as many events as there are, to which cuDNN may pad rows
CALLS, ROWS = 4, 64  # calls of torch's kernel for one batch at most, and rows of each that are enough
Cell = nn.GRU | nn.LSTM
Parts = tuple[Tensor, ...]


def states(
    stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack, whole: bool = True
) -> tuple[Tensor, list[Parts]]:
    """Return the last layer's state h after each event, `(total, d)` and packed, and the result of `ends`.

    Args:
        stack: Layers of one cell and one state size, the first at the bottom; one direction, without projection.
        inputs: `(total, input)` packed events, converted to the type of `starts`.
        starts: For each layer, the states `(n, d)` before the first events, in the order of `pack`: h, or h and c.
        pack: The layout.
        whole: Whether an LSTM's c is returned too, to continue later. Without it, torch's kernel can run padded rows.
    """
    return _scan(stack, inputs, starts, pack, True, whole)


def ends(stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack, whole: bool = True) -> list[Parts]:
    """Return each layer's state after each row's last event, `(n, d)` each, in the order of `pack`: h, or h and c.

    Without gradients, our own cells keep the states of the current step only. The arguments are those of `states`.
    """
    return _scan(stack, inputs, starts, pack, False, whole)[1]


def in_one_step(start: Tensor, n: int) -> bool:
    """Return whether `step` computes `n` rows of one event each: on a CPU, without gradients, as exactly as `ends`.

    Args:
        start: A state.
    """
    return (
        start.device.type == "cpu"
        and start.dtype == torch.float32
        and n * start.shape[-1] <= LARGE
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and float32_precision() in (None, "highest")
    )


def step(stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts]) -> list[Parts]:
    """Return what `ends` returns of rows of one event each, without a layout.

    Args:
        stack: The layers.
        inputs: `(n, input)` the events.
        starts: For each layer, the states before them.
    """
    ends: list[Parts] = []
    for cell, start in zip(stack, starts, strict=True):
        state = tuple(part.contiguous() for part in start)
        weights = cast("list[Tensor]", cell._flat_weights)
        ends.append(
            torch.lstm_cell(inputs, state, *weights) if len(state) > 1 else (torch.gru_cell(inputs, *state, *weights),)
        )
        inputs = ends[-1][0]
    return ends


def kernel_rows(cell: Cell, pack: Pack, whole: bool) -> list[tuple[int, int]] | None:
    """Return the rows, from and to, of each call of torch's kernel on a CPU, or None where `cells` run.

    torch's kernel runs small batches: of a GRU, rows of one length in few steps, and of an LSTM, rows of any lengths in
    buckets of similar length that are padded. It does not return c at the end of a padded row, so where c is needed, it
    runs rows of one length only.
    """
    n, is_lstm, equal = pack.active, isinstance(cell, nn.LSTM), pack.sizes[:1] == pack.sizes[-1:]
    if n == 0 or (not equal and (whole or not is_lstm)) or (not is_lstm and len(pack.sizes) > STEPS):
        return None
    count = 1 if equal else min(1 + n // ROWS, CALLS)
    rows = [(n * i // count, n * (i + 1) // count) for i in range(count)]
    lengths = [len(pack.sizes)] if equal else [int(pack.lengths[first]) for first, _ in rows]
    padded = sum((end - first) * length for (first, end), length in zip(rows, lengths, strict=True))
    return rows if padded * cell.hidden_size <= (LARGE if is_lstm else SMALL) else None


def _scan(
    stack: Sequence[Cell], inputs: Tensor, starts: Sequence[Parts], pack: Pack, all_states: bool, whole: bool
) -> tuple[Tensor, list[Parts]]:
    """Return the last layer's states, if `all_states`, and the ends of all layers."""
    inputs = inputs.to(starts[0][0].dtype)  # autocast may have changed the type of inputs, not that of states
    tensors = [inputs, *chain(*starts), *chain(*(_weights(cell)[1:] for cell in stack))]
    learning = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    (device, d), ends = (inputs.device.type, stack[0].hidden_size), []
    mixed = torch.is_autocast_enabled(device) and len(inputs) > d and not matmul.is_small(pack, d)  # and worth rounding
    dtype = torch.get_autocast_dtype(device) if mixed else inputs.dtype
    for cell, start in zip(stack, starts, strict=True):
        needed = all_states or cell is not stack[-1]
        if inputs.is_cuda:
            inputs, end = _cudnn(cell, inputs, start, pack, whole)
        elif not mixed and (rows := kernel_rows(cell, pack, whole)):
            inputs, end = _kernel(cell, inputs, start, pack, rows, needed)
        else:
            run = layer.run_for_gradients if learning else layer.run
            states, *last = run(pack, dtype, needed, inputs, *_weights(cell), *start)
            inputs, end = states if needed else inputs, tuple(last)
        ends.append(end if whole else end[:1])
    return inputs, ends


def _kernel(
    cell: Cell, inputs: Tensor, start: Parts, pack: Pack, rows: Sequence[tuple[int, int]], all_states: bool
) -> tuple[Tensor, Parts]:
    """Return one layer's states, if needed, and its ends from torch's kernel, without c if rows are padded."""
    with matmul.fastest_matmul(pack, cell.hidden_size):
        if pack.sizes[0] == pack.sizes[-1]:
            values = inputs.view(len(pack.sizes), pack.active, -1)
            out, last = _torch(cell, (values,), start, slice(0, pack.active), cell.training)
            return out.flatten(0, 1), _with_empty(last, start, pack)
        states, places, ends = [], [], []
        for first, end in rows:
            place, padding = pack.rectangle(first, end)
            values = inputs.index_select(0, place.flatten()).view(*place.shape, -1)
            out, _ = _torch(cell, (values,), start, slice(first, end), cell.training)
            final = (pack.lengths[first:end] - 1) * (end - first) + torch.arange(end - first)
            ends.append(out.flatten(0, 1).index_select(0, final))
            if all_states:
                states.append(out[~padding])
                places.append(place[~padding])
    if all_states:
        inputs = torch.cat(states).index_select(0, torch.cat(places).argsort())
    return inputs, _with_empty([torch.cat(ends)], start, pack)


def _torch(
    cell: Cell, values: tuple[Tensor, ...], start: Parts, rows: slice, training: bool
) -> tuple[Tensor, list[Tensor]]:
    """Return the states, and the last ones, of padded rows or of packed events and their sizes, from torch's kernel."""
    begin = tuple(part[None, rows].contiguous() for part in start)
    kernel: Any = torch.lstm if isinstance(cell, nn.LSTM) else torch.gru
    flags = (True, 1, 0.0, training, False)  # biases, layers, dropout, training, both directions
    batch_first = () if len(values) > 1 else (False,)
    state = begin if isinstance(cell, nn.LSTM) else begin[0]
    out, *last = kernel(*values, state, cell._flat_weights, *flags, *batch_first)
    return out, [part[0] for part in last]


def _with_empty(ends: Sequence[Tensor], start: Parts, pack: Pack) -> Parts:
    """Return the ends of all rows, from those of the rows that have events."""
    if pack.keeps_order:
        return tuple(ends)
    return tuple(torch.cat([end, part[pack.active :]]) for end, part in zip(ends, start, strict=False))


def _weights(cell: Cell) -> layer.Weights:
    kind: cells.Cell = cells.LSTM if isinstance(cell, nn.LSTM) else cells.GRU
    w_input, w_state, b_input, b_state = cast("list[Tensor]", cell._flat_weights)  # which torch's own forward reads
    return kind, w_input, w_state, b_input, b_state


def _cudnn(cell: Cell, inputs: Tensor, start: Parts, pack: Pack, whole: bool) -> tuple[Tensor, Parts]:
    """Return one layer's states and ends from cuDNN, or from torch's code for it on a CPU.

    c is missing where rows are padded, unless all have one length. cuDNN keeps what its backward pass needs in training
    mode only, which says nothing else here: a cell has no dropout.
    """
    if not (n := pack.active):
        return start[0][:0], start
    steps, equal = len(pack.sizes), pack.sizes[0] == pack.sizes[-1]
    padded = equal or (steps * n <= PADDED * len(inputs) and not (whole and isinstance(cell, nn.LSTM)))
    if not padded:
        values: tuple[Tensor, ...] = (inputs, torch.tensor(pack.sizes))
    else:
        rows = inputs if equal else inputs.new_zeros(steps * n, inputs.shape[1]).index_copy(0, pack.padded, inputs)
        values = (rows.view(steps, n, -1),)
    with torch.autocast("cuda", enabled=False):  # cuDNN needs one type for inputs, states and weights
        out, ends = _torch(cell, values, start, slice(0, n), torch.is_grad_enabled())
    if not padded:
        return out, _with_empty(ends, start, pack)
    out = out.flatten(0, 1)
    if equal:
        return out, _with_empty(ends, start, pack)
    last = (pack.lengths[:n] - 1) * n + torch.arange(n, device=out.device)
    return out.index_select(0, pack.padded), _with_empty([out.index_select(0, last)], start, pack)
