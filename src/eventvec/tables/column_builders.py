"""The columns of a data set while they are read: each takes one part of a table after the other, and is then fitted.

A categorical column holds positions among its values seen so far, which become codes when it is fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from eventvec.errors import shown
from eventvec.schema import UNKNOWN, Categorical, Numeric, Text
from eventvec.sequences import Array, Sequences
from eventvec.tables import coding, kinds
from eventvec.tables.coding import Coded
from eventvec.tables.column_reader import ColumnReader
from eventvec.tables.nested import distinct_bags, distinct_texts
from eventvec.tables.read_options import Fitting
from eventvec.tables.scales import scaled
from eventvec.tables.sinks import Sink

NewSink: TypeAlias = Callable[[], Sink]


class NestedSinks:
    """Several values for each event: the rows that differ within a part, and the window of each event onto them."""

    def __init__(self, sink: NewSink) -> None:
        self._sink = sink
        self.columns: dict[str, Sink] = {}
        self.starts, self.lengths = sink(), sink()

    def append(self, distinct: Sequences, places: Array) -> None:
        """Take the events of a part: the rows that differ, and `(events,)` the place of each event's row."""
        rows = distinct[torch.from_numpy(places)]
        before = next(iter(self.columns.values())).size if self.columns else 0
        for name, values in distinct.columns.items():
            assert isinstance(values, torch.Tensor)
            if name not in self.columns:
                self.columns[name] = self._sink()
            self.columns[name].append(values.numpy())
        self.starts.append(rows.starts.numpy() + before)
        self.lengths.append(rows.lengths.numpy())


class NumbersBuilder:
    """A column of numbers, with its field in a given schema."""

    part = "numeric"
    field: Numeric

    def __init__(self, name: str, sink: NewSink, known: Numeric | None) -> None:
        self.name, self.known, self.sinks = name, known, sink()

    def add(self, reader: ColumnReader, column: pa.ChunkedArray) -> None:
        """Take the values of a part."""
        self.sinks.append(reader.numbers(self.name, column))

    def fit(self, fitting: Fitting) -> list[str]:
        """Fit the field, unless it is known, and return no notes."""
        self.field = self.known or scaled(self.name, self.sinks.values(), fitting)
        return []


class TextsBuilder:
    """A column of texts."""

    part = "texts"

    def __init__(self, name: str, sink: NewSink) -> None:
        self.name, self.field, self.sinks = name, Text(name), NestedSinks(sink)

    def add(self, reader: ColumnReader, column: pa.ChunkedArray) -> None:
        """Take the values of a part."""
        self.sinks.append(*distinct_texts(reader.coded(self.name, column)))

    def fit(self, fitting: Fitting) -> list[str]:
        """Return no notes."""
        return []


class CodesBuilder:
    """A categorical column, whose sink holds positions among the values seen so far until the field is fitted.

    Args:
        name: The name of the column.
        sink: Returns an empty sink.
        known: Its field in a given schema.
        hashed: Whether its values are hashed; None if that follows from all of them, because nobody listed the column.
        listed: Whether a column that is hashed was listed as such.
    """

    part = "categorical"
    field: Categorical

    def __init__(
        self, name: str, sink: NewSink, known: Categorical | None, hashed: bool | None, listed: bool = True
    ) -> None:
        self.name, self.known, self.hashed, self.listed, self.sinks = name, known, hashed, listed, sink()
        self._text = False
        self._values, self._counts = pa.array([], pa.large_string()), np.zeros(0, np.int64)

    def add(self, reader: ColumnReader, column: pa.ChunkedArray) -> None:
        """Take the values of a part."""
        coded = reader.coded(self.name, column)
        untyped = not reader.events.table.typed and coding.is_text(column.type)
        if self.known is not None and untyped and not self.known.text:
            coded = coding.as_numbers(coded)
        self.append(coded, coding.holds_text(column.type))

    def append(self, column: Coded, text: bool) -> None:
        """Take values whose distinct ones are known, as `add` does with a part of a table."""
        self._text = text
        if not len(self._values):
            self._values, self._counts = column.values, column.counts()
            self.sinks.append(column.codes)
            return
        index = pc.index_in(column.values, value_set=self._values)
        new = column.values.filter(index.is_null())
        seen, is_new = (each.to_numpy(zero_copy_only=False) for each in (index.fill_null(0), index.is_null()))
        positions = np.where(is_new, len(self._values) + is_new.cumsum() - 1, seen)
        self._values = pa.chunked_array([self._values, new]).combine_chunks()
        self._counts = np.append(self._counts, np.zeros(len(new), np.int64))
        self._counts[positions] += column.counts()
        self.sinks.append(np.append(positions, -1).astype(np.int32)[column.codes])

    def fit(self, fitting: Fitting, what: str = "events") -> list[str]:
        """Fit the field, unless it is known, replace positions by codes, and return notes."""
        values, counts = self._values, self._counts
        distinct, notes = int((counts > 0).sum()), list[str]()
        if self.known is not None:
            self.field = self.known
        elif self.hashed or (self.hashed is None and self._text and kinds.are_many(distinct, int(counts.sum()))):
            self.field = Categorical(self.name, (), buckets=max(1, min(fitting.buckets, distinct)), text=self._text)
            notes += [] if self.listed else [coding.hashed_note(self.field)]
        else:
            self.field = replace(coding.frequent(self.name, values, counts, fitting), text=self._text)
            unique = kinds.near_unique(distinct, int(counts.sum())) if self.listed and what == "events" else None
            remedy = "leave it out of categorical= (--categorical), or name it in hashed= (--hashed)"
            if unique:
                notes.append(f"column {shown(self.name)} is of little use: {unique}; {remedy}")
            else:
                notes += coding.rare_note(self.field, fitting)
        codes = coding.encode(Coded(np.append(np.arange(len(values)), -1), values), self.field)
        if self.known is not None:
            unknown = int(counts[codes[:-1] == UNKNOWN].sum())
            notes += coding.unknown_note(self.name, unknown, self.sinks.size, what)
        del self._values, self._counts
        for block in coding.blocks(self.sinks.values()):
            block[:] = codes[block]
        return notes


class BagsBuilder:
    """A list column whose elements are summed; the bags of a part are compared once their elements have codes."""

    part = "bags"

    def __init__(self, name: str, sink: NewSink, known: Categorical | None) -> None:
        self.name, self.sinks, self._elements = name, NestedSinks(sink), CodesBuilder(name, sink, known, hashed=False)
        self._lengths, self._parts = sink(), list[int]()

    @property
    def field(self) -> Categorical:
        """The field, once it is fitted."""
        return self._elements.field

    def add(self, reader: ColumnReader, column: pa.ChunkedArray) -> None:
        """Take the values of a part."""
        coded, lengths = reader.elements(self.name, column)
        self._elements.append(coded, coding.holds_text(column.type.value_type))
        self._lengths.append(lengths)
        self._parts.append(len(lengths))

    def fit(self, fitting: Fitting) -> list[str]:
        """Fit the field, unless it is known, and return notes."""
        notes = self._elements.fit(fitting, "elements")
        elements, lengths = self._elements.sinks.values(), self._lengths.values()
        event = element = 0
        for n_events in self._parts:
            part = lengths[event : event + n_events]
            n_elements = int(part.sum())
            self.sinks.append(*distinct_bags(elements[element : element + n_elements], part))
            event, element = event + n_events, element + n_elements
        self._elements.sinks.delete()
        self._lengths.delete()
        return notes


Builder: TypeAlias = NumbersBuilder | TextsBuilder | CodesBuilder | BagsBuilder
