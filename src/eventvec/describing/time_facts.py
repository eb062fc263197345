"""Sentences about times: how many events over how long, silences, intervals, bursts, and hours and weekdays.

Halves and thirds are those of the time from the first event to the last. Intervals are those between distinct times.
"""

from __future__ import annotations

import polars as pl

from eventvec.describing.histories import Histories
from eventvec.describing.wording import PARTS, band, burst_size, mostly, nothing, said, share_word, windows, word_at

DAY = 86_400_000_000
SPANS = {
    3_600_000_000: "an hour", DAY: "a day", 7 * DAY: "a week", 31 * DAY: "a month", 92 * DAY: "three months",
    366 * DAY: "a year", 1_096 * DAY: "three years",
}  # fmt: skip
"""The lengths of time, in microseconds, within which the events of a history may lie."""
HOURS = ("at night", "in the morning", "in the afternoon", "in the evening")
"""The quarters of a day, from midnight."""
WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


def count(h: Histories) -> pl.DataFrame:
    """How many events there are."""
    several = pl.format("There are {} events.", band(pl.col("n")))
    return said(h.rows, pl.when(pl.col("n") == 1).then(pl.lit("There is one event.")).otherwise(several))


def span(h: Histories) -> pl.DataFrame:
    """Within which length of time all events lie, for calendar times."""
    if not h.schema.clock:
        return nothing()
    longer = pl.lit("All events are spread over more than three years.")
    sentence = longer
    for length, words in reversed(SPANS.items()):
        sentence = pl.when(pl.col("span") <= length).then(pl.lit(f"All events lie within {words}.")).otherwise(sentence)
    return said(h.rows.filter(pl.col("n") > 1), sentence)


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
    return said(long, pl.format("There is a long silence {}.", word_at(part, PARTS)))


def pace(h: Histories) -> pl.DataFrame:
    """Whether events come at steady intervals: none of at least five is longer than twice the median."""
    gaps = (
        h.events.filter(pl.col("gap") > 0)
        .group_by("row")
        .agg(k=pl.len(), median=pl.col("gap").median(), longest=pl.col("gap").max())
    )
    steady = gaps.filter((pl.col("k") >= 5) & (pl.col("longest") <= 2 * pl.col("median")))
    return said(steady, pl.lit("The events come at steady intervals."))


def intervals(h: Histories) -> pl.DataFrame:
    """Whether intervals vary widely, become longer or shorter, or are all short against the whole time.

    They vary widely if the longest of at least four is ten times the median. They become longer if the median of the
    later half of at least six is twice that of the earlier half, and shorter the other way round; the middle one of an
    odd number is in neither half. There is no long silence if the longest is at most a tenth of the whole time.
    """
    gaps = h.events.filter(pl.col("gap") > 0).group_by("row", maintain_order=True).agg(
        k=pl.len(), median=pl.col("gap").median(), longest=pl.col("gap").max(),
        early=pl.col("gap").head(pl.len() // 2).median(), late=pl.col("gap").tail(pl.len() // 2).median(),
    ).join(h.rows, on="row")  # fmt: skip
    k, early, late, longest = (pl.col(name) for name in ("k", "early", "late", "longest"))
    facts = {
        "The intervals between events vary widely.": (k >= 4) & (longest >= 10 * pl.col("median")),
        "The intervals between events become longer.": (k >= 6) & (late >= 2 * early),
        "The intervals between events become shorter.": (k >= 6) & (early >= 2 * late),
        "There is no long silence.": 10 * longest <= pl.col("span"),
    }
    return pl.concat(said(gaps.filter(fact), pl.lit(sentence)) for sentence, fact in facts.items())


def burst(h: Histories) -> pl.DataFrame:
    """Whether a quarter of the events, and at least four, fall into a twentieth of the time."""
    dense = windows(h.events.join(h.rows, on="row", maintain_order="left"), burst_size(), 20)
    return said(dense, pl.format("Many events come in a burst {}.", word_at(pl.col("part"), PARTS)))


def parts(h: Histories) -> pl.DataFrame:
    """In which third the events are: half of at least four or more, or at most a tenth of at least ten.

    They are spread evenly over the whole time if each third has at least three tenths of at least six.
    """
    numbers = [(pl.col("part") == part).sum().cast(pl.Int64).alias(f"{part}") for part in range(3)]
    counted = h.events.group_by("row").agg(numbers).join(h.rows.filter(pl.col("span") > 0), on="row")
    n, least = pl.col("n"), pl.min_horizontal("0", "1", "2")
    return pl.concat(
        [
            *(
                said(
                    counted.filter((n >= 4) & (2 * pl.col(f"{part}") >= n)),
                    pl.format(f"{{}} events are {words}.", share_word(pl.col(f"{part}") / n)),
                )
                for part, words in enumerate(PARTS)
            ),
            *(
                said(counted.filter((n >= 10) & (10 * pl.col(f"{part}") <= n)), pl.lit(f"Few events are {words}."))
                for part, words in enumerate(PARTS)
            ),
            said(
                counted.filter((n >= 6) & (10 * least >= 3 * n)),
                pl.lit("The events are spread evenly over the whole time."),
            ),
        ]
    )


def loose(h: Histories) -> pl.DataFrame:
    """Whether the events do not cluster: no tenth of the time has more than a fifth of at least ten events."""
    events = h.events.join(h.rows.filter(pl.col("n") >= 10), on="row", maintain_order="left")
    clustered = windows(events, pl.col("n") // 5 + 1, 10).select("row").unique()
    return said(
        h.rows.filter((pl.col("n") >= 10) & (pl.col("span") > 0)).join(clustered, on="row", how="anti"),
        pl.lit("The events do not cluster."),
    )


def frequency(h: Histories) -> pl.DataFrame:
    """Whether the second half of the time has at least twice as many events as the first, or half as many."""
    halves = h.events.group_by("row").agg(late=pl.col("late").sum(), n=pl.len()).join(h.rows, on="row")
    halves = halves.filter((pl.col("n") >= 4) & (pl.col("span") > 0))
    early = pl.col("n") - pl.col("late")
    more, less = pl.col("late") >= 2 * early, early >= 2 * pl.col("late")
    return pl.concat(
        [
            said(halves.filter(more), pl.lit("Events become more frequent over time.")),
            said(halves.filter(less), pl.lit("Events become less frequent over time.")),
        ]
    )


def hours(h: Histories) -> pl.DataFrame:
    """In which quarter of the day, in UTC, half of the events or more are; not for dates."""
    if h.schema.time_kind != "timestamp":
        return nothing()
    quarter = (pl.col("time") % DAY) // (DAY // 4)
    return mostly(h, quarter, HOURS)


def weekdays(h: Histories) -> pl.DataFrame:
    """On which day of the week, or on weekends, half of the events or more are."""
    if not h.schema.clock:
        return nothing()
    day = (pl.col("time") // DAY + 3) % 7  # 1 January 1970 was a Thursday
    weekend = pl.when(day >= 5).then(0)
    return pl.concat([mostly(h, day, [f"on {name}" for name in WEEKDAYS]), mostly(h, weekend, ["on weekends"])])
