"""A run: its folder is complete, private and plain, and damaged ones are refused; reading events by its schema."""

from __future__ import annotations

import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from experiments.cresp import processes

import backbones
import eventvec as ev
import make
import updates
from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import CReSP, ExpCLR, Supervised, TargetedCReSP
from fits import sign


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ev.Dataset, torch.nn.Module]:
    rng = np.random.default_rng(0)
    codes = np.where(rng.random(600) < 0.01, "rare-disease-7", rng.integers(0, 3, 600).astype(str))
    codes[:3], codes[3:] = "rare-disease-7", np.where(codes[3:] == "rare-disease-7", "0", codes[3:])
    events = pl.DataFrame(
        {"name": np.repeat([f"secret-key-{i}" for i in range(30)], 20), "t": np.arange(600), "code": codes}
    )
    data = ev.read(events, key="name", time="t", categorical=["code"])
    method = ev.methods.ocp(ev.encoders.LSTM(ev.encoders.EventEncoder(data.schema), dim=8, layers=2), length=3)
    path = tmp_path_factory.mktemp("runs") / "run"
    ev.fit(data, method=method, epochs=2, batch_size=8, out=path)
    return path, data, method


def test_a_loaded_run_gives_the_same_embeddings(run: tuple[Path, ev.Dataset, torch.nn.Module]) -> None:
    path, data, method = run
    loaded = ev.load(path)
    assert torch.equal(ev.encode(loaded.encoder, data.sequences), ev.encode(method.encoder, data.sequences))  # type: ignore[arg-type]
    assert loaded.schema == data.schema
    assert loaded.info["fingerprint"] == data.fingerprint
    assert loaded.config["method"] == {
        "name": "order",
        "pairs": {"name": "order_pairs", "length": 3, "skip": 0, "count": 1},
    }
    assert not loaded.method.training


def test_the_files_of_a_run_are_plain_private_and_complete(run: tuple[Path, ev.Dataset, torch.nn.Module]) -> None:
    path, _, _ = run
    names = {file.name for file in path.iterdir()}
    assert names == {"config.toml", "schema.json", "model.json", "model.safetensors", "metrics.jsonl", "README.md"}
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in path.iterdir())
    info = json.loads((path / "model.json").read_text())
    assert {"format", "id", "seed", "fingerprint", "versions", "finished"} <= info.keys()
    assert info["versions"]["torch"].startswith(torch.__version__.split("+")[0])


def test_no_file_holds_a_key_or_a_rare_value(run: tuple[Path, ev.Dataset, torch.nn.Module]) -> None:
    path, _, _ = run
    for file in path.iterdir():
        assert b"secret-key" not in file.read_bytes()
        assert b"rare-disease" not in file.read_bytes()


@pytest.mark.parametrize("name", ["config.toml", "schema.json", "model.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["absent", "cut", "noise"])
def test_a_damaged_file_is_refused(
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


def test_another_format_and_a_folder_without_a_model_are_refused(
    run: tuple[Path, ev.Dataset, torch.nn.Module], tmp_path: Path
) -> None:
    with pytest.raises(ev.CheckpointError, match="is no model folder"):
        ev.load(tmp_path)
    newer = tmp_path / "run"
    shutil.copytree(run[0], newer)
    info = json.loads((newer / "model.json").read_text())
    (newer / "model.json").write_text(json.dumps({**info, "format": 99}))
    with pytest.raises(ev.CheckpointError, match="format 99; this eventvec reads 2: upgrade"):
        ev.load(newer)
    (newer / "model.json").write_text(json.dumps({**info, "format": 1}))
    with pytest.raises(ev.CheckpointError, match="format 1; this eventvec reads 2: train it again"):
        ev.load(newer)


def test_weights_of_another_shape_are_refused(run: tuple[Path, ev.Dataset, torch.nn.Module], tmp_path: Path) -> None:
    other = tmp_path / "run"
    shutil.copytree(run[0], other)
    text = (other / "config.toml").read_text()
    (other / "config.toml").write_text(text.replace("dim = 8", "dim = 16"))
    sign(other)
    with pytest.raises(ev.CheckpointError, match=r"is damaged: model.safetensors has .* ask for"):
        ev.load(other)


def people(rows: int = 40) -> ev.Dataset:
    """Return events with static columns, some of which have the names of options and encoders."""
    rng = np.random.default_rng(0)
    events = pl.DataFrame({"id": np.repeat(np.arange(rows), 4), "t": np.arange(4 * rows)}).with_columns(
        code=pl.Series(rng.integers(0, 3, 4 * rows)).cast(pl.String), v=pl.Series(rng.normal(size=4 * rows))
    )
    secret = [f"secret-{i % 2}" for i in range(rows)]
    static = pl.DataFrame({"id": np.arange(rows), "habit": ["a", "b"] * (rows // 2), "speed": rng.normal(size=rows)})
    static = static.with_columns(pl.Series(name, secret) for name in ("gru", "gap", "auto", "label", "supervised"))
    return ev.read(events, key="id", time="t", categorical=["code"], numeric=["v"], static=static)


@pytest.mark.parametrize("name", ["habit", "speed"])
def test_a_run_keeps_the_static_columns_that_its_method_names_and_no_other(tmp_path: Path, name: str) -> None:
    data = people()
    assert {"gru", "gap", "auto", "label", "supervised"} <= {field.name for field in data.schema.static}
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4)
    methods = {"habit": Supervised(encoder, data.schema, "habit"), "speed": ExpCLR(encoder, data.schema, ["speed"])}
    run = ev.fit(data, method=methods[name], epochs=1, out=tmp_path / name)
    resumed = ev.fit(data, method=methods[name], epochs=1, out=tmp_path / name, resume=True)
    for each in (run, resumed, ev.load(tmp_path / name)):
        assert [field.name for field in each.schema.static] == each.info["labels"] == [name]
    assert not any(b"secret" in file.read_bytes() for file in (tmp_path / name).iterdir())
    card = (tmp_path / name / "README.md").read_text()
    assert f"from the static column `{name}`" in card
    assert f"| static columns used | `{name}` |" in card


def test_a_run_whose_backbone_is_absent_is_refused_without_calling_it_damaged(tmp_path: Path) -> None:
    data = people()
    backbone = tmp_path / "tiny"
    shutil.copytree(backbones.folder(), backbone)
    encoder = ev.encoders.LanguageEncoder(str(backbone), data.schema, text="code")
    ev.fit(data, method=Supervised(encoder, data.schema, "habit"), epochs=1, out=tmp_path / "run")
    assert ev.load(tmp_path / "run").encoder.dim == backbones.WIDTH
    shutil.rmtree(backbone)
    message = r"run needs .*: encoder: backbone '.*tiny' is not a folder"
    with pytest.raises(ev.CheckpointError, match=message) as error:
        ev.load(tmp_path / "run")
    assert "damaged" not in str(error.value)


@pytest.mark.usefixtures("named_processes")
def test_the_model_card_counts_the_entities_and_describes_a_targeted_embedding(tmp_path: Path) -> None:
    data = processes.sinusoids(8)
    encoder = SetEncoder(PointEncoder(Numbers(1, width=8)), dim=8)
    methods = {
        "targeted": TargetedCReSP(encoder, processes.Sinusoids(count=1, length=6)),
        "untargeted": CReSP(encoder, processes.Sinusoids(count=2, length=5)),
    }
    cards = {}
    for name, method in methods.items():
        ev.fit(data, method=method, epochs=1, validation=0, out=tmp_path / name)
        assert "events" not in ev.load(tmp_path / name).info
        cards[name] = (tmp_path / name / "README.md").read_text()
        assert "| entities | 8 |" in cards[name]
        assert "without labels" in cards[name]
    assert "depends on no x*" in cards["targeted"]
    assert "`eventvec.predict(run, events, at=places)`" in cards["targeted"]
    assert "places" not in cards["untargeted"]


# Reading events by the schema of a run


HISTORY = [
    {"day": 2, "paid": 2.0},
    {"day": 3, "shop": "a", "paid": 0.5},
    {"day": 1, "shop": "b", "paid": None},
]


@pytest.fixture(scope="module")
def small() -> ev.Model:
    """Return a run in memory with a categorical and a numeric column."""
    columns = {"card": [1, 1, 2, 2], "day": [1, 2, 1, 2], "shop": ["a", "b", "a", "b"], "paid": [0.5, 1.0, 2.0, 3.0]}
    options = {"categorical": ["shop"], "numeric": ["paid"], "fitting": ev.Fitting(min_count=1)}
    return ev.fit(ev.read(pl.DataFrame(columns), key="card", time="day", **options), method="ocp", epochs=1)


def test_dictionaries_without_a_key_are_the_history_of_one_entity(small: ev.Model) -> None:
    data = small.read(HISTORY)
    table = pl.DataFrame({"card": [0] * 3, "day": [2, 3, 1], "shop": [None, "a", "b"], "paid": [2.0, 0.5, None]})
    assert data.fingerprint == small.read(table).fingerprint
    assert data.keys.to_pylist() == [0]
    assert data.sequences.values("time").tolist() == [1, 2, 3]
    z = small.embed(HISTORY)
    assert (z.shape, z.events.tolist(), z.last_time.tolist()) == ((1, 32), [3], [3])


def test_dictionaries_with_a_key_are_the_histories_of_their_entities(small: ev.Model) -> None:
    events = [{**event, "card": card} for card in (7, 5) for event in HISTORY]
    data = small.read(events)
    assert data.keys.to_pylist() == [5, 7]
    z = small.embed(events)
    np.testing.assert_allclose(z.values, np.repeat(small.embed(HISTORY).values, 2, axis=0), atol=1e-6)
    assert small.embed(tuple(events), until=3).events.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "the list of events is empty; at least one event is needed"),
        ([3], "a list of events must hold dictionaries with names of columns, one for each event"),
        ([{"day": 1, 2: 3}], "a list of events must hold dictionaries with names of columns, one for each event"),
        ([{"day": 2**70, "shop": "a", "paid": 1.0}], "column 'day' of the events .* at most 64 bits"),
        ([{"day": 1, "shop": "a"}], "there is no column 'paid'; accepted: card, day, shop"),
        ([{"day": 1, "shop": 3, "paid": 1.0}, {"day": 2, "shop": "a"}], "column 'shop' of the events mixes types"),
        ([{"card": 3, "day": 1}, {"card": "secret", "day": 2}], "^column 'card' of the events mixes types, [^3]*$"),
        ([{"day": 1, "shop": "a", "paid": 1.0}, {"card": 3, "day": 2}], "'card' has 1 missing value .*needs a key"),
        ({"day": 1, "shop": "a", "paid": 1.0}, r"table .day.: int is not a table"),
    ],
)
def test_lists_that_are_no_events_are_refused(small: ev.Model, events: Any, message: str) -> None:
    with pytest.raises(ev.DataError, match=message):
        small.read(events)


def test_a_data_set_of_the_schema_is_taken_as_it_is_and_others_are_refused(small: ev.Model) -> None:
    data = small.read(HISTORY)
    assert small.read(data) is data
    with pytest.raises(ev.ConfigError, match="until applies to a table, but the events are a data set already"):
        small.read(data, until=3)
    for schema, part in (
        (replace(small.schema, numeric=()), "numeric"),
        (replace(small.schema, time_kind="float"), "time_kind"),
        (replace(small.schema, time_kind="timestamp"), "clock"),
    ):
        with pytest.raises(
            ev.DataError, match=rf"by another schema than the model's; the two differ in {part}; read them"
        ):
            small.read(replace(data, schema=schema))
    assert small.read(replace(data, schema=replace(small.schema, key_as="customer"))) is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"unti": 3},
            r"there is no option 'unti'; did you mean 'until'\? accepted: cutoff_column, cutoffs, decimal, explode, ",
        ),
        ({"key": "card"}, "there is no option 'key'; did you mean 'key_as'"),
        ({"holdout": 0.5}, "there is no option 'holdout'"),
        ({"cutoff_column": "asked"}, "cutoff_column is given without cutoffs"),
    ],
)
def test_options_that_the_schema_decides_are_refused(small: ev.Model, options: dict[str, Any], message: str) -> None:
    for function in (small.read, small.embed):
        with pytest.raises(ev.ConfigError, match=message):
            function(HISTORY, **options)


def test_each_entity_is_cut_at_its_own_time(small: ev.Model) -> None:
    cutoffs = pl.DataFrame({"card": [5, 7], "asked": [2, 9]})
    events = [{**event, "card": card} for card in (7, 5, 6) for event in HISTORY]
    z = small.embed(events, cutoffs=cutoffs, cutoff_column="asked", key_as="customer")
    assert (z.keys.to_pylist(), z.events.tolist()) == ([5, 7], [1, 3])
    assert z.frame().columns[0] == "customer"


def test_a_model_is_shown_by_its_id_and_its_blocks(small: ev.Model) -> None:
    assert repr(small) == f"Model({small.id}, learned)"
    assert repr(replace(small, path=Path("runs/a"))) == f"Model({small.id} in runs/a, learned)"
    beside = updates.with_beside(updates.untrained(), ["timing"], make.dataset([12] * 20).sequences)
    assert repr(beside) == "Model(3f2a, learned, timing)"


def test_a_run_in_memory_is_saved_as_fit_would_write_it(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 8, "seed": 3}
    data = make.dataset([12] * 20)
    written = ev.fit(data, method="ocp", out=tmp_path / "written", **settings)
    saved = ev.fit(data, method="ocp", **settings).save(tmp_path / "saved")
    names = [sorted(file.name for file in run.path.iterdir()) for run in (written, saved) if run.path]
    assert names[0] == names[1]
    assert (tmp_path / "saved" / "model.safetensors").read_bytes() == (
        tmp_path / "written" / "model.safetensors"
    ).read_bytes()
    loaded = ev.load(tmp_path / "saved")
    assert loaded.path == saved.path
    assert [record["loss"] for record in loaded.history] == [record["loss"] for record in written.history]
    assert loaded.config == written.config
    with pytest.raises(ev.CheckpointError, match="holds a model already; choose a new folder"):
        saved.save(tmp_path / "saved")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(ev.CheckpointError, match="is not empty and holds no run"):
        saved.save(tmp_path / "other")


def test_a_run_without_a_configuration_is_not_saved(tmp_path: Path) -> None:
    class Named(ev.methods.CoLES):
        pass

    data = make.dataset([12] * 20)
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4)
    run = ev.fit(data, method=Named(encoder, ev.views.RandomSlices(shortest=1, longest=2)), epochs=1)
    with pytest.raises(ev.ConfigError, match=r"the method Named of the model .* has no name in configurations"):
        run.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()
