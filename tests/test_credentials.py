"""Texts that look like addresses or secrets, and the functions that take paths and refuse addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.commands import purchases

import eventvec as ev
from eventvec import toml_tables
from eventvec.answers import Answer
from eventvec.cli import demo
from eventvec.credentials import has_login, is_address, secret_literals, without_secrets
from eventvec.errors import ConfigError, DataError
from eventvec.tables import check_output
from eventvec.tables.outputs import check_place

SECRET = "s3cr3tPW"
LOGINS = (
    f"postgresql://ann:{SECRET}@db/shop#s",
    f"postgresql:/ann:{SECRET}@db/shop#s",
    f"postgresql:ann:{SECRET}@db",
    f"postgres//ann:{SECRET}@db",
    f"postgresql+psycopg://ann:{SECRET}@db:5432/shop",
    f"jdbc:postgresql://ann:{SECRET}@db/shop",
    f"mysql://ann:{SECRET}@db",
    f"redis://:{SECRET}@db",
    f"pg:ann:{SECRET}@db",
    f"ann:{SECRET}@db",
    f"host=db password={SECRET}",
    f"postgresql://ann@db/shop?pasword={SECRET}#s",
)


@pytest.mark.parametrize("text", LOGINS)
def test_a_login_is_recognised_and_not_shown(text: str) -> None:
    for given in (text, f"cards={text}", f" {text}"):
        assert has_login(given)
        assert is_address(given)
    for message in (text, f"no file {text!r}", f"[{text!r}]", f"no file {text} here"):
        assert SECRET not in without_secrets(message)
    for end in range(text.index(SECRET) + len(SECRET), len(text)):
        if "://" in text or text.startswith("postgresql:"):
            assert SECRET not in without_secrets(f"no column '{text[:end]}…'"), text[:end]


@pytest.mark.parametrize(
    "text",
    [
        "events.parquet",
        "data/2024-01-31T10:00/a@b.parquet",
        "C:\\Users\\ann@home\\a.parquet",
        "C:/a@b.parquet",
        "a:b.csv",
        "./ann:pw@db",
        "cards=a.parquet,app=b/*.csv",
        "~/x",
        "%d/%m/%Y %H:%M",
        "2024-01-31T10:00:00+02:00",
        "",
        "max_tokens",
        "events/delta/x",
        "postgres/x",
        "Reach: up@night",
    ],
)
def test_a_path_is_no_address(text: str) -> None:
    assert not is_address(text)
    assert without_secrets(f"{text!r} does not exist") == f"{text!r} does not exist"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann@db:5432/shop?sslmode=require#s",
        "postgresql://h1:1,h2:2/d#t",
        "postgresql://ann@[::1]:5/d#t",
        "duckdb:///C:/a.db#t",
        "max_tokens=512 is too many",
        "at 10:00, 5:3",
    ],
)
def test_a_public_address_is_shown_whole(text: str) -> None:
    assert without_secrets(f"{text} is absent") == f"{text} is absent"


def test_an_error_has_no_password_in_its_text_and_arguments() -> None:
    error = DataError(f"there is no column 'postgresql://ann:{SECRET}@db'")
    assert SECRET not in f"{error} {error!r} {error.args}"
    assert "there is no column 'postgresql://ann:…" in str(error)


@pytest.mark.parametrize(
    "query",
    [
        "select * from t where token = 'abc'",
        "select * from t where PASSWORD='abc'",
        "select * from t where \"api_key\" in ('a')",
        "select pgp_sym_decrypt(card, 'abc') from t",
        "select 1 -- password abc",
        "select 1 /* pw: abc */",
        "select * from t where pin = 123456",
        "select f('s3cr3tPW')",
        "select f($$s3cr3tPW$$)",
        "select f($x$s3cr3tPW$x$)",
        "select f(E'it\\'s s3cr3tPW')",
        "select f('it''s s3cr3tPW')",
        "select f('hunter2!')",
        "select f('sk_live_abc')",
        "select f('0123456789abcdef01')",
        "select f('host=db password=abc')",
        "select f('postgresql://ann:abc@db')",
        "select dblink('x', 'select 1')",
    ],
)
def test_literals_that_look_like_secrets(query: str) -> None:
    assert secret_literals(query)


@pytest.mark.parametrize(
    "query",
    [
        "select * from events where at >= '2024-01-31 10:00:00+02' and shop = 'tea'",
        "select token, password_hash from t",
        "select token, at from t where kind = 'a' and amount > 1000.5",
        "select date_trunc('day', at) from t -- the days",
        "select * from t where id = '6f2a1c1e-0000-4000-8000-000000000007'",
        "select 'a longer text of words' as x",
        "select * from t where name in ('alice', 'bob') and zip = 12345",
        "select * from t where code = 'A-1234-XYZ'",
    ],
)
def test_literals_that_look_like_none(query: str) -> None:
    assert secret_literals(query) == []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    events = purchases([f"c{number}" for number in range(12)], 6)
    data = ev.read(events, key="customer", time="when")
    run = ev.fit(data, method="ocp", epochs=1, out=tmp_path_factory.mktemp("run"))
    return {"events": events, "data": data, "run": run, "z": run.embed(data)}


PATHS: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "fit": lambda made, path: ev.fit(made["data"], method="ocp", epochs=1, out=path),
    "from": lambda made, path: ev.fit(
        made["data"], method={"method": {"name": "ocp"}, "encoder": {"from": path}}, epochs=1
    ),
    "save": lambda made, path: made["run"].save(path),
    "load": lambda made, path: ev.load(path),
    "read": lambda made, path: ev.read(made["events"], key="customer", time="when", store=path),
    "update": lambda made, path: ev.update(made["run"], made["events"], path),
    "forget": lambda made, path: ev.forget(path, "c1", made["run"].id),
    "forget_in_shards": lambda made, path: ev.forget_in_shards(path, "c1", made["run"].id),
    "embed_shards": lambda made, path: ev.embed_shards(made["run"].path, "events.parquet", path),
    "embed_shards_run": lambda made, path: ev.embed_shards(path, "events.parquet", "z"),
    "update_shards": lambda made, path: ev.update_shards(made["run"].path, "events.parquet", path, "z"),
    "to_onnx": lambda made, path: ev.to_onnx(made["run"], path),
    "index": lambda made, path: ev.Index.of(made["z"]).save(path),
    "read_index": lambda made, path: ev.read_index(path),
    "to_tensorboard": lambda made, path: ev.to_tensorboard(path),
    "to_mlflow": lambda made, path: ev.to_mlflow(path),
    "card": lambda made, path: ev.card(made["run"], [path]),
    "compare": lambda made, path: ev.compare(
        made["data"], pl.DataFrame(), "likes", methods=["coles", "ocp"], epochs=1, out=path
    ),
    "tune": lambda made, path: ev.tune(made["data"], pl.DataFrame(), "likes", method="ocp", epochs=1, out=path),
    "answer": lambda made, path: Answer(("Yes.",), {}).write(path),
    "demo": lambda made, path: demo.run(path),
    "configuration": lambda made, path: toml_tables.read_config(path),
    "check_place": lambda made, path: check_place(path),
}
"""What takes the path of a file or folder."""


@pytest.mark.parametrize("name", PATHS)
def test_a_function_that_takes_a_path_refuses_an_address(
    name: str, made: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_new_folder", None)  # it would train for minutes
    made["events"].write_parquet("events.parquet")
    for text in LOGINS:
        for path in (text, Path(text)):
            if name == "from" and isinstance(path, Path):
                continue  # a configuration has texts
            with pytest.raises(ConfigError, match="looks like an address") as refusal:
                PATHS[name](made, path)
            assert SECRET not in str(refusal.value)
    assert [path.name for path in tmp_path.iterdir()] == ["events.parquet"]


@pytest.mark.parametrize("text", LOGINS[1:])
def test_what_takes_tables_refuses_an_address_that_is_not_well_formed(text: str) -> None:
    events, options = purchases(["a", "b"], 3), {"key": "customer", "time": "when"}
    calls: list[Callable[[], Any]] = [
        lambda: ev.read(text, **options),
        lambda: ev.read({"cards": text}, **options),
        lambda: ev.read(events, **options, cutoffs=text, cutoff_column="when"),
        lambda: ev.read(events, **options, static=text),
        lambda: ev.read_embeddings(text),
        lambda: check_output(text),
    ]
    for call in calls:
        with pytest.raises(ConfigError) as refusal:
            call()
        assert SECRET not in f"{refusal.value!r} {refusal.value.__cause__!r}"


@pytest.mark.parametrize("text", LOGINS)
def test_an_engine_refuses_an_address_of_cutoffs_and_records_none(
    text: str, made: dict[str, Any], tmp_path: Path
) -> None:
    made["events"].write_parquet(tmp_path / "events.parquet")
    with pytest.raises(ConfigError) as refusal:
        ev.embed_shards(
            made["run"].path, tmp_path / "events.parquet", tmp_path / "z", cutoffs=text, cutoff_column="when"
        )
    assert SECRET not in str(refusal.value)
    assert [path.name for path in tmp_path.iterdir()] == ["events.parquet"]
