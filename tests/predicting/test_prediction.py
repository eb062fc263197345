"""Predictions: static columns as inputs, several labels, calibrated probabilities, in Python and as commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from commands import answer, invoke
from fits import Interrupted, interrupt_after, same, weights

ENTITIES = 300
FIT: dict[str, Any] = {"epochs": 12, "batch_size": 32, "lr": 0.02}


def frames(seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events that say nothing of churn, and people: churn follows from the segment, and spend from the age.

    A tenth of the segments and ages are missing.
    """
    rng = np.random.default_rng(seed)
    segment, age = rng.integers(0, 3, ENTITIES), rng.normal(50, 10, ENTITIES)
    codes = rng.integers(0, 4, (ENTITIES, 6)).astype(str)
    events = pl.DataFrame(
        {"id": np.repeat(np.arange(ENTITIES), 6), "t": np.tile(np.arange(6), ENTITIES), "code": codes.reshape(-1)}
    )
    people = pl.DataFrame(
        {
            "id": np.arange(ENTITIES),
            "segment": pl.Series(segment).replace_strict({0: "retail", 1: "farm", 2: "office"}),
            "age": age,
            "churn": pl.Series(segment == 1).replace_strict({True: "yes", False: "no"}),
            "spend": 100 + 3 * age + rng.normal(0, 5, ENTITIES),
            "weight": rng.uniform(0.5, 2, ENTITIES),
        }
    )
    missing = pl.Series(rng.random(ENTITIES) < 0.1)
    return events, people.with_columns(
        segment=pl.when(~missing).then("segment"), age=pl.when(~missing.shift(7, fill_value=False)).then("age")
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> ev.Model:
    """Return a run without labels."""
    data = ev.read(frames()[0], key="id", time="t", categorical=["code"])
    return ev.fit(data, method="ocp", epochs=1, out=tmp_path_factory.mktemp("runs") / "base")


@pytest.fixture(scope="module")
def tuned(base: ev.Model, tmp_path_factory: pytest.TempPathFactory) -> ev.Model:
    """Return a run that learned churn from events and static columns."""
    events, people = frames()
    out = tmp_path_factory.mktemp("runs") / "tuned"
    ev.fine_tune(base, events, people, "churn", static_inputs=["segment", "age"], out=out, **FIT)
    return ev.load(out)


def test_static_columns_are_read_beside_events(base: ev.Model, tuned: ev.Model) -> None:
    events, people = frames(seed=1)
    known = pl.DataFrame(ev.predict(tuned, events, static=people)).join(people, on="id").drop_nulls("segment")
    assert (known["prediction"] == known["churn"]).mean() > 0.97
    without = ev.fine_tune(base, frames()[0], frames()[1], "churn", **FIT)
    alone = pl.DataFrame(ev.predict(without, events)).join(people, on="id")
    assert (alone["prediction"] == alone["churn"]).mean() < 0.75  # two thirds do not churn, and events say nothing
    in_other_rows = ev.predict(tuned, events, static=people.sample(fraction=1.0, shuffle=True, seed=2).drop("churn"))
    assert in_other_rows.equals(ev.predict(tuned, events, static=people))


def test_an_absent_row_and_a_missing_value_are_inputs_too(tuned: ev.Model) -> None:
    events, people = frames(seed=1)
    nulls = people.with_columns(pl.lit(None, pl.String).alias("segment"), pl.lit(None, pl.Float64).alias("age"))
    missing = pl.DataFrame(ev.predict(tuned, events, static=nulls))
    assert missing[1:].equals(pl.DataFrame(ev.predict(tuned, events, static=nulls[:1]))[1:])
    assert missing["p_yes"].is_between(0.05, 0.95).all()  # trained on rows without a segment
    unknown = ev.predict(tuned, events, static=people.with_columns(segment=pl.lit("mining")))
    assert pl.DataFrame(unknown)["p_yes"].is_finite().all()


def test_each_time_of_an_entity_is_predicted_with_its_static_columns(tuned: ev.Model) -> None:
    events, people = frames(seed=1)
    times = pl.DataFrame({"id": [5, 7, 5, 9, 7], "when": [3, 2, 5, 4, 6]})
    cuts: dict[str, Any] = {"cutoffs": times, "cutoff_column": "when"}
    rows = pl.DataFrame(ev.predict(tuned, events, static=people, **cuts))
    assert rows[["id", "when"]].rows() == [(5, 3), (5, 5), (7, 2), (7, 6), (9, 4)]
    for key, when, *_ in rows.rows():
        alone = pl.DataFrame(ev.predict(tuned, events.filter(id=key), static=people, until=when))
        expected = rows.filter(id=key, when=when)["p_yes"].item()
        assert alone["p_yes"].item() == pytest.approx(expected, rel=1e-5)


def test_a_run_with_inputs_is_not_used_without_them(tuned: ev.Model, base: ev.Model) -> None:
    events, people = frames(seed=1)
    with pytest.raises(
        ev.DataError, match=r"from the events and the static columns 'segment', 'age', and the data have"
    ):
        ev.predict(tuned, events)
    with pytest.raises(ev.DataError, match="'age'"):
        ev.predict(tuned, events, static=people.drop("age"))
    with pytest.raises(ev.ConfigError, match=f"the model {base.id} reads no static columns"):
        base.read(events, static=people)
    other = ev.read(events, schema=base.schema, static=None)
    other = ev.tables.attach(other, people.with_columns(segment=pl.col("segment").replace("farm", "mine")))
    with pytest.raises(ev.DataError, match="the static column 'segment' was coded by another schema than the run's"):
        ev.predict(tuned, other)
    assert len(tuned.embed(events)) == ENTITIES  # the embedding is of the events alone


def test_a_run_records_its_inputs_and_keeps_the_schema_of_these_columns_only(tuned: ev.Model) -> None:
    assert {field.name for field in tuned.schema.static} == {"churn", "segment", "age"}
    assert (tuned.info["labels"], tuned.info["inputs"]) == (["churn", "segment", "age"], ["segment", "age"])
    assert tuned.path is not None
    assert not any("spend" in file.read_text() for file in tuned.path.iterdir() if file.suffix != ".safetensors")
    events, people = frames(seed=1)
    z = tuned.embed(events)
    result = ev.evaluate(z, None, people.drop_nulls("segment"), "segment", folds=2, models=["logistic_regression"])
    assert any("was trained on the static columns 'churn', 'segment', 'age' too" in note for note in result.notes)


def test_inputs_of_the_data_are_used_before_those_of_the_table_of_labels(base: ev.Model) -> None:
    events, people = frames()
    data = ev.tables.attach(base.read(events), people[["id", "segment"]])
    run = ev.fine_tune(base, data, people[["id", "churn", "age"]], "churn", static_inputs=["segment", "age"], epochs=1)
    assert run.info["inputs"] == ["segment", "age"]
    with pytest.raises(ev.DataError, match="the label table has no column 'segment'"):
        ev.fine_tune(base, events, people[["id", "churn"]], "churn", static_inputs=["segment"], epochs=1)
    with pytest.raises(ev.ConfigError, match="static_inputs names the label 'churn'; a label cannot have another role"):
        ev.fine_tune(base, events, people, "churn", static_inputs=["churn"], epochs=1)


def test_a_killed_run_with_inputs_weights_and_a_temperature_is_resumed(base: ev.Model, tmp_path: Path) -> None:
    events, people = frames()
    options: dict[str, Any] = {
        "static_inputs": ["age"], "class_weights": "balanced", "weight": "weight", "epochs": 8, "batch_size": 32,
        "lr": 0.05, "schedule": "constant", "keep": "last", "checkpoint_every": 3,
    }  # fmt: skip
    whole = ev.fine_tune(base, events, people, ["churn", "spend"], **options)
    tune = (base, events, people, ["churn", "spend"])
    with pytest.raises(Interrupted):
        ev.fine_tune(*tune, out=tmp_path / "run", progress=interrupt_after(31), **options)
    ev.fine_tune(*tune, out=tmp_path / "run", resume=True, **options)
    loaded = ev.load(tmp_path / "run")
    assert same(weights(loaded.method), weights(whole.method))
    assert loaded.info.get("temperatures") == whole.info.get("temperatures")
    assert ev.predict(loaded, events, static=people).equals(ev.predict(whole, events, static=people))
    assert loaded.config["method"] == {
        "name": "supervised", "label": ["churn", "spend"], "batch_norm": False, "static_inputs": ["age"],
        "class_weights": "balanced", "weight": "weight", "inclusive": False,
    }  # fmt: skip


def test_inputs_on_the_command_line(tmp_path: Path) -> None:
    events, people = frames()
    events.write_parquet(tmp_path / "events.parquet")
    people.write_parquet(tmp_path / "people.parquet")
    (tmp_path / "config.toml").write_text(
        f"""
[data]
path = "{tmp_path}/events.parquet"
key = "id"
time = "t"
categorical = ["code"]
static = "{tmp_path}/people.parquet"

[method]
name = "supervised"
label = "churn"
static_inputs = ["segment"]

[fit]
epochs = 1
"""
    )
    answer("fit", tmp_path / "config.toml", "--out", tmp_path / "run", "--device", "cpu")
    predict = (
        "predict",
        tmp_path / "run",
        tmp_path / "events.parquet",
        "-o",
        tmp_path / "p.parquet",
        "--device",
        "cpu",
    )
    result = invoke(*predict)
    assert result.exit_code == 1, result.output
    assert "give a table with these columns: static= (--static)" in " ".join(result.output.split())
    assert not (tmp_path / "p.parquet").exists()
    assert answer(*predict, "--static", tmp_path / "people.parquet")["rows"] == ENTITIES
    people.write_parquet(tmp_path / "p.parquet")  # not a file of predictions
    assert "is an input" in " ".join(invoke(*predict, "--static", tmp_path / "p.parquet").output.split())
