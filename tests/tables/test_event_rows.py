"""Events as dictionaries are read as `read` reads a table of them, or left to it."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
from eventvec.dataset import Dataset
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.tables import keys
from eventvec.tables.event_rows import EventRows, RowsOfBatches
from eventvec.tables.hashing import fnv_of
from eventvec.tables.sources import events_table
from eventvec.updating.batch_identity import Identities, batch_identity

SHOP, HASHED = Categorical("shop", ("a", "5", "true", "")), Categorical("word", (), buckets=7)
COLUMNS: dict[str, Any] = {"categorical": (SHOP, HASHED), "numeric": (Numeric("paid"), Numeric("n"))}
MOMENTS = [datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(2024, 2, 29, 12), datetime(2024, 3, 1, 0, 0, 0, 7)]
ZONE = timezone(timedelta(hours=5, minutes=30))
TIMES: dict[str, list[list[Any]]] = {
    "integer": [[3, 1, -7, 2**61], [3, 2.0, 1], [2**62], [True]],
    "float": [[3.5, 1.25, 1.25], [3, 1], [3, 1.5], [float("nan")], [2**53 + 1, 0.5], [1e39]],
    "date": [["2024-02-29", "1969-12-31"], [date(2024, 2, 29), date(1, 1, 1)], ["2024-02-30"], ["2024-2-3"]],
    "timestamp": [
        MOMENTS, [str(each) for each in MOMENTS], [each.isoformat() for each in MOMENTS], ["2024-05-01 10:00"],
        ["2024-05-01"], ["2024-05-01T10:00:00.123456789"], ["2024-05-01T10:00:00Z"], ["2024-05-01T25:00:00"],
    ],
    "zoned": [
        [each.replace(tzinfo=UTC) for each in MOMENTS], ["2024-05-01T10:00:00Z", "2024-05-01 10:00:00.5-02:00"],
        [each.replace(tzinfo=ZONE) for each in MOMENTS[1:]], MOMENTS, ["2024-05-01T10:00:00"],
    ],
}  # fmt: skip
VALUES: dict[str, list[list[Any]]] = {
    "id": [[7, 7, -1], ["b", "a", "b"], ["7", "Ä"], [7, "7"], [None, 1], [1.0], [True], [2**63], ["a\n", "b"]],
    "shop": [["a", None, "b"], [5, None, 6], [True, False], [None], [5.0, 6.0], ["a", 5], [""], [b"a"]],
    "word": [["x", "y", None], [5, 6], ["ü" * 40]],
    "paid": [[1, 2], [0.5, None, 1], [None], [2**60, 1], [2**60, 0.5], [float("nan"), 2.0], [True], ["1"], [1e39]],
    "n": [[2**24 + 1, 3], [float("inf")], [-0.0, 0.0], [2**53 + 1, None], [2**70]],
}


def schema(kind: str) -> Schema:
    zone = {"time_zone": "UTC"} if kind == "zoned" else {}
    return Schema("id", "at", "timestamp" if kind == "zoned" else kind, **zone, **COLUMNS)  # type: ignore[arg-type]


def slow(events: list[dict[str, Any]], by: Schema) -> Dataset:
    data = ev.read(events_table(events, by.key), schema=by)
    order = keys.texts(data.keys).arg_sort().cast(pl.Int64).to_numpy()
    return data[order]


def check(events: list[dict[str, Any]], by: Schema) -> bool:
    """Compare a fast reading, if there is one, with the slow one."""
    fast = EventRows(by).read([events])
    if fast is None:
        return False
    same(fast, 0, events, by)
    return True


def same(fast: RowsOfBatches, batch: int, events: list[dict[str, Any]], by: Schema) -> None:
    """Compare a batch that was read fast with the slow reading, and its identity with that of the batch alone."""
    expected, (start, end) = slow(events, by), [0, *fast.ends][batch : batch + 2]
    x = fast.x[start:end]
    assert fast.keys[start:end] == keys.texts(expected.keys).to_list()
    assert fast.notes[batch] == expected.notes
    assert x.lengths.tolist() == expected.sequences.lengths.tolist()
    assert x.columns.keys() == expected.sequences.columns.keys()
    for name in expected.sequences.columns:
        one, other = x.values(name), expected.sequences.values(name)
        assert one.dtype == other.dtype, name
        assert torch.equal(one.nan_to_num(-7.0), other.nan_to_num(-7.0)), name
        assert torch.equal(one.isnan(), other.isnan()), name
    hashes = np.array([fnv_of(key) for key in fast.keys], np.uint64).repeat(fast.x.lengths.numpy())
    sizes = [int(fast.x.lengths[a:b].sum()) for a, b in pairwise([0, *fast.ends])]
    assert Identities(by)(fast.values, hashes, sizes)[batch] == batch_identity(expected)


@pytest.mark.parametrize("kind", TIMES)
def test_events_are_read_as_a_table_of_them(kind: str) -> None:
    rng, by, read = random.Random(0), schema(kind), 0
    for _ in range(150):
        pools = {name: rng.choice(choices[: rng.choice([2, 3, 9])]) for name, choices in VALUES.items()}
        pools["at"] = rng.choice(TIMES[kind][: rng.choice([2, 9])])
        events = [{name: rng.choice(pool) for name, pool in pools.items()} for _ in range(rng.randint(1, 6))]
        read += check(events, by)
    assert 15 < read < 150


def test_each_value_is_read_alike_or_left_to_read() -> None:
    plain = {"id": 1, "at": 3, "shop": "a", "word": "x", "paid": 1.0, "n": 2}
    by, left = schema("integer"), []
    assert check([plain], by)
    for name, choices in {**VALUES, "at": TIMES["integer"]}.items():
        left += [(name, pool) for pool in choices if not check([{**plain, name: value} for value in pool], by)]
    refused = [pool for _, pool in left]
    assert refused == [
        [7, "7"], [None, 1], [1.0], [True], [2**63], ["a\n", "b"], [5.0, 6.0], ["a", 5], [b"a"], [2**60, 1],
        [2**60, 0.5], [True], ["1"], [1e39], [float("inf")], [2**53 + 1, None], [2**70], [3, 2.0, 1], [2**62], [True],
    ]  # fmt: skip
    missing = {name: value for name, value in plain.items() if name != "shop"}
    assert EventRows(by).read([[plain, missing]]) is None
    assert EventRows(by).read([[plain], []]) is None
    assert check([{**plain, "further": "column"}], by)
    assert EventRows(Schema("id", "at", "integer", ties="canonical")).read([[plain]]) is None


def test_batches_that_are_read_together_are_those_that_are_read_alone() -> None:
    rng, by = random.Random(1), schema("timestamp")
    for _ in range(20):
        batches = [
            [
                {"id": rng.choice([1, 5, 12]), "at": rng.choice(MOMENTS), "shop": rng.choice(["a", "b", None]),
                 "word": rng.choice("xy"), "paid": rng.choice([1.5, None]), "n": rng.randint(0, 3)}
                for _ in range(rng.randint(1, 5))
            ]
            for _ in range(rng.randint(2, 6))
        ]  # fmt: skip
        fast = EventRows(by).read(batches)
        assert fast is not None
        for place, events in enumerate(batches):
            same(fast, place, events, by)
