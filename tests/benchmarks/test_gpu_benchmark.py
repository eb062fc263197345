"""The benchmark of a GPU: its tables run on a CPU, and its plain way computes the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks import gpu, recurrent
from processes import program


@pytest.mark.parametrize("table", [table for table in gpu.TABLES if table != "tests"])
def test_each_table_runs_on_a_cpu(table: str, small: Callable[..., list[dict[str, Any]]]) -> None:
    rows = small("gpu", "--device", "cpu", "--only", table)
    assert {row["table"] for row in rows} == {table}
    assert all(row["ratio"] > 0 and row["ours, ms"] > 0 for row in rows)


@pytest.mark.slow
def test_the_command_prints_every_table() -> None:
    """The table `tests` starts pytest in one more process."""
    done = program("benchmarks.gpu", "--small", "--json", "--device", "cpu")
    assert done.code == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["table"] for row in rows} == set(gpu.TABLES)
    assert all(row["ratio"] > 0 and row["ours, ms"] > 0 for row in rows if row["table"] != "tests")
    tests = next(row for row in rows if row["table"] == "tests")
    assert tests["failed"] == tests["error"] == 0
    assert tests["passed"] + tests["skipped"] > 5


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu_it_says_so() -> None:
    done = program("benchmarks.gpu")
    assert done.code == 2
    assert "torch finds no GPU here; --device cpu --small shows that the tables run" in done.stderr


def test_the_plain_ways_compute_the_same() -> None:
    encoders, x = gpu.encoders(8, torch.device("cpu")), gpu.histories(3, 20, torch.device("cpu"))
    torch.testing.assert_close(encoders["padded"](x), encoders["ours"](x))
    case, results = recurrent.Case("lstm", 8, recurrent.lengths(7, "25-200"), False), []
    case._finish = lambda run: results.append(run())  # type: ignore[method-assign]
    case.torch()
    case.buckets()
    case.scan()
    torch.testing.assert_close(results, [results[0]] * 3)
