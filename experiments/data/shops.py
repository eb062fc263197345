"""Customers of an online shop: their purchases, and who did not come back."""

from __future__ import annotations

import polars as pl

from eventvec.datasets.bundled import Frames, Labelled
from eventvec.tables import read
from experiments.data.data_folder import data_file

CHURN_FROM = pl.datetime(2011, 9, 9)


def online_retail() -> Labelled:
    """Return the purchases of 3,404 customers of a British shop before 9 September 2011, and who did not come back.

    Labels: `churn`, true if there is no invoice on or after that day (42.5 %). Cancelled lines are events of negative
    quantity; lines without a customer are left out. Source: UCI repository, data set 352, CC BY 4.0.

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data, labels = online_retail()  # doctest: +SKIP
        >>> round(labels["churn"].mean(), 3)  # doctest: +SKIP
        0.425
    """
    events, labels = online_retail_frames()
    data = read(
        events,
        key="CustomerID",
        time="InvoiceDate",
        categorical=("StockCode", "Country"),
        numeric=("Quantity", "UnitPrice"),
    )
    return data, labels


def online_retail_frames() -> Frames:
    """Return the events and labels of `online_retail` as tables.

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> events, labels = online_retail_frames()  # doctest: +SKIP
    """
    path = data_file("online_retail/transactions.parquet", "https://archive.ics.uci.edu/dataset/352/online+retail")
    lines = pl.read_parquet(path).filter(pl.col("CustomerID").is_not_null())
    before = pl.col("InvoiceDate") < CHURN_FROM
    labels = (
        lines.group_by("CustomerID")
        .agg(before.any().alias("active"), before.all().alias("churn"))
        .filter("active")
        .select("CustomerID", "churn")
    )
    return lines.filter(before), labels.sort("CustomerID")
