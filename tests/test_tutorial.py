"""The commands of the tutorial and other pages run in order, on the files that their Python writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eventvec.cli import app
from test_docs import blocks, commands, text


@pytest.mark.slow  # test_docs runs its Python, as for every document
def test_the_commands_of_the_tutorial_run_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tutorial = text("docs/tutorials/receipts.md")
    exec(compile(blocks(tutorial, "python")[0], "docs/tutorials/receipts.md", "exec"), {"__name__": "example"})
    used = []
    for words in commands(tutorial):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"eventvec {' '.join(words)}: {result.output}"
        used.append(words[0])
    assert {"fit", "embed", "evaluate", "update", "predict"} == set(used)
    assert (tmp_path / "tuned.parquet").is_file()


@pytest.mark.parametrize(
    "page",
    [
        "who",
        "next",
        "progress",
        "value",
        "words",
        "experts",
        "columns",
        "privacy",
        "report",
        "compare-runs",
        "snapshots",
    ],
)
def test_the_commands_of_a_page_run_in_its_order(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page == "words":
        pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    document = text(f"docs/how-to/{page}.md")
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks(document, "python"):
        exec(compile(block, f"docs/how-to/{page}.md", "exec"), names)
    for block in blocks(document, "toml"):
        Path("config.toml").write_text(block)
    lines = list(commands(document))
    assert lines
    for words in lines:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"eventvec {' '.join(words)}: {result.output}"
