"""What an encoder was trained on follows it: from run to run, and into embeddings and their files."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch

import eventvec as ev
from eventvec.encoders.interface import Lineage, attach_lineage, lineage_of
from fits import Interrupted, coles, dataset, interrupt_after, labels, table


def supervised(encoder: ev.encoders.Recurrent, data: ev.Dataset) -> ev.methods.Supervised:
    return ev.methods.Supervised(encoder, data.schema, "churn")


def labelled(**options: float) -> ev.Dataset:
    """Return data with the label as a static column."""
    return ev.read(table(), key="id", time="t", categorical=["code"], numeric=["amount"], static=labels(), **options)


def test_an_encoder_that_was_not_trained_has_no_lineage() -> None:
    encoder = coles(dataset()).encoder
    assert lineage_of(encoder) is None
    assert {"run", "labels", "holdouts"}.isdisjoint(ev.embed(encoder, dataset()).metadata)


def test_embeddings_have_the_holdouts_and_labels_of_both_runs_of_an_encoder() -> None:
    data = labelled(holdout=0.25, holdout_seed=3)
    method = supervised(coles(data).encoder, data)
    first = ev.fit(data, method=method, epochs=1)
    other = dataset(holdout=0.5, holdout_seed=7)
    second = ev.fit(other, method=ev.methods.CoLES(method.encoder, ev.views.RandomSlices(3, 5, 15)), epochs=1)
    metadata = ev.embed(method.encoder, dataset()).metadata
    assert metadata["run"] == second.id
    assert metadata["labels"] == ["churn"]
    assert metadata["holdouts"] == [
        {"run": first.id, "fraction": 0.25, "seed": 3, "fingerprint": data.fingerprint, "last_event": 29},
        {"run": second.id, "fraction": 0.5, "seed": 7, "fingerprint": other.fingerprint, "last_event": 29},
    ]
    with pytest.raises(ev.ConfigError, match="2 runs that did not hold the same entities out"):
        ev.embed(method.encoder, dataset()).held_out  # noqa: B018
    assert second.info["from"] == first.id
    assert first.lineage.holdouts == second.lineage.holdouts[:1]  # the first run does not change


def test_a_label_that_two_runs_learned_from_is_recorded_once() -> None:
    data = labelled()
    method = supervised(coles(data).encoder, data)
    ev.fit(data, method=method, epochs=1)
    run = ev.fit(data, method=method, epochs=1)
    assert (run.info["labels"], len(run.info["holdouts"])) == (["churn"], 2)


def test_the_lineage_survives_the_run_folder_and_the_embeddings_file(tmp_path: Path) -> None:
    data = labelled(holdout=0.25, holdout_seed=3)
    run = ev.fit(data, method=supervised(coles(data).encoder, data), epochs=1, out=tmp_path / "run")
    loaded = ev.load(tmp_path / "run")
    assert lineage_of(loaded.encoder) == loaded.lineage == run.lineage == lineage_of(run.encoder)
    assert run.lineage.path == str(tmp_path / "run")
    z = loaded.embed(table())
    ev.write(tmp_path / "z.parquet", z)
    read = ev.read_embeddings(tmp_path / "z.parquet")
    for part in (z.metadata, read.metadata):
        assert (part["run"], part["labels"], part["holdouts"]) == (run.id, ["churn"], run.info["holdouts"])
    assert json.loads(json.dumps(run.lineage.to_dict())) == run.lineage.to_dict()
    assert read.held_out.any()


def test_an_interrupted_training_is_recorded_too(tmp_path: Path) -> None:
    method = coles(dataset())
    with pytest.raises(Interrupted):
        ev.fit(dataset(holdout=0.25), method=method, epochs=2, batch_size=8, progress=interrupt_after(1))
    record = lineage_of(method.encoder)
    assert record is not None
    assert [each["fraction"] for each in record.holdouts] == [0.25]
    run = ev.fit(dataset(), method=method, epochs=1)
    assert (run.info["from"], len(run.info["holdouts"])) == (record.run, 2)


def test_a_training_that_took_no_step_changes_no_lineage() -> None:
    method = coles(dataset())
    with torch.no_grad():
        next(method.parameters()).fill_(float("nan"))
    with pytest.raises(ev.DataError, match="the loss became nan at step 1"):
        ev.fit(dataset(), method=method, epochs=1)
    assert lineage_of(method.encoder) is None


def test_the_lineage_belongs_to_the_encoder_and_its_copies_but_to_no_other_module() -> None:
    encoder = torch.nn.Linear(3, 2)
    record = Lineage("3f2a", ("churn",), ())
    attach_lineage(encoder, record)
    assert lineage_of(encoder) == lineage_of(copy.deepcopy(encoder)) == record
    assert lineage_of(torch.nn.Sequential(torch.nn.ReLU(), encoder)) == record
    assert lineage_of(torch.nn.Linear(3, 2)) is None
    assert lineage_of(None) is None
    assert list(encoder.state_dict()) == ["weight", "bias"]
