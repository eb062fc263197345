"""Terms by name and in words: a code, a pair of codes, a code with a range of a number, an element of lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eventvec.quantities import plain_number, times_text
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical


@dataclass(frozen=True)
class Term:
    """One thing that a row may have several times.

    Args:
        column: The column of codes or lists that it is of.
        code: What its code stands for, of a pair that of the first event.
        following: Of a pair, what the code of the second event stands for.
        number: The column of the number that the events have with the code, if it is of one.
        low: The least such number, or minus infinity.
        high: The number below which they are, or infinity.
    """

    column: str
    code: str
    following: str | None = None
    number: str | None = None
    low: float = -math.inf
    high: float = math.inf

    @property
    def name(self) -> str:
        """The name, such as `shop: tea then oil`.

        Example:
            >>> Term("shop", "tea").name, Term("shop", "tea", number="paid", low=3.1, high=4.7).name
            ('shop: tea', 'shop: tea with paid 3.1 to below 4.7')
        """
        following = "" if self.following is None else f" then {self.following}"
        return f"{self.column}: {self.code}{following}{self._with_number}"

    def words(self, count: float) -> str:
        """Return how often a row has the term.

        Example:
            >>> Term("shop", "tea").words(3), Term("shop", "tea", "oil").words(1)
            ('shop tea 3 times', 'shop oil right after tea, once')
        """
        if self.following is not None:
            return f"{self.column} {self.following} right after {self.code}, {times_text(count)}"
        comma = "," if self.number is not None else ""
        return f"{self.column} {self.code}{self._with_number}{comma} {times_text(count)}"

    @property
    def _with_number(self) -> str:
        if self.number is None:
            return ""
        low, high = plain_number(self.low), plain_number(self.high)
        if self.low == -math.inf:
            return f" with {self.number} below {high}" if self.high < math.inf else f" with {self.number}"
        return (
            f" with {self.number} from {low}" if self.high == math.inf else f" with {self.number} {low} to below {high}"
        )


def bounds(edges: Sequence[float], place: int) -> tuple[float, float]:
    """Return the least number of a bin, and that below which all its numbers are.

    Args:
        edges: The numbers between consecutive bins, ascending.
        place: The place of the bin, from 0.
    """
    return edges[place - 1] if place else -math.inf, edges[place] if place < len(edges) else math.inf


def code_text(column: Categorical, code: int, codes: int) -> str:
    """Return what a code stands for.

    Args:
        column: Its column.
        code: The code, below `codes`.
        codes: The number of codes that form terms; values beyond them are unknown, and buckets are folded into these.

    Example:
        >>> [code_text(Categorical("shop", ("tea", "oil")), code, 4) for code in range(4)]
        ['(missing)', '(unknown)', 'tea', 'oil']
    """
    if code == MISSING:
        return "(missing)"
    if code == UNKNOWN:
        return "(unknown)" if column.buckets or codes >= column.size else "(unknown or rare)"
    place = code - FIRST
    if not column.buckets:
        return column.values[place]
    folded = range(place, column.buckets, codes - FIRST)
    if len(folded) == 1:
        return f"bucket {place}"
    more = f" and {len(folded) - 2:,} more" if len(folded) > 2 else ""
    return f"buckets {place}, {folded[1]}{more}"
