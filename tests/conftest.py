"""Marks that need something the machine may lack, a data folder of the test's own, and benchmarks in this process."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.testing
from hypothesis import settings

from eventvec import precision, register
from eventvec.encoders import convolutions

typer.testing._get_command = cache(typer.testing._get_command)  # else each call of a command builds all commands

# How many examples Hypothesis draws for a test; `make slow` asks for many.
settings.register_profile("few", max_examples=25, deadline=None)
settings.register_profile("many", max_examples=250, deadline=None)
settings.load_profile("few")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("EVENTVEC_DATA"):
        return
    skip = pytest.mark.skip(reason="needs EVENTVEC_DATA")
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(skip)


@pytest.hookimpl(tryfirst=True)  # before the fixtures of modules
def pytest_runtest_setup() -> None:
    """Let torch draw the same numbers in a test, whichever tests ran before it in its process."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def the_number_of_threads_is_restored() -> Iterator[None]:
    """Restore torch's number of threads, which experiments and benchmarks in this process set.

    Sums over two threads differ in the last bits from those of processes that tests start with one.
    """
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def named_processes() -> None:
    """Give the processes of the experiments, and their network of pictures, names in configurations for one test."""
    from experiments.cresp import pictures, processes

    register("sinusoids", processes.Sinusoids, kind="views")
    register("snooker", processes.Snooker, kind="views")
    register("images", pictures.Images, kind="events")


@pytest.fixture
def bfloat16_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a CPU without instructions for bfloat16 compute in it, slowly."""
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda *_: True)


@pytest.fixture
def few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let random convolutions have an eighth of their kernels, whose components take most of the time of a fit.

    The documents, the examples of the estimators and `tests/training/test_beside.py` have all of them.
    """
    monkeypatch.setattr(convolutions, "KERNELS", 8)
    monkeypatch.setattr(convolutions.Convolutions, "dim", convolutions.Convolutions.dim // 8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that EVENTVEC_DATA names."""
    monkeypatch.setenv("EVENTVEC_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that runs a benchmark in its small mode and returns the rows that it prints as JSON."""

    def run(name: str, *arguments: str) -> list[dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", [name, *arguments, "--small", "--json"])
        importlib.import_module(f"benchmarks.{name}").main()
        rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
        return rows

    return run
