"""Equal periods raise few alarms, a planted shift is found where it is, and the result is shown in every form."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from benchmarks.false_alarms import COLUMNS, DESIGNS, as_if_independent, found, periods
from scipy import stats

import eventvec as ev
from commands import answer, invoke
from pages import HOSTILE, Reader


def drawn(seed: int, same: float = 0.5, factor: float = 1.0, entities: int = 60) -> tuple[pl.DataFrame, pl.DataFrame]:
    return periods(np.random.default_rng(seed), entities, same, factor)


def names(result: ev.Answer) -> list[str]:
    return [shift["name"] for shift in result.rows if shift["shifted"]]


@pytest.fixture(scope="module")
def run() -> ev.Model:
    table = drawn(99, entities=100)[0]
    data = ev.read(table, **COLUMNS)
    return ev.fit(data, method={"method": {"name": "coles"}, "encoder": {"dim": 8}}, epochs=1, beside=["timing"])


@pytest.mark.parametrize("same", DESIGNS.values(), ids=str)
def test_equal_periods_raise_few_alarms(same: float) -> None:
    """In 60 repeats, p-values that are right give more than 8 alarms with a probability below .005."""
    alarms = sum(bool(found(*drawn(seed, same), seed, fast=199)) for seed in range(60))
    assert stats.binom.sf(8, 60, 0.05) < 0.005
    assert alarms <= 8


def test_tests_that_take_events_as_independent_raise_many_alarms() -> None:
    """The generated entities have habits, so that the test above would fail for a test of events."""
    assert sum(as_if_independent(*drawn(seed, 0.0)) for seed in range(20)) >= 18


@pytest.mark.slow
@pytest.mark.parametrize("same", DESIGNS.values(), ids=str)
def test_the_rate_of_false_alarms_is_at_most_the_level(same: float, run: ev.Model) -> None:
    alarms = sum(bool(found(*drawn(seed, same, entities=150), seed, run)) for seed in range(500))
    assert stats.binomtest(alarms, 500, 0.05, alternative="greater").pvalue > 0.01


@pytest.mark.parametrize("same", DESIGNS.values(), ids=str)
def test_a_planted_shift_is_found_in_its_column_only(same: float) -> None:
    result = ev.drift(*drawn(1, same, 1.8, entities=200), **COLUMNS)
    assert names(result) == ["paid"]
    paid = result.row(name="paid")
    assert paid["distance"] > 2 * paid["noise"]
    assert paid["new"] < paid["old"]  # fewer amounts up to the edge
    (line,) = result.verdict
    assert line.startswith("1 of 5 inputs differ between the periods, at a false-alarm rate of 5 %")
    assert "'paid' (≤ " in line


@pytest.mark.parametrize(
    ("change", "column", "where"),
    [
        (pl.col("shop").replace("a", "new shop"), "shop", "'new shop'"),
        (pl.when(pl.col("when").dt.minute() > 30).then("paid"), "paid", "missing"),
        (pl.col("when") - pl.duration(hours=pl.col("when").dt.hour()), "hour of the day", "00:00"),
    ],
)
def test_new_values_missing_values_and_hours_are_named(change: pl.Expr, column: str, where: str) -> None:
    old, new = drawn(2, entities=150)
    shift = ev.drift(old, new.with_columns(change), **COLUMNS).row(name=column)
    assert shift["shifted"]
    assert shift["where"] == where
    if where == "missing":
        assert shift["missing"] == (shift["old"], shift["new"])


def test_more_events_are_found_in_counts_and_gaps() -> None:
    old, new = drawn(3, entities=150)
    assert set(names(ev.drift(old, pl.concat([new, new, new]), **COLUMNS))) >= {"events per entity", "gap"}


def test_the_same_entities_are_compared_with_themselves() -> None:
    """A shift that is small beside the differences between entities is found if the entities are the same."""
    old, new = drawn(4, 1.0, 1.15, entities=150)
    others = new.with_columns(card=pl.col("card") + 1000)
    assert "paid" in names(ev.drift(old, new, **COLUMNS))
    assert "paid" not in names(ev.drift(old, others, **COLUMNS))


def test_a_shift_of_the_embeddings_is_found(run: ev.Model) -> None:
    same = ev.drift(*drawn(5, entities=200), model=run)
    assert [shift["name"] for shift in same.rows][-2:] == ["embedding: learned", "embedding: timing"]
    assert names(same) == []
    assert same.verdict[0].startswith("No difference between the periods was found in 5 inputs and the embeddings")
    other = ev.drift(*drawn(5, 0.5, 4.0, entities=200), model=run)
    assert names(other) == ["paid", "embedding: learned"]
    assert other.rows[-2]["auroc"] > 0.6
    assert other.verdict[1].startswith("The embeddings differ: embedding: learned (told apart with an AUROC of 0.")


def test_files_of_embeddings_are_compared_as_they_are(run: ev.Model, tmp_path: Path) -> None:
    old, new = drawn(5, 0.5, 4.0, entities=200)
    for name, table in (("old", old), ("new", new)):
        ev.write(tmp_path / f"{name}.parquet", run.embed(table))
    result = ev.drift(tmp_path / "old.parquet", str(tmp_path / "new.parquet"))
    assert [shift["name"] for shift in result.rows] == ["events per entity", "embedding: learned", "embedding: timing"]
    assert names(result) == ["embedding: learned"]
    of_tables = ev.drift(old, new, model=run)
    learned = of_tables.row(name="embedding: learned")
    assert result.rows[1]["distance"] == pytest.approx(learned["distance"], abs=1e-5)


def test_embeddings_in_databases_are_compared_as_those_in_files(run: ev.Model, tmp_path: Path) -> None:
    tables = drawn(5, 0.5, 4.0, entities=60)
    places = [tmp_path / "old.parquet", tmp_path / "new.parquet"]
    addresses = [f"duckdb://{tmp_path}/shop.db#old", f"delta://{tmp_path}/new"]
    for table, *written in zip(tables, places, addresses, strict=True):
        for place in written:
            ev.write(place, run.embed(table))
    assert ev.drift(*addresses).to_dict() == ev.drift(*places).to_dict()
    assert ev.drift(addresses[0], places[1]).to_dict() == ev.drift(*places).to_dict()


def test_entities_of_the_training_are_left_out_if_asked(run: ev.Model) -> None:
    old, new = drawn(6, 1.0, entities=100)
    trained = ev.fit(ev.read(old, **COLUMNS, holdout=0.4), method="ocp", epochs=1)
    result = ev.drift(old, new, model=trained, held_out=True)
    expected = int(ev.tables.holdout_mask(ev.read(old, **COLUMNS).keys, 0.4, 0).sum())
    assert result.facts["entities"] == {"both": expected, "old_only": 0, "new_only": 0}
    whole = ev.fit(ev.read(old, **COLUMNS), method="ocp", epochs=1)
    assert "the old period is what the model was trained on" in " ".join(ev.drift(old, new, model=whole).notes)
    with pytest.raises(ev.ConfigError, match="the run held no entities out"):
        ev.drift(old, new, model=whole, held_out=True)


def test_gaps_before_a_period_play_no_role() -> None:
    """Data sets whose rows are cut from longer histories are compared like tables of the period alone."""
    old, new = drawn(7, 1.0, entities=40)
    data = ev.read(pl.concat([old, new]), **COLUMNS)
    x = data.sequences
    middle = int(new["when"].cast(pl.Int64).min())  # type: ignore[arg-type]
    before = ev.searchsorted(x, "time", torch.full((len(x),), middle))
    parts = [
        replace(data, sequences=x.slice(torch.arange(len(x)), start, length))
        for start, length in ((torch.zeros_like(before), before), (before, x.lengths - before))
    ]
    tables = [ev.read(table, schema=data.schema) for table in (old, new)]
    assert ev.drift(*parts).to_dict() == ev.drift(*tables).to_dict()


def test_a_sample_is_drawn_and_noted() -> None:
    old, new = drawn(8, entities=100)
    result = ev.drift(old, new, entities=20, **COLUMNS)
    assert list(result.facts["entities"].values()) == [50, 50, 50]
    assert list(result.facts["sampled"].values()) == [10, 10, 10]
    assert "a random sample of the entities was compared (seed 0)" in result.notes
    assert result.notes[0].endswith("compared: 10, 10 and 10")
    assert ev.drift(old, new, entities=20, **COLUMNS).to_dict() == result.to_dict()
    assert ev.drift(old, new, entities=20, seed=1, **COLUMNS).to_dict() != result.to_dict()


def test_few_entities_and_unequal_periods_are_noted() -> None:
    old, new = drawn(9, 1.0, entities=5)
    assert "too few to find any difference" in " ".join(ev.drift(old, new, **COLUMNS).notes)
    start = old["when"].min()
    week = old.filter(pl.col("when") < start + pl.duration(days=7))
    notes = " ".join(ev.drift(week, new, **COLUMNS).notes)
    assert re.search(r"the old period spans [67]\S* days and the new one [23]\d\S* days", notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0.0}, r"level must be above 0 and below 1, got 0\.0"),
        ({"entities": 1}, "entities must be at least 2, got 1"),
        ({"permutations": 18}, "permutations must be at least 19, got 18"),
        ({"permutations": 2**62}, "permutations must be at most 100,000, got 4611686018427387904"),
        ({"permutations": 98}, "permutations must be at least 99 for 5 tests at level 0.05, got 98"),
        ({"held_out": True}, "held_out needs a model"),
        ({"levels": 0.1}, "there is no option 'levels'; did you mean 'level'"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.ConfigError, match=message):
        ev.drift(*drawn(0, entities=10), **COLUMNS, **options)


def test_periods_that_do_not_go_together_are_refused(run: ev.Model) -> None:
    old, new = drawn(0, entities=10)
    data, z = ev.read(old, **COLUMNS), run.embed(old)
    with pytest.raises(ev.ConfigError, match="one period is a data set and the other a table"):
        ev.drift(data, new)
    with pytest.raises(ev.ConfigError, match="one period is embeddings and the other events"):
        ev.drift(z, new)
    with pytest.raises(ev.ConfigError, match="model applies to tables of events"):
        ev.drift(z, z, model=run)
    with pytest.raises(ev.ConfigError, match="key does not apply with a model"):
        ev.drift(old, new, model=run, key="card")
    with pytest.raises(ev.DataError, match="read by different schemas, which differ in categorical"):
        ev.drift(data, ev.read(new, key="card", time="when", categorical=["shop"], numeric=[]))
    other = ev.fit(data, method="ocp", epochs=1, validation=0)
    with pytest.raises(ev.DataError, match="embeddings are of different models"):
        ev.drift(z, other.embed(new))
    with pytest.raises(ev.DataError, match="the new period has 1 entities to compare"):
        ev.drift(old, new.filter(pl.col("card") == new["card"][0]), **COLUMNS)
    with pytest.raises(ev.ConfigError, match="several tables of a period need a model"):
        ev.drift({"cards": old}, {"cards": new}, **COLUMNS)
    with pytest.raises(ev.ConfigError, match="the model must be a Model"):
        ev.drift(old, new, model="run")  # type: ignore[arg-type]


def test_keys_are_in_no_result_and_hostile_names_do_no_harm() -> None:
    old, new = (table.with_columns(pl.format("secret-{}", "card").alias("card")) for table in drawn(0, entities=60))
    renamed = [table.rename({"paid": HOSTILE}) for table in (old, new.with_columns(shop=pl.lit(HOSTILE)))]
    result = ev.drift(*renamed, key="card", time="when", categorical=["shop"], numeric=[HOSTILE])
    text = result.html
    assert "secret" not in text
    assert "secret" not in json.dumps(result.to_dict())
    reader = Reader(text)
    assert not any(name == "onerror" for _, name, _ in reader.attributes)
    assert any(HOSTILE in part for part in reader.texts)
    assert "<img" not in text


def test_the_command_prints_what_python_returns(tmp_path: Path, run: ev.Model) -> None:
    old, new = drawn(1, 0.5, 1.8, entities=60)
    old.write_parquet(tmp_path / "old.parquet")
    new.write_parquet(tmp_path / "new.parquet")
    run.save(tmp_path / "run")
    files = (tmp_path / "old.parquet", tmp_path / "new.parquet")
    columns = ("--key", "card", "--time", "when", "--categorical", "shop", "--numeric", "paid")
    assert answer("drift", *files, *columns, "--seed", 3) == ev.drift(*files, **COLUMNS, seed=3).to_dict()
    embedded = [file.with_suffix(".z.parquet") for file in files]
    for file, place in zip(files, embedded, strict=True):
        ev.write(place, run.embed(file))
    printed = answer("drift", *embedded, "-o", tmp_path / "drift.html")
    assert printed == ev.drift(*embedded).to_dict()
    assert stat.S_IMODE((tmp_path / "drift.html").stat().st_mode) == 0o600
    reader = Reader((tmp_path / "drift.html").read_text())
    assert printed["verdict"] in reader.texts
    assert "All distances" in reader.texts
    with_run = answer("drift", *files, "--model", tmp_path / "run", "--permutations", 999, "--device", "cpu")
    assert with_run == ev.drift(*files, model=run, permutations=999).to_dict()
    assert invoke("drift", *files, *columns, "--fail").exit_code == 3
    assert invoke("drift", files[0], files[0], *columns, "--fail").exit_code == 0
    wrong = invoke("drift", *files, *columns, "--level", 2)
    assert wrong.exit_code == 2
    assert "level must be above 0 and below 1, got 2.0" in wrong.output
    assert invoke("drift", *files, *columns, "-o", files[0]).exit_code == 2
    assert invoke("drift", tmp_path / "absent.parquet", files[1], *columns).exit_code == 1


def test_columns_that_are_left_out_are_noted_and_meds_tables_are_read() -> None:
    old, new = (table.with_columns(kind=pl.lit("card")) for table in drawn(0, entities=20))
    result = ev.drift(old, new, key="card", time="when")
    assert result.notes[1:] == ("column 'kind' is left out: it is constant",)
    assert [shift["name"] for shift in result.rows][3:] == ["paid", "shop"]
    names = {"card": "subject_id", "when": "time", "shop": "code", "paid": "numeric_value"}
    meds = [table.select(*names).rename(names) for table in (old, new)]
    born = meds[0].head(3).with_columns(pl.lit(None, pl.Datetime("us")).alias("time"))
    assert len(ev.drift(pl.concat([born, meds[0]]), meds[1], meds=True).rows) == 5
