"""How sentences are put together: bands of numbers, words for shares, and templates that go over columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from eventvec.describing.histories import Histories

COUNTS = (1, 2, 3, 6, 11, 21, 51, 101, 201, 501, 1_001)
"""The first number of each band of counts."""
PARTS = ("early on", "midway", "towards the end")
"""The thirds of a history's time."""
THIRDS = [(pl.col("part") == part).sum().cast(pl.Int64).alias(f"{part}") for part in range(3)]
"""The number of events in each third, as `0`, `1` and `2`."""


def of_codes(template: Callable[[Histories, str], pl.DataFrame]) -> Callable[[Histories], pl.DataFrame]:
    """Return a template that has the sentences about each column of codes whose values are known."""

    @functools.wraps(template)
    def of_each(h: Histories) -> pl.DataFrame:
        return pl.concat([nothing(), *(template(h, name) for name in h.codes)])

    return of_each


def of_numbers(template: Callable[[Histories, str], pl.DataFrame]) -> Callable[[Histories], pl.DataFrame]:
    """Return a template that has the sentences about each column of numbers."""

    @functools.wraps(template)
    def of_each(h: Histories) -> pl.DataFrame:
        return pl.concat([nothing(), *(template(h, name) for name in h.numbers)])

    return of_each


def mostly(h: Histories, place: pl.Expr, words: Sequence[str]) -> pl.DataFrame:
    """Return a sentence where more than half of at least four events are at one of some places."""
    placed = h.events.select("row", place=place).drop_nulls().group_by("row", "place").len("k").join(h.rows, on="row")
    placed = placed.filter((pl.col("n") >= 4) & (2 * pl.col("k") > pl.col("n")))
    share = share_word(pl.col("k"), pl.col("n"))
    return said(placed, pl.format("{} events are {}.", share, word_at(pl.col("place"), words)))


def said(rows: pl.DataFrame, sentence: pl.Expr) -> pl.DataFrame:
    """Return the rows that have a sentence, once each."""
    return rows.select(pl.col("row").cast(pl.Int64), sentence.cast(pl.String).alias("sentence")).drop_nulls().unique()


def each_said(rows: pl.DataFrame, facts: Mapping[str, pl.Expr], *words: pl.Expr) -> pl.DataFrame:
    """Return each sentence for the rows of which its fact holds; `words` take the places `{}` in all sentences."""
    return pl.concat(said(rows.filter(fact), pl.format(sentence, *words)) for sentence, fact in facts.items())


def becomes(n: pl.Expr) -> dict[str, pl.Expr]:
    """Return when `n` events, `late` of them in the second half and some in each of `THIRDS`, become more or fewer."""
    late, most = pl.col("late"), pl.max_horizontal(*"012")
    early = n - late
    return {
        "more": (late >= 2 * early) & (pl.col("2") == most) & (pl.col("0") < most),
        "less": (early >= 2 * late) & (pl.col("0") == most) & (pl.col("2") < most),
    }


def nothing() -> pl.DataFrame:
    """Return a table without sentences."""
    return pl.DataFrame(schema={"row": pl.Int64, "sentence": pl.String})


def share_word(k: pl.Expr, n: pl.Expr) -> pl.Expr:
    """Return the word for `k` of `n` events, null where there is none.

    Almost all are nine tenths, most are more than half, many are a quarter and at least three, and some are a tenth and
    at least two.
    """
    k, n = k.cast(pl.Int64), n.cast(pl.Int64)
    words = {
        "All": k == n, "Almost all": 10 * k >= 9 * n, "Most": 2 * k > n,
        "Many": (4 * k >= n) & (k >= 3), "Some": (10 * k >= n) & (k >= 2),
    }  # fmt: skip
    return pl.coalesce(pl.when(holds).then(pl.lit(word)) for word, holds in words.items())


def band(number: pl.Expr) -> pl.Expr:
    """Return the band of a count in words, such as `3 to 5`."""
    text: pl.Expr = pl.lit(None, pl.String)
    for first, beyond in zip(COUNTS, (*COUNTS[1:], None), strict=True):
        words = f"more than {first - 1:,}" if beyond is None else f"{first:,} to {beyond - 1:,}"
        text = pl.when(number >= first).then(pl.lit(f"{first}" if beyond == first + 1 else words)).otherwise(text)
    return text


def word_at(place: pl.Expr, words: Sequence[str]) -> pl.Expr:
    """Return the word at a place."""
    return place.cast(pl.Int64).replace_strict(dict(enumerate(words)), return_dtype=pl.String)


def in_third(part: pl.Expr) -> pl.Expr:
    """Return the words for a third of a history's time."""
    return word_at(part, PARTS)


def ahead(column: str, steps: pl.Expr) -> pl.Expr:
    """Return a column's value some rows further down; that of the last row where there are not so many."""
    return pl.col(column).gather((pl.int_range(pl.len()) + steps).clip(upper_bound=pl.len().cast(pl.Int64) - 1))


def windows(events: pl.DataFrame, size: pl.Expr, parts: int) -> pl.DataFrame:
    """Return the events, in order, that begin a window of so many within a part of the history's time.

    What they have as `until` is the third of the window's last event.

    Args:
        events: What is ordered by `place` from 0 to `n` in each group of consecutive rows, with `since`, `part` and
            `span`.
        size: The number of events of a window.
        parts: The largest length of a window is the span divided by this.
    """
    short = parts * (ahead("since", size - 1) - pl.col("since")) <= pl.col("span")
    events = events.with_columns(until=ahead("part", size - 1))
    return events.filter((pl.col("place") + size <= pl.col("n")) & short & (pl.col("span") > 0))


def burst_size() -> pl.Expr:
    """Return the number of events of a burst: a quarter of the `n` of the history, and at least four."""
    return pl.max_horizontal(pl.lit(4, pl.Int64), (pl.col("n") + 3) // 4)
