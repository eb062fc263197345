"""Panels: labels at several times of an entity are learned from rows that end there."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.commands import invoke

import eventvec as ev
from eventvec.errors import ConfigError, DataError
from eventvec.tables.keys import entity_codes
from eventvec.training.fit_options import FitOptions
from eventvec.training.validation import by_entity, first_of_each, rows_per_step, split

N, MONTHS = 120, 5
START = datetime(2024, 1, 1)


@cache
def events() -> pl.DataFrame:
    """Return events of cards whose habit changes from month to month at random."""
    rng = np.random.default_rng(0)
    card, day = np.repeat(np.arange(N), 60), rng.integers(0, 150 * 86_400, N * 60)
    habit = rng.integers(0, 2, (N, MONTHS + 1))[card, day // (30 * 86_400)]
    what = np.where(rng.random(len(card)) < 0.9, habit, 1 - habit)
    at = START + pl.Series(1000 * day).cast(pl.Duration("ms"))
    return pl.DataFrame({"card": card, "at": at, "what": what.astype(str)})


@cache
def panel() -> pl.DataFrame:
    """Return for each card and month whether `1` was its most frequent value in the month before."""
    rows = []
    for month in range(1, MONTHS + 1):
        end = START + timedelta(days=30 * month)
        last = events().filter(pl.col("at") < end, pl.col("at") >= end - timedelta(days=30))
        rows.append(last.group_by("card").agg(y=(pl.col("what") == "1").mean() > 0.5).with_columns(month=pl.lit(end)))
    return pl.concat(rows).sort("card", "month")


@cache
def run() -> ev.Model:
    data = ev.read(events(), key="card", time="at", categorical=["what"], fitting=ev.Fitting(min_count=1))
    return ev.fit(data, method="coles", epochs=1, dim=16, beside=[])


@pytest.mark.parametrize("encoder", ["gru", "tcn"])
def test_labels_of_several_times_are_learned_and_predicted_as_of_each(encoder: str) -> None:
    train, test = panel().filter(pl.col("card") < 80), panel().filter(pl.col("card") >= 80)
    if encoder == "gru":
        tuned = ev.fine_tune(run(), events(), train, "y", epochs=12, lr=0.01)
    else:
        data = ev.read(
            events(), cutoffs=train, cutoff_column="month", static=train, key="card", time="at", categorical=["what"],
            fitting=ev.Fitting(min_count=1),
        )  # fmt: skip
        tuned = ev.fit(data, method="supervised", encoder=encoder, label="y", epochs=6, lr=0.01, seed=1)
    predicted = pl.DataFrame(ev.predict(tuned, events(), cutoffs=test, cutoff_column="month"))
    joined = predicted.join(test, on=["card", "month"], how="inner")
    assert len(joined) == len(predicted) == len(test)
    assert (joined["prediction"] == joined["y"].cast(pl.String)).mean() > 0.8
    assert tuned.usable == len(train)


def test_the_estimator_learns_panels_and_predicts_as_of_cutoffs() -> None:
    vectorizer = ev.EventVectorizer("card", "at", categorical=["what"], epochs=1, progress=False).fit(events())
    model = vectorizer.fine_tune(panel().to_pandas(), "y", epochs=2)
    table = ev.predict(model, events().to_pandas(), cutoffs=panel().to_pandas(), cutoff_column="month")
    assert table.column_names[:3] == ["card", "month", "prediction"]
    assert set(table.column_names[3:]) == {"p_false", "p_true"}
    assert len(table) == len(panel())
    assert len(ev.predict(model, events())) == N


def test_a_batch_has_the_loss_of_its_rows_one_by_one() -> None:
    data = run().read(events(), cutoffs=panel(), cutoff_column="month")
    labelled = ev.attach(data, panel())
    method = ev.methods.Supervised(run().method.encoder, labelled.schema, "y")
    x, rng = labelled.sequences, torch.Generator()
    one_by_one = torch.stack([method(x[[row]], rng) for row in range(60)]).mean()
    method.prepare(x[:60])
    assert method.rows_begin_alike
    torch.testing.assert_close(method(x[:60], rng), one_by_one, rtol=1e-5, atol=1e-5)


def test_entities_are_never_split_and_every_batch_holds_whole_ones() -> None:
    labelled = ev.attach(run().read(events(), cutoffs=panel(), cutoff_column="month"), panel())
    method = ev.methods.Supervised(run().method.encoder, labelled.schema, "y")
    codes = entity_codes(labelled.keys)
    assert codes is not None
    entity = torch.from_numpy(codes)
    options = FitOptions(validation=0.25, batch_size=8)
    (training, held_out, _), _ = split(method, labelled.sequences, options, entity)
    assert not set(entity[training].tolist()) & set(entity[held_out].tolist())
    assert len(entity[held_out].unique()) == N // 4
    assert sorted([*training.tolist(), *held_out.tolist()]) == list(range(len(labelled)))
    assert rows_per_step(options, training, entity) == 8 * MONTHS
    assert rows_per_step(options, training, None) == 8
    numbers = torch.tensor([7, 3, 7, 5, 3])
    assert first_of_each(numbers).tolist() == [0, 1, 3]
    rows = torch.tensor([4, 0, 1, 3, 2])
    assert numbers[by_entity(rows, numbers, torch.tensor([3, 5, 7]))].tolist() == [3, 3, 5, 7, 7]


def test_a_killed_training_of_a_panel_is_resumed_exactly(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 3, "batch_size": 16, "checkpoint_every": 2, "validation": 0.2}

    def stop(record: dict[str, Any]) -> None:
        if record["step"] == 9:
            raise KeyboardInterrupt

    whole = ev.fine_tune(run(), events(), panel(), "y", **options)
    with pytest.raises(KeyboardInterrupt):
        ev.fine_tune(run(), events(), panel(), "y", out=tmp_path / "r", progress=stop, **options)
    resumed = ev.fine_tune(run(), events(), panel(), "y", out=tmp_path / "r", resume=True, **options)
    same = [torch.equal(a, b) for a, b in zip(whole.method.parameters(), resumed.method.parameters(), strict=True)]
    assert all(same)
    assert ev.load(tmp_path / "r").config["data"]["cutoff_column"] == "month"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: pl.concat([t, t[:3].with_columns(~pl.col("y"))]), "3 rows of the static table repeat a key"),
        (lambda t: t.with_columns(month=pl.when(pl.col("card") > 3).then("month")), "column 'month' .* missing value"),
        (lambda t: t.drop("month"), "'card' has several rows for 114 keys, and no column of times was found"),
        (lambda t: t.with_columns(card=pl.col("card") + 10_000), "none of 600 labelled rows has a key"),
    ],
)  # fmt: skip
def test_panels_that_cannot_be_used_are_refused(change: Any, message: str) -> None:
    with pytest.raises((DataError, ConfigError), match=message):
        ev.fine_tune(run(), events(), change(panel()), "y", epochs=1)


def test_repeated_rows_that_agree_count_once_and_other_methods_take_one_row_per_entity() -> None:
    again = pl.concat([panel(), panel()[:50]])
    assert ev.fine_tune(run(), events(), again, "y", epochs=1).usable == len(panel())
    data = ev.read(events(), key="card", time="at", cutoffs=panel(), cutoff_column="month")
    with pytest.raises(ConfigError, match="one row per entity is needed"):
        ev.fit(data, method="coles", epochs=1)


def test_the_fingerprint_of_a_panel_tells_its_rows_apart() -> None:
    data = run().read(events(), cutoffs=panel(), cutoff_column="month")
    assert (
        data.fingerprint == run().read(events().reverse(), cutoffs=panel().reverse(), cutoff_column="month").fingerprint
    )
    assert len({data.fingerprint, data[:-1].fingerprint, run().read(events()).fingerprint}) == 3
    later = run().read(
        events(), cutoffs=panel().with_columns(pl.col("month").dt.offset_by("1us")), cutoff_column="month"
    )
    assert later.fingerprint != data.fingerprint


def test_the_configuration_of_a_run_that_learned_a_panel_trains_another(tmp_path: Path) -> None:
    events().write_parquet(tmp_path / "events.parquet")
    panel().write_parquet(tmp_path / "panel.parquet")
    run().save(tmp_path / "run")
    files = (str(tmp_path / "events.parquet"), str(tmp_path / "panel.parquet"))
    ev.fine_tune(ev.load(tmp_path / "run"), *files, "y", epochs=1, out=tmp_path / "tuned", device="cpu")
    again = invoke("fit", tmp_path / "tuned" / "config.toml", "--out", tmp_path / "again", "--device", "cpu")
    assert again.exit_code == 0, again.output
    weights = [list(ev.load(tmp_path / name).method.parameters()) for name in ("tuned", "again")]
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
