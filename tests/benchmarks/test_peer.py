"""The comparison with pytorch-lifestream: our side alone, in its process, and what is said without the other."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from benchmarks.peer import data, ours, tables
from benchmarks.peer.tables import Row
from benchmarks.peer.worker import Worker


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return data.write(data.narrow(8, 60), tmp_path_factory.mktemp("peer") / "narrow.parquet")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker("ours", Path(sys.executable), threads=1) as side:
        yield side


WORKS = [
    ("preprocessing", {}), ("plain", {}), ("sampling", {"entities": 4}),
    ("training", {"entities": 4, "hidden": 4, "how": "float32"}),
    ("training", {"entities": 4, "hidden": 4, "how": "bfloat16"}),
    ("embedding", {"entities": 4, "hidden": 4, "how": "bfloat16"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), WORKS)
def test_each_work_runs_in_its_process_and_says_how_long_it_took(worker: Worker, path: str, name: str, options: Row):
    assert 0 < worker.seconds(name, 2, path=path, **options) < 60


def test_what_fails_in_a_process_is_told(worker: Worker, path: str):
    assert worker.seconds("loss", 1, rows=20, dim=4) > 0
    with pytest.raises(RuntimeError, match=r"ours failed at .*sampling(?s:.*)absent\.parquet"):
        worker.seconds("sampling", 1, path="absent.parquet", entities=4)
    assert worker.seconds("loss", 1, rows=20, dim=4) > 0  # and it goes on


def test_both_sides_are_given_the_same_windows_and_vectors(path: str):
    first, second = data.windows(8, 60), data.windows(8, 60)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (first.length >= data.SHORTEST).all()
    assert (first.offset + first.length <= 60).all()
    assert np.allclose(np.linalg.norm(data.vectors(20, 4), axis=1), 1)
    x = ours.read(path)
    views, source = ours._windows(x)
    assert views.lengths.tolist() == first.length.tolist()
    assert source.bincount().tolist() == [data.SLICES] * 8


def test_codes_and_amounts_are_those_of_the_other_side(path: str):
    x, table = ours.read(path), pq.read_table(path)
    names = [int(value) for value in x.schema.categorical[0].values]
    codes = torch.tensor([0, 0, *names])[x.sequences.values("code")]
    assert codes.tolist() == table["code"].to_pylist()
    amount = x.schema.numeric[0].scale(x.sequences.values("amount"))
    torch.testing.assert_close(amount, torch.tensor(table["amount"].to_pylist()).log1p())


def test_works_take_turns_and_ratios_are_taken_round_by_round():
    asked: list[str] = []

    def work(name: str, seconds: list[float]) -> tables.Timed:
        return lambda: asked.append(name) or seconds.pop(0)  # type: ignore[func-returns-value]

    seconds = tables.turns({"theirs": work("theirs", [9.0, 4.0, 6.0]), "ours": work("ours", [9.0, 2.0, 1.0])}, 2)
    assert asked == ["theirs", "ours"] * 3
    found = tables.beside("what", "case", 1, **seconds, unit="rows/s", amount=10.0, asked=2.0)
    assert (found["theirs"], found["ours"], found["times"], found["least"], found["most"]) == (2.0, 10 / 1.5, 4, 2, 6)


def test_growth_is_an_exponent():
    seconds = {size: {"theirs": [size**2.0], "ours": [size / 7]} for size in (10, 100, 1000)}
    last = tables._growth("embedding", "events", seconds)[-1]
    assert (last["theirs"], last["ours"]) == pytest.approx((2, 1))


def test_without_the_other_environment_it_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(tables, "PEER", tmp_path / "absent")
    monkeypatch.setattr(sys, "argv", ["benchmarks.peer", "check"])
    with pytest.raises(SystemExit, match=r"environment is missing: there is no .*absent; make it with: make peer"):
        runpy.run_module("benchmarks.peer", run_name="__main__")


def test_different_results_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    class Side:
        def __init__(self, off: float) -> None:
            self.off = off

        def __enter__(self) -> Side:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def answer(self, name: str, **_: object) -> Row:
            weights: Row = {"cell": {}, "table": [], "values": []}
            return {**weights, "z": [[1 + self.off]], "loss": 2.0, "gradient": [[3.0]]}

    def worker(side: str, *_: object) -> Side:
        return Side(1e-3 if side == "theirs" else 0.0)

    monkeypatch.setattr(tables, "Worker", worker)
    with pytest.raises(RuntimeError, match="do not compute the same"):
        tables.check(tables.Bench(tmp_path, small=True))
