"""The comparison with pytorch-lifestream: our side alone in its process, and the messages without the other side."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from benchmarks.peer import comparisons, ours, shared_inputs
from benchmarks.peer.comparisons import Row
from benchmarks.peer.worker import Worker


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return shared_inputs.write(shared_inputs.narrow(8, 60), tmp_path_factory.mktemp("peer") / "narrow.parquet")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker("ours", Path(sys.executable), threads=1) as side:
        yield side


TASKS = [
    ("preprocessing", {}), ("plain", {}), ("sampling", {"entities": 4}),
    ("training", {"entities": 4, "hidden": 4, "precision": "float32"}),
    ("training", {"entities": 4, "hidden": 4, "precision": "bfloat16"}),
    ("embedding", {"entities": 4, "hidden": 4, "precision": "bfloat16"}),
]  # fmt: skip
TASKS = [(name, options) for name, options in TASKS if options.get("precision", "float32") in comparisons.OURS]


@pytest.mark.parametrize(("name", "options"), TASKS)
def test_each_task_runs_in_its_process_and_returns_its_seconds(worker: Worker, path: str, name: str, options: Row):
    assert 0 < worker.seconds(name, 2, path=path, **options) < math.inf


def test_a_failure_in_the_process_is_raised_here(worker: Worker, path: str):
    assert worker.seconds("loss", 1, rows=20, dim=4) > 0
    with pytest.raises(RuntimeError, match=r"ours failed at .*sampling(?s:.*)absent\.parquet"):
        worker.seconds("sampling", 1, path="absent.parquet", entities=4)
    assert worker.seconds("loss", 1, rows=20, dim=4) > 0  # the process still answers


def test_windows_and_vectors_are_the_same_at_each_call(path: str):
    first, second = shared_inputs.windows(8, 60), shared_inputs.windows(8, 60)
    for x, y in zip(first, second, strict=True):
        np.testing.assert_array_equal(x, y)
    assert (first.length >= shared_inputs.SHORTEST).all()
    assert (first.offset + first.length <= 60).all()
    assert np.allclose(np.linalg.norm(shared_inputs.vectors(20, 4), axis=1), 1)
    x = ours.read(path)
    views, source = ours._windows(x)
    assert views.lengths.tolist() == first.length.tolist()
    assert source.bincount().tolist() == [shared_inputs.SLICES] * 8


def test_codes_and_amounts_are_those_of_the_table(path: str):
    x, table = ours.read(path), pq.read_table(path)
    names = [int(value) for value in x.schema.categorical[0].values]
    codes = torch.tensor([0, 0, *names])[x.sequences.values("code")]
    assert codes.tolist() == table["code"].to_pylist()
    amount = x.schema.numeric[0].scale(x.sequences.values("amount"))
    torch.testing.assert_close(amount, torch.tensor(table["amount"].to_pylist()).log1p())


def test_tasks_take_turns_and_ratios_are_taken_round_by_round():
    calls: list[str] = []

    def task(name: str, seconds: list[float]) -> comparisons.Timed:
        return lambda: calls.append(name) or seconds.pop(0)  # type: ignore[func-returns-value]

    seconds = comparisons.turns({"theirs": task("theirs", [9.0, 4.0, 6.0]), "ours": task("ours", [9.0, 2.0, 1.0])}, 2)
    assert calls == ["theirs", "ours"] * 3
    row = comparisons.beside("what", "case", 1, **seconds, unit="rows/s", amount=10.0, expected=2.0)
    assert (row["theirs"], row["ours"], row["times"], row["least"], row["most"]) == (2.0, 10 / 1.5, 4, 2, 6)


def test_growth_is_an_exponent():
    seconds = {size: {"theirs": [size**2.0], "ours": [size / 7]} for size in (10, 100, 1000)}
    last = comparisons._growth("embedding", "events", seconds)[-1]
    assert (last["theirs"], last["ours"]) == pytest.approx((2, 1))


def test_a_missing_environment_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(comparisons, "PEER", tmp_path / "absent")
    monkeypatch.setattr(sys, "argv", ["benchmarks.peer", "check"])
    with pytest.raises(SystemExit, match=r"environment is missing: there is no .*absent; make it with: make peer"):
        runpy.run_module("benchmarks.peer", run_name="__main__")


def test_different_results_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    class Side:
        def __init__(self, difference: float) -> None:
            self.difference = difference

        def __enter__(self) -> Side:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def answer(self, name: str, **_: object) -> Row:
            weights: Row = {"cell": {}, "table": [], "values": []}
            return {**weights, "z": [[1 + self.difference]], "loss": 2.0, "gradient": [[3.0]]}

    def worker(side: str, *_: object) -> Side:
        return Side(1e-3 if side == "theirs" else 0.0)

    monkeypatch.setattr(comparisons, "Worker", worker)
    with pytest.raises(RuntimeError, match="the two sides differ by more than 1e-4"):
        comparisons.check(comparisons.Bench(tmp_path, small=True))


@pytest.mark.parametrize("ours_at", [("float32",), ("float32", "bfloat16")])
def test_each_side_is_timed_in_its_own_precisions_with_and_without_bfloat16(
    ours_at: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("eventvec.precision.cpu_has_bfloat16", lambda: "bfloat16" in ours_at)
    tables = copy_of(comparisons.__file__, monkeypatch)
    seconds = {"highest": 12.0, "medium": 6.0, "float32": 3.0, "bfloat16": 2.0}
    precisions: dict[str, set[str]] = {"theirs": set(), "ours": set()}

    class Side:
        def __init__(self, name: str) -> None:
            self.name = name

        def seconds(self, task: str, runs: int = 1, *, precision: str, **_: object) -> float:
            precisions[self.name].add(precision)
            return seconds[precision]

    monkeypatch.setattr(tables, "sides", lambda _: contextlib.nullcontext((Side("theirs"), Side("ours"))))
    monkeypatch.setattr(tables.measure, "peak_flops", lambda *_: 1.0)
    for table in (tables.training, tables.embedding):
        rows = table(tables.Bench(tmp_path, small=True))
        times = {
            (ours, theirs): row["times"]
            for row in rows
            for ours, theirs in [re.findall(r"(?:ours|theirs) (\w+)", row["case"])]
            if row["times"]
        }
        assert times == {(x, y): seconds[y] / seconds[x] for x in ours_at for y in ("highest", "medium")}
        assert precisions == {"theirs": {"highest", "medium"}, "ours": set(ours_at)}


def copy_of(path: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module that is imported once more, as on another CPU."""
    spec = importlib.util.spec_from_file_location("peer_tables", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "peer_tables", module)
    spec.loader.exec_module(module)
    return module
