"""Sentences about codes: which are frequent, how many different ones there are, and which are first and last.

Frequencies are shares of all events of a history. Of equally frequent codes, the first one in the schema counts as the
more frequent. Halves and thirds are those of the time from the first event to the last.
"""

from __future__ import annotations

import polars as pl

from eventvec.describing.histories import WITHOUT_WORDS, Histories
from eventvec.describing.wording import band, of_codes, said, share_word


@of_codes
def shares(h: Histories, name: str) -> pl.DataFrame:
    """What share of the events has each of the three most frequent codes."""
    frequent = h.counts(name).filter((pl.col("n") > 1) & (pl.col("rank") < 3))
    share = share_word(pl.col("k") / pl.col("n"))
    return said(frequent, pl.format("{} events have the {} {}.", share, pl.lit(h.word(name)), pl.col("value")))


@of_codes
def leaders(h: Histories, name: str) -> pl.DataFrame:
    """Whether two codes make up nearly everything, one leads without a majority, or none dominates.

    Two codes make up nearly everything if each has a fifth of at least four events and both together nine tenths. One
    leads without a majority if it has at least three events, fewer than half, and 1.5 times as many as each other. None
    dominates if the most frequent one has at most an eighth of the events.
    """
    counts = h.counts(name)
    second = counts.filter(pl.col("rank") == 1).select("row", other="value", j="k")
    top = counts.filter(pl.col("rank") == 0).join(second, on="row", how="left").with_columns(pl.col("j").fill_null(0))
    k, j, n, word = pl.col("k"), pl.col("j"), pl.col("n"), pl.lit(h.word(name))
    two = (n >= 4) & (5 * j >= n) & (10 * (k + j) >= 9 * n)
    leads = (k >= 3) & (2 * k < n) & (2 * k >= 3 * j)
    return pl.concat(
        [
            said(top.filter(two), pl.format("Almost all events have the {} {} or {}.", word, "value", "other")),
            said(top.filter(leads), pl.format("The {} {} is the most frequent, without a majority.", word, "value")),
            said(top.filter(8 * k <= n), pl.lit(f"No {h.word(name)} dominates.")),
        ]
    )


@of_codes
def variety(h: Histories, name: str) -> pl.DataFrame:
    """How many different codes there are, and whether these are many or few for the number of events.

    The codes vary a lot if there are at least four, and a third as many as events that have one. They vary little if
    there are at least two, and at most a tenth as many.
    """
    counted = h.counts(name).group_by("row").agg(n=pl.col("k").sum(), k=pl.len()).filter(pl.col("n") > 1)
    n, k, word = pl.col("n"), pl.col("k"), h.word(name)
    same = pl.lit(f"The {word} is always the same.")
    several = pl.format("The {} has {} different values.", pl.lit(word), band(k))
    return pl.concat(
        [
            said(counted, pl.when(k == 1).then(same).otherwise(several)),
            said(counted.filter((k >= 4) & (3 * k >= n)), pl.lit(f"The {word} varies a lot.")),
            said(counted.filter((k >= 2) & (10 * k <= n)), pl.lit(f"The {word} varies little.")),
        ]
    )


@of_codes
def newcomers(h: Histories, name: str) -> pl.DataFrame:
    """Whether more or fewer different codes come in the second half, and when codes come for the first time.

    More come if there are at least three in the second half, and 1.5 times as many as in the first, and fewer the other
    way round. New codes still appear towards the end if a quarter of the codes, and at least two, have no event before
    the last third. All appear early on if there are at least three, each with an event in the first third.
    """
    codes = h.values(name).group_by("row", "value").agg(
        early=(~pl.col("late")).any(), late=pl.col("late").any(), part=pl.col("part").min()
    )  # fmt: skip
    counted = codes.group_by("row").agg(
        k=pl.len(), early=pl.col("early").cast(pl.Int64).sum(), late=pl.col("late").cast(pl.Int64).sum(),
        new=(pl.col("part") == 2).sum(), part=pl.col("part").max(),
    ).join(h.rows, on="row").filter(pl.col("span") > 0)  # fmt: skip
    early, late, k, new, word = pl.col("early"), pl.col("late"), pl.col("k"), pl.col("new"), h.word(name)
    facts = {
        f"The {word} becomes more varied over time.": (late >= 3) & (2 * late >= 3 * early),
        f"The {word} becomes less varied over time.": (early >= 3) & (2 * early >= 3 * late),
        f"New values of the {word} still appear towards the end.": (new >= 2) & (4 * new >= k),
        f"All values of the {word} appear early on.": (k >= 3) & (pl.col("part") == 0),
    }
    return pl.concat(said(counted.filter(fact), pl.lit(sentence)) for sentence, fact in facts.items())


@of_codes
def ends(h: Histories, name: str) -> pl.DataFrame:
    """Which codes the first and the last event have, and whether they are the same.

    Nothing is said of an end if events at the same time have other codes, or none.
    """
    codes = h.events.select("row", "time", value=f"event: {name}").join(h.rows, on="row", maintain_order="left")
    first, last = (_at(codes, pl.col("time").first()), _at(codes, pl.col("time").last()))
    both = first.filter(pl.col("n") > 1).join(last.select("row", other="value"), on="row")
    same, word = pl.col("value") == pl.col("other"), pl.lit(h.word(name))
    return pl.concat(
        [
            said(first, pl.format("The history begins with the {} {}.", word, "value")),
            said(last, pl.format("The history ends with the {} {}.", word, "value")),
            said(both.filter(same), pl.format("The first and the last event have the same {}.", word)),
            said(both.filter(~same), pl.format("The first and the last event differ in the {}.", word)),
        ]
    )


def _at(codes: pl.DataFrame, time: pl.Expr) -> pl.DataFrame:
    """Return the histories of which all events at a time have the same code, and this as `value`."""
    events = codes.filter(pl.col("time") == time.over("row")).group_by("row", "n")
    codes = events.agg(pl.col("value").first(), different=pl.col("value").n_unique())
    return codes.filter((pl.col("different") == 1) & ~pl.col("value").is_in(WITHOUT_WORDS))
