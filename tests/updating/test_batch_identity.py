"""The identity of a batch: the same for any export of its events, and another one for any other event."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import eventvec as ev
import make
from eventvec import sequences
from eventvec.errors import DataError
from eventvec.updating import batch_identity as module
from eventvec.updating.batch_identity import batch_identity
from updates import untrained


@pytest.mark.parametrize("text", [False, True])
def test_any_export_of_a_batch_is_the_same_batch(tmp_path: Path, text: bool) -> None:
    """Rows in any order, also within one time, and whole numbers as text: keys 2, 10 and 9 sort otherwise as text."""
    run, times = untrained(), [datetime(2024, 5, day) for day in (1, 1, 1, 2, 2, 3)]
    events = pl.DataFrame({"id": [2, 10, 2, 9, 2, 10], "at": times, "code": ["v1", "v2", "v2", "v1", "v2", "v1"]})
    events = events.with_columns(amount=pl.Series([1.0, None, 2.0, -0.0, 3.0, 4.0]))
    first = ev.update(run, events, tmp_path / "state")
    rows = dict(zip(map(str, first.embeddings.keys.to_pylist()), first.embeddings.values, strict=True))
    assert first.embeddings.keys.to_pylist() == [2, 9, 10]
    for seed in range(5):
        export = events.sample(fraction=1, shuffle=True, seed=seed)
        export = export.with_columns(pl.col("id").cast(pl.String)) if text else export
        again = ev.update(run, export, tmp_path / "state")
        keys = again.embeddings.keys.to_pylist()
        assert not again.applied
        assert keys == (["10", "2", "9"] if text else [2, 9, 10])
        assert all(np.array_equal(rows[str(k)], row) for k, row in zip(keys, again.embeddings.values, strict=True))
    with pytest.raises(DataError, match="older"):
        ev.update(run, pl.concat([events, events[:1]]), tmp_path / "state")  # the multiset counts equal events


def test_every_part_of_an_event_counts_for_the_identity_of_a_batch() -> None:
    events = pl.DataFrame({"id": [1, 1, 2], "t": [1, 2, 2], "c": ["a", "b", "a"], "v": [1.0, None, 2.0]})
    data = ev.read(events, key="id", time="t", categorical=["c"], numeric=["v"], fitting=ev.Fitting(min_count=1))
    changes = [
        {"id": [1, 1, 3]}, {"id": [1, 2, 2]}, {"t": [1, 3, 2]}, {"c": ["a", "a", "a"]}, {"c": ["b", "a", "a"]},
        {"v": [1.0, 0.0, 2.0]}, {"v": [None, 1.0, 2.0]}, {"v": [1.0, None, 2.5]},
    ]  # fmt: skip
    others = [events.with_columns(**{n: pl.Series(values) for n, values in change.items()}) for change in changes]
    batches = [events, *others, events[:2], pl.concat([events, events[2:]])]
    assert len({batch_identity(ev.read(batch, schema=data.schema)) for batch in batches}) == len(batches)


def test_a_batch_larger_than_memory_has_the_same_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make.dataset([3, 0, 50, 7, 1, 90])
    expected = batch_identity(data)
    monkeypatch.setattr(sequences, "BLOCK", 20)
    for in_memory in (1000, 80, 10, 1):
        monkeypatch.setattr(module, "IN_MEMORY", in_memory)
        assert batch_identity(data, tmp_path) == batch_identity(data[[5, 1, 0, 4, 3, 2]], tmp_path) == expected
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        batch_identity(data, tmp_path / "absent")  # so the files were there
