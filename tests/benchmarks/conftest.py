"""Benchmarks in this process, which has imported torch already."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

Small = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Small:
    """Return a function that runs a benchmark in its small mode and returns the rows that it prints as JSON."""

    def run(name: str, *arguments: str) -> list[dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", [name, "--small", "--json", *arguments])
        importlib.import_module(f"benchmarks.{name}").main()
        rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
        return rows

    return run
