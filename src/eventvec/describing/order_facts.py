"""Sentences about codes in time: what comes before or after what, when a code comes, and what changes.

Except for what changes, they are about the ten most frequent codes of a history with at least
three events each, so columns with thousands of codes take no longer. Thirds and halves are those of the time from
the first event of the history to the last.
"""

from __future__ import annotations

import polars as pl

from eventvec.describing.histories import FREQUENT, Histories
from eventvec.describing.wording import THIRDS, ahead, becomes, burst_size, each_said, in_third, of_codes, said, windows


@of_codes
def follows(h: Histories, name: str) -> pl.DataFrame:
    """Which code usually comes directly after another, at least twice as often as it does anywhere.

    After at least three of the times of the first one, and more than half of them but for the last time of the history,
    the next distinct time has an event with the second one. This share is at least twice that of all times with such an
    event.
    """
    new = (pl.col("row").diff() != 0) | (pl.col("time").diff() != 0)
    moments = h.events.select("row", "time", moment=new.fill_null(True).cum_sum().cast(pl.Int64)).unique(
        maintain_order=True
    )
    moments = moments.with_columns(last=pl.col("moment").max().over("row"), n=pl.len().over("row").cast(pl.Int64))
    known = h.frequent(name).select("row", "time", "value").unique().join(moments, on=["row", "time"])
    known = known.with_columns(k=pl.len().over("row", "value").cast(pl.Int64))
    before = known.filter(pl.col("moment") < pl.col("last")).select("row", pl.col("moment") + 1, before="value")
    before = before.with_columns(times=pl.len().over("row", "before").cast(pl.Int64))
    pairs = (
        before.join(known, on=["row", "moment"]).group_by("row", "before", "times", "value", "k", "n").len("pairs")
        .filter((pl.col("pairs") >= 3) & (2 * pl.col("pairs") > pl.col("times")))
        .filter(pl.col("pairs") * pl.col("n") >= 2 * pl.col("times") * pl.col("k"))
    )  # fmt: skip
    word = pl.lit(h.word(name))
    again = pl.format("The {} {} tends to come several times in a row.", word, "before")
    other = pl.format("After the {} {}, {} usually comes next.", word, "before", "value")
    return said(pairs, pl.when(pl.col("before") == pl.col("value")).then(again).otherwise(other))


@of_codes
def repeats(h: Histories, name: str) -> pl.DataFrame:
    """Whether codes mostly change or stay the same from one event to the next.

    They change if three quarters of at least four steps are from a code to another, and stay the same if three quarters
    are from a code to itself. A step from or to a missing code, or between events at one time with several codes, is
    neither.
    """
    steps = h.settled(name).select("row", "value", before=pl.col("value").shift(1).over("row")).group_by("row").agg(
        steps=pl.len().cast(pl.Int64) - 1,
        same=(pl.col("value") == pl.col("before")).sum(), new=(pl.col("value") != pl.col("before")).sum(),
    ).filter(pl.col("steps") >= 4)  # fmt: skip
    facts = {
        "The {} mostly changes from one event to the next.": 4 * pl.col("new") >= 3 * pl.col("steps"),
        "The {} mostly stays the same from one event to the next.": 4 * pl.col("same") >= 3 * pl.col("steps"),
    }
    return each_said(steps, facts, pl.lit(h.word(name)))


@of_codes
def before(h: Histories, name: str) -> pl.DataFrame:
    """Which code mostly comes before another: it is earlier in three quarters of the pairs of an event of each."""
    events = h.frequent(name)
    at, row, time = pl.int_range(pl.len()), pl.col("row").diff() != 0, pl.col("time").diff() != 0
    begins = {"of_row": row, "of_time": row | time}
    events = events.with_columns(
        pl.when(new.fill_null(True)).then(at).forward_fill().alias(of) for of, new in begins.items()
    )
    earlier = []
    for rank in range(FREQUENT):
        until = (pl.col("rank") == rank).cast(pl.Int64).cum_sum() - (pl.col("rank") == rank)
        earlier.append((until.gather("of_time") - until.gather("of_row")).alias(f"{rank}"))
    ranks = [f"{rank}" for rank in range(FREQUENT)]
    pairs = (
        events.select("row", "rank", "value", "k", *earlier)
        .group_by("row", "rank").agg(pl.col("value", "k").first(), pl.col(ranks).sum())
    )  # fmt: skip
    firsts = pairs.select("row", "rank", first="value", j="k")
    pairs = (
        pairs.unpivot(ranks, index=["row", "rank", "value", "k"], variable_name="other", value_name="pairs")
        .with_columns(pl.col("other").cast(pl.Int64)).filter(pl.col("other") != pl.col("rank"))
        .join(firsts, left_on=["row", "other"], right_on=["row", "rank"])
        .filter(4 * pl.col("pairs") >= 3 * pl.col("k") * pl.col("j"))
    )  # fmt: skip
    return said(pairs, pl.format("The {} {} mostly comes before {}.", pl.lit(h.word(name)), "first", "value"))


@of_codes
def placed(h: Histories, name: str) -> pl.DataFrame:
    """When a code comes: mainly in a third (two thirds of its events), or throughout (in each sixth of the time)."""
    events = h.frequent(name).filter(pl.col("span") > 0)
    parts = events.group_by("row", "value", "part", "k").len("inside").filter(3 * pl.col("inside") >= 2 * pl.col("k"))
    sixth = (6 * pl.col("since") // pl.col("span")).cast(pl.Int64).clip(upper_bound=5)
    sixths = events.group_by("row", "value").agg(sixths=sixth.n_unique()).filter(pl.col("sixths") == 6)
    word, part = pl.lit(h.word(name)), in_third(pl.col("part"))
    return pl.concat(
        [
            said(parts, pl.format("The {} {} comes mainly {}.", word, "value", part)),
            said(sixths, pl.format("The {} {} is present throughout the whole time.", word, "value")),
        ]
    )


@of_codes
def regular(h: Histories, name: str) -> pl.DataFrame:
    """Which code comes at regular intervals: at five distinct times, no interval twice as long as another one."""
    gaps = h.frequent(name).with_columns(gap=pl.col("since").diff().over("row", "rank")).filter(pl.col("gap") > 0)
    gaps = gaps.group_by("row", "value").agg(k=pl.len(), shortest=pl.col("gap").min(), longest=pl.col("gap").max())
    even = gaps.filter((pl.col("k") >= 4) & (pl.col("longest") < 2 * pl.col("shortest")))
    return said(even, pl.format("The {} {} comes at regular intervals.", pl.lit(h.word(name)), "value"))


@of_codes
def clusters(h: Histories, name: str) -> pl.DataFrame:
    """Which code comes in a tight cluster: two thirds of its events, and four, in a tenth of the time.

    The cluster lies in one third of the time.
    """
    events = h.frequent(name).sort("row", "rank", maintain_order=True)
    events = events.with_columns(place=pl.int_range(pl.len()).over("row", "rank"), n="k")
    dense = windows(events, pl.max_horizontal(pl.lit(4, pl.Int64), (2 * pl.col("k") + 2) // 3), 10)
    dense = dense.filter(pl.col("part") == pl.col("until"))
    part = in_third(pl.col("part"))
    return said(dense, pl.format("The {} {} comes in a tight cluster {}.", pl.lit(h.word(name)), "value", part))


@of_codes
def together(h: Histories, name: str) -> pl.DataFrame:
    """Which codes tend to come at the same time: at three times, and two thirds of all times with one of both."""
    times = h.frequent(name).select("row", "time", "rank", "value").unique()
    times = times.with_columns(times=pl.len().over("row", "rank").cast(pl.Int64))
    others = times.rename({"rank": "other_rank", "value": "other", "times": "other_times"})
    both, either = pl.len().cast(pl.Int64), (pl.col("times") + pl.col("other_times")).first() - pl.len().cast(pl.Int64)
    pairs = (
        times.join(others, on=["row", "time"]).filter(pl.col("rank") < pl.col("other_rank"))
        .group_by("row", "value", "other").agg(both=both, either=either)
        .filter((pl.col("both") >= 3) & (3 * pl.col("both") >= 2 * pl.col("either")))
    )  # fmt: skip
    return said(
        pairs, pl.format("The {} {} tends to come at the same time as {}.", pl.lit(h.word(name)), "value", "other")
    )


@of_codes
def changes(h: Histories, name: str) -> pl.DataFrame:
    """Which codes become more or less frequent, stop, or set in, from the first to the second half of the time.

    At least three events stop or set in. A code becomes more frequent if it has at least four events, some in the first
    half and twice as many in the second, and the last third has more than the first one and no fewer than the middle
    one. It becomes less frequent the other way round.
    """
    halves = h.values(name).group_by("row", "value").agg(*THIRDS, late=pl.col("late").sum(), k=pl.len())
    halves = halves.join(h.rows, on="row").filter(pl.col("span") > 0)
    k, late, frequency = pl.col("k"), pl.col("late"), becomes(pl.col("k"))
    facts = {
        "The {} {} does not appear in the second half.": (late == 0) & (k >= 3),
        "The {} {} appears only in the second half.": (late == k) & (k >= 3),
        "The {} {} becomes more frequent.": (k >= 4) & (late < k) & frequency["more"],
        "The {} {} becomes less frequent.": (k >= 4) & (late > 0) & frequency["less"],
    }
    return each_said(halves, facts, pl.lit(h.word(name)), pl.col("value"))


@of_codes
def gives_way(h: Histories, name: str) -> pl.DataFrame:
    """Which code gives way to another: in the first half it has twice as many events, in the second half the other.

    Each has at least three events in its own half, and fewer in the other.
    """
    halves = h.frequent(name).group_by("row", "value").agg(
        early=(~pl.col("late")).cast(pl.Int64).sum(), late=pl.col("late").cast(pl.Int64).sum()
    )  # fmt: skip
    early, late = pl.col("early"), pl.col("late")
    earlier, later = halves.filter((early >= 3) & (early > late)), halves.filter((late >= 3) & (late > early))
    pairs = earlier.join(later, on="row", suffix="_of_other").filter(
        (early >= 2 * pl.col("early_of_other")) & (pl.col("late_of_other") >= 2 * late)
    )
    return said(pairs, pl.format("The {} {} gives way to {}.", pl.lit(h.word(name)), "value", "value_of_other"))


@of_codes
def burst_of(h: Histories, name: str) -> pl.DataFrame:
    """Which code more than half of the events of a burst have, see `time_facts.burst`."""
    codes = h.frequent_codes(name).select("row", "value", "rank")
    ranks = [f"{rank}" for rank in range(FREQUENT)]
    events = h.events.select("row", "place", "since", "part", value=f"event: {name}")
    events = events.join(codes, on=["row", "value"], how="left", maintain_order="left")
    events = events.join(h.rows, on="row", maintain_order="left").with_columns(
        (pl.col("rank") == int(rank)).fill_null(False).cast(pl.Int64).cum_sum().alias(rank) for rank in ranks
    ).with_columns(size=burst_size())  # fmt: skip
    size = pl.col("size")
    inside = [(ahead(rank, size - 1) - pl.col(rank).shift(1, fill_value=0)).alias(f"in {rank}") for rank in ranks]
    dense = windows(events.with_columns(inside), size, 20)
    mostly = (
        dense.select("row", "size", *(pl.col(f"in {rank}").alias(rank) for rank in ranks))
        .unpivot(ranks, index=["row", "size"], variable_name="rank", value_name="inside")
        .filter(2 * pl.col("inside") > size).select("row", pl.col("rank").cast(pl.Int64)).unique()
        .join(codes, on=["row", "rank"])
    )  # fmt: skip
    return said(mostly, pl.format("In a burst, most events have the {} {}.", pl.lit(h.word(name)), "value"))
