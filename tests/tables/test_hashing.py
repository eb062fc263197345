"""Hashed columns: buckets against a slow hash, the same in every file and process, in encoders, methods and updates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventvec as ev
from commands import answer
from eventvec.encoders import Aggregates, EventEncoder, Handcrafted, LanguageEncoder
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.schema import Categorical, Schema
from eventvec.tables import Fitting, describe, read
from eventvec.tables.hashing import buckets_of, fnv
from eventvec.updating.batch_identity import batch_identity

BITS = 2**64 - 1


def slow_fnv(text: str) -> int:
    """FNV-1a of the UTF-8 bytes, one after the other."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & BITS
    return value


def slow_bucket(text: str, buckets: int) -> int:
    value = slow_fnv(text)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ (value >> shift)) * factor & BITS
    return (value ^ (value >> 31)) % buckets


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12)), st.integers(1, 5000))
def test_hashes_are_those_of_the_slow_loop(texts: list[str], buckets: int):
    series = pl.Series(texts, dtype=pl.String)
    assert fnv(series).tolist() == [slow_fnv(text) for text in texts]
    assert buckets_of(series, buckets).tolist() == [slow_bucket(text, buckets) for text in texts]


def test_texts_spread_evenly_over_buckets():
    counts = np.bincount(buckets_of(pl.Series([f"m{i}" for i in range(100_000)]), 100), minlength=100)
    assert 850 < counts.min() < counts.max() < 1150  # five standard deviations of a binomial count of mean 1000


def merchants(n: int = 400, entities: int = 8, seed: int = 0) -> pl.DataFrame:
    """Return events with as many merchants as half of the events, some of them missing, and a receipt number."""
    rng = np.random.default_rng(seed)
    names = [f"m{i}" if i else None for i in rng.integers(0, n, n)]
    columns = {
        "card": rng.integers(0, entities, n),
        "day": np.sort(rng.integers(0, 99, n)),
        "merchant": names,
        "receipt": [f"r{seed}-{i}" for i in range(n)],
        "paid": rng.normal(size=n),
    }
    return pl.DataFrame(columns)


HASHED: dict[str, Any] = {"key": "card", "time": "day", "hashed": ["merchant"], "numeric": ["paid"], "categorical": []}


def test_unseen_values_have_buckets_and_missing_ones_have_none():
    data = read(merchants(), **HASHED, fitting=Fitting(buckets=37))
    assert data.schema.categorical == (Categorical("merchant", (), buckets=37),)
    new = merchants(seed=1).with_columns(merchant=pl.col("merchant") + "-new")
    scored = read(new, schema=Schema.from_json(data.schema.to_json()))
    assert not any("outside the schema's vocabulary" in note for note in scored.notes)
    ordered = new.sort("card", maintain_order=True)["merchant"]
    expected = [0 if name is None else 2 + slow_bucket(name, 37) for name in ordered]
    assert scored.sequences.values("merchant").tolist() == expected
    row = next(row for row in describe(data) if row["name"] == "merchant")
    assert (row["kind"], row["values"], row["unknown"]) == ("hashed", 37, 0.0)
    assert "m1" not in data.schema.to_json()


def test_there_are_no_more_buckets_than_values():
    table = merchants()
    assert read(table, **HASHED).schema.categorical[0].buckets == table["merchant"].drop_nulls().n_unique()
    assert read(table, **HASHED, fitting=Fitting(buckets=9)).schema.categorical[0].buckets == 9
    nothing = table.with_columns(merchant=pl.lit(None, pl.String))
    empty = read(nothing, **HASHED)
    assert empty.schema.categorical[0].buckets == 1
    assert empty.sequences.values("merchant").unique().tolist() == [0]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string(), pa.dictionary(pa.int8(), pa.string())])
def test_a_value_has_its_bucket_whatever_its_type(kind: pa.DataType, tmp_path: Path):
    values = pa.array([5, 17, None, 5]).cast(pa.string() if pa.types.is_dictionary(kind) else kind).cast(kind)
    table = pa.table({"card": [1, 1, 1, 1], "day": [1, 2, 3, 4], "merchant": values, "paid": [0.0, 1, 2, 3]})
    schema = read(merchants(), **HASHED).schema
    expected = [
        2 + slow_bucket("5", schema.categorical[0].buckets),
        2 + slow_bucket("17", schema.categorical[0].buckets),
    ]
    codes = [expected[0], expected[1], 0, expected[0]]
    assert read(table, schema=schema).sequences.values("merchant").tolist() == codes
    field = replace(schema.categorical[0], text=not kind.equals(pa.float64()))  # else 5.0 in a CSV file is a text
    schema = replace(schema, categorical=(field,))
    pl.DataFrame(pl.from_arrow(table)).write_csv(tmp_path / "e.csv")
    assert read(tmp_path / "e.csv", schema=schema).sequences.values("merchant").tolist()[:2] == expected


def test_repeating_values_are_hashed_by_themselves_and_identifiers_of_rows_are_left_out():
    data = read(merchants(), key="card", time="day")
    assert [(field.name, field.buckets > 0) for field in data.schema.categorical] == [("merchant", True)]
    assert any(note.startswith("column 'merchant' is hashed into ") for note in data.notes)
    left_out = next(note for note in data.notes if "'receipt' is left out: it is near-unique (400 distinct" in note)
    assert left_out.endswith("to use it all the same, name it in hashed= (--hashed), or texts= (--texts)")
    named = read(merchants(), key="card", time="day", hashed=["receipt"])
    assert {field.name for field in named.schema.fields} == {"merchant", "receipt", "paid"}
    emails = pl.DataFrame({"card": [*range(200)] * 2, "day": 1, "email": [f"e{i}" for i in range(200)] * 2})[:390]
    assert read(emails, key="card", time="day").schema.categorical == ()  # one value per entity is another key


def test_every_kind_of_features_takes_hashed_columns():
    data = read(merchants(), **HASHED, fitting=Fitting(buckets=50))
    x = data.sequences
    events = EventEncoder(data.schema)
    assert events.embeddings[0].weight.shape[0] == 52
    assert events(x).isfinite().all()
    aggregates = Aggregates(data.schema)
    assert [name for name in aggregates.names if "merchant" in name] == ["merchant: distinct"]
    codes, rows = x.values("merchant").tolist(), x.rows().tolist()
    distinct = [len({code for code, row in zip(codes, rows, strict=True) if row == i and code}) for i in range(len(x))]
    assert aggregates(x)[:, -1].tolist() == distinct
    handcrafted = Handcrafted(data.schema, moment=100)
    assert handcrafted(x).shape == (len(x), len(handcrafted.names))
    assert handcrafted(x).isfinite().all()
    with pytest.raises(ConfigError, match="'merchant' is hashed, and its texts are unknown"):
        LanguageEncoder("absent", data.schema, text="merchant")


@pytest.mark.parametrize("method", ["coles", "rtd", "cpc", "next_event", "nsp"])
def test_methods_learn_from_hashed_columns(method: str):
    data = read(merchants(800, 16), **HASHED)
    run = ev.fit(data, method={"method": {"name": method}, "encoder": {"dim": 8}}, epochs=1)
    table = run.method.encoder.events.embeddings[0].weight  # type: ignore[attr-defined]
    assert table[2:].abs().sum() > 0
    assert np.isfinite(run.embed(merchants(seed=2)).values).all()


def test_updates_with_hashed_columns_equal_the_whole_history(tmp_path: Path):
    run = ev.fit(read(merchants(), **HASHED), method={"encoder": {"dim": 8}}, epochs=1)
    events = merchants(seed=3)
    for start, stop in ((0, 150), (150, 400)):
        updated = ev.update(run, events[start:stop], tmp_path / "state")
    whole = run.embed(events)
    places = [whole.keys.to_pylist().index(key) for key in updated.embeddings.keys.to_pylist()]
    assert np.allclose(updated.embeddings.values, whole.values[places], atol=1e-5)
    other = events.with_columns(merchant=pl.lit("elsewhere"))
    assert batch_identity(run.read(other)) != batch_identity(run.read(events))


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({"hashed": "merchant"}, ConfigError, "hashed must be a list of column names, got the text 'merchant'"),
        ({"hashed": ["merchant", "merchant"]}, ConfigError, "column 'merchant' is listed twice"),
        ({"hashed": ["paid"]}, ConfigError, "column 'paid' is listed twice"),
        ({"hashed": ["card"]}, ConfigError, "column 'card' is the key"),
        ({"hashed": ["merchants"]}, DataError, "no column 'merchants'"),
        ({"hashed": ["when"]}, DataError, "column 'when' cannot be categorical: it holds timestamp"),
        ({"hashed": ["when"], "numeric": None, "categorical": None}, DataError, "column 'when' cannot be categorical"),
        ({"hashed": ["tags"], "numeric": None, "categorical": None}, DataError, "name it in explode= (--explode)"),
    ],
)
def test_columns_that_cannot_be_hashed_are_refused(options: dict[str, Any], error: type[Exception], expected: str):
    time = pl.datetime_range(pl.datetime(2020, 1, 1), pl.datetime(2021, 2, 3), "1d", eager=True)
    table = merchants().with_columns(when=time, tags=pl.lit(["a"]))
    with pytest.raises(error) as caught:
        read(table, **{**HASHED, **options})
    assert expected in str(caught.value)


def test_hashing_is_set_by_a_schema_and_its_number_of_buckets_is_checked():
    schema = read(merchants(), **HASHED).schema
    with pytest.raises(ConfigError, match="hashed= is given together with a schema, which already sets it"):
        read(merchants(), schema=schema, hashed=["merchant"])
    for count in (0, 2**24 + 1):
        with pytest.raises(ConfigError, match="buckets must be from 1 to 16,777,216"):
            Fitting(buckets=count)
    for field in ('{"name": "m", "values": ["a"], "buckets": 3}', '{"name": "m", "values": [], "buckets": -1}'):
        text = '{"key": "id", "time": "t", "time_kind": "integer", "categorical": [' + field + "]}"
        with pytest.raises(CheckpointError, match="column 'm' must have up to 16,777,216 buckets and no values, or"):
            Schema.from_json(text)


def test_the_command_line_hashes_as_python_does(tmp_path: Path):
    merchants().write_parquet(tmp_path / "e.parquet")
    columns = ("--key", "card", "--time", "day", "--hashed", "receipt", "--categorical", "merchant")
    answer("fit", "--events", tmp_path / "e.parquet", *columns, "--epochs", 1, "--out", tmp_path / "run")
    run = ev.load(tmp_path / "run")
    assert [field.buckets for field in run.schema.categorical] == [0, 400]
    assert "`receipt` (400 buckets)" in (tmp_path / "run" / "README.md").read_text()
