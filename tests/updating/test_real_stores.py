"""The law of fresh predictions on real tables: from a store, as from whole histories, at any moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev

pytestmark = pytest.mark.slow
ENTITIES = 80


def read(name: str) -> pl.DataFrame:
    """Return a table of the data folder."""
    if "EVENTVEC_DATA" not in os.environ:
        pytest.skip("needs EVENTVEC_DATA")
    return pl.read_parquet(Path(os.environ["EVENTVEC_DATA"]) / name)


def retail() -> pl.DataFrame:
    """Return the lines of invoices of customers that are known."""
    lines = read("online_retail/transactions.parquet").drop_nulls("CustomerID")
    return lines.select("CustomerID", "InvoiceDate", "StockCode", "Quantity", "UnitPrice")


SETS: dict[str, tuple[Callable[[], pl.DataFrame], dict[str, Any]]] = {
    "flights": (lambda: ev.datasets.flights_frames()[0], {"key": "tailnum", "time": "time"}),
    "physionet2012": (
        lambda: read("physionet2012/events.parquet").select("record_id", "minutes", "parameter", "value"),
        {"key": "record_id", "time": "minutes", "categorical": ["parameter"], "numeric": ["value"]},
    ),
    "online_retail": (retail, {"key": "CustomerID", "time": "InvoiceDate"}),
    "nafld": (lambda: read("nafld/nafld2.parquet"), {"key": "id", "time": "days"}),
    "bpic2012": (lambda: read("bpic2012/events.parquet"), {}),
    "stackoverflow_badges": (
        lambda: read("stackoverflow_badges/events.parquet").select("seq_id", "time", "type"),
        {"key": "seq_id", "time": "time", "categorical": ["type"], "numeric": []},
    ),
    "sber_age_sample": (
        lambda: read("sber_age_sample/transactions.parquet"),
        {"key": "client_id", "time": "trans_date", "categorical": ["small_group"], "numeric": ["amount_rur"]},
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_predictions_from_a_store_are_those_from_whole_histories(tmp_path: Path, name: str) -> None:
    make, roles = SETS[name]
    table = make()
    roles = roles or {"key": table.columns[0], "time": next(c for c in table.columns if table[c].dtype.is_temporal())}
    key, time = roles["key"], roles["time"]
    keys = table[key].drop_nulls().unique().sort()
    keys = keys[:: max(len(keys) // ENTITIES, 1)][:ENTITIES]
    events = table.filter(pl.col(key).is_in(keys.implode())).sort(time, maintain_order=True)
    rng = np.random.default_rng(0)
    labels = pl.DataFrame({key: keys, "label": rng.random(len(keys)) < 0.5})
    model = ev.fit(ev.read(events, **roles), labels=labels, label="label", label_time="none")
    bounds = [0, *(int(events[time].search_sorted(events[time][len(events) * k // 4])) for k in (1, 2, 3)), len(events)]
    for start, end in pairwise(bounds):
        if end > start:
            ev.update(model, events[start:end], tmp_path / "state.db", keep=1)
    last = events[time].max()
    asked = pl.DataFrame({key: keys, "cutoff": [last] * len(keys)}, schema_overrides={"cutoff": events[time].dtype})
    whole = pl.DataFrame(ev.predict(model, events, cutoffs=asked, cutoff_column="cutoff"))
    stored = pl.DataFrame(ev.predict(model, state=tmp_path / "state.db", until=last))
    both = stored.rename({key: "entity"}).join(whole.with_columns(entity=pl.col(key).cast(pl.String)), on="entity")
    assert len(both) == len(keys)
    off = (both["p_true"] - both["p_true_right"]).abs()
    own = events.group_by(key).agg(cutoff=pl.col(time).max())
    at_own = pl.DataFrame(ev.predict(model, events, cutoffs=own, cutoff_column="cutoff"))
    with ev.open_state(model, tmp_path / "state.db", read_only=True) as session:
        got = [session.predict(row[key], cutoff=row["cutoff"])["p_true"] for row in at_own.to_dicts()]
    own_off = np.abs(at_own["p_true"].to_numpy() - np.array(got))
    assert (len(off), len(own_off)) == (len(keys), len(keys))
    assert max(off.max(), own_off.max()) <= 1e-6
