"""The examples in the docstrings of the experiments run and print what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHER_ENVIRONMENT = {"experiments.coles.lifestream"}  # imports pytorch-lifestream
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "experiments").rglob("[!_]*.py")}


def examples(name: str) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(importlib.import_module(name)) if test.examples]


@pytest.mark.parametrize("name", sorted(MODULES - OTHER_ENVIRONMENT))
def test_examples(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for test in examples(name):
        runner.run(test)
    assert runner.failures == 0


def test_most_examples_are_found_here() -> None:
    assert sum(len(examples(name)) for name in MODULES - OTHER_ENVIRONMENT) > 20
