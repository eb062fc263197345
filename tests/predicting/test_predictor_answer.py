"""The answer of a predictor: the measures of the rows that chose nothing, and those of groups."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.metrics import log_loss, mean_absolute_error

import eventvec as ev
import fits
from commands import answer, invoke
from eventvec.learners.held_out_scores import WITHIN_TIMES
from eventvec.models.model_files import digests
from eventvec.predicting.predictor_answer import UNMEASURED, explained

N, START = 240, datetime(2024, 1, 1)
hand_crafted_features_alone = pytest.fixture(fits.without_codes, autouse=True, scope="module")


def events() -> pl.DataFrame:
    """Return purchases, whose prices tell the type of a card."""
    rng, card = np.random.default_rng(2), np.repeat(np.arange(N), 6)
    at = [START + timedelta(days=int(day)) for day in rng.integers(0, 100, len(card))]
    return pl.DataFrame({"card": card, "at": at, "paid": (1 + card % 3) * 5 + rng.normal(size=len(card))})


def labels(shift: float = 0.5) -> pl.DataFrame:
    """Return whether a card leaves and what it spends, by its type; in the north more leave than that tells."""
    rng = np.random.default_rng(1)
    region = rng.choice(["north", "south", "east"], N, p=[0.4, 0.5, 0.1])
    leaves = rng.random(N) < np.array([0.1, 0.4, 0.7])[np.arange(N) % 3]
    leaves |= (region == "north") & (rng.random(N) < shift)
    known = [START + timedelta(days=150 + int(day)) for day in rng.permutation(N)]
    spend = 10.0 * (np.arange(N) % 3) + rng.normal(size=N)
    return pl.DataFrame({"card": range(N), "churn": leaves, "spend": spend, "known": known, "region": region})


def people() -> pl.DataFrame:
    return labels().select("card", area="region", adult=pl.Series(np.arange(N) % 2 == 0))


def classifier() -> ev.EventClassifier:
    return ev.EventClassifier("card", "at", numeric=["paid"], categorical=[], progress=False)


@pytest.fixture(scope="module")
def fitted() -> ev.EventClassifier:
    table = labels().drop("known")
    return classifier().fit(events(), table, "churn", groups="region")


def test_the_measures_are_those_of_the_rows_that_chose_nothing(fitted: ev.EventClassifier) -> None:
    result = fitted.explain()
    (head,) = fitted.model_.heads.values()
    rows = head.info["scores"].held_out
    assert len(rows.y) == N
    assert list(result.tables)[4:] == ["measures", "reliability", "lift", "groups", "group_differences"]
    value = result.row("measures", measure="log loss")["value"]
    assert value.value == pytest.approx(log_loss(rows.y, rows.predictions.astype(float)))
    assert len(result.figures) == 2
    assert len(result.verdict) <= 5


def test_the_latest_rows_are_measured_where_there_are_some() -> None:
    model = ev.EventRegressor("card", "at", numeric=["paid"], categorical=[], progress=False)
    result = model.fit(events(), labels(), "spend", groups="region").explain()
    (head,) = model.model_.heads.values()
    rows = head.info["scores"].held_out
    late = labels().sort("known").tail(N // 5)
    assert head.info["scores"].latest is not None
    assert np.allclose(np.sort(rows.y), late["spend"].sort())
    of = result.row("measures", measure="mean absolute error")["value"]
    assert of.value == pytest.approx(mean_absolute_error(rows.y, rows.predictions))
    counts = {row["group"]: row["rows"] for row in result.tables["groups"]}
    assert counts == dict(late["region"].value_counts().iter_rows())


def test_a_group_that_leaves_more_than_predicted_is_named(fitted: ev.EventClassifier) -> None:
    result = fitted.explain()
    assert any(line.startswith("Group 'north' of 'region' differs") for line in result.verdict)
    rows = {row["group"]: row for row in result.tables["groups"]}
    assert rows["north"]["differs"] == "calibration"
    assert rows["east"] == {"group": "east", "rows": 23, "entities": 23, "differs": "too few rows"}
    leaves = labels().filter(pl.col("region") == "north")["churn"].mean()
    assert rows["north"]["rate"].value == pytest.approx(leaves)


def test_a_column_of_groups_is_no_feature(fitted: ev.EventClassifier) -> None:
    without = classifier().fit(events(), labels().drop("known"), "churn")
    assert without.predict_proba(events()).equals(fitted.predict_proba(events()))
    assert without.model_.schema == fitted.model_.schema
    assert "groups" not in without.explain().tables


def test_groups_may_be_a_static_column_or_an_array() -> None:
    table = labels().select("card", "churn")
    static = classifier().fit(events(), table, "churn", static=people(), groups="area")
    assert [row["group"] for row in static.explain().tables["groups"]] == ["east", "north", "south"]
    of_bool = ev.fit(
        ev.read(events(), key="card", time="at", numeric=["paid"], static=people()),
        labels=table, label="churn", groups="adult",
    )  # fmt: skip
    (head,) = of_bool.heads.values()
    assert [row["group"] for row in explained(head).tables["groups"]] == ["false", "true"]
    data = ev.read(events(), key="card", time="at", numeric=["paid"])
    regions = labels()["region"].to_numpy()
    array = classifier().fit(data, labels()["churn"].to_numpy(), groups=regions).explain()
    assert [row["rows"] for row in array.tables["groups"]] == labels()["region"].value_counts().sort("region")[
        "count"
    ].to_list()


def test_each_label_has_groups_of_its_own_rows() -> None:
    some = labels().drop("known").with_columns(spend=pl.when(pl.col("card") >= 60).then(pl.col("spend")))
    data = ev.read(events(), key="card", time="at", numeric=["paid"])
    model = ev.fit(data, labels=some, label=["churn", "spend"], groups="region")
    for name, table in (("churn", some), ("spend", some.filter(pl.col("card") >= 60))):
        counts = {row["group"]: row["rows"] for row in explained(model.heads[name]).tables["groups"]}
        assert counts == dict(table["region"].value_counts().iter_rows())


def test_rows_without_a_group_are_one() -> None:
    table = labels().drop("known").with_columns(region=pl.when(pl.col("region") != "south").then(pl.col("region")))
    result = classifier().fit(events(), table, "churn", groups="region").explain()
    assert [row["group"] for row in result.tables["groups"]] == ["east", "north", "(missing)"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "regoin"}, "groups names 'regoin', which is no column .* did you mean 'region'"),
        ({"groups": ["region"]}, "groups must name a column of the table of labels, got list"),
        ({"groups": "spend"}, "the column of groups 'spend' holds Float64"),
        ({"groups": "card"}, "has 240 different values; at most 50"),
    ],
)
def test_other_groups_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ev.ConfigError, ev.DataError), match=message):
        classifier().fit(events(), labels(), "churn", **options)


def test_a_folder_keeps_groups_and_measures(fitted: ev.EventClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    assert ev.EventClassifier.load(tmp_path / "model").explain().to_dict() == fitted.explain().to_dict()


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (torch.full((N,), 3), "have a group out of range"),
        (torch.zeros(N - 1, dtype=torch.int64), "have a group out of range"),
        (torch.zeros(N), "need the arrays y, predictions, groups, weights, subgroups"),
        (None, "need the arrays"),
    ],
)
def test_a_folder_with_other_groups_is_refused(
    fitted: ev.EventClassifier, tmp_path: Path, codes: torch.Tensor | None, message: str
) -> None:
    path = tmp_path / "model"
    fitted.save(path)
    tensors = load_file(path / "model.safetensors")
    (name,) = (each for each in tensors if each.endswith("held_out.subgroups"))
    if codes is None:
        del tensors[name]
    else:
        tensors[name] = codes
    save_file(tensors, path / "model.safetensors")
    info = json.loads((path / "model.json").read_text())
    info["files"] = digests(path)
    (path / "model.json").write_text(json.dumps(info))
    with pytest.raises(ev.CheckpointError, match=message):
        ev.EventClassifier.load(path)


def test_measures_that_would_promise_too_much_are_not_told(fitted: ev.EventClassifier) -> None:
    (head,) = fitted.model_.heads.values()
    panel = explained(replace(head, notes=(*head.notes, WITHIN_TIMES)))
    assert "measures" not in panel.tables
    assert UNMEASURED in panel.notes
    assert not any("hold" in line or "region" in line for line in panel.verdict)


@pytest.mark.usefixtures("few_kernels")
def test_groups_are_named_on_the_command_line(tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.parquet" for name in ("events", "labels")}
    events().write_parquet(paths["events"])
    labels().drop("known").write_parquet(paths["labels"])
    of_label = ["--labels", paths["labels"], "--label", "churn", "--groups", "region"]
    read = ["--events", paths["events"], "--key", "card", "--time", "at", "--numeric", "paid"]
    said = invoke("fit", *read, *of_label, "--out", tmp_path / "model").stdout
    assert len(said.splitlines()) <= 10  # five lines, some of which are broken
    (head,) = ev.load(tmp_path / "model").heads.values()
    told = explained(head).to_dict()
    assert [row["group"] for row in told["groups"]] == ["east", "north", "south"]
    assert {"measures", "reliability", "lift", "group_differences"} <= told.keys()
    evaluated = ["evaluate", tmp_path / "model", paths["events"], paths["labels"], "--label", "churn"]
    result = answer(*evaluated, "--groups", "region", "--folds", "3")
    assert {row["group"] for row in result["groups"]} == {"east", "north", "south"}
    assert {row["measure"] for row in result["measures"]} >= {"log loss", "calibration slope"}
