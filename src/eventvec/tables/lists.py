"""List columns, such as the items of a basket: one event for each element of a row's lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.errors import DataError, listed, shown
from eventvec.sequences import Array
from eventvec.tables.coding import count_and_first, counting
from eventvec.tables.layouts import plain, plain_type
from eventvec.tables.sources import Source


@dataclass(frozen=True)
class ExplodedEvents:
    """A table in which each row is one event, or one event for each element of its lists.

    Args:
        table: The table; its types are those of single events.
        lists: The list column that each column of elements comes from. A column of structures gives one column for each
            member, called `items.price`.
        exploding: The list columns.
    """

    table: Source
    lists: dict[str, str]
    exploding: tuple[str, ...] = ()

    @cached_property
    def lengths(self) -> Array | None:
        """`(rows,)` the number of elements of each row; None if each row is one event."""
        return _common_lengths(self.table, self.exploding) if self.exploding else None

    @cached_property
    def row_of(self) -> Array | None:
        """`(events,)` the row of each event, in ascending order; None if each row is one event."""
        lengths = self.lengths
        return None if lengths is None else np.repeat(np.arange(len(lengths)), np.maximum(lengths, 1))

    def stream(self, names: Sequence[str]) -> Iterator[pa.ChunkedArray]:
        """Yield the named columns: those of elements with one value per event, the others with one per row."""
        for name, group in groupby(names, lambda name: self.lists.get(name)):
            if name is None:
                yield from self.table.stream(list(group))
            else:
                elements = _elements(next(self.table.stream([name])))
                for part in group:
                    yield elements[part.removeprefix(name)]

    def of(self, name: str, values: Array) -> Array:
        """Return `(events,)` values of a column, as `stream` yields it: those of a row are repeated."""
        return values if self.row_of is None or name in self.lists else values[self.row_of]

    def counting(self, name: str, elements: bool = False) -> AbstractContextManager[None]:
        """Say in errors about elements of lists that these are what is counted, and not rows of the table."""
        return counting("after exploding, one for each element" if elements or name in self.lists else "")


def exploded_note(names: Sequence[str], n_rows: int, n_events: int, empty: int) -> str:
    """Return a sentence about the number of events of a table whose rows have lists."""
    columns = ", ".join(map(shown, names))
    note = f"{n_rows:,} rows give {n_events:,} events, one for each element of {columns}"
    missing = f"; {empty:,} of the rows have no elements and give one event each, with missing values"
    return note + missing if empty else note


def exploded(source: Source, names: Sequence[str]) -> ExplodedEvents:
    """Return the events of a table, one for each element of the named list columns.

    A row's lists must have equal lengths. The elements of a list keep their order. A null or empty list gives one event
    with missing values. If the elements are structures, each member becomes a column, such as `items.price`.
    """
    if not names:
        return ExplodedEvents(source, {})
    source.need(names)
    for name in names:
        if not is_list(source.types[name]):
            raise DataError(
                f"column {shown(name)} cannot be exploded: it holds {source.types[name]}; accepted: lists; if each "
                "element has a row of its own already, give explode=[]"
            )
    types, lists = [], {}
    for name, kind in source.types.items():
        parts = _parts(kind) if name in names else [("", kind)]
        types += [(name + suffix, plain_type(part)) for suffix, part in parts]
        lists.update({name + suffix: name for suffix, _ in parts} if name in names else {})
    repeated = sorted(name for name, count in Counter(name for name, _ in types).items() if count > 1)
    if repeated:
        raise DataError(f"exploded, the table has more than one column {listed(map(repr, repeated))}; rename one")
    return ExplodedEvents(replace(source, types=dict(types)), lists, tuple(names))


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is a list of any Arrow layout, other than a map."""
    types = pa.types
    views = (types.is_list_view(kind), types.is_large_list_view(kind))
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or any(views))


def _parts(kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Return the types of a list's elements, by what follows the column's name in the names of their columns."""
    element = kind.value_type
    return [(f".{part.name}", part.type) for part in element] if pa.types.is_struct(element) else [("", element)]


def list_lengths(column: pa.ChunkedArray) -> Array:
    """Return `(rows,)` int64 the number of elements of each list; a null list has none."""
    lengths: Array = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    return lengths


def _common_lengths(source: Source, names: Sequence[str]) -> Array:
    """Return `(rows,)` the number of elements of each row, after a check that all its lists have as many."""
    lengths = list_lengths(next(source.stream(names[:1])))
    for name in names[1:]:
        if (different := lengths != list_lengths(next(source.stream([name])))).any():
            raise DataError(
                f"the lists of {shown(names[0])} and {shown(name)} have different lengths in "
                f"{count_and_first(different, 'row')}; lists that are exploded together need equal lengths"
            )
    return lengths


def _elements(column: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """Return the columns of a list column's elements; a list without elements gives a missing value."""
    lengths = list_lengths(column)
    n_events = np.maximum(lengths, 1)
    first, first_element = (np.repeat(each.cumsum() - each, n_events) for each in (n_events, lengths))
    index = pa.array(np.arange(len(first)) - first + first_element, mask=np.repeat(lengths == 0, n_events))
    elements = pc.list_flatten(column)
    members = elements.flatten() if pa.types.is_struct(elements.type) else [elements]  # with the nulls of structs
    suffixes = [suffix for suffix, _ in _parts(column.type)]
    table = plain(pa.table(dict(zip(suffixes, members, strict=True))), "the lists")
    return {suffix: values.take(index) for suffix, values in zip(suffixes, table.columns, strict=True)}
