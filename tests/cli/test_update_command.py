"""The command `update`: a batch every night, and mistakes of the user."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from commands import invoke
from updates import table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with events that have secret keys, two runs of a GRU and one of a set encoder."""
    path = tmp_path_factory.mktemp("update")
    events = table().with_columns(pl.concat_str(pl.lit("secret-"), "id").alias("id"))
    events.write_parquet(path / "events.parquet")
    events[:60].write_parquet(path / "first.parquet")
    events[60:].write_parquet(path / "second.parquet")
    fit = ("fit", "--events", path / "events.parquet", "--key", "id", "--time", "at", "--epochs", 1)
    for seed, (name, encoder) in enumerate((("run", "gru"), ("other", "gru"), ("set", "set"))):
        result = invoke(*fit, "--encoder", encoder, "--seed", seed, "--set", "encoder.dim=8", "--out", path / name)
        assert result.exit_code == 0, result.output
    big = events.group_by("id", maintain_order=True).agg(big=pl.col("amount").sum() > 0)
    big.write_parquet(path / "labels.parquet")
    labels = ("--labels", path / "labels.parquet", "--label", "big", "--no-label-time")
    result = invoke(*fit[:-2], *labels, "--out", path / "predictor")
    assert result.exit_code == 0, result.output
    return path


def test_predictions_of_touched_entities_and_of_all(folder: Path, tmp_path: Path) -> None:
    model, state = folder / "predictor", tmp_path / "state"
    for name in ("first", "second"):
        line = ("update", model, folder / f"{name}.parquet", "--state", state, "-o", tmp_path / f"{name}.parquet")
        result = invoke(*line, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["columns"] == ["id", "at", "prediction", "p_false", "p_true"]
    touched = pl.read_parquet(tmp_path / "second.parquet")
    assert touched.columns == ["id", "at", "prediction", "p_false", "p_true"]
    assert len(touched) == pl.read_parquet(folder / "second.parquet")["id"].n_unique()
    until = ("--until", "2100-01-01")
    result = invoke("predict", model, "--state", state, *until, "-o", tmp_path / "all.parquet", "--json")
    assert json.loads(result.stdout)["entities"] == 12
    invoke("predict", model, folder / "events.parquet", *until, "-o", tmp_path / "whole.parquet")
    every, whole = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("all", "whole"))
    both = every.join(whole, on="id")
    assert len(both) == 12
    np.testing.assert_allclose(both["p_true"], both["p_true_right"], atol=1e-6)
    new = ("update", model, folder / "second.parquet", "--state", tmp_path / "new")
    for arguments, message in (
        ((*new, "-o", "duckdb:///z.db#p"), "a file"),
        (("update", model, "--state", state, "--labels", folder / "labels.parquet"), "does not read earlier labels"),
        ((*new, "--static", folder / "labels.parquet", "-o", folder / "labels.parquet", "--overwrite"), "input"),
        (("predict", model, folder / "first.parquet", "--state", state, "-o", tmp_path / "x"), "either EVENTS, or"),
        (("predict", model, "--state", state, "--static", folder / "labels.parquet", "-o", tmp_path / "x"), "static"),
        (("predict", model, "--state", tmp_path / "new", "-o", tmp_path / "x.parquet"), "there is no such file"),
    ):
        refused = invoke(*arguments)
        assert refused.exit_code in (1, 2), refused.output
        assert message in " ".join(refused.output.split())
    assert not (tmp_path / "new").exists()


def test_the_command_of_every_night(folder: Path, tmp_path: Path) -> None:
    line = ("update", folder / "run", "--state", tmp_path / "state")
    for name, new in (("first", 12), ("second", 0)):
        result = invoke(*line, folder / f"{name}.parquet", "-o", tmp_path / "z.parquet", "--json")
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout)
        assert (answer["new"], answer["late"], answer["applied"]) == (new, 0, True)
    invoke("embed", folder / "run", folder / "events.parquet", "-o", tmp_path / "whole.parquet")
    fresh, full = (ev.read_embeddings(tmp_path / f"{name}.parquet") for name in ("z", "whole"))
    rows = [full.keys.to_pylist().index(key) for key in fresh.keys.to_pylist()]
    assert answer["dim"] == full.shape[1]
    assert fresh.parts.keys() == full.parts.keys() == {"learned", "timing", "aggregates"}
    assert np.abs(fresh.values - full.values[rows]).max() < 1e-5
    assert fresh.events.tolist() == full.events[rows].tolist()
    assert fresh.last_time.tolist() == full.last_time[rows].tolist()
    assert fresh.metadata["run"] == ev.load(folder / "run").id
    again = invoke(*line, folder / "first.parquet", "-o", tmp_path / "again.parquet")
    assert again.exit_code == 0
    assert "nothing was changed" in again.output
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*.parquet")} == {0o600}
    late = invoke(*line, folder / "events.parquet", "-o", tmp_path / "late.parquet")
    assert late.exit_code == 1
    assert "DataError: the batch has" in late.output
    dropped = invoke(*line, folder / "events.parquet", "-o", tmp_path / "late.parquet", "--late", "drop", "--json")
    assert json.loads(dropped.stdout)["late"] > 0
    forgotten = invoke("update", folder / "run", "--state", tmp_path / "state", "--forget", "secret-1003", "--json")
    assert json.loads(forgotten.stdout)["forgotten"] == 1
    assert all("secret" not in result.output for result in (again, late, dropped, forgotten))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("run", "{e}"), 2, "--forget KEY alone"),
        (("run", "{e}", "-o", "z", "--forget", "secret-1"), 2, "--forget KEY alone"),
        (("run", "--forget", "secret-1"), 1, "no such file"),
        (("run", "{e}", "-o", "z", "--late", "droop"), 2, "did you mean 'drop'"),
        (("run", "{e}", "-o", "z", "--late", "recompute"), 2, "--history EVENTS"),
        (("run", "{e}", "-o", "."), 2, "is a folder"),
        (("absent", "{e}", "-o", "z"), 1, "absent does not exist"),
        (("run", "absent.parquet", "-o", "z"), 1, "absent.parquet"),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run, *rest = (text.format(e=folder / "events.parquet") for text in arguments)
    result = invoke("update", folder / run, *rest, "--state", "state")
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.split())
    assert "secret" not in result.output
    assert not list(tmp_path.iterdir())


def test_the_command_has_an_example() -> None:
    result = invoke("update", "--help")
    assert result.exit_code == 0
    assert "eventvec update run" in result.stdout


def test_states_of_another_run_are_refused(folder: Path, tmp_path: Path) -> None:
    line = ("--state", tmp_path / "state", folder / "first.parquet", "-o", tmp_path / "z.parquet")
    assert invoke("update", folder / "run", *line).exit_code == 0
    refused = invoke("update", folder / "other", *line)
    assert refused.exit_code == 1
    assert "build a new store from the whole history" in " ".join(refused.output.split())
