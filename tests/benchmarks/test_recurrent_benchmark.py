"""The benchmark of the scan: torch's cell and the scan compute the same, and its tables run."""

from __future__ import annotations

import json

import pytest
import torch
from benchmarks.recurrent import PRECISIONS

from benchmarks import recurrent
from processes import program


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_torch_and_the_scan_give_the_same_gradients(cell: str) -> None:
    case, gradients = recurrent.Case(cell, 8, recurrent.lengths(7, "25-200"), True), []
    for run in (case.torch, case.scan):
        case.cell.zero_grad()
        run()
        gradients.append([weight.grad.clone() for weight in case.cell.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
    assert case.work == 2 * len(case.packed) * (3 if cell == "gru" else 4) * 8 * (3 * 8 + 2 * recurrent.INPUTS)


def test_the_grid_runs_from_the_command_line() -> None:
    done = program("benchmarks.recurrent", "--small", "--json", "--only", "grid")
    assert done.code == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["cell"] for row in rows} == {"gru", "lstm"}
    assert {row["by"] for row in rows} == {"torch's kernel", "cells"}
    columns = [f"{what}, {precision}" for what in ("training", "forward") for precision in PRECISIONS]
    assert all(row[column] > 0 for row in rows for column in columns)
