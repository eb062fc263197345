"""Checks against leaks: later events are refused, and features are made from the events that were embedded."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from eventvec.dataset import Dataset
from eventvec.errors import DataError
from eventvec.evaluation.leaks import refuse_later_events, same_events
from eventvec.tables import Embeddings, read, read_embeddings, times, until, write
from eventvec.tables.label_times import moments_of


def dataset(keys: list, times: list) -> Dataset:
    return read(pa.table({"card": keys, "at": times}), key="card", time="at", numeric=[])


def written(folder: Path, data: Dataset) -> Embeddings:
    """Return embeddings of the data that have been written and read."""
    write(folder / "z.parquet", Embeddings.of(data, np.ones((len(data), 2))))
    return read_embeddings(folder / "z.parquet")


def test_events_are_those_of_the_embeddings_in_their_order(tmp_path: Path):
    data = dataset(["c", "a", "é"], [4, 5, 6])
    z = written(tmp_path, data[[2, 0]])
    assert same_events(data, z[[1, 0, 1]]).keys.to_pylist() == ["a", "é", "a"]
    assert same_events(data[[2, 0]], z).keys.to_pylist() == ["é", "a"]
    with pytest.raises(DataError, match="1 of 2 embedded entities have no events in the data"):
        same_events(data[[0, 1]], z)
    with pytest.raises(DataError, match="2 of 2 entities have another number of events in the data"):
        same_events(until(data, 0), z)


def test_events_are_cut_at_the_time_of_each_label(tmp_path: Path):
    data = dataset([1, 1, 2, 2, 3], [1, 5, 2, 6, 3])
    each = read(
        pa.table({"card": [1, 1, 2, 2, 3], "at": [1, 5, 2, 6, 3]}), key="card", time="at", numeric=[],
        cutoffs=pa.table({"card": [1, 2, 3], "decided": [5, 7, 3]}), cutoff_column="decided",
    )  # fmt: skip
    z = written(tmp_path, each)[[2, 0, 1]]
    assert z.events.tolist() == [0, 1, 2]
    same = same_events(data, z, moments_of(pl.Series("decided", [3, 5, 7]), z.schema)[0].to_numpy())  # read-only
    assert same.keys.to_pylist() == [3, 1, 2]
    assert same.sequences.values("time").tolist() == [1, 2, 6]
    assert (same.notes, same.origin) == (data.notes, data.origin)
    with pytest.raises(DataError, match="2 of 3 entities have another number of events in the data"):
        same_events(data, z)


def test_embeddings_of_later_events_are_refused(tmp_path: Path):
    data = dataset([1, 2, 3], [datetime(2020, 1, day) for day in (1, 2, 3)])
    z = written(tmp_path, data)
    schema, rows = z.schema, [2, 0]

    def decided(*values: object) -> np.ndarray:
        return moments_of(pl.Series("decided", values), schema)[0].to_numpy()

    def refuse(z: Embeddings, limit: object, inclusive: bool = False) -> None:
        limit = times.instant(schema, limit) if isinstance(limit, str) else limit
        refuse_later_events(z, limit, "then", "do this", inclusive)

    refuse(z[rows], "2020-01-04")
    refuse(z[[0, 1]], decided("2020-01-02", "2020-01-03"))
    refuse(z[rows], "2020-01-03", inclusive=True)
    for limit in ("2020-01-03", "2020-01-03T00:00:01"):  # the events have no time of day
        with pytest.raises(DataError, match=r"1 of 2 embeddings were made from events at or after then, .*; do this"):
            refuse(z[rows], limit)
    with pytest.raises(DataError, match=r"1 of 2 embeddings were made from events after then, .*; do this"):
        refuse(z[rows], "2020-01-02", inclusive=True)
    with pytest.raises(DataError, match="1 of 2 embeddings were made from events at or after then"):
        refuse(z[rows], decided(date(2020, 1, 3), date(2020, 1, 2)))
    assert moments_of(pl.Series("decided", [None, date(2020, 1, 9)]), schema)[0].null_count() == 1
    with pytest.raises(DataError, match="column 'decided' of the labels holds integer values"):
        decided(1, 2)
    empty = written(tmp_path, until(data, "2020-01-01"))
    refuse(empty[rows], "1970-01-01")


def test_an_event_at_the_time_of_the_label_is_later(tmp_path: Path):
    """Whatever the order of entities and times, the check equals a loop over entities."""
    rng = np.random.default_rng(0)
    keys, times = np.arange(300) % 40, rng.integers(0, 20, 300)
    data = dataset(keys.tolist(), times.tolist())
    z = written(tmp_path, data)
    for _ in range(20):
        rows = rng.permutation(40)[:15]
        limits = rng.integers(15, 30, 15)
        later = sum(max(times[keys == row]) >= limit for row, limit in zip(rows, limits, strict=True))
        if later:
            with pytest.raises(DataError, match=f"{later} of 15 embeddings"):
                refuse_later_events(z[rows], limits, "then", "")
        else:
            refuse_later_events(z[rows], limits, "then", "")
