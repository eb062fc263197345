"""The write-ahead log beside a state store: damage in it, behind which sqlite drops transactions without a word.

sqlite reads a log up to the first frame whose checksum is wrong, because a process may have been killed, or the power
cut, while the frames of a transaction were written. What follows that frame tells damage from such an end: a
transaction begins when the one before it is on the disk, so a whole transaction and a further frame behind a wrong
frame were written when the wrong one was right. The format is that of https://sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from eventvec.errors import CheckpointError
from eventvec.sequences import Array

MAGIC = {0x377F0682: "<u4", 0x377F0683: ">u4"}
"""The first number of a log, and the type of the numbers that are summed in its checksums."""
PAGE = 4096
"""The bytes of a page of a store."""
HEAD, FRAME_HEAD = 32, 24
"""The bytes before the first frame, and those of a frame before its page."""
FRAMES = 2**10
"""The number of frames that are in memory at a time."""


class Damage(NamedTuple):
    """Damage in a log.

    Args:
        head: The bytes before the first frame; they are others when the log begins anew.
        frame: The number of the wrong frame, from 1; 0 for these bytes.
        lost: The number of transactions behind it, at least.
    """

    head: bytes
    frame: int
    lost: int


def check_log(log: Path) -> None:
    """Raise an error if a log has whole transactions behind a damaged place, which sqlite would drop.

    A process may write the log meanwhile; so what looks damaged is read twice, because a frame is whole before a
    further transaction begins.
    """
    damage = damage_of(log)
    if damage is not None and damage == damage_of(log):
        raise CheckpointError(
            f"{log} is damaged: frame {damage.frame:,} is not what was written, and at least {damage.lost:,} "
            "transactions that follow it would be lost; restore a copy of the store with its log, or go on without "
            "them: open the store once with durability='batch' (serve --durability batch), and give what came since "
            "again"
        )


def damage_of(log: Path) -> Damage | None:
    """Return the damage of a log behind which whole transactions are; None if there is no such damage, or no log."""
    try:
        file = log.open("rb")
    except OSError:  # there is none, or sqlite says why it cannot be read
        return None
    with file:
        head = file.read(HEAD)
        if len(head) < HEAD:
            return None
        numbers = _numbers(np.frombuffer(head, np.uint8))
        kind, sums = MAGIC.get(int(numbers[0]), "<u4"), numbers[6:]
        is_log = numbers[0] in MAGIC and numbers[2] == PAGE
        start_sum = _sums(np.frombuffer(head, kind)[None, :6], np.zeros((1, 2), np.uint32))
        is_log = is_log and np.array_equal(start_sum[0], sums)
        salts, wrong = (numbers[4:6], None) if is_log else (None, 0)
        n_read, n_ends, ends = 0, 0, False
        while len(frames := _frames(file.read(FRAMES * (FRAME_HEAD + PAGE)))):
            heads = _numbers(frames[:, :FRAME_HEAD])  # of each: page, size after a transaction, two salts, two sums
            salts = heads[0, 2:4] if salts is None else salts  # the next best, where the head is wrong
            of_log, start = (heads[:, 2:4] == salts).all(1), 0
            if wrong is None:
                before = np.concatenate([sums[None], heads[:-1, 4:]])
                summed = np.concatenate([frames[:, :8], frames[:, FRAME_HEAD:]], 1).view(kind)
                right = of_log & (heads[:, 0] > 0) & (_sums(summed, before) == heads[:, 4:]).all(1)
                start = len(right) if right.all() else int(right.argmin())
                wrong = None if right.all() else n_read + start + 1
            if len(is_end := heads[start:, 1][of_log[start:]] > 0):
                n_ends, ends = n_ends + int(is_end.sum()), bool(is_end[-1])
            n_read, sums = n_read + len(frames), heads[-1, 4:]
    return None if wrong is None or n_ends <= ends else Damage(head, wrong, n_ends - ends)


def _frames(content: bytes) -> Array:
    """Return `(n, bytes)` the whole frames of a part of a log."""
    size = FRAME_HEAD + PAGE
    return np.frombuffer(content, np.uint8, len(content) // size * size).reshape(-1, size)


def _numbers(content: Array) -> Array:
    """Return the numbers in bytes, four in each."""
    return np.ascontiguousarray(content).view(">u4").astype(np.uint32)


def _sums(numbers: Array, before: Array) -> Array:
    """Return `(n, 2)` uint32 the checksums of numbers `(n, 2 k)`, each after the checksum before it, `(n, 2)`.

    For each pair x, y of numbers, the checksum a, b becomes a + b + x, a + 2 b + x + y, so it is linear in all of them.
    """
    weights, of_before = _weights(numbers.shape[1] // 2)
    sums: Array = numbers.astype(np.uint32) @ weights + before @ of_before
    return sums


@cache
def _weights(pairs: int) -> tuple[Array, Array]:
    """Return what pairs of numbers count for in a checksum, `(2 pairs, 2)`, and what the one before them counts for."""
    step, pair = np.array([[1, 1], [1, 2]], np.uint32), np.array([[1, 1], [0, 1]], np.uint32)
    power, parts = np.eye(2, dtype=np.uint32), []
    for _ in range(pairs):
        parts.append(pair @ power)
        power = power @ step
    return np.concatenate(parts[::-1]), power
