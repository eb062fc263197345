"""The columns of a part of a table as arrays in the order of its events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventvec.sequences import Array
from eventvec.tables import coding, kinds
from eventvec.tables.coding import Coded, pick
from eventvec.tables.lists import ExplodedEvents
from eventvec.tables.nested import elements
from eventvec.tables.notations import with_points


@dataclass(frozen=True)
class ColumnReader:
    """Converts columns to arrays in the order of the events.

    Args:
        events: The table that they are from.
        order: `(events,)` the place of each event in the exploded table; None if that is already in this order.
        heads: `(n,)` the place of each entity's first event in this order.
        decimal: The decimal mark of numbers in text, see `TableFormat`.
    """

    events: ExplodedEvents
    order: Array | None
    heads: Array
    decimal: str | None = None

    def guess(self, name: str, column: pa.ChunkedArray) -> kinds.Guess:
        """Return the kind of a column that nobody listed.

        A row counts once, however many events it gives, so an identifier of the rows is recognised as one.
        """
        order, heads = self._order(name), self.heads
        if order is not None and self.events.row_of is not None and name not in self.events.lists:
            first = np.sort(np.unique(order, return_index=True)[1])
            order, heads = order[first], np.searchsorted(first, heads)
        with self.events.counting(name):
            guess = kinds.infer(name, column, order, heads)
            if self.decimal not in guess.marks:
                return guess
            numbers = pa.array(coding.numbers(name, with_points(column, self.decimal)), from_pandas=True)
            return kinds.infer(name, pa.chunked_array([numbers]), order, heads)

    def coded(self, name: str, column: pa.ChunkedArray) -> Coded:
        """Return a column by its distinct texts."""
        with self.events.counting(name):
            codes, values = coding.coded(name, column)
        order = self._order(name)
        return Coded(codes if order is None else codes[order], values)

    def elements(self, name: str, column: pa.ChunkedArray) -> tuple[Coded, Array]:
        """Return the elements of a list column, event after event, and `(events,)` the number of each event's."""
        with self.events.counting(name, elements=True):
            return elements(name, column, self._order(name))

    def numbers(self, name: str, column: pa.ChunkedArray) -> Array:
        """Return `(events,)` float32 the numbers of a column."""
        with self.events.counting(name):
            values = coding.numbers(name, with_points(column, self.decimal))
        return pick(values, self._order(name))

    def _order(self, name: str) -> Array | None:
        """Return `(events,)` the place of each event in a column; None if the column is already in this order."""
        row_of, order = self.events.row_of, self.order
        if row_of is None or name in self.events.lists:
            return order
        return row_of if order is None else row_of[order]
