"""Addresses with passwords at every place of the command line, and in configurations: none is shown or written."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import tomli_w
import typer
from tests.commands import customer_labels, invoke, purchases

import eventvec as ev
from eventvec.cli import app

COMMANDS: Any = typer.main.get_command(app)
SECRET = "s3cr3tPW"
PLANTED = (
    f"postgresql://ann:{SECRET}@127.0.0.1:1/shop#s",
    f"postgresql:ann:{SECRET}@127.0.0.1/shop",
    f"postgres//ann:{SECRET}@127.0.0.1/shop",
    f"postgresql+psycopg://ann:{SECRET}@127.0.0.1/shop#s",
    f"postgresql://ann@127.0.0.1:1/shop?pasword={SECRET}#s",
    f"postgresql://ann@127.0.0.1:1/shop#select * from t where token = '{SECRET}'",
    f"duckdb://ann:{SECRET}@127.0.0.1/d.db#s",
    f"duckdb://shop.db#select * from nothing where token = '{SECRET}'",
    f"cards=postgresql:ann:{SECRET}@127.0.0.1,app=events.parquet",
    f"ann:{SECRET}@127.0.0.1/shop",
    f"host=127.0.0.1 password={SECRET}",
)
CUSTOMERS = [f"c{number:02}" for number in range(30)]
GIVEN = {
    "run": "run", "events": "events.parquet", "output": "made", "state": "made.db", "labels": "labels.parquet",
    "label": "likes", "embeddings": "z.parquet", "out_": "made", "old": "events.parquet", "new": "events.parquet",
    "index": "z.parquet", "every": "1d", "horizon": "2d", "first": "z.parquet", "second": "labels.parquet",
    "action": "1", "case": "9",
}  # fmt: skip
"""The values of the parameters that a command needs."""
FURTHER = {
    "fit": ["--events", "events.parquet", "--key", "customer", "--time", "when", "--epochs", "1", "--out", "made"],
    "labels": ["--key", "customer", "--time", "when"],
    "search": ["--key", "c01"],
    "update": ["events.parquet", "-o", "made"],
}
"""Further arguments without which a command says only that they are absent."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    events = purchases(CUSTOMERS, 6)
    events.write_parquet(folder / "events.parquet")
    customer_labels(CUSTOMERS).write_parquet(folder / "labels.parquet")
    with duckdb.connect(str(folder / "shop.db")) as connection:
        connection.register("rows", events.to_arrow())
        connection.execute("create table events as select *, 's3cr3tPW' as token from rows")
    data = ev.read(events, key="customer", time="when")
    run = ev.fit(data, method="ocp", epochs=1, out=folder / "run")
    ev.write(folder / "z.parquet", run.embed(data))
    return folder


@pytest.fixture
def folder(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the inputs, in which the commands run; they are built once, which takes most of the time."""
    monkeypatch.chdir(inputs)
    monkeypatch.setattr("typer.testing._get_command", lambda _: COMMANDS)
    return inputs


def parameters() -> Iterator[tuple[str, Any]]:
    """Yield every parameter of every command that takes a value."""
    for name, command in COMMANDS.commands.items():
        for parameter in command.params:
            if not getattr(parameter, "is_flag", False) and parameter.name != "help":
                yield name, parameter


def arguments(command: str, planted: Any, value: str) -> list[str]:
    """Return the arguments of a command in which one parameter has a value, and the others that it needs are given."""
    texts: dict[str, list[str]] = {"options": [], "positions": []}
    for name, parameter in parameters():
        if name != command or not (parameter is planted or parameter.name == planted.name or parameter.required):
            continue
        given = value if parameter.name == planted.name else GIVEN[parameter.name]
        if parameter.param_type_name == "argument":
            texts["positions"].append(given)
        else:
            texts["options"] += [parameter.opts[0], given]
    further = [] if (command, planted.name) == ("update", "events") else FURTHER.get(command, [])
    return [command, *texts["positions"], *further, *texts["options"]]


def traces(folder: Path) -> list[str]:
    """Return the names and the contents of all files that have the secret, but for the database of the test."""
    paths = [path for path in folder.rglob("*") if path.name != "shop.db"]
    return [
        str(path) for path in paths if SECRET in str(path) or (path.is_file() and SECRET.encode() in path.read_bytes())
    ]


@pytest.mark.parametrize(("command", "parameter"), list(parameters()), ids=lambda each: getattr(each, "name", each))
def test_no_parameter_shows_or_writes_a_password(folder: Path, command: str, parameter: Any) -> None:
    for planted in PLANTED:
        result = invoke(*arguments(command, parameter, planted))
        assert result.exit_code in (1, 2), (planted, result.output)
        assert SECRET not in result.output + result.stderr + repr(result.exception), planted
        assert type(result.exception) is SystemExit, (planted, result.exception)
    assert traces(folder) == []


@pytest.mark.parametrize("before", [["fit"], []])
def test_no_argument_too_many_and_no_name_of_an_option_shows_a_password(folder: Path, before: list[str]) -> None:
    for planted in PLANTED:
        for further in ([planted], [f"--{planted}"], ["config.toml", planted], [f"--pasword={planted}"]):
            result = invoke(*before, *further)
            assert result.exit_code == 2, (planted, result.output)
            assert SECRET not in result.output + result.stderr + repr(result.exception), planted


PLACES = ("path", "cutoffs", "static", "store", "key", "categorical", "until", "static_columns", "nothing")


@pytest.mark.parametrize("planted", PLANTED)
def test_no_value_of_a_configuration_shows_or_writes_a_password(folder: Path, planted: str) -> None:
    given = {"path": "events.parquet", "key": "customer", "time": "when"}
    tables: list[dict[str, Any]] = [
        {"data": {**given, place: value}} for place in PLACES for value in (planted, [planted])
    ]
    tables += [
        {"data": {**given, "path": {planted: "events.parquet"}}},
        {"data": {**given, "path": {"cards": planted}}},
    ]
    tables += [{"data": {**given, "static": planted, "cutoffs": planted, "cutoff_column": "when"}}]
    tables += [{"data": given, "method": {"name": planted}}, {"data": given, "encoder": {"from": planted}}]
    tables += [{"data": given, "method": {"name": "coles", "views": {"name": planted}}}, {planted: given}]
    tables += [
        {"data": given, "encoder": {"name": "language", "backbone": planted}},
        {"data": given, "fit": {planted: 1}},
    ]
    for place, table in enumerate(tables):
        path = folder / "given.toml"
        path.write_text(tomli_w.dumps(table))
        result = invoke("fit", path, "--epochs", 1, "--out", "made")
        path.unlink()
        assert result.exit_code in (1, 2), (place, result.output)
        assert SECRET not in result.output + result.stderr + repr(result.exception), (place, table)
        assert type(result.exception) is SystemExit
    assert traces(folder) == []


def test_a_query_with_a_secret_is_recorded_by_its_digest_and_others_as_they_are(folder: Path) -> None:
    shop, options = "duckdb://shop.db", ["--key", "customer", "--time", "when", "--epochs", 1]
    secret, plain = (
        f"{shop}#select * from events where token = '{SECRET}'",
        f"{shop}#select * from events where amount > 0",
    )
    for name, address in (("secret", secret), ("plain", plain)):
        result = invoke("fit", "--events", address, *options, "--out", f"runs/{name}")
        assert result.exit_code == 0, result.output
        assert SECRET not in result.output
    assert invoke("card", "runs/secret").exit_code == 0
    assert traces(folder) == []
    path = tomllib.loads((folder / "runs/secret/config.toml").read_text())["data"]["path"]
    assert re.fullmatch(rf"{shop}#sha256:[0-9a-f]{{16}}", path)
    again = invoke("fit", "runs/plain/config.toml", "--out", "runs/again")
    assert again.exit_code == 0, again.output
    refused = invoke("fit", "runs/secret/config.toml", "--out", "runs/refused")
    assert refused.exit_code == 2
    assert "recorded by its digest alone" in refused.stderr
    assert "--events ADDRESS" in refused.stderr
    given = invoke("fit", "runs/secret/config.toml", "--events", secret, "--out", "runs/given")
    assert given.exit_code == 0, given.output
    shutil.rmtree(folder / "runs")


def test_a_public_address_may_stand_where_a_table_is_read_or_written(folder: Path) -> None:
    result = invoke("embed", "run", "duckdb://shop.db#select * from events", "-o", "duckdb://vectors.db#z")
    assert result.exit_code == 0, result.output
    result = invoke("evaluate", "duckdb://vectors.db#z", "labels.parquet", "--label", "likes", "--folds", 2)
    assert result.exit_code == 0, result.output
    result = invoke("search", "z.parquet", "--key", "postgresql://ann@db")
    assert "looks like an address" not in result.output
    (folder / "vectors.db").unlink()
