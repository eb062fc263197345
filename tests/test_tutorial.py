"""The tutorial's commands run one after the other, on the files that its first lines of Python write."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eventvec.cli import app
from test_docs import blocks, commands, text


@pytest.mark.slow  # the lines of Python run with those of every other document
def test_the_commands_of_the_tutorial_run_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tutorial = text("docs/tutorial.md")
    exec(compile(blocks(tutorial, "python")[0], "docs/tutorial.md", "exec"), {"__name__": "example"})
    seen = []
    for words in commands(tutorial):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"eventvec {' '.join(words)}: {result.output}"
        seen.append(words[0])
    assert {"diagnose", "fit", "embed", "evaluate", "update", "predict"} == set(seen)
    assert (tmp_path / "diagnose.html").is_file()
    assert (tmp_path / "tuned.parquet").is_file()
