"""The labels of `future_labels` that are known from histories as of their times, block after block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl
import torch

from eventvec.dataset import period
from eventvec.labels.horizons import Rule, after_first_event
from eventvec.sequences import Array, Sequences, histories


def known_labels(x: Sequences, rule: Rule, ends: Array) -> Iterator[tuple[Array, Array, pl.DataFrame]]:
    """Yield the labels that follow from the events before the ends of rows; rows without events are in no block.

    Rows that begin at the same event are one history as of several times. Its labels are computed once, from the
    longest of these rows: a label whose horizon closes before the end of a row depends on no event from that end on, so
    it is the same for the shorter row. A row may read the labels with `known` before its end, and no other.

    Args:
        x: `n` rows, each with all events of an entity before its end.
        rule: What is labelled.
        ends: `(n,)` the times strictly before which the events of each row lie.

    Yields:
        `(m,)` rows, `(m,)` the number of the history of each, and the labels of these histories: the number of the
        history, `entity`; the `time` of the snapshot; the end of its horizon, `known`; and the `value`, NaN if none.
    """
    filled = np.flatnonzero(x.lengths.cpu().numpy())
    if not len(filled):
        return
    x = replace(x, static={}).to("cpu")[torch.from_numpy(filled)]
    longest, history = histories(x)
    last = np.full(len(longest), ends[filled].min())
    np.maximum.at(last, history.numpy(), ends[filled])
    x, first = x[longest], period(x)
    assert first is not None
    grid = rule.snapshots(first[0], last.max())
    earliest = np.minimum.accumulate(grid["closes"][::-1])[::-1]  # clocks that are set back may change the order
    snapshots = after_first_event(x, grid)
    count = torch.from_numpy(np.searchsorted(earliest, last)) - snapshots.starts
    snapshots = replace(snapshots, lengths=count.clamp(min=0))
    order = history.argsort(stable=True).numpy()
    places = np.searchsorted(history.numpy()[order], np.arange(len(x) + 1))
    for block in x.blocks(per_row=len(grid["time"])):
        part = snapshots[block]
        rows = order[places[block.start] : places[block.stop]]
        labels = {
            "entity": part.rows().numpy() + block.start,
            "time": part.values("time").numpy(),
            "known": part.values("closes").numpy(),
            "value": rule.labels(x[block], part),
        }
        yield filled[rows], history.numpy()[rows], pl.DataFrame(labels)
