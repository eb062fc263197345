"""What earlier versions wrote is read, and gives the numbers that it gave then; `scripts/fixtures.py` wrote it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scripts.fixtures import APRIL, EMBEDDED, FOLDER, numbers, probabilities

import eventvec as ev

RELEASES = sorted(path for path in FOLDER.iterdir() if path.is_dir())
EACH = pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)


def expected(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return values


def test_a_release_has_fixtures() -> None:
    assert [folder.name for folder in RELEASES][:1] == ["0.1.0"]


@EACH
def test_a_run_its_embeddings_and_both_indexes_give_what_they_gave(folder: Path) -> None:
    now, then = numbers(folder), expected(folder)
    assert now.keys() == then.keys() - {"probability"}
    for name, value in now.items():
        if isinstance(value, float) or isinstance(np.ravel(value)[0], float):
            assert np.allclose(value, then[name], rtol=1e-4, atol=1e-5), name
        else:
            assert value == then[name], name


@EACH
def test_a_classifier_predicts_what_it_predicted(folder: Path) -> None:
    pytest.importorskip("lightgbm")
    assert np.allclose(probabilities(folder), expected(folder)["probability"], atol=1e-5)


@EACH
def test_a_store_continues(folder: Path, tmp_path: Path) -> None:
    state = shutil.copyfile(folder / "state.db", tmp_path / "state.db")
    later = pl.read_parquet(folder / "events.parquet").filter(pl.col("when") >= APRIL)
    updated = ev.update(ev.load(folder / "run"), later, state).embeddings
    then = expected(folder)
    rows = [row for row, key in enumerate(updated.keys.to_pylist()) if key in then["keys"][:EMBEDDED]]
    assert len(rows) == EMBEDDED
    assert np.allclose(updated.values[rows], then["embedding"], rtol=1e-4, atol=1e-5)
    assert (
        dict(zip(updated.keys.to_pylist(), updated.events.tolist(), strict=True)).items()
        <= dict(zip(then["keys"], then["events"], strict=True)).items()
    )
