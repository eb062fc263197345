"""What onnxruntime computes from a file is what the encoder computes: histories, steps, and states of the store."""

from __future__ import annotations

import json
import math
import re
import runpy
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import polars as pl
import pyarrow as pa
import pytest
import torch
from benchmarks.without_torch import inputs

import eventvec as ev
import make
import updates
from commands import answer, invoke
from eventvec.blocks.untrained import EventBlock
from eventvec.encoders import EventEncoder, Joined, PointEncoder, RunningHandcrafted, SetEncoder
from eventvec.encoders.recurrent import Recurrent
from eventvec.exporting.graph import Graph
from eventvec.methods import Supervised
from eventvec.sequences import Sequences

SCRIPT = Path(__file__).parents[2] / "docs" / "how-to" / "onnx.md"
READ_OUTS = (("last",), ("mean",), ("max", "last", "mean"))


def loaded(run: ev.Model, folder: Path) -> Any:
    ev.to_onnx(run, folder / "encoder.onnx")
    return onnxruntime.InferenceSession(folder / "encoder.onnx")


def prefixes(x: Sequences, seed: int) -> Sequences:
    """Return the beginnings of rows, some of them empty and some of one event."""
    rng = np.random.default_rng(seed)
    lengths = torch.from_numpy(rng.integers(0, x.lengths.numpy() + 1))
    lengths[:2] = torch.tensor([0, 1])
    return x.slice(torch.arange(len(x)), torch.zeros_like(lengths), lengths)


def check_states(run: ev.Model, by_graph: Any, by_torch: Any) -> None:
    """Check float32 numbers, and the float64 numbers that three of them add up to.

    The last bits of a float64 number may differ, since torch's square root depends on the CPU, and with them the
    third of its float32 numbers.
    """
    parts = run.encoder.encoders if isinstance(run.encoder, Joined) else {"learned": run.encoder}
    places = np.cumsum([part.stored_dim for part in parts.values()])[:-1]
    for part, *both in zip(parts.values(), np.split(by_graph, places, 1), np.split(by_torch, places, 1), strict=True):
        if isinstance(part, Recurrent):
            assert np.allclose(*both, rtol=1e-5, atol=1e-5)
        else:
            sums = [sum(np.split(pieces.astype(np.float64), 3, 1)[::-1]) for pieces in both]
            assert np.allclose(*sums, rtol=1e-15, atol=1e-11)


def check(run: ev.Model, x: Sequences, folder: Path) -> None:
    """Check embeddings and states of beginnings of rows, and those after the rest of each row."""
    session, encoder = loaded(run, folder), run.encoder
    begun = prefixes(x, seed=len(x))
    rest = x.slice(torch.arange(len(x)), begun.lengths, x.lengths - begun.lengths)
    embedding, *outputs = session.run(None, inputs(session, begun))
    with torch.inference_mode():
        expected, state = encoder(begun).numpy(), encoder.state(begun).numpy()
        assert np.abs(embedding - expected).max() <= 1e-5 * max(1, np.abs(expected).max())
        check_states(run, outputs[0], state)
        assert (outputs[1] == begun.lengths.numpy()).all()
        embedding, after = session.run(["embedding", "new_state"], inputs(session, rest, outputs))
        check_states(run, after, encoder.state(rest, torch.from_numpy(outputs[0])).numpy())
        whole = encoder(x).numpy()
    assert np.abs(embedding - whole).max() <= 1e-5 * max(1, np.abs(whole).max())


def test_the_file_needs_no_new_onnxruntime(tmp_path: Path) -> None:
    ev.to_onnx(updates.untrained(), tmp_path / "encoder.onnx")
    model = onnx.load(tmp_path / "encoder.onnx")
    assert (model.opset_import[0].version, model.ir_version) == (18, 8)
    assert not model.opset_import[1:]


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("read_out", READ_OUTS, ids=str)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_cells_and_read_outs(cell: str, read_out: tuple[str, ...], layers: int, tmp_path: Path) -> None:
    run = updates.untrained(cell, layers)
    run.method.encoder = make.encoder(cell, layers=layers, read_out=read_out)
    check(run, ev.read(updates.table(), schema=run.schema).sequences, tmp_path)


def with_weights(schema: ev.Schema, **options: Any) -> ev.Model:
    """Return a run of a small encoder of events by a schema, with random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        encoder = Recurrent(EventEncoder(schema, **options), dim=5).eval()
        for weight in encoder.parameters():
            torch.nn.init.normal_(weight, std=0.4)
    return updates.with_method(updates.untrained(), updates.Method(encoder), schema=schema)


@pytest.mark.parametrize(
    "options",
    [{"time": ()}, {"time": ("gap",), "batch_norm": False}, {"bins": True}, {"mixing": 6}, {"bins": True, "mixing": 3}],
    ids=str,
)
def test_event_encoders(options: dict[str, Any], tmp_path: Path) -> None:
    schema = make.schema()
    schema = replace(schema, numeric=(replace(schema.numeric[0], edges=(-5.0, 0.0, 3.0)),))
    schema = replace(schema, gap=replace(schema.gap, edges=(60.0,)))
    check(with_weights(schema, **options), ev.read(updates.table(), schema=schema).sequences, tmp_path)


@pytest.mark.parametrize("kind", ["integer", "float"])
def test_times_that_are_numbers(kind: str, tmp_path: Path) -> None:
    events = updates.table().with_columns(
        pl.col("at").dt.epoch("s").cast(pl.Int64 if kind == "integer" else pl.Float64)
    )
    data = ev.read(events, key="id", time="at", categorical=["code"], numeric=["amount"])
    assert data.schema.time_kind == kind
    check(ev.fit(data, method="coles", epochs=1), data.sequences, tmp_path)


@pytest.mark.parametrize(("components", "within"), [(None, 0), (7, 0), (None, 2), (7, 3)])
def test_the_parts_beside_the_learned_one(components: int | None, within: int, tmp_path: Path) -> None:
    """The state of features is kept as three float32 numbers for each float64 number, as the store has it."""
    data = ev.read(updates.table(events=300), schema=make.schema())
    run = updates.with_beside(updates.untrained(), ["timing"], data.sequences)
    sizes = {"values": 3, "frequent": 2, "within": within, "components": components}
    block = EventBlock.of("aggregates", data.schema, sizes, data.sequences)
    run = replace(run, blocks={**run.blocks, "aggregates": block}, vector=(*run.vector, "aggregates"))
    check(run, data.sequences, tmp_path)


@pytest.mark.parametrize("options", [(0, 0, 0), (50, 0, 1), (2, 20, 5)], ids=str)
@pytest.mark.parametrize("roles", [{}, {"categorical": ["code"]}, {"numeric": ["amount"]}], ids=str)
def test_features_alone(roles: dict[str, list[str]], options: tuple[int, int, int], tmp_path: Path) -> None:
    """Also without values to count, and without columns of a kind."""
    data = ev.read(updates.table(), key="id", time="at", **roles)
    sizes = dict(zip(("values", "frequent", "within"), options, strict=True))
    block = EventBlock.of("aggregates", data.schema, sizes, data.sequences)
    run = ev.Model(data.schema, {"aggregates": block}, updates.untrained().info, ("aggregates",))
    check(run, data.sequences, tmp_path)


def test_a_state_holds_sums_beyond_the_range_of_float32(tmp_path: Path) -> None:
    events = pl.DataFrame({"id": [1] * 6, "at": range(6), "code": ["a"] * 6, "amount": [3e38] * 6})
    data = ev.read(events, key="id", time="at", categorical=["code"], numeric=["amount"])
    encoder = RunningHandcrafted(data.schema)
    run = updates.with_method(updates.untrained(), updates.Method(encoder), schema=data.schema)
    session, row, outputs = loaded(run, tmp_path), torch.tensor([0]), None
    for first in (0, 2, 4):
        part = data.sequences.slice(row, torch.tensor([first]), torch.tensor([2]))
        embedding, *outputs = session.run(None, inputs(session, part, outputs))
    assert np.isfinite(outputs[0]).all()
    assert np.allclose(outputs[0], encoder.state(data.sequences).numpy(), rtol=1e-5)
    assert np.allclose(embedding, encoder(data.sequences).numpy(), rtol=1e-6)


def test_numbers_near_0_have_exact_logarithms(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    events = pl.DataFrame({"id": [1, 2] * 20, "at": range(40), "amount": rng.uniform(1e-17, 8e-17, 40)})
    data = ev.read(events, key="id", time="at", numeric=["amount"], fitting=ev.Fitting(log=True))
    check(ev.fit(data, method="ocp", epochs=1), data.sequences, tmp_path)


def test_gaps_beyond_2_to_53_are_exact(tmp_path: Path) -> None:
    data = ev.read(pl.DataFrame({"id": [1] * 4, "at": [2**53 + each for each in (1, 36, 37, 98)]}), key="id", time="at")
    encoder, row = RunningHandcrafted(data.schema), torch.tensor([0])
    session, outputs = (
        loaded(updates.with_method(updates.untrained(), updates.Method(encoder), schema=data.schema), tmp_path),
        None,
    )
    for first in range(4):
        part = data.sequences.slice(row, torch.tensor([first]), torch.tensor([1]))
        embedding, *outputs = session.run(None, inputs(session, part, outputs))
    np.testing.assert_allclose(embedding, encoder(data.sequences).numpy(), rtol=1e-6)


def test_features_of_events_far_in_time_are_as_exact_as_float64(tmp_path: Path) -> None:
    events = pl.DataFrame({"id": [1, 1, 1], "at": [2**50, 2**50 + 3, 2**50 + 4], "amount": [1e7, 1e7 + 1, 1e7 + 2]})
    data = ev.read(events, key="id", time="at", numeric=["amount"], fitting=ev.Fitting(log=False))
    encoder = RunningHandcrafted(data.schema)
    run = updates.with_method(updates.untrained(), updates.Method(encoder), schema=data.schema)
    session, x, row = loaded(run, tmp_path), data.sequences, torch.tensor([0])
    begun = session.run(None, inputs(session, x.slice(row, row, torch.tensor([2]))))[1:]
    features = session.run(None, inputs(session, x.slice(row, torch.tensor([2]), torch.tensor([1])), begun))[0][0]
    named = dict(zip(encoder.names, features.tolist(), strict=True))
    assert named["time: span"] == pytest.approx(np.log(5))
    assert named["amount: std"] == pytest.approx(1)


def test_list_columns_and_hashed_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    events = pl.DataFrame(
        {
            "id": rng.integers(0, 9, 80),
            "at": rng.integers(0, 50, 80),
            "shop": rng.integers(0, 30, 80),
            "goods": [[int(v) for v in rng.integers(0, 6, rng.integers(0, 4))] for _ in range(80)],
        }
    )
    data = ev.read(events, key="id", time="at", hashed=["shop"], summed=["goods"], fitting=ev.Fitting(buckets=20))
    run = ev.fit(data, method={"method": {"name": "ocp"}, "encoder": {"name": "lstm", "dim": 6}}, epochs=1)
    check(run, data.sequences, tmp_path)
    nodes = onnx.load(tmp_path / "encoder.onnx").graph.node
    assert not [node for node in nodes if node.op_type == "ScatterND"]  # its sums are wrong by several threads


def test_the_number_of_operators(tmp_path: Path) -> None:
    """A GRU with the default parts has at most 560, and each further column adds few."""
    rng, counts = np.random.default_rng(0), []
    for columns in (1, 4):
        names = [f"{kind}{i}" for i in range(columns) for kind in ("code", "number")]
        drawn = {name: rng.integers(0, 9, 60) if name[0] == "c" else rng.normal(size=60) for name in names}
        events = pl.DataFrame({"id": rng.integers(0, 5, 60), "at": range(60), **drawn})
        data = ev.read(events, key="id", time="at", categorical=names[::2], numeric=names[1::2])
        run = ev.fit(data, method="coles", epochs=1)
        assert run.encoder.parts.keys() == {"learned", "timing", "aggregates"}
        check(run, data.sequences, tmp_path)
        counts.append(len(onnx.load(tmp_path / "encoder.onnx").graph.node))
    assert counts[0] <= 560
    assert counts[1] - counts[0] <= 3 * 20, counts  # for a column of codes and one of numbers


def test_equal_operators_are_there_once_and_unused_ones_are_left_out() -> None:
    graph = Graph()
    a = graph.input("a", np.float32, "n")
    unused = (a * 3.0).op("Exp")
    graph.output("b", (a + 1.0) * (a + 1.0), "n")
    model = onnx.load_from_string(graph.model({}))
    assert [node.op_type for node in model.graph.node] == ["Add", "Mul", "Identity"]
    assert len(model.graph.initializer) == 1
    assert unused.name not in {name for node in model.graph.node for name in node.output}


def test_rows_without_events(tmp_path: Path) -> None:
    run = updates.untrained()
    session = loaded(run, tmp_path)
    x = ev.read(updates.table(), schema=run.schema).sequences
    empty = x.slice(torch.arange(3), torch.zeros(3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64))
    embedding, state, seen, _ = session.run(None, inputs(session, empty))
    assert np.abs(embedding - run.encoder(empty).detach().numpy()).max() <= 1e-6
    again = session.run(None, inputs(session, empty, [state, seen + 5, np.full(3, 10**15)]))
    assert (again[1] == state).all()  # a state without new events stays as it is
    assert (again[3] == 10**15).all()


def test_the_state_of_a_store_is_continued(tmp_path: Path) -> None:
    """A single event after the stored state gives what `update` gives."""
    events = updates.table(events=200)
    run = updates.untrained("gru", layers=2)
    run.method.encoder = make.encoder("gru", layers=2, read_out=("last", "mean", "max"))
    session, about = loaded(run, tmp_path), ev.to_onnx(run, tmp_path / "encoder.onnx")
    last = events.group_by("id").agg(pl.col("at").max())
    new = events.join(last, on=["id", "at"]).unique("id", keep="last", maintain_order=True).sort("id")
    old = events.join(new, on=["id", "at"], how="anti")
    ev.update(run, old, tmp_path / "state.db")
    with sqlite3.connect(tmp_path / "state.db") as db:
        query = "SELECT key, state, events, last_time FROM entities ORDER BY key"
        stored = {key: rest for key, *rest in db.execute(query)}
    x = ev.read(new, schema=run.schema)
    rows = [stored[str(key)] for key in x.keys.to_pylist()]
    before = [
        np.stack([np.frombuffer(state, "<f4") for state, _, _ in rows]),
        np.array([seen for _, seen, _ in rows]),
        np.array([time for *_, time in rows]),
    ]
    assert about["stored_dim"] == before[0].shape[1]
    embedding = session.run(None, inputs(session, x.sequences, before))[0]
    updated = ev.update(run, new, tmp_path / "state.db")
    assert updated.embeddings.keys.to_pylist() == x.keys.to_pylist()
    assert np.abs(embedding - updated.embeddings.values).max() <= 1e-5


def script(folder: Path) -> Path:
    """Return the program on the page, as a file."""
    program = re.search(r"^```python\n(.*?)^```", SCRIPT.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert program
    (folder / "score.py").write_text(program[1])
    return folder / "score.py"


def fourth(column: str, value: float | None) -> pl.Expr:
    """Return a column with another value in the fourth row."""
    return pl.when(pl.int_range(pl.len()) == 3).then(value).otherwise(pl.col(column)).alias(column)


def test_the_program_on_the_page_scores_without_torch(tmp_path: Path) -> None:
    """On real flights: whole histories, and the flights of a month after the states of the months before."""
    flights, _ = ev.datasets.flights_frames()
    flights = flights.filter(pl.col("tailnum").rank("dense") <= 120)
    past = flights["time"].dt.month() < 12
    columns = {"categorical": ["carrier", "cancelled"], "hashed": ["dest"], "numeric": ["distance", "air_time"]}
    run = ev.fit(ev.read(flights, key="tailnum", time="time", **columns), method="coles", epochs=1)
    ev.to_onnx(run, tmp_path / "encoder.onnx")
    ev.update(run, flights.filter(past), tmp_path / "state.db")
    flights.write_parquet(tmp_path / "all.parquet")
    flights.filter(~past).write_parquet(tmp_path / "new.parquet")
    program = (
        "import runpy, sys\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "assert not {'torch', 'eventvec', 'polars'} & sys.modules.keys()\n"
    )
    for arguments in (["all.parquet", "z.parquet"], ["new.parquet", "fresh.parquet", "--state", "state.db"]):
        given = [str(script(tmp_path)), "encoder.onnx", *arguments]
        code = f"import sys; sys.argv = {given!r}\n{program}"
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    z, fresh = pl.read_parquet(tmp_path / "z.parquet"), pl.read_parquet(tmp_path / "fresh.parquet")
    expected = run.embed(flights)
    assert z["tailnum"].to_list() == expected.keys.to_pylist()
    assert np.abs(z["embedding"].to_numpy() - expected.values).max() <= 1e-5
    updated = ev.update(run, flights.filter(~past), tmp_path / "state.db").embeddings
    assert fresh["tailnum"].to_list() == updated.keys.to_pylist()
    assert np.abs(fresh["embedding"].to_numpy() - updated.values).max() <= 1e-5


def test_the_program_refuses_the_store_of_another_model_and_late_events(tmp_path: Path) -> None:
    events, run = updates.table(), updates.untrained()
    ev.to_onnx(run, tmp_path / "encoder.onnx")
    ev.update(run, events, tmp_path / "state.db")
    ev.update(updates.untrained(width=3), events, tmp_path / "other.db")
    events.head(5).write_parquet(tmp_path / "late.parquet")
    for store, sentence in (("state.db", "older than those"), ("other.db", "belongs to another model")):
        command = [sys.executable, script(tmp_path), "encoder.onnx", "late.parquet", "z.parquet", "--state", store]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 1
        assert sentence in result.stderr
    assert not (tmp_path / "z.parquet").exists()


WRONG: dict[str, tuple[str, str, pl.Expr]] = {
    "key": ("timestamp", "missing value", fourth("id", None)),
    "float key": ("timestamp", "cannot be the key", pl.col("id").cast(pl.Float64)),
    "time": ("timestamp", "missing value", fourth("at", None)),
    "number": ("timestamp", "infinite number", fourth("amount", math.inf)),
    "negative number": ("timestamp", "infinite number", fourth("amount", -math.inf)),
    "large number": ("timestamp", "infinite number", fourth("amount", 1e39)),
    "code": ("timestamp", "infinite number", fourth("number", math.inf).alias("code")),
    "order": ("timestamp", "missing value", fourth("number", math.nan).alias("row")),
    "NaN as time": ("float", "missing value", fourth("number", math.nan).alias("at")),
    "infinite time": ("float", "infinite time|beyond", fourth("number", math.inf).alias("at")),
    "late float": ("float", "beyond", fourth("number", 1e39).alias("at")),
    "late integer": ("integer", "beyond", fourth("row", 2**62).alias("at")),
    "numbers as timestamps": ("timestamp", "holds .* values", pl.col("row").alias("at")),
    "timestamps as numbers": ("integer", "holds .* values", pl.col("at")),
}


def program_and_run(kind: str, folder: Path) -> tuple[Callable[[pl.DataFrame], pa.Table], ev.Model, pl.DataFrame]:
    """Return the program's function of events, the run that it scores with, and events that both accept."""
    run = with_weights(replace(make.schema(), time_kind=kind, order="row"))
    ev.to_onnx(run, folder / "encoder.onnx")
    score = runpy.run_path(str(script(folder)))["score"]
    events = updates.table().with_row_index("row").with_columns(pl.col("row").cast(pl.Int64), number=pl.lit(1.0))
    return lambda table: score(folder / "encoder.onnx", table.to_arrow()), run, events


@pytest.mark.parametrize(("kind", "message", "change"), WRONG.values(), ids=WRONG)
def test_the_program_refuses_what_the_package_refuses(kind: str, message: str, change: pl.Expr, tmp_path: Path) -> None:
    score, run, events = program_and_run(kind, tmp_path)
    events = events.with_columns(change)
    with pytest.raises(ev.DataError, match=message):
        run.embed(events)
    with pytest.raises(SystemExit, match=message):
        score(events)


def test_the_program_predicts_labels_from_whole_histories(tmp_path: Path) -> None:
    run = updates.untrained("transformer")
    method = Supervised(run.method.encoder, run.schema, ("kind", "level")).eval()
    run = updates.with_method(run, method, info={**run.info, "temperatures": {"kind": 3.0}})
    ev.to_onnx(run, tmp_path / "encoder.onnx")
    score, events = runpy.run_path(str(script(tmp_path)))["score"], updates.table()
    scored, predicted = score(tmp_path / "encoder.onnx", events.to_arrow()), ev.predict(run, events)
    assert scored.column_names == ["id", "embedding", "prediction.kind", "prediction.level"]
    assert scored["id"].to_pylist() == predicted["id"].to_pylist()
    assert np.abs(np.stack(scored["embedding"].to_numpy()) - run.embed(events).values).max() <= 1e-5
    probabilities = np.stack([predicted[f"kind_p_k{i}"].to_numpy() for i in range(3)], 1)
    assert np.abs(np.stack(scored["prediction.kind"].to_numpy()) - probabilities).max() <= 1e-5
    assert np.abs(scored["prediction.level"].to_numpy() - predicted["level_prediction"].to_numpy()).max() <= 1e-4
    with pytest.raises(SystemExit, match="has no states; leave out --state"):
        score(tmp_path / "encoder.onnx", events.to_arrow(), "state.db")


def test_the_program_refuses_a_table_without_rows(tmp_path: Path) -> None:
    score, run, events = program_and_run("timestamp", tmp_path)
    for function, error in ((run.embed, ev.DataError), (score, SystemExit)):
        with pytest.raises(error, match="the table has no rows; at least one event is needed"):
            function(events.head(0))


@pytest.mark.parametrize("kind", ["float", "timestamp"])
def test_the_program_reads_nan_as_missing_and_whole_numbers_as_float_times(kind: str, tmp_path: Path) -> None:
    score, run, events = program_and_run(kind, tmp_path)
    events = events.with_columns(fourth("number", math.nan).alias("code"), fourth("amount", math.nan))
    events = events.with_columns(pl.col("row").alias("at")) if kind == "float" else events
    vectors = np.stack(score(events)["embedding"].to_numpy())
    assert np.abs(vectors - run.embed(events).values).max() <= 1e-5


def test_what_cannot_be_exported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, run = tmp_path / "encoder.onnx", updates.untrained()
    data = ev.read(updates.table(), schema=run.schema)
    for part in ("codes", "convolutions"):
        with pytest.raises(ev.ConfigError, match=f"ONNX files have no {part.capitalize()}; accepted: .* gru, lstm"):
            ev.to_onnx(updates.with_beside(run, [part], data.sequences), path)
    points = SetEncoder(PointEncoder(), dim=8)
    with pytest.raises(ev.ConfigError, match="ONNX has events that EventEncoder reads, got PointEncoder"):
        ev.to_onnx(updates.with_method(run, updates.Method(points)), path)
    path.write_text("dear diary")
    with pytest.raises(ev.ConfigError, match="was not written by eventvec"):
        ev.to_onnx(run, path)
    ev.to_onnx(run, path, overwrite=True)
    ev.to_onnx(run, path)  # its own file
    before = path.read_bytes()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ev.ConfigError, match=r"pip install 'eventvec\[onnx\]'"):
        ev.to_onnx(run, path)
    assert path.read_bytes() == before


def test_texts_are_refused() -> None:
    encoder = make.encoder("gru")
    encoder.events.texts = "a language model"
    encoder.events.schema = replace(encoder.events.schema, texts=(ev.schema.Text("note"),))
    with pytest.raises(ev.ConfigError, match="column 'note' of the events holds texts"):
        ev.to_onnx(updates.with_method(updates.untrained(), updates.Method(encoder)), "never.onnx")


def test_the_command(tmp_path: Path) -> None:
    data = ev.read(updates.table(), key="id", time="at", categorical=["code"], numeric=["amount"])
    ev.fit(data, method="coles", epochs=1, out=tmp_path / "run")
    about = answer("export", tmp_path / "run", "-o", tmp_path / "out" / "encoder.onnx")
    entry = onnx.load(tmp_path / "out" / "encoder.onnx").metadata_props[0]
    assert (entry.key, json.loads(entry.value)) == ("eventvec", about)
    assert {"learned", "timing", "aggregates"} == about["parts"].keys()
    assert about["stored_dim"] > 0
    assert answer("export", tmp_path / "run", "-o", tmp_path / "whole.onnx", "--no-states")["stored_dim"] == 0
    shown = invoke("export", tmp_path / "run", "-o", tmp_path / "out" / "encoder.onnx")
    assert shown.exit_code == 0
    assert "numbers per vector" in shown.stdout
    assert invoke("export", tmp_path / "run", "-o", tmp_path / "run" / "encoder.onnx").exit_code == 2
    assert not (tmp_path / "run" / "encoder.onnx").exists()
