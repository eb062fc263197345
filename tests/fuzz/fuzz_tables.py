"""Tables: each is read, embedded, written and evaluated, whatever it holds, or refused in one sentence."""

from __future__ import annotations

import dataclasses
import inspect
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import draws
import lakes
import other_ways
import pyarrow as pa
import torch
from draws import chance
from other_ways import sorted_rows
from outcomes import (
    ACCEPTED,
    Broken,
    Refused,
    attempt,
    check_files,
    check_finite,
    check_same,
    require,
    snapshot,
    texts,
    way,
)

import eventvec as ev

CANONICAL_TIES = "ties" in inspect.signature(ev.read).parameters
"""Whether `read` can break ties of key and time by content, so that tables with ties do not depend on row order too."""

WRITTEN = (
    "shuffled.*", r"z\.parquet", r"z\.db", r"z(/.*)?", r"run(/(?!\.).*)?", r"store(/[^./][^/]*)?",
    r"shards(/[^./][^/]*)*", r"encoder\.onnx",
)  # fmt: skip
"""What a case writes."""


def play(rng: Random, folder: Path) -> str:
    """Play one case in an empty folder and return its outcome."""
    table, options = draws.events(rng)
    keys = table.column(options["key"]).to_pylist() if table.column_names.count(options["key"]) == 1 else []
    form, seed = draws.form(rng), rng.randrange(1000)
    source = draws.source(Random(seed), table, folder / "events", form)
    options |= _further_options(rng, table, options, folder)
    before = snapshot(folder)
    try:
        if chance(rng, 0.01):
            _is_refused(keys, rng.choice(lakes.WRONG), options)
        if chance(rng, 0.06):
            other_ways.check_store(rng, source, options, folder, keys)
        with way(form):
            data = attempt(keys, ev.read, source(), **options)
        if form in lakes.FORMS and isinstance(address := source(), str):
            other_ways.check_database(address, options, data, keys)
        encoder = small_encoder(data.schema)
        z = attempt(keys, ev.embed, encoder, data)
        check_finite(z)
        _does_not_depend_on_the_order_of_rows(rng, seed, table, folder, form, options, data, encoder, z, keys)
        _is_read_again_by_its_schema(source, options, data, encoder, z, keys)
        with suppress(Refused):  # the table was accepted
            _further_use(rng, table, folder, form, source, data, z, keys, options)
    finally:
        check_files(before, folder, WRITTEN)
    return ACCEPTED


def _is_refused(keys: list[Any], address: str, options: dict[str, Any]) -> None:
    """Check that a wrong address is refused in a sentence."""
    with way("wrong address"), suppress(Refused):
        attempt(keys, ev.read, address, **options)
        raise Broken("a wrong address is accepted", address)


def small_encoder(schema: ev.Schema) -> torch.nn.Module:
    """Return a small encoder, whose weights depend on the shape of the schema only."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ev.encoders.GRU(ev.encoders.EventEncoder(schema), dim=4).eval()


def _further_options(rng: Random, table: pa.Table, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return options that list columns, cut histories, add static columns or are wrong."""
    further: dict[str, Any] = {}
    names = table.column_names
    others = [name for name in names if name not in (options["key"], options["time"])]
    if chance(rng, 0.2):
        listed = rng.sample(others, rng.randint(0, len(others)))
        cut = rng.randint(0, len(listed))
        further |= {"categorical": listed[:cut], "numeric": listed[cut:]}
    if chance(rng, 0.1):
        further["until"] = rng.choice(
            ("2024-01-15", "2024-01-15T10:00+02:00", 100, 3.5, "soon", -1, "2024-13-01", 2**70, float("nan"))
        )
    if chance(rng, 0.1):
        further["holdout"] = rng.choice((0.3, 0.3, 0.5, 0.5, 0.999, 1.0, 0, -1, float("nan")))
        further["holdout_seed"] = rng.choice((0, 7, 2**40))
    if chance(rng, 0.1):
        further["fitting"] = ev.Fitting(
            min_count=rng.choice((1, 3)), max_values=rng.choice((1, 2, 100)), log=chance(rng, 0.5)
        )
    if chance(rng, 0.05):
        further["key_as"] = rng.choice(draws.NAMES)
    lists = [name for name in others if pa.types.is_list(table.field(names.index(name)).type)]
    if lists and chance(rng, 0.7):
        further[rng.choice(("summed", "explode"))] = rng.sample(lists, rng.randint(1, len(lists)))
    if others and chance(rng, 0.05):
        further["hashed"] = [rng.choice(others)]
    if others and chance(rng, 0.05):
        further["order"] = rng.choice(others)
    if chance(rng, 0.05):
        further["ties"] = rng.choice(("canonical", "file", "x"))
    if chance(rng, 0.25) and names.count(options["key"]) == 1 and names.count(options["time"]) == 1:
        key, time = (table.column(options[role]).combine_chunks() for role in ("key", "time"))
        about = draws.about_entities(rng, key, options["key"], time)
        held = draws.source(rng, about, folder / "about", draws.form(rng))()
        if isinstance(held, pa.RecordBatchReader):  # a stream can be read only once
            held = about
        if chance(rng, 0.5):
            further |= {"cutoffs": held, "cutoff_column": rng.choice(("cutoff", "cutoff", "label"))}
        else:
            further["static"] = held
            if chance(rng, 0.3):
                kinds = ("categorical", "numeric", "text", "vector", "number")
                chosen = rng.sample(about.column_names, rng.randint(0, len(about.column_names)))
                further["static_columns"] = {name: rng.choice(kinds) for name in chosen}
    if chance(rng, 0.08):  # wrong roles
        role = rng.choice(("key", "time"))
        further[role] = rng.choice([*names, "absent", None, ""])
    return further


def _does_not_depend_on_the_order_of_rows(
    rng: Random, seed: int, table: pa.Table, folder: Path, form: str, options: dict[str, Any], data: ev.Dataset,
    encoder: torch.nn.Module, z: ev.Embeddings, keys: list[Any],
) -> None:  # fmt: skip
    """Check that the table with its rows in another order is read to the same schema and the same vectors."""
    order = list(range(len(table)))
    rng.shuffle(order)
    shuffled = draws.source(Random(seed), draws.permuted(table, order), folder / "shuffled", form)
    ties = {}
    if _has_ties(data):
        if not CANONICAL_TIES:
            return
        ties = {"ties": "canonical"}
        data = attempt(
            keys, ev.read, draws.source(Random(seed), table, folder / "shuffled-ties", form)(), **{**options, **ties}
        )
        z = attempt(keys, ev.embed, encoder, data)
    try:
        again = attempt(keys, ev.read, shuffled(), **{**options, **ties})
    except Exception as error:
        raise Broken("a table is accepted, and with its rows in another order it is not", repr(error)) from error
    require(_rounded(again.schema) == _rounded(data.schema), "the schema depends on the order of rows")
    check_same(z, ev.embed(encoder, again), "a table with its rows in another order")


def _has_ties(data: ev.Dataset) -> bool:
    x = data.sequences
    pairs = list(zip(x.rows().tolist(), x.values("time").tolist(), strict=True))
    return len(set(pairs)) < len(pairs)


def _rounded(schema: ev.Schema) -> Any:
    """Return the schema as plain values, with numbers that do not depend on the order of summation."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.5g}")
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, list | tuple) else value

    return plain(dataclasses.asdict(schema))


def _is_read_again_by_its_schema(
    source: Any, options: dict[str, Any], data: ev.Dataset, encoder: torch.nn.Module, z: ev.Embeddings, keys: list[Any]
) -> None:
    """Check that the table to which a schema was fitted is read by that schema to the same vectors."""
    applicable = ("until", "cutoffs", "cutoff_column", "holdout", "holdout_seed", "time_format", "key_as")
    again = {name: value for name, value in options.items() if name in applicable}
    if "static" in options and data.schema.static:
        again["static"] = options["static"]
    try:
        scored = attempt(keys, ev.read, source(), schema=data.schema, **again)
    except Exception as error:
        raise Broken("a table is refused by the schema that was fitted to it", repr(error)) from error
    check_same(z, ev.embed(encoder, scored), "a table read by the schema that was fitted to it")
    require(scored.fingerprint == data.fingerprint, "a table read by its schema has another fingerprint")


def _further_use(
    rng: Random,
    table: pa.Table,
    folder: Path,
    form: str,
    source: Any,
    data: ev.Dataset,
    z: ev.Embeddings,
    keys: list[Any],
    options: dict[str, Any],
) -> None:
    """Write, train, export or evaluate."""
    uses = ["write", "write", "fit", "evaluate"]
    events = source()
    uses += ["supervised"] if data.schema.static else []
    uses += ["shards"] if isinstance(events, str | Path) and "csv" not in form else []
    use = rng.choice(uses)
    if use == "write":
        _write(rng, folder, z, keys)
    elif use == "shards":
        run = attempt(
            keys, ev.fit, data, method={"method": {"name": "ocp"}, "encoder": {"dim": 4}}, epochs=1, out=folder / "run"
        )
        other_ways.check_shards(rng, run, events, options, folder, keys)
    elif use in ("fit", "supervised"):
        _fit(rng, folder, data, keys, use == "supervised")
    else:
        key = table.column(options["key"]).combine_chunks()
        labels = draws.about_entities(rng, key, options["key"])
        further: dict[str, Any] = {}
        if z.moments is not None and chance(rng, 0.7):
            labels, further = options["cutoffs"], {"label_time": options["cutoff_column"]}
            if chance(rng, 0.5):
                further |= {"split_at": rng.choice(z.moments.tolist()), "both_sides": chance(rng, 0.5)}
            if chance(rng, 0.5):
                further |= {"earlier_labels": rng.choice((0, 1, "1d", "1mo"))}
        model = rng.choice(("logistic_regression", "knn", "lightgbm"))
        aggregates = data if chance(rng, 0.5) else None
        attempt(keys, ev.evaluate, z, aggregates, labels, "label", folds=rng.choice((2, 3)), models=[model], **further)
        require(len(texts(z.keys)) == len(z), "keys and rows differ in number")


def _fit(rng: Random, folder: Path, data: ev.Dataset, keys: list[Any], supervised: bool) -> None:
    """Train a run, and check what it returns for its training data."""
    names = ("ocp", "coles", "rtd", "cpc", "pcl", "slice_pairs", "next_event")
    method: dict[str, Any] = {"name": rng.choice(names)}
    if supervised:
        method = {"name": "supervised", "label": data.schema.static[0].name}
    tables = {"method": method, "encoder": {"dim": 4}}
    out = folder / "run" if chance(rng, 0.5) else None
    run = attempt(keys, ev.fit, data, method=tables, epochs=1, batch_size=8, out=out)
    vectors = attempt(keys, run.embed, data)
    check_finite(vectors)
    if chance(rng, 0.4):
        other_ways.check_onnx(run, data, folder, keys)
    if run.path:
        check_same(vectors, attempt(keys, ev.load(run.path).embed, data), "a run that was loaded", 1e-6)
    if method["name"] == "next_event":
        surprise = attempt(keys, ev.surprise, run, data)
        firsts = int((data.sequences.lengths > 0).sum())
        require(len(surprise) == data.sequences.total, "the table of surprise lacks events")
        require(surprise["surprise"].null_count == firsts, "events after the first have no surprise")


def _write(rng: Random, folder: Path, z: ev.Embeddings, keys: list[Any]) -> None:
    """Write embeddings to a file or a database, and read them; in a database, also merge them with themselves."""
    form = rng.choices(("parquet", "duckdb", "delta"), (20, 1, 3))[0]
    path: Any = folder / "z.parquet"
    if form == "duckdb":
        path = f"duckdb://{folder / 'z.db'}#{lakes.quoted(rng.choice(lakes.NAMES))}"
    elif form == "delta":
        path = f"delta://{folder / 'z'}"
    with way(f"write {form}"):
        attempt(keys, ev.write, path, z, wide=chance(rng, 0.3))
        for _ in range(2 if form != "parquet" else 1):
            stored = sorted_rows(attempt(keys, ev.read_embeddings, path))
            check_same(sorted_rows(z), stored, f"embeddings that were written to {form} and read", 0.0)
            same = stored.events.tolist() == sorted_rows(z).events.tolist()
            require(same, f"embeddings that were written to {form} and read have other counts")
            if form != "parquet":
                attempt(keys, ev.write, path, z, merge=True)
