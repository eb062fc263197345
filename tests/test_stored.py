"""Runs, embeddings and stores that an earlier eventvec wrote load, and give the results that they gave then."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import eventvec as ev
from eventvec.dataset import text_column
from eventvec.methods import METHODS

STORED = Path(__file__).parent / "stored"
RUNS = sorted(path.parent.name for path in STORED.glob("*/run.json") if path.parent.name != "killed")
NOTES = ("missing", "unknown", "a b", "bread", "milk 3", "x y z")
"""The texts that `masked_language` was trained on, one for each code of `shop`."""
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # another CPU rounds products of float32 otherwise


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTVEC_MODELS", str(STORED / "models"))


def with_notes(data: ev.Dataset) -> ev.Dataset:
    columns = data.sequences.columns
    notes = text_column(pa.array([NOTES[code] for code in columns["shop"].tolist()]))
    return replace(data, sequences=replace(data.sequences, columns={**columns, "note": notes}))


def events_of(run: ev.Run) -> ev.Dataset:
    table = "looks.parquet" if run.schema.key == "id" else "events.parquet"
    data = ev.read(str(STORED / table), schema=run.schema)
    return with_notes(data) if run.config["method"]["name"] == "masked_language" else data


def test_each_method_has_a_stored_run() -> None:
    names = {"order": "ocp", "slice_pairs": "nsp"}
    stored = {ev.load(STORED / name).config["method"]["name"] for name in RUNS}
    assert set(METHODS) <= stored | {names.get(name, name) for name in stored}


@pytest.mark.parametrize("name", RUNS)
def test_a_stored_run_embeds_as_it_did(name: str) -> None:
    run = ev.load(STORED / name)
    data, before = events_of(run), ev.read_embeddings(STORED / f"{name}.z.parquet")
    assert data.keys.equals(before.keys)
    assert before.schema.to_json() == data.schema.to_json()
    np.testing.assert_allclose(ev.encode(run.encoder, data.sequences).numpy(), before.values, **CLOSE)
    if name == "masked_language":  # `write` recorded no provenance when it was called from Python
        return
    assert before.metadata["fingerprint"] == data.fingerprint
    for part, value in {"run": run.id, "labels": run.info["labels"], "holdouts": run.info["holdouts"]}.items():
        assert before.metadata[part] == value


def test_wide_and_normalised_embeddings_are_read() -> None:
    z = ev.read_embeddings(STORED / "wide.parquet")
    assert z.values.shape == (24, 8)
    np.testing.assert_allclose(np.linalg.norm(z.values, axis=1), 1, rtol=1e-5)
    assert z.metadata["until"] == "2024-03-01"


@pytest.mark.parametrize("name", ["supervised", "fine_tuned"])
def test_stored_runs_predict_as_they_did(name: str) -> None:
    run = ev.load(STORED / name)
    before = pl.DataFrame(pq.read_table(STORED / f"{name}.predictions.parquet"))
    now = pl.DataFrame(ev.predict(run, str(STORED / "events.parquet")))
    assert now.columns == before.columns
    for column in before.columns:
        if before[column].dtype.is_float():
            np.testing.assert_allclose(now[column], before[column], **CLOSE)
        else:
            assert now[column].to_list() == before[column].to_list()


def test_a_stored_run_is_surprised_as_it_was() -> None:
    before = pl.DataFrame(pq.read_table(STORED / "next_event.surprise.parquet"))
    now = pl.DataFrame(ev.surprise(ev.load(STORED / "next_event"), str(STORED / "events.parquet")))
    assert now[["card", "when"]].equals(before[["card", "when"]])
    parts = [name for name in before.columns if name.startswith("surprise")]
    np.testing.assert_allclose(now[parts].to_numpy(), before[parts].to_numpy(), **CLOSE)


@pytest.mark.parametrize(("name", "recent"), [("coles", None), ("ocp", None), ("coles_transformer", 5)])
def test_a_stored_store_goes_on_as_it_did(name: str, recent: int | None, tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    shutil.copy(STORED / f"{name}.db", store)
    run = ev.load(STORED / name)
    again = ev.update(run, str(STORED / "history.parquet"), store, recent=recent)
    first = ev.read_embeddings(STORED / f"{name}.first.parquet")
    assert not again.applied
    np.testing.assert_allclose(again.embeddings, first.values, **CLOSE)
    fresh = ev.update(run, str(STORED / "batch.parquet"), store, recent=recent)
    second = ev.read_embeddings(STORED / f"{name}.second.parquet")
    assert fresh.applied
    assert fresh.data.keys.equals(second.keys)
    assert fresh.embeddings.events.tolist() == second.events.tolist()
    assert fresh.embeddings.last_time.tolist() == second.last_time.tolist()
    np.testing.assert_allclose(fresh.embeddings, second.values, **CLOSE)


def test_a_stored_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    shutil.copytree(STORED / "killed", tmp_path / "run")
    fitting = ev.Fitting(min_count=1)
    table = str(STORED / "events.parquet")
    data = ev.read(table, key="card", time="when", categorical=["shop"], numeric=["amount"], fitting=fitting)
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=8)
    method = ev.methods.CoLES(encoder, ev.views.RandomSlices(count=3, shortest=2, longest=6))
    ev.fit(method, data, epochs=4, batch_size=8, seed=5, checkpoint_every=1, out=tmp_path / "run", resume=True)
    before = ev.read_embeddings(STORED / "killed.z.parquet")
    torch.testing.assert_close(
        ev.encode(ev.load(tmp_path / "run").encoder, data.sequences),
        torch.from_numpy(before.values),
        rtol=1e-2,
        atol=1e-3,
    )
