"""Model folders that were tampered with: each is refused in one sentence, and nothing is waited for or allocated."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

import backbones
import eventvec as ev
import fits
from eventvec.models.model_files import read_config, read_info, read_tensors
from fits import ABSENT, change, sign


def table() -> pl.DataFrame:
    """Return the purchases of 20 cards in four shops."""
    rng = np.random.default_rng(0)
    shops = rng.choice(["grocer", "baker", "tailor", "smith"], 260)
    when = [datetime(2026, 1, 1) + timedelta(hours=7 * hour) for hour in range(260)]
    return pl.DataFrame({"card": np.arange(260) % 20, "when": when, "shop": shops, "amount": rng.random(260)})


def read() -> ev.Dataset:
    fitting = ev.Fitting(min_count=1)
    return ev.read(table(), key="card", time="when", categorical=["shop"], numeric=["amount"], fitting=fitting)


def coles(data: ev.Dataset) -> ev.methods.CoLES:
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema, time=("gap", "hour")), dim=8)
    return ev.methods.CoLES(encoder, ev.views.RandomSlices(shortest=2, longest=6, count=3))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that loads."""
    data, folder = read(), tmp_path_factory.mktemp("finished") / "run"
    ev.fit(data, method=coles(data), epochs=1, batch_size=8, out=folder)
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run whose training ended after its first checkpoint."""
    data, folder = read(), tmp_path_factory.mktemp("killed") / "run"
    options = {"epochs": 4, "batch_size": 8, "seed": 5, "checkpoint_every": 1}
    with pytest.raises(fits.Interrupted):
        ev.fit(data, method=coles(data), out=folder, progress=fits.interrupt_after(4), **options)
    return folder


@pytest.fixture(scope="module")
def of_language(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of two runs that keep a tokenizer."""
    notes = table().with_columns(note=pl.col("shop"))
    people = pl.DataFrame({"card": range(20), "about": [f"person {card}" for card in range(20)]})
    options: dict[str, Any] = {
        "categorical": ["shop"],
        "texts": ["note"],
        "static": people,
        "static_columns": {"about": "text"},
    }
    data = ev.read(notes, key="card", time="when", fitting=ev.Fitting(min_count=1), **options)
    bert = backbones.folder("bert")
    language = {"name": "language", "backbone": bert, "text": "shop", "lora": 2}
    text = {"name": "text", "backbone": bert, "text": "note"}
    methods = {
        "tpp": {"method": {"name": "tpp_embedding", "description": "about"}, "encoder": language},
        "masked": {"method": {"name": "masked_language"}, "encoder": text},
    }
    folders = {name: tmp_path_factory.mktemp("language") / name for name in methods}
    for name, method in methods.items():
        ev.fit(data, method=method, epochs=1, batch_size=8, out=folders[name])
    return folders


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of a run that loads."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def refuse(run: Path, message: str) -> None:
    """Check that a run is refused in one sentence."""
    with pytest.raises(ev.CheckpointError, match=message) as error:
        ev.load(run)
    assert "\n" not in str(error.value)
    assert str(run) in str(error.value)


@pytest.mark.parametrize(
    "name", ["history", "steps", "seconds", "stopped", "usable", "entities", "versions", "holdouts"]
)
@pytest.mark.parametrize("value", [ABSENT, None, [3], {"a": {}}, -1, float("nan")])
def test_counts_that_are_absent_or_of_another_type_are_refused(run: Path, name: str, value: Any) -> None:
    change(run / "model.json", name, value)
    refuse(run, rf"model.json is damaged: {name}.*")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("format", "two"),
        ("id", ""),
        ("holdouts.0.fraction", 2.0),
        ("holdouts.0.seed", ABSENT),
        ("history.0.loss", "low"),
        ("history.0.validation", ABSENT),
        ("history.0.validation_mrr", "high"),
        ("events", "many"),
        ("from", 3),
        ("data.columns.amount.missing", 2),
        ("data.columns.amount.std", float("nan")),
        ("data.columns.amount.other", 1),
    ],
)
def test_entries_of_a_run_that_are_wrong_are_refused(run: Path, place: str, value: Any) -> None:
    change(run / "model.json", place, value)
    refuse(run, f"model.json is damaged: {place}[:.]")


@pytest.mark.parametrize("name", ["mean", "std"])
def test_the_mean_of_numbers_and_their_spread_come_together(run: Path, name: str) -> None:
    change(run / "model.json", f"data.columns.amount.{name}", ABSENT)
    refuse(run, "data.columns.amount: .*it has one of mean and std, which come together")


@pytest.mark.parametrize(("name", "value"), [("labels", ABSENT), ("holdouts", ABSENT), ("holdouts", [])])
def test_a_run_that_has_not_finished_says_what_it_learns_and_holds_out(
    killed: Path, tmp_path: Path, name: str, value: Any
) -> None:
    run = Path(shutil.copytree(killed, tmp_path / "run"))
    change(run / "model.json", name, value)
    with pytest.raises(ev.CheckpointError, match=f"model.json is damaged: {name}: "):
        read_info(run)


def test_a_run_that_has_not_finished_needs_no_results(finished: Path, killed: Path) -> None:
    for folder in (finished, killed):
        assert read_info(folder) == json.loads((folder / "model.json").read_text())
    assert "steps" in read_info(finished)
    assert "steps" not in read_info(killed)


def test_each_file_that_is_read_and_no_other_has_a_digest(run: Path) -> None:
    info = json.loads((run / "model.json").read_text())
    files = info["files"]
    assert files.keys() == {"config.toml", "schema.json", "model.safetensors"}
    unlisted = [{name: files[name] for name in files if name != absent} for absent in files]
    for changed in (*unlisted, {**files, "../other": files["config.toml"]}, {}):
        change(run / "model.json", "files", changed)
        refuse(run, "is damaged or absent: it is not the file that was written")
    for name in files:
        (run / name).rename(run / "elsewhere")
        change(run / "model.json", "files", {each: files[each] for each in files if each != name})
        refuse(run, f"{name} is (damaged or )?absent")
        (run / "elsewhere").rename(run / name)
    change(run / "model.json", "files", files)
    ev.load(run)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("categorical.0.name", "amount", "the column name 'amount' is there twice"),
        ("numeric.0.name", "card", "the column name 'card' is there twice, or has another meaning"),
        ("numeric.0.name", "gap", "the column name 'gap' is there twice, or has another meaning"),
        ("categorical.0.values", ["grocer", "baker", "grocer", "tailor"], "column 'shop' has a value twice"),
        ("categorical.0.values", [1, 2, 3, 4], r"categorical.0.values.0: Input should be a valid string"),
        (
            "categorical.0.values",
            [],
            r"as float32 of shape \(24, 11\), but config.toml and schema.json ask for float32 of shape \(24, 9\)",
        ),
        ("numeric.0.std", 0, "column 'amount' must have finite means"),
        ("numeric.0.mean", float("nan"), "column 'amount' must have finite means"),
        ("gap.std", -1.0, "column 'gap' must have finite means"),
        ("gap.name", "amount", "gap is called 'amount', not gap"),
        ("static", [{"name": "v", "mean": [1.0], "std": [1.0, 2.0]}], "column 'v' must have finite means"),
        ("time_zone", "Mars/Olympus", "there is no time zone 'Mars/Olympus'"),
        ("time_kind", "century", "time_kind: Input should be"),
        ("key", ABSENT, "key: Field required"),
    ],
)
def test_schemas_that_no_data_have_are_refused(run: Path, place: str, value: Any, message: str) -> None:
    change(run / "schema.json", place, value)
    refuse(run, message)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("encoder.dim", 10**9, r"as float32 of shape .* ask for|is too large"),
        ("encoder.dim", 2**63 - 1, "is too large"),
        ("encoder.dim", "8", "encoder.dim must be a whole number, got '8'"),
        ("encoder.layers", 10**6, "layers must be at most 1000"),
        ("encoder.layers", 2, "lacks tensor 'encoder.cells.1"),
        ("encoder.events", 3, "encoder.events is 3"),
        ("encoder.name", ["gru"], "is not known"),
        ("encoder.name", "lstm", "encoder has no option 'cell'"),
        ("method", 3, "config.toml is damaged: method must be a table"),
        ("method", ABSENT, "method: name '' is not known"),
        ("methods", {}, r"config.toml is damaged: \[methods\] is not a table"),
        ("data", 3, "config.toml is damaged: data must be a table"),
    ],
)
def test_configurations_that_do_not_fit_the_weights_are_refused(
    run: Path, place: str, value: Any, message: str
) -> None:
    change(run / "config.toml", place, value)
    refuse(run, message)


@pytest.mark.parametrize("name", ["config.toml", "schema.json", "model.json"])
@pytest.mark.parametrize(
    "text", ["[" * 99_999, "[" * 500 + "]" * 500, '{"a":' * 500 + "1" + "}" * 500, "a = " + "9" * 5000]
)
def test_texts_that_are_nested_too_deeply_or_hold_too_large_numbers_are_refused(
    run: Path, name: str, text: str
) -> None:
    (run / name).write_text(text)
    if name != "model.json":
        refuse(run, f"{name} is damaged or absent: it is not the file that was written")
        sign(run)
    refuse(run, f"{name} is damaged: ")


@pytest.mark.parametrize("name", ["config.toml", "schema.json", "model.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "link"])
def test_what_is_no_file_is_refused_and_not_waited_for(run: Path, name: str, kind: str) -> None:
    (run / name).unlink()
    make: dict[str, Callable[[Path], None]] = {
        "folder": lambda path: path.mkdir(),
        "pipe": os.mkfifo,
        "device": lambda path: path.symlink_to("/dev/zero"),
        "link": lambda path: path.symlink_to(path),
    }
    make[kind](run / name)
    if name != "model.json":
        refuse(run, f"{name} is damaged or absent: it is not the file that was written")
        sign(run)
    refuse(run, "cannot be read|absent" if kind == "link" else f"{name} is damaged: it is a folder, a pipe or a device")


def first(tensors: dict[str, torch.Tensor]) -> str:
    return next(name for name in tensors if tensors[name].dim() == 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda w: {name: each.long() for name, each in w.items()}, "as int64 of shape"),
        (lambda w: {name: each.bool() for name, each in w.items()}, "as bool of shape"),
        (lambda w: {name: each.half() for name, each in w.items()}, "as float16 of shape .* ask for float32"),
        (lambda w: {**w, first(w): w[first(w)].T.contiguous()}, "as float32 of shape"),
        (lambda w: {**w, first(w): torch.tensor(1.0)}, r"as float32 of shape \(\), but config.toml and schema.json"),
        (lambda w: {**w, first(w): w[first(w)] * torch.nan}, "weights that are not finite"),
        (lambda w: {**w, "more": torch.ones(2)}, "has an unknown tensor 'more'"),
        (lambda w: {**w, "learned.more": torch.ones(2)}, "has an unknown tensor 'more'"),
        (lambda w: {name: each for name, each in w.items() if name != first(w)}, "lacks tensor"),
        (lambda _: {}, "lacks tensor"),
    ],
)
def test_weights_of_another_kind_are_refused(
    run: Path, changed: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], message: str
) -> None:
    path = run / "model.safetensors"
    save_file(changed(load_file(path)), path)
    sign(run)
    refuse(run, message)


@pytest.mark.parametrize("header", [b"", b"{}", b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}'])
def test_weights_with_a_damaged_header_are_refused(run: Path, header: bytes) -> None:
    (run / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    sign(run)
    refuse(run, "damaged|lacks")


@pytest.mark.parametrize("path", ["", "n" * 300, "a\0b", "/dev/null"])
def test_paths_that_are_no_folder_are_refused(path: str) -> None:
    with pytest.raises(ev.CheckpointError, match=r"does not exist|is no model folder|cannot be read"):
        ev.load(path)


def test_an_object_that_is_no_path_is_refused() -> None:
    with pytest.raises(ev.ConfigError, match=r"^load takes the path of a model folder, got NoneType$"):
        ev.load(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [b"noise", b'{"tokenizer": 3}', b"[3]", b'{"tokenizer": "{}", "backbone": "origin"}'])
def test_a_tokenizer_that_is_damaged_is_refused(tmp_path: Path, of_language: dict[str, Path], text: bytes) -> None:
    for name, folder in of_language.items():
        shutil.copytree(folder, tmp_path / name)
        path = tmp_path / name / "model.safetensors"
        tensors = load_file(path)
        state = next(each for each in tensors if each.endswith("_extra_state"))
        whole = bytes(tensors[state].numpy())
        changed = text.replace(b"origin", json.loads(whole).get("backbone", "").encode())
        save_file({**tensors, state: torch.frombuffer(bytearray(changed), dtype=torch.uint8)}, path)
        sign(tmp_path / name)
        refuse(tmp_path / name, "is damaged")


def test_the_options_of_a_run_that_is_resumed_are_checked(killed: Path, tmp_path: Path) -> None:
    shutil.copytree(killed, tmp_path / "run")
    change(tmp_path / "run" / "config.toml", "fit.epochs", "four")
    data = read()
    with pytest.raises(ev.CheckpointError, match=r"config.toml is damaged: fit: epochs must be a whole number or None"):
        ev.fit(data, method=coles(data), seed=5, out=tmp_path / "run", resume=True)


def test_the_files_of_a_run_are_read_as_they_were_written(finished: Path, killed: Path) -> None:
    assert read_config(finished) == tomllib.loads((finished / "config.toml").read_text())
    tensors, texts = read_tensors(killed / "checkpoint.safetensors")
    assert "counts" in texts
    assert tensors["rng"].dtype == torch.uint8
