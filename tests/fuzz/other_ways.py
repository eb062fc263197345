"""Other ways to the vectors of a table, which must all give the same: stores on disk, databases, shards, ONNX."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import lakes
import numpy as np
import pyarrow as pa
from outcomes import Refused, attempt, check_same, require, texts, way

import eventvec as ev
from eventvec.tables import key_parts

READING = ("until", "cutoffs", "cutoff_column", "time_format", "key_as")
"""The options of `read` that scoring takes too."""


def check_equal(one: ev.Dataset, other: ev.Dataset, law: str) -> None:
    """Check that two data sets have the same keys, schema, notes and columns."""
    require(one.keys.equals(other.keys), f"{law}: other keys")
    require(one.schema == other.schema, f"{law}: another schema", f"{one.schema} and {other.schema}")
    require(sorted(one.notes) == sorted(other.notes), f"{law}: other notes", f"{one.notes} and {other.notes}")
    require(one.fingerprint == other.fingerprint, f"{law}: other columns")
    require(one.sequences.lengths.equal(other.sequences.lengths), f"{law}: other lengths")


def read_or_refused(keys: list[Any], source: Any, **options: Any) -> ev.Dataset | Refused:
    """Return the data set, or the refusal."""
    try:
        return attempt(keys, ev.read, source, **options)
    except Refused as refusal:
        return refusal


def check_store(rng: Random, source: Any, options: dict[str, Any], folder: Path, keys: list[Any]) -> None:
    """Check that a table is read into a store as it is into memory, in one part or in several.

    Args:
        rng: The generator.
        source: A function that returns the table.
        options: The options of `read`.
        folder: The folder of the case.
        keys: The values of the key column.
    """
    memory = read_or_refused(keys, source(), **options)
    size = rng.choice((2, 7, 30, key_parts.EVENTS))
    if not isinstance(memory, Refused) and "categorical" not in options and size < key_parts.EVENTS:
        schema = memory.schema  # kinds would be inferred from a sample
        hashed = [field.name for field in schema.categorical if field.buckets]
        plain = [field.name for field in schema.categorical if not field.buckets]
        options = options | {
            "categorical": plain,
            "hashed": hashed,
            "numeric": [field.name for field in schema.numeric],
        }
        memory = read_or_refused(keys, source(), **options)
    sampled = isinstance(memory, Refused) and "categorical" not in options and size < key_parts.EVENTS
    with way("store"), mock.patch.multiple(key_parts, EVENTS=size, ROWS=rng.choice((3, 1 << 20))):
        stored = read_or_refused(keys, source(), **options, store=folder / "store")
        if isinstance(memory, Refused) or isinstance(stored, Refused):
            alike = isinstance(memory, Refused) == isinstance(stored, Refused) or sampled
            require(alike, "memory and store differ in what they refuse", f"memory: {memory!r}; store: {stored!r}")
            raise memory if isinstance(memory, Refused) else stored
        check_equal(memory, stored, "a store")
        again = read_or_refused(keys, source(), **options, store=folder / "store")
        if not isinstance(again, Refused):  # it is told that tables in memory cannot be compared
            check_equal(memory, again, "a store that is there")


def check_database(address: str, options: dict[str, Any], data: ev.Dataset, keys: list[Any]) -> None:
    """Check that a table at an address is read as the table that its own software reads."""
    same = attempt(keys, ev.read, lakes.fetched(address), **options)
    ordered = tuple(note for note in data.notes if "the rows of a database have no order" not in note)
    check_equal(replace(data, notes=ordered), same, "a table in a database")


def check_shards(
    rng: Random, run: ev.Model, events: Path | str, options: dict[str, Any], folder: Path, keys: list[Any]
) -> None:
    """Check that a run embeds a table in shards as it does at once."""
    reading = {name: value for name, value in options.items() if name in READING}
    assert run.path is not None
    whole = attempt(keys, run.embed, events, **reading)
    with way("shards"):
        shards = {"shards": rng.choice((1, 2, 5)), "workers": 1}
        done = attempt(keys, ev.embed_shards, run.path, events, folder / "shards", **shards, **reading)
        again = attempt(keys, ev.embed_shards, run.path, events, folder / "shards", **shards, **reading)
        require(again.skipped >= sum(1 for record in done.shards if record.rows), "shards are computed again")
        check_same(sorted_rows(whole), sorted_rows(ev.read_embeddings(folder / "shards")), "shards")


def sorted_rows(z: ev.Embeddings) -> ev.Embeddings:
    """Return embeddings in the order of the texts of their keys, and of the times of their rows."""
    moments = [0] * len(z) if z.moments is None else z.moments.tolist()
    names = texts(z.keys)
    return z[np.array(sorted(range(len(z)), key=lambda row: (names[row], moments[row])), np.int64)]


def check_onnx(run: ev.Model, data: ev.Dataset, folder: Path, keys: list[Any]) -> None:
    """Check that an exported encoder gives the vectors of the run for its training data."""
    import onnxruntime

    with way("onnx"):
        about = attempt(keys, ev.to_onnx, run, folder / "encoder.onnx")
        session = onnxruntime.InferenceSession(folder / "encoder.onnx")
        x = data.sequences
        feed: dict[str, Any] = {"lengths": x.lengths.numpy(), "time": x.values("time").numpy()}
        for column in about["columns"]:
            name, kind = column["name"], np.float32 if column["kind"] == "numbers" else np.int64
            values = x.columns[name]
            if isinstance(values, ev.Sequences):  # the codes of all elements
                bags = values[x.flat()]
                feed[f"elements.{name}"] = bags.lengths.numpy()
                values, places = bags.columns["code"], bags.flat()
            else:
                places = x.flat()
            feed[f"column.{name}"] = values[places].numpy().astype(kind)
        if about["stored_dim"]:
            feed["state"] = np.zeros((len(x), about["stored_dim"]), np.float32)
            feed["seen"] = np.zeros(len(x), np.int64)
            feed["last_time"] = np.zeros(len(x), feed["time"].dtype)
        vectors = session.run(["embedding"], feed)[0]
        check_close(vectors, attempt(keys, run.embed, data).values, "an encoder in ONNX", 1e-4)


def check_close(one: np.ndarray, other: np.ndarray, law: str, tolerance: float) -> None:
    """Check that vectors are equal up to rounding, relative to their numbers where these are above 1."""
    distance = float((np.abs(one - other) / np.maximum(np.abs(other), 1)).max(initial=0))
    require(distance <= tolerance, f"{law}: other vectors", f"they differ by {distance:.3g}")


@cache
def _program() -> dict[str, Any]:
    """Return the names of the program in docs/how-to/onnx.md, whose sessions are made once for each file."""
    import onnxruntime

    text = (Path(__file__).parents[2] / "docs" / "how-to" / "onnx.md").read_text()
    (block,) = re.findall(r"```python\n(\"\"\"Score new.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {"__name__": "score"}
    exec(block, names)
    names["onnxruntime"] = SimpleNamespace(InferenceSession=cache(onnxruntime.InferenceSession))
    return names


def score(model: str, events: pa.Table, store: str | None) -> dict[str, np.ndarray]:
    """Return the vector of each key, as the program in docs/how-to/onnx.md computes it from new events and a store."""
    scored = _program()["score"](model, events, store)
    vectors = scored.column("embedding").combine_chunks()
    values = vectors.flatten().to_numpy().reshape(len(scored), -1)
    return dict(zip(map(str, scored.column(0).to_pylist()), values, strict=True))
