"""The columns of a table of events as arrays in the order of the rows: codes, numbers, bags of codes, and texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from eventvec.errors import shown
from eventvec.schema import UNKNOWN, Categorical, Schema, Text
from eventvec.sequences import Sequences
from eventvec.tables import fields, kinds, request
from eventvec.tables.fields import Array, Coded, Fitting, pick
from eventvec.tables.lists import Events
from eventvec.tables.nested import distinct_bags, distinct_texts, elements
from eventvec.tables.scales import scaled


@dataclass(frozen=True)
class ColumnReader:
    """Converts the columns of a table, one after the other, to arrays in the order of the rows.

    Args:
        names: The names of the columns.
        arrow: Yields the columns.
        events: The table that they are from.
        order: `(events,)` the place of each event in the exploded table; None if that is already in this order.
        heads: `(n,)` the place of each entity's first event in this order.
        times: `(events,)` the time of each event.
        gaps: `(events,)` the time since the previous event of the entity.
        notes: Sentences about what was counted or left out; more are added.
        values: The arrays, by the names of the columns; for a nested one, places in its distinct values.
        nested: The distinct bags of each summed column, and the distinct texts of each column of texts.
        unknown: The number of values outside the vocabulary of a given schema, by the names of the columns: with the
            number of all values, and what they are called.
    """

    names: list[str]
    arrow: Iterator[pa.ChunkedArray]
    events: Events
    order: Array | None
    heads: Array
    times: Array
    gaps: Array
    notes: list[str]
    values: dict[str, Array] = field(default_factory=dict)
    nested: dict[str, Sequences] = field(default_factory=dict)
    unknown: dict[str, tuple[int, int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values.update(time=self.times, gap=self.gaps)

    def fit(self, frame: Schema, requested: request.Request, fitting: Fitting) -> Schema:
        """Return a schema fitted to the columns, and fill in the values, coded by it.

        Args:
            frame: The schema without columns.
            requested: The columns and their roles.
            fitting: How scales and vocabularies are fitted.
        """
        categorical, numeric, bags, guesses = [], [], [], {}
        for name, column in zip(self.names, self.arrow, strict=True):
            listed_as = requested.kinds.get(name)
            if listed_as == "summed":
                bags.append(self._summed(name, column, fitting))
                continue
            if listed_as == "texts":
                self.text(name, column)
                continue
            guess = kinds.Guess(listed_as, "listed") if listed_as else self._guess(name, column)
            if requested.inferred:
                guesses[name] = guess
            if guess.kind in ("categorical", "hashed"):
                categorical.append(self._categorical(name, column, fitting, guess.kind == "hashed"))
                if guess.kind == "hashed" and listed_as != "hashed":
                    self.notes.append(fields.hashed_note(categorical[-1]))
            elif guess.kind == "numeric":
                numeric.append(scaled(name, self.numbers(name, column), fitting))
            else:
                remedy = "; to use it all the same, name it in hashed= (--hashed), or texts= (--texts)"
                near_unique = "near-unique" in guess.reason
                self.notes.append(f"column {shown(name)} is left out: {guess.reason}{remedy if near_unique else ''}")
        options = "categorical= and numeric= (--categorical, --numeric)"
        self.notes.extend(kinds.guess_note(guesses.items(), "columns", options))
        gap = scaled("gap", self.gaps, replace(fitting, log=True))
        return replace(
            frame,
            categorical=tuple(categorical),
            numeric=tuple(numeric),
            gap=gap,
            bags=tuple(bags),
            texts=tuple(map(Text, requested.texts)),
        )

    def _guess(self, name: str, column: pa.ChunkedArray) -> kinds.Guess:
        """Return the kind of a column that nobody listed."""
        with self.events.counting(name):
            return kinds.infer(name, column, *self._inferred_from(name))

    def _summed(self, name: str, column: pa.ChunkedArray, fitting: Fitting) -> Categorical:
        coded, lengths = self.elements(name, column)
        vocabulary = fields.vocabulary(name, coded, fitting)
        fitted = replace(vocabulary, text=fields.holds_text(column.type.value_type))
        self.notes.extend(fields.rare_note(fitted, fitting))
        self._bag(name, fields.encode(coded, fitted), lengths)
        return fitted

    def apply(self, schema: Schema, frame: Schema, typed: bool) -> Schema:
        """Return the schema as it describes this table, and fill in the values, coded by it.

        The result has the name of the key in files from this table, the order of events at one time there, its list
        columns, and timestamps where the schema was fitted to dates and the table has timestamps.
        """
        known = {category.name: category for category in schema.categorical}
        bags, texts = {bag.name: bag for bag in schema.bags}, {text.name for text in schema.texts}
        for name, column in zip(self.names, self.arrow, strict=True):
            if name in bags:
                coded, lengths = self.elements(name, column)
                codes = fields.encode(coded, bags[name])
                self._bag(name, codes, lengths)
                self.unknown[name] = (int((codes == UNKNOWN).sum()), len(codes), "elements")
                continue
            if name in texts:
                self.text(name, column)
                continue
            if name not in known:
                self.numbers(name, column)
                continue
            coded = self.coded(name, column)
            if not typed and fields.is_text(column.type) and not known[name].text:
                coded = fields.as_numbers(coded)
            codes = self.values[name] = fields.encode(coded, known[name])
            self.unknown[name] = (int((codes == UNKNOWN).sum()), len(codes), "events")
        if schema.time_kind == "date" and frame.time_kind == "timestamp":
            schema = replace(schema, time_kind="timestamp", time_zone=frame.time_zone)
        return replace(schema, key_as=frame.key_as, order=frame.order, ties=frame.ties, explode=frame.explode)

    def _categorical(self, name: str, column: pa.ChunkedArray, fitting: Fitting, hashed: bool) -> Categorical:
        codes = self.coded(name, column)
        field = fields.hashed(name, codes, fitting) if hashed else fields.vocabulary(name, codes, fitting)
        fitted = replace(field, text=fields.holds_text(column.type))
        self.values[name] = fields.encode(codes, fitted)
        self.notes.extend(fields.rare_note(fitted, fitting))
        return fitted

    def coded(self, name: str, column: pa.ChunkedArray) -> Coded:
        """Return a column by its distinct texts, in the order of the rows."""
        with self.events.counting(name):
            codes, values = fields.coded(name, column)
        order = self._order(name)
        return Coded(codes if order is None else codes[order], values)

    def elements(self, name: str, column: pa.ChunkedArray) -> tuple[Coded, Array]:
        """Return the elements of a list column, in the order of the rows, and `(events,)` the number of each list."""
        with self.events.counting(name, elements=True):
            return elements(name, column, self._order(name))

    def _bag(self, name: str, codes: Array, lengths: Array) -> None:
        self.nested[name], self.values[name] = distinct_bags(codes, lengths)

    def text(self, name: str, column: pa.ChunkedArray) -> None:
        """Fill in a column of texts: the distinct ones, and the place of each event's."""
        self.nested[name], self.values[name] = distinct_texts(self.coded(name, column))

    def numbers(self, name: str, column: pa.ChunkedArray) -> Array:
        """Fill in a column of numbers, and return `(events,)` float32, in the order of the rows."""
        with self.events.counting(name):
            values = fields.numbers(name, column)
        self.values[name] = pick(values, self._order(name))
        return self.values[name]

    def _order(self, name: str) -> Array | None:
        """Return `(events,)` the place of each event in a column; None if the column is already in this order."""
        row_of, order = self.events.row_of, self.order
        if row_of is None or name in self.events.lists:
            return order
        return row_of if order is None else row_of[order]

    def _inferred_from(self, name: str) -> tuple[Array | None, Array]:
        """Return the places in a column that its kind is inferred from, and the first of each entity among them.

        A row counts once, however many events it gives, so that an identifier of the rows is recognised as one.
        """
        order, heads = self._order(name), self.heads
        if order is None or self.events.row_of is None or name in self.events.lists:
            return order, heads
        first = np.sort(np.unique(order, return_index=True)[1])
        return order[first], np.searchsorted(first, heads)
