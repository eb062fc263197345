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
from eventvec.comparing import compared, side_by_side
from eventvec.comparing.arms import TRIED, plan
from eventvec.evaluation.suspicion import OPENING
from eventvec.tables.label_times import untimed
from pages import Reader

OPTIONS: dict[str, Any] = {"methods": ["coles", "ocp"], "epochs": 2, "models": ["logistic_regression"]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ev.Answer]:
    folder = tmp_path_factory.mktemp("compare") / "plan"
    return folder, ev.compare(fits.dataset(), fits.labels(), "churn", out=folder, **OPTIONS)


def plain(comparison: ev.Answer) -> Any:
    """Return what does not depend on the clock: the scores, and the differences."""
    values = comparison.to_dict()
    return values["results"], values["differences"], values["failed"]


def test_arms_stand_beside_simple_features_in_the_same_folds(finished: tuple[Path, ev.Answer]) -> None:
    _, comparison = finished
    features = [row["features"] for row in comparison.tables["results"]]
    assert features == ["coles", "handcrafted", "untrained", "ocp"]
    pairs = {(row["a"], row["b"]) for row in comparison.tables["differences"]}
    assert pairs >= {("coles", "ocp"), ("coles", "handcrafted")}
    for row in (comparison.row(arm=name) for name in ("coles", "ocp")):
        assert row["epochs"] == 2
        assert row["dim"] and row["weights"] and row["training"] > 0  # noqa: PT018
    assert comparison.row(arm="handcrafted")["training"] is None
    assert comparison.facts["advised"] in comparison.facts["level"]
    data, run = fits.dataset(), ev.load(finished[0] / "arm-01")
    alone = ev.evaluate(run.embed(data), data, fits.labels(), "churn", models=["logistic_regression"], seed=0)
    ocp = comparison.row("results", features="ocp")
    assert alone.row(features="embedding")["scores"] == ocp["scores"]


def test_a_comparison_that_is_killed_goes_on_to_the_same_result(
    finished: tuple[Path, ev.Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    (folder / ".plan.json.0123456789abcdef.draft").write_text("{")
    ev.compare(fits.dataset(), fits.labels(), "churn", out=folder, resume=True, **OPTIONS)
    assert (folder / "plan.json").is_file()
    assert not list(folder.glob("*.draft"))


def test_another_plan_in_the_folder_is_refused(finished: tuple[Path, ev.Answer], tmp_path: Path) -> None:
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
    assert list(result.facts["failed"]) == ["supervised"]
    assert result.rows[-1]["arm"] == "supervised"
    assert result.rows[-1]["remark"] == result.facts["failed"]["supervised"]
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
        ({"models": ["x"]}, "there is no model 'x' for a binary label; accepted: knn"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"epochs": None, "time_budget": 0.0}, "time_budget must be above 0 and finite, got 0.0"),
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


def test_what_is_too_good_to_be_true_is_said_with_the_name_of_the_arm(
    finished: tuple[Path, ev.Answer], tmp_path: Path
) -> None:
    data, labels = fits.dataset(), fits.labels()
    assert OPENING not in " ".join(finished[1].verdict)
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2), data)
    copies = (labels["churn"] == "yes").to_numpy()[z.keys.to_numpy()]
    copy = replace(z, values=z.values * 0 + copies[:, None].astype(np.float32))
    for arms in ({"coles": copy, "ocp": z}, {"ocp": z, "coles": copy}):
        scored, _ = side_by_side._scored(arms, data, labels, "churn", models=["logistic_regression"])
        costs = {name: {"training": 1.0, "embedding": 1.0} for name in arms}
        comparison = compared.answer(scored, costs, {}, None, (), ())
        assert comparison.verdict[0].startswith(f"{OPENING}coles scores 1.000 auroc (logistic_regression)")
        assert comparison.verdict[0].endswith("whether rows repeat.")
        assert comparison.verdict[1].startswith("Use coles for churn: ")
        assert "both" not in " ".join(comparison.verdict)
    events = fits.table().join(labels, on="id").with_columns(
        note=pl.when(pl.col("t") == 4).then("churn").otherwise(pl.lit("none"))
    )  # fmt: skip
    told = ev.read(events.drop("churn"), key="id", time="t", categorical=["code", "note"], numeric=["amount"])
    result = ev.compare(told, labels, "churn", out=tmp_path / "plan", **OPTIONS)
    assert result.verdict[0].startswith(OPENING)
    assert "the feature 'note=" in result.verdict[0]
    assert "of the column 'note' alone predicts 'churn'" in result.to_dict()["verdict"]


def test_the_command_prints_what_python_returns_and_writes_a_page(
    finished: tuple[Path, ev.Answer], tmp_path: Path
) -> None:
    fits.table().write_parquet(tmp_path / "events.parquet")
    fits.labels().rename({"churn": "<i>churn</i>"}).write_parquet(tmp_path / "labels.parquet")
    options = (
        tmp_path / "events.parquet", tmp_path / "labels.parquet", "--key", "id", "--time", "t", "--categorical", "code",
        "--numeric", "amount", "--label", "<i>churn</i>", "--methods", "coles,ocp", "--epochs", 2, "--models",
        "logistic_regression", "--out", tmp_path / "plan",
    )  # fmt: skip
    given = answer("compare", *options, "--page", tmp_path / "page.html")
    expected = finished[1].to_dict()
    assert given["results"] == expected["results"]
    assert (given["winner"], given["level"]) == (expected["winner"], expected["level"])
    assert json.loads((tmp_path / "plan" / "result.json").read_text())["verdict"] == given["verdict"]
    page = " ".join(Reader((tmp_path / "page.html").read_text()).texts)
    assert given["verdict"].partition(". ")[0] in page
    assert "<i>churn</i>" in page
    shown = invoke("compare", *options, "--resume")
    assert (shown.exit_code, "Use " in shown.stdout, "handcrafted" in shown.stdout.splitlines()[-1]) == (0, True, False)
    everything = invoke("compare", *options, "--resume", "--full")
    assert "logistic_regression" in everything.stdout
    refused = invoke("compare", *options)
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert pl.read_parquet(tmp_path / "events.parquet").height == 1200


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tables, a run with parts beside its vector, and one of another schema."""
    path = tmp_path_factory.mktemp("runs")
    fits.table().write_parquet(path / "events.parquet")
    fits.labels().write_parquet(path / "labels.parquet")
    ev.fit(fits.dataset(), method="coles", epochs=1, out=path / "one")
    small = ev.read(fits.table(), key="id", time="t", categorical=["code"], numeric=[], holdout=0.3)
    ev.fit(small, method="ocp", epochs=1, beside=[], out=path / "other")
    return path


def test_runs_that_exist_are_compared_in_the_same_folds_with_all_their_parts(trained: Path) -> None:
    one, other = ev.load(trained / "one"), ev.load(trained / "other")
    events, labels, chosen = trained / "events.parquet", fits.labels(), {"models": ["logistic_regression"], "folds": 4}
    result = ev.compare(events, labels, "churn", runs=[trained / "one", other], **chosen)
    data = fits.dataset()
    vectors = {"one": one.embed(data).values, "other": other.embed(events).values}
    expected = ev.score_features(vectors, _labels_of(data, labels), label="churn", seed=0, **chosen)
    for name, z in vectors.items():
        row = result.row(arm=name)
        assert row["score"] == expected.row(features=name)["score"]
        assert (row["dim"], row["epochs"]) == (z.shape[1], 1)
    assert result.row("differences", a="one", b="other") == expected.row("differences", a="one", b="other")
    assert {row["arm"] for row in result.rows} == {"one", "other", "handcrafted", "untrained"}
    lead = expected.row("differences", a="one", b="other")["difference"]
    assert result.facts["winner"] == {"ahead": "one", "behind": "other", "level": None}[lead.place]
    assert (result.facts["budget"], result.title) == (None, "Which run for these events?")
    assert result.verdict[-1] == untimed(None)
    assert result.verdict[-2] == (
        "The runs held out different entities, so some encoders saw events that others did not."
    )
    named = ev.compare(events, labels, "churn", runs={"a": one, "b": other}, **chosen)
    assert named.row(arm="a")["score"] == result.row(arm="one")["score"]


def _labels_of(data: ev.Dataset, labels: pl.DataFrame) -> Any:
    return pl.DataFrame({"id": data.keys.to_numpy()}).join(labels, on="id", how="left", maintain_order="left")["churn"]


def test_a_run_that_learned_from_the_label_is_named(trained: Path) -> None:
    data = ev.attach(fits.dataset(), fits.labels(), {"churn": "categorical"})
    tuned = ev.fit(data, method={"method": {"name": "supervised", "label": "churn"}}, epochs=1)
    result = ev.compare(
        trained / "events.parquet", fits.labels(), "churn", runs={"tuned": tuned, "one": trained / "one"},
        models=["logistic_regression"],
    )  # fmt: skip
    assert "tuned was trained on 'churn', and only a hold-out test is fair to that." in result.verdict


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"runs": ["one"]}, "a comparison needs two arms at least; name more runs"),
        ({"runs": ["one", "one"]}, "two runs are called 'one'; give them names"),
        ({"runs": "one"}, "runs must be a list of runs or of their folders, got one str"),
        ({"runs": ["one", "other"], "epochs": 3}, "epochs is about training, and runs are compared as they are"),
        ({"runs": ["one", "other"], "out": "new"}, "out is about training"),
        ({"runs": {"untrained": "one", "b": "other"}}, "an arm may not be called 'untrained'"),
        ({"methods": ["coles", "ocp"], "out": "new"}, "data must be a Dataset, got str"),
    ],
)
def test_comparisons_of_runs_that_make_no_sense_are_refused(
    trained: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], sentence: str
) -> None:
    monkeypatch.chdir(trained)
    with pytest.raises(ev.ConfigError, match=sentence):
        ev.compare("events.parquet", "labels.parquet", "churn", **options)
    assert not (trained / "new").exists()


def test_the_command_compares_runs(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    words = ("compare", "events.parquet", "labels.parquet", "--label", "churn", "--models", "logistic_regression")
    given = answer(*words, "--run", "one", "--run", "other")
    expected = ev.compare("events.parquet", "labels.parquet", "churn", runs=["one", "other"], models=[words[-1]])
    assert given["results"] == expected.to_dict()["results"]
    assert given["verdict"] == expected.to_dict()["verdict"]
    for options, sentence in (
        ((), "give --out, the folder for the plan and the runs; or --run twice or more"),
        (("--run", "one", "--run", "other", "--key", "id"), "--key is given with --run"),
        (("--run", "one", "--run", "other", "--methods", "ocp"), "methods is about training"),
    ):
        refused = invoke(*words, *options)
        assert (refused.exit_code, sentence in " ".join(refused.stderr.split())) == (2, True), refused.stderr
