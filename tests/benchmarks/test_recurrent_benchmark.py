"""The benchmark of the scan runs, and both of its ways compute the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.recurrent import LINES

from benchmarks import recurrent
from eventvec.scan import routing

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_both_ways_end_in_the_same_states_and_gradients(cell: str) -> None:
    case, found = recurrent.Case(cell, 8, recurrent.lengths(7, "25-200"), True), []
    for way in (case.torch, case.scan):
        case.cell.zero_grad()
        way()
        found.append([weight.grad.clone() for weight in case.cell.parameters()])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
    assert case.work == 2 * len(case.packed) * (3 if cell == "gru" else 4) * 8 * (3 * 8 + 2 * recurrent.INPUTS)


@pytest.mark.parametrize("table", ["grid", "costs"])
def test_it_runs_from_the_command_line(table: str) -> None:
    command = [sys.executable, "-m", "benchmarks.recurrent", "--small", "--json", "--only", table]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    rows = json.loads(done.stdout)["rows"]
    assert {row["cell"] for row in rows} == {"gru", "lstm"}
    if table == "grid":
        assert all(row[f"{what}, {line}"] > 0 for row in rows for what in ("training", "forward") for line in LINES)
    else:
        assert {(row["cell"], row["learning"], row["way"], row["line"]) for row in rows} == set(routing.COSTS)
