"""Planted leaks are found, runs without one pass, and questions without an answer are named."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from commands import answer, invoke
from eventvec.statistics.estimates import decimal
from eventvec.statistics.intervals import quantile
from pages import Reader

FAST = ["logistic_regression"]


def events(entities: int = 160, count: int = 12, habits: bool = True, seed: int = 0) -> pl.DataFrame:
    """Return events of entities, each with its own preferred codes if it has habits, otherwise all alike."""
    rng = np.random.default_rng(seed)
    n = entities * count
    preferred = np.repeat(rng.integers(0, 12, entities), count)
    code = np.where(rng.random(n) < (0.8 if habits else 0.0), preferred, rng.integers(0, 12, n))
    card, day = np.repeat(np.arange(entities), count), np.tile(np.arange(count), entities)
    return pl.DataFrame({"card": card, "day": day, "code": code.astype(str), "paid": rng.normal(size=n)})


@cache
def run_of(habits: bool) -> tuple[ev.Model, pl.DataFrame]:
    table = events(habits=habits)
    data = ev.read(table, key="card", time="day", categorical=["code"], numeric=["paid"], holdout=0.4)
    tables = {"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": 32}, "fit": {"beside": []}}
    return ev.fit(data, method=tables, epochs=1, validation=0), table


def found(audit: ev.Answer, question: str) -> dict[str, str]:
    return {row["name"]: row["answer"] for row in audit.rows if row["question"] == question}


def verdict(audit: ev.Answer) -> str:
    return " ".join(audit.verdict)


def test_a_protected_column_that_habits_reveal_is_found_and_a_random_one_is_not() -> None:
    run, table = run_of(habits=True)
    first = table.group_by("card", maintain_order=True).agg(pl.col("code").mode().first().cast(pl.Int64))
    rng = np.random.default_rng(3)
    people = first.select("card", old=pl.col("code") < 6, coin=pl.Series(rng.random(160) < 0.5))
    audit = ev.audit(run, table, people, models=FAST)
    assert found(audit, "attribute") == {"old": "yes", "coin": "not found"}
    assert "'old'" in audit.verdict[0]
    assert "'coin'" not in verdict(audit)
    coin = audit.row(name="coin")["score"]
    assert audit.notes[1].startswith("coin was not found in the vectors")
    assert f"a score above {decimal(max(coin.value, 0.5) + coin.half_width)} can be excluded" in audit.notes[1]


def test_what_only_training_knows_is_beyond_the_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    run, table = run_of(habits=False)
    secret = np.random.default_rng(5).random(160) < 0.5
    people = pl.DataFrame({"card": np.arange(160), "secret": secret})

    def leaking(encoder: Any, data: Any, **options: Any) -> ev.Embeddings:
        z = ev.embed(encoder, data)
        vectors = np.concatenate([z.values, secret[:, None] + 0.3 * np.random.default_rng(6).normal(size=(160, 1))], 1)
        return ev.Embeddings.of(data, vectors, run.lineage.to_dict())

    honest = ev.audit(run, table, people, models=FAST)
    monkeypatch.setattr("eventvec.auditing.privacy_audit.embed", leaking)
    planted = ev.audit(run, table, people, models=FAST)
    assert honest.rows[0]["answer"] == "not found"
    assert (planted.rows[0]["answer"], planted.rows[0]["beyond"]) == ("yes", True)
    assert planted.verdict[1] == "They go beyond simple features of the same events in 'secret'."
    assert "They reveal more than" in planted.notes[0]
    assert {*planted.rows[0]["others"]} == {"aggregates", "handcrafted", "event_count", "untrained"}


def test_halves_of_histories_with_habits_are_linked_and_those_without_are_not() -> None:
    leaky = ev.audit(*run_of(habits=True))
    clean = ev.audit(run_of(habits=False)[0], events(habits=False, seed=1))
    assert found(leaky, "linkage") == {"halves of histories": "yes"}
    assert "link two parts of one history" in leaky.verdict[0]
    assert found(clean, "linkage") == {"halves of histories": "not found"}
    assert "could not be linked" in clean.notes[0]
    assert clean.verdict[0] == "No leak was found, as far as the audit can see."


def test_an_encoder_that_knows_its_training_data_by_heart_is_found_and_one_of_one_epoch_is_not() -> None:
    table = events(80, habits=False)
    data = ev.read(table, key="card", time="day", categorical=["code"], numeric=["paid"], holdout=0.45)
    tables = {"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": 64}, "fit": {"beside": [], "lr": 0.02}}
    by_heart = ev.audit(ev.fit(data, method=tables, epochs=100, validation=0), table)
    clean = ev.audit(*run_of(habits=False))
    assert "yes" in found(by_heart, "membership").values()
    assert "show who was in the training data" in by_heart.verdict[0]
    assert set(found(clean, "membership").values()) == {"not found"}


def test_what_cannot_be_told_is_said() -> None:
    run, table = run_of(habits=True)
    later = ev.audit(run, table.filter(pl.col("day") < 8))
    assert found(later, "membership") == {"all attacks": "unknown"}
    assert "differ from those of the training" in later.notes[1]
    assert "The audit has no answer about membership." in later.verdict
    short = ev.audit(run, table.filter(pl.col("day") < 3))
    assert found(short, "linkage") == {"halves of histories": "unknown"}
    data = ev.read(table, key="card", time="day", categorical=["code"])
    none = ev.audit(ev.fit(data, method="coles", epochs=1, beside=[]), table)
    assert "the run held no entities out; train with a share held out" in none.notes[1]


def test_entities_that_differ_from_those_held_out_are_no_members() -> None:
    run, table = run_of(habits=False)
    data = run.read(table)
    held_out = run.embed(data).held_out
    other = table.with_columns(
        pl.when(pl.Series(np.repeat(held_out, 12))).then(pl.lit("3")).otherwise("code").alias("code")
    )
    audit = ev.audit(run, other)
    assert "differ in the aggregates of their events already" in audit.notes[1]


def test_a_constant_column_cannot_be_told_and_an_absent_one_is_refused() -> None:
    run, table = run_of(habits=True)
    people = pl.DataFrame({"card": np.arange(160), "same": "x", "none": pl.Series([None] * 160, dtype=pl.String)})
    audit = ev.audit(run, table, people, models=FAST)
    assert found(audit, "attribute") == {"same": "unknown", "none": "unknown"}
    for error, sentence, options in (
        (ev.ConfigError, "no column 'age'", {"protected": people, "columns": ["age"]}),
        (ev.ConfigError, "columns are named without the table", {"columns": ["age"]}),
        (ev.ConfigError, "columns must be a list", {"protected": people, "columns": "same"}),
        (ev.ConfigError, "has no column besides the key", {"protected": people.select("card")}),
        (ev.DataError, "'card'", {"protected": people.rename({"card": "id"}), "columns": ["same"]}),
    ):
        with pytest.raises(error, match=sentence):
            ev.audit(run, table, models=FAST, **options)
    with pytest.raises(ev.ConfigError, match="the model must be a Model, got str"):
        ev.audit("run", table)  # type: ignore[arg-type]


def test_guessing_knows_the_classes_of_the_audited_people_only() -> None:
    run, table = run_of(habits=True)
    rng = np.random.default_rng(4)
    here = rng.permutation(np.repeat(["a", "b", "c"], [80, 40, 40]))
    elsewhere = pl.DataFrame({"card": np.arange(1000, 2000), "town": "c"})
    people = pl.concat([pl.DataFrame({"card": np.arange(160), "town": here}), elsewhere])
    town = ev.audit(run, table, people, models=FAST).row(question="attribute")
    assert (town["metric"], town["chance"], town["answer"]) == ("accuracy", 0.5, "not found")


def test_columns_share_one_false_alarm_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    run, table = run_of(habits=True)
    rng = np.random.default_rng(9)
    coins = {f"coin{i}": rng.random(160) < 0.5 for i in range(2)}
    audit = ev.audit(run, table, pl.DataFrame({"card": np.arange(160), **coins}), models=FAST)
    alone = ev.audit(run, table, pl.DataFrame({"card": np.arange(160), "coin0": coins["coin0"]}), models=FAST)
    widths = [each.rows[0]["score"].half_width for each in (audit, alone)]
    assert widths[0] / widths[1] == pytest.approx(quantile(0.05 / 2) / quantile(0.05))
    assert "yes" not in found(audit, "attribute").values()


def test_the_command_prints_what_python_returns_and_writes_a_page(tmp_path: Path) -> None:
    run, table = run_of(habits=True)
    run.save(tmp_path / "run")
    table.write_parquet(tmp_path / "events.parquet")
    people = pl.DataFrame({"card": np.arange(160), "<b>old</b>": np.arange(160) % 2 == 0})
    people.write_parquet(tmp_path / "people.parquet")
    options = ("--protected", tmp_path / "people.parquet", "--models", FAST[0])
    given = answer("audit", tmp_path / "run", tmp_path / "events.parquet", *options, "-o", tmp_path / "audit.html")
    expected = ev.audit(ev.load(tmp_path / "run"), tmp_path / "events.parquet", people, models=FAST).to_dict()
    assert given == expected
    page = Reader((tmp_path / "audit.html").read_text())
    text = " ".join(page.texts)
    for part in (*expected["verdict"].split(". "), "What can be done", "Not covered", "<b>old</b>"):
        assert part in text
    shown = invoke("audit", tmp_path / "run", tmp_path / "events.parquet")
    assert shown.exit_code == 0
    assert "link two parts of one history" in shown.stdout
    assert len(shown.stdout.splitlines()) <= 5
    assert "Not covered: " in invoke("audit", tmp_path / "run", tmp_path / "events.parquet", "--full").stdout
    refused = invoke("audit", tmp_path / "run", tmp_path / "events.parquet", "-o", tmp_path / "events.parquet")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)


@pytest.mark.slow
def test_a_clean_run_is_seldom_accused() -> None:
    """120 clean runs: how often each question is answered with yes."""
    yes: dict[str, int] = {"attribute": 0, "linkage": 0, "membership": 0}
    draws = 120
    for seed in range(draws):
        table = events(120, habits=False, seed=1000 + seed)
        data = ev.read(
            table, key="card", time="day", categorical=["code"], numeric=["paid"], holdout=0.4, holdout_seed=seed
        )
        tables = {"method": {"name": "coles"}, "encoder": {"name": "gru", "dim": 8}, "fit": {"beside": []}}
        rng = np.random.default_rng(seed)
        coins = {f"coin{i}": rng.random(120) < 0.5 for i in range(3)}
        people = pl.DataFrame({"card": np.arange(120), **coins})
        run = ev.fit(data, method=tables, epochs=1, validation=0, seed=seed)
        audit = ev.audit(run, table, people, models=FAST, seed=seed)
        for question in yes:
            yes[question] += "yes" in found(audit, question).values()
    print(yes)  # noqa: T201
    assert all(count <= draws * 0.05 + 3 * np.sqrt(draws * 0.05 * 0.95) for count in yes.values()), yes
