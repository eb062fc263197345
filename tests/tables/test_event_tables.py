"""Several tables of events are read as one, in Python, on the command line, at scoring and in updates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import eventvec as ev
from eventvec.cli import app
from eventvec.tables.event_tables import open_events


def cards(n: int = 90) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {"user": rng.integers(0, 12, n), "when": rng.integers(0, 1000, n), "shop": rng.choice(["a", "b", "c"], n),
         "paid": rng.gamma(2, 10, n)}
    )  # fmt: skip


def clicks(n: int = 70) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame(
        {"user": rng.integers(0, 12, n), "when": rng.integers(0, 1000, n), "screen": rng.choice(["home", "help"], n)}
    )


def by_hand(*tables: tuple[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the tables one below the other, with the name of each row's table."""
    return pl.concat([frame.with_columns(table=pl.lit(name)) for name, frame in tables], how="diagonal_relaxed")


def same(data: ev.Dataset, other: ev.Dataset) -> bool:
    return data.schema == other.schema and data.fingerprint == other.fingerprint


COLUMNS: dict[str, Any] = {
    "key": "user",
    "time": "when",
    "categorical": ["table", "shop", "screen"],
    "numeric": ["paid"],
}


def test_several_tables_equal_one_that_was_put_together_by_hand() -> None:
    data = ev.read({"cards": cards(), "app": clicks()}, **COLUMNS)
    assert same(data, ev.read(by_hand(("cards", cards()), ("app", clicks())), **COLUMNS))
    assert data.sequences.total == 160
    other_order = ev.read({"app": clicks(), "cards": cards()}, **COLUMNS)
    assert len(other_order) == len(data)


def test_tables_of_every_source_go_together(tmp_path: Path) -> None:
    cards().write_parquet(tmp_path / "cards.parquet")
    clicks().write_csv(tmp_path / "clicks.csv")
    arrow = clicks().to_arrow()
    expected = ev.read({"cards": cards(), "app": clicks()}, **COLUMNS)
    for first in (cards().to_pandas(), cards().lazy(), tmp_path / "cards.parquet"):
        for second in (tmp_path / "clicks.csv", arrow, duckdb.sql("select * from arrow")):
            assert same(ev.read({"cards": first, "app": second}, **COLUMNS), expected)


def test_kinds_are_inferred_and_the_table_is_a_category() -> None:
    data = ev.read({"cards": cards(), "app": clicks()}, key="user", time="when")
    assert {field.name for field in data.schema.categorical} == {"table", "shop", "screen"}
    assert {field.name for field in data.schema.numeric} == {"paid"}


def test_columns_of_one_name_are_one_column_of_a_type_that_holds_both() -> None:
    first = pl.DataFrame({"user": [1], "when": [1], "paid": pl.Series([3], dtype=pl.Int32)})
    second = pl.DataFrame({"user": [1], "when": [2], "paid": [0.5]})
    data = ev.read({"a": first, "b": second}, key="user", time="when", numeric=["paid"])
    assert data.sequences.values("paid").tolist() == [3.0, 0.5]


def test_only_the_columns_in_use_are_loaded() -> None:
    source = open_events({"cards": cards(), "app": clicks()})
    table = source.load(["screen"])
    assert table.num_rows == 160
    assert table.column("screen").null_count == 90
    assert source.load(["table"]).column("table").to_pylist() == ["cards"] * 90 + ["app"] * 70


def test_a_run_embeds_updates_and_scores_several_tables(tmp_path: Path) -> None:
    old = [frame.filter(pl.col("when") < 700) for frame in (cards(), clicks())]
    new = [frame.filter(pl.col("when") >= 700) for frame in (cards(), clicks())]
    data = ev.read({"cards": old[0], "app": old[1]}, **COLUMNS)
    run = ev.fit(data, method="coles", epochs=1, out=tmp_path / "run")
    whole = run.embed({"cards": cards(), "app": clicks()})
    for batch in (old, new):
        updated = ev.update(run, {"cards": batch[0], "app": batch[1]}, tmp_path / "state.db")
    rows = [whole.keys.to_pylist().index(key) for key in updated.embeddings.keys.to_pylist()]
    assert np.allclose(updated.embeddings.values, whole.values[rows], atol=1e-5)
    again = ev.update(run, {"cards": new[0], "app": new[1]}, tmp_path / "state.db")
    assert not again.applied  # the same batch
    only_cards = run.embed({"cards": cards(), "app": clicks().head(0)})
    assert only_cards.shape == (12, run.encoder.dim)


def test_the_command_line_takes_names_and_paths(tmp_path: Path) -> None:
    cards().write_parquet(tmp_path / "cards.parquet")
    clicks().write_parquet(tmp_path / "clicks.parquet")
    events = f"cards={tmp_path}/cards.parquet,app={tmp_path}/clicks.parquet"
    columns = ["--key", "user", "--time", "when", "--epochs", "1", "--out", str(tmp_path / "run")]
    for command in (
        ["fit", "--events", events, *columns],
        ["embed", str(tmp_path / "run"), events, "-o", str(tmp_path / "z.parquet")],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    run = ev.load(tmp_path / "run")
    z = run.embed({"cards": cards(), "app": clicks()})
    assert np.allclose(ev.read_embeddings(tmp_path / "z.parquet").values, z.values, atol=1e-5)
    assert run.config["data"]["path"] == {
        "cards": f"{tmp_path}/cards.parquet", "app": f"{tmp_path}/clicks.parquet"
    }  # fmt: skip
    again = CliRunner().invoke(app, ["fit", str(tmp_path / "run" / "config.toml"), "--out", str(tmp_path / "again")])
    assert again.exit_code == 0, again.output
    refused = CliRunner().invoke(app, ["embed", str(tmp_path / "run"), events, "-o", str(tmp_path / "cards.parquet")])
    assert (refused.exit_code, "is an input" in refused.output) == (2, True)


def test_the_vectorizer_takes_several_tables() -> None:
    tables = {"cards": cards().to_pandas(), "app": clicks().to_pandas()}
    vectorizer = ev.EventVectorizer(key="user", time="when", epochs=1).fit(tables)
    out = vectorizer.transform(tables)
    assert out.index.name == "user"
    assert len(out) == 12


@pytest.mark.parametrize(
    ("tables", "error", "sentence"),
    [
        ({}, ev.ConfigError, "several tables are given by their names"),
        ({1: cards()}, ev.ConfigError, "several tables are given by their names"),
        ({"a": [1, 2]}, ev.DataError, "table 'a': list is not a table"),
        ({"a": "absent.parquet"}, ev.DataError, "table 'a': .*absent.parquet"),
        ({"a": cards().with_columns(table=1)}, ev.ConfigError, "table 'a' has a column 'table'"),
        (
            {"a": cards(), "b": clicks().with_columns(shop=pl.lit(5))}, ev.DataError,
            "column 'shop' is .*string in 'a', int32 in 'b', which do not go together; cast or rename",
        ),
        ({"a": cards(), "b": clicks().drop("when")}, ev.DataError, "time"),
        ({"a": cards(), "b": clicks().drop("user")}, ev.DataError, "the table 'b' has no column 'user'"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(tables: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        ev.read(tables, key="user", time="when")
