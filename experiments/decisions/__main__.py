"""Customers of a shop who fall silent: how good the probabilities are, whom to write to, and why."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import polars as pl

import eventvec as ev
from experiments.command_line import Row, run
from experiments.data.data_folder import data_file
from experiments.decisions.rules import rules

KEY, TIME, LABEL = "CustomerID", "InvoiceDate", "silent"
LEARNED, LATER = (3, 4, 5, 6), 9
"""The months of 2011 on whose first day the labels of the training are, the last of which is known on 30 August, and
that of the rows to decide."""
COSTS: dict[str, Any] = {"action": 1, "case": 40, "saves": 0.05}
"""A letter costs one pound, a customer who stays away 40, and a letter brings one of twenty back."""
QUIET = 60
"""From how many days without a purchase on the rule of the shop writes."""
SMALL = 29
"""By what the number of a customer is divisible in the small mode."""


class Shop(NamedTuple):
    """The purchases, the labels of September with the days since the last purchase, and a model of earlier labels."""

    lines: pl.DataFrame
    later: pl.DataFrame
    model: ev.Model


@cache
def shop(small: bool) -> Shop:
    """Return a model that learned from the labels up to June whether customers buy nothing in 90 days."""
    origin = "https://archive.ics.uci.edu/dataset/352/online+retail"
    lines = pl.read_parquet(data_file("online_retail/transactions.parquet", origin)).drop_nulls(KEY)
    lines = lines.filter(pl.col(KEY).cast(pl.Int64) % SMALL == 0) if small else lines
    parts, time = list[pl.DataFrame](), pl.col(TIME)
    for month in (*LEARNED, LATER):
        start = pl.datetime(2011, month, 1)
        known = lines.filter(time < start).group_by(KEY).agg(idle=(start - time.max()).dt.total_days())
        after = lines.filter(time >= start, time < start + pl.duration(days=90))[KEY].unique()
        parts.append(known.with_columns(at=start, silent=~pl.col(KEY).is_in(after.implode())).sort(KEY))
    columns = {"categorical": ["StockCode", "Country"], "numeric": ["Quantity", "UnitPrice"]}
    estimator = ev.EventClassifier(KEY, TIME, progress=False, **columns)  # type: ignore[arg-type]
    known = pl.concat(parts[:-1]).drop("idle")
    return Shop(lines, parts[-1], estimator.fit(lines, known, LABEL, label_time="at").model_)


def policies(small: bool) -> list[Row]:
    """What each policy costs: out of fold on the latest month of the training, and three months later."""
    lines, later, model = shop(small)
    rule = later.select(KEY, "at", writes=pl.col("idle") >= QUIET)
    earlier = ev.decide(model, **COSTS)
    found = ev.decide(model, lines, later.drop("idle"), rule=rule, label_time="at", **COSTS)
    rows = list[Row]()
    for where, answer in (("latest month of the training", earlier), ("September", found)):
        frame = answer.frame("policies").drop("threshold", "reached")
        rows += [{"rows": where, **each} for each in frame.to_dicts()]
    return rows


def measures(small: bool) -> list[Row]:
    """How good the probabilities are on the latest month of the training, by models of earlier months."""
    frame = ev.explain(shop(small).model).frame("measures")
    return frame.select("measure", "value", "value_low", "value_high").to_dicts()


def reasons(small: bool) -> list[Row]:
    """Why the model expects silence of the first and of the last of September's customers."""
    lines, later, model = shop(small)
    predicted = pl.DataFrame(ev.predict(model, lines, cutoffs=later.select(KEY, "at"), cutoff_column="at"))
    order = predicted.sort("p_true", KEY, descending=True)[KEY]
    rows = list[Row]()
    for which, key in (("most probable", order[0]), ("least probable", order[-1])):
        one = later.filter(pl.col(KEY) == key).select(KEY, "at")
        found = ev.explain(model, lines, cutoffs=one, cutoff_column="at", key=key)
        (row,) = found.tables["rows"]
        rows += [
            {"customer": which, "probability": row["prediction"], "contribution": each["contribution"],
             "because": each["because"]}
            for each in found.rows
        ]  # fmt: skip
    return rows


TABLES = {"rules": rules, "policies": policies, "measures": measures, "reasons": reasons}


def main() -> None:
    """Run the table that the command line names."""
    run("decisions", TABLES)


if __name__ == "__main__":
    main()
