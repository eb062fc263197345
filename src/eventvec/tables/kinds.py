"""The kinds of columns that nobody listed: category or number, by the type, the name and the frequencies of values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventvec.errors import listed, shown
from eventvec.sequences import Array
from eventvec.tables.coding import Coded, coded, factorize, kind_of, numbers, pick
from eventvec.tables.notations import decimal_marks
from eventvec.tables.times import epoch_unit

FEW = 50  # distinct values: up to so many a column is never near-unique
UNIQUE = 0.9  # the share of distinct values among the values above which they identify rows
LEVELS = 12  # distinct values: up to so many, as there are months, categories can express any function of a number
MANY = 100  # distinct values: over so many, whole numbers of which nothing else is known are numbers
SMOOTH = 0.4  # of `roughness`: 0.01 to 0.31 for ages, heights and a sensor; 0.46 and above for codes that are classes
ROUGH = 0.5  # of `roughness`: up to 0.3 for amounts, many of them round; 0.7 and above for codes of products
DENSE = 20  # rows per distinct value from which frequencies are known well enough to call them rough
NEGATIVE = 3  # distinct values below 0; codes have one or two at most, which mean missing
DATE_TEXT = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$"
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


CODES = _words(
    "id ids uuid guid key code codes type types kind class category categories cat group cluster segment bin "
    "bins band label flag is has status state mode method reason source channel mcc icd atc ndc cpt drg loinc "
    "sku upc ean isbn asin zip zipcode postal postcode postalcode phone ip port item product article brand "
    "model manufacturer supplier vendor shop store merchant terminal branch warehouse station department dept "
    "aisle section ward route carrier airline campaign coupon customer user account card client patient "
    "provider employee household basket invoice stock country region city county province district gender sex "
    "race ethnicity religion nationality language lang currency occupation job profession industry genre "
    "species device browser os plan tariff quarter month week weekday day dow hour minute second"
)
"""Words at the end of a name that speak of codes: identifiers, classes, things, places, and parts of the calendar."""

QUANTITIES = _words(
    "amount amt price cost costs fee fees charge tax discount payment paid spent spend salary wage income "
    "revenue sales profit loss balance deposit value val volume qty quantity count counts cnt sum total n num "
    "frequency age ages year years months weeks days hours minutes mins seconds secs ms time duration elapsed "
    "delay latency tenure length len size width height depth altitude elevation alt distance dist lat lon lng "
    "latitude longitude weight bmi mass score scores rating rate ratio share pct percent percentage "
    "probability prob mean avg average median std min max temperature temp pressure humidity speed velocity "
    "power energy voltage dose bytes kb mb gb population capacity visits clicks views steps points mileage"
)
"""Words at the end of a name that speak of amounts, counts, sizes and lengths of time."""

AGGREGATES = _words("n num nr count cnt total sum mean avg average median std min max")
"""Words at the beginning of a name that make a quantity of what follows, as in num_products."""


class Guess(NamedTuple):
    """The inferred kind of a column, None if it is left out, and the reason; `whole` if it holds whole numbers.

    Only the kinds of whole numbers are guesses: text and booleans are categories, numbers with fractions are numbers.
    `marks` are the decimal marks by which all texts of a column are numbers, if they are not plain ones.
    """

    kind: Literal["categorical", "numeric", "hashed", "text", "vector"] | None
    reason: str
    whole: bool = False
    marks: tuple[str, ...] = ()


def infer(name: str, column: pa.ChunkedArray, order: Array | None, heads: Array | None = None) -> Guess:
    """Return the kind of a column, or the reason why it is left out: constant, near-unique, another key, times.

    Whole numbers may be codes or quantities. Their name decides if it says which (`vote`), otherwise the frequencies of
    their values do (`by_frequency`). Floats count as whole numbers if all of them are and the name speaks of codes or
    values are missing, because libraries such as pandas turn whole numbers with missing values into floats.

    Args:
        name: The column, for its words and for messages.
        column: Its values.
        order: The rows to use, entity by entity; None for all rows in their order.
        heads: Places in that order at which an entity begins; None where each row is one entity.
    """
    kind, named = kind_of(column.type), vote(name)
    if kind == "integer" and named != "numeric":
        return _infer_whole(name, column, order, heads)
    if kind in ("integer", "float"):
        values = pick(numbers(name, column), order)
        missing = np.isnan(values)
        if missing.all():
            return Guess(None, "it holds no value")
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        if not missing.any() and low == high:
            return Guess(None, "it is constant")
        if named != "numeric" and (missing.any() or named) and _is_whole(column):
            return _infer_whole(name, column, order, heads)
        by_name = Guess("numeric", "quantities by name", True) if kind == "integer" else None
        return _epoch(low, high) or by_name or Guess("numeric", "fractions")
    codes, texts = coded(name, column)
    codes = pick(codes, order)
    counts = Coded(codes, texts).counts()
    marks = tuple(decimal_marks(texts.filter(pa.array(counts > 0)))) if kind == "text" else ()
    reason = _no_value(counts, codes) or _identifies(counts, codes, heads) or _nested(counts, codes, heads)
    if reason is None and kind == "text":
        is_date = pc.match_substring_regex(texts.filter(pa.array(counts > 0)), DATE_TEXT)
        reason = "it holds dates as text" if pc.all(is_date).as_py() else None
    if reason:
        return Guess(None, reason, marks=marks)
    distinct, present = int((counts > 0).sum()), int(counts.sum())
    return Guess("hashed" if are_many(distinct, present) else "categorical", kind, marks=marks)


def near_unique(distinct: int, present: int) -> str | None:
    """Return the reason why so many distinct values are of little use, None if they are not near-unique."""
    if distinct <= max(FEW, UNIQUE * present):
        return None
    return f"it is near-unique ({distinct:,} distinct values in {present:,} rows), like an identifier"


def are_many(distinct: int, present: int) -> bool:
    """Return whether a column of text has so many distinct values that they are hashed."""
    return distinct > max(FEW, 0.5 * present)


def vote(name: str) -> Literal["categorical", "numeric"] | None:
    """Return the kind that the name of a column speaks for, None if its words are not known.

    The last word that is known decides, as it does in English: an age_group is a group. A known word with id, code, no
    or type at its end counts as known, as in itemid. Aggregates at the beginning make any name a quantity.
    """
    words = _in_order(name)
    if words and words[0] in AGGREGATES:
        return "numeric"
    for word in reversed(words):
        if word in CODES or re.sub("(id|code|no|type)$", "", word) in CODES:
            return "categorical"
        if word in QUANTITIES:
            return "numeric"
    return None


def words_of(name: str) -> frozenset[str]:
    """Return the words of the name of a column, in lower case."""
    return frozenset(_in_order(name))


def _in_order(name: str) -> list[str]:
    return [word.lower() for word in WORD.findall(name)]


def by_frequency(values: Array, counts: Array) -> Guess:
    """Return the kind of whole numbers by the frequency of each value, where the name does not tell.

    Frequencies of a quantity rise and fall with the value, those of codes jump from one value to the next. Frequencies
    that only fall tell nothing, because codes are often given by frequency.
    """
    if (values < 0).sum() >= NEGATIVE:
        return Guess("numeric", "values below 0", True)
    if len(values) <= LEVELS:
        return Guess("categorical", f"up to {LEVELS} values", True)
    jumps, mode = roughness(counts), int(counts.argmax())
    if jumps < SMOOTH and 0 < mode < len(values) - 1:
        return Guess("numeric", "frequencies that rise and fall with the value", True)
    if len(values) <= MANY:
        return Guess("categorical", f"up to {MANY} values", True)
    round_ones = counts[values % 10 == 0]  # amounts are often round, so their frequencies jump at multiples of 10
    if counts.sum() >= DENSE * len(values) and min(jumps, roughness(round_ones)) > ROUGH:
        return Guess("categorical", "frequencies that jump from value to value", True)
    return Guess("numeric", f"over {MANY} values", True)


def roughness(counts: Array) -> float:
    """Return how much counts in a row differ from their neighbours: 1 on average in random order, 0 if they are smooth.

    It is half of von Neumann's ratio, computed on ranks (Bartels 1982). Equal counts and fewer than three give 1.
    """
    _, places, tied = np.unique(counts, return_inverse=True, return_counts=True)
    ranks = (tied.cumsum() - tied / 2)[places]
    variance = float(ranks.var()) if len(ranks) > 2 else 0.0
    return float((np.diff(ranks) ** 2).mean() / (2 * variance)) if variance else 1.0


def guess_note(guesses: Iterable[tuple[str, Guess]], what: str, option: str) -> tuple[str, ...]:
    """Return a note that tells the kinds that were guessed and why, if there are any."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, guess in guesses:
        if guess.whole and guess.kind:
            reasons.setdefault((guess.kind, guess.reason), []).append(shown(name))
    parts = [
        f"{listed(names)} as {'category' if kind == 'categorical' else 'number'} ({reason})"
        for (kind, reason), names in sorted(reasons.items())
    ]
    note = f"kinds of {what} of whole numbers are inferred: {', '.join(parts)}; to change this, set {option}"
    return (note,) if parts else ()


def unusable(kind: pa.DataType) -> str | None:
    """Return the reason why columns of a type are never inferred, None if they can be."""
    reasons = {"time": "it holds times but is not the time column", "empty": "it holds no value"}
    return {**reasons, "other": f"it holds {kind}"}.get(kind_of(kind))


def _infer_whole(name: str, column: pa.ChunkedArray, order: Array | None, heads: Array | None) -> Guess:
    """Return the kind of whole numbers, as integers or floats, whose name does not speak of a quantity."""
    real, is_code = kind_of(column.type) == "float", vote(name) == "categorical"
    if real:
        column = _as_floats(column)
        column = pc.if_else(pc.is_nan(column), None, column)
    codes, distinct = factorize(column)
    codes, values = pick(codes, order), distinct.to_numpy(zero_copy_only=False)
    counts = Coded(codes, distinct).counts()
    if reason := _no_value(counts, codes):
        return Guess(None, reason)
    used = np.flatnonzero(counts)
    used = used[values[used].argsort()]
    if not is_code and (epoch := _epoch(float(values[used[0]]), float(values[used[-1]]))):
        return epoch
    if reason := _identifies(counts, codes, heads):
        return Guess("numeric", f"over {FEW} values", True) if real and not is_code else Guess(None, reason)
    guess = Guess("categorical", "codes by name", True)
    if not is_code:
        guess = by_frequency(values[used].astype(np.float64), counts[used])
    nested = _nested(counts, codes, heads) if guess.kind == "categorical" else None
    return Guess(None, nested) if nested else guess


def _as_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return floats or decimals as floats of a width that Arrow computes with."""
    return column if column.type in (pa.float32(), pa.float64()) else column.cast(pa.float64())


def _is_whole(column: pa.ChunkedArray) -> bool:
    """Return whether all floats or decimals of a column are whole."""
    for part in _as_floats(column).chunks:
        for start in range(0, len(part), 2**16):  # most columns with fractions have one in their first block
            values = part.slice(start, 2**16).drop_null().to_numpy(zero_copy_only=False)
            if not (np.isnan(values) | (np.floor(values) == values)).all():
                return False
    return True


def _epoch(low: float, high: float) -> Guess | None:
    """Return that a column is left out because its numbers look like times since 1970, None if they do not."""
    unit = epoch_unit(low, high)
    if unit is None or high == low:
        return None
    return Guess(
        None,
        f"it looks like times, in {unit.words} since 1970; to use it, make it a length of time, such as that since the "
        "event, or list it as numeric",
    )


def _no_value(counts: Array, codes: Array) -> str | None:
    """Return the reason to leave out a column without values or with a single value, None if it has several."""
    distinct, present = int((counts > 0).sum()), int(counts.sum())
    if distinct == 0:
        return "it holds no value"
    return "it is constant" if distinct == 1 and present == len(codes) else None


def _identifies(counts: Array, codes: Array, heads: Array | None) -> str | None:
    """Return the reason to leave out a column whose values are near-unique or of one entity each, None if neither."""
    distinct, present = int((counts > 0).sum()), int(counts.sum())
    if reason := near_unique(distinct, present):
        return reason
    if heads is None or distinct <= max(FEW, 0.9 * len(heads)):
        return None
    if np.isin(np.flatnonzero(np.diff(codes)) + 1, heads).all():  # codes change only where another entity begins
        return f"it has one value per entity ({distinct:,} distinct values), like another key"
    return None


def _nested(counts: Array, codes: Array, heads: Array | None) -> str | None:
    """Return the reason to leave out categories that are of one entity each, as receipts are, None otherwise."""
    distinct = int((counts > 0).sum())
    if heads is None or len(heads) <= FEW or distinct <= max(FEW, 0.9 * len(heads)):
        return None
    entities = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(codes))))
    first, last = (np.full(len(counts) + 1, -1) for _ in range(2))
    first[codes[::-1]], last[codes] = entities[::-1], entities  # the last of several that are assigned remains
    if (first[:-1] != last[:-1]).any():
        return None
    return f"each of its {distinct:,} distinct values is of one entity only, like the number of a receipt"
