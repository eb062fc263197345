"""Paths that name no file are refused, each with its reason; no part of a folder is left out silently."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import polars as pl
import pytest

from eventvec.cli.commands import app
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

    result = CliRunner().invoke(app, ["diagnose", "", "--key", "card", "--time", "at"])
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
