"""Arms are trained under one budget and scored in the same folds; a comparison that is killed goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
import fits
from commands import answer, invoke
from eventvec.comparing import side_by_side
from eventvec.comparing.arms import TRIED, plan
from eventvec.evaluation.suspicion import OPENING
from pages import Reader

OPTIONS: dict[str, Any] = {"methods": ["coles", "ocp"], "epochs": 2, "models": ["logistic_regression"]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ev.Comparison]:
    folder = tmp_path_factory.mktemp("compare") / "plan"
    return folder, ev.compare(fits.dataset(), fits.labels(), "churn", out=folder, **OPTIONS)


def plain(comparison: ev.Comparison) -> Any:
    """Return what does not depend on the clock: the scores, and the differences."""
    values = comparison.evaluation.to_dict()
    return values["results"], values["differences"], list(comparison.failed.items())


def test_arms_stand_beside_simple_features_in_the_same_folds(finished: tuple[Path, ev.Comparison]) -> None:
    _, comparison = finished
    features = [r.features for r in comparison.evaluation.results]
    assert features == ["coles", "aggregates", "handcrafted", "event_count", "untrained", "ocp"]
    assert {(d.a, d.b) for d in comparison.evaluation.differences} >= {("coles", "ocp"), ("coles", "handcrafted")}
    assert [cost.epochs for cost in comparison.costs.values()] == [2, 2]
    assert all(cost.dim and cost.weights and cost.training > 0 for cost in comparison.costs.values())
    assert comparison.choice.level
    data, run = fits.dataset(), ev.load(finished[0] / "arm-01")
    alone = ev.evaluate(run.embed(data), data, fits.labels(), "churn", models=["logistic_regression"], seed=0)
    ocp = next(r for r in comparison.evaluation.results if r.features == "ocp")
    assert alone.get("embedding", "logistic_regression").main.values == ocp.main.values


def test_a_comparison_that_is_killed_goes_on_to_the_same_result(
    finished: tuple[Path, ev.Comparison], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[int, int, str]] = []

    def kill(done: int, total: int, name: str) -> None:
        steps.append((done, total, name))
        if name == "ocp" and done > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ev.compare(fits.dataset(), fits.labels(), "churn", out=tmp_path / "plan", progress=kill, **OPTIONS)
    assert {total for _, total, _ in steps} == {3000}
    with pytest.raises(ev.CheckpointError, match="holds a comparison already; go on with resume=True"):
        ev.compare(fits.dataset(), fits.labels(), "churn", out=tmp_path / "plan", **OPTIONS)
    trained: list[Any] = []
    fit = side_by_side.fit
    monkeypatch.setattr(side_by_side, "fit", lambda *a, **k: trained.append(a) or fit(*a, **k))
    again = ev.compare(fits.dataset(), fits.labels(), "churn", out=tmp_path / "plan", resume=True, **OPTIONS)
    assert len(trained) == 1  # the first arm was finished
    assert plain(again) == plain(finished[1])


def test_a_comparison_that_was_killed_before_its_plan_was_written_begins_anew(tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    folder.mkdir()
    (folder / ".plan.json.k3j2h1.draft").write_text("{")
    ev.compare(fits.dataset(), fits.labels(), "churn", out=folder, resume=True, **OPTIONS)
    assert (folder / "plan.json").is_file()
    assert not list(folder.glob("*.draft"))


def test_another_plan_in_the_folder_is_refused(finished: tuple[Path, ev.Comparison], tmp_path: Path) -> None:
    folder, data = finished[0], fits.dataset()
    for options, what in (
        ({**OPTIONS, "epochs": 3}, "budget"), ({**OPTIONS, "methods": ["coles", "cpc"]}, "arms"),
        ({**OPTIONS, "seed": 5}, "seed"),
    ):  # fmt: skip
        with pytest.raises(ev.CheckpointError, match=f"was begun with another {what}"):
            ev.compare(data, fits.labels(), "churn", out=folder, resume=True, **options)
    with pytest.raises(ev.CheckpointError, match="was begun with another fingerprint"):
        ev.compare(data[:30], fits.labels(), "churn", out=folder, resume=True, **OPTIONS)
    (tmp_path / "diary").write_text("mine")
    with pytest.raises(ev.CheckpointError, match="is not empty and holds no comparison"):
        ev.compare(data, fits.labels(), "churn", out=tmp_path, **OPTIONS)


def test_an_arm_that_cannot_be_trained_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    options = {**OPTIONS, "methods": ["coles", "supervised", "ocp"]}
    result = ev.compare(fits.dataset(), fits.labels(), "churn", out=tmp_path / "a", **options)
    assert list(result.failed) == ["supervised"]
    assert [row["arm"] for row in result.rows()][-1] == "supervised"
    with pytest.raises(ev.DataError, match="fewer than two of 2 arms could be trained: supervised: "):
        ev.compare(
            fits.dataset(),
            fits.labels(),
            "churn",
            out=tmp_path / "b",
            **{**OPTIONS, "methods": ["coles", "supervised"]},
        )


def test_the_plan_is_one_method_for_each_idea_or_what_is_named() -> None:
    arms = plan(None, ["gru"])
    assert arms == {name: {"method": {"name": name}, "encoder": {"name": "gru"}} for name in TRIED}
    assert list(plan(["coles"], ["gru", "lstm"])) == ["coles + gru", "coles + lstm"]
    own = {"mine": {"method": {"name": "coles"}, "encoder": {"name": "lstm"}}, "theirs": {"method": {"name": "ocp"}}}
    assert {n: t["encoder"]["name"] for n, t in plan(own, ["gru"]).items()} == {"mine": "lstm", "theirs": "gru"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"methods": ["coles"]}, "a comparison needs two arms at least"),
        ({"methods": ["coles", "koles"]}, "method 'koles' is not known"),
        ({"encoders": ["gru", "gru"]}, "encoders must be named once each"),
        ({"methods": "coles"}, "methods must be a list of names, got the text 'coles'"),
        ({"methods": {"aggregates": {"method": {"name": "coles"}}, "b": {}}}, "an arm may not be called 'aggregates'"),
        ({"models": ["x"]}, "there is no model 'x' for a binary label; accepted: blend"),
        ({"time_budget": 5.0}, "time_budget and epochs are both given"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_trained(
    options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ev.ConfigError, match=sentence):
        ev.compare(fits.dataset(), fits.labels(), "churn", out=tmp_path / "plan", **{**OPTIONS, **options})
    assert not (tmp_path / "plan").exists()


@pytest.mark.parametrize(
    ("label", "options", "sentence"),
    [
        ("absent", {}, "has no column 'absent'"),
        ("one", {}, "at least two distinct values"),
        ("churn", {"folds": 500}, "folds"),
    ],
)
def test_labels_that_cannot_be_scored_are_refused_before_anything_is_trained(
    label: str, options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    labels = fits.labels().with_columns(one=pl.lit(True))
    with pytest.raises(ev.EventvecError, match=sentence):
        ev.compare(fits.dataset(), labels, label, out=tmp_path / "plan", **{**OPTIONS, **options})
    assert not (tmp_path / "plan").exists()


def test_what_is_too_good_to_be_true_is_said_first_with_the_name_of_the_arm(
    finished: tuple[Path, ev.Comparison], tmp_path: Path
) -> None:
    data, labels = fits.dataset(), fits.labels()
    assert OPENING not in finished[1].verdict
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2), data)
    copies = (labels["churn"] == "yes").to_numpy()[z.keys.to_numpy()]
    copy = replace(z, values=z.values * 0 + copies[:, None].astype(np.float32))
    for arms in ({"coles": copy, "ocp": z}, {"ocp": z, "coles": copy}):
        scored = side_by_side._scored(arms, data, labels, "churn", models=["logistic_regression"])
        comparison = replace(finished[1], evaluation=scored)
        assert comparison.verdict.startswith(f"{OPENING}coles scores 1.000 auroc (logistic_regression)")
        assert comparison.verdict.endswith(f"whether rows repeat. {comparison._answer()}")
        assert "both" not in comparison.verdict
    events = fits.table().join(labels, on="id").with_columns(
        note=pl.when(pl.col("t") == 4).then("churn").otherwise(pl.lit("none"))
    )  # fmt: skip
    told = ev.read(events.drop("churn"), key="id", time="t", categorical=["code", "note"], numeric=["amount"])
    result = ev.compare(told, labels, "churn", out=tmp_path / "plan", **OPTIONS)
    assert result.verdict.startswith(OPENING)
    assert "the feature 'note=" in result.verdict
    assert "of the column 'note' alone predicts 'churn'" in result.to_dict()["verdict"]


def test_the_command_prints_what_python_returns_and_writes_a_page(
    finished: tuple[Path, ev.Comparison], tmp_path: Path
) -> None:
    fits.table().write_parquet(tmp_path / "events.parquet")
    fits.labels().rename({"churn": "<i>churn</i>"}).write_parquet(tmp_path / "labels.parquet")
    options = (
        tmp_path / "events.parquet", tmp_path / "labels.parquet", "--key", "id", "--time", "t", "--categorical", "code",
        "--numeric", "amount", "--label", "<i>churn</i>", "--methods", "coles,ocp", "--epochs", 2, "--models",
        "logistic_regression", "--out", tmp_path / "plan",
    )  # fmt: skip
    given = answer("compare", *options, "-o", tmp_path / "page.html")
    expected = json.loads(json.dumps(finished[1].to_dict(), default=str))
    assert given["evaluation"]["results"] == expected["evaluation"]["results"]
    assert (given["winner"], given["level"]) == (expected["winner"], expected["level"])
    assert json.loads((tmp_path / "plan" / "result.json").read_text())["verdict"] == given["verdict"]
    page = Reader((tmp_path / "page.html").read_text())
    assert given["verdict"] in " ".join(page.texts)
    assert "<i>churn</i>" in " ".join(page.texts)
    shown = invoke("compare", *options, "--resume")
    assert shown.exit_code == 0
    assert "logistic_regression" in shown.stdout
    refused = invoke("compare", *options)
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert pl.read_parquet(tmp_path / "events.parquet").height == 1200
