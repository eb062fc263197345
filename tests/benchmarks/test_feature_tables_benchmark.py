"""The benchmark of feature tables measures eventvec, and reports a peer that is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.feature_tables import measured, write_inputs

from benchmarks import feature_tables


def test_eventvec_is_measured_and_a_missing_peer_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_inputs(tmp_path, 5)
    row = measured("eventvec", *paths)
    assert (row.get("failed"), row["entities"]) == (None, 5)
    assert min(row[name] for name in ("features", "seconds", "one", "gb")) > 0
    monkeypatch.setattr(feature_tables, "ROOT", tmp_path)
    assert "make it with: make featurepeers" in measured("tsfresh", *paths)["failed"]
