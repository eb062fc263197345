"""Run folders that were tampered with: each is refused in one sentence, and nothing is waited for or allocated."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

import backbones
import eventvec as ev
import make
from commands import answer
from eventvec.runs.run_files import read_config, read_info, read_tensors
from fits import Interrupted, coles, dataset, interrupt_after
from tampered import ABSENT, change

SHOPS = ("grocer", "tailor", "baker", "cinema")
SETTINGS = (
    "encoder.dim=8", "encoder.events.time=['gap', 'hour']", "method.views.shortest=2", "method.views.longest=6",
    "data.fitting={min_count = 1}", "fit.batch_size=8",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table of events and `coles`, a run that loads."""
    path, rng = tmp_path_factory.mktemp("stored"), np.random.default_rng(0)
    when = np.datetime64("2024-01-01T10:00", "us") + np.arange(240) * np.timedelta64(7, "h")
    shops = [SHOPS[code] for code in rng.choice(4, 240, p=[0.4, 0.3, 0.2, 0.1])]
    events = {"card": np.arange(240) % 20, "when": when, "shop": shops, "amount": rng.exponential(10, 240)}
    pl.DataFrame(events).write_parquet(path / "events.parquet")
    columns = ("--key", "card", "--time", "when", "--categorical", "shop", "--numeric", "amount")
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    further = ("--holdout", 0.25, "--epochs", 2, "--seed", 3, "--out", path / "coles")
    answer("fit", "--events", path / "events.parquet", *columns, *settings, *further)
    return path


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Path:
    """Return a copy of a run that loads."""
    shutil.copytree(folder / "coles", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return a run that was killed after its third step."""
    with pytest.raises(Interrupted):
        ev.fit(
            coles(dataset()), dataset(), epochs=4, batch_size=8, seed=5, checkpoint_every=1, out=tmp_path / "killed",
            progress=interrupt_after(3),
        )  # fmt: skip
    return tmp_path / "killed"


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
    change(run / "run.json", name, value)
    refuse(run, rf"run.json is damaged: {name}.*")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("format", 0),
        ("id", ""),
        ("holdouts.0.fraction", 2.0),
        ("holdouts.0.seed", ABSENT),
        ("history.0.loss", "low"),
        ("history.0.validation", ABSENT),
        ("history.0.validation_mrr", "high"),
        ("events", "many"),
        ("from", 3),
    ],
)
def test_entries_of_a_run_that_are_wrong_are_refused(run: Path, place: str, value: Any) -> None:
    change(run / "run.json", place, value)
    refuse(run, f"run.json is damaged: {place}[:.]")


def test_a_run_that_has_not_finished_needs_no_results(folder: Path, killed: Path) -> None:
    for path in (killed, folder / "coles"):
        assert read_info(path) == json.loads((path / "run.json").read_text())


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
        ("encoder.name", "lstm", r"as float32 of shape \(24,\), but .* ask for float32 of shape \(32,\)"),
        ("method", 3, "config.toml is damaged: method must be a table"),
        ("method", ABSENT, "method: name '' is not known"),
        ("methods", {}, r"config.toml is damaged: \[methods\] is not a table"),
        ("data.static_numeric", 3, "config.toml is damaged: data.static_numeric must be a list"),
    ],
)
def test_configurations_that_do_not_fit_the_weights_are_refused(
    run: Path, place: str, value: Any, message: str
) -> None:
    change(run / "config.toml", place, value)
    refuse(run, message)


@pytest.mark.parametrize("name", ["config.toml", "schema.json", "run.json"])
@pytest.mark.parametrize(
    "text", ["[" * 99_999, "[" * 500 + "]" * 500, '{"a":' * 500 + "1" + "}" * 500, "a = " + "9" * 5000]
)
def test_texts_that_are_nested_too_deeply_or_hold_too_large_numbers_are_refused(
    run: Path, name: str, text: str
) -> None:
    (run / name).write_text(text)
    refuse(run, f"{name} is damaged")


@pytest.mark.parametrize("name", ["config.toml", "schema.json", "run.json", "model.safetensors"])
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
        (lambda w: {name: each for name, each in w.items() if name != first(w)}, "lacks tensor"),
        (lambda _: {}, "lacks tensor"),
    ],
)
def test_weights_of_another_kind_are_refused(
    run: Path, changed: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], message: str
) -> None:
    path = run / "model.safetensors"
    save_file(changed(load_file(path)), path)
    refuse(run, message)


@pytest.mark.parametrize("header", [b"", b"{}", b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}'])
def test_weights_with_a_damaged_header_are_refused(run: Path, header: bytes) -> None:
    (run / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    refuse(run, "damaged|lacks")


@pytest.mark.parametrize("path", ["", "n" * 300, "a\0b", "/dev/null"])
def test_paths_that_are_no_folder_are_refused(path: str) -> None:
    with pytest.raises(ev.CheckpointError, match=r"is not a run folder|cannot be read"):
        ev.load(path)


def test_an_object_that_is_no_path_is_refused() -> None:
    with pytest.raises(ev.ConfigError, match=r"^load takes the path of a run folder, got NoneType$"):
        ev.load(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [b"noise", b'{"tokenizer": 3}', b"[3]", b'{"tokenizer": "{}", "backbone": "origin"}'])
def test_a_tokenizer_that_is_damaged_is_refused(tmp_path: Path, text: bytes) -> None:
    data = make.dataset([3] * 8)
    encoder = {"name": "language", "backbone": backbones.folder(), "text": "code", "lora": 2}
    ev.fit({"method": {"name": "coles"}, "encoder": encoder}, data, epochs=1, out=tmp_path / "run", beside=())
    path = tmp_path / "run" / "model.safetensors"
    tensors = load_file(path)
    state = next(each for each in tensors if each.endswith("_extra_state"))
    whole = bytes(tensors[state].numpy())
    changed = text.replace(b"origin", json.loads(whole).get("backbone", "").encode())
    save_file({**tensors, state: torch.frombuffer(bytearray(changed), dtype=torch.uint8)}, path)
    refuse(tmp_path / "run", "is damaged")


def test_the_options_of_a_run_that_is_resumed_are_checked(killed: Path) -> None:
    change(killed / "config.toml", "fit.epochs", "four")
    with pytest.raises(ev.CheckpointError, match=r"config.toml is damaged: fit: epochs must be a whole number or None"):
        ev.fit(coles(dataset()), dataset(), seed=5, out=killed, resume=True)


def test_the_files_of_a_run_are_read_as_they_were_written(run: Path, killed: Path) -> None:
    assert read_config(run) == tomllib.loads((run / "config.toml").read_text())
    tensors, texts = read_tensors(killed / "checkpoint.safetensors")
    assert "counts" in texts
    assert tensors["rng"].dtype == torch.uint8
