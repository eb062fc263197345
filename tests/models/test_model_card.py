"""The model card says what the run has, with the scores of its evaluations and of no others."""

from __future__ import annotations

import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventvec as ev
from commands import customer_labels, invoke, purchases
from eventvec.methods.declarations import declared
from eventvec.models.model_card import code, plain, render_card
from fits import change, sign

CUSTOMERS = [f"secret{i:02}" for i in range(60)]


@pytest.fixture(scope="module")
def events() -> pl.DataFrame:
    table = purchases(CUSTOMERS, 12)
    return table.with_columns(pl.when(pl.col("amount") > 2).then("amount"))


@pytest.fixture(scope="module")
def run(events: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> ev.Model:
    out = tmp_path_factory.mktemp("card") / "run"
    data = ev.read(events, key="customer", time="when", holdout=0.25, until="2024-01-15")
    return ev.fit(data, method={"method": {"name": "coles"}, "encoder": {"dim": 8}}, epochs=2, out=out)


def evaluation(run: ev.Model, events: pl.DataFrame, **options: Any) -> ev.Answer:
    z = run.embed(events, until="2024-01-15")
    return ev.evaluate(z, None, customer_labels(CUSTOMERS), "likes", models=["logistic_regression"], **options)


def test_the_card_of_a_run_has_its_data_settings_and_limits(run: ev.Model, events: pl.DataFrame) -> None:
    assert run.path is not None
    text = (run.path / "README.md").read_text()
    assert text == ev.card(run) == ev.card(ev.load(run.path)) == ev.card(run.path)
    data = ev.read(events, key="customer", time="when", holdout=0.25, until="2024-01-15")
    used = events.filter(pl.col("when") < pl.lit("2024-01-15").str.to_datetime())
    used = used.filter(pl.col("customer").is_in(data.keys.to_pylist()))
    first, last = (f"{day:%Y-%m-%d}" for day in (used["when"].min(), used["when"].max()))  # type: ignore[str-format]
    missing = 100 * used["amount"].null_count() / len(used)
    for line in (
        f"| entities, events | {len(data)}, {len(used)} |",
        f"| period | {first} to {last} |",
        "| events used | before 2024-01-15 |",
        "| entities held out of training | 25 %, seed 0 |",
        "| events of an entity | 10 to 10 (median 10) |",
        f"- Values that are missing in the training data: `amount` {missing:.3g} %.",
        "- Not tested: no evaluation is part of this card.",
        "eventvec update MODEL today.parquet --state state.db -o fresh.parquet",
        "margin = 0.5",
    ):
        assert line in text.splitlines(), line
    assert "secret" not in text


def test_scores_come_from_evaluations_of_the_run(run: ev.Model, events: pl.DataFrame, tmp_path: Path) -> None:
    held_out = evaluation(run, events, holdout=True)
    (tmp_path / "likes.json").write_text(json.dumps(held_out.to_dict()))
    text = ev.card(run, [held_out])
    assert text == ev.card(run, [tmp_path / "likes.json"])
    result = held_out.basis.get("embedding", "logistic_regression").main
    assert f"| `embedding` | `logistic_regression` | {result.estimate} |" in text
    assert "- Tested on likes alone" in text
    assert "(`--holdout`)" not in text  # it was
    assert "(`--split-at`)" in text
    assert "(`--holdout`)" in ev.card(run, [evaluation(run, events)])


def test_evaluations_of_another_run_are_refused(run: ev.Model, events: pl.DataFrame, tmp_path: Path) -> None:
    e = evaluation(run, events)
    with pytest.raises(ev.DataError, match=f"the evaluation is of run 'other', and the card is of run {run.id}"):
        ev.card(run, [replace(e, facts={**e.facts, "run": "other"})])
    with pytest.raises(ev.DataError, match="the evaluation names no run"):
        ev.card(run, [replace(e, facts={**e.facts, "run": None})])
    for name, text, message in (
        ("a.json", "{}", "is not what `eventvec evaluate --json` printed: label: Field required"),
        ("b.json", json.dumps({**e.to_dict(), "results": []}), "has no results"),
        ("c.json", "[1", "is not what `eventvec evaluate --json` printed"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ev.DataError, match=message):
            ev.card(run, [tmp_path / name])
    with pytest.raises(ev.DataError, match=r"absent\.json cannot be read: No such file"):
        ev.card(run, [tmp_path / "absent.json"])


def test_a_card_is_saved_only_if_asked(run: ev.Model, events: pl.DataFrame, tmp_path: Path) -> None:
    assert run.path is not None
    folder = tmp_path / "run"
    shutil.copytree(run.path, folder)
    loaded, e = ev.load(folder), evaluation(run, events)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    text = ev.card(loaded, [e])
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert ev.card(loaded, [e], save=True) == text
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {name for name in after if after[name] != before[name]} == {"README.md"}
    assert (folder / "README.md").read_text() == text
    assert ev.load(folder).id == run.id
    with pytest.raises(ev.ConfigError, match="has no folder; save it first"):
        ev.card(replace(loaded, path=None), save=True)
    other = ev.fit(ev.read(events, key="customer", time="when"), method="ocp", epochs=1, out=tmp_path / "other")
    with pytest.raises(ev.CheckpointError, match="holds another run by now"):
        ev.card(replace(loaded, path=other.path), save=True)


def test_with_events_it_says_what_most_histories_are_like(run: ev.Model, events: pl.DataFrame, tmp_path: Path) -> None:
    text = ev.card(run, events=events)
    start, end = "\n## What most histories are like\n\n", "\n\n## Settings"
    section = text.partition(start)[2].partition(end)[0]
    assert text.replace(f"{start}{section}\n", "") == ev.card(run)
    table = ev.describe(run.read(events), most=1_000)
    n = table["customer"].n_unique()
    shares = {text: len(part) / n for (text,), part in table.group_by("sentence")}
    common = sorted(((-share, text) for text, share in shares.items() if share >= 0.5))[:10]
    assert section.splitlines() == [f"- {plain(text)} ({-100 * share:.0f} %)" for share, text in common]
    assert len(common) > 3
    path = tmp_path / "events.parquet"
    events.write_parquet(path)
    assert invoke("card", run.path, "--events", path).output == text
    with pytest.raises(ev.DataError, match="nothing to describe"):
        ev.card(run, events=run.read(events)[:0])
    info = {**run.info, "vector": run.vector}
    assert "- No sentence is true of 50 % of them." in render_card(run.config, run.schema, info, common={})


def test_the_command_prints_writes_and_saves_the_card(run: ev.Model, events: pl.DataFrame, tmp_path: Path) -> None:
    assert run.path is not None
    e = evaluation(run, events)
    (tmp_path / "likes.json").write_text(json.dumps(e.to_dict()))
    expected = ev.card(run, [e])
    printed = invoke("card", run.path, tmp_path / "likes.json")
    assert (printed.exit_code, printed.stdout) == (0, expected)
    assert invoke("card", run.path, tmp_path / "likes.json", "-o", tmp_path / "card.md").exit_code == 0
    assert (tmp_path / "card.md").read_text() == expected
    assert stat.S_IMODE((tmp_path / "card.md").stat().st_mode) == 0o600
    assert invoke("card", run.path, "-o", tmp_path / "likes.json").exit_code == 2  # eventvec wrote no such file
    assert invoke("card", run.path, "-o", run.path / "card.md").exit_code == 2
    assert invoke("card", run.path, "-o", tmp_path / "new.md", "--save").exit_code == 2
    assert invoke("card", run.path, tmp_path / "card.md").exit_code == 1
    shutil.copytree(run.path, tmp_path / "run")
    saved = invoke("card", tmp_path / "run", tmp_path / "likes.json", "--save")
    assert (saved.exit_code, saved.stdout) == (0, "")
    assert (tmp_path / "run" / "README.md").read_text() == expected


def test_the_card_of_a_folder_is_that_of_the_run_in_it(events: pl.DataFrame, tmp_path: Path) -> None:
    places = {"covariates": ["time", "bought"], "observations": ["amount"]}
    tables = {"method": {"name": "cnp"}, "encoder": {"name": "set", "dim": 8, "events": places}}
    data = ev.read(events.drop_nulls(), key="customer", time="when")
    with_paragraph = ev.fit(data, method=tables, epochs=1, out=tmp_path / "run")
    assert declared(with_paragraph.method).card.strip() in ev.card(tmp_path / "run")
    assert ev.card(tmp_path / "run") == ev.card(with_paragraph) == ev.card(with_paragraph, save=True)


def test_a_folder_without_a_finished_run_has_no_card(run: ev.Model, events: pl.DataFrame, tmp_path: Path) -> None:
    assert run.path is not None
    with pytest.raises(ev.CheckpointError, match=r"is no model folder: it has no model\.json"):
        ev.card(tmp_path)
    shutil.copytree(run.path, tmp_path / "run")
    for name, content, error, message in (
        ("model.json", json.dumps({**run.info, "finished": False}), ev.CheckpointError, "has not finished; resume it"),
        ("config.toml", "encoder = 3", ev.CheckpointError, r"config\.toml is damaged: encoder must be a table"),
        ("config.toml", '[method]\nname = "colse"', ev.CheckpointError, "needs what its config.toml names: encoder"),
        (
            "config.toml",
            "",
            ev.ConfigError,
            f"the model {run.id} has no card, because the method of its encoder has no name",
        ),
        ("schema.json", "{}", ev.CheckpointError, r"schema\.json is damaged"),
    ):
        before = (tmp_path / "run" / name).read_bytes()
        (tmp_path / "run" / name).write_text(content)
        sign(tmp_path / "run")
        with pytest.raises(error, match=message):
            ev.card(tmp_path / "run")
        (tmp_path / "run" / name).write_bytes(before)


def test_a_model_of_features_has_a_card(events: pl.DataFrame, tmp_path: Path) -> None:
    features = ev.features(events, key="customer", time="when", save=tmp_path / "features")
    assert len(features) == len(CUSTOMERS)
    assert "with the blocks `handcrafted` and no trained encoder" in ev.card(tmp_path / "features")


def test_damaged_facts_of_a_run_are_refused(run: ev.Model, tmp_path: Path) -> None:
    assert run.path is not None
    shutil.copytree(run.path, tmp_path / "run")
    for damage in ({"period": [1]}, {"lengths": {"shortest": 1}}, {"columns": {"shop": {"missing": "<b>"}}}):
        change(tmp_path / "run" / "model.json", "data", damage)
        with pytest.raises(ev.CheckpointError, match=r"model\.json is damaged: data\."):
            ev.load(tmp_path / "run")


def test_names_in_a_card_are_no_markup(run: ev.Model) -> None:
    hostile = "a`|<script>alert(1)</script>\n# heading"
    assert code(hostile) == "`a'\\|<script>alert(1)</script> # heading`"  # code is shown as it is
    assert plain("_a_ [x](javascript:y) <b> my_label") == "\\_a\\_ \\[x\\](javascript:y) &lt;b&gt; my_label"
    schema = replace(run.schema, numeric=(replace(run.schema.numeric[0], name=hostile),))
    score = {"label": hostile, "metric": "auroc", "n": 3, "folds": 5, "protocol": hostile, "verdict": hostile}
    row = {"features": hostile, "model": "knn", "fraction": 1.0, "score": {"value": 0.5, "low": 0.4, "high": None}}
    info = {**run.info, "vector": run.vector}
    text = render_card(run.config, schema, info, "", [{**score, "results": [row]}])
    assert "\n# heading" not in text
    outside_code = "".join(part for i, part in enumerate(text.replace("\\`", "").split("`")) if i % 2 == 0)
    assert "<script>" not in outside_code
