"""Windows of whole moments: events of one time stay together, since their order is the table's and not the entity's."""

from __future__ import annotations

import torch
from torch import Tensor

from eventvec.sequences import Sequences


def moments(x: Sequences) -> Sequences:
    """Return each row's distinct times: column `event` holds the place in its row of the first event at each.

    Without a column `time` each event is a moment of its own.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 1, 4, 4, 4])}, torch.tensor([0, 3]), torch.tensor([3, 2]))
        >>> found = moments(x)
        >>> found.values("event").tolist(), found.lengths.tolist()
        ([0, 2, 0], [2, 1])
    """
    step = x.steps()
    if "time" not in x.columns:
        return Sequences({"event": step}, x.lengths.cumsum(0) - x.lengths, x.lengths)
    time, new = x.values("time"), step == 0
    new[1:] |= time[1:] != time[:-1]
    lengths = torch.bincount(x.rows()[new], minlength=len(x))
    return Sequences({"event": step[new]}, lengths.cumsum(0) - lengths, lengths)


def during(x: Sequences, found: Sequences, rows: Tensor, first: Tensor, count: int) -> Sequences:
    """Return windows of so many moments, with all events at each; no event is copied.

    Args:
        x: rows.
        found: their moments, as `moments` returns them.
        rows: `(m,)` the row that each window is cut from.
        first: `(m,)` the window's first moment, counted from the row's first.
        count: moments in a window.

    Raises:
        IndexError: a window reaches outside its row. Checked on the CPU only, as by `Sequences.slice`.

    Example:
        >>> x = Sequences({"time": torch.tensor([1, 1, 4, 4, 4])}, torch.tensor([0]), torch.tensor([5]))
        >>> during(x, moments(x), torch.tensor([0, 0]), torch.tensor([0, 1]), count=1).lengths.tolist()
        [2, 3]
    """
    event = found.columns["event"]
    assert isinstance(event, Tensor)
    event = torch.cat([event, event.new_zeros(1)])
    begin = found.starts[rows] + first
    stop = found.starts[rows] + found.lengths[rows]
    edges = [  # the end of the last window is that of its row; what lies beyond stays beyond
        torch.where(at < stop, event[at.clamp(max=len(event) - 1)], x.lengths[rows] + at - stop)
        for at in (begin, begin + count)
    ]
    return x.slice(rows, edges[0], edges[1] - edges[0])
