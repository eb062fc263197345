"""What the documents say is so: examples run and print what is shown, commands parse, files and linked pages exist."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from scripts.check_wheel import IN_THE_WHEEL, blocks, not_printed
from typer.testing import CliRunner

from eventvec.cli import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")})
STUDIES = sorted({*ROOT.glob("experiments/*/README.md"), *ROOT.glob("benchmarks/README.md")})
SHELLS = ("sh", "bash", "shell", "console")
WITH_COMMANDS = (
    "who", "next", "progress", "value", "words", "experts", "columns", "privacy", "report", "compare-runs", "snapshots",
    "nightly", "how-good",
)  # fmt: skip
"""The pages of docs/how-to whose commands run, on the files that their Python writes."""
PUBLIC = ("eventvec", *(f"eventvec.{name}" for name in ("datasets", "encoders", "losses", "methods", "views")))


def text(name: str) -> str:
    path = ROOT / name
    if not path.is_file() or not path.read_text().strip():
        pytest.fail(f"{name} is missing or empty")
    return path.read_text()


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


def runnable() -> Iterator[Any]:
    """Yield the documents whose Python runs here; the processes that torchrun starts take long."""
    for path in sorted({*DOCUMENTS} - {*IN_THE_WHEEL}):
        marks = [pytest.mark.slow] if path.stem == "several-gpus" else []
        yield pytest.param(path, id=str(path.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("path", [*runnable()])
def test_python_examples_run_and_print_what_is_shown(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = path.read_text()
    if "LanguageEncoder(" in document or path.stem == "words":
        pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks(document, "python"):  # one after the other, as a reader would
        exec(compile(block, str(path), "exec"), names)
    printed = capsys.readouterr().out
    assert [part for block in blocks(document, "text") for part in not_printed(block, printed)] == []
    if path.stem in WITH_COMMANDS:
        for block in blocks(document, "toml"):
            Path("config.toml").write_text(block)
        assert run_commands(document)


def run_commands(document: str) -> list[str]:
    """Run the commands of a document in its order, and return their names."""
    lines = list(commands(document))
    for words in lines:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"eventvec {' '.join(words)}: {result.output}"
    return [words[0] for words in lines]


@pytest.mark.slow
def test_the_commands_of_the_tutorial_run_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tutorial = text("docs/tutorials/receipts.md")
    exec(compile(blocks(tutorial, "python")[0], "docs/tutorials/receipts.md", "exec"), {"__name__": "example"})
    assert {"fit", "embed", "evaluate", "update", "predict"} == set(run_commands(tutorial))
    assert (tmp_path / "tuned.parquet").is_file()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_configurations_build_what_they_name(path: Path) -> None:
    from eventvec.encoders import ENCODERS
    from eventvec.methods import METHODS

    for block in blocks(path.read_text(), "toml"):
        tables = tomllib.loads(block)
        assert set(tables) <= {"data", "method", "encoder", "fit"}
        assert tables["method"]["name"] in METHODS
        assert tables["encoder"].get("name", "gru") in ENCODERS


def test_the_readme_shows_python_and_the_command_line() -> None:
    readme = text("README.md")
    assert blocks(readme, "python"), "README.md has no ```python block"
    assert list(commands(readme)), "README.md shows no `eventvec …` command in a shell block"


def test_the_readme_is_read_in_a_minute() -> None:
    assert len(text("README.md").splitlines()) <= 100


@pytest.mark.parametrize("path", [*DOCUMENTS, *STUDIES], ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist_with_their_options(path: Path) -> None:
    lines = list(commands(path.read_text()))
    if not lines:
        return
    known = typer.main.get_command(app)
    assert {" ".join(words): unknown(words, known) for words in lines if unknown(words, known)} == {}


def test_no_document_has_the_marks_of_a_merge() -> None:
    marks = ("<<<<<<< ", ">>>>>>> ")
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in (*DOCUMENTS, *STUDIES)}
    assert [name for name, text in texts.items() for line in text.splitlines() if line.startswith(marks)] == []


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


@pytest.mark.parametrize("path", [*DOCUMENTS, *STUDIES], ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    inside = [target.split("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]
    assert [target for target in inside if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", [*DOCUMENTS, *STUDIES], ids=lambda path: str(path.relative_to(ROOT)))
def test_programs_that_documents_name_exist(path: Path) -> None:
    named = set(re.findall(r"python -m ((?:experiments|benchmarks)(?:\.[a-z_]+)+)", path.read_text()))
    scripts = set(re.findall(r"python (scripts/\w+\.py)", path.read_text()))
    assert [name for name in sorted(named) if importlib.util.find_spec(name) is None] == []
    assert [name for name in sorted(scripts) if not (ROOT / name).is_file()] == []


def test_tests_that_documents_name_exist() -> None:
    tests = "\n".join(path.read_text() for path in ROOT.glob("tests/**/test_*.py"))
    named = {name for path in DOCUMENTS for name in re.findall(r"`(test_\w+)`", path.read_text())}
    assert [name for name in sorted(named) if f"def {name}(" not in tests] == []


# The site


def pages_of(navigation: Any) -> Iterator[str]:
    """Yield the pages of a navigation, in its order."""
    if isinstance(navigation, str):
        yield navigation
        return
    for entry in navigation if isinstance(navigation, list) else navigation.values():
        yield from pages_of(entry)


def headings_and_first_paragraph(document: str) -> str:
    """Return what a search weighs most: the headings of a document, and the first paragraph that is not code."""
    prose = re.sub(r"^```.*?^```", "", document, flags=re.MULTILINE | re.DOTALL)
    blocks = [block.strip() for block in re.split(r"\n\s*\n", prose)]
    paragraphs = [block for block in blocks if block and not block.startswith(("#", "---"))]
    return "\n".join([*re.findall(r"^#+ .*$", prose, flags=re.MULTILINE), *paragraphs[:1]])


def test_the_navigation_names_each_page_once_and_no_other() -> None:
    navigation = tomllib.loads(text("zensical.toml"))["project"]["nav"]
    listed = list(pages_of(navigation))
    expected = {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.ipynb"), *STUDIES}
    assert sorted(listed) == sorted(str(path.relative_to(ROOT)) for path in expected)


def test_the_list_of_all_pages_names_each_page_of_the_navigation() -> None:
    navigation = tomllib.loads(text("zensical.toml"))["project"]["nav"]
    links = re.findall(r"\]\(([^)\s]+)\)", text("docs/README.md"))
    named = sorted(str((ROOT / "docs" / link).resolve().relative_to(ROOT)) for link in links)
    assert named == sorted(set(pages_of(navigation)) - {"docs/README.md"})


def test_the_reference_shows_each_public_name_once() -> None:
    pages = "\n".join(path.read_text() for path in ROOT.glob("docs/reference/*.md"))
    shown = re.findall(r"^::: (\S+)$", pages, flags=re.MULTILINE)
    modules = {name: importlib.import_module(name) for name in PUBLIC}
    nested = {name.removeprefix("eventvec.") for name in PUBLIC}
    public = {f"{name}.{each}" for name, module in modules.items() for each in module.__all__ if each not in nested}
    # The generator imports nothing, so it knows the names of the estimators in their modules only.
    estimators = {"vectorizer.EventVectorizer", "event_estimators.EventClassifier", "event_estimators.EventRegressor"}
    late = {f"eventvec.{name.partition('.')[2]}" for name in estimators}
    inside = {f"eventvec.predicting.{name}" for name in estimators}
    assert sorted(shown) == sorted(public - late | inside)


def test_the_table_of_methods_names_each_method() -> None:
    from eventvec.methods import METHODS

    table = re.search(r"^\| name .*\n\|[ |:-]+\n((?:\|.*\n)+)", text("docs/concepts/methods.md"), flags=re.MULTILINE)
    assert table is not None
    named = [name for line in table[1].splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert sorted(named) == sorted(METHODS)


def test_the_page_of_methods_names_each_encoder_sampler_and_loss() -> None:
    from eventvec.encoders import ENCODERS
    from eventvec.losses import LOSSES
    from eventvec.views import VIEWS

    page = text("docs/concepts/methods.md")
    named = set(re.findall(r"`(\w+)`", page))
    assert {*ENCODERS, *VIEWS, *LOSSES} - {"contrastive"} <= named  # contrastive is the loss of `coles`


def test_the_pages_by_question_name_methods_that_exist() -> None:
    from eventvec.methods import METHODS

    page = text("docs/concepts/methods.md")
    table = re.search(r"^\| question .*\n\|[ |:-]+\n((?:\|.*\n)+)", page, flags=re.MULTILINE)
    assert table is not None
    assert [name for name in re.findall(r"`(\w+)`", table[1]) if name not in METHODS] == []


WORDS = ("imbalance", "hyperparameter", "Optuna", "latency", "DataLoader", "leakage", "currency", "snapshot", "GPU")


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_people_look_up_is_in_a_heading_or_first_paragraph(word: str) -> None:
    pages = pages_of(tomllib.loads(text("zensical.toml"))["project"]["nav"])
    openings = {page: headings_and_first_paragraph(text(page)) for page in pages if page.startswith("docs/")}
    assert [page for page, opening in openings.items() if re.search(rf"\b{word}", opening, flags=re.IGNORECASE)] != []


def test_the_gallery_shows_the_pictures_that_its_script_makes_and_none_is_large() -> None:
    from scripts.gallery import COMMANDS, PICTURES

    known, commands = typer.main.get_command(app), {name: shlex.split(line) for name, line in COMMANDS.items()}
    assert {name: unknown(words, known) for name, words in commands.items() if unknown(words, known)} == {}
    shown = set(re.findall(r"\(pictures/([\w-]+)\.webp\)", text("docs/gallery.md")))
    elsewhere = {"report-map", "report-phone"}
    assert shown == set(PICTURES) - elsewhere
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "pictures").glob("*.webp")}
    assert [name for name, size in sizes.items() if size > 60_000] == []


# The readers themselves


def test_output_is_compared_without_numbers_and_in_order() -> None:
    printed = "The lead is +0.012 ± 0.3.\n│ 100 % │ knn │ 0.8 │\n   N14228   0.98\n"
    assert not_printed("The lead is -0.5 ± 0.1. … 5 % │ knn …\nN1  0.2\n", printed) == []
    assert not_printed("The gap is 0.5 …", printed) == ["The gap is #"]
    assert not_printed("knn … The lead", printed) == ["The lead"]


def test_pages_of_a_navigation_are_read_in_order() -> None:
    assert list(pages_of([{"a": "a.md"}, {"b": [{"c": "c.md"}, "d.md"]}])) == ["a.md", "c.md", "d.md"]


def test_the_headings_and_the_first_paragraph_are_read() -> None:
    document = "---\nhide: toc\n---\n\n# A\n\n```python\n# code\n```\n\nFirst,\nstill.\n\nSecond.\n\n## B\n\nThird.\n"
    assert headings_and_first_paragraph(document) == "# A\n## B\nFirst,\nstill."


def test_the_table_of_modules_is_read() -> None:
    rows = ["| module | holds |", "| --- | --- |", "| `errors.py` `files.py` | `words` |", "| `methods/` | one |"]
    document = "\n".join([*rows, "", "| `no.py` | |", ""])
    assert modules_of(document) == ["errors.py", "files.py", "methods/"]
    assert modules_of("| noun | is |\n| --- | --- |\n| `x.py` | |\n") == []


def test_wrong_commands_are_found() -> None:
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
