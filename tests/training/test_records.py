"""The records of a training, read back by the libraries that they are written for."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import polars as pl
import pytest

import eventvec as ev
import processes
from commands import invoke, purchases
from eventvec.training.records import curves


def by_command(folder: Path) -> None:
    """Train by a command, and write down what MLflow reads then and which connections were tried; a process does it."""
    for name in list(os.environ):
        if name.startswith(("PYTEST", "CI", "GITHUB")):  # there MLflow sends nothing
            del os.environ[name]
    connections: list[str] = []
    for name in ("connect", "connect_ex"):
        setattr(socket.socket, name, lambda self, address: connections.append(str(address)))
    socket.getaddrinfo = lambda *address, **options: connections.append(str(address))
    before = dict(os.environ)
    arguments = ["fit", "--events", folder / "events.parquet", "--key", "customer", "--time", "when", "--epochs", 2]
    arguments += ["--set", "method.margin=0.3", "--device", "cpu", "--out", folder / "run"]
    result = invoke(*arguments, "--mlflow", folder / "mlruns")
    assert result.exit_code == 0, result.output
    changed = {name for name, value in {**os.environ, **before}.items() if os.environ.get(name) != before.get(name)}
    assert not [name for name in changed if name.startswith("MLFLOW")], changed  # what MLflow needs is given back
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"file://{folder}/mlruns")
    experiment = client.get_experiment_by_name("eventvec")
    (run,) = client.search_runs([experiment.experiment_id])
    names = ("step/loss", "epoch/loss", "epoch/validation")
    history = {name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)] for name in names}
    written = {"history": history, "params": run.data.params, "status": run.info.status, "name": run.info.run_name}
    (folder / "written.json").write_text(json.dumps({**written, "connections": connections}))


@pytest.fixture(scope="module")
def events() -> pl.DataFrame:
    return purchases([f"c{i:02}" for i in range(60)], 8)


def test_curves_of_steps_and_of_epochs_have_names_of_their_own() -> None:
    record = {"epoch": 1, "step": 7, "loss": 0.5, "validation": 0.25, "lr": 0.01, "share": 0.1}
    assert curves(record, 6) == {"step/loss": 0.5, "step/validation": 0.25, "step/lr": 0.01}
    assert curves(record, 7) == {"epoch/loss": 0.5, "epoch/validation": 0.25, "epoch/lr": 0.01}


def test_tensorboard_reads_what_was_written(events: pl.DataFrame, tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    data, seen = ev.read(events, key="customer", time="when"), []
    with ev.to_tensorboard(tmp_path / "logs") as records:
        run = ev.fit(data, method="ocp", epochs=3, batch_size=16, progress=lambda r: (seen.append(r), records(r)))
    written = reader.EventAccumulator(str(tmp_path / "logs")).Reload()
    steps = [(event.step, event.value) for event in written.Scalars("step/loss")]
    epochs = [(event.step, event.value) for event in written.Scalars("epoch/loss")]
    assert [step for step, _ in steps] == list(range(1, run.steps + 1))
    assert steps == [(r["step"], pytest.approx(r["loss"])) for r in seen if r not in run.history]
    assert epochs == [(r["step"], pytest.approx(r["loss"])) for r in run.history]
    losses = [event.value for event in written.Scalars("epoch/validation")]
    assert losses == [pytest.approx(r["validation"]) for r in run.history]
    assert (tmp_path / "logs").stat().st_mode & 0o77 == 0


def test_mlflow_reads_what_the_command_wrote_without_a_connection(events: pl.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    events.write_parquet(tmp_path / "events.parquet")
    assert processes.exit_code(by_command, tmp_path) == 0
    written, run = json.loads((tmp_path / "written.json").read_text()), ev.load(tmp_path / "run")
    assert written["connections"] == []
    assert (written["name"], written["status"]) == ("run", "FINISHED")
    assert written["params"]["method.margin"] == "0.3"
    assert written["params"]["data.key"] == "customer"
    assert len(written["history"]["step/loss"]) == run.steps
    for name in ("loss", "validation"):
        assert written["history"][f"epoch/{name}"] == [[r["step"], r[name]] for r in run.history]


def test_folders_that_cannot_be_written_to_are_refused(events: pl.DataFrame, tmp_path: Path) -> None:
    data = ev.read(events, key="customer", time="when")
    ev.fit(data, method="ocp", epochs=1, out=tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(ev.ConfigError, match="file is a file; name a folder for the records"):
        ev.to_tensorboard(tmp_path / "file")
    with pytest.raises(ev.ConfigError, match=r"lies in the model folder .*; name a folder elsewhere"):
        ev.to_mlflow(tmp_path / "run" / "mlruns")
    (tmp_path / "mine" / "diary").mkdir(parents=True)
    with pytest.raises(ev.ConfigError, match=r"mine holds 'diary', which is not MLflow's; name a new folder"):
        ev.to_mlflow(tmp_path / "mine")
    events.write_parquet(tmp_path / "events.parquet")
    options = ("--events", tmp_path / "events.parquet", "--key", "customer", "--time", "when", "--epochs", 1)
    result = invoke("fit", *options, "--out", tmp_path / "new", "--tensorboard", tmp_path / "new" / "logs")
    assert result.exit_code == 2
    assert "--tensorboard" in result.output
    assert not (tmp_path / "new").exists()


def test_an_extra_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    with pytest.raises(ev.ConfigError, match=r"needs tensorboard: pip install 'eventvec\[tensorboard\]'"):
        ev.to_tensorboard(tmp_path / "logs")
    with pytest.raises(ev.ConfigError, match=r"needs mlflow: pip install 'eventvec\[mlflow\]'"):
        ev.to_mlflow(tmp_path / "mlruns")
