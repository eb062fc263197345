"""Sentences about times: how many events over how long, silences, intervals, bursts, and hours and weekdays.

Halves and thirds are those of the time from the first event to the last. Intervals are those between distinct times.
"""

from __future__ import annotations

import polars as pl

from eventvec.describing.histories import Histories
from eventvec.describing.wording import (
    PARTS,
    THIRDS,
    band,
    becomes,
    burst_size,
    each_said,
    in_third,
    mostly,
    nothing,
    said,
    share_word,
    windows,
)
from eventvec.tables.times import UNITS

DAY = 86_400_000_000
SPANS = {
    "1h": "an hour", "1d": "a day", "1w": "a week", "1mo": "a month", "3mo": "three months", "1y": "a year",
    "3y": "three years",
}  # fmt: skip
"""The lengths of time, as polars calls them, within which the events of a history may lie."""
COARSE = ("day", "week", "month", "quarter", "year")
"""The units of times that have no hour; the first one has weekdays."""
HOURS = ("at night", "in the morning", "in the afternoon", "in the evening")
"""The quarters of a day, from midnight."""
WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


def count(h: Histories) -> pl.DataFrame:
    """How many events there are."""
    several = pl.format("There are {} events.", band(pl.col("n")))
    return said(h.rows, pl.when(pl.col("n") == 1).then(pl.lit("There is one event.")).otherwise(several))


def span(h: Histories) -> pl.DataFrame:
    """Within which length of time all of at least two events lie, for calendar times.

    An hour, a day, a week, months and years after the first event are those of the calendar. An event of which only the
    day is known, or a longer unit, may be anywhere in it.
    """
    if not h.schema.clock:
        return nothing()
    first, last = (pl.from_epoch(time, "us") for time in (pl.col("time").first(), pl.col("time").last()))
    ends = h.events.group_by("row").agg(first=first, last=last, n=pl.len()).filter(pl.col("n") > 1)
    if h.schema.time_unit in COARSE:
        ends = ends.with_columns(pl.col("last").dt.offset_by(UNITS[h.schema.time_unit][0]))
    sentence = pl.lit("All events are spread over more than three years.")
    for length, words in reversed(SPANS.items()):
        within = pl.col("last") <= pl.col("first").dt.offset_by(length)
        sentence = pl.when(within).then(pl.lit(f"All events lie within {words}.")).otherwise(sentence)
    return said(ends, sentence)


def silence(h: Histories) -> pl.DataFrame:
    """Whether there is a long silence: of at least four intervals, one has a quarter of the time and three medians."""
    gaps = h.events.filter(pl.col("gap") > 0).with_columns(
        median=pl.col("gap").median().over("row"), longest=pl.col("gap").max().over("row"), k=pl.len().over("row")
    )
    long = gaps.join(h.rows, on="row").filter(
        (pl.col("k") >= 4) & (pl.col("gap") == pl.col("longest")) & (4 * pl.col("gap") >= pl.col("span"))
        & (pl.col("gap") >= 3 * pl.col("median"))
    )  # fmt: skip
    middle = 3 * (2 * pl.col("since") - pl.col("gap"))
    part = (middle >= 2 * pl.col("span")).cast(pl.Int8) + (middle >= 4 * pl.col("span")).cast(pl.Int8)
    return said(long, pl.format("There is a long silence {}.", in_third(part)))


def pace(h: Histories) -> pl.DataFrame:
    """Whether events come at steady intervals: none of at least five is twice as long as another one.

    Neither half of the time has twice as many events as the other, and there is no burst.
    """
    gaps = (
        h.events.filter(pl.col("gap") > 0)
        .group_by("row")
        .agg(k=pl.len(), shortest=pl.col("gap").min(), longest=pl.col("gap").max())
    )
    steady = gaps.filter((pl.col("k") >= 5) & (pl.col("longest") < 2 * pl.col("shortest")))
    return said(_even(h, steady), pl.lit("The events come at steady intervals."))


def intervals(h: Histories) -> pl.DataFrame:
    """Whether intervals vary widely, become longer or shorter, or are all short against the whole time.

    They vary widely if the longest of at least four is ten times the median. They become longer if the median of the
    later half of at least six is twice that of the earlier half, and the second half of the time has no more events
    than the first, and shorter the other way round; the middle one of an odd number is in neither half. There is no
    long silence if the longest is at most a tenth of the whole time.
    """
    gaps = h.events.filter(pl.col("gap") > 0).group_by("row", maintain_order=True).agg(
        k=pl.len(), median=pl.col("gap").median(), longest=pl.col("gap").max(),
        early=pl.col("gap").head(pl.len() // 2).median(), late=pl.col("gap").tail(pl.len() // 2).median(),
    ).join(h.rows, on="row").join(h.events.group_by("row").agg(events=pl.col("late").sum()), on="row")  # fmt: skip
    k, early, late, longest = (pl.col(name) for name in ("k", "early", "late", "longest"))
    busier, calmer = 2 * pl.col("events") > pl.col("n"), 2 * pl.col("events") < pl.col("n")
    facts = {
        "The intervals between events vary widely.": (k >= 4) & (longest >= 10 * pl.col("median")),
        "The intervals between events become longer.": (k >= 6) & (late >= 2 * early) & ~busier,
        "The intervals between events become shorter.": (k >= 6) & (early >= 2 * late) & ~calmer,
        "There is no long silence.": 10 * longest <= pl.col("span"),
    }
    return each_said(gaps, facts)


def burst(h: Histories) -> pl.DataFrame:
    """Whether a quarter of the events, and at least four, fall into a twentieth of the time, within one third of it."""
    dense = windows(h.events.join(h.rows, on="row", maintain_order="left"), burst_size(), 20)
    dense = dense.filter(pl.col("part") == pl.col("until"))
    return said(dense, pl.format("Many events come in a burst {}.", in_third(pl.col("part"))))


def parts(h: Histories) -> pl.DataFrame:
    """In which third the events are: more than half of at least four, or at most a tenth of at least ten.

    They are spread evenly over the whole time if each third has at least three tenths of at least six, neither half has
    twice as many as the other, no interval is a quarter of the time, and there is no burst.
    """
    counted = h.events.group_by("row").agg(*THIRDS, longest=pl.col("gap").max())
    counted = counted.join(h.rows.filter(pl.col("span") > 0), on="row")
    n, least = pl.col("n"), pl.min_horizontal("0", "1", "2")
    evenly = counted.filter((n >= 6) & (10 * least >= 3 * n) & (4 * pl.col("longest") < pl.col("span")))
    tables = [said(_even(h, evenly), pl.lit("The events are spread evenly over the whole time."))]
    for part, words in enumerate(PARTS):
        inside = pl.col(f"{part}")
        many, few = counted.filter((n >= 4) & (2 * inside > n)), counted.filter((n >= 10) & (10 * inside <= n))
        tables.append(said(many, pl.format(f"{{}} events are {words}.", share_word(inside, n))))
        tables.append(said(few, pl.lit(f"Few events are {words}.")))
    return pl.concat(tables)


def _even(h: Histories, some: pl.DataFrame) -> pl.DataFrame:
    """Return those of some histories that have no burst, and not twice as many events in a half of the time."""
    late, n = pl.col("late").sum().over("row").cast(pl.Int64), pl.col("n")
    events = h.events.join(h.rows.join(some, on="row", how="semi"), on="row", maintain_order="left")
    level = events.filter((3 * late < 2 * n) & (3 * late > n)).join(
        windows(events, burst_size(), 20), on="row", how="anti"
    )
    return level.select("row").unique()


def loose(h: Histories) -> pl.DataFrame:
    """Whether the events do not cluster: no tenth of the time has more than a fifth of at least ten events."""
    events = h.events.join(h.rows.filter(pl.col("n") >= 10), on="row", maintain_order="left")
    clustered = windows(events, pl.col("n") // 5 + 1, 10).select("row").unique()
    return said(
        h.rows.filter((pl.col("n") >= 10) & (pl.col("span") > 0)).join(clustered, on="row", how="anti"),
        pl.lit("The events do not cluster."),
    )


def frequency(h: Histories) -> pl.DataFrame:
    """Whether the second half of the time has at least twice as many events as the first, or half as many.

    Of the first and the last third, the one in the half with more events has more, and no fewer than the middle one.
    """
    halves = h.events.group_by("row").agg(*THIRDS, late=pl.col("late").sum()).join(h.rows, on="row")
    halves = halves.filter((pl.col("n") >= 4) & (pl.col("span") > 0))
    facts = becomes(pl.col("n"))
    return each_said(halves, {f"Events become {side} frequent over time.": fact for side, fact in facts.items()})


def hours(h: Histories) -> pl.DataFrame:
    """In which quarter of the day, in UTC, more than half of the events are; not for times that are whole days."""
    if h.schema.time_kind != "timestamp" or h.schema.time_unit in COARSE:
        return nothing()
    quarter = (pl.col("time") % DAY) // (DAY // 4)
    return mostly(h, quarter, HOURS)


def weekdays(h: Histories) -> pl.DataFrame:
    """On which day of the week, or on weekends, more than half of the events are; not for whole weeks or months."""
    if not h.schema.clock or h.schema.time_unit in COARSE[1:]:
        return nothing()
    day = (pl.col("time") // DAY + 3) % 7  # 1 January 1970 was a Thursday
    weekend = pl.when(day >= 5).then(0)
    return pl.concat([mostly(h, day, [f"on {name}" for name in WEEKDAYS]), mostly(h, weekend, ["on weekends"])])
