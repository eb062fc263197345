"""A file to write never replaces an input, a run, a store, or a file that eventvec did not write."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import eventvec as ev
from eventvec.cli import app
from eventvec.errors import ConfigError
from eventvec.tables.outputs import check_output, check_place

LONG = "n" * 300
"""A name that no file may have."""
ROLES = ("--key", "id", "--time", "t")
EVENTS = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with events in a file and in a folder, a run, and a store."""
    path = tmp_path_factory.mktemp("outputs")
    EVENTS.write_parquet(path / "e.parquet")
    (path / "drops").mkdir()
    EVENTS.write_parquet(path / "drops" / "1.parquet")
    run = ev.fit(ev.read(EVENTS, key="id", time="t", numeric=["v"]), method="ocp", epochs=1, out=path / "run")
    ev.update(run, EVENTS, path / "s.db")
    (path / "diary.txt").write_text("mine")
    (path / "link.parquet").symlink_to(path / "elsewhere.parquet")
    os.mkfifo(path / "pipe")
    return path


@pytest.mark.parametrize("name", ["z.csv", "z.CSV.gz", "z.feather", "folder/z.xlsx"])
def test_a_table_is_not_written_under_the_name_of_another_format(name: str, tmp_path: Path) -> None:
    table = EVENTS.to_arrow()
    message = r"output is Parquet or a database table; name a file that ends in \.parquet"
    with pytest.raises(ConfigError, match=f"{name}: {message}"):
        ev.write(tmp_path / name, table)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("frame", "verb"), [(EVENTS, "write_parquet"), (EVENTS.to_pandas(), "to_parquet")])
def test_a_frame_is_told_to_write_itself(frame: object, verb: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"got DataFrame; a frame writes itself: frame\.{verb}\(path\)"):
        ev.write(tmp_path / "z.parquet", frame)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("update", "run", "e.parquet", "--state", "s.db", "-o", "s.db"), "is an input"),
        (("update", "run", "e.parquet", "--state", "s.db", "-o", "s.db-wal"), "is an input"),
        (("update", "run", "e.parquet", "--state", "s.db", "-o", "run/fresh.parquet"), "is an input"),
        (("embed", "run", "e.parquet", "-o", "e.parquet"), "is an input"),
        (("embed", "run", "drops/*.parquet", "-o", "drops/1.parquet"), "is an input"),
        (("embed", "run", "drops", "-o", "drops/z.parquet"), "lies in the folder drops, which is an input"),
        (("embed", "run", "e.parquet", "-o", "run/model.safetensors"), "lies in the folder run"),
        (("embed", "run", "e.parquet", "-o", "./run/../e.parquet"), "is an input"),
        (("embed", "run", "drops", "-o", "e.parquet"), "was not written by eventvec"),
        (("embed", "run", "e.parquet", "-o", "diary.txt"), "was not written by eventvec"),
        (("embed", "run", "e.parquet", "-o", "s.db"), "was not written by eventvec"),
        (("embed", "run", "e.parquet", "-o", "link.parquet"), "is a link, a pipe or a device"),
        (("embed", "run", "e.parquet", "-o", "pipe"), "is a link, a pipe or a device"),
        (("embed", "run", "e.parquet", "-o", "/dev/null"), "is a link, a pipe or a device"),
        (("embed", "run", "e.parquet", "-o", "drops"), "is a folder"),
        (
            ("embed", "absent", "absent", "-o", LONG),
            f"{LONG} cannot be written: File name too long; name another place",
        ),
        (("embed", "absent", "absent", "-o", f"new/{LONG}/z.parquet"), "cannot be written: File name too long"),
        (("predict", "absent", "absent", "-o", "/proc/z.parquet"), "/proc/z.parquet cannot be written: "),
        (("predict", "absent", "absent", "-o", "e.parquet/z.parquet"), "lies below a file"),
        (("update", "absent", "absent", "--state", "t.db", "-o", LONG), "cannot be written: File name too long"),
        (("update", "absent", "absent", "--state", LONG, "-o", "z.parquet"), "cannot be written: File name too long"),
        (
            ("drift", "absent", "absent", "--key", "id", "--time", "t", "-o", LONG),
            "cannot be written: File name too long",
        ),
        (("drift", "absent", "absent", *ROLES, "-o", "/proc/new/x.html"), "cannot be written: "),
        (("fit", "--events", "absent", "--key", "id", "--time", "t", "--out", LONG), "File name too long"),
        (("fit", "--events", "absent", "--key", "id", "--time", "t", "--out", "/proc/run"), "cannot be written: "),
        (("fit", "--events", "absent", "--key", "id", "--time", "t", "--out", "e.parquet/run"), "lies below a file"),
        (("drift", "e.parquet", "f.parquet", *ROLES, "-o", "e.parquet"), "is an input"),
        (
            ("drift", "e.parquet", "f.parquet", "--key", "id", "--time", "t", "-o", "run/x.html"),
            "lies in the model folder",
        ),
        (
            ("drift", "e.parquet", "f.parquet", "--key", "id", "--time", "t", "-o", "diary.txt"),
            "was not written by eventvec",
        ),
    ],
)
def test_an_output_that_would_destroy_something_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(folder)
    before = contents(folder)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert contents(folder) == before


def test_what_eventvec_wrote_is_replaced_and_the_rest_when_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for extra, name in ((), "z.parquet"), ((), "z.parquet"), (("--overwrite",), "other.txt"), ((), "other.txt"):
        Path("other.txt").touch()
        if name == "other.txt" and extra:
            Path(name).write_text("not mine")
        result = CliRunner().invoke(app, ["embed", "run", "e.parquet", "-o", name, *extra])
        assert result.exit_code == 0, result.output
        assert len(ev.read_embeddings(name)) == 2


def test_write_refuses_a_file_of_others_too(tmp_path: Path) -> None:
    run = ev.fit(ev.read(EVENTS, key="id", time="t", numeric=["v"]), method="ocp", epochs=1)
    z = run.embed(EVENTS)
    EVENTS.write_parquet(tmp_path / "e.parquet")
    with pytest.raises(ConfigError, match="was not written by eventvec"):
        ev.write(tmp_path / "e.parquet", z)
    assert pl.read_parquet(tmp_path / "e.parquet").equals(EVENTS)
    ev.write(tmp_path / "e.parquet", z, overwrite=True)
    ev.write(tmp_path / "e.parquet", z)


def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for place in ("z.parquet", "run", "new/folder/z.parquet"):
        check_place(tmp_path / place)
    check_place("/")
    with pytest.raises(ConfigError, match="cannot be written: embedded null byte; name another place to write"):
        check_output(tmp_path / "a\0b")
    with pytest.raises(ConfigError, match="cannot be written: 'utf-8' codec can't encode"):
        check_output(tmp_path / "\udcc3\udca9.parquet")  # two bytes that are not ASCII, where the locale is
    assert [path.name for path in tmp_path.rglob("*")] == ["run"]


def test_objects_in_memory_are_no_places(tmp_path: Path) -> None:
    check_output(tmp_path / "z.parquet", [EVENTS, None, 3])
