"""Static columns: equal to a join by a loop, fitted to the training entities, and refused where they cannot be used."""

from __future__ import annotations

import json
import math
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import eventvec as ev
from eventvec.dataset import Dataset, strings, text_column
from eventvec.errors import ConfigError, DataError
from eventvec.schema import Categorical, Numeric, Schema, Text, Vector
from eventvec.tables import Fitting, attach, attach_known, describe, read

EVERY = Fitting(min_count=1)
EMPTY = pl.Series([[], None, []], dtype=pl.List(pl.Float64))
EVENTS = pl.DataFrame({"card": [3, 1, 2, 1, 3, 3], "day": [5, 1, 9, 2, 4, 6]})
KINDS = {"churn": "categorical", "age": "numeric", "about": "text", "profile": "vector"}
PEOPLE = pl.DataFrame(
    {
        "card": [9, 3, 1],
        "churn": ["yes", "no", None],
        "age": [70.0, 30.0, 50.0],
        "about": ["a stranger", None, "né in 1970"],
        "profile": [[9.0, 9.0], [1.0, 2.0], [3.0, 6.0]],
    }
)


def data(events: pl.DataFrame = EVENTS, **options: Any) -> Dataset:
    return read(events, **{"key": "card", "time": "day", "numeric": [], "fitting": EVERY, **options})


def content(dataset: Dataset) -> dict[str, list[Any]]:
    """Return each static column as plain values, one per entity; None where missing."""
    fields = {field.name: field for field in dataset.schema.static}
    plain: dict[str, list[Any]] = {}
    for name, values in dataset.sequences.static.items():
        field = fields[name]
        if isinstance(field, Text):
            plain[name] = [text or None for text in strings(values)]
        elif isinstance(field, Categorical):
            words = [None, "(unknown)", *field.values]
            plain[name] = [words[code] for code in values.tolist()]
        else:
            rows = values.reshape(len(values), -1).tolist()
            plain[name] = [None if math.isnan(row[0]) else row if values.ndim == 2 else row[0] for row in rows]
    return plain


def test_each_kind_has_its_type_values_and_field():
    attached = data(static=PEOPLE, static_columns=KINDS)
    assert attached.keys.to_pylist() == [1, 2, 3]
    assert content(attached) == {
        "churn": [None, None, "no"],
        "age": [50.0, None, 30.0],
        "about": ["né in 1970", None, None],
        "profile": [[3.0, 6.0], None, [1.0, 2.0]],
    }
    kinds = {name: getattr(values, "dtype", None) for name, values in attached.sequences.static.items()}
    assert kinds == {"churn": torch.int32, "age": torch.float32, "about": None, "profile": torch.float32}
    assert attached.schema.static == (  # without card 9, who has no events
        Categorical("churn", ("no",)), Numeric("age", False, 40.0, 10.0), Text("about"),
        Vector("profile", (2.0, 4.0), (1.0, 2.0)),
    )  # fmt: skip
    assert attached.notes == (
        "1 of 3 entities have no row in the static table; their static values are missing",
        "1 of 3 rows of the static table belong to no entity and are left out",
        "static column 'churn': 1 of 2 entities with a row have no value",
        "static column 'about': 1 of 2 entities with a row have no value",
    )


people = st.dictionaries(
    st.integers(0, 8),
    st.fixed_dictionaries(
        {
            "churn": st.none() | st.sampled_from(["a", "b", "ä", ""]),
            "age": st.none() | st.floats(-1e3, 1e3, width=32),
            "about": st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
            "profile": st.none() | st.lists(st.floats(-10, 10, width=32), min_size=2, max_size=2),
        }
    ),
    min_size=1,
)
TYPES = {
    "card": pa.int64(), "churn": pa.string(), "age": pa.float64(), "about": pa.string(),
    "profile": pa.list_(pa.float64()),
}  # fmt: skip


@given(people, st.lists(st.integers(0, 8), min_size=1, max_size=12), st.randoms())
def test_any_table_is_joined_as_by_a_loop(table: dict[int, Any], cards: list[int], shuffle: Any):
    rows = [{"card": key, **values} for key, values in table.items()]
    shuffle.shuffle(rows)
    if not any(values["profile"] for values in table.values()) or not set(cards) & set(table):
        return  # such tables are refused, see below
    static = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})
    events = pl.DataFrame({"card": cards, "day": range(len(cards))})
    attached = data(events, static=static, static_columns=KINDS)
    expected: dict[str, list[Any]] = {name: [] for name in KINDS}
    for card in sorted(set(cards)):
        for name in KINDS:
            expected[name].append(table.get(card, dict.fromkeys(KINDS))[name])
    expected["about"] = [text or None for text in expected["about"]]
    assert content(attached) == expected
    ages = [age for age in expected["age"] if age is not None]
    if ages:
        field = attached.schema.static_field("age")
        assert field.mean == pytest.approx(np.mean(ages), rel=1e-4, abs=1e-4)
        assert field.std == pytest.approx(np.std(np.float32(ages), dtype=np.float64) or 1.0, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.float32()), pa.list_(pa.float64(), 2)])
def test_vectors_of_any_arrow_layout(kind: pa.DataType):
    static = pa.table({"card": [3, 2, 1], "v": pa.array([[1, 2], None, [3, 4]], kind)})
    for table in (static, pa.concat_tables([static.slice(0, 1), static.slice(1)])):
        assert content(data(static=table))["v"] == [[3.0, 4.0], None, [1.0, 2.0]]


def test_keys_are_matched_by_value_under_either_name():
    narrow = PEOPLE.with_columns(pl.col("card").cast(pl.Int8))
    text = PEOPLE.with_columns(pl.col("card").cast(pl.String)).rename({"card": "person"})
    expected = content(data(static=PEOPLE, static_columns=KINDS))
    assert content(data(static=narrow, static_columns=KINDS)) == expected
    assert content(data(static=text, static_columns=KINDS, key_as="person")) == expected
    ids = [uuid.UUID(int=7), uuid.UUID(int=9)]
    events = pa.table({"card": pa.array([i.bytes for i in ids], pa.uuid()), "day": [1, 2]})
    named = pa.table({"card": [str(ids[1])], "age": [4.0]})
    attached = read(events, key="card", time="day", numeric=[], static=named, static_columns={"age": "numeric"})
    assert content(attached)["age"] == [None, 4.0]


def test_rows_keep_their_static_values():
    attached = data(static=PEOPLE, static_columns=KINDS)[[2, 0]]
    assert content(attached)["age"] == [30.0, 50.0]
    assert content(attached)["about"] == [None, "né in 1970"]
    assert ev.until(attached, 5).sequences.static["age"].tolist() == [30.0, 50.0]


def test_fields_are_fitted_to_the_training_entities_only():
    n = 400
    events = pl.DataFrame({"card": range(n), "day": range(n)})
    static = pl.DataFrame({"card": range(n), "age": np.arange(n) * 1.0, "word": [f"w{i % 40}" for i in range(n)]})
    held_out = ev.tables.holdout_mask(data(events).keys, 0.9, 3)
    attached = data(events, holdout=0.9, holdout_seed=3, static=static)
    training = np.flatnonzero(~held_out)
    assert attached.schema.static_field("age").mean == pytest.approx(training.mean())
    assert set(attached.schema.static_field("word").values) == {f"w{i % 40}" for i in training}


def test_min_count_removes_no_class_of_a_label_or_of_an_expert_feature():
    n = 40
    events = pl.DataFrame({"card": np.arange(5 * n) % n, "day": np.arange(5 * n), "shop": ["a", "b"] * (5 * n // 2)})
    people = pl.DataFrame({"card": range(n), "plan": ["gold"] + ["basic", "plus", "plus"] * (n // 3)})
    read_events = data(events, categorical=["shop"], fitting=Fitting(min_count=10))
    labelled = attach(read_events, people, fitting=Fitting(min_count=10))
    assert labelled.schema.static_field("plan").values == ("plus", "basic", "gold")
    config = {"encoder": {"dim": 4}}
    run = ev.fit(labelled, method={**config, "method": {"name": "supervised", "label": "plan"}}, epochs=1)
    assert ev.predict(run, events).column_names == ["card", "prediction", "p_plus", "p_basic", "p_gold"]
    experts = ev.fit(labelled, method={**config, "method": {"name": "expclr", "features": ["plan"]}}, epochs=1)
    assert experts.schema.static_field("plan").values == ("plus", "basic", "gold")


# Inferred kinds


def test_kinds_are_inferred_and_notes_name_the_columns_that_are_left_out():
    n = 120
    static = pl.DataFrame({"card": range(n)}).with_columns(
        word=pl.Series(["a", "b"] * 60), flag=pl.col("card") % 2 == 0, size=pl.col("card") % 60,
        rate=pl.col("card") * 0.5, about=pl.format("entity number {}", "card"),
        story=pl.Series([f"{'long ' * 12}{i % 3}" for i in range(n)]), profile=pl.concat_list("card", "card"),
        serial=pl.col("card") * 7, constant=pl.lit("m"), void=pl.lit(None, pl.String),
        born=pl.lit(2000).cast(pl.Date), empty=pl.lit(None, pl.List(pl.Float64)), raw=pl.lit(b"x"),
        words=pl.concat_list(pl.lit("a"), pl.lit("b")),
    )  # fmt: skip
    attached = data(pl.DataFrame({"card": range(n), "day": range(n)}), static=static)
    kinds = {row["name"]: row["kind"].removeprefix("static ") for row in describe(attached)[2:]}
    assert kinds == {
        "word": "categorical", "flag": "categorical", "size": "numeric", "rate": "numeric", "about": "text",
        "story": "text", "profile": "vector",
    }  # fmt: skip
    reasons = {note.split("'")[1]: note.split("left out: ")[1] for note in attached.notes if "left out: " in note}
    expected = {
        "serial": "near-unique", "constant": "constant", "void": "no value", "born": "times", "empty": "no value",
        "raw": "it holds", "words": "it holds",
    }  # fmt: skip
    assert set(reasons) == set(expected)
    assert all(reason in reasons[name] for name, reason in expected.items())
    shown = {row["name"]: row for row in describe(attached)}
    assert (shown["rate"]["mean"], shown["profile"]["values"], shown["story"]["missing"]) == (29.75, 2, 0)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([[1.0], [1.0, 2.0], [3.0]], "it has 1 vector (first at row 1) of another length than 1"),
        ([[], None, []], "it has no vector with a number in it"),
        ([[1.0], None, [math.inf]], "it has 1 vector (first at row 2) with a missing or infinite number"),
    ],
)
def test_an_unlisted_column_of_unusable_lists_is_left_out(values: list[Any], reason: str):
    static = PEOPLE.with_columns(profile=pl.Series(values, dtype=pl.List(pl.Float64)))
    attached = data(static=static)
    assert "age" in content(attached)
    assert "profile" not in content(attached)
    assert f"static column 'profile' is left out: {reason}" in attached.notes
    with pytest.raises(DataError, match="column 'profile' has"):
        data(static=static, static_columns={"profile": "vector"})
    with pytest.raises(DataError, match="column 'profile' has"):
        read(EVENTS, schema=data(static=PEOPLE, static_columns={"profile": "vector"}).schema, static=static)


def test_only_listed_columns_are_used():
    attached = data(static=PEOPLE, static_columns={"age": "categorical"})
    assert content(attached) == {"age": ["50", None, "30"]}


@pytest.mark.parametrize("sliced", [False, True])
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_texts_of_any_arrow_layout(kind: pa.DataType, sliced: bool):
    array = pa.array(["né in 1970", None, "", "likes tea", "☕"]).cast(kind)
    static = pa.table({"card": [3, 9, 2, 1, 8], "about": array})
    if sliced:
        static = pa.concat_tables([static.slice(2, 2), static.slice(0, 1)])
    attached = data(static=static, static_columns={"about": "text"})
    assert strings(attached.sequences.static["about"]) == ["likes tea", "", "né in 1970"]


texts = st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=4), max_size=8)


@given(texts, texts, st.integers(0, 8))
def test_texts_survive_the_conversion_to_bytes(first: list[str | None], last: list[str | None], start: int):
    layouts = (
        pa.array(first + last, pa.string()).slice(start),
        pa.chunked_array([pa.array(first, pa.string()), pa.array(last, pa.string())]).slice(start),
    )
    for layout in layouts:
        column = text_column(layout)
        assert column.columns["bytes"].dtype == torch.uint8
        assert len(column.columns["bytes"]) == column.total
        assert strings(column) == [text or "" for text in (first + last)[start:]]
    assert strings(text_column(pa.chunked_array([], pa.string()))) == []


def test_vectors_may_hold_large_integers():
    static = pa.table({"card": [3, 1], "v": pa.array([[2**53 + 1, 1], [2**63 - 1, 2]])})
    assert content(data(static=static, static_columns={"v": "vector"}))["v"] == [[2.0**63, 2.0], None, [2.0**53, 1.0]]


# Refusals


@pytest.mark.parametrize(
    ("change", "columns", "error", "expected"),
    [
        ({"card": [1, 3, 1]}, KINDS, DataError, "'card' of the static table has 1 repeated key (first at row 2)"),
        ({"card": [1, None, 3]}, KINDS, DataError, "'card' of the static table has 1 missing value (first at row 1)"),
        ({"card": [7, 8, 9]}, KINDS, DataError, "none of 3 rows of the static table has a key (column 'card', int64"),
        ({"profile": [[1.0], [1.0, 2.0], [1.0]]}, KINDS, DataError, "1 vector (first at row 1) of another length"),
        ({"profile": [[1.0], [None], [1.0]]}, KINDS, DataError, "1 vector (first at row 1) with a missing or"),
        ({"profile": [[1.0], None, [math.inf]]}, KINDS, DataError, "1 vector (first at row 2) with a missing or"),
        ({"profile": [[1.0], None, [1e39]]}, KINDS, DataError, "1 vector (first at row 2) with a missing or"),
        ({"profile": EMPTY}, KINDS, DataError, "no vector with a number in it"),
        ({"age": [1.0, math.inf, 2.0]}, KINDS, DataError, "column 'age' has 1 infinite number (first at row 1)"),
        ({}, {"about": "numeric"}, DataError, "column 'about' is numeric but has 2 texts (first at row 0)"),
        ({}, {"age": "text"}, DataError, "column 'age' cannot be text: it holds double; accepted: text"),
        ({}, {"age": "vector"}, DataError, "column 'age' cannot be a vector: it holds double; accepted: lists"),
        ({}, {"profile": "numeric"}, DataError, "column 'profile' cannot be numeric: it holds"),
        ({}, {"agee": "numeric"}, DataError, "there is no column 'agee'; did you mean 'age'?"),
        ({}, {"age": "number"}, ConfigError, "'age': kind 'number' is not known; did you mean 'numeric'?"),
        ({}, {"card": "numeric"}, ConfigError, "static column 'card' is the key; remove it from the list"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_unusable_columns_are_refused(change: dict[str, Any], columns: Any, error: type[Exception], expected: str):
    static = PEOPLE.with_columns(**{name: pl.Series(values, strict=False) for name, values in change.items()})
    with pytest.raises(error) as caught:
        data(static=static, static_columns=columns)
    assert expected in str(caught.value)


def test_contradicting_options_are_refused():
    fitted = data(static=PEOPLE, static_columns=KINDS)
    with pytest.raises(ConfigError, match="static_columns is given without static"):
        data(static_columns=KINDS)
    with pytest.raises(ConfigError, match="together with a schema"):
        read(EVENTS, schema=fitted.schema, static=PEOPLE, static_columns=KINDS)
    with pytest.raises(ConfigError, match="the schema has no static columns"):
        read(EVENTS, schema=data().schema, static=PEOPLE)
    with pytest.raises(ConfigError, match="have a static column 'age' already"):
        attach(fitted, PEOPLE, {"age": "numeric"})
    with pytest.raises(ConfigError, match="'age' is listed as text, but the schema has it as numeric"):
        attach(read(EVENTS, schema=fitted.schema), PEOPLE, {"age": "text"})
    with pytest.raises(ConfigError, match="there is no static column 'agee'; did you mean 'age'"):
        fitted.schema.static_field("agee")
    with pytest.raises(ConfigError, match="there is no static column 'age'; the data have none; give a table") as none:
        data().schema.static_field("age")
    assert "whose columns without values are left out" in str(none.value)


def test_one_uuid_written_in_two_ways_is_a_repeated_key():
    ids = [uuid.UUID(int=171), uuid.UUID(int=9)]
    events = pa.table({"card": pa.array([i.bytes for i in ids], pa.uuid()), "day": [1, 2]})
    named = pa.table({"card": [str(ids[1]), str(ids[0]), str(ids[0]).upper()], "age": [4.0, 5.0, 6.0]})
    with pytest.raises(DataError, match=r"'card' of the static table has 1 repeated key \(first at row 2\)"):
        read(events, key="card", time="day", numeric=[], static=named, static_columns={"age": "numeric"})
    others = pa.table({"card": ["x", "X", str(ids[0])], "age": [4.0, 5.0, 6.0]})
    attached = read(events, key="card", time="day", numeric=[], static=others, static_columns={"age": "numeric"})
    assert sorted(content(attached)["age"], key=str) == [6.0, None]


# With a schema


def test_reading_with_a_schema_neither_needs_static_columns_nor_fits_them():
    fitted = data(static=PEOPLE, static_columns=KINDS)
    plain = read(EVENTS, schema=fitted.schema)
    assert plain.schema == fitted.schema
    assert not plain.sequences.static
    other = PEOPLE.with_columns(churn=pl.Series(["no", "maybe", "no"]), age=pl.col("age") + 1).drop("about")
    attached = read(EVENTS, schema=fitted.schema, static=other)
    assert attached.schema == fitted.schema
    assert content(attached)["churn"] == ["no", None, "(unknown)"]
    assert content(attached)["age"] == [51.0, None, 31.0]
    assert "the static table has no column 'about'" in attached.notes
    assert any(
        "'churn': 1 of 3 entities (33.3 %) hold values outside the schema's vocabulary" in n for n in attached.notes
    )
    with pytest.raises(DataError, match=r"3 vectors \(first at row 0\) of another length than 2"):
        attach_known(plain, PEOPLE.with_columns(profile=pl.Series([[1.0]] * 3)))
    with pytest.raises(DataError, match="there is no column"):
        attach_known(plain, PEOPLE[["card"]])


def test_new_columns_are_added_to_those_of_the_schema():
    fitted = data(static=PEOPLE, static_columns={"age": "numeric"})
    attached = attach(read(EVENTS, schema=fitted.schema), PEOPLE.with_columns(age=pl.col("age") * 2), fitting=EVERY)
    assert attached.schema.static[0] == fitted.schema.static[0]
    assert content(attached)["age"] == [100.0, None, 60.0]
    assert [field.name for field in attached.schema.static] == ["age", "churn", "about", "profile"]
    assert isinstance(attached.schema.static_field("about"), Categorical)  # a short text in few rows


# Saved files


def test_a_schema_with_static_columns_survives_json_and_one_without_loads():
    schema = data(static=PEOPLE, static_columns=KINDS).schema
    schema = Schema(**{**vars(schema), "static": (*schema.static, Numeric("plain"), Categorical("none", ()))})
    assert Schema.from_json(schema.to_json()) == schema
    old = {name: value for name, value in json.loads(data().schema.to_json()).items() if name != "static"}
    assert Schema.from_json(json.dumps(old)) == data().schema


def test_the_fingerprint_depends_on_static_values():
    fingerprints = {data().fingerprint, data(static=PEOPLE, static_columns=KINDS).fingerprint}
    for name, value in {"churn": "maybe", "age": 31.0, "about": "né", "profile": [1.0, 2.5]}.items():
        first, _, last = PEOPLE[name].to_list()
        changed = PEOPLE.with_columns(pl.Series(name, [first, value, last]))
        fingerprints.add(data(static=changed, static_columns=KINDS).fingerprint)
    assert len(fingerprints) == 6
    shuffled = PEOPLE[[2, 0, 1]]
    assert data(static=shuffled, static_columns=KINDS).fingerprint in fingerprints


def test_a_run_folder_holds_the_static_fields_that_it_needs_and_no_text(tmp_path: Path):
    n, illness = 40, ["measles", "mumps"] * 20
    events = pl.DataFrame({"card": np.repeat(range(n), 6), "day": range(6 * n), "v": np.arange(6.0 * n)})
    secret = [f"secret story {i}" for i in range(n)]
    static = pl.DataFrame({"card": range(n), "about": secret, "illness": illness, "age": np.arange(1.0 * n)})
    kinds = {"about": "text", "illness": "categorical", "age": "numeric"}
    attached = read(events, key="card", time="day", numeric=["v"], static=static, static_columns=kinds)
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(attached.schema), dim=4)
    ev.fit(attached, method=ev.methods.CoLES(encoder, ev.views.RandomSlices(2, 1, 3)), epochs=1, out=tmp_path / "coles")
    ev.fit(attached, method=ev.methods.Supervised(encoder, attached.schema, "age"), epochs=1, out=tmp_path / "age")
    for run, fields in (("coles", []), ("age", ["age"])):
        assert [field.name for field in ev.load(tmp_path / run).schema.static] == fields
        for file in (tmp_path / run).iterdir():
            assert b"secret story" not in file.read_bytes()
            assert b"measles" not in file.read_bytes()
    z = ev.encode(ev.load(tmp_path / "age").encoder, read(events, schema=ev.load(tmp_path / "age").schema).sequences)
    assert torch.equal(z, ev.encode(encoder, attached.sequences))
