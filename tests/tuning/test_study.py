"""Searches on small data: what is tried, pruned, resumed and tested, and what the test entities change."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import polars as pl
import pytest
import torch

import eventvec as ev
import fits
from commands import answer, invoke
from eventvec.cli import page_commands
from eventvec.evaluation.result import Evaluation, Result
from eventvec.files import locked
from eventvec.statistics import Scores
from eventvec.tables import holdout_mask
from eventvec.toml_tables import change
from eventvec.tuning import study
from eventvec.tuning.tuned import decision

OPTIONS: dict[str, Any] = {
    "epochs": 3, "trials": 3, "holdout": 0.4, "folds": 2, "seed": 1,
    "settings": {"encoder.dim": [4, 8], "fit.lr": [1e-9, 0.01]},
}  # fmt: skip

TOO_LONG = {
    "method": {"name": "coles", "views": {"name": "random_slices", "count": 2, "shortest": 50, "longest": 60}},
    "fit": {"beside": []},
}
"""Tables of a method that can use no entity, which has 30 events, so that the defaults cannot be trained."""


def tune(out: Path, data: ev.Dataset | None = None, labels: pl.DataFrame | None = None, **options: Any) -> ev.Answer:
    """Return a small search, in which encoders see no parts beside what they learn."""
    method = {"method": {"name": "coles"}, "fit": {"beside": [], "batch_size": 8}}
    tables = {"method": method, **OPTIONS, **options}
    return ev.tune(data or fits.dataset(), fits.labels() if labels is None else labels, "churn", out=out, **tables)


def plain(result: ev.Answer) -> Any:
    """Return what does not depend on the clock or the folder."""
    rows = [{name: value for name, value in row.items() if name not in ("seconds", "run")} for row in result.rows]
    return rows, result.verdict[:-1], result.to_dict()["results"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ev.Answer]:
    folder = tmp_path_factory.mktemp("tune") / "search"
    return folder, tune(folder)


def test_the_first_trial_has_the_defaults_and_no_settings_are_tried_twice(finished: tuple[Path, ev.Answer]) -> None:
    folder, result = finished
    tried = [(row["encoder.dim"], row["fit.lr"]) for row in result.rows]
    assert tried[0] == (32, 0.002)
    assert len(set(tried)) == 3
    assert {dim for dim, _ in tried} <= {4, 8, 32}
    searched = fits.dataset()[~holdout_mask(fits.dataset().keys, 0.4, 1)]
    alone = ev.fit(searched, method="coles", epochs=3, seed=1, beside=[], batch_size=8)
    assert fits.same(alone.method.state_dict(), ev.load(folder / "trial-00").method.state_dict())


def test_the_test_scores_the_best_settings_on_entities_that_no_run_saw(finished: tuple[Path, ev.Answer]) -> None:
    folder, result = finished
    scores = {number: row["score"] for number, row in enumerate(result.rows) if row["score"] is not None}
    best = max(scores, key=lambda number: scores[number])
    data, run = fits.dataset(), ev.load(folder / f"trial-{best:02}")
    z = run.embed(data)
    assert 0 < z.held_out.sum() < 40
    assert result.facts["protocol"] == "holdout"
    name = "best" if best else "defaults"
    options = {"models": ["logistic_regression"], "folds": 2, "seed": 1, "holdout": True}
    alone = ev.evaluate(z, None, fits.labels(), "churn", **options)
    expected = alone.basis.get("embedding", "logistic_regression").main.values
    assert result.basis.get(name, "logistic_regression").main.values == expected
    assert result.facts["best"] == result.row("results", features=name)["score"]
    assert any(note.startswith("The scores of the trials are those of the search") for note in result.notes)
    assert ev.load(result.facts["run"]).embed(data).shape[0] == 40


def test_test_entities_change_no_bit_of_the_search(finished: tuple[Path, ev.Answer], tmp_path: Path) -> None:
    data, labels = fits.dataset(), fits.labels()
    is_test = holdout_mask(data.keys, 0.4, 1)
    x = data.sequences
    columns = {name: x.values(name).clone() for name in x.columns}
    of_test = torch.from_numpy(np.repeat(is_test, 30))
    columns["amount"][of_test] = -7.0
    columns["code"][of_test] = 1
    other = replace(data, sequences=replace(x, columns=columns))
    flipped = labels.with_columns(
        churn=pl.when(pl.Series(is_test)).then(pl.lit("no")).otherwise("churn")
    )  # fmt: skip
    flipped[int(np.flatnonzero(is_test)[0]), "churn"] = "yes"
    again = tune(tmp_path / "search", other, flipped)
    assert plain(again)[0] == plain(finished[1])[0]
    assert plain(again)[2] != plain(finished[1])[2]


@pytest.mark.parametrize("trial", [0, 1])
def test_a_killed_search_goes_on_to_the_same_result(
    finished: tuple[Path, ev.Answer], tmp_path: Path, trial: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(done: int, total: int, name: str) -> None:
        assert total == 3000
        if name == f"trial {trial}" and done % 1000 > 400:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path / "search", progress=kill)
    with pytest.raises(ev.CheckpointError, match="holds a search already; go on with resume=True"):
        tune(tmp_path / "search")
    trained: list[Any] = []
    fit = study.fit
    monkeypatch.setattr(study, "fit", lambda *a, **k: trained.append(a) or fit(*a, **k))
    again = tune(tmp_path / "search", resume=True)
    assert len(trained) == 3 - trial
    assert plain(again) == plain(finished[1])


def test_more_trials_go_on_from_those_that_are_over(finished: tuple[Path, ev.Answer], tmp_path: Path) -> None:
    tune(tmp_path / "search", trials=2)
    assert plain(tune(tmp_path / "search", resume=True)) == plain(finished[1])


def test_a_trial_behind_the_median_is_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.9] * 12 + [0.1] * 100)  # four trainings with three scores each, then a bad one
    monkeypatch.setattr(study._Search, "_score", lambda *_: next(scores))
    before = optuna.logging.get_verbosity()
    result = tune(tmp_path / "search", trials=6, settings={"encoder.dim": [4, 8, 16], "fit.lr": [0.01, 0.02]})
    assert [row["end"] for row in result.rows] == ["finished"] * 4 + ["pruned"] * 2
    assert sorted(path.name for path in (tmp_path / "search").glob("trial-*")) == [f"trial-0{i}" for i in range(4)]
    trials = json.loads((tmp_path / "search" / "trials.json").read_text())
    assert trials[4]["scores"] == {"1": 0.1}
    assert trials[0]["scores"] == {"1": 0.9, "2": 0.9}
    assert optuna.logging.get_verbosity() == before


def test_settings_that_cannot_be_trained_are_reported_and_the_others_go_on(tmp_path: Path) -> None:
    result = tune(tmp_path / "search", trials=3, settings={"fit.lr": [1e30, 0.01]})
    ends = {row["fit.lr"]: row["end"] for row in result.rows}
    assert ends[1e30].startswith("the loss became")
    assert ends[0.01] == ends[0.002] == "finished"


def test_all_combinations_end_a_search(tmp_path: Path) -> None:
    result = tune(tmp_path / "search", trials=50, settings={"encoder.dim": [4], "encoder.read_out": [["last", "mean"]]})
    assert len(result.rows) == 4
    assert {tuple(row["encoder.read_out"]) for row in result.rows} == {("last",), ("last", "mean")}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epochs": 4}, "another tables"),
        ({"settings": {"encoder.dim": [4]}}, "another settings"),
        ({"folds": 3}, "another folds"),
        ({"data": fits.dataset()[:38]}, "another fingerprint"),
        ({"labels": fits.labels().with_columns(churn=pl.col("churn").reverse())}, "another labels"),
    ],
)
def test_another_search_in_the_folder_is_refused(
    finished: tuple[Path, ev.Answer], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ev.CheckpointError, match=f"the search in .* was begun with {sentence}"):
        tune(finished[0], resume=True, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"time_budget": 5.0}, "time_budget and epochs are both given"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"epochs": None, "time_budget": 0.0}, "time_budget must be above 0 and finite, got 0.0"),
        ({"trials": 1}, "trials must be at least 2, got 1"),
        ({"holdout": 1.5}, "holdout must be above 0 and below 1, got 1.5"),
        ({"holdout": 0.01}, "a hold-out test needs some of each"),
        ({"folds": 30}, "30 folds for 24 labelled entities"),
        ({"method": "coals"}, "'coals' is not known"),
        ({"encoder": {"from": "run"}}, "encoder.from names a run, which may have seen the test entities"),
        ({"settings": {}}, "no setting is named"),
        ({"settings": {"dim": [4]}}, "'dim' cannot be searched; name an option with its table, such as encoder.dim"),
        ({"settings": {"fit.seed": [4]}}, "'fit.seed' cannot be searched"),
        ({"settings": {"encoder.dim": 4}}, r"the values of encoder.dim must be a list, such as \[1, 2, 4\], got 4"),
        ({"settings": {"encoder.dims": [4]}}, "dims"),
        ({"settings": {"fit.lr": [-1.0]}}, "lr must be above 0"),
        ({"data": fits.dataset(holdout=0.2)}, "the data were read with holdout"),
        ({"device": ""}, "device '' cannot be used here"),
        ({"method": TOO_LONG}, "0 of 24 entities can be used by this method"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_folder_is_made(
    options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ev.EventvecError, match=sentence):
        tune(tmp_path / "search", **options)
    assert not (tmp_path / "search").exists()


def test_rows_of_an_entity_at_several_times_stay_together(tmp_path: Path) -> None:
    months = pl.concat([fits.labels().with_columns(t=pl.lit(time)) for time in (10, 20)])
    result = tune(tmp_path / "search", labels=months, trials=2)
    is_test = holdout_mask(fits.dataset().keys, 0.4, 1)
    assert f"on {is_test.sum()} entities that the search never saw" in result.verdict[0]
    assert f"Tested on {2 * is_test.sum()} labels of entities that the encoder never saw" in " ".join(result.notes)
    assert "Only events before the time of each label, in 't', are read" in " ".join(result.notes)


def test_two_searches_at_a_time_in_one_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ev.CheckpointError, match="file is a file; name a new folder"):
        tune(tmp_path / "file")
    (tmp_path / "diary").mkdir()
    (tmp_path / "diary" / "page").write_text("mine")
    with pytest.raises(ev.CheckpointError, match="is not empty and holds no search"):
        tune(tmp_path / "diary")
    assert [path.name for path in (tmp_path / "diary").iterdir()] == ["page"]
    with locked(tmp_path / "search"), pytest.raises(ev.CheckpointError, match="another process searches in"):
        tune(tmp_path / "search")


def test_trials_that_were_damaged_are_refused(finished: tuple[Path, ev.Answer], tmp_path: Path) -> None:
    shutil.copytree(finished[0], tmp_path / "search")
    for text in ("{", '[{"places": 1}]', "7"):
        (tmp_path / "search" / "trials.json").write_text(text)
        with pytest.raises(ev.CheckpointError, match="is damaged; begin the search again in a new folder"):
            tune(tmp_path / "search", resume=True)


def test_a_method_that_learns_labels_is_refused(tmp_path: Path) -> None:
    data = ev.attach(fits.dataset(), fits.labels())
    with pytest.raises(ev.ConfigError, match="the method 'supervised' learns from labels; name one that does not"):
        tune(tmp_path / "search", data, method={"name": "supervised", "label": "churn"})


def test_a_search_names_the_extra_without_optuna(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(ev.ConfigError, match=r"needs optuna: pip install 'eventvec\[tune\]'"):
        tune(tmp_path / "search")


def test_the_command_reads_the_schema_without_the_test_entities(tmp_path: Path) -> None:
    table, out = fits.table(), tmp_path / "search"
    is_test = holdout_mask(fits.dataset().keys, 0.4, 1)
    known = pl.col("id").is_in(np.flatnonzero(~is_test).tolist())
    table = table.with_columns(code=pl.when(known).then("code").otherwise(pl.lit("only in the test")))
    table.write_parquet(tmp_path / "events.parquet")
    fits.labels().write_parquet(tmp_path / "labels.parquet")
    arguments = (
        "tune", tmp_path / "events.parquet", tmp_path / "labels.parquet", "--key", "id", "--time", "t", "--label",
        "churn", "--method", "ocp", "--epochs", 1, "--trials", 2, "--holdout", 0.4, "--folds", 2, "--seed", 1,
        "--setting", "encoder.dim=4", "--out", out,
    )  # fmt: skip
    given = answer(*arguments)
    assert [row["encoder.dim"] for row in given["trials"]] == [32, 4]
    assert json.loads((out / "result.json").read_text())["verdict"] == given["verdict"]
    assert "only in the test" not in (out / "trial-01" / "schema.json").read_text()
    shown = invoke(*arguments, "--resume", "--full")
    assert shown.exit_code == 0
    assert "encoder.dim" in shown.stdout
    assert "The run: " in shown.stdout
    refused = invoke(*arguments)
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("encoder.dim=64,256", {"encoder.dim": [64, 256]}),
        ("encoder.name=gru, lstm", {"encoder.name": ["gru", "lstm"]}),
        ('encoder.read_out=["last"],["last", "mean"]', {"encoder.read_out": [["last"], ["last", "mean"]]}),
    ],
)
def test_settings_are_read_from_the_command_line(text: str, values: dict[str, Any]) -> None:
    assert page_commands._settings([text]) == values


@pytest.mark.parametrize("text", ["encoder.dim", "=64", "dim=64", "encoder.dim="])
def test_settings_without_values_are_refused(text: str) -> None:
    with pytest.raises(ev.ConfigError, match="must be a setting and its values, such as"):
        page_commands._settings([text])


def test_advised_settings_are_written_as_set_takes_them() -> None:
    ahead = Scores((0.8, 0.81, 0.79)), Scores((0.6, 0.62, 0.59))
    results = tuple(
        Result(name, "ridge", 1.0, each, each) for name, each in zip(("best", "defaults"), ahead, strict=True)
    )
    evaluation = Evaluation("churn", "binary", 90, 90, 3, "holdout", True, results)
    lines, is_ahead = decision(evaluation, {"fit.lr": 0.0005, "encoder.read_out": ["last", "mean"]}, 30, 3)
    assert is_ahead
    assert lines[0].startswith('Use fit.lr=0.0005, encoder.read_out=["last", "mean"]: .800 ± ')
    given = lines[0].removeprefix("Use ").partition(": ")[0].split(", ", 1)
    assert change({}, given) == {"fit": {"lr": 0.0005}, "encoder": {"read_out": ["last", "mean"]}}
