"""Sinks in memory and on disk hold the same numbers, whatever the parts, and keep what is changed in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eventvec.tables.shard_folder import digest_of
from eventvec.tables.sinks import ArraySink, FileSink, Sink


@pytest.mark.parametrize("dtype", ["int64", "float64", "int32", "float32", "uint8"])
@pytest.mark.parametrize("sizes", [[5], [0], [3, 0, 4]])
def test_numbers_of_all_parts_are_held_and_can_be_changed(sizes: list[int], dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 100, size).astype(dtype) for size in sizes]
    expected = np.concatenate(parts)
    file = FileSink(tmp_path / "0.bin")
    sinks: list[Sink] = [ArraySink(), file]
    for sink in sinks:
        for part in parts:
            sink.append(part.copy())
        assert sink.size == len(expected)
        assert sink.values().dtype == expected.dtype
        np.testing.assert_array_equal(sink.values(), expected)
        sink.values()[: len(expected) // 2] = 7
    expected[: len(expected) // 2] = 7
    for sink in sinks:
        np.testing.assert_array_equal(sink.values(), expected)
    entry = file.describe()
    assert (entry["file"], entry["size"], entry["sha256"]) == ("0.bin", len(expected), digest_of(tmp_path / "0.bin"))
    assert np.fromfile(tmp_path / "0.bin", entry["dtype"]).tolist() == expected.tolist()
    for sink in sinks:
        sink.delete()
    assert not list(tmp_path.iterdir())


def test_numbers_of_a_single_part_in_memory_are_not_copied_unless_they_are_read_only() -> None:
    numbers, read_only = np.arange(3), np.arange(3)
    read_only.flags.writeable = False
    for values, shared in ((numbers, True), (read_only, False)):
        sink = ArraySink()
        sink.append(values)
        assert np.shares_memory(sink.values(), values) is shared
        assert sink.values().flags.writeable
