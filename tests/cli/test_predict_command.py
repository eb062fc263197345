"""`eventvec predict --at` on an irregular table (time, parameter, value): training, a grid, and mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from commands import answer, invoke

CONFIG = """
[data]
path = "{path}"
key = "patient"
time = "minute"
categorical = ["parameter"]
numeric = ["value"]
fitting = {{ log = false }}

[method]
name = "{method}"
targets = 2

[encoder]
dim = 32
layers = 0

[encoder.events]
covariates = ["time", "parameter"]
observations = ["value"]

[fit]
epochs = {epochs}
batch_size = 32
lr = 0.005
seed = 0
"""


def looks(seed: int, patients: int) -> pl.DataFrame:
    """Return looks at patients at irregular minutes: the pulse rises with time, and the pressure falls."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(patients), rng.integers(5, 15, patients))
    minute, pulse = rng.integers(0, 300, len(rows)), rng.random(len(rows)) < 0.5
    level = rng.normal(0, 5, patients)[rows]
    value = 100 + level + np.where(pulse, 1, -1) * minute / 10 + rng.normal(0, 1, len(rows))
    parameter = np.where(pulse, "pulse", "pressure")
    return pl.DataFrame({"patient": rows, "minute": minute, "parameter": parameter, "value": value})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("looks")
    looks(0, 400).write_parquet(path / "train.parquet")
    looks(1, 50).write_parquet(path / "new.parquet")
    grid = {"minute": [0, 299, 0, 299], "parameter": ["pulse", "pulse", "pressure", "pressure"]}
    pl.DataFrame(grid).write_parquet(path / "grid.parquet")
    for method, epochs in (("cnp", 15), ("cresp", 1)):
        text = CONFIG.format(path=path / "train.parquet", method=method, epochs=epochs)
        (path / f"{method}.toml").write_text(text)
        answer("fit", path / f"{method}.toml", "--device", "cpu", "--out", path / method)
    return path


def test_a_grid_is_predicted_from_a_configuration_on(folder: Path, tmp_path: Path) -> None:
    arguments = (folder / "new.parquet", "--at", folder / "grid.parquet", "--device", "cpu", "-o")
    printed = answer("predict", folder / "cnp", *arguments, tmp_path / "p.parquet")
    assert (printed["entities"], printed["rows"]) == (50, 200)
    table = pl.read_parquet(tmp_path / "p.parquet")
    assert table.columns == ["patient", "minute", "parameter", "value_mean", "value_std"]
    truth = pl.DataFrame({"minute": [0, 299, 0, 299], "parameter": ["pulse"] * 2 + ["pressure"] * 2,
                          "truth": [100.0, 129.9, 100.0, 70.1]})  # fmt: skip
    both = table.join(truth, on=["minute", "parameter"])
    assert (both["value_mean"] - both["truth"]).abs().mean() < 8  # the values range from 60 to 140
    answer("predict", folder / "cresp", *arguments, tmp_path / "z.parquet")
    z = pl.read_parquet(tmp_path / "z.parquet")
    assert z.columns == ["patient", "minute", "parameter", "prediction"]
    assert z.schema["prediction"] == pl.Array(pl.Float32, 64)


@pytest.mark.parametrize(
    ("run", "change", "code", "sentence"),
    [
        ("cnp", None, 2, "the method CNP predicts at places; give a table with the covariates 'minute', 'parameter'"),
        ("cresp", {"minute": None}, 1, "no column 'minute'"),
        ("cresp", {"minute": ["a", "b", "c", "d"]}, 1, "'minute'"),
        ("cresp", {"minute": [1.5, 2.5, 3.5, float("inf")]}, 1, "infinite"),
        ("cresp", {"parameter": ["pulse", "pulse", "weight", "pulse"]}, 1, "outside the vocabulary"),
        ("cresp", {"patient": [100, 101, 102, 103]}, 1, "4 keys (first at row 0); without events among 50 entities"),
        ("cresp", {"who": [1, 2, 3, 4]}, 1, "has the further columns who, but no key, 'patient'"),
        ("cresp", "absent.parquet", 1, "absent.parquet"),
        ("cresp", "", 2, "it is empty; give a value, or leave it out"),
    ],
)
def test_a_mistake_gets_one_sentence_and_its_exit_code(
    folder: Path, tmp_path: Path, run: str, change: object, code: int, sentence: str
) -> None:
    at = change
    if isinstance(change, dict):
        grid = pl.read_parquet(folder / "grid.parquet")
        columns = {name: values for name, values in change.items() if values is not None}
        at = folder / "changed.parquet"
        grid.drop([name for name in change if name in grid.columns]).with_columns(
            **{name: pl.Series(values) for name, values in columns.items()}
        ).write_parquet(at)
    options = () if at is None else ("--at", at)
    result = invoke("predict", folder / run, folder / "new.parquet", "-o", tmp_path / "p.parquet", *options)
    assert result.exit_code == code, result.output
    assert sentence in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_the_places_are_an_input_that_is_not_replaced(folder: Path) -> None:
    grid = folder / "grid.parquet"
    result = invoke("predict", folder / "cresp", folder / "new.parquet", "--at", grid, "-o", grid, "--overwrite")
    assert result.exit_code == 2
    assert "is an input; name another file to write" in " ".join(result.output.split())
