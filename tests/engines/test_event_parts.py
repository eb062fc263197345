"""How the rows of files are divided: keys of every type, rows without a key, and files that change meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eventvec as ev
from eventvec.engines import event_parts, shards
from eventvec.engines.event_parts import chunks_of, parts_of, shards_of
from eventvec.engines.job import EngineOptions
from shard_cases import check_alike, events, make

TEXTS = pa.array([f"00000000-0000-0000-0000-{card:012d}" for card in (3, 500, 3)])
UUIDS = pa.array([bytes.fromhex(text.replace("-", "")) for text in TEXTS.to_pylist()], pa.binary(16))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    make(folder)
    return folder


def job_of(place: Path, table: Path) -> shards.Job:
    return shards._job(place / "run", table, None, place / "new", EngineOptions(shards=3), {}, {}, "cpu")


@pytest.mark.parametrize(
    "keys",
    [
        TEXTS.cast(pa.large_string()),
        TEXTS.cast(pa.string_view()),
        TEXTS.dictionary_encode(),
        UUIDS,
        UUIDS.cast(pa.binary()),
        pa.ExtensionArray.from_storage(pa.uuid(), UUIDS),
    ],
    ids=lambda keys: str(keys.type),
)
def test_a_key_of_any_type_has_the_shard_of_its_text(keys: pa.Array):
    expected = shards_of(pa.chunked_array([TEXTS]), 1000, "keys").tolist()
    assert expected[0] == expected[2] != expected[1]
    assert shards_of(pa.chunked_array([keys]), 1000, "keys").tolist() == expected


@pytest.mark.parametrize("kind", ["uuid", "string_view"])
def test_keys_that_pyarrow_cannot_encode_or_reorder_are_read(place: Path, tmp_path: Path, kind: str):
    cards = events()["card"].to_list()
    uuids = pa.array([card.to_bytes(16, "big") for card in cards], pa.binary(16))
    keys = {
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), uuids),
        "string_view": pa.array([str(card) for card in cards]).cast(pa.string_view()),
    }[kind]
    table = events().cast({"shop": pl.String}).drop("card").to_arrow().append_column("card", keys)
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=700)
    ev.embed_shards(place / "run", tmp_path / "events.parquet", tmp_path / "z", shards=3, workers=1)
    check_alike(ev.read_embeddings(tmp_path / "z"), ev.load(place / "run").embed(tmp_path / "events.parquet"))


def test_a_missing_key_is_named_by_its_row_in_the_file(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(event_parts, "ROWS", 1000)
    missing = pl.when(pl.int_range(pl.len()) == 5000).then(None).otherwise("card")
    events().with_columns(card=missing).write_parquet(tmp_path / "events.parquet", row_group_size=700)
    job = job_of(place, tmp_path / "events.parquet")
    with pytest.raises(ev.DataError, match=r"has 1 missing values \(first at row 5,000\)"):
        _ = [list(chunks_of(job, part, ())) for part in parts_of(job)]


def test_a_file_that_changes_while_it_is_read_is_refused(place: Path, tmp_path: Path):
    file = tmp_path / "events.parquet"
    events().write_parquet(file)
    job = job_of(place, file)
    chunks = chunks_of(job, parts_of(job)[0], ())
    next(chunks)
    os.utime(file, (1, 1))
    with pytest.raises(ev.DataError, match=r"events.parquet changed since the job began; give the command again"):
        list(chunks)
