"""Every experiment runs in its small mode and keeps the contract of `--json`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLES = [
    ("house", "churn"), ("house", "death"), ("house", "order"), ("cresp", "sinusoids"), ("cresp", "snooker"),
    ("expclr", "hapt"), ("tpp", "badges"), ("order", "figure2"), ("order", "figure2_loss"),
    ("order", "population"), ("order", "features"), ("order", "encoders"), ("order", "diagnostic"),
]  # fmt: skip
COLES = [
    *("table1", "table2", "table6", "table7", "table8"),
    *("figure2", "figure3", "figure4", "figure5", "figure6", "figure7", "precision"),
]
TABLES += [("coles", table) for table in COLES]
PEER = ("coles", "peer")  # needs the environment that `make peer` makes
GENERATED = {
    ("cresp", "sinusoids"), ("cresp", "snooker"),
    ("order", "figure2"), ("order", "figure2_loss"), ("order", "population"),
}  # fmt: skip


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    ("name", "table"),
    [pytest.param(*each, marks=() if each in GENERATED else pytest.mark.data) for each in TABLES],
)
def test_a_table_runs_small(name: str, table: str) -> None:
    found = json.loads(run(f"experiments.{name}", table, "--small", "--json"))
    assert found["rows"]
    assert found["about"]["small"] is True
    assert all(isinstance(row, dict) and row for row in found["rows"])


def test_every_table_is_run_here() -> None:
    folders = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/__main__.py"))
    listed = {(name, line.split()[0]) for name in folders for line in run(f"experiments.{name}").splitlines()}
    assert listed == {*TABLES, PEER}
