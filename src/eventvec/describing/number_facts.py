"""Sentences about numbers: high, low, beyond other histories, rising or falling.

In a table of (parameter, value), they are about the numbers with each code of which the history has at least three, see
`Histories.measured`. Histories are compared by `Histories.limits`; without limits of a number, nothing is compared.
"""

from __future__ import annotations

import polars as pl

from eventvec.describing.histories import Histories
from eventvec.describing.wording import each_said, of_numbers, said, share_word


@of_numbers
def levels(h: Histories, name: str) -> pl.DataFrame:
    """Whether most events have a number that is above three quarters of all numbers, or below three quarters.

    There are at least two numbers. An event without the number is neither.
    """
    numbers, events = h.compared(name), h.rows.select("row", "n", code=pl.lit("", pl.Enum([""])))
    if (codes := h.parameters) is not None:
        events = h.counts(codes).select("row", n="k", code="value")
    counted = numbers.group_by("row", "code").agg(
        k=pl.len(), low=(pl.col("value") < pl.col("low")).sum(), high=(pl.col("value") > pl.col("high")).sum()
    ).filter(pl.col("k") >= 2).join(events, on=["row", "code"])  # fmt: skip
    return pl.concat(
        said(
            counted.filter(2 * pl.col(level) > pl.col("n")),
            pl.format(
                f"{{}} events{{}} have a {level} {{}}.",
                share_word(pl.col(level), pl.col("n")), _with_code(h), pl.lit(h.word(name)),
            ),
        )
        for level in ("low", "high")
    )  # fmt: skip


@of_numbers
def averages(h: Histories, name: str) -> pl.DataFrame:
    """Whether the mean of a number is above, or below, that of nine of ten histories."""
    means = h.compared(name).group_by("row", "code").agg(pl.col("value").mean(), pl.col("lowest", "highest").first())
    facts = {
        "On average, the {}{} is higher than in nine of ten histories.": pl.col("value") > pl.col("highest"),
        "On average, the {}{} is lower than in nine of ten histories.": pl.col("value") < pl.col("lowest"),
    }
    return each_said(means, facts, pl.lit(h.word(name)), _with_code(h))


@of_numbers
def trends(h: Histories, name: str) -> pl.DataFrame:
    """Whether a number's mean over the later half of its events is higher or lower by .8 of its standard deviation.

    An event is in the later half if more events with the number are before its time than after it, and in the earlier
    half the other way round. Each half has at least three.
    """
    of, value = ["row", "code"], pl.col("value")
    middle = 2 * pl.col("time").rank("average").over(of) - (pl.len().over(of) + 1)
    halves = h.measured(name).with_columns(later=middle > 0, earlier=middle < 0).group_by(of).agg(
        pl.col("later", "earlier").sum(),
        step=value.filter("later").mean() - value.filter("earlier").mean(),
        spread=value.std(ddof=0),
    ).filter((pl.col("later") >= 3) & (pl.col("earlier") >= 3) & (pl.col("spread") > 0))  # fmt: skip
    facts = {
        "The {}{} rises over time.": pl.col("step") >= 0.8 * pl.col("spread"),
        "The {}{} falls over time.": pl.col("step") <= -0.8 * pl.col("spread"),
    }
    return each_said(halves, facts, pl.lit(h.word(name)), _with_code(h))


def _with_code(h: Histories) -> pl.Expr:
    """Return the words that say which code numbers are with, empty if they are those of all events."""
    if h.parameters is None:
        return pl.lit("")
    return pl.format(" with the {} {}", pl.lit(h.word(h.parameters)), pl.col("code"))
