"""A store is complete or it is none: what interrupted builds and damage leave, and who builds it."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import eventvec as ev
from eventvec.tables import mapped
from stores import table

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
        fewer = pa.table({"key": pa.array(range(6))})
        with pa.OSFile(str(keys), "wb") as sink, pa.ipc.new_file(sink, fewer.schema) as file:
            file.write_table(fewer)
    else:
        keys.write_bytes(keys.read_bytes()[:200] if damage == "cut" else b"")
    with pytest.raises(ev.CheckpointError, match=r"damaged: keys.arrow \(the keys\) is not what .*; delete the folder"):
        ev.read(path, store=folder, **OPTIONS)


@pytest.mark.parametrize("damage", ["link", "folder"])
def test_an_index_that_is_no_file_is_one_sentence(damage: str, path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    ev.read(path, store=folder, **OPTIONS)
    (folder / "store.json").unlink()
    if damage == "link":
        (folder / "store.json").symlink_to("nowhere")
    else:
        (folder / "store.json").mkdir()
    with pytest.raises(ev.CheckpointError, match=r"damaged: store.json is no file; delete the folder"):
        ev.read(path, store=folder, **OPTIONS)


EVERY: dict[str, Any] = {
    "key": "card", "time": "day", "categorical": ["shop"], "numeric": ["paid"], "summed": ["items"], "texts": ["text"],
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    table().write_parquet(tmp_path / "every.parquet")
    ev.read(tmp_path / "every.parquet", store=tmp_path / "every", **EVERY)
    assert mapped.verify(tmp_path / "every")["files"] == len(list((tmp_path / "every").iterdir()))
    return tmp_path / "every"


def flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def file_of(store: Path, *names: str) -> str:
    entry = json.loads((store / "store.json").read_text())["arrays"]
    for name in names:
        entry = entry[name]
    return str(entry["file"])


@pytest.mark.parametrize(
    ("names", "bit", "what"),
    [
        (("lengths",), 40, r"bin \(the lengths of the histories\) is not what the build wrote"),
        (("columns", "shop"), 31, r"bin \(column 'shop'\) has codes outside its vocabulary"),
        (("columns", "shop"), 10, r"bin \(column 'shop'\) has codes outside its vocabulary"),
        (("columns", "items", "columns", "code"), 40, r"bin \(column 'items'\) has codes outside its vocabulary"),
        (("columns", "items", "starts"), 62, r"bin \(column 'items'\) has windows outside its values"),
        (("columns", "text", "lengths"), 40, r"bin \(column 'text'\) has windows outside its values"),
    ],
)
def test_a_flipped_bit_that_would_address_memory_is_found_at_opening(
    names: tuple[str, ...], bit: int, what: str, store: Path
) -> None:
    flip(store / file_of(store, *names), bit)
    with pytest.raises(ev.CheckpointError, match=rf"^the store .* is damaged: .*{what}; delete the folder, and read"):
        ev.read(store.with_suffix(".parquet"), store=store, **EVERY)


def test_verifying_finds_a_flipped_bit_in_any_file_and_names_its_column(store: Path) -> None:
    columns = {name: file_of(store, "columns", name) for name in ("time", "gap", "shop", "paid")}
    columns |= {name: file_of(store, "columns", name, "lengths") for name in ("items", "text")}
    columns["text"] = file_of(store, "columns", "text", "columns", "bytes")
    for name, file in columns.items():
        flip(store / file, 800)
        with pytest.raises(ev.CheckpointError, match=rf"damaged: {file} \(column '{name}'\) is not what the build"):
            mapped.verify(store)
        flip(store / file, 800)
    mapped.verify(store)
    for file in (columns["paid"], "keys.arrow"):
        (store / file).unlink()
    with pytest.raises(ev.CheckpointError, match=r"keys.arrow \(the keys\), \d+.bin \(column 'paid'\) are not what"):
        mapped.verify(store)


@pytest.mark.parametrize("change", ["vocabulary", "outside", "shared", "note"])
def test_an_index_that_the_build_did_not_write_is_refused(change: str, store: Path) -> None:
    index = json.loads((store / "store.json").read_text())
    if change == "vocabulary":
        index["schema"]["categorical"][0]["values"].reverse()
    elif change == "note":
        index["notes"].append("all is well")
    else:
        paid, gap = (index["arrays"]["columns"][name] for name in ("paid", "gap"))
        paid["file"] = gap["file"] if change == "shared" else f"../{store.name}/{paid['file']}"
        index["sha256"] = mapped._digest_of_index({name: part for name, part in index.items() if name != "sha256"})
    (store / "store.json").write_text(json.dumps(index))
    message = r"damaged: store\.json is not what the build wrote; delete the folder"
    with pytest.raises(ev.CheckpointError, match=message):
        ev.read(store.with_suffix(".parquet"), store=store, **EVERY)
    with pytest.raises(ev.CheckpointError, match=message):
        mapped.verify(store)


def test_only_a_store_can_be_verified(tmp_path: Path) -> None:
    with pytest.raises(ev.CheckpointError, match=r"has no store; name a folder that read\(store=\)"):
        mapped.verify(tmp_path)


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
        message = "was made from other events, columns or options" if other == "different" else "nothing shows whether"
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
