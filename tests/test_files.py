"""Atomic writes, the tree of errors, and the names that messages suggest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventvec import errors
from eventvec.errors import CheckpointError, ConfigError, DataError, EventvecError, nearest, need
from eventvec.files import whole

# Files


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def test_a_file_appears_at_the_end_and_for_its_owner_only(tmp_path):
    path, umask = tmp_path / "a.json", os.umask(0)
    try:
        with whole(path) as draft:
            draft.write_text("half")
            assert not path.exists()
            assert (draft.parent, mode(draft)) == (tmp_path, "0o600")
            draft.write_text("whole")
    finally:
        os.umask(umask)
    assert path.read_text() == "whole"
    assert mode(path) == "0o600"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_relative_path_is_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with whole("b.txt") as draft:
        draft.write_text("here")
    assert (tmp_path / "b.txt").read_text() == "here"


def test_a_draft_that_its_writer_replaced_has_mode_0600(tmp_path):
    path = tmp_path / "a.bin"
    with whole(path) as draft:
        replacement = tmp_path / "replacement"
        replacement.write_bytes(b"new")
        replacement.chmod(0o666)
        replacement.replace(draft)  # as writers do that make a temporary file themselves
    assert path.read_bytes() == b"new"
    assert mode(path) == "0o600"


@pytest.mark.parametrize("before", [None, "old"])
def test_an_error_leaves_the_old_file(tmp_path, before):
    path = tmp_path / "a.txt"
    if before:
        path.write_text(before)

    def broken() -> None:
        with whole(path) as draft:
            draft.write_text("half")
            raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        broken()
    assert [file.read_text() for file in tmp_path.iterdir()] == ([before] if before else [])


def test_a_deleted_draft_is_an_error_and_an_unwritten_one_is_an_empty_file(tmp_path):
    def delete() -> None:
        with whole(tmp_path / "a.txt") as draft:
            draft.unlink()

    with pytest.raises(FileNotFoundError):
        delete()
    with whole(tmp_path / "empty") as _:
        pass
    assert (tmp_path / "empty").read_bytes() == b""
    assert os.listdir(tmp_path) == ["empty"]


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    code = (
        "import sys, time; from eventvec.files import whole\n"
        "with whole(sys.argv[1]) as draft:\n"
        "    draft.write_text('half'); time.sleep(3600)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
    try:
        while not any(file.read_text() == "half" for file in tmp_path.iterdir()):
            assert writer.poll() is None
            time.sleep(0.02)
    finally:
        writer.kill()
        writer.wait()
    assert path.read_text() == "old"


# Errors


def test_every_error_is_an_eventvec_error_and_in_the_tree():
    classes = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert classes == {EventvecError, DataError, ConfigError, CheckpointError}
    assert all(issubclass(error, EventvecError) for error in classes)
    assert set(re.findall(r"\w+Error\b", errors.__doc__)) == {error.__name__ for error in classes}


@pytest.mark.parametrize(
    ("name", "accepted", "message"),
    [
        ("colse", ["ocp", "coles"], "did you mean 'coles'? accepted: coles, ocp"),
        ("amont", {"amount", "amounts", "time"}, "did you mean 'amount' or 'amounts'? accepted: amount, amounts, time"),
        ("zzz", ["b", "a"], "accepted: a, b"),
        ("zzz", [], "accepted: none"),
        ("x", map(str, range(10, 35)), f"accepted: {', '.join(map(str, range(10, 30)))}, … (25 in all)"),
    ],
)
def test_nearest_names(name, accepted, message):
    assert nearest(name, accepted) == message


def test_need_returns_a_module_or_names_the_extra_that_installs_it():
    assert need("json.decoder", "eval") is sys.modules["json.decoder"]
    with pytest.raises(ConfigError, match=r"needs nowhere_at_all: pip install 'eventvec\[viz\]'"):
        need("nowhere_at_all.inside", "viz")
