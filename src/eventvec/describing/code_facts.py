"""Sentences about codes: which are frequent, how many different ones there are, and which are first and last.

Frequencies are shares of all events of a history. Of equally frequent codes, the first one in the schema counts as the
more frequent. Halves and thirds are those of the time from the first event to the last.
"""

from __future__ import annotations

import polars as pl

from eventvec.describing.histories import UNKNOWN, Histories
from eventvec.describing.wording import band, each_said, of_codes, said, share_word


@of_codes
def shares(h: Histories, name: str) -> pl.DataFrame:
    """What share of the events has each of the three most frequent codes."""
    frequent = h.counts(name).filter((pl.col("n") > 1) & (pl.col("rank") < 3))
    share = share_word(pl.col("k"), pl.col("n"))
    return said(frequent, pl.format("{} events have the {} {}.", share, pl.lit(h.word(name)), pl.col("value")))


@of_codes
def leaders(h: Histories, name: str) -> pl.DataFrame:
    """Whether two codes make up nearly everything, one leads without a majority, or none dominates.

    Two codes make up nearly everything if each has a fifth of at least four events and both together nine tenths. One
    leads without a majority if it has at least three events, fewer than half, and 1.5 times as many as each other. None
    dominates if the most frequent one has at most an eighth of the events that have one. Codes that the schema does not
    have count as one here.
    """
    counts = h.counts(name)
    second = counts.filter(pl.col("rank") == 1).select("row", other="value", j="k")
    top = counts.filter(pl.col("rank") == 0).join(second, on="row", how="left").with_columns(pl.col("j").fill_null(0))
    k, j, n, unknown, word = pl.col("k"), pl.col("j"), pl.col("n"), pl.col("unknown"), pl.lit(h.word(name))
    share = share_word(k + j, n)
    two = (n >= 4) & (5 * j >= n) & (10 * (k + j) >= 9 * n)
    leads = (k >= 3) & (2 * k < n) & (2 * k >= 3 * pl.max_horizontal(j, unknown))
    none_dominates = 8 * pl.max_horizontal(k, unknown) <= pl.col("known") + unknown
    return pl.concat(
        [
            said(top.filter(two), pl.format("{} events have the {} {} or {}.", share, word, "value", "other")),
            said(top.filter(leads), pl.format("The {} {} is the most frequent, without a majority.", word, "value")),
            said(top.filter(none_dominates), pl.lit(f"No {h.word(name)} dominates.")),
        ]
    )


@of_codes
def variety(h: Histories, name: str) -> pl.DataFrame:
    """How many different codes there are, and whether these are many or few for the number of events.

    The code is always the same if all of at least two events have it. The codes vary a lot if there are at least four
    and a third as many as events, and none has more than half of the events. They are few if there are two to five, and
    at most a tenth as many as events that have one. How many there are, and that they are few, is said of histories
    without codes that the schema does not have.
    """
    counted = h.counts(name).filter(pl.col("n") > 1).group_by("row").agg(
        pl.col("n", "known", "unknown").first(), most=pl.col("k").max(), k=pl.len()
    )  # fmt: skip
    n, k, all_known, word = pl.col("n"), pl.col("k"), pl.col("unknown") == 0, pl.lit(h.word(name))
    facts = {
        "The {} is always the same.": pl.col("most") == n,
        "The {} varies a lot.": (k >= 4) & (3 * k >= n) & (2 * pl.col("most") <= n),
        "The {} has few different values.": all_known & k.is_between(2, 5) & (10 * k <= pl.col("known")),
    }
    several = said(counted.filter(all_known & (k >= 2)), pl.format("The {} has {} different values.", word, band(k)))
    return pl.concat([each_said(counted, facts, word), several])


@of_codes
def newcomers(h: Histories, name: str) -> pl.DataFrame:
    """Whether more or fewer different codes come in the second half, and when codes come for the first time.

    More come if there are at least three in the second half, and 1.5 times as many as in the first, which has one at
    least, and fewer the other way round. New codes still appear towards the end if a quarter of the codes, and at least
    two, have no event before the last third. All appear early on if there are at least three, each with an event in the
    first third. Nothing is said of histories with codes that the schema does not have.
    """
    codes = h.values(name).group_by("row", "value").agg(
        early=(~pl.col("late")).any(), late=pl.col("late").any(), part=pl.col("part").min()
    )  # fmt: skip
    counted = codes.group_by("row").agg(
        k=pl.len(), early=pl.col("early").cast(pl.Int64).sum(), late=pl.col("late").cast(pl.Int64).sum(),
        new=(pl.col("part") == 2).sum(), part=pl.col("part").max(),
    ).join(h.rows, on="row").filter(pl.col("span") > 0)  # fmt: skip
    counted = counted.join(h.events.filter(pl.col(f"event: {name}") == UNKNOWN), on="row", how="anti")
    early, late, k, new = pl.col("early"), pl.col("late"), pl.col("k"), pl.col("new")
    facts = {
        "The {} becomes more varied over time.": (late >= 3) & (2 * late >= 3 * early) & (early > 0),
        "The {} becomes less varied over time.": (early >= 3) & (2 * early >= 3 * late) & (late > 0),
        "New values of the {} still appear towards the end.": (new >= 2) & (4 * new >= k),
        "All values of the {} appear early on.": (k >= 3) & (pl.col("part") == 0),
    }
    return each_said(counted, facts, pl.lit(h.word(name)))


@of_codes
def ends(h: Histories, name: str) -> pl.DataFrame:
    """Which codes the first and the last event have, and whether they are the same.

    Nothing is said of an end if events at the same time have other codes, or none.
    """
    codes = h.settled(name).group_by("row", maintain_order=True)
    first, last = codes.first().drop_nulls("value"), codes.last().drop_nulls("value")
    both = first.join(last.select("row", other="value"), on="row").join(h.rows.filter(pl.col("n") > 1), on="row")
    same, word = pl.col("value") == pl.col("other"), pl.lit(h.word(name))
    return pl.concat(
        [
            said(first, pl.format("The history begins with the {} {}.", word, "value")),
            said(last, pl.format("The history ends with the {} {}.", word, "value")),
            said(both.filter(same), pl.format("The first and the last event have the same {}.", word)),
            said(both.filter(~same), pl.format("The first and the last event differ in the {}.", word)),
        ]
    )
