"""Labels of `Supervised`: weights of classes and rows, and several labels, each by hand or by a loop."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn

import eventvec as ev
import make
from eventvec.config import build_method, describe
from eventvec.errors import ConfigError, DataError
from eventvec.methods import Supervised
from eventvec.methods.label_losses import balanced_weights
from eventvec.schema import Categorical, Numeric
from eventvec.sequences import Sequences

KIND, LEVEL, WEIGHT = Categorical("kind", ("a", "b", "c")), Numeric("level", log=False, mean=2.0, std=4.0), Numeric("w")
SCHEMA = replace(make.schema(), static=(KIND, LEVEL, WEIGHT))


class First(nn.Module):
    """An encoder that returns a static column."""

    dim = 4

    def forward(self, x: Sequences) -> Tensor:
        z = x.static["z"]
        assert isinstance(z, Tensor)
        return z


def method(label: str | list[str], **options: Any) -> Supervised:
    """Return a method whose head returns the first numbers of its input."""
    built = Supervised(First(), SCHEMA, label, **options)
    outputs = built.predictor.dim
    built.head.load_state_dict({"weight": torch.eye(outputs, 4), "bias": torch.zeros(outputs)})
    return built


def rows(kind: list[int], level: list[float], weight: list[float], seed: int = 0) -> Sequences:
    n = len(kind)
    z = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))
    static = {"z": z, "kind": torch.tensor(kind), "level": torch.tensor(level), "w": torch.tensor(weight)}
    return Sequences({}, torch.zeros(n).long(), torch.zeros(n).long(), static)


def cross_entropy(logits: list[float], label: int) -> float:
    return math.log(sum(map(math.exp, logits))) - logits[label]


NAN = math.nan
X = rows([2, 3, 4, 3, 0, 2], [1.0, NAN, 5.0, -3.0, 9.0, 2.0], [1.0, 0.5, 3.0, 2.0, 1.5, 0.25])
BY_CLASS = {"b": 4.0, "c": 0.5}


def expected(class_weights: dict[str, float], weighted: bool, several: bool) -> float:
    """Return the loss of the rows by loops."""
    sums = {"kind": [0.0, 0.0], "level": [0.0, 0.0]}
    for i in range(len(X)):
        z, kind, level = (X.static[name][i] for name in ("z", "kind", "level"))
        weight = float(X.static["w"][i]) if weighted else 1.0
        if kind >= 2:
            factor = weight * class_weights.get("abc"[kind - 2], 1.0)
            sums["kind"][0] += factor * cross_entropy(z[:3].tolist(), int(kind) - 2)
            sums["kind"][1] += factor
        if not math.isnan(level):
            sums["level"][0] += weight * (float(z[3]) - (float(level) - 2) / 4) ** 2
            sums["level"][1] += weight
    means = [total / weights for total, weights in sums.values()]
    return sum(means) / 2 if several else means[0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weights", [None, BY_CLASS, [1.0, 4.0, 0.5]])
def test_the_loss_is_the_weighted_mean_over_rows_with_a_label(class_weights: Any, weighted: bool) -> None:
    built = method("kind", class_weights=class_weights, weight="w" if weighted else None)
    value = built.loss(X, torch.Generator()).item()
    assert value == pytest.approx(expected(BY_CLASS if class_weights else {}, weighted, several=False), rel=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_several_labels_is_the_mean_of_theirs_over_the_rows_that_have_them(weighted: bool) -> None:
    built = method(["kind", "level"], weight="w" if weighted else None)
    assert built.usable(X).tolist() == [True] * 6
    value = built.loss(X, torch.Generator()).item()
    assert value == pytest.approx(expected({}, weighted, several=True), rel=1e-5)
    only_numbers = X[[4]]  # no row of this batch has the other label
    assert built.loss(only_numbers, torch.Generator()).item() == pytest.approx(
        (float(X.static["z"][4, 3]) - (9 - 2) / 4) ** 2, rel=1e-5
    )


@pytest.mark.parametrize("label", ["kind", ["kind", "level"]])
def test_the_losses_of_batches_have_the_mean_of_the_loss_of_all_rows(label: Any) -> None:
    for options in ({}, {"weight": "w", "class_weights": "balanced"}):
        built = method(label, **options)
        built.prepare(X)
        whole = built.loss(X, torch.Generator()).item()
        batches = [built.loss(X[[i, i + 1]], torch.Generator()).item() for i in (0, 2, 4)]
        assert sum(batches) / 3 == pytest.approx(whole, rel=1e-5)
        built.mean_weights = None
        assert built.loss(X, torch.Generator()).item() == pytest.approx(whole, rel=1e-5)


def test_a_missing_label_of_one_of_several_gives_no_gradient() -> None:
    built = method(["kind", "level"])
    built.loss(X[[4]], torch.Generator()).backward()
    assert built.head.weight.grad[:3].abs().max() == 0
    assert built.head.weight.grad[3].abs().max() > 0


def test_one_label_in_a_list_is_that_label() -> None:
    one, listed = method("kind"), method(["kind"])
    assert one.loss(X, torch.Generator()).item() == listed.loss(X, torch.Generator()).item()


def test_balanced_weights_make_classes_count_the_same() -> None:
    weights = balanced_weights(X, KIND, torch.ones(6))
    assert weights.tolist() == pytest.approx([5 / 6, 5 / 6, 5 / 3])  # 2, 2 and 1 of 5 rows
    by_weight = balanced_weights(X, KIND, X.static["w"])
    for k in range(3):  # the weighted rows of each class have the same sum
        total = float((X.static["w"] * by_weight[k])[X.static["kind"] == k + 2].sum())
        assert total == pytest.approx((1.25 + 2.5 + 3.0) / 3)
    assert balanced_weights(X[:2], KIND, torch.ones(2)).tolist() == [1, 1, 1]  # a class without rows
    built = method("kind", class_weights="balanced")
    built.prepare(X)
    assert built.weights_for(X, KIND).tolist() == pytest.approx([5 / 6, 5 / 6, 5 / 3, 5 / 6, 0, 5 / 6])


def test_a_weight_of_two_is_the_row_twice() -> None:
    twice = rows([2, 3, 4], [NAN] * 3, [2.0, 1.0, 1.0])
    copied = twice[[0, 0, 1, 2]]
    weighted, plain = method("kind", weight="w"), method("kind")
    assert weighted.loss(twice, torch.Generator()).item() == pytest.approx(plain.loss(copied, torch.Generator()).item())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_weights": "balance"}, "class_weights must be 'balanced' or the weight of each class, got 'balance'"),
        ({"class_weights": {"d": 1.0}}, "class_weights: 'kind' has no class 'd'; accepted: a, b, c"),
        ({"class_weights": {"a": 0.0}}, "class_weights must be above 0 and finite, got 0.0"),
        ({"class_weights": {"a": math.inf}}, "class_weights must be above 0 and finite, got inf"),
        ({"class_weights": {"a": "much"}}, "class_weights must be numbers, got {'a': 'much'}"),
        ({"class_weights": [1.0]}, "must have a number for each of the 3 classes of 'kind', a, b, c, in this order"),
        ({"weight": "kind"}, "weight must be a numeric column, got 'kind', which is categorical; read it with"),
        ({"weight": "wight"}, "there is no static column 'wight'"),
        ({"label": "level", "class_weights": "balanced"}, "class_weights is for labels with classes"),
        ({"label": "level", "weight": "level"}, "weight names the label 'level'; a label cannot have another role"),
        ({"label": ["kind", "level"], "class_weights": BY_CLASS}, "by class is for one label, but there are several"),
        ({"label": ["kind", "kind"]}, "label names 'kind' twice"),
        ({"label": 3}, "label must be a list of names of columns, got 3"),
        ({"static_inputs": "level"}, "static_inputs must be a list of names of columns, got 'level'"),
        ({"static_inputs": ["level", "level"]}, "static_inputs names 'level' twice; name each column once"),
        ({"label": []}, "label must name at least one static column"),
    ],
)
def test_wrong_weights_and_labels_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        method(**{"label": "kind", **options})
    assert message in str(error.value)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_rows_of_no_weight_are_refused(wrong: float) -> None:
    x = rows([2, 3, 0, 3], [NAN] * 4, [1.0, wrong, wrong, 2.0])
    with pytest.raises(DataError, match=r"'w' has weights, .* but 1 of 3 are not \(first at row 1\)"):
        method("kind", weight="w").usable(x)
    built, rest = method("kind", weight="w"), x[[0, 2, 3]]  # the row without a label needs no weight
    assert built.usable(rest).tolist() == [True, False, True]
    assert built.loss(rest, torch.Generator()).item() == pytest.approx(built.loss(x[[0, 3]], torch.Generator()).item())


def test_a_label_without_any_value_is_refused_among_several() -> None:
    with pytest.raises(DataError, match="static column 'level' has no value in any row; leave it out of label"):
        method(["kind", "level"]).usable(rows([2, 3], [NAN, NAN], [1.0, 1.0]))
    with pytest.raises(DataError, match="column 'level' has no value in any row; at least two rows need a label"):
        method("level").usable(rows([2, 3], [NAN, NAN], [1.0, 1.0]))


@pytest.mark.parametrize(
    "options",
    [
        {"label": ["kind", "level"], "class_weights": "balanced", "weight": "w"},
        {"label": "kind", "class_weights": {"k1": 2.0}},
        {"label": "kind", "class_weights": [1.0, 2.0, 3.0], "static_inputs": ["level"]},
    ],
)
def test_methods_are_described_and_built_again(options: dict[str, Any]) -> None:
    schema = replace(make.schema(), static=(*make.schema().static, WEIGHT))
    built = Supervised(make.encoder("gru"), schema, **options)
    tables = describe(built)
    again = build_method(tables, schema)
    assert {name: value.shape for name, value in again.state_dict().items()} == {
        name: value.shape for name, value in built.state_dict().items()
    }
    assert describe(again)["method"] == tables["method"]
    assert {**options, "batch_norm": False, "inclusive": False, "name": "supervised"} == tables["method"]


# Runs


SIZE = 400


def people(seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events and people: a rare class with most of its events of one code, and a wealth in the amounts."""
    rng = np.random.default_rng(seed)
    rare, wealth = rng.random(SIZE) < 0.1, rng.normal(0, 1, SIZE)
    codes = np.where(rng.random((SIZE, 8)) < np.where(rare, 0.55, 0.3)[:, None], 1, 0)
    events = pl.DataFrame(
        {
            "id": np.repeat(np.arange(SIZE), 8),
            "t": np.tile(np.arange(8), SIZE),
            "code": codes.reshape(-1).astype(str),
            "amount": (wealth[:, None] + rng.normal(0, 0.5, (SIZE, 8))).reshape(-1),
        }
    )
    fraud = pl.Series(rare).replace_strict({True: "yes", False: "no"})
    table = pl.DataFrame({"id": np.arange(SIZE), "fraud": fraud, "wealth": wealth, "weight": np.where(rare, 9, 1)})
    with_label = pl.Series(rng.random(SIZE) < 0.8)
    return events, table.with_columns(wealth=pl.when(with_label).then("wealth"))


FIT: dict[str, Any] = {"epochs": 5, "batch_size": 32, "lr": 0.01}


@pytest.fixture(scope="module")
def base() -> ev.Model:
    data = ev.read(people(0)[0], key="id", time="t", categorical=["code"], numeric=["amount"])
    return ev.fit(data, method="ocp", epochs=1)


def test_balanced_classes_and_equal_weights_find_the_rare_class(base: ev.Model) -> None:
    events, table = people(0)
    recalls, means, of_both = {}, {}, {}
    options = {"plain": {}, "balanced": {"class_weights": "balanced"}, "by row": {"weight": "weight"}}
    for name, chosen in options.items():
        run = ev.fine_tune(base, events, table, "fraud", validation=0, **chosen, **FIT)
        predictions = pl.DataFrame(ev.predict(run, events)).join(table, on="id")
        by_class = predictions.group_by("fraud").agg(pl.col("p_yes").mean(), (pl.col("prediction") == "yes").mean())
        means[name], of_both[name] = predictions["p_yes"].mean(), by_class["p_yes"].mean()
        fresh_events, fresh = people(1)
        unseen = pl.DataFrame(ev.predict(run, fresh_events)).join(fresh, on="id").filter(pl.col("fraud") == "yes")
        recalls[name] = (unseen["prediction"] == "yes").mean()
    # Where the gradient of the intercept is 0, the weighted mean of p is the weighted share of the class.
    assert means["plain"] == pytest.approx((table["fraud"] == "yes").mean(), abs=0.03)
    assert of_both["balanced"] == pytest.approx(0.5, abs=0.03)
    assert of_both["by row"] == pytest.approx(0.5, abs=0.03)
    assert min(recalls["balanced"], recalls["by row"]) > recalls["plain"] + 0.2


def test_several_labels_are_learned_and_predicted_by_name(base: ev.Model, tmp_path: Path) -> None:
    events, table = people(0)
    run = ev.fine_tune(base, events, table, ["fraud", "wealth"], out=tmp_path / "run", **FIT)
    assert run.usable == SIZE
    assert run.info["labels"] == ["fraud", "wealth"]
    loaded = ev.load(tmp_path / "run")
    fresh_events, fresh = people(1)
    predictions = pl.DataFrame(ev.predict(loaded, fresh_events))
    names = ["fraud_prediction", "fraud_p_no", "fraud_p_yes", "wealth_prediction"]
    assert predictions.columns == ["id", *names]
    assert predictions.equals(pl.DataFrame(ev.predict(run, fresh_events)))
    both = predictions.join(fresh, on="id").drop_nulls("wealth")
    assert both.select(pl.corr("wealth_prediction", "wealth")).item() > 0.85
    rare = both.filter(pl.col("fraud") == "yes")["fraud_p_yes"].mean()
    assert rare > 1.5 * both.filter(pl.col("fraud") == "no")["fraud_p_yes"].mean()


def test_names_of_predictions_that_meet_are_refused(base: ev.Model) -> None:
    events, table = people(0)
    clashing = table.rename({"fraud": "a", "wealth": "a_p"}).with_columns(pl.col("a").replace("yes", "prediction"))
    run = ev.fine_tune(base, events, clashing, ["a", "a_p"], epochs=1)
    with pytest.raises(ConfigError, match="two labels have predictions of the name 'a_p_prediction'"):
        ev.predict(run, events)
