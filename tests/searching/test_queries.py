"""Searches by key, history and text, in Python and from the command line, and an index that follows `update`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import backbones
import describing
import eventvec as ev
from commands import answer, invoke, purchases
from eventvec.methods import TPPEmbedding


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with purchases of 40 customers, a run without parts and its embeddings."""
    path = tmp_path_factory.mktemp("search")
    events = purchases([f"c{i:02}" for i in range(40)], 20)
    events.write_parquet(path / "events.parquet")
    data = ev.read(path / "events.parquet", key="customer", time="when")
    run = ev.fit(data, method="coles", epochs=1, beside=[], out=path / "run")
    ev.write(path / "z.parquet", run.embed(data))
    return path


def test_a_key_a_history_and_a_table_of_keys(folder: Path) -> None:
    run, z, events = ev.load(folder / "run"), ev.read_embeddings(folder / "z.parquet"), folder / "events.parquet"
    near = ev.search(z, key="c03", count=5, events=events).frame()
    unit = z.values / np.linalg.norm(z.values, axis=1, keepdims=True)
    order = [row for row in np.argsort(-(unit @ unit[3])) if row != 3][:5]
    assert near["customer"].to_list() == [z.keys[row].as_py() for row in order]
    assert near["similarity"].to_list() == pytest.approx((unit[order] @ unit[3]).tolist(), abs=1e-6)
    assert near["history"].str.contains(r"^20 events, 2024-01-01 to 2024-01-\d\d; bought (tea|coffee) \d+ %").all()
    history = pl.read_parquet(events).filter(customer="c03")
    same = ev.search(z, history=history, model=run, count=6).frame()
    assert same["customer"].to_list() == ["c03", *near["customer"]]
    some = pl.DataFrame({"customer": ["c01", "c05", "c07", "nobody"]})
    among = ev.search(z, key="c03", among=some)
    assert {row["customer"] for row in among.rows} == {"c01", "c05", "c07"}
    assert str(among).startswith("The 3 nearest of 3 entities.\n")
    assert "c05" in str(among)  # the hits are the answer


def test_a_text_finds_the_history_that_it_describes() -> None:
    data = describing.problem(60, seed=0)
    method = TPPEmbedding(backbones.encoder(data.schema), "note")
    run = ev.fit(data, method=method, epochs=1, validation=0)
    z = run.embed(data)
    hits = ev.search(z, text="v1 v2 v3", model=run, count=60).frame()
    query = run.embed_texts(["v1 v2 v3"], normalize=True)[0]
    unit = z.values / np.linalg.norm(z.values, axis=1, keepdims=True)
    assert hits["similarity"].to_list() == pytest.approx(sorted(unit @ query, reverse=True), abs=1e-5)


def test_searches_that_make_no_sense_are_refused(folder: Path) -> None:
    run, z = ev.load(folder / "run"), ev.read_embeddings(folder / "z.parquet")
    other = ev.fit(ev.read(folder / "events.parquet", key="customer", time="when"), method="ocp", epochs=1)
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ev.ConfigError, r"give one of key=, history= and text= .*, got none", {}),
        (ev.ConfigError, "got key and text", {"key": "c01", "text": "tea"}),
        (ev.DataError, "the key is not among the 40 entities", {"key": "c99"}),
        (ev.ConfigError, r"history= needs the model that made the vectors", {"history": folder / "events.parquet"}),
        (ev.DataError, "the history must be of one entity, got events of 40",
         {"history": folder / "events.parquet", "model": run}),
        (ev.CheckpointError, "two runs cannot be compared", {"history": folder / "events.parquet", "model": other}),
        (ev.ConfigError, "embeds no texts", {"text": "tea", "model": run}),
        (ev.DataError, "has no column 'customer'", {"key": "c01", "among": pl.DataFrame({"id": ["c01"]})}),
        (ev.DataError, "none of the 1 keys to search", {"key": "c01", "among": pl.DataFrame({"customer": ["x"]})}),
    ]  # fmt: skip
    for error, sentence, options in cases:
        with pytest.raises(error, match=sentence):
            ev.search(z, **options)


def test_the_command_finds_what_python_does_and_its_index_follows_updates(folder: Path, tmp_path: Path) -> None:
    run, state, index = folder / "run", tmp_path / "state.db", tmp_path / "cards.index"
    events = pl.read_parquet(folder / "events.parquet").sort("when")
    for name, part in (("first", events.head(600)), ("second", events.slice(600, 100)), ("third", events.tail(100))):
        part.write_parquet(tmp_path / f"{name}.parquet")

    def update(name: str, *options: object) -> Any:
        return invoke(
            "update", run, tmp_path / f"{name}.parquet", "--state", state, "-o", tmp_path / f"{name}.z", *options
        )

    assert update("first").exit_code == 0
    refused = invoke("search", tmp_path / "first.z", "--save", index, "--key", "absent")
    assert (refused.exit_code, index.exists()) == (1, False)
    made = answer("search", tmp_path / "first.z", "--save", index)
    assert made == {"index": str(index), "entities": 40, "dim": ev.load(run).encoder.dim, "recall": 1.0}
    assert update("second", "--index", index).exit_code == 0
    (tmp_path / "second.z").unlink()  # as if it had been killed before the output
    assert update("second", "--index", index).exit_code == 0
    assert update("third", "--index", index).exit_code == 0
    z = ev.load(run).embed(folder / "events.parquet")
    expected = ev.search(z, key="c03", count=3).frame()
    hits = answer("search", index, "--key", "c03", "--count", 3, "--events", folder / "events.parquet")["hits"]
    assert [hit["customer"] for hit in hits] == expected["customer"].to_list()
    assert [hit["similarity"] for hit in hits] == pytest.approx(expected["similarity"].to_list(), abs=1e-5)
    shown = invoke("search", index, "--key", "c03", "--count", 3, "-o", tmp_path / "hits.parquet").stdout
    assert expected["customer"][0] in shown
    assert pl.read_parquet(tmp_path / "hits.parquet")["customer"].to_list() == expected["customer"].to_list()
    assert invoke("update", run, "--state", state, "--forget", "c03", "--index", index).exit_code == 0
    lost = invoke("search", index, "--key", "c03")
    assert (lost.exit_code, lost.stderr.count("\n")) == (1, 1)
    assert "the key is not among the 39 entities" in lost.stderr


def test_a_batch_that_the_index_has_missed_is_refused(folder: Path, tmp_path: Path) -> None:
    run, state, index = folder / "run", tmp_path / "state.db", tmp_path / "cards.index"
    events = pl.read_parquet(folder / "events.parquet").sort("when")
    for place, (start, length) in enumerate(((0, 600), (600, 50), (650, 50), (700, 100))):
        events.slice(start, length).write_parquet(tmp_path / f"{place}.parquet")
        follow = ["--index", index] if place in (1, 3) else []
        result = invoke(
            "update", run, tmp_path / f"{place}.parquet", "--state", state, "-o", tmp_path / f"{place}.z", *follow
        )
        if place == 0:
            assert invoke("search", tmp_path / "0.z", "--save", index).exit_code == 0
        assert result.exit_code == (1 if place == 3 else 0)
    assert "up to number 2, and this is number 4; give it those between first" in result.stderr
    assert not (tmp_path / "3.z").exists()
    for place in (2, 3):
        again = ("update", run, tmp_path / f"{place}.parquet", "--state", state, "-o", tmp_path / f"{place}.z")
        assert invoke(*again, "--index", index).exit_code == 0
    assert ev.read_index(index).z.metadata["batch"] == 4


def test_commands_that_make_no_sense_are_one_sentence(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no index")
    os.mkfifo(tmp_path / "pipe")  # which nobody writes
    for arguments, code, sentence in (
        ((folder / "z.parquet",), 2, "say what to find"),
        ((tmp_path / "absent", "--key", "c01"), 1, "does not exist"),
        ((tmp_path / "pipe", "--key", "c01"), 1, "is a pipe or a device"),
        ((tmp_path / "text", "--key", "c01"), 1, "damaged"),
        ((folder / "events.parquet", "--key", "c01"), 1, "is not an embeddings file"),
        ((folder / "z.parquet", "--key", "c01", "--count", "0"), 2, "count must be at least 1"),
        ((folder / "z.parquet", "--save", folder / "events.parquet"), 2, "was not written by eventvec"),
        ((folder / "z.parquet", "--text", "tea", "--model", folder / "run"), 2, "embeds no texts"),
    ):
        result = invoke("search", *arguments)
        assert (result.exit_code, sentence in result.stderr) == (code, True), result.stderr
        assert result.stderr.count("\n") == 1
