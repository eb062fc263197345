"""The lists of the reference become one page for each name, in the navigation, and every link leads to one of them."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import reference_pages
from scripts.reference_pages import docstring, first_sentence, page_names, short_title, split, title_of

ROOT = Path(__file__).parents[1]
LISTS = sorted(ROOT.glob("docs/reference/*.md"))


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder like `build` after the splitting, with the lists and a page that links to a notebook."""
    build = tmp_path_factory.mktemp("build")
    folder = build / "pages" / "docs" / "reference"
    folder.mkdir(parents=True)
    for path in LISTS:
        (folder / path.name).write_text(path.read_text())
    (build / "pages" / "README.md").write_text("[Clients](docs/notebooks/bank.ipynb)\n")
    notebooks = build / "pages" / "docs" / "notebooks"
    notebooks.mkdir()
    (notebooks / "bank.ipynb").write_text("{}")
    (notebooks / "bank.md").write_text("# Clients\n\nWho leaves?\n\n# A second heading\n")
    reference_pages.main(build)
    return build


def entries(text: str) -> list[str]:
    return re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)


def titles_and_pages(navigation: Any) -> Iterator[tuple[str, str]]:
    for entry in navigation:
        for title, content in entry.items():
            if isinstance(content, str):
                yield title, content
            else:
                yield from titles_and_pages(content)


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_each_name_has_one_page_and_the_list_links_to_all(path: Path, build: Path) -> None:
    text, folder = (build / "pages/docs/reference" / path.name).read_text(), build / "pages/docs/reference" / path.stem
    names = entries(path.read_text())
    assert entries(text) == []
    assert sorted(name for page in folder.iterdir() for name in entries(page.read_text())) == sorted(names)
    linked = re.findall(r"^\| \[`([\w.]+)`\]\((\S+)\) \| \S", text, flags=re.MULTILINE)
    assert [title for title, _ in linked] == [short_title(title_of(name)) for name in names]
    for (_, target), name in zip(linked, names, strict=True):
        page = (folder.parent / target).read_text()
        assert entries(page) == [name]
        assert f"title: {title_of(name)}\n" in page
    words = [line for line in path.read_text().splitlines() if line and not line.startswith(":::")]
    assert [line for line in words if line not in text.splitlines()] == []  # headings and sentences stay


def test_the_navigation_of_the_build_has_all_pages(build: Path) -> None:
    config = tomllib.loads((build / "zensical.toml").read_text())["project"]
    listed = list(titles_and_pages(config["nav"]))
    assert len({page for _, page in listed}) == len(listed)
    existing = {str(path.relative_to(build / "pages")) for path in (build / "pages/docs/reference").glob("**/*.md")}
    assert {page for _, page in listed if page.startswith("docs/reference/")} == existing
    titles = {page: title for title, page in listed}
    assert titles["docs/reference/eventvec/fit.md"] == "ev.fit"
    assert titles["docs/reference/eventvec/EventClassifier.md"] == "ev.EventClassifier"
    assert titles["docs/reference/eventvec.md"] == "All of eventvec"
    source = titles_and_pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])
    others = {page.replace(".ipynb", ".md") for _, page in source if not page.startswith("docs/reference/")}
    assert {page for _, page in listed if not page.startswith("docs/reference/")} == others


def test_the_configuration_names_files_from_its_own_folder(build: Path) -> None:
    config = tomllib.loads((build / "zensical.toml").read_text())["project"]
    python = config["plugins"]["mkdocstrings"]["handlers"]["python"]
    assert (config["docs_dir"], config["site_dir"]) == ("pages", "site")
    assert (python["paths"], python["options"]["extensions"]) == (["../src"], ["../scripts/docstring_examples.py"])


def test_notebooks_and_their_pages_link_to_one_another(build: Path) -> None:
    assert (build / "pages" / "README.md").read_text() == "[Clients](docs/notebooks/bank.md)\n"
    page = (build / "pages/docs/notebooks/bank.md").read_text()
    link = "*This page is a notebook: [bank.ipynb](bank.ipynb).*"
    assert page == f"# Clients\n\n{link}\n\nWho leaves?\n\n# A second heading\n"
    nav = 'nav = [ { "Clients" = "docs/notebooks/bank.ipynb" } ]'
    assert reference_pages.configuration(nav, {}) == nav.replace("ipynb", "md")


def test_the_sources_are_read_as_python_does() -> None:
    for path in LISTS:
        for name in entries(path.read_text()):
            module, _, short = name.rpartition(".")
            member = getattr(importlib.import_module(module), short)
            text = docstring(name)
            assert text is not None, name
            if isinstance(member, type) or callable(member):
                cleaned = getattr(member, "__doc__", None) or ""
                assert " ".join(text.split()) == " ".join(cleaned.split()) or not cleaned, name


def test_names_are_those_of_users() -> None:
    assert title_of("eventvec.fit") == "ev.fit"
    assert title_of("eventvec.losses.Margin") == "ev.losses.Margin"
    assert [short_title(title) for title in ("ev.losses.Margin", "ev.fit")] == ["Margin", "ev.fit"]
    assert title_of("eventvec.predicting.vectorizer.EventVectorizer") == "ev.EventVectorizer"


def test_no_two_files_differ_in_case_only() -> None:
    names = ["a.histogram", "a.VIEWS", "a.Histogram", "a.Views", "a.other"]
    files = page_names(names)
    assert (files["a.Histogram"], files["a.Views"]) == ("Histogram", "Views")
    assert (files["a.histogram"], files["a.VIEWS"], files["a.other"]) == ("histogram-function", "VIEWS-table", "other")


def test_entries_between_sentences_become_tables() -> None:
    text = "# A\n\nWords.\n\n::: eventvec.fit\n\n::: eventvec.read\n\n## Errors\n\nMore.\n\n::: eventvec.DataError\n"
    table, pages, navigation = split(text, "a")
    assert table.count("| --- | --- |") == 2
    assert [line for line in table.splitlines() if line and "|" not in line] == ["# A", "Words.", "## Errors", "More."]
    assert list(pages) == ["a/fit.md", "a/read.md", "a/DataError.md"]
    assert navigation == [
        {"ev.fit": "a/fit.md"}, {"ev.read": "a/read.md"}, {"Errors": [{"ev.DataError": "a/DataError.md"}]},
    ]  # fmt: skip


def test_first_sentences() -> None:
    assert first_sentence("Return a, e.g. of Hadsell et al. 2006, as\nb. `c` is d.\n\nMore.") == (
        "Return a, e.g. of Hadsell et al. 2006, as b."
    )
    assert first_sentence("One without an end\n\nMore.") == "One without an end"


def test_the_docstring_of_a_variable_stands_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    body = ast.parse('a: int = 1\n"""One."""\nb = 2\nif True:\n    from m import c as d\n').body
    bodies = {"x": tuple(reference_pages.statements(body)), "m": tuple(ast.parse("c = 3\n'''Three.'''").body)}
    monkeypatch.setattr(reference_pages, "module_body", lambda module: bodies.get(module, ()))
    read = reference_pages.docstring.__wrapped__
    assert [read(f"x.{name}") for name in "abe"] == ["One.", "", None]
    assert read("x.d") == "Three."
