"""Intervals around predicted numbers: `coverage=` of `predict`, of a store, of the regressor and of the command."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.torch import load_file

import eventvec as ev
import fits
from commands import answer, invoke
from eventvec.blocks.rows import Rows
from eventvec.embedding import with_moment
from eventvec.errors import CheckpointError, ConfigError
from eventvec.learners.held_out_scores import WITHIN_TIMES
from eventvec.learners.number_intervals import NumberIntervals
from eventvec.models.head import predictions_of
from eventvec.models.head_files import read_head
from eventvec.predicting.predictor_answer import explained

N, TRAINED = 480, 300
OPTIONS: dict[str, Any] = {"key": "id", "time": "day", "categorical": ["kind"], "numeric": ["paid"]}

hand_crafted_features_alone = pytest.fixture(fits.without_codes, autouse=True, scope="module")


def wild() -> np.ndarray:
    """Return whether the label of each entity has eight times as much noise."""
    return np.random.default_rng(0).random(N) < 0.5


@pytest.fixture(scope="module")
def events() -> pl.DataFrame:
    """Return events whose kind tells how much noise the label has, and whose payments tell the label."""
    rng, ids = np.random.default_rng(1), np.repeat(np.arange(N), 6)
    paid = rng.normal(size=N)[ids] + 0.1 * rng.normal(size=len(ids))
    return pl.DataFrame(
        {"id": ids, "day": np.tile(np.arange(6), N), "kind": np.where(wild()[ids], "wild", "calm"), "paid": paid}
    )


@pytest.fixture(scope="module")
def labels(events: pl.DataFrame) -> pl.DataFrame:
    rng, paid = np.random.default_rng(2), events.group_by("id").agg(pl.col("paid").mean()).sort("id")["paid"].to_numpy()
    spend = 3 * paid + np.where(wild(), 4.0, 0.5) * rng.normal(size=N)
    return pl.DataFrame({"id": np.arange(N), "spend": spend, "good": paid + rng.normal(size=N) > 0})


@pytest.fixture(scope="module")
def model(events: pl.DataFrame, labels: pl.DataFrame) -> ev.Model:
    data = ev.read(events.filter(pl.col("id") < TRAINED), **OPTIONS)
    return ev.fit(data, labels=labels[:TRAINED], label="spend")


@pytest.fixture(scope="module")
def both(events: pl.DataFrame, labels: pl.DataFrame) -> ev.Model:
    return ev.fit(ev.read(events, **OPTIONS), labels=labels, label=["spend", "good"])


@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_so_many_new_entities_are_inside_and_calm_ones_have_narrow_intervals(
    model: ev.Model, events: pl.DataFrame, labels: pl.DataFrame, coverage: float
) -> None:
    predicted = pl.DataFrame(ev.predict(model, events, coverage=coverage))
    assert predicted.columns == ["id", "prediction", "low", "high"]
    assert predicted.drop("low", "high").equals(pl.DataFrame(ev.predict(model, events)))
    low, middle, high = (predicted[name].to_numpy()[TRAINED:] for name in ("low", "prediction", "high"))
    np.testing.assert_allclose(middle - low, high - middle)
    y, noisy = labels["spend"].to_numpy()[TRAINED:], wild()[TRAINED:]
    inside = (low <= y) & (y <= high)
    assert abs(inside.mean() - coverage) < 0.02 + 2 * np.sqrt(coverage * (1 - coverage) / len(y))
    assert (high - low)[noisy].mean() > 2 * (high - low)[~noisy].mean()


def test_the_ends_are_those_of_a_slow_computation(model: ev.Model, events: pl.DataFrame) -> None:
    """The scale is predicted anew from the features by name, and the quantile looked for in a loop."""
    (head,) = model.heads.values()
    within = head.intervals
    assert isinstance(within, NumberIntervals)
    assert within.scale is not None
    rows = Rows(with_moment(model.read(events)))
    predicted, _ = predictions_of(model.blocks, model.heads, rows)
    x = np.hstack([model.blocks[name].features(rows)[0] for name in head.sets[within.features]])
    x = np.hstack([x, predicted["spend"][:, None]]).astype(np.float32)
    scale = np.maximum(within.scale.booster.predict(x[:, within.scale.columns]), 0.1)
    needed = 0.9 * (TRAINED + 1) / TRAINED
    quantile = next(error for error, share in zip(within.errors, within.shares, strict=True) if share >= needed)
    table = pl.DataFrame(ev.predict(model, events, coverage=0.9))
    np.testing.assert_allclose(table["high"] - table["prediction"], quantile * scale, rtol=1e-6)


def test_the_answer_tells_what_was_measured(model: ev.Model) -> None:
    (head,) = model.heads.values()
    assert head.intervals is not None
    told = explained(head)
    (nine,) = (each for each in head.intervals.measured if each.coverage == 0.9)
    line = f"Intervals for 90 % hold {100 * nine.covered:.1f} % of these rows; their mean width is {nine.width:.4g}."
    assert line in told.verdict
    assert [row["coverage"] for row in told.facts["intervals"]] == [0.8, 0.9, 0.95]
    assert all(abs(row["covered"] - row["coverage"]) < 0.06 for row in told.facts["intervals"])


def test_a_folder_predicts_the_same_intervals(model: ev.Model, events: pl.DataFrame, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    again = ev.load(tmp_path / "model")
    assert ev.predict(again, events, coverage=0.9).equals(ev.predict(model, events, coverage=0.9))
    assert explained(again.heads["spend"]).facts == explained(model.heads["spend"]).facts


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("errors", lambda each: each.flip(0), "must ascend from 0"),
        ("errors", lambda each: each.float(), "as many float64"),
        ("errors", lambda each: each[:-1], "as many float64"),
        ("errors", lambda each: each * float("nan"), "must ascend from 0"),
        ("shares", lambda each: each / 2, "must ascend to 1"),
        ("shares", None, "need the arrays errors and shares"),
        ("threshold", None, "the trees of intervals lack an array"),
        ("columns", lambda each: each + 10_000, "a feature that the blocks do not have"),
        ("left", lambda each: each - 1000, "out of range"),
    ],
)
def test_damaged_intervals_are_refused(model: ev.Model, tmp_path: Path, name: str, change: Any, message: str) -> None:
    """The digests of files refuse them before; here they are those of a folder that was written so."""
    model.save(tmp_path / "model")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    of_head = {each.removeprefix("head.0."): tensor for each, tensor in tensors.items() if each.startswith("head.0.")}
    path = f"intervals.{name}"
    if change is None:
        del of_head[path]
    else:
        of_head[path] = change(of_head[path])
    described = json.loads((tmp_path / "model" / "model.json").read_text())["heads"][0]
    with pytest.raises(CheckpointError, match=message):
        read_head(tmp_path / "model", described, model.blocks, model.schema, of_head, None)


def test_each_number_of_several_labels_has_its_ends_and_classes_keep_their_columns(
    both: ev.Model, events: pl.DataFrame
) -> None:
    ends = ["spend_prediction", "spend_low", "spend_high"]
    classes = ["good_prediction", "good_p_false", "good_p_true"]
    table = ev.predict(both, events, coverage=0.9)
    assert table.column_names == ["id", *ends, *classes]
    assert table.select(classes).equals(ev.predict(both, events).select(classes))


def test_a_store_predicts_the_same_intervals(both: ev.Model, events: pl.DataFrame, tmp_path: Path) -> None:
    ev.update(both, events, tmp_path / "state")
    stored = pl.DataFrame(ev.predict(both, state=tmp_path / "state", until=6, coverage=0.9))
    whole = pl.DataFrame(ev.predict(both, events, until=6, coverage=0.9))
    matched = whole.with_columns(pl.col("id").cast(pl.String)).join(stored, on="id", maintain_order="left")
    assert len(matched) == N
    for name in ("spend_prediction", "spend_low", "spend_high", "good_p_true"):
        np.testing.assert_allclose(matched[name], matched[f"{name}_right"], rtol=1e-5, atol=1e-6)
    assert "spend_low" not in pl.DataFrame(ev.predict(both, state=tmp_path / "state", until=6)).columns


def test_the_regressor_gives_ends_as_columns_and_for_a_dataset_as_an_array(
    events: pl.DataFrame, labels: pl.DataFrame, tmp_path: Path
) -> None:
    regressor = ev.EventRegressor(**OPTIONS, progress=False).fit(events, labels, "spend")
    frame = regressor.predict(events, coverage=0.9)
    assert frame.columns == ["id", "prediction", "low", "high"]
    data = regressor.model_.read(events)
    array = regressor.predict(data, coverage=0.9)
    assert array.shape == (N, 3)
    np.testing.assert_array_equal(array, frame.select("prediction", "low", "high").to_numpy())
    assert regressor.predict(data).shape == (N,)
    regressor.save(tmp_path / "model")
    assert ev.EventRegressor.load(tmp_path / "model").predict(events, coverage=0.9).equals(frame)


@pytest.mark.parametrize("coverage", [0, 1, 95, -0.1, True, "0.9", float("nan")])
def test_what_is_no_share_is_refused(model: ev.Model, events: pl.DataFrame, coverage: Any) -> None:
    with pytest.raises(ConfigError, match="coverage must be above 0 and below 1"):
        ev.predict(model, events, coverage=coverage)


def test_what_cannot_be_promised_is_refused(
    model: ev.Model, events: pl.DataFrame, labels: pl.DataFrame, tmp_path: Path
) -> None:
    most = 0.996677
    assert ev.predict(model, events, coverage=np.float32(most)).column_names[-1] == "high"
    with pytest.raises(ConfigError, match=rf"at most {most}, because 'spend' learned from 300 entities, got 0.999"):
        ev.predict(model, events, coverage=0.999)
    data = ev.read(events, **OPTIONS)
    classes = ev.fit(data, labels=labels, label="good")
    with pytest.raises(ConfigError, match=r"is for numbers that heads predict, and the model .* has none"):
        ev.predict(classes, events, coverage=0.9)
    ev.update(classes, events, tmp_path / "state")
    with pytest.raises(ConfigError, match="is for numbers that heads predict"):
        ev.predict(classes, state=tmp_path / "state", coverage=0.9)


def test_the_command_writes_the_ends(model: ev.Model, events: pl.DataFrame, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    events.write_parquet(tmp_path / "events.parquet")
    paths = [tmp_path / name for name in ("model", "events.parquet")]
    told = answer("predict", *paths, "-o", tmp_path / "p.parquet", "--coverage", 0.9)
    assert told["columns"] == ["id", "prediction", "low", "high"]
    assert pl.read_parquet(tmp_path / "p.parquet").equals(pl.DataFrame(ev.predict(model, events, coverage=0.9)))
    refused = invoke("predict", *paths, "-o", tmp_path / "q.parquet", "--coverage", 90)
    assert refused.exit_code == 2
    assert "coverage must be above 0 and below 1" in refused.output
    ev.update(model, events, tmp_path / "state")
    told = answer("predict", paths[0], "--state", tmp_path / "state", "-o", tmp_path / "s.parquet", "--coverage", 0.8)
    assert told["columns"] == ["id", "day", "prediction", "low", "high"]


def test_a_label_beyond_single_precision_is_told_and_stored(
    events: pl.DataFrame, labels: pl.DataFrame, tmp_path: Path
) -> None:
    regressor = ev.EventRegressor(**OPTIONS, progress=False).fit(
        events, labels.select("id", spend=1e50 * pl.col("spend")), "spend"
    )
    told = regressor.explain().verdict
    regressor.save(tmp_path / "model")
    assert ev.EventRegressor.load(tmp_path / "model").explain().verdict == told


def test_intervals_of_a_panel_are_not_measured_by_other_entities_at_the_same_times(events: pl.DataFrame) -> None:
    """Each day has its own level, which other entities tell, and too few rows are earlier than the latest ones."""
    rng, n, day = np.random.default_rng(0), 200, np.arange(6)
    start = datetime(2024, 1, 1)
    dated = pl.DataFrame(
        {"id": np.repeat(np.arange(n), 6), "day": [start + timedelta(days=int(each)) for each in np.tile(day, n)],
         "paid": rng.normal(size=6 * n)}
    )  # fmt: skip
    at = np.append(np.full(25, 10), np.full(175, 20))
    times = [start + timedelta(days=int(each)) for each in at]
    labels = pl.DataFrame({"id": np.arange(n), "known": times, "spend": 10.0 * at + rng.normal(size=n)})
    head = ev.EventRegressor("id", "day", progress=False).fit(dated, labels, "spend").model_.heads["spend"]
    assert WITHIN_TIMES in head.notes
    assert head.intervals is not None
    assert head.intervals.measured == ()


def test_too_few_rows_have_no_intervals(events: pl.DataFrame, labels: pl.DataFrame) -> None:
    few = ev.EventRegressor(**OPTIONS, progress=False).fit(events.filter(pl.col("id") < 2), labels[:2], "spend").model_
    assert few.heads["spend"].intervals is None
    assert explained(few.heads["spend"]).facts["intervals"] == []
    with pytest.raises(ConfigError, match="'spend' has no intervals, because it learned from too few rows"):
        ev.predict(few, events, coverage=0.9)
