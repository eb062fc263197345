"""Parts of a table are whole entities of about as many events, whatever the order of the rows and their lists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eventvec as ev
from eventvec.tables import assembly, key_parts, keys, out_of_core
from eventvec.tables.arrangement import Arranged, EventTable, arrange
from eventvec.tables.sources import open_source

EVENTS = 400


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make parts small, and return a list that has the number of events of each that is arranged."""
    sizes: list[int] = []

    def counted(*arguments: Any) -> Arranged:
        arranged = arrange(*arguments)
        sizes.append(arranged.counts["rows"])
        return arranged

    monkeypatch.setattr(key_parts, "EVENTS", EVENTS)
    monkeypatch.setattr(key_parts, "ROWS", 320)
    monkeypatch.setattr(key_parts, "SAMPLED", 2)
    monkeypatch.setattr(assembly, "arrange", counted)
    return sizes


def test_parts_are_of_equal_size_where_keys_return_at_even_distances(
    tmp_path: Path, parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_parts, "SAMPLED", 32)
    n = 32 * 300  # at each of 300 times, one event of each of 32 sensors
    table = pl.DataFrame({"sensor": np.arange(n) % 32, "at": np.arange(n) // 32})
    table.write_parquet(tmp_path / "events.parquet")
    ev.read(tmp_path / "events.parquet", key="sensor", time="at", numeric=[], store=tmp_path / "store")
    assert sum(parts) == n
    assert max(parts) <= 3 * 300


@pytest.mark.parametrize("order", ["sorted", "random"])
def test_parts_are_measured_by_the_elements_of_lists_that_are_exploded(
    order: str, tmp_path: Path, parts: list[int]
) -> None:
    path, key = tmp_path / "events.parquet", np.arange(1000) // 2
    if order == "random":
        key = np.random.default_rng(0).permutation(key)
    items = [["tea"] * (i % 40) for i in range(1000)]
    pl.DataFrame({"card": key, "day": np.arange(1000), "items": items}).write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "categorical": ["items"], "explode": ["items"]}
    stored = ev.read(path, store=tmp_path / "store", **options)
    assert stored.sequences.total == sum(parts)
    assert max(parts) < 4 * EVENTS
    assert stored.fingerprint == ev.read(path, **options).fingerprint


@pytest.mark.parametrize("options", [{"ties": "canonical"}, {"summed": ["items"]}])
def test_events_are_arranged_once_also_where_their_order_depends_on_codes(
    options: dict[str, Any], tmp_path: Path, parts: list[int]
) -> None:
    path, n = tmp_path / "events.parquet", 1000
    shops, items = [f"s{i % 7}" for i in range(n)], [["a", "b"][: i % 3] for i in range(n)]
    pl.DataFrame({"card": np.arange(n) % 50, "day": np.arange(n) // 200, "shop": shops, "items": items}).write_parquet(
        path
    )
    options = {"key": "card", "time": "day", "categorical": ["shop"], **options}
    stored = ev.read(path, store=tmp_path / "store", **options)
    assert sum(parts) == n
    assert stored.fingerprint == ev.read(path, **options).fingerprint


def test_lists_are_exploded_of_which_no_column_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pl.DataFrame({"card": [2, 1], "day": [1, 2], "items": [["a", "b"], []]}).write_parquet(path)
    options: dict[str, Any] = {"key": "card", "time": "day", "numeric": [], "explode": ["items"]}
    stored = ev.read(path, store=tmp_path / "store", **options)
    assert stored.sequences.lengths.tolist() == [1, 2]
    assert stored.notes == ev.read(path, **options).notes


def test_kinds_of_a_few_long_histories_are_inferred_though_the_sample_has_none(tmp_path: Path) -> None:
    path, share = tmp_path / "events.parquet", EVENTS / 2000
    absent = np.flatnonzero(~keys.holdout_mask(pa.array(range(50)), share, out_of_core.SEED))[:2]
    values = np.random.default_rng(0).random(2000)
    pl.DataFrame({"machine": np.repeat(absent, 1000), "at": np.arange(2000), "heat": values}).write_parquet(path)
    stored = ev.read(path, key="machine", time="at", store=tmp_path / "store")
    memory = ev.read(path, key="machine", time="at")
    assert (stored.schema, stored.fingerprint) == (memory.schema, memory.fingerprint)


def test_keys_that_are_no_uuids_are_counted_within_a_part_as_the_sentence_says(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    key = pa.array([bytes(16)] * 640 + [b"secret"] * 3, pa.binary())
    pq.write_table(pa.table({"user": key, "day": pa.array(range(643))}), path)
    with pytest.raises(ev.DataError, match=r"3 keys \(first at row 0\).*; rows are counted within a part") as refused:
        ev.read(path, key="user", time="day", numeric=[], store=tmp_path / "store")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("row_group", [5000, 1_000_000])
def test_a_file_is_read_in_parts_whatever_its_row_groups(row_group: int, tmp_path: Path) -> None:
    path, n = tmp_path / "events.parquet", 1_000_000
    values = np.random.default_rng(0).random((2, n))
    pl.DataFrame({"card": np.arange(n), "day": values[0], "paid": values[1]}).write_parquet(
        path, row_group_size=row_group, compression="uncompressed"
    )
    before, largest = pa.total_allocated_bytes(), 0
    for _ in open_source(path).parts(["card", "day", "paid"], 5000):
        largest = max(largest, pa.total_allocated_bytes() - before)
    assert 0 < largest < path.stat().st_size / 2


def test_columns_of_parts_are_in_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pieces, add = tmp_path / "events.parquet", list[int](), assembly.Assembly.add

    def counted(self: Any, part: EventTable) -> None:
        source = part.events.table
        pieces.extend(column.num_chunks for column in source.load(list(source.types)).columns)
        add(self, part)

    monkeypatch.setattr(assembly.Assembly, "add", counted)
    rng = np.random.default_rng(0)
    pl.DataFrame({"card": rng.permutation(3000) // 3, "day": 1, "shop": ["tea"] * 3000}).write_parquet(path)
    ev.read(path, key="card", time="day", categorical=["shop"], store=tmp_path / "store")
    assert set(pieces) == {1}


def test_kinds_of_dictionaries_of_numbers_are_inferred_as_in_memory(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 2000
    codes = pa.array(rng.integers(0, 400, n)).dictionary_encode()
    for key in (rng.integers(0, 100, n), np.arange(n) // 20):
        table = pa.table({"card": key, "day": rng.integers(0, 90, n), "level": codes})
        stored = ev.read(table, key="card", time="day", store=tmp_path / f"store-{key[0]}")
        memory = ev.read(table, key="card", time="day")
        assert (stored.schema, stored.notes) == (memory.schema, memory.notes)


MEASURED = """
import sys
import eventvec as ev
from eventvec.tables import key_parts

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

key_parts.EVENTS = 1 << 18
before, store = peak(), {"store": sys.argv[2]} if len(sys.argv) > 2 else {}
numeric = [f"v{i}" for i in range(8)]
ev.read(sys.argv[1], key="machine", time="at", numeric=numeric, categorical=["state"], **store)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from Linux")
@pytest.mark.parametrize("order", ["sorted", "random"])
def test_one_long_history_takes_no_more_memory_in_a_store_than_in_memory(order: str, tmp_path: Path) -> None:
    path, n, rng = tmp_path / "events.parquet", 2_000_000, np.random.default_rng(0)
    at = np.arange(n) if order == "sorted" else rng.permutation(n)
    values = {f"v{i}": rng.random(n) for i in range(8)}
    states = pl.Series(rng.integers(0, 9, n)).cast(pl.String)
    machine = np.where(np.arange(n) < 9, 3, 7) if order == "sorted" else rng.choice([3, 7], n, p=[1e-4, 1 - 1e-4])
    pl.DataFrame({"machine": machine, "at": at, "state": states, **values}).write_parquet(path)
    memory, stored = (
        int(subprocess.run([sys.executable, "-c", MEASURED, path, *more], check=True, capture_output=True).stdout)
        for more in ([], [tmp_path / "store"])
    )
    assert stored < 1.25 * memory, (stored, memory)
