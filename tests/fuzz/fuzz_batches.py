"""Batches: a history that is given to `update` in parts, some of them twice, leads to the embedding of the whole.

A plain model keeps the events that each entity's state has read, as lists of rows, and the vectors are compared with
those of these events read at once.
"""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import draws
import numpy as np
import other_ways
import polars as pl
import workplace
from draws import chance
from outcomes import (
    ACCEPTED,
    Broken,
    Refused,
    attempt,
    check_files,
    check_finite,
    check_message,
    require,
    snapshot,
    texts,
    way,
)

import eventvec as ev
from eventvec.blocks.rows import Rows
from eventvec.dataset import last_times
from eventvec.embedding import with_moment
from eventvec.models.head import predictions_of

Row = dict[str, Any]
FORMS = ("arrow", "polars", "pandas", "reader", "parquet", "parts", "csv", "dictionaries", "data set")


@dataclass
class Model:
    """What a store has seen.

    Args:
        given: The events of each entity in the order in which they were given, late ones too.
        seen: The events of each entity in the order in which its state has read them.
        applied: The result of each batch that was applied without a name, by its content.
        named: The content and the result of each batch that has a name.
    """

    given: dict[str, list[Row]] = field(default_factory=dict)
    seen: dict[str, list[Row]] = field(default_factory=dict)
    applied: dict[str, ev.Updated] = field(default_factory=dict)
    named: dict[str, tuple[str, ev.Updated]] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)


def play(rng: Random, folder: Path) -> str:
    """Play one case in an empty folder and return its outcome."""
    kind = rng.choice(("timestamp", "timestamp", "integer", "float"))
    encoder = rng.choice(("gru", "lstm", "set", "coles", "labels"))
    run = workplace.run(kind, 0, encoder)
    history, integer_keys = _history(rng, kind), chance(rng, 0.5)
    for row in history:
        row["id"] = 770_012_345 + row["id"] * 7919 if integer_keys else workplace.KEYS[row["id"]]
    batches = _batches(rng, history)
    if encoder not in ("set", "labels") and chance(rng, 0.02):
        _in_shards(rng, run, kind, batches, folder)
        return ACCEPTED
    model, state = Model(), folder / "state.db"
    outcome = ACCEPTED
    plan = list(enumerate(batches))
    if chance(rng, 0.3):
        rng.shuffle(plan)  # some batches come late
    for place in sorted(rng.choices(range(len(plan) + 1), k=rng.choice((0, 1, 3))), reverse=True):
        plan.insert(place, rng.choice(plan[:place] or plan[:1]))  # some are given again
    modes = rng.choice((("refuse",), ("drop",), ("recompute",), ("refuse", "drop", "recompute")))
    for step, (number, rows) in enumerate(plan):
        if chance(rng, 0.05) and model.seen:
            _forget(rng, run, state, model)
        if chance(rng, 0.07):
            _refuses_a_wrong_batch(rng, run, rows, state)
            outcome = "refused"
        name = f"batch {number}" if chance(rng, 0.15) else None
        with way(encoder):
            _give(rng, run, kind, rows, state, model, rng.choice(modes), name, folder / f"step-{step}")
    return outcome


def _in_shards(rng: Random, run: ev.Model, kind: str, batches: list[list[Row]], folder: Path) -> None:
    """Give batches to a folder of state stores, some of them twice, and compare with the whole history in shards."""
    assert run.path is not None
    options: dict[str, Any] = {"shards": rng.choice((1, 2, 3)), "workers": 1}
    path, keys = folder / "events.parquet", [row["id"] for rows in batches for row in rows]
    given: list[Row] = []
    with way("shards"):
        for number, rows in enumerate(batches):
            given += rows
            _table(rows, kind).write_parquet(folder / f"{number}.parquet")
            for _ in range(rng.choice((1, 1, 2))):
                place = folder / f"z{number}"
                attempt(
                    keys, ev.update_shards, run.path, folder / f"{number}.parquet", folder / "states", place,
                    batch_id=f"batch {number}", **options,
                )  # fmt: skip
            _table(given, kind).write_parquet(path)
            whole = _vectors_of(run.embed(path))
            fresh = ev.read_embeddings(place)
            check_finite(fresh)
            expected = {key: whole[key] for key in texts(fresh.keys)}
            require(set(expected) == {str(row["id"]) for row in rows}, "updated shards have other entities")
            _check_vectors(_vectors_of(fresh), expected, "updated shards")
        attempt(keys, ev.embed_shards, run.path, path, folder / "z", **options)
        _check_vectors(_vectors_of(ev.read_embeddings(folder / "z")), whole, "shards")


def _history(rng: Random, kind: str) -> list[Row]:
    """Return events in order of time, with ties, unknown values and missing ones."""
    n, entities = rng.randint(1, 40), rng.choice((1, 2, 5, 20))
    span = rng.choice((3, n, 10 * n))  # a short span has many ties
    offsets = sorted(rng.randint(0, span) for _ in range(n))
    start = {"timestamp": 1_704_067_200, "integer": rng.choice((0, -5, 2**53 + 1)), "float": rng.choice((0.5, 1.7e9))}[
        kind
    ]
    return [
        {
            "id": rng.randrange(entities), "t": start + offset * (60 if kind == "timestamp" else 1),
            "code": rng.choice(("a", "b", "c", "other", None)),
            "amount": rng.choice((None, rng.gauss(0, 20), 0.0, -0.0, 1e30, -1e-30)),
        }
        for offset in offsets
    ]  # fmt: skip


def _batches(rng: Random, history: list[Row]) -> list[list[Row]]:
    """Return consecutive parts of a history; ties may lie in one part or in two."""
    cuts = sorted({rng.randint(1, len(history)) for _ in range(rng.choice((0, 1, 3, 6)))} | {len(history)})
    return [history[start:stop] for start, stop in zip([0, *cuts], cuts, strict=False)]


def _table(rows: list[Row], kind: str, text_keys: bool = False) -> pl.DataFrame:
    """Return rows as a table with the columns of the run."""
    frame = pl.DataFrame(rows, schema={"id": pl.Object, "t": pl.Object, "code": pl.String, "amount": pl.Float64})
    integer = not text_keys and all(isinstance(row["id"], int) for row in rows)
    ids = pl.Series(
        "id", [row["id"] if integer else str(row["id"]) for row in rows], pl.Int64 if integer else pl.String
    )
    times = pl.Series("t", [row["t"] for row in rows], pl.Float64 if kind == "float" else pl.Int64)
    times = (times * 10**6).cast(pl.Datetime("us")) if kind == "timestamp" else times
    return frame.with_columns(ids, times)


def _in_some_order(rng: Random, rows: list[Row], ties_stay: bool) -> list[Row]:
    """Return rows in random order; those of one entity and time keep theirs, if `ties_stay`."""
    order = rng.sample(range(len(rows)), len(rows))
    if ties_stay:
        groups: dict[Any, list[int]] = {}
        for place in sorted(order):
            groups.setdefault((rows[place]["id"], rows[place]["t"]), []).append(place)
        order = [groups[rows[place]["id"], rows[place]["t"]].pop(0) for place in order]
    return [rows[place] for place in order]


def _event(row: Row) -> tuple[Any, ...]:
    """Return an event as the model of the run reads it: unknown values are all the same, numbers are float32."""
    amount = pl.Series([row["amount"]], dtype=pl.Float32)[0]
    known = workplace.run().schema.categorical[0].values
    code = row["code"] if row["code"] in (*known, None) else "unknown"
    return str(row["id"]), row["t"], code, None if amount is None else amount + 0.0


def _content(rows: list[Row]) -> str:
    return repr(sorted(map(repr, (_event(row) for row in rows))))


def _give(
    rng: Random, run: ev.Model, kind: str, rows: list[Row], state: Path, model: Model, late: str, name: str | None,
    folder: Path,
) -> None:  # fmt: skip
    """Give a batch to the store, and check the result and the store against the model."""
    content = _content(rows)
    before = _applied_before(model, content, name)
    shuffled = _in_some_order(rng, rows, ties_stay=before is None)
    events = _form(rng, run, _table(shuffled, kind, text_keys=chance(rng, 0.3)), folder)
    keys = [row["id"] for row in rows]
    options: dict[str, Any] = {"late": late, "batch_id": name}
    is_late = [
        row["t"] < model.seen[str(row["id"])][-1]["t"] if model.seen.get(str(row["id"])) else False for row in rows
    ]
    touched = list(dict.fromkeys(str(row["id"]) for row, old in zip(rows, is_late, strict=True) if old))
    if late == "recompute":
        past = [row for key in touched for row in model.given[key]] or rows[:1]
        options["history"] = _table(past, kind)
    exported = (
        not run.heads and hasattr(run.encoder, "state") and before is None and not any(is_late) and chance(rng, 0.1)
    )
    if exported:
        scored = _in_onnx(run, _table(shuffled, kind), state)
    stored, files = _stored(state), snapshot(state.parent)
    try:
        updated = attempt(keys, ev.update, run, events, state, **options)
    except Refused as refusal:
        require(_stored(state) == stored, "a refused batch changed the store", refusal)
        check_files(files, state.parent, [r"state\.db(-wal|-shm)?"])
        conflict = name in model.named and before is None
        require(
            conflict or (before is None and late == "refuse" and any(is_late)),
            "a batch that can be applied is refused",
            refusal,
        )
        return
    if updated.embeddings is not None:
        check_finite(updated.embeddings)
    require(not (name in model.named and before is None), "other events were accepted under the name of another batch")
    if before is not None:
        require(not updated.applied, "a batch that was given again was applied again")
        require(_stored(state) == stored, "a batch that was given again changed the store")
        _check_equal(updated, _vectors(before), model.forgotten, "a batch that was given again", 0.0)
        return
    require(updated.applied, "a new batch was not applied")
    require(not (late == "refuse" and any(is_late)), "late events were accepted")
    require(
        updated.late == sum(is_late), "the number of late events is wrong", f"{updated.late} instead of {sum(is_late)}"
    )
    _take(model, rows, is_late, late, touched)
    model.applied[content] = updated
    if name is not None:
        model.named[name] = (content, updated)
    whole = run.read(_table([row for key in dict.fromkeys(map(str, keys)) for row in model.seen[key]], kind))
    _check_equal(updated, _of_whole(run, whole), set(), "what is read of the whole history", 1e-4)
    if exported:
        _check_vectors(scored, _vectors(updated), "an encoder in ONNX")
    counts = {key: len(model.seen[key]) for key in map(str, keys)}
    if updated.embeddings is not None:
        returned = dict(zip(texts(updated.embeddings.keys), updated.embeddings.events.tolist(), strict=True))
        require(returned == counts, "the counts of events are wrong", f"{returned} instead of {counts}")


def _in_onnx(run: ev.Model, events: pl.DataFrame, state: Path) -> dict[str, Any]:
    """Return the vectors that the program in docs/how-to/onnx.md computes from a batch and a store."""
    with way("onnx"):
        assert run.path is not None
        return other_ways.score(workplace.onnx(run.path), events.to_arrow(), str(state) if _stored(state) else None)


def _applied_before(model: Model, content: str, name: str | None) -> ev.Updated | None:
    """Return the result of the batch if it was applied before: by its name if it has one, otherwise by its content."""
    if name is not None:
        return model.named[name][1] if name in model.named and model.named[name][0] == content else None
    return model.applied.get(content)


def _take(model: Model, rows: list[Row], is_late: list[bool], late: str, recomputed: list[str]) -> None:
    """Enter a batch that was applied into the model."""
    for row, old in zip(rows, is_late, strict=True):
        key = str(row["id"])
        model.given.setdefault(key, []).append(row)
        if not (old and late == "drop"):
            model.seen.setdefault(key, []).append(row)
    if late == "recompute":
        for key in recomputed:
            model.seen[key] = sorted(
                model.given[key], key=lambda row: row["t"]
            )  # ties keep the order in which they came


def _form(rng: Random, run: ev.Model, frame: pl.DataFrame, folder: Path) -> Any:
    """Return a batch in one of the forms that `update` takes."""
    form = rng.choice(FORMS)
    if form == "dictionaries":
        return frame.to_dicts()
    if form == "data set":
        return ev.read(frame, schema=run.schema)
    return draws.source(rng, frame.to_arrow(), folder, form)()


def _of_whole(run: ev.Model, whole: ev.Dataset) -> dict[str, Any]:
    """Return the vector of each entity, or its predictions as of its last event, from its whole history."""
    if not run.heads:
        return _vectors_of(run.embed(whole))
    rows = Rows(with_moment(whole, last_times(whole.sequences)))
    (values,) = predictions_of(run.blocks, run.heads, rows)[0].values()
    return dict(zip(texts(whole.keys), values, strict=True))


def _vectors(updated: ev.Updated) -> dict[str, Any]:
    """Return the vector of each entity, or its predictions."""
    if updated.embeddings is not None:
        return _vectors_of(updated.embeddings)
    require(updated.predictions is not None, "an update returns nothing")
    table = updated.predictions
    values = np.stack([column.to_numpy() for column in table.columns[3:]], 1)
    return dict(zip(texts(table.column(0).combine_chunks()), values, strict=True))


def _vectors_of(z: ev.Embeddings) -> dict[str, Any]:
    return dict(zip(texts(z.keys), z.values, strict=True))


def _check_equal(
    updated: ev.Updated, expected: dict[str, Any], except_for: set[str], law: str, tolerance: float
) -> None:
    vectors = _vectors(updated)
    remaining = {key: vector for key, vector in vectors.items() if key not in except_for}
    _check_vectors(
        remaining, {key: vector for key, vector in expected.items() if key not in except_for}, law, tolerance
    )


def _check_vectors(vectors: dict[str, Any], expected: dict[str, Any], law: str, tolerance: float = 1e-4) -> None:
    """Check that entities have equal vectors."""
    require(vectors.keys() == expected.keys(), f"{law}: other entities")
    for key in vectors:
        other_ways.check_close(vectors[key], expected[key], law, tolerance)


def _stored(state: Path) -> list[Any]:
    """Return what a store holds, apart from the form in which it is held."""
    if not state.exists():
        return []
    with closing(sqlite3.connect(state)) as db:
        return [
            db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
            for table in ("entities", "states", "chunks", "answers", "batches", "meta")
        ]


def _forget(rng: Random, run: ev.Model, state: Path, model: Model) -> None:
    """Delete an entity from the store and the model."""
    key = rng.choice(sorted(model.seen))
    ev.forget(state, key, run.states_of)
    model.seen.pop(key)
    model.given.pop(key)
    model.forgotten.add(key)
    with closing(sqlite3.connect(state)) as db:
        require(
            not db.execute("SELECT 1 FROM entities WHERE key = ?", (key,)).fetchall(), "a forgotten key is in the store"
        )
    try:
        ev.forget(state, key, run.states_of)
    except ev.DataError as error:
        check_message(str(error), [key])
    else:
        raise Broken("an entity was forgotten twice")


def _refuses_a_wrong_batch(rng: Random, run: ev.Model, rows: list[Row], state: Path) -> None:
    """Check that a batch with something wrong in it is refused and leaves the store as it is."""
    table = _table(rows, run.schema.time_kind)
    wrong = {
        "no key": table.with_columns(
            pl.when(pl.int_range(pl.len()) == 0).then(None).otherwise(pl.col("id")).alias("id")
        ),
        "no time": table.with_columns(
            pl.when(pl.int_range(pl.len()) == 0).then(None).otherwise(pl.col("t")).alias("t")
        ),
        "infinite": table.with_columns(amount=pl.lit(math.inf)),
        "absent": table.drop(rng.choice(table.columns)),
        "empty": table[:0],
        "nested": table.with_columns(amount=pl.concat_list("amount")),
        "float key": table.with_columns(id=pl.lit(0.5)),
        "text time": table.with_columns(t=pl.lit("soon")),
        "not a table": rng.choice(([], [3], {}, 7, "absent.parquet", [{"id": 1}], [{}])),
    }
    stored, files, name = _stored(state), snapshot(state.parent), rng.choice(list(wrong))
    try:
        attempt([row["id"] for row in rows], ev.update, run, wrong[name], state)
    except Refused:
        require(_stored(state) == stored, f"a wrong batch ({name}) changed the store")
        check_files(files, state.parent, [r"state\.db(-wal|-shm)?"] if state.exists() and files else [])
    else:
        raise Broken(f"a wrong batch ({name}) was applied")
