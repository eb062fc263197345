"""The commands of the tutorial run in order, on the files that its first block of Python writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eventvec.cli import app
from test_docs import blocks, commands, text


@pytest.mark.slow  # test_docs runs its Python, as for every document
def test_the_commands_of_the_tutorial_run_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tutorial = text("docs/tutorial.md")
    exec(compile(blocks(tutorial, "python")[0], "docs/tutorial.md", "exec"), {"__name__": "example"})
    used = []
    for words in commands(tutorial):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"eventvec {' '.join(words)}: {result.output}"
        used.append(words[0])
    assert {"diagnose", "fit", "embed", "evaluate", "update", "predict"} == set(used)
    assert (tmp_path / "diagnose.html").is_file()
    assert (tmp_path / "tuned.parquet").is_file()
