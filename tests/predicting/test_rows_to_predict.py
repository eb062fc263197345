"""What a predictor predicts from: entities without any event, and times of every type in the table of cutoffs."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import eventvec as ev
from eventvec.errors import DataError

pytestmark = pytest.mark.usefixtures("few_kernels")

N = 60


def shops(key: Callable[[int], Any]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return events, labels at day 10, and an age that tells the label, of shops with keys of some type."""
    rng, names = np.random.default_rng(0), [key(i) for i in range(N)]
    churn = np.arange(N) % 2
    events = pl.DataFrame({"shop": names * 4, "day": rng.integers(0, 9, 4 * N), "paid": rng.random(4 * N)})
    labels = pl.DataFrame({"shop": names, "day": [10] * N, "churn": churn})
    everyone = [*names, key(N), key(N + 1)]
    return events, labels, pl.DataFrame({"shop": everyone, "age": np.append(churn, [0, 1]) + 0.1 * rng.random(N + 2)})


@pytest.mark.parametrize("key", [int, lambda i: f"s{i:02}"], ids=["numbers", "texts"])
def test_entities_without_any_event_are_predicted_as_empty_histories(key: Callable[[int], Any]) -> None:
    events, labels, ages = shops(key)
    model = ev.EventClassifier("shop", "day", numeric=["paid"], progress=False)
    model.fit(events, labels, "churn", static=ages)
    known = model.predict_proba(events, labels, static=ages)
    new = pl.DataFrame({"shop": [key(N + 1), key(N), key(N), key(N)], "day": [10, 10, 7, 7]})
    both = model.predict_proba(events, pl.concat([labels.select("shop", "day"), new]), static=ages)
    assert both[:N].equals(known)
    assert both[N:].select("shop", "day").rows() == [(key(N), 7), (key(N), 10), (key(N + 1), 10)]
    assert both["p_1"][N] == both["p_1"][N + 1] < both["p_1"][N + 2]  # by their ages
    never = pl.DataFrame(
        {"shop": [key(0), key(0), key(1)], "day": [-5, -4, 10]}
    )  # an empty history of an entity with later events
    like = model.predict_proba(events, never, static=ages.with_columns(age=ages["age"][N]))
    assert like["p_1"][:2].to_list() == both["p_1"][N : N + 1].to_list() * 2


def test_keys_that_are_uuids() -> None:
    events, labels, ages = shops(lambda i: uuid.UUID(int=i).bytes)
    kind = pa.uuid()

    def with_uuids(table: pl.DataFrame) -> pa.Table:
        keys = pa.ExtensionArray.from_storage(kind, pa.array(table["shop"].to_list(), pa.binary(16)))
        return pa.table({"shop": keys, **{name: table[name].to_arrow() for name in table.columns[1:]}})

    model = ev.EventClassifier("shop", "day", numeric=["paid"], progress=False)
    model.fit(with_uuids(events), with_uuids(labels), "churn")
    cutoffs = with_uuids(ages.select("shop", day=pl.lit(10, pl.Int64)))
    predicted = model.predict_proba(with_uuids(events), cutoffs)
    assert len(predicted) == N + 2


def test_keys_of_another_kind_are_refused() -> None:
    events, labels, _ = shops(int)
    model = ev.EventClassifier("shop", "day", numeric=["paid"], progress=False).fit(events, labels, "churn")
    cutoffs = pl.DataFrame({"shop": ["1", "no number"], "day": [10, 10]})
    with pytest.raises(
        DataError, match=r"has keys in 'shop' that no event has, as .*string, where those of the events are int64"
    ):
        model.predict(events, cutoffs)


@pytest.fixture
def dated(few_kernels: None) -> tuple[ev.EventClassifier, pl.DataFrame]:
    """Return a classifier of shops with a calendar, and its events."""
    events, labels, _ = shops(int)
    events = events.with_columns(day=datetime(2024, 1, 1) + pl.col("day") * timedelta(days=1))
    model = ev.EventClassifier("shop", "day", numeric=["paid"], progress=False)
    return model.fit(events, labels.drop("day"), "churn"), events


@pytest.mark.parametrize(
    "kind",
    [pl.Date, pl.Datetime("ms"), pl.Datetime("ns"), pl.Datetime("us", "UTC"), pl.String],
    ids=["date", "ms", "ns", "zone", "text"],
)
def test_predictions_join_the_times_of_cutoffs(dated: tuple[ev.EventClassifier, pl.DataFrame], kind: Any) -> None:
    model, events = dated
    months = [date(2024, 1, 8), date(2024, 2, 1)]
    cutoffs = pl.DataFrame({"shop": [3, 3, N], "month": [months[1], *months]})  # the last shop has no event
    cutoffs = cutoffs.with_columns(pl.col("month").cast(pl.Datetime("us")) if kind != pl.String else "month")
    cutoffs = cutoffs.with_columns(pl.col("month").cast(kind))
    by, asked = ["shop", "month"], {"cutoff_column": "month"}
    assert model.predict_proba(events, cutoffs, **asked).join(cutoffs, on=by).height == 3
    assert pl.DataFrame(model.predict(events.to_arrow(), cutoffs.to_arrow(), **asked)).join(cutoffs, on=by).height == 3
    frame = cutoffs.to_pandas()
    predicted = model.predict_proba(events.to_pandas(), frame, **asked)
    assert predicted["month"].dtype == frame["month"].dtype
    assert len(predicted.reset_index().merge(frame, on=by)) == 3


def test_dates_of_python_in_pandas_come_back(dated: tuple[ev.EventClassifier, pl.DataFrame]) -> None:
    model, events = dated
    cutoffs = pd.DataFrame({"shop": [3], "month": [date(2024, 1, 8)]})
    assert model.predict(events.to_pandas(), cutoffs)["month"].to_list() == [date(2024, 1, 8)]
