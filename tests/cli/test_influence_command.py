"""`eventvec influence` prints what the Python call returns, and says what is wrong in one sentence."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import eventvec as ev
from commands import answer, customer_labels, invoke, purchases


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the events of 60 customers, their labels, and a trained run."""
    path = tmp_path_factory.mktemp("influence")
    customers = [f"c{i:02}" for i in range(60)]
    events = purchases(customers, 12)
    events.write_parquet(path / "events.parquet")
    customer_labels(customers).write_parquet(path / "labels.parquet")
    ev.fit(ev.read(events, key="customer", time="when"), method={"encoder": {"dim": 8}}, epochs=1, out=path / "run")
    return path


def test_the_command_prints_what_the_call_returns(files: Path) -> None:
    run, events, labels = (files / name for name in ("run", "events.parquet", "labels.parquet"))
    trained = ev.load(run)
    until = {"until": "2024-01-12"}
    for options, expected in (
        ([labels, "--label", "likes"], ev.influence(trained, events, labels, "likes")),
        ([labels, "--label", "likes", "--folds", 4, "--model", "knn", "--group", "shop", "--seed", 3, "--entities", 50],
         ev.influence(trained, events, labels, "likes", folds=4, model="knn", group="shop", seed=3, entities=50)),
        (["--entity", "c07"], ev.influence(trained, events, entity="c07")),
        (["--until", "2024-01-12"], ev.influence(trained, events, **until)),
    ):  # fmt: skip
        printed = answer("influence", run, events, *options, "--device", "cpu")
        assert printed == expected.to_dict()


def test_the_table_names_the_field_that_drives_the_label(files: Path) -> None:
    result = invoke("influence", files / "run", files / "events.parquet", files / "labels.parquet", "--label", "likes")
    assert result.exit_code == 0
    rows = [line for line in result.stdout.splitlines() if "│ field" in line]
    assert len(rows) == 3  # when, bought, amount
    assert "bought" in rows[0]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["labels.parquet"], 2, "labels and label are given together or not at all"),
        (["--label", "likes"], 2, "labels and label are given together or not at all"),
        (["labels.parquet", "--label", "like"], 1, "the label table has no column 'like'; did you mean 'likes'?"),
        (["labels.parquet", "--label", "likes", "--model", "lightgmb"], 2, "did you mean 'lightgbm'?"),
        (["--entity", "4000123412341234"], 1, "none of 60 entities has the key that was given as entity= (--entity)"),
        (["--entities", "1"], 2, "entities must be at least 2, got 1"),
        (["--entity", ""], 2, "it is empty; give a value, or leave it out"),
        (["--device", "nowhere"], 2, "device 'nowhere' cannot be used here"),
        (["absent.parquet", "--label", "likes"], 1, "absent.parquet"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(
    files: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, sentence: str
) -> None:
    monkeypatch.chdir(files)
    result = invoke("influence", "run", "events.parquet", *arguments)
    printed = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == code, printed
    assert sentence in printed
    assert "4000123412341234" not in result.output


def test_an_absent_run_is_refused(files: Path) -> None:
    result = invoke("influence", files / "nowhere", files / "events.parquet")
    assert result.exit_code == 1
    assert "nowhere" in result.stderr
    assert pl.read_parquet(files / "events.parquet").height == 720
