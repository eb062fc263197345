"""Marks that need something the machine may lack, and a data folder of the test's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eventvec import precision


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("EVENTVEC_DATA"):
        return
    skip = pytest.mark.skip(reason="needs EVENTVEC_DATA")
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(skip)


@pytest.fixture
def bfloat16_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a CPU without instructions for bfloat16 compute in it, slowly."""
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda: True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that EVENTVEC_DATA names."""
    monkeypatch.setenv("EVENTVEC_DATA", str(tmp_path))
    return tmp_path
