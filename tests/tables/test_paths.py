"""Paths that name no file are refused, each with its reason; no part of a folder is left out silently."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest

from eventvec.cli import app
from eventvec.errors import DataError
from eventvec.tables import read
from eventvec.tables.paths import files_of


def refusal(path: object) -> str:
    """Return the message with which a path is refused."""
    with pytest.raises(DataError) as caught:
        files_of(str(path))
    return str(caught.value)


def test_an_empty_path_is_refused_and_not_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pl.DataFrame({"card": [1], "at": [1]}).write_parquet(tmp_path / "events.parquet")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="the path is empty; give a Parquet or CSV file, a folder or a glob"):
        read("", key="card", time="at")
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, ["embed", "run", "", "-o", "z.parquet"])
    assert (result.exit_code, "it is empty" in result.output) == (2, True)


def test_links_to_missing_files_pipes_and_devices_are_refused(tmp_path: Path):
    (tmp_path / "events.parquet").symlink_to(tmp_path / "gone.parquet")
    assert refusal(tmp_path / "events.parquet").endswith(
        "events.parquet is a link to a file that does not exist; give a Parquet or CSV file, a folder or a glob"
    )
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "is a link to a file that does not exist" in refusal(tmp_path / "loop")
    assert "null is a pipe or a device" in refusal(os.devnull)
    (tmp_path / "alias.csv").write_text("card,at\n1,2\n")
    (tmp_path / "good.csv").symlink_to(tmp_path / "alias.csv")
    assert files_of(str(tmp_path / "good.csv")) == [tmp_path / "good.csv"]


def test_a_folder_or_glob_with_a_link_to_a_missing_file_is_refused_whole(tmp_path: Path):
    frame = pl.DataFrame({"card": [1], "at": [1]})
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_parquet(tmp_path / "b.parquet")
    shutil.move(tmp_path / "b.parquet", tmp_path / "elsewhere")
    (tmp_path / "b.parquet").symlink_to(tmp_path / "absent")
    for path in (tmp_path, tmp_path / "*.parquet"):
        assert "b.parquet is a link to a file that does not exist, a pipe or a device; remove it" in refusal(path)


def test_a_folder_of_mixed_files_is_read_as_parquet(tmp_path: Path):
    pl.DataFrame({"card": [1], "at": [1]}).write_parquet(tmp_path / "a.parquet")
    for name in ("b.csv", "notes.txt", "_SUCCESS", ".hidden.parquet"):
        (tmp_path / name).write_text("x")
    (tmp_path / "c.parquet").mkdir()
    assert files_of(str(tmp_path)) == [tmp_path / "a.parquet"]


@pytest.mark.parametrize("path", ["a" * 5000, "~nobody-of-this-name/x.parquet", "a\0.csv", "a\udcff.csv", "  "])
def test_paths_that_cannot_exist_are_refused(path: str):
    message = refusal(path)
    assert "cannot be opened" in message or "does not exist" in message
    assert message.isprintable()


def lake(folder: Path, log: str) -> Path:
    """Return the folder of a table of two Parquet files, one of which was replaced, with the last entry of a log."""
    for place, price in (("date=2024/part-0.parquet", 1.0), ("date=2024/part-1.parquet", 2.0)):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame({"card": [1], "at": [1], "price": [price]}).write_parquet(folder / place)
    (folder / log).parent.mkdir()
    removed = {"remove": {"path": "date=2024/part-0.parquet", "dataChange": True}}
    (folder / log).write_text(json.dumps(removed))
    return folder


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("_delta_log/00000000000000000001.json", ["is a Delta Lake table", "the path of this folder alone"]),
        ("metadata/00001-6f2a.metadata.json", ["is an Iceberg table", "iceberg_scan('"]),
        ("metadata/v2.metadata.json", ["is an Iceberg table", "pyiceberg"]),
    ],
)
def test_a_delta_lake_or_iceberg_table_is_refused_with_the_way_to_read_it(
    tmp_path: Path, log: str, expected: list[str]
):
    """Its files hold deleted rows too, which were read silently."""
    table = lake(tmp_path / "warehouse" / "sales", log)
    (tmp_path / "link").symlink_to(table / "date=2024")
    paths = (
        table, table / "date=2024", table / "*" / "*.parquet", tmp_path / "warehouse", tmp_path / "link",
        tmp_path / "**" / "*.parquet",
    )  # fmt: skip
    for path in paths:
        message = refusal(path)
        assert message.startswith(str(table.resolve()))
        assert all(part in message for part in expected)
    assert files_of(str(table / "date=2024/part-1.parquet")) == [table / "date=2024/part-1.parquet"]
    with pytest.raises(DataError, match=r"and pass the result or write it to a Parquet file|cannot be used"):
        read(table, key="card", time="at")


def test_a_folder_of_metadata_beside_parquet_files_is_no_table(tmp_path: Path):
    pl.DataFrame({"card": [1], "at": [1]}).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "dataset.json").write_text("{}")
    (tmp_path / "_delta_log").write_text("a file of this name is no log")
    assert files_of(str(tmp_path)) == [tmp_path / "a.parquet"]
    assert files_of(str(tmp_path / "*.parquet")) == [tmp_path / "a.parquet"]


def test_files_are_named_only_if_their_names_are_near_and_a_time_is_no_path(tmp_path: Path):
    for name in ("events.parquet", "other.csv"):
        (tmp_path / name).write_text("")
    assert "did you mean 'events.parquet'? accepted: events.parquet, other.csv" in refusal(tmp_path / "event.parquet")
    assert refusal(tmp_path / "zzz").endswith("zzz does not exist; give a Parquet or CSV file, a folder or a glob")
    cards = pl.DataFrame({"card": ["a"], "at": ["2024-01-01"]})
    for time in ("2024-05-01", "2024-05-01T12:00"):
        with pytest.raises(
            DataError, match=f'{time} does not exist; give a table; for one time for all: until="{time}"'
        ):
            read(cards, key="card", time="at", cutoffs=time, cutoff_column="at")
