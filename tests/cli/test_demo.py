"""The whole demonstration on every seventh aircraft, with one epoch and one model."""

from __future__ import annotations

import io
import json
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from eventvec import models
from eventvec.cli import app, demo
from eventvec.datasets import flights
from eventvec.errors import ConfigError
from eventvec.tables import read_embeddings

SEVENTH = slice(0, None, 7)


@dataclass
class Small:
    result: demo.Demo
    printed: str
    page: str


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    printed, out = io.StringIO(), tmp_path_factory.mktemp("demo") / "new" / "folder"
    result = demo.run(out, rows=SEVENTH, models=["knn"], epochs=1, console=Console(file=printed, width=100))
    return Small(result, printed.getvalue(), result.page.read_text())


def test_all_files_are_written_and_only_their_owner_can_read_them(small: Small) -> None:
    folder = small.result.page.parent
    assert {path.name for path in folder.iterdir()} == {"run", "embeddings.parquet", "report.html"}
    for path in [folder, *folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_each_aircraft_has_an_embedding_of_the_saved_run(small: Small) -> None:
    data, _ = flights()
    z, run = read_embeddings(small.result.embeddings), models.load(small.result.run)
    assert z.keys.to_pylist() == data[SEVENTH].keys.to_pylist()
    assert {name: end - start for name, (start, end) in z.parts.items()} == {
        "learned": 64,
        "timing": 7,
        "aggregates": 64,
    }
    assert np.isfinite(z.values).all()
    assert z.metadata["run"] == run.id
    assert z.metadata["fingerprint"] == run.info["fingerprint"] == data[SEVENTH].fingerprint
    assert run.config["encoder"]["dim"] == 64
    assert z.metadata["labels"] == []


def test_labels_are_evaluated_on_aircraft_with_enough_flights(small: Small) -> None:
    labels = flights()[1][SEVENTH].filter(pl.col("flights") >= 10)
    built, seats, engine = small.result.evaluations
    assert built.facts["n"] == labels["built_2002"].count()
    assert seats.facts["n"] == labels["seats"].count()
    assert engine.facts["n"] == labels.filter(pl.col("engine").is_in(["Turbo-fan", "Turbo-jet"])).height
    assert [e.facts["task"] for e in small.result.evaluations] == ["binary", "numeric", "binary"]
    assert engine.notes[1].startswith("Classes of fewer than 50 aircraft are left out: Reciprocating (")
    for e in small.result.evaluations:
        assert e.notes[0] == f"Evaluated on the {len(labels)} aircraft with 10 flights or more."
        sets = ("embedding", "handcrafted", "untrained", "embedding_handcrafted", "embedding: learned")
        cells = {(name, share) for name in sets for share in (1.0, 0.05)}
        assert {(row["features"], row["fraction"]) for row in e.rows} == cells


def test_the_page_shows_labels_and_neighbours(small: Small) -> None:
    for text in (*demo.LABELS.values(), "nearest", "578"):
        assert text in small.page
    assert "<script src" not in small.page
    assert len(small.page) < 2_000_000
    assert "<link" not in small.page


def test_each_step_is_announced_and_no_bar_is_drawn_off_a_terminal(small: Small) -> None:
    lines = [line for line in small.printed.splitlines() if "/5  " in line]
    assert [line.split("  ")[0] for line in lines] == [f"{i}/5" for i in range(1, 6)]
    assert [line.split("  ")[1] for line in lines] == list(small.result.seconds)
    assert not set(small.printed) & set("━\r\x1b")


def test_the_answer_is_plain_json(small: Small) -> None:
    answer = json.loads(json.dumps(small.result.to_dict(), allow_nan=False))
    assert [e["label"] for e in answer["evaluations"]] == list(demo.LABELS.values())
    assert Path(answer["page"]).is_file()


def test_a_folder_that_is_not_empty_is_refused(small: Small, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not empty; name a new folder with --out"):
        demo.run(small.result.page.parent)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--out"):
        demo.run(tmp_path / "file")


def test_small_classes_are_left_out_and_counted() -> None:
    column = pl.Series("engine", ["a"] * 60 + ["b"] * 50 + ["c"] * 49 + ["d"] * 2 + [None] * 3)
    labels, notes = demo._labels(column)
    assert labels.to_list() == ["a"] * 60 + ["b"] * 50 + [None] * 54
    assert notes == ["Classes of fewer than 50 aircraft are left out: c (49), d (2)."]
    assert demo._labels(column.head(110))[1] == []


def test_the_decisions_are_printed_and_with_full_all_tables(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "run", lambda out, console: small.result)
    printed, full = (" ".join(CliRunner().invoke(app, ["demo", *more]).stdout.split()) for more in ([], ["--full"]))
    decisions = [line for each in small.result.evaluations for line in each.verdict]
    assert printed.startswith(" ".join(decisions))
    assert len(decisions) <= 15
    assert "differences" not in printed
    assert full.count("differences") >= 3


def test_an_interrupted_demonstration_leaves_its_folder_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(aircrafts: slice | None) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "model.json").touch()
        (tmp_path / "embeddings.parquet").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo.run(tmp_path)
    assert not list(tmp_path.iterdir())
