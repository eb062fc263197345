"""The examples in the docstrings of the experiments run and print what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHER_ENVIRONMENT = {"experiments.coles.lifestream"}  # imports pytorch-lifestream
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "experiments").rglob("[!_]*.py")}


@pytest.mark.parametrize("name", sorted(MODULES - OTHER_ENVIRONMENT))
def test_examples(name: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(importlib.import_module(name), optionflags=flags).failed == 0


def test_most_examples_are_found_here() -> None:
    finder = doctest.DocTestFinder()
    modules = [importlib.import_module(name) for name in sorted(MODULES - OTHER_ENVIRONMENT)]
    assert sum(bool(test.examples) for module in modules for test in finder.find(module)) > 20
