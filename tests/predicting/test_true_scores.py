"""What makes the score of a predictor worthless is said first, or refused: copies of the label, and late labels."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.commands import invoke

import eventvec as ev

N, DUE = 120, datetime(2024, 3, 1)
MODEL: dict[str, Any] = {"key": "card", "time": "at", "categorical": ["what"], "progress": False}


@cache
def events() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    at = [datetime(2024, 1, 1) + timedelta(seconds=int(seconds)) for seconds in rng.integers(0, 100 * 86400, N * 6)]
    return pl.DataFrame({"card": np.repeat(np.arange(N), 6), "at": at, "what": rng.choice(["a", "b"], N * 6)})


@cache
def labels(due: datetime | None = DUE) -> pl.DataFrame:
    """Return random labels."""
    table = pl.DataFrame({"card": range(N), "y": np.random.default_rng(1).permutation(N) % 2})
    return table if due is None else table.with_columns(due=pl.lit(due))


def beside(noise: float) -> pl.DataFrame:
    """Return a table without times that tells the label."""
    rng = np.random.default_rng(2)
    tells = labels()["y"].to_numpy() + noise * rng.random(N)
    return pl.DataFrame({"card": range(N), "age": rng.integers(20, 80, N), "refund": tells})


@pytest.mark.parametrize("given", ["static", "features"])
def test_a_column_without_times_that_tells_the_label_is_named_first(given: str, tmp_path: Path) -> None:
    table = beside(0.5)
    model = ev.EventClassifier(**MODEL)
    model.fit(events(), labels(), "y", **{given: table if given == "static" else {"mine": table}})
    family = {"static": "static", "features": "mine"}[given]
    first = f"the feature 'refund' ({family}) alone predicts 'y' with an AUROC of 1.000"
    assert model.explain().verdict[0].startswith("Too good to be true: ")
    assert first in model.explain().verdict[0]
    model.save(tmp_path / "model")
    assert ev.EventClassifier.load(tmp_path / "model").explain().verdict == model.explain().verdict
    note = {"static": "The static columns 'age', 'refund' have", "features": "The table of features 'mine' has"}[given]
    assert f"{note} no times, and may hold what became known after a label." in model.notes_


def test_columns_that_tell_nothing_raise_no_doubt() -> None:
    model = ev.EventClassifier(**MODEL).fit(events(), labels(), "y", static=beside(0.5).drop("refund"))
    assert model.explain().verdict[0].startswith("'y' is predicted")
    assert "The static columns 'age' have no times, and may hold what became known after a label." in model.notes_


def test_evaluate_names_a_table_without_times() -> None:
    data = ev.read(events(), key="card", time="at", categorical=["what"])
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4)
    z = ev.embed(encoder, ev.read(events(), schema=data.schema, cutoffs=labels(), cutoff_column="due"))
    answer = ev.evaluate(z, None, labels(), "y", features={"mine": beside(0.5)}, models=["logistic_regression"])
    assert "'refund' of 'mine' alone predicts 'y' with an AUROC of 1.000" in answer.verdict[0]
    assert "The table of features 'mine' has no times, and may hold what became known after a label." in answer.notes


def test_the_command_prints_the_doubt_first(tmp_path: Path) -> None:
    events().write_parquet(tmp_path / "events.parquet")
    labels().write_parquet(tmp_path / "labels.parquet")
    beside(0.5).write_parquet(tmp_path / "static.parquet")
    done = invoke(
        "fit", "--events", tmp_path / "events.parquet", "--key", "card", "--time", "at",
        "--labels", tmp_path / "labels.parquet", "--label", "y",
        "--static", tmp_path / "static.parquet", "--out", tmp_path / "model",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert done.stdout.lstrip().startswith("Too good to be true: ")


def test_the_verdict_says_that_all_labels_lie_after_the_last_event() -> None:
    late = "No event lies within 52 days before a label: all 120 labels lie after the last event ("
    model = ev.EventClassifier(**MODEL).fit(events(), labels(datetime(2024, 6, 1)), "y")
    assert model.explain().verdict[-1].startswith(late)
    months = pl.DataFrame({"card": np.repeat(np.arange(N), 12), "what": "a"}).with_columns(
        at=pl.Series([datetime(2024, month, 1) for month in range(1, 13)] * N)
    )
    model.fit(months, labels(datetime(2025, 1, 1)), "y")
    assert not any("No event lies" in line for line in model.explain().verdict)
    next_day = events()["at"].max() + timedelta(hours=20)  # type: ignore[operator]
    model.fit(events(), labels(next_day), "y")
    assert not any("No event lies" in line for line in model.explain().verdict)


def run(label: pl.Series) -> ev.Model:
    """Return a run that has learned a label."""
    data = ev.read(events(), key="card", time="at", categorical=["what"])
    table = pl.DataFrame({"card": range(N), "churn": label})
    return ev.fine_tune(ev.fit(data, method="coles", epochs=1, dim=4, beside=[]), data, table, "churn", epochs=1)


def test_a_run_that_has_learned_the_label_is_refused_under_any_name(tmp_path: Path) -> None:
    y = labels(None)["y"]
    learned = run(y)
    learned.save(tmp_path / "run")
    for model in (learned, ev.load(tmp_path / "run")):
        for copy in (y, y[: N // 2], 1 - y, y.replace_strict({0: "no", 1: "yes"})):
            table = pl.DataFrame({"card": range(len(copy)), "left": copy})
            with pytest.raises(ev.ConfigError, match="has learned the label 'churn', of which 'left' is a copy"):
                ev.EventClassifier(**{**MODEL, "vector": model}).fit(events(), table, "left")
    other = pl.DataFrame({"card": range(N), "left": np.where(np.arange(N) == 7, 1 - y.to_numpy(), y.to_numpy())})
    assert ev.EventClassifier(**{**MODEL, "vector": learned}).fit(events(), other, "left").notes_
    with pytest.raises(ev.ConfigError, match="has learned the label 'churn', and its vectors"):
        ev.EventClassifier(**{**MODEL, "vector": learned}).fit(events(), labels(None).rename({"y": "churn"}), "churn")


def test_a_run_that_has_learned_numbers_is_refused_on_any_scale() -> None:
    spend = pl.Series(np.random.default_rng(3).random(N))
    learned = run(spend)
    for copy in (spend, spend * 100, spend.log()):
        table = pl.DataFrame({"card": range(N), "paid": copy})
        with pytest.raises(ev.ConfigError, match="has learned the label 'churn', of which 'paid' is a copy"):
            ev.EventRegressor(**{**MODEL, "vector": learned}).fit(events(), table, "paid")


def test_a_run_that_has_learned_labels_at_several_times_is_refused() -> None:
    at = [datetime(2024, 2, 1), datetime(2024, 3, 1)]
    panel = pl.DataFrame({"card": np.repeat(np.arange(N), 2), "due": at * N})
    panel = panel.with_columns(churn=pl.Series(np.random.default_rng(4).permutation(2 * N) % 2))
    data = ev.read(events(), key="card", time="at", categorical=["what"])
    start = ev.fit(data, method="coles", epochs=1, dim=4, beside=[])
    learned = ev.fine_tune(start, data, panel, "churn", epochs=1)
    with pytest.raises(ev.ConfigError, match="has learned the label 'churn', of which 'left' is a copy"):
        ev.EventClassifier(**{**MODEL, "vector": learned}).fit(events(), panel.rename({"churn": "left"}), "left")
    assert ev.EventClassifier(**{**MODEL, "vector": learned}).fit(events(), labels(), "y").notes_


def test_numbers_that_are_mostly_zero_are_no_copies() -> None:
    once = pl.Series(np.where(np.arange(N) == 3, 5.0, 0.0))
    learned = run(once + pl.Series(np.random.default_rng(5).random(N)) / 1e6)
    table = pl.DataFrame({"card": range(N), "paid": once})
    assert ev.EventRegressor(**{**MODEL, "vector": learned}).fit(events(), table, "paid").notes_
