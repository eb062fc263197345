"""Atomic writes, locks, the tree of errors, and the names that messages suggest."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import processes
from eventvec import errors, files, interrupts
from eventvec.errors import CheckpointError, ConfigError, DataError, EventvecError, EventvecWarning, nearest, need
from eventvec.files import locked, sweep, whole

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


@pytest.mark.parametrize(
    "error", [lambda draft: OSError(28, "No space left", draft), lambda draft: OSError(f"No space left for {draft}")]
)
def test_an_error_of_the_machine_names_the_file_and_not_its_draft(tmp_path, error):
    path = tmp_path / "a.txt"
    with pytest.raises(OSError, match=r"No space left") as raised, whole(path) as draft:
        raise error(str(draft))
    assert str(raised.value).startswith(f"{path} cannot be written and is as it was before: No space left")
    assert "draft" not in str(raised.value)


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


@contextmanager
def process(function: Callable[[Path, Connection], None], path: Path) -> Iterator[tuple[Any, Connection]]:
    """Yield a process that calls a function, after its first message, and the other end; it is killed at the end."""
    ours, theirs = Pipe()
    child = processes.start(function, path, theirs)
    theirs.close()
    try:
        ours.recv()
        yield child, ours
    finally:
        child.kill()
        child.join()


def write_slowly(path: Path, other: Connection) -> None:
    with whole(path) as draft:
        draft.write_text("half")
        other.send("ready")
        other.recv()
        draft.write_text("whole")


def test_a_killed_writer_leaves_the_old_file_and_the_next_one_deletes_its_draft(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with process(write_slowly, path):
        pass
    assert path.read_text() == "old"
    assert len(os.listdir(tmp_path)) == 2
    with whole(tmp_path / "b.txt") as draft:
        draft.write_text("another file")
    assert len(os.listdir(tmp_path)) == 3
    with whole(path) as draft:
        assert len(os.listdir(tmp_path)) == 3
        draft.write_text("new")
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt"]


def write_a_folder_slowly(path: Path, other: Connection) -> None:
    with files.draft_of(path.parent, path.name, is_folder=True) as draft:
        (draft / "inside").mkdir()
        (draft / "inside" / "half").write_text("half")
        other.send("ready")
        other.recv()
        draft.rename(path)


def test_the_draft_of_a_folder_is_deleted_after_its_writer_was_killed_and_not_before(tmp_path):
    path = tmp_path / "model"
    (tmp_path / ".model.of-mine.draft").mkdir()  # its name is none of a draft
    with process(write_a_folder_slowly, path) as (writer, other):
        sweep(tmp_path)
        with files.draft_of(tmp_path, "model", is_folder=True):
            assert len(os.listdir(tmp_path)) == 3
        other.send("go on")
        writer.join()
        assert writer.exitcode == 0
    assert (path / "inside" / "half").read_text() == "half"
    assert mode(path) == "0o700"
    with process(write_a_folder_slowly, tmp_path / "other"):
        pass
    assert len(os.listdir(tmp_path)) == 3
    with files.draft_of(tmp_path, "other", is_folder=True):
        assert len(os.listdir(tmp_path)) == 3
    assert sorted(os.listdir(tmp_path)) == [".model.of-mine.draft", "model"]


def test_the_draft_of_a_living_process_is_not_deleted(tmp_path):
    path = tmp_path / "a.txt"
    with process(write_slowly, path) as (writer, other):
        sweep(tmp_path)
        with whole(path) as draft:
            draft.write_text("faster")
        assert path.read_text() == "faster"
        other.send("go on")
        writer.join()
        assert writer.exitcode == 0
    assert path.read_text() == "whole"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_file_that_exists_stays_where_it_is_not_replaced(tmp_path):
    path = tmp_path / "a.txt"
    for text in ("first", "second"):
        with whole(path, replace=False) as draft:
            draft.write_text(text)
    assert path.read_text() == "first"
    assert mode(path) == "0o600"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_name_as_long_as_the_file_system_allows_can_be_written(tmp_path):
    for name in ("a" * 255, "é" * 127):
        with whole(tmp_path / name) as draft:
            draft.write_text("here")
        assert (tmp_path / name).read_text() == "here"


def test_a_file_that_cannot_be_written_is_named_in_the_message(tmp_path):
    with (
        pytest.raises(
            FileNotFoundError, match=r"missing/a.txt cannot be written and is as it was before: No such file"
        ),
        whole(tmp_path / "missing" / "a.txt"),
    ):
        pass


def keep_locked(folder: Path, other: Connection) -> None:
    with locked(folder) as free:
        other.send(free)
        other.recv()


def test_a_lock_ends_with_its_process_and_a_refused_process_leaves_it(tmp_path):
    folder = tmp_path / "run"
    with process(keep_locked, folder):
        with locked(folder) as free:
            assert not free
        assert os.listdir(folder) == [".lock"]
    with locked(folder) as free:
        assert free
    assert os.listdir(folder) == []


def test_a_lock_file_that_cannot_be_deleted_is_no_error(tmp_path, monkeypatch):
    def unlink(path, missing_ok=False):
        raise PermissionError("the file is open")  # as on Windows

    monkeypatch.setattr(Path, "unlink", unlink)
    with locked(tmp_path / "run") as free:
        assert free
    with locked(tmp_path / "run") as free:
        assert free


def test_a_folder_that_was_made_for_a_lock_is_deleted_if_it_stays_empty(tmp_path):
    with locked(tmp_path / "new"):
        assert (tmp_path / "new").is_dir()
    assert not (tmp_path / "new").exists()
    with locked(tmp_path / "new"):
        (tmp_path / "new" / "file").touch()
    assert os.listdir(tmp_path / "new") == ["file"]


# Errors


def test_every_error_is_an_eventvec_error_and_in_the_tree():
    classes = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert classes > {EventvecError, DataError, ConfigError, CheckpointError, EventvecWarning}
    classes.remove(EventvecWarning)
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


def test_a_signal_can_delete_drafts_from_before_they_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[tuple[str, bool]] = []
    really_open = os.open

    def watched(path: str | Path, *arguments: int) -> int:
        known.append((str(path), str(path) in interrupts.temporary))
        return really_open(path, *arguments)

    monkeypatch.setattr(os, "open", watched)
    with files.draft_of(tmp_path, "a.txt") as draft:
        assert known == [(str(draft), True)]
    assert str(draft) not in interrupts.temporary
    with pytest.raises(FileNotFoundError), files.draft_of(tmp_path / "absent", "a.txt"):
        pass
    assert not [path for path in interrupts.temporary if path.startswith(str(tmp_path))]
