"""Numbers in text with a decimal comma, or with separators between groups of three digits."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from eventvec.tables.coding import holds_text

SEPARATORS = {",": ". '\u00a0\u202f", ".": ", '\u00a0\u202f"}
"""What may separate groups of three digits, by the decimal mark."""
PATTERNS = {
    mark: rf"^\s*[+-]?(\d+|\d{{1,3}}([{groups}]\d{{3}})+)(\{mark}\d+)?\s*$" for mark, groups in SEPARATORS.items()
}
PLAIN = r"^\s*[+-]?\d*\.?\d*\s*$"
FIRST = 100
"""The number of texts that are looked at before the others."""


def decimal_marks(texts: pa.Array) -> list[str]:
    """Return the decimal marks by which all texts are numbers, if some of them are not plain numbers.

    Example:
        >>> decimal_marks(pa.array(["12,50", "1.200,00"])), decimal_marks(pa.array(["1,200", "3"]))
        ([','], [',', '.'])
        >>> decimal_marks(pa.array(["12.5", "3"])), decimal_marks(pa.array(["00501", "a"]))
        ([], [])
    """
    every = pl.Series(texts.cast(pa.large_string()), dtype=pl.String)
    for part in (every.head(FIRST), every):
        marks = [mark for mark, pattern in PATTERNS.items() if len(part) and part.str.contains(pattern).all()]
        if not marks:
            return []
    return marks if not every.str.contains(PLAIN).all() else []


def with_points(column: pa.ChunkedArray, mark: str | None) -> pa.ChunkedArray:
    """Return a column whose texts that are numbers with a decimal mark are plain ones, and whose other texts stay.

    Args:
        column: A column, which is returned as it is if it holds no text.
        mark: The decimal mark; None to return the column as it is.

    Example:
        >>> with_points(pa.chunked_array([["12,50", "1.200", None, "none"]]), ",").to_pylist()
        ['12.50', '1200', None, 'none']
    """
    if mark is None or not holds_text(column.type):
        return column
    text = pl.Series("text", column.cast(pa.large_string()), dtype=pl.String)
    plain = text.str.replace_all(f"[{SEPARATORS[mark]}]", "").str.replace(mark, ".", literal=True)
    return pa.chunked_array([plain.zip_with(text.str.contains(PATTERNS[mark]).fill_null(False), text).to_arrow()])
