"""A run folder: whole, private, plain, and refused where it is damaged."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import backbones
import eventvec as ev
from eventvec.encoders.points import Numbers, Pairs
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import CReSP, ExpCLR, Supervised, TargetedCReSP
from eventvec.views import processes


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ev.Dataset, torch.nn.Module]:
    rng = np.random.default_rng(0)
    codes = np.where(rng.random(600) < 0.01, "rare-disease-7", rng.integers(0, 3, 600).astype(str))
    codes[:3], codes[3:] = "rare-disease-7", np.where(codes[3:] == "rare-disease-7", "0", codes[3:])
    events = pl.DataFrame(
        {"name": np.repeat([f"secret-key-{i}" for i in range(30)], 20), "t": np.arange(600), "code": codes}
    )
    data = ev.read(events, key="name", time="t", categorical=["code"])
    method = ev.ocp(ev.LSTM(ev.EventEncoder(data.schema), dim=8, layers=2), length=3)
    path = tmp_path_factory.mktemp("runs") / "run"
    ev.fit(method, data, epochs=2, batch_size=8, out=path)
    return path, data, method


def test_a_loaded_run_gives_the_same_embeddings(run: tuple[Path, ev.Dataset, torch.nn.Module]) -> None:
    path, data, method = run
    loaded = ev.load(path)
    assert torch.equal(ev.embed(loaded.encoder, data), ev.embed(method.encoder, data))  # type: ignore[arg-type]
    assert loaded.schema == data.schema
    assert loaded.info["fingerprint"] == data.fingerprint
    assert loaded.config["method"] == {
        "name": "order",
        "pairs": {"name": "order_pairs", "length": 3, "skip": 0, "count": 1},
    }
    assert not loaded.method.training


def test_its_files_are_plain_private_and_complete(run: tuple[Path, ev.Dataset, torch.nn.Module]) -> None:
    path, _, _ = run
    names = {file.name for file in path.iterdir()}
    assert names == {"config.toml", "schema.json", "run.json", "model.safetensors", "metrics.jsonl", "README.md"}
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in path.iterdir())
    info = json.loads((path / "run.json").read_text())
    assert {"format", "id", "seed", "fingerprint", "versions", "finished"} <= info.keys()
    assert info["versions"]["torch"].startswith(torch.__version__.split("+")[0])


def test_no_file_holds_a_key_or_a_rare_value(run: tuple[Path, ev.Dataset, torch.nn.Module]) -> None:
    path, _, _ = run
    for file in path.iterdir():
        assert b"secret-key" not in file.read_bytes()
        assert b"rare-disease" not in file.read_bytes()


@pytest.mark.parametrize("name", ["config.toml", "schema.json", "run.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["absent", "cut", "noise"])
def test_a_damaged_file_is_said(
    run: tuple[Path, ev.Dataset, torch.nn.Module], tmp_path: Path, name: str, damage: str
) -> None:
    broken = tmp_path / "run"
    shutil.copytree(run[0], broken)
    whole = (broken / name).read_bytes()
    if damage == "absent":
        (broken / name).unlink()
    else:
        (broken / name).write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"\x80\x04noise")
    with pytest.raises(ev.CheckpointError):
        ev.load(broken)


def test_a_newer_format_and_a_folder_without_a_run_are_refused(
    run: tuple[Path, ev.Dataset, torch.nn.Module], tmp_path: Path
) -> None:
    with pytest.raises(ev.CheckpointError, match="is no run folder"):
        ev.load(tmp_path)
    newer = tmp_path / "run"
    shutil.copytree(run[0], newer)
    info = json.loads((newer / "run.json").read_text())
    (newer / "run.json").write_text(json.dumps({**info, "format": 99}))
    with pytest.raises(ev.CheckpointError, match="format 99; this eventvec reads up to 1: upgrade"):
        ev.load(newer)


def test_weights_of_another_shape_are_refused(run: tuple[Path, ev.Dataset, torch.nn.Module], tmp_path: Path) -> None:
    other = tmp_path / "run"
    shutil.copytree(run[0], other)
    text = (other / "config.toml").read_text()
    (other / "config.toml").write_text(text.replace("dim = 8", "dim = 16"))
    with pytest.raises(ev.CheckpointError, match="is damaged"):
        ev.load(other)


def people(rows: int = 40) -> ev.Dataset:
    """Return events and what is known of their entities, in columns that are called like options and encoders."""
    rng = np.random.default_rng(0)
    events = pl.DataFrame({"id": np.repeat(np.arange(rows), 4), "t": np.arange(4 * rows)}).with_columns(
        code=pl.Series(rng.integers(0, 3, 4 * rows)).cast(pl.String), v=pl.Series(rng.normal(size=4 * rows))
    )
    secret = [f"secret-{i % 2}" for i in range(rows)]
    known = pl.DataFrame({"id": np.arange(rows), "habit": ["a", "b"] * (rows // 2), "speed": rng.normal(size=rows)})
    known = known.with_columns(pl.Series(name, secret) for name in ("gru", "gap", "auto", "label", "supervised"))
    return ev.read(events, key="id", time="t", categorical=["code"], numeric=["v"], static=known)


def test_a_run_keeps_the_static_columns_that_its_method_names_and_no_other(tmp_path: Path) -> None:
    data = people()
    assert {"gru", "gap", "auto", "label", "supervised"} <= {field.name for field in data.schema.static}
    encoder = ev.GRU(ev.EventEncoder(data.schema), dim=4)
    methods = {"habit": Supervised(encoder, data.schema, "habit"), "speed": ExpCLR(encoder, data.schema, ["speed"])}
    for name, method in methods.items():
        ev.fit(method, data, epochs=1, out=tmp_path / name)
        loaded = ev.load(tmp_path / name)
        assert [field.name for field in loaded.schema.static] == loaded.info["labels"] == [name]
        assert not any(b"secret" in file.read_bytes() for file in (tmp_path / name).iterdir())


def test_a_run_whose_backbone_is_absent_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = people()
    backbone = tmp_path / "tiny"
    shutil.copytree(backbones.folder(), backbone)
    encoder = ev.LanguageEncoder(str(backbone), data.schema, text="code")
    ev.fit(Supervised(encoder, data.schema, "habit"), data, epochs=1, out=tmp_path / "run")
    assert ev.load(tmp_path / "run").encoder.dim == backbones.WIDTH
    shutil.rmtree(backbone)
    with pytest.raises(
        ev.CheckpointError, match=r"run needs .*: encoder: backbone '.*tiny' is neither a folder"
    ) as told:
        ev.load(tmp_path / "run")
    assert "damaged" not in str(told.value)


def test_the_card_counts_what_there_is_and_says_what_a_targeted_embedding_is(tmp_path: Path) -> None:
    data = processes.sinusoids(8)
    encoder = SetEncoder(Pairs(Numbers(1, width=8)), dim=8)
    methods = {
        "targeted": TargetedCReSP(encoder, processes.Sinusoids(count=1, length=6)),
        "untargeted": CReSP(encoder, processes.Sinusoids(count=2, length=5)),
    }
    cards = {}
    for name, method in methods.items():
        ev.fit(method, data, epochs=1, validation=0, out=tmp_path / name)
        assert "events" not in ev.load(tmp_path / name).info
        cards[name] = (tmp_path / name / "README.md").read_text()
        assert "| entities | 8 |" in cards[name]
        assert "without labels" in cards[name]
    assert "depends on no x*" in cards["targeted"]
    assert "`run.method.predictor`" in cards["targeted"]
    assert "predictor" not in cards["untargeted"]
