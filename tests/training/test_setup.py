"""From a configuration and data to a method: sizes that follow from the data, initial weights, a run to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import eventvec as ev
from eventvec.config import build_method, describe
from eventvec.encoders.interface import lineage_of
from eventvec.training.setup import parent_run, set_up, settings
from fits import coles, dataset, same, sign, table, weights


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    return dataset()


@pytest.fixture(scope="module")
def run(data: ev.Dataset, tmp_path_factory: pytest.TempPathFactory) -> ev.Model:
    return ev.fit(data, method="ocp", epochs=1, out=tmp_path_factory.mktemp("runs") / "run")


def test_sizes_follow_from_the_data_and_defaults_are_written_out(data: ev.Dataset) -> None:
    tables = settings(data.sequences, {"method": {"name": "ocp"}, "fit": {"epochs": 2}})
    assert tables == {
        "method": {"name": "ocp", "length": 3, "skip": 0, "count": 1},
        "encoder": {
            "name": "gru", "dim": 32, "layers": 1, "read_out": ["last"],
            "events": {"time": ["gap"], "width": 32, "batch_norm": True, "bins": False, "mixing": 0},
        },
        "fit": {"batch_size": 8, "epochs": 2},
    }  # fmt: skip
    assert settings(data.sequences, tables) == tables


def test_given_sizes_are_not_changed(data: ev.Dataset) -> None:
    config = {"method": {"name": "ocp", "length": 2}, "encoder": {"dim": 7}, "fit": {"batch_size": 5}}
    tables = settings(data.sequences, config)
    assert (tables["method"]["length"], tables["encoder"]["dim"], tables["fit"]) == (2, 7, {"batch_size": 5})
    assert config == {"method": {"name": "ocp", "length": 2}, "encoder": {"dim": 7}, "fit": {"batch_size": 5}}


@pytest.mark.parametrize(
    "method",
    [
        "ocp",
        {"method": {"name": "ocp", "length": 2}, "encoder": {"name": "lstm", "dim": 6, "events": {"width": 4}}},
        {"method": {"name": "rtd"}, "fit": {"lr": 1, "batch_size": 9}},
    ],
)
def test_fit_by_name_or_tables_equals_fit_of_the_method_built_by_hand(data: ev.Dataset, method: Any) -> None:
    run = ev.fit(data, method=method, epochs=2, seed=3)
    tables = settings(data.sequences, {"method": {"name": method}} if isinstance(method, str) else method)
    torch.manual_seed(3)
    by_hand = build_method(tables, data.schema)
    again = ev.fit(data, method=by_hand, **{**tables["fit"], "epochs": 2, "seed": 3})
    assert same(weights(run.method), weights(by_hand))
    assert again.config == {**run.config, **describe(build_method(run.config, data.schema))}
    other = ev.fit(data, method=method, epochs=2, seed=4)
    assert not same(weights(run.method), weights(other.method))


def test_options_of_the_call_replace_those_of_the_tables(data: ev.Dataset) -> None:
    run = ev.fit(data, method={"method": {"name": "ocp"}, "fit": {"epochs": 5, "seed": 2}}, epochs=1)
    assert (len(run.history), run.info["seed"]) == (1, 2)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"methd": {"name": "ocp"}}, r"\[methd\] is not a table of a configuration; did you mean 'method'\? accepted:"),
        ({"method": "ocp"}, r"method must be a table of options, headed \[method\], got 'ocp'"),
        ({"fit": {"epochs": "3"}}, "epochs must be a whole number or None, got '3'"),
        ({"fit": {"epoch": 3}}, "there is no option 'epoch'; did you mean 'epochs'"),
        ({"fit": {"epochs": 0}}, "epochs must be at least 1, got 0"),
        ({"method": {"name": "ocpp"}}, "method: name 'ocpp' is not known; did you mean 'ocp'"),
        ({"encoder": {"from": 3}}, "encoder.from must be text, got 3"),
    ],
)
def test_wrong_tables_are_refused(data: ev.Dataset, tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.ConfigError, match=message):
        ev.fit(data, method=tables)


def test_building_draws_weights_with_the_seed_and_restores_the_global_generator(data: ev.Dataset) -> None:
    tables = settings(data.sequences, {"method": {"name": "ocp"}})
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    one, again, other = (set_up(data, {**tables, "fit": {"seed": seed}})[0] for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert same(weights(one), weights(again))
    assert not same(weights(one), weights(other))
    assert lineage_of(one.encoder) is None


def test_a_configuration_without_a_run_to_start_from() -> None:
    assert parent_run({}) is None
    assert parent_run({"encoder": {"name": "gru"}}) is None


@pytest.mark.parametrize("kind", [str, Path])
def test_a_method_starts_from_the_encoder_of_a_run(data: ev.Dataset, run: ev.Model, kind: type[Any]) -> None:
    config = {"method": {"name": "coles"}, "encoder": {"from": kind(run.path)}}
    parent = parent_run(config)
    assert parent is not None
    tables = settings(data.sequences, config, parent)
    assert tables["encoder"] == {**run.config["encoder"], "from": str(run.path)}
    method, _ = set_up(data, config, parent)
    assert same(weights(method.encoder), weights(run.encoder))
    assert lineage_of(method.encoder) == run.lineage
    assert method.encoder is not parent.encoder


def test_a_run_that_starts_from_another_records_it_and_loads_without_it(
    data: ev.Dataset, run: ev.Model, tmp_path: Path
) -> None:
    tables = {"method": {"name": "coles"}, "encoder": {"from": str(run.path)}}
    second = ev.fit(data, method=tables, epochs=1, out=tmp_path / "second")
    assert (second.info["from"], second.config["encoder"]["from"]) == (run.id, str(run.path))
    assert f"started from the model {run.id}" in (tmp_path / "second" / "README.md").read_text()
    text = (tmp_path / "second" / "config.toml").read_text()
    (tmp_path / "second" / "config.toml").write_text(text.replace(str(run.path), "absent"))
    sign(tmp_path / "second")
    assert same(weights(ev.load(tmp_path / "second").method), weights(second.method))


def test_an_encoder_is_trained_further_without_change(data: ev.Dataset, run: ev.Model) -> None:
    with pytest.raises(ev.ConfigError, match=r"encoder.dim must be that of run .*, 32, got 16; leave it out"):
        settings(data.sequences, {"encoder": {"from": str(run.path), "dim": 16}}, run)
    assert settings(data.sequences, {"encoder": {"dim": 32}}, run)["encoder"]["dim"] == 32
    other = ev.read(table(), key="id", time="t", categorical=["code"])
    with pytest.raises(ev.DataError, match=r"by another schema than the model's; the two differ in numeric"):
        ev.fit(other, method={"encoder": {"from": str(run.path)}}, epochs=1)


def test_an_encoder_without_a_name_cannot_be_built_again(data: ev.Dataset) -> None:
    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.dim = coles(data).encoder, 8

        def forward(self, x: ev.Sequences) -> torch.Tensor:
            return self.encoder(x)

    run = ev.fit(data, method=ev.methods.pcl(Own(), length=2), epochs=1)
    with pytest.raises(ev.ConfigError, match=rf"the encoder of run {run.id} has no name in configurations"):
        settings(data.sequences, {}, run)


def test_a_run_that_is_absent_cannot_be_started_from(tmp_path: Path) -> None:
    with pytest.raises(ev.CheckpointError, match="is no model folder"):
        parent_run({"encoder": {"from": str(tmp_path)}})


def test_what_is_recorded_is_read_from_the_parts_that_trained(data: ev.Dataset, tmp_path: Path) -> None:
    method: Any = build_method(settings(data.sequences, {"method": {"name": "coles"}}), data.schema)
    method.margin, method.views = 0.25, ev.views.DisjointSegments(3)
    trained = ev.fit(data, method=method, epochs=1, out=tmp_path / "run")
    loaded: Any = ev.load(tmp_path / "run").method
    assert (loaded.margin, loaded.views) == (0.25, ev.views.DisjointSegments(3))
    assert same(weights(loaded), weights(trained.method))
