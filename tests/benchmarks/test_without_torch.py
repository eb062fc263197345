"""The benchmark of encoders in onnxruntime runs, and both give the same embeddings."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import without_torch


def test_the_benchmark_runs_small(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["without_torch", "--small", "--json"])
    without_torch.main()
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["rows"] for row in rows] == [20, 1, 20, 1]
    assert all(row["difference"] < 1e-5 and row["ratio"] > 0 for row in rows)
