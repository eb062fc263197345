"""The sentences that `describe` writes: one function for each kind of fact.

A template takes `Histories` and returns a table of `row` and `sentence`, a sentence for each history of which the fact
holds. A fact has one wording. Numbers stand in bands, so that histories share sentences. To add one of your own, give
`describe(templates=[*TEMPLATES, mine])`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import polars as pl

from eventvec.describing.histories import Histories

Template: TypeAlias = Callable[[Histories], pl.DataFrame]
COUNTS = (1, 2, 3, 6, 11, 21, 51, 101, 201, 501, 1_001)
"""The first number of each band of counts."""
DAY = 86_400_000_000
SPANS = {
    3_600_000_000: "an hour", DAY: "a day", 7 * DAY: "a week", 31 * DAY: "a month", 92 * DAY: "three months",
    366 * DAY: "a year", 1_096 * DAY: "three years",
}  # fmt: skip
"""The lengths of time, in microseconds, within which the events of a history may lie."""
SHARES = {0.9: "Almost all", 0.5: "Most", 0.25: "Many", 0.1: "Some"}
"""The least share of the events for which each word stands."""
PARTS = ("early on", "midway", "towards the end")
HOURS = ("at night", "in the morning", "in the afternoon", "in the evening")
"""The quarters of a day, from midnight."""
WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


def count(h: Histories) -> pl.DataFrame:
    """How many events there are."""
    several = pl.format("There are {} events.", _band(pl.col("n")))
    return _said(h.rows, pl.when(pl.col("n") == 1).then(pl.lit("There is one event.")).otherwise(several))


def span(h: Histories) -> pl.DataFrame:
    """Within which length of time all events lie, for calendar times."""
    if not h.schema.clock:
        return _nothing()
    longer = pl.lit("All events are spread over more than three years.")
    sentence = longer
    for length, words in reversed(SPANS.items()):
        sentence = pl.when(pl.col("span") <= length).then(pl.lit(f"All events lie within {words}.")).otherwise(sentence)
    return _said(h.rows.filter(pl.col("n") > 1), sentence)


def shares(h: Histories) -> pl.DataFrame:
    """What share of the events has each of the three most frequent codes."""
    return _each(h.codes, lambda name: _shares_of(h, name))


def _shares_of(h: Histories, name: str) -> pl.DataFrame:
    frequent = (
        h.values(name).group_by("row", "value").len("k").join(h.rows, on="row").filter(pl.col("n") > 1)
        .sort("row", "k", "value", descending=[False, True, False]).group_by("row", maintain_order=True).head(3)
    )  # fmt: skip
    share = _share(pl.col("k") / pl.col("n"))
    return _said(frequent, pl.format("{} events have the {} {}.", share, pl.lit(h.word(name)), pl.col("value")))


def variety(h: Histories) -> pl.DataFrame:
    """How many different codes there are."""
    return _each(h.codes, lambda name: _variety_of(h, name))


def _variety_of(h: Histories, name: str) -> pl.DataFrame:
    counted = h.values(name).group_by("row").agg(n=pl.len(), k=pl.col("value").n_unique()).filter(pl.col("n") > 1)
    same = pl.lit(f"The {h.word(name)} is always the same.")
    several = pl.format("The {} has {} different values.", pl.lit(h.word(name)), _band(pl.col("k")))
    return _said(counted, pl.when(pl.col("k") == 1).then(same).otherwise(several))


def ends(h: Histories) -> pl.DataFrame:
    """Which codes the first and the last event have."""
    return _each(h.codes, lambda name: pl.concat([_end_of(h, name, "first"), _end_of(h, name, "last")]))


def _end_of(h: Histories, name: str, side: str) -> pl.DataFrame:
    at_end = (
        h.values(name).join(h.rows, on="row").filter(pl.col("place") == (0 if side == "first" else pl.col("n") - 1))
    )
    return _said(at_end, pl.format(f"The {side} event has the {{}} {{}}.", pl.lit(h.word(name)), pl.col("value")))


def follows(h: Histories) -> pl.DataFrame:
    """Which code usually comes directly after another, at least twice as often as it does anywhere."""
    return _each(h.codes, lambda name: _follows_of(h, name))


def _follows_of(h: Histories, name: str) -> pl.DataFrame:
    known = h.values(name)
    anywhere = known.group_by("row", after="value").len("k").join(h.rows, on="row")
    next_one = known.select("row", pl.col("place") - 1, after="value")
    pairs = (
        known.join(h.rows, on="row").filter(pl.col("place") < pl.col("n") - 1).select("row", "place", before="value")
        .with_columns(times=pl.len().over("row", "before").cast(pl.Int64))
        .join(next_one, on=["row", "place"]).group_by("row", "before", "after", "times").len("pairs")
        .filter((pl.col("pairs") >= 3) & (2 * pl.col("pairs") >= pl.col("times")))
        .join(anywhere, on=["row", "after"])
        .filter(pl.col("pairs") * pl.col("n") >= 2 * pl.col("times") * pl.col("k"))
    )  # fmt: skip
    word = pl.lit(h.word(name))
    again = pl.format("The {} {} tends to come several times in a row.", word, pl.col("before"))
    other = pl.format("After the {} {}, {} usually comes next.", word, pl.col("before"), pl.col("after"))
    return _said(pairs, pl.when(pl.col("before") == pl.col("after")).then(again).otherwise(other))


def silence(h: Histories) -> pl.DataFrame:
    """Whether there is a long silence: a gap of a quarter of the time, and five times the median gap."""
    gaps = h.events.filter(pl.col("gap").is_not_null()).with_columns(
        median=pl.col("gap").median().over("row"), longest=pl.col("gap").max().over("row"), k=pl.len().over("row")
    )
    long = gaps.join(h.rows, on="row").filter(
        (pl.col("k") >= 4) & (pl.col("gap") == pl.col("longest")) & (4 * pl.col("gap") >= pl.col("span"))
        & (pl.col("gap") >= 5 * pl.col("median")) & (pl.col("gap") > 0)
    )  # fmt: skip
    middle = 3 * (2 * pl.col("since") - pl.col("gap"))
    part = (middle >= 2 * pl.col("span")).cast(pl.Int8) + (middle >= 4 * pl.col("span")).cast(pl.Int8)
    return _said(long, pl.format("There is a long silence {}.", _choice(part, PARTS)))


def pace(h: Histories) -> pl.DataFrame:
    """Whether events come at steady intervals: no gap is longer than twice the median."""
    gaps = (
        h.events.filter(pl.col("gap").is_not_null())
        .group_by("row")
        .agg(k=pl.len(), median=pl.col("gap").median(), longest=pl.col("gap").max())
    )
    steady = gaps.filter((pl.col("k") >= 5) & (pl.col("median") > 0) & (pl.col("longest") <= 2 * pl.col("median")))
    return _said(steady, pl.lit("The events come at steady intervals."))


def burst(h: Histories) -> pl.DataFrame:
    """Whether a quarter of the events, and at least four, fall into a twentieth of the time."""
    enough = pl.max_horizontal(pl.lit(4, pl.Int64), (pl.col("n") + 3) // 4)
    events = h.events.join(h.rows, on="row", maintain_order="left").with_columns(other=pl.col("place") + enough - 1)
    later = h.events.select("row", pl.col("place").alias("other"), until="since")
    dense = events.join(later, on=["row", "other"]).filter(
        (pl.col("span") > 0) & (20 * (pl.col("until") - pl.col("since")) <= pl.col("span"))
    )
    return _said(dense, pl.format("Many events come in a burst {}.", _choice(pl.col("part"), PARTS)))


def frequency(h: Histories) -> pl.DataFrame:
    """Whether the second half of the time has at least twice as many events as the first, or half as many."""
    halves = h.events.group_by("row").agg(late=pl.col("late").sum(), n=pl.len()).join(h.rows, on="row")
    halves = halves.filter((pl.col("n") >= 4) & (pl.col("span") > 0))
    early = pl.col("n") - pl.col("late")
    more, less = pl.col("late") >= 2 * early, early >= 2 * pl.col("late")
    return pl.concat(
        [
            _said(halves.filter(more), pl.lit("Events become more frequent over time.")),
            _said(halves.filter(less), pl.lit("Events become less frequent over time.")),
        ]
    )


def changes(h: Histories) -> pl.DataFrame:
    """Which codes become more or less frequent from the first to the second half of the time, stop, or set in."""
    return _each(h.codes, lambda name: _changes_of(h, name))


def _changes_of(h: Histories, name: str) -> pl.DataFrame:
    halves = h.values(name).group_by("row", "value").agg(late=pl.col("late").sum(), k=pl.len()).join(h.rows, on="row")
    early, late, often = pl.col("k") - pl.col("late"), pl.col("late"), pl.col("k") >= 4
    facts = {
        "stops": (late == 0) & (pl.col("k") >= 3), "sets in late": (early == 0) & (pl.col("k") >= 3),
        "becomes more frequent": often & (early > 0) & (late >= 2 * early),
        "becomes less frequent": often & (late > 0) & (early >= 2 * late),
    }  # fmt: skip
    halves = halves.filter(pl.col("span") > 0)
    return pl.concat(
        _said(halves.filter(fact), pl.format(f"The {{}} {{}} {words}.", pl.lit(h.word(name)), pl.col("value")))
        for words, fact in facts.items()
    )


def levels(h: Histories) -> pl.DataFrame:
    """Whether most events have a number above three quarters of all numbers, or below three quarters of them."""
    return _each(h.numbers, lambda name: _levels_of(h, name))


def _levels_of(h: Histories, name: str) -> pl.DataFrame:
    if name not in h.limits:
        return _nothing()
    low, high, *_ = h.limits[name]
    counted = h.values(name).group_by("row").agg(
        n=pl.len(), low=(pl.col("value") < low).sum(), high=(pl.col("value") > high).sum()
    ).filter(pl.col("n") >= 2)  # fmt: skip
    return pl.concat(
        _said(
            counted.filter(2 * pl.col(level) >= pl.col("n")),
            pl.format(f"{{}} events have a {level} {{}}.", _share(pl.col(level) / pl.col("n")), pl.lit(h.word(name))),
        )
        for level in ("low", "high")
    )


def averages(h: Histories) -> pl.DataFrame:
    """Whether the mean of a number is above, or below, that of nine of ten histories."""
    return _each(h.numbers, lambda name: _averages_of(h, name))


def _averages_of(h: Histories, name: str) -> pl.DataFrame:
    if name not in h.limits:
        return _nothing()
    means = h.values(name).group_by("row").agg(mean=pl.col("value").mean())
    *_, low, high = h.limits[name]
    beyond = {"higher": pl.col("mean") > high, "lower": pl.col("mean") < low}
    return pl.concat(
        _said(means.filter(fact), pl.lit(f"On average, the {h.word(name)} is {side} than in nine of ten histories."))
        for side, fact in beyond.items()
    )


def trends(h: Histories) -> pl.DataFrame:
    """Whether a number's mean over the later half of its events is higher or lower by .8 of its standard deviation."""
    return _each(h.numbers, lambda name: _trends_of(h, name))


def _trends_of(h: Histories, name: str) -> pl.DataFrame:
    present = h.values(name).with_columns(
        half=2 * pl.int_range(pl.len()).over("row") >= pl.len().over("row"), k=pl.len().over("row")
    ).filter(pl.col("k") >= 6)  # fmt: skip
    halves = present.group_by("row").agg(
        step=pl.col("value").filter("half").mean() - pl.col("value").filter(~pl.col("half")).mean(),
        spread=pl.col("value").std(ddof=0),
    ).filter(pl.col("spread") > 0)  # fmt: skip
    rises, falls = pl.col("step") >= 0.8 * pl.col("spread"), pl.col("step") <= -0.8 * pl.col("spread")
    return pl.concat(
        [
            _said(halves.filter(rises), pl.lit(f"The {h.word(name)} rises over time.")),
            _said(halves.filter(falls), pl.lit(f"The {h.word(name)} falls over time.")),
        ]
    )


def hours(h: Histories) -> pl.DataFrame:
    """In which quarter of the day, in UTC, half of the events or more are; not for dates."""
    if h.schema.time_kind != "timestamp":
        return _nothing()
    quarter = (pl.col("time") % DAY) // (DAY // 4)
    return _mostly(h, quarter, HOURS)


def weekdays(h: Histories) -> pl.DataFrame:
    """On which day of the week, or on weekends, half of the events or more are."""
    if not h.schema.clock:
        return _nothing()
    day = (pl.col("time") // DAY + 3) % 7  # 1 January 1970 was a Thursday
    weekend = pl.when(day >= 5).then(0)
    return pl.concat([_mostly(h, day, [f"on {name}" for name in WEEKDAYS]), _mostly(h, weekend, ["on weekends"])])


TEMPLATES: tuple[Template, ...] = (
    count, span, shares, variety, ends, follows, silence, pace, burst, frequency, changes, levels, averages, trends,
    hours, weekdays,
)  # fmt: skip
"""All templates, in the order in which equally telling sentences stand."""


def _mostly(h: Histories, place: pl.Expr, words: Sequence[str]) -> pl.DataFrame:
    """Return a sentence where half of at least four events or more are at one of some places."""
    placed = h.events.select("row", place=place).drop_nulls().group_by("row", "place").len("k").join(h.rows, on="row")
    placed = placed.filter((pl.col("n") >= 4) & (2 * pl.col("k") >= pl.col("n")))
    share = _share(pl.col("k") / pl.col("n"))
    return _said(placed, pl.format("{} events are {}.", share, _choice(pl.col("place"), words)))


def _each(names: Sequence[str], template: Callable[[str], pl.DataFrame]) -> pl.DataFrame:
    """Return the sentences about several columns."""
    return pl.concat([_nothing(), *map(template, names)])


def _said(rows: pl.DataFrame, sentence: pl.Expr) -> pl.DataFrame:
    """Return the rows that have a sentence, once each."""
    return rows.select(pl.col("row").cast(pl.Int64), sentence.cast(pl.String).alias("sentence")).drop_nulls().unique()


def _nothing() -> pl.DataFrame:
    return pl.DataFrame(schema={"row": pl.Int64, "sentence": pl.String})


def _share(share: pl.Expr) -> pl.Expr:
    """Return the word for a share, null below the least."""
    word: pl.Expr = pl.lit(None, pl.String)
    for least, text in reversed(SHARES.items()):
        word = pl.when(share >= least).then(pl.lit(text)).otherwise(word)
    return word


def _band(number: pl.Expr) -> pl.Expr:
    """Return the band of a count in words, such as `3 to 5`."""
    text: pl.Expr = pl.lit(None, pl.String)
    for first, beyond in zip(COUNTS, (*COUNTS[1:], None), strict=True):
        words = f"more than {first - 1:,}" if beyond is None else f"{first:,} to {beyond - 1:,}"
        text = pl.when(number >= first).then(pl.lit(f"{first}" if beyond == first + 1 else words)).otherwise(text)
    return text


def _choice(place: pl.Expr, words: Sequence[str]) -> pl.Expr:
    """Return the word at a place."""
    return place.cast(pl.Int64).replace_strict(dict(enumerate(words)), return_dtype=pl.String)
