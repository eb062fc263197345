"""An output that exists is refused before the work, by every command that writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import invoke
from eventvec.cli.arguments import HEADINGS

TAKEN = "taken.parquet"
"""A file that eventvec did not write; `taken` is a folder with such a file."""
READING = ["absent.csv", "--key", "card", "--time", "when"]
LABELS = ["absent.csv", "--label", "churn"]
WRITES = {
    "fit": [["fit", "--events", *READING, "--out", "taken"],
            ["fit", "--events", *READING, "--labels", *LABELS, "--out", "taken"]],
    "labels": [["labels", *READING, "--every", "1mo", "--horizon", "1mo", "-o", TAKEN]],
    "compare": [["compare", *READING, *LABELS, "--out", "taken"],
                ["compare", *READING, *LABELS, "--out", "new", "--page", TAKEN]],
    "tune": [["tune", *READING, *LABELS, "--out", "taken"]],
    "features": [["features", *READING, "-o", TAKEN], ["features", *READING, "-o", "new.parquet", "--save", "taken"]],
    "embed": [["embed", "absent", "absent.csv", "-o", TAKEN],
              ["embed", "absent", "absent.csv", "-o", "taken", "--engine", "local"]],
    "update": [["update", "absent", "absent.csv", "--state", "new.db", "-o", TAKEN],
               ["update", "absent", "absent.csv", "--state", "new", "-o", "taken", "--engine", "local"]],
    "predict": [["predict", "absent", "absent.csv", "-o", TAKEN], ["predict", "predictor", "absent.csv", "-o", TAKEN]],
    "surprise": [["surprise", "absent", "absent.csv", "-o", TAKEN]],
    "search": [["search", "absent.index", "--save", TAKEN], ["search", "absent.index", "--key", "1", "-o", TAKEN]],
    "describe": [["describe", *READING, "-o", TAKEN], ["describe", *READING, "--save", TAKEN]],
    "export": [["export", "absent", "-o", TAKEN]],
    "report": [["report", "absent", "-o", TAKEN]],
    "card": [["card", "absent", "-o", TAKEN]],
    "evaluate": [["evaluate", "absent.parquet", *LABELS, "-o", TAKEN]],
    "decide": [["decide", "absent", "--action", "1", "--case", "2", "-o", TAKEN]],
    "drift": [["drift", "absent.csv", "absent.csv", "-o", TAKEN]],
    "audit": [["audit", "absent", "absent.csv", "-o", TAKEN]],
    "demo": [["demo", "--out", "taken"]],
}  # fmt: skip
NEITHER = {"doctor", "explain", "influence", "serve"}
"""The commands that write nothing, or continue what is there."""


def test_the_table_has_every_command() -> None:
    assert WRITES.keys() | NEITHER == {name for names in HEADINGS.values() for name in names}


@pytest.mark.parametrize(
    "arguments", [pytest.param(each, id=" ".join(each)) for calls in WRITES.values() for each in calls]
)
def test_an_output_that_exists_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("taken", "predictor"):
        (tmp_path / folder).mkdir()
    (tmp_path / TAKEN).write_text("mine")
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    (tmp_path / "predictor" / "model.json").write_text('{"format": 1, "kind": "predictor"}')
    before = sorted(tmp_path.rglob("*"))
    result = invoke(*arguments)
    printed = " ".join(result.stderr.split())
    assert result.exit_code in (1, 2), result.output
    assert "taken" in printed
    assert "exists and was not written by eventvec" in printed or "not empty" in printed, printed
    assert "absent" not in printed
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / TAKEN).read_text() == (tmp_path / "taken" / "notes.txt").read_text() == "mine"
