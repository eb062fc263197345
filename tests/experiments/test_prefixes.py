"""Rows that end at cutoffs equal a loop over events and share its columns; bad cutoffs are refused in one sentence."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest
from experiments.data.prefixes import histories

from eventvec.errors import ConfigError, DataError
from eventvec.tables import read


def events(kind: str) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    hours = rng.integers(0, 9, 60)
    start = datetime.datetime(2020, 1, 1)
    stamps = [start + datetime.timedelta(hours=int(hour)) for hour in hours]
    times = {"integer": hours, "float": hours / 7, "timestamp": stamps}
    return pl.DataFrame({"card": rng.integers(0, 5, 60), "at": times[kind], "amount": rng.normal(size=60)})


@pytest.mark.parametrize("kind", ["integer", "float", "timestamp"])
@pytest.mark.parametrize("last", [None, 3])
def test_rows_equal_a_loop_over_events(kind: str, last: int | None) -> None:
    table = events(kind)
    cutoffs = table.sample(20, seed=1).select("card", when="at").with_row_index("claim")
    data = read(table, key="card", time="at", numeric=["amount"])
    rows = histories(data, cutoffs, name="claim", time="when", last=last)
    in_order = table.sort("card", "at", maintain_order=True)
    assert rows.keys.to_pylist() == list(range(20))
    assert (rows.schema.key, rows.sequences.columns is data.sequences.columns) == ("claim", True)  # nothing is copied
    for row, (_, card, when) in enumerate(cutoffs.iter_rows()):
        expected = [amount for c, at, amount in in_order.iter_rows() if c == card and at <= when]
        expected = expected if last is None else expected[-last:]
        assert rows[[row]].sequences.values("amount").tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("cutoffs", "options", "message"),
    [
        ({"card": [0], "when": [3]}, {}, "no column 'claim'"),
        (
            {"claim": [1, 1], "card": [0, 0], "when": [3, 4]},
            {},
            "must identify each of 2 cutoffs",
        ),
        ({"claim": [1, 2], "card": [0, 77], "when": [3, 4]}, {}, "an entity of the data by 'card', but 1 of 2 do not"),
        (
            {"claim": [1, 2], "card": [0, 0], "when": [3, None]},
            {},
            "needs a time, but column 'when' has 1 missing",
        ),
        ({"claim": [1], "card": [0], "when": [datetime.date(2020, 1, 1)]}, {}, "date values"),
        (
            {"claim": [1], "card": [0], "when": [3]},
            {"last": 0},
            "last must be at least 1, .*, got 0",
        ),
    ],
)
def test_bad_cutoffs_are_refused(cutoffs: dict, options: dict, message: str) -> None:
    data = read(events("integer"), key="card", time="at", numeric=["amount"])
    with pytest.raises((ConfigError, DataError), match=message):
        histories(data, pl.DataFrame(cutoffs), name="claim", time="when", **options)
