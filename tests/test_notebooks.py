"""The notebooks of docs/notebooks: what they store is whole and of no machine, and they run again and show the same."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

import eventvec as ev
from eventvec import datasets
from test_docs import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NAMES = ("bank", "machines", "shop", "stays")
REAL = {"machines": "cmapss", "stays": "physionet2012"}
"""The folder with the real data that a notebook reads where it is there."""
PLACES = re.compile(r"/(?:work|home|root|tmp|usr|Users)\b|[A-Z]:\\\\")


def stored(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{name}.ipynb").read_text()))


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def texts(cell: dict[str, Any]) -> str:
    """Return what a cell shows as text: prints, and results that are no pictures. Warnings are not among it."""
    shown = []
    for output in cell["outputs"]:
        if output["output_type"] == "stream" and output["name"] == "stdout":
            shown.append("".join(output["text"]))
        elif output["output_type"] == "execute_result":
            shown.append("".join(output["data"]["text/plain"]))
    return "\n".join(shown)


def words(text: str) -> list[str]:
    """Return the words of a text, `#` for each with a digit, without the rules of tables."""
    return ["#" if re.search(r"\d", word) else word for word in re.sub(r"[\u2500-\u257f]", " ", text).split()]


def wrong_names(tree: ast.AST, alias: str, module: ModuleType) -> list[str]:
    """Return the attributes of an imported module that code reads and that it does not show."""
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == alias
    }
    return sorted(name for name in used if name not in module.__all__)


def test_there_is_a_notebook_for_each_of_four_readers() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_whole(name: str) -> None:
    notebook = stored(name)
    nbformat.validate(notebook)
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["name"]) == (4, "python3")
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert 12 <= len(notebook["cells"]) <= 25
    assert notebook["cells"][0]["cell_type"] == "markdown"
    assert source(notebook["cells"][0]).startswith("# ")
    assert "pip install 'eventvec[" in source(notebook["cells"][0])
    assert [cell["execution_count"] for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert not any(cell["metadata"] for cell in notebook["cells"])
    lengths = [len(source(cell).splitlines()) for cell in code_cells(notebook)]
    assert max(lengths) <= 12
    assert max(len(line) for cell in code_cells(notebook) for line in source(cell).splitlines()) <= 120


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_stores_what_it_shows_and_no_error(name: str) -> None:
    outputs = [output for cell in code_cells(stored(name)) for output in cell["outputs"]]
    kinds = {output["output_type"] for output in outputs}
    assert kinds <= {"stream", "execute_result", "display_data"}
    assert not any(output.get("name") == "stderr" for output in outputs)
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert 1 <= len(pictures) <= 2
    assert max(len(picture) * 3 // 4 for picture in pictures) <= 60_000  # base64


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_names_no_place_of_a_machine(name: str) -> None:
    notebook = stored(name)
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop("image/png", None)
    assert PLACES.findall(json.dumps(notebook)) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_code_of_a_notebook_uses_public_names(name: str) -> None:
    tree = ast.parse("\n".join(source(cell) for cell in code_cells(stored(name))))
    nested = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_datasets(node.value)]
    assert wrong_names(tree, "ev", ev) == []
    assert [each for each in nested if each not in datasets.__all__] == []
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert [module for module in imported if module.startswith("eventvec.")] == []


@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_notebook_lead_somewhere(name: str) -> None:
    prose = "\n".join(source(cell) for cell in stored(name)["cells"] if cell["cell_type"] == "markdown")
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in target]
    assert targets
    assert [target for target in targets if not (FOLDER / target).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("real", [True, False], ids=["real", "stand-in"])
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_shows_what_it_stores(
    name: str, real: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nbclient")
    if name not in REAL and not real:
        pytest.skip("reads no real data")
    if not real:
        monkeypatch.delenv("EVENTVEC_DATA", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Jupyter's parts
        again = _script().executed(FOLDER / f"{name}.ipynb", tmp_path)
    assert len(list(tmp_path.iterdir())) <= 3  # a notebook writes into its folder, and little
    if name in REAL and not (Path(os.environ.get("EVENTVEC_DATA", "")) / REAL[name]).is_dir():
        return  # what is stored is of the real data
    before, after = code_cells(stored(name)), code_cells(again)
    assert [words(texts(cell)) for cell in after] == [words(texts(cell)) for cell in before]


def test_private_names_are_found() -> None:
    tree = ast.parse("import eventvec as ev\nev.read(1)\nev.reed(2)\nother.reed(3)\n")
    assert wrong_names(tree, "ev", ev) == ["reed"]


def test_outputs_are_compared_without_numbers_and_rules() -> None:
    assert (
        words("│ adds ┆ +.52 ± .1 │\n└──────┴───────────┘") == words("adds │ -1.000 ± .01 │") == ["adds", "#", "±", "#"]
    )


def _is_datasets(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "datasets"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "scripts" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
