"""The features of several blocks: computed side by side, and put beside one another."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from eventvec.blocks.rows import Block, Features, Rows
from eventvec.learners.parallel import side_by_side
from eventvec.precision import matmul_precision
from eventvec.sequences import Array

LARGEST = 1e30
"""The largest feature by its size."""
FEW = 64
"""Up to this number of rows, starting threads takes longer than computing one block after the other."""
PART = 4096
"""The number of rows of which one thread computes features at once."""


def features_of(blocks: Mapping[str, Block], rows: Rows, last: float | None = None) -> dict[str, Features]:
    """Return the features of blocks, computed for parts of the rows side by side.

    Each part has one thread: the threads of one operation wait for one another wherever other programs compute too, so
    that convolutions took twenty times as long; and the results are the same bits for any number of threads. Networks
    are computed one after the other, because they set a precision of the process for some of their products.

    Args:
        blocks: The blocks, by name.
        rows: The rows.
        last: The `time.monotonic` after which no part of a block but the first is begun; such a block is left out.
    """
    first = next(iter(blocks), "")

    def of_part(name: str, start: int) -> Features | None:
        block = blocks[name]
        if name != first and last is not None and time.monotonic() > last:
            return None
        if not hasattr(block, "encoder"):
            return block.features(rows)
        return block.features(replace(rows, data=rows.data[start : start + PART]))

    if len(rows.data) <= FEW:
        with matmul_precision("float32", torch.device("cpu")):
            return {name: block.features(rows) for name, block in blocks.items()}
    starts = range(0, max(len(rows.data), 1), PART)
    tasks = [
        (name, start) for name, block in blocks.items() for start in starts[: None if hasattr(block, "encoder") else 1]
    ]
    done = dict[tuple[str, int], Features | None]()
    with matmul_precision("float32", torch.device("cpu")):  # of the process: the first block to end must not reset it
        for is_network, workers in ((True, 1), (False, torch.get_num_threads())):
            some = [task for task in tasks if getattr(blocks[task[0]], "is_network", False) == is_network]
            done |= zip(some, side_by_side(of_part, some, workers) if some else (), strict=True)
    result = dict[str, Features]()
    for name in blocks:
        parts = [part for task, part in done.items() if task[0] == name]
        whole = [part for part in parts if part is not None]
        if len(whole) == len(parts):
            result[name] = np.concatenate([values for values, _ in whole]), whole[0][1]
    return result


def matrix(blocks: Mapping[str, Features], names: Sequence[str]) -> tuple[Array, list[str]]:
    """Return `(n, d)` float32 the features of several blocks side by side, and the column that each is of."""
    columns = [column for name in names for column in blocks[name][1]]
    x, begin = np.empty((len(blocks[names[0]][0]), len(columns)), np.float32), 0
    for name in names:
        values = blocks[name][0]
        np.clip(values, -LARGEST, LARGEST, out=x[:, begin : begin + values.shape[1]], casting="same_kind")
        begin += values.shape[1]
    return x, columns


def matrices(
    blocks: Mapping[str, Features], sets: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Array], dict[str, list[str]]]:
    """Return what `matrix` does for each set; one whose blocks stand side by side in the widest is a part of it."""
    of_widest = max(sets.values(), key=len)
    whole = matrix(blocks, of_widest)
    ends = np.cumsum([0, *(blocks[each][0].shape[1] for each in of_widest)])
    x, columns = dict[str, Array](), dict[str, list[str]]()
    for name, parts in sets.items():
        first = of_widest.index(parts[0]) if parts[0] in of_widest else 0
        if of_widest[first : first + len(parts)] == parts:
            part = slice(ends[first], ends[first + len(parts)])
            x[name], columns[name] = whole[0][:, part], whole[1][part]
        else:
            x[name], columns[name] = matrix(blocks, parts)
    return x, columns
