"""A store is complete or it is none: what interrupted builds and damage leave, and who builds it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import eventvec as ev
from eventvec.tables import mapped

OPTIONS: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.parquet"
    pl.DataFrame({"card": np.arange(100) % 7, "day": np.arange(100), "paid": np.ones(100)}).write_parquet(path)
    return path


@pytest.mark.parametrize("damage", ["empty", "cut", "fewer"])
def test_damaged_keys_are_one_sentence(damage: str, path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    ev.read(path, store=folder, **OPTIONS)
    keys = folder / "keys.arrow"
    if damage == "fewer":
        table = pa.table({"key": pa.array(range(6))})
        with pa.OSFile(str(keys), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
    else:
        keys.write_bytes(keys.read_bytes()[:200] if damage == "cut" else b"")
    with pytest.raises(ev.CheckpointError, match="is damaged; delete the folder"):
        ev.read(path, store=folder, **OPTIONS)


def test_nothing_of_an_interrupted_build_remains_in_the_next(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    (folder / "work").mkdir(parents=True)
    for name in ("77.bin", "work/3.bin"):
        (folder / name).write_bytes(b"half")
    ev.read(path, store=folder, **OPTIONS)
    assert sorted(file.name for file in folder.iterdir()) == [
        *(f"{i}.bin" for i in range(4)),
        "keys.arrow",
        "store.json",
    ]


@pytest.mark.parametrize("other", ["equal", "different", "memory"])
def test_a_store_that_another_process_built_meanwhile_is_opened_or_refused_and_never_replaced(
    other: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, building = tmp_path / "store", mapped.building
    source = pl.read_parquet(path) if other == "memory" else path
    options = {**OPTIONS, "until": 50} if other == "different" else OPTIONS
    files: list[dict[str, bytes]] = []

    def late(place: Path) -> AbstractContextManager[Path | None]:
        monkeypatch.setattr(mapped, "building", building)
        ev.read(source, store=folder, **options)
        files.append({file.name: file.read_bytes() for file in folder.iterdir()})
        return building(place)

    monkeypatch.setattr(mapped, "building", late)
    if other == "equal":
        assert ev.read(source, store=folder, **OPTIONS).fingerprint == ev.read(path, **OPTIONS).fingerprint
    else:
        message = "was made from other events, columns or options" if other == "different" else "cannot be told"
        with pytest.raises(ev.ConfigError, match=message):
            ev.read(source, store=folder, **OPTIONS)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == files[0]


def test_a_store_that_is_finished_while_another_process_waits_for_its_lock_is_not_built_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, locked = tmp_path / "store", mapped.locked

    def late(place: Path) -> AbstractContextManager[bool]:
        monkeypatch.setattr(mapped, "locked", locked)
        ev.read(path, store=folder, **OPTIONS)
        return locked(place)

    monkeypatch.setattr(mapped, "locked", late)
    with mapped.building(folder) as work:
        assert work is None
