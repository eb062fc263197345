"""What the documents say is so: examples run, commands parse, named files and linked pages exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")})
SHELLS = ("sh", "bash", "shell", "console")


def text(name: str) -> str:
    path = ROOT / name
    if not path.is_file() or not path.read_text().strip():
        pytest.fail(f"{name} is missing or empty")
    return path.read_text()


def blocks(document: str, *languages: str) -> list[str]:
    """Return the fenced code blocks in one of the languages."""
    fenced = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", document, flags=re.MULTILINE | re.DOTALL)
    return [body for language, body in fenced if language in languages]


def commands(document: str) -> Iterator[list[str]]:
    """Yield the words of each `eventvec …` line in the shell blocks, without the program and what it is piped into."""
    for block in blocks(document, *SHELLS):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.strip().removeprefix("$ "), comments=True)
            if words and Path(words[0]).name == "eventvec":
                stop = next((i for i, word in enumerate(words) if word in ("|", ">", "&&", ";")), len(words))
                yield words[1:stop]


def unknown(words: list[str], command: Any) -> list[str]:
    """Return the words of a command line that the typer application does not know: commands and options."""
    wrong = []
    while words and hasattr(command, "commands"):
        if not words[0].startswith("-") and words[0] not in command.commands:
            return [words[0]]
        if not words[0].startswith("-"):
            command, words = command.commands[words[0]], words[1:]
        else:
            break
    options = {"--help"} | {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-?[\d.]+", word) and word.split("=")[0] not in options:
            wrong.append(word)
    return wrong


def modules_of(document: str) -> list[str]:
    """Return the files and folders in the first column of the table whose first heading is `module`."""
    table = re.search(r"^\| module .*\n\|[ |:-]+\n((?:\|.*(?:\n|$))+)", document, flags=re.MULTILINE)
    cells = [line.split("|")[1] for line in table[1].splitlines()] if table else []
    return [name for cell in cells for name in re.findall(r"`([\w.]+/?)`", cell)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks(path.read_text(), "python"):  # one after the other, as a reader would
        exec(compile(block, str(path), "exec"), names)


def test_the_readme_shows_python_and_the_command_line() -> None:
    readme = text("README.md")
    assert blocks(readme, "python"), "README.md has no ```python block"
    assert list(commands(readme)), "README.md shows no `eventvec …` command in a shell block"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist_with_their_options(path: Path) -> None:
    lines = list(commands(path.read_text()))
    if not lines:
        return
    typer_main = pytest.importorskip("typer.main")
    from eventvec.cli import app

    known = typer_main.get_command(app)
    assert {" ".join(words): unknown(words, known) for words in lines if unknown(words, known)} == {}


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    shown = {name for path in DOCUMENTS for name in re.findall(r"(?:^|`)make ([a-z]+)", path.read_text(), re.MULTILINE)}
    assert shown - targets == set()


def test_the_architecture_names_each_module_once_and_no_other() -> None:
    package = ROOT / "src" / "eventvec"
    files = {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    folders = {f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").is_file()}
    assert sorted(modules_of(text("ARCHITECTURE.md"))) == sorted(files | folders)


def test_the_architecture_names_folders_that_exist() -> None:
    named = set(re.findall(r"`(\w[\w./]*/)`", text("ARCHITECTURE.md")))
    places = (ROOT, ROOT / "src" / "eventvec")
    assert [name for name in sorted(named) if not any((place / name).is_dir() for place in places)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    inside = [target.split("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]
    assert [target for target in inside if not (path.parent / target).exists()] == []


# The readers themselves


def test_the_table_of_modules_is_read() -> None:
    rows = ["| module | holds |", "| --- | --- |", "| `errors.py` `files.py` | `words` |", "| `methods/` | one |"]
    document = "\n".join([*rows, "", "| `no.py` | |", ""])
    assert modules_of(document) == ["errors.py", "files.py", "methods/"]
    assert modules_of("| noun | is |\n| --- | --- |\n| `x.py` | |\n") == []


def test_wrong_commands_are_found() -> None:
    import typer

    app = typer.Typer()

    @app.command()
    def fit(config: str, out: str = "", rows: int = 0) -> None: ...

    @app.command()
    def demo(out: str = "") -> None: ...

    known = typer.main.get_command(app)
    shell = "```sh\n$ eventvec fit a.toml --out=run --epoch 3  # learn\n.venv/bin/eventvec \\\n  dmeo\nls -l\n```\n"
    assert list(commands(shell)) == [["fit", "a.toml", "--out=run", "--epoch", "3"], ["dmeo"]]
    assert [unknown(words, known) for words in commands(shell)] == [["--epoch"], ["dmeo"]]
    assert unknown(["demo", "--out", "x"], known) == unknown(["--help"], known) == []
