"""Notes about columns that may mislead an encoder: constants, copies, joined codes, amounts in several currencies.

A sample of the events is looked at. Only a column that looks constant or like a copy there is read once more, in full.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import polars as pl

from eventvec.errors import listed, shown
from eventvec.schema import FIRST, Categorical, Numeric
from eventvec.sequences import Array
from eventvec.tables.coding import blocks
from eventvec.tables.kinds import FEW, words_of

Field: TypeAlias = Categorical | Numeric
SAMPLE = 2**16
"""The number of events that are looked at first."""
CURRENCY = frozenset({"currency", "ccy", "curr", "cur"})
"""Words that name a column of currencies."""
MONEY = re.compile(
    "amounts?|amt|prices?|costs?|fees?|charges?|tax|discount|payment|paid|spen[td]|salary|wage|income|revenue|sales|profit|"
    "balance|deposit|value|val|sum|total"
)
"""Words that name a column of amounts."""
SEPARATORS = ("|", ";", ",", "/", " ")
"""What may separate the codes in one text. The first two do, wherever parts repeat; the others are also part of names,
so that most parts must be values of their own too, as in Action, Comedy and "Action Comedy"."""
COMBINED = 3
"""The least number of values with several codes."""


def column_notes(fields: Sequence[Field], columns: Mapping[str, Array]) -> list[str]:
    """Return a sentence on each column that may mislead; none if there are fewer than 50 events.

    Args:
        fields: The fields that were fitted.
        columns: `(events,)` the codes or numbers of each, by its name.
    """
    if not fields or len(columns[fields[0].name]) < FEW:
        return []
    steady = [field for field in fields if _is_constant(columns[field.name], field)]
    notes = [
        f"column {shown(field.name)} is constant, so that it tells nothing; leave it out of {_option(field)}"
        for field in steady
    ]
    notes += _copies([field for field in fields if field not in steady], columns)
    for field in fields:
        if isinstance(field, Categorical) and (separator := joined_by(field)):
            notes.append(
                f"texts in column {shown(field.name)} hold several codes with {shown(separator)} between them, and "
                "each combination is a category of its own; split them into lists, and name the column in summed= "
                "(--summed)"
            )
    return notes + _currencies(fields)


def joined_by(field: Categorical) -> str | None:
    """Return what separates the codes in the texts of a column that hold several; None if they hold one each.

    Example:
        >>> joined_by(Categorical("genre", ("a|b", "a", "b|c", "c|a"), text=True))
        '|'
    """
    texts = pl.Series(field.values, dtype=pl.String) if field.text else pl.Series([], dtype=pl.String)
    for place, separator in enumerate(SEPARATORS):
        combined = texts.filter(texts.str.strip_chars().str.contains(separator, literal=True))
        if len(combined) < COMBINED:
            continue
        parts = texts.str.split(separator).list.eval(pl.element().str.strip_chars()).explode()
        parts = parts.filter(parts != "")
        counts = parts.value_counts(name="n")
        again = (counts["n"] > 1).to_numpy().mean()
        alone = counts[parts.name].is_in(texts.implode()).to_numpy().mean()
        if again >= 0.5 and (alone >= 0.5 or (place < 2 and len(counts) <= len(texts))):
            return separator
    return None


def _option(field: Field) -> str:
    return "categorical= (--categorical)" if isinstance(field, Categorical) else "numeric= (--numeric)"


def _sample(values: Array) -> Array:
    """Return at most `SAMPLE` values, at equal distances."""
    return values[:: -(-len(values) // SAMPLE)]


def _is_constant(values: Array, field: Field) -> bool:
    """Return whether all events have the same value; other notes tell columns without values or with rare ones only."""
    first = values[0]
    if (isinstance(field, Categorical) and first < FIRST) or not (_sample(values) == first).all():  # NaN is not equal
        return False
    return all((block == first).all() for block in blocks(values))


def _copies(fields: Sequence[Field], columns: Mapping[str, Array]) -> list[str]:
    """Return a sentence on each column that has the values of an earlier one, or one value for each of its values."""
    first: dict[bytes, str] = {}
    notes = []
    for field in fields:
        values, pattern = columns[field.name], _pattern(columns[field.name], field)
        before = first.setdefault(pattern, field.name) if pattern else field.name
        if before != field.name and _agree(columns[before], values, field):
            notes.append(
                f"column {shown(field.name)} repeats {shown(before)} in every event; leave one of them out of "
                f"{_option(field)}"
            )
    return notes


def _pattern(values: Array, field: Field) -> bytes | None:
    """Return a digest of the sample, equal for equal numbers and for codes that correspond; None for a single value."""
    sample = _sample(values)
    distinct, first, places = np.unique(sample, return_index=True, return_inverse=True)  # NaN is one value
    if len(distinct) < 2:
        return None
    if isinstance(field, Numeric):
        return blake2b(distinct[places].tobytes()).digest()
    rank = np.empty(len(first), np.int64)
    rank[first.argsort()] = np.arange(len(first))
    return blake2b(rank[places].tobytes(), person=b"codes").digest()


def _agree(one: Array, other: Array, field: Field) -> bool:
    """Return whether two columns have equal numbers in all events, or codes of which each tells the other."""
    pairs = zip(blocks(one), blocks(other), strict=True)
    if isinstance(field, Numeric):
        return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
    there, back = (np.zeros(int(codes.max()) + 1, np.int64) for codes in (one, other))
    there[one], back[other] = other, one
    return all((there[a] == b).all() and (back[b] == a).all() for a, b in pairs)


def _currencies(fields: Sequence[Field]) -> list[str]:
    """Return a sentence on the amounts beside a column of several currencies, which has three characters per value.

    An amount whose name has one of these currencies, such as `paid_eur`, is in that one.
    """
    kinds = [each for each in fields if isinstance(each, Categorical) and _is_currency(each)]
    currencies = {value.lower() for each in kinds for value in each.values}
    amounts = [
        each.name
        for each in fields
        if isinstance(each, Numeric)
        and any(map(MONEY.fullmatch, words_of(each.name)))
        and currencies.isdisjoint(words_of(each.name))
    ]
    if not kinds or not amounts:
        return []
    return [
        f"{listed(map(shown, amounts))} may be in several currencies, by column {shown(kinds[0].name)}, and one scale "
        "is fitted to all; convert them to one currency, or let the encoder read numbers by category "
        "(--set encoder.events.bins=true --set encoder.events.mixing=64)"
    ]


def _is_currency(field: Categorical) -> bool:
    named = bool(words_of(field.name) & CURRENCY)
    return named and len(field.values) >= 2 and all(len(value) == 3 and value.isalnum() for value in field.values)
