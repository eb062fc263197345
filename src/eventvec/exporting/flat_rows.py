"""Flat events in a graph: which row each belongs to, and rows as a rectangle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eventvec.exporting.graph import Graph, Value, concat

LONGEST = 2**62
"""More events than a row has."""


@dataclass
class FlatRows:
    """The inputs of a graph that every encoder reads, and the places of events that follow from them.

    Args:
        lengths: `(rows,)` the number of events of each row.
        time: `(events,)` the times of all rows' events.
        seen: `(rows,)` the number of events that each row's state has seen.
        last_time: `(rows,)` the time of the last of these.
        columns: `(events,)` the columns by name.
        elements: `(events,)` the number of elements that each event has in a list column, by its name.
    """

    graph: Graph
    lengths: Value
    time: Value
    seen: Value
    last_time: Value
    columns: dict[str, Value]
    elements: dict[str, Value]

    def __post_init__(self) -> None:
        self.n, self.total = self.lengths.size(), self.time.size()
        self.filled = self.lengths > 0
        self.starts = self.lengths.cumsum(exclusive=True)
        self.ends = self.starts + self.lengths - 1
        self.row = owner(self.graph, self.lengths, self.total)
        self.head = self.graph.places(self.total).equals(self.starts.take(self.row))

    def first(self, values: Value) -> Value:
        """Return the value of each row's first event, any value for rows without events."""
        return self._at(values, self.starts)

    def last(self, values: Value) -> Value:
        """Return the value of each row's last event, any value for rows without events."""
        return self._at(values, self.ends)

    def before(self, values: Value, *sizes: int) -> Value:
        """Return the values `(*sizes, events)` of the event before each event, 0 for the very first."""
        nothing, axis = self.graph.constant(np.zeros((*sizes, 1), values.dtype)), len(sizes)
        return concat([nothing, values], axis).part(0, -1, axis)

    def padded(self, values: Value, width: int, longest: int = LONGEST, rows: int = 0) -> tuple[Value, Value]:
        """Return `(rows, steps, width)` the values of events, at least one step, and where there is an event.

        Args:
            values: `(events, width)`.
            width: Their size.
            longest: How many events of a row are there at most, the latest ones.
            rows: The axis of rows: 0, or 1 for `(steps, rows, width)`.
        """
        lengths = self.lengths if longest >= LONGEST else self.lengths.at_most(longest)
        starts = self.starts if longest >= LONGEST else self.ends + 1 - lengths
        most = concat([lengths, self.graph.integers(1)], 0).max(0)
        steps = self.graph.places(most).unsqueeze(rows)
        nothing = self.graph.constant(np.zeros((1, width), values.dtype))
        index = (steps + starts.unsqueeze(1 - rows)).at_most(self.total)
        return concat([values, nothing], 0).take(index), steps < lengths.unsqueeze(1 - rows)

    def _at(self, values: Value, index: Value) -> Value:
        nothing = self.graph.constant(np.zeros(1, values.dtype))
        return concat([values, nothing], 0).take(index.at_least(0).at_most(self.total))


def owner(graph: Graph, lengths: Value, total: Value) -> Value:
    """Return `(total,)` the row of each entry, from the number of entries of each row."""
    starts = lengths.cumsum(exclusive=True)
    marks = graph.filled(1, np.int64, lengths.size()).scattered(graph.filled(0, np.int64, total + 1), starts, "add")
    counted = marks.cumsum()
    return counted.take(graph.places(total)) - 1


def cells(group: Value, width: int) -> Value:
    """Return `(entries · width,)` the places of entries of a width among those of groups, both flat.

    Args:
        group: `(entries,)` the group of each.
        width: The numbers of each.
    """
    if width == 1:
        return group
    return (group.unsqueeze(1) * width + group.graph.constant(np.arange(width))).reshape(-1)
