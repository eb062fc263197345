"""Stores of columns, shards, folders of states and indexes that were tampered with: equal results, or one sentence."""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import other_ways
import polars as pl
import pyarrow.parquet as pq
import tampering
import workplace
from draws import chance
from other_ways import sorted_rows
from outcomes import Broken, check_same, require, way
from typer.testing import CliRunner

import eventvec as ev
from eventvec.cli import app
from eventvec.tables import key_parts

ROLES = {"key": "id", "time": "t"}
SHARDS: dict[str, Any] = {"shards": 3, "workers": 1}


def play(rng: Random, folder: Path) -> str:
    """Play one case and return its outcome; it works in a folder of the process, because stores know their paths."""
    place = _restored()
    os.chdir(place)
    name = rng.choice(list(USES))
    use, target, allowed = USES[name]
    described = _tamper(rng, place / target)
    while chance(rng, 0.15):
        described += ", " + _tamper(rng, place / target)
    with way(name):
        return tampering.used(use, described, place, allowed)


@cache
def _run() -> Path:
    path = workplace.run("timestamp", 0, "coles").path
    assert path is not None
    return path


@cache
def _made() -> Path:
    """Return a folder with everything, whose subfolder `work` is the place for which it was made."""
    folder = workplace.made_once("fuzz-stores-")
    place = folder / "work"
    place.mkdir()
    start = os.getcwd()
    os.chdir(place)
    try:
        workplace.events().write_parquet("../events.parquet")
        later = workplace.events().with_columns(pl.col("t") + pl.duration(days=99))
        later[:40].write_parquet("../later.parquet")
        with mock.patch.object(key_parts, "EVENTS", 30):
            ev.read("../events.parquet", **ROLES, categorical=["code"], numeric=["amount"], store="columns")
        ev.embed_shards(_run(), "../events.parquet", "shards", **SHARDS)
        ev.update_shards(_run(), "../events.parquet", "states", "first", **SHARDS, batch_id="first")
        ev.Index.of(ev.load(_run()).embed("../events.parquet")).save("search.index")
    finally:
        os.chdir(start)
    shutil.copytree(place, folder / "made")
    return folder


def _restored() -> Path:
    """Return the place, as it was made."""
    place = _made() / "work"
    shutil.rmtree(place)
    shutil.copytree(_made() / "made", place)
    return place


@cache
def _whole() -> ev.Embeddings:
    """Return the vectors of the first events."""
    return ev.load(_run()).embed(_made() / "events.parquet")


@cache
def _later() -> ev.Embeddings:
    """Return the vectors of the entities that have later events, from their whole histories."""
    tables = [pl.read_parquet(_made() / "made" / name) for name in ("../events.parquet", "../later.parquet")]
    whole = pl.concat(tables).filter(pl.col("id").is_in(tables[1]["id"].unique().implode()))
    return ev.load(_run()).embed(whole)


def _columns() -> None:
    """Read a store of columns again; `doctor` finds numbers and codes that were changed into other possible ones."""
    options: dict[str, Any] = {**ROLES, "categorical": ["code"], "numeric": ["amount"]}
    stored = ev.read("../events.parquet", **options, store="columns")
    expected = ev.read("../events.parquet", **options)
    try:
        other_ways.check_equal(expected, stored, "a store of columns")
    except Broken as broken:
        found = CliRunner().invoke(app, ["doctor", "columns"])
        require(found.exit_code == 1, broken.law, f"{broken.detail}; doctor: {found.output}")


def _shards() -> None:
    """Read shards."""
    check_same(sorted_rows(_whole()), sorted_rows(ev.read_embeddings("shards")), "shards")


def _go_on() -> None:
    """Give a command again whose output is there."""
    done = ev.embed_shards(_run(), "../events.parquet", "shards", **SHARDS)
    require(done.rows == 144, "the number of events is another", done.rows)
    _shards()


def _states() -> None:
    """Give another batch to a folder of states, and then the first one again."""
    ev.update_shards(_run(), "../later.parquet", "states", "second", **SHARDS, batch_id="second")
    z = sorted_rows(ev.read_embeddings("second"))
    check_same(sorted_rows(_later()), z, "states and another batch", 1e-4)
    require(z.events.tolist() == sorted_rows(_later()).events.tolist(), "states and another batch: other counts")
    ev.update_shards(_run(), "../events.parquet", "states", "again", **SHARDS, batch_id="first")
    check_same(sorted_rows(_whole()), sorted_rows(ev.read_embeddings("again")), "a batch that is given again", 1e-4)


def _index() -> None:
    """Search an index."""
    index, expected = ev.read_index("search.index"), ev.Index.of(_whole())
    require(index.run == expected.run, "the index names another run")
    require(index.keys.equals(expected.keys), "the index has other keys")
    key = workplace.KEYS[3]
    one, other = (ev.search(each, key=key, count=30).frame() for each in (index, expected))
    require(one["id"].to_list() == other["id"].to_list(), "the index has other neighbours")
    distance = (one["similarity"] - other["similarity"]).abs().max()
    require(distance <= 1e-5, "the index has other similarities", distance)


USES: dict[str, tuple[Any, str, list[str]]] = {
    "store of columns": (_columns, "columns", []),
    "shards": (_shards, "shards", []),
    "shards again": (_go_on, "shards", ["work/shards(/.*)?", "shards(/.*)?"]),
    "folder of states": (_states, "states", ["(states|second|again)(/.*)?"]),
    "index": (_index, "search.index", []),
}
"""What is used, by which function, what of it is tampered with, and which files the use may change."""


def _tamper(rng: Random, path: Path) -> str:
    """Change one file of a folder, or the file itself."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    files = [file for file in files if file.stat().st_size]
    if not files:
        return "nothing"
    file = rng.choice(files)
    try:
        if chance(rng, 0.6):
            return f"{file.name}: {_change(rng, file)}"
    except Exception:  # the file was damaged before, or cannot hold the value
        return f"{file.name}: nothing"
    return tampering.any_file(rng, file, [each for each in files if each != file] or [path.parent / "../later.parquet"])


def _change(rng: Random, file: Path) -> str:
    """Change a value inside a file, according to its kind."""
    if file.suffix == ".json":
        value = json.loads(file.read_text())
        done = tampering.change_value(rng, value)
        file.write_text(json.dumps(value))
        return done
    if file.suffix == ".parquet":
        return _change_parquet(rng, file)
    if file.suffix in (".bin", ".arrow"):
        content = bytearray(file.read_bytes())
        place = rng.randrange(len(content))
        content[place] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
        return f"bit of byte {place}"
    if file.suffix == ".index":
        return tampering.change_tensors(rng, file)
    return tampering.change_rows(rng, file)


def _change_parquet(rng: Random, file: Path) -> str:
    table = pq.read_table(file)
    metadata = dict(table.schema.metadata or {})
    if chance(rng, 0.5):
        value = json.loads(metadata[b"eventvec"])
        done = tampering.change_value(rng, value)
        table = table.replace_schema_metadata({**metadata, b"eventvec": json.dumps(value).encode()})
    else:
        done = rng.choice(("reversed", "halved"))
        table = table[::-1] if done == "reversed" else table[: len(table) // 2]
    pq.write_table(table, file)
    return done
