"""Pages show what their commands print: stored results, the tables of pages, and cells that are computed anew."""

from __future__ import annotations

import importlib
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from experiments.command_line import command
from experiments.stored_results import HERE, differences, markdown, names, page_of, pictures, rendered, store, stored
from tests.experiments.test_small_modes import WITHOUT_DATA

TOLERANCE = 0.002
"""The largest difference between CPUs of what needs no training of a network."""
TRAINED = 0.05
"""The largest difference between CPUs of the small modes, in which few steps of networks are trained."""
RESULTS = [(name, file) for name in names() for file in stored(name)]
CELLS = [(name, file) for name in names() for file in page_of(name).cells]


@pytest.mark.parametrize("name", names())
def test_the_tables_of_a_page_are_those_of_the_stored_results(name: str) -> None:
    page = (HERE / name / "README.md").read_text()
    assert rendered(name) == page, f"run: python -m experiments.stored_results {name}"
    for file, picture in pictures(name).items():
        assert (HERE / name / file).read_text() == picture


@pytest.mark.parametrize(("name", "file"), RESULTS)
def test_a_stored_result_names_a_command_that_there_is_and_its_commit(name: str, file: str) -> None:
    result = stored(name)[file]
    module, table = shlex.split(result.command)[2:4]
    assert module == f"experiments.{name}"
    assert table in importlib.import_module(f"{module}.__main__").TABLES
    assert f"`{result.command}`, commit {result.about['commit']}" in (HERE / name / "README.md").read_text()
    assert "changes" not in result.about["commit"]
    shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=HERE, capture_output=True, text=True, check=False
    )
    if shallow.stdout.strip() == "false":
        subprocess.run(["git", "cat-file", "-e", f"{result.about['commit']}^{{commit}}"], cwd=HERE, check=True)


@pytest.mark.parametrize(("name", "file"), CELLS)
def test_cells_computed_anew_are_the_stored_ones(name: str, file: str) -> None:
    rows = page_of(name).cells[file]()
    assert rows
    assert not differences(rows, stored(name)[file].rows, TOLERANCE)


SMALL = [
    pytest.param(name, file, marks=() if (name, file.partition("-")[0]) in WITHOUT_DATA else pytest.mark.data)
    for name, file in RESULTS
    if stored(name)[file].small is not None
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file"), SMALL)
def test_the_small_mode_prints_what_is_stored_of_it(
    name: str, file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What a table reads, such as a sampler, may have changed since its full result was stored."""
    result = stored(name)[file]
    monkeypatch.setattr(sys, "argv", [*shlex.split(result.command)[2:], "--small", "--json"])
    monkeypatch.chdir(tmp_path)
    importlib.import_module(f"experiments.{name}.__main__").main()
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert result.small is not None
    assert len(rows) == len(result.small)
    assert not differences(rows, result.small, TRAINED)


def test_a_number_that_parts_from_the_stored_one_is_told() -> None:
    old = [{"method": "a", "pairs": 50, "score": 0.5, "seconds": 2.0}, {"method": "b", "pairs": 50, "score": 0.5}]
    assert not differences([{"method": "a", "pairs": 50, "score": 0.501, "seconds": 9.0}], old, 0.002)
    (line,) = differences([{"method": "b", "pairs": 50, "score": 0.51}], old, 0.002)
    assert "score is 0.51, stored 0.5" in line
    (line,) = differences([{"method": "b", "pairs": 60, "score": 0.5}], old, 0.002)
    assert "no stored row" in line


def test_what_a_command_prints_is_stored_with_its_small_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.stored_results.HERE", tmp_path)
    (tmp_path / "x").mkdir()
    rows = [{"a": 1 / 3, "b": "yes", "c": None}, {"a": float("nan"), "b": "no", "c": 12000}]
    about = {"commit": "abc", "note": "taken from the page"}
    told = {**about, "small": False, "keep": Path("/home/me/runs")}
    store("x", "t", "python -m experiments.x t", told, rows, small=False)
    store("x", "t", "python -m experiments.x t", {"commit": "def"}, rows[:1], small=True)
    result = stored("x")["t"]
    assert result.about == about
    assert len(result.rows) == 2
    assert result.small == [{"a": 0.33333333, "b": "yes", "c": None}]
    (tmp_path / "x" / "README.md").write_text("Text.\n\n<!-- table t -->\n<!-- end -->\n\nMore.\n")
    page = rendered("x")
    assert page.splitlines()[2:6] == ["<!-- table t -->", *markdown(result.rows)[:3]]
    assert "`python -m experiments.x t`, commit abc, taken from the page." in page
    (tmp_path / "x" / "README.md").write_text(page)
    assert rendered("x") == page


def test_the_command_of_a_table_says_its_options_and_no_folder_of_this_machine() -> None:
    assert command("x", "t", {}) == "python -m experiments.x t"
    values = {"seeds": "0,1", "kinds": ["panel", "no times"], "keep": "/home/me/runs"}
    assert command("x", "t", values) == "python -m experiments.x t --seeds 0,1 --kinds panel 'no times' --keep runs"


def test_rows_with_other_columns_are_refused_and_bars_do_not_end_a_cell() -> None:
    assert markdown([{"a": "x|y", "b": -0.0001}])[2] == "| x\\|y | .000 |"
    with pytest.raises(ValueError, match=r"columns \['b'\]"):
        markdown([{"a": 1}, {"b": 2}])
