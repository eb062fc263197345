"""The benchmark of feature tables measures eventvec, and reports a peer that is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.feature_tables import measured, write_inputs
from benchmarks.measure import Row

from benchmarks import feature_tables
from processes import program


def check(row: Row) -> None:
    assert (row.get("failed"), row["entities"]) == (None, 5)
    assert min(row[name] for name in ("features", "seconds", "one", "gb")) > 0


def test_eventvec_is_measured_and_a_missing_peer_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_inputs(tmp_path, 5)
    done = program("benchmarks.feature_tables", "--ours", *map(str, paths))
    assert done.code == 0, done.stderr
    check(json.loads(done.stdout.splitlines()[-1]))
    monkeypatch.setattr(feature_tables, "ROOT", tmp_path)
    assert "make it with: make featurepeers" in measured("tsfresh", *paths)["failed"]


@pytest.mark.slow
def test_eventvec_is_measured_in_a_fresh_process(tmp_path: Path) -> None:
    check(measured("eventvec", *write_inputs(tmp_path, 5)))
