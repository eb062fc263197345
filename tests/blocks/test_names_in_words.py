"""Names of static columns and of earlier labels, and phrases about their features from loops over raw values."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest

import make
from eventvec.blocks.earlier_labels import EarlierLabels, earlier_labels, names_of
from eventvec.blocks.labels_by_rule import LabelsByRule
from eventvec.blocks.rows import Rows
from eventvec.blocks.static_values import VALUES, StaticValues
from eventvec.describing.feature_words import feature_words
from eventvec.describing.other_words import static_names
from eventvec.labels.future_options import FutureOptions
from eventvec.labels.horizons import Rule
from eventvec.learners.task import Target
from eventvec.schema import Categorical, Numeric, Schema, Vector

DAY = 86_400_000_000


def test_static_columns_are_told_in_their_units() -> None:
    data = make.dataset([2] * 30)
    block = StaticValues.of(data.schema, ["kind", "level", "profile"])
    values, _ = block.features(Rows(data))
    assert len(block.names) == block.dim == values.shape[1]
    static = data.sequences.static
    for row in range(30):
        told = feature_words(data.schema, block.names, values[row].astype(np.float32))
        code, level = int(static["kind"][row]), float(static["level"][row])
        expected = [
            f"kind is {'' if code == 0 else 'not '}missing",
            f"kind has {'an' if code == 1 else 'no'} unknown value",
        ]
        expected += [f"kind is {'' if code == place + 2 else 'not '}k{place}" for place in range(3)]
        assert told[:5] == expected
        for what, number, places in (
            ("level", level, (5, 6)),
            ("number 1 of profile", float(static["profile"][row, 0]), (7, 9)),
            ("number 2 of profile", float(static["profile"][row, 1]), (8, 10)),
        ):
            first, second = (told[place] for place in places)
            if np.isnan(number):
                assert first == second == f"{what} is missing"
            else:
                assert second == f"{what} is not missing"
                assert float(first.removeprefix(f"{what} is ").replace(",", "")) == pytest.approx(
                    number, rel=1e-3, abs=1e-6
                )


def test_numbers_and_buckets_of_static_columns() -> None:
    fields = (Numeric("age", mean=41.5), Categorical("plan", (), buckets=30), Vector("z", (2.0,), (1.0,)))
    schema = Schema("id", "at", "date", static=fields)
    assert feature_words(schema, ["age"], np.array([0.0])) == ["age is 0"]
    assert feature_words(schema, ["age", "age is missing"], np.array([0.0, 0])) == ["age is 41.5", "age is not missing"]
    told = feature_words(schema, ["z 1", "z 1 is missing", "plan=bucket 7"], np.array([0.5, 0, 1]))
    assert told == ["number 1 of z is 2.5", "number 1 of z is not missing", "plan is bucket 7"]
    assert feature_words(schema, ["plan=bucket 30", "z 2"], np.array([1.0, 1])) == ["plan=bucket 30 is 1", "z 2 is 1"]
    assert len(static_names(fields[1], VALUES)) == StaticValues.of(schema, ["plan"]).dim


def labels_of(values: list[Any], rng: np.random.Generator, n: int = 60) -> pl.DataFrame:
    """Return labels of 8 entities at days from 0 to 39, known at their time."""
    days = rng.permuted(np.tile(np.arange(40), (8, 1)), axis=1)[:, : n // 8].ravel()
    time = pl.Series("time", days * DAY)
    drawn = rng.integers(0, len(values), len(days))
    return pl.DataFrame([
        pl.Series("entity", np.repeat(np.arange(8), n // 8)), time, time.alias("known"),
        pl.Series("value", [values[place] for place in drawn]),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("task", "values"),
    [("binary", [False, True]), ("multiclass", ["a", "b=c", "d: last"]), ("numeric", [0.0, 2.5, -40.0])],
)
@pytest.mark.parametrize("kind", ["date", "integer"])
def test_earlier_labels_are_those_of_a_loop(task: Any, values: list[Any], kind: Any) -> None:
    rng, schema = np.random.default_rng(0), Schema("id", "at", kind)
    labels = labels_of(values, rng)
    classes = () if task == "numeric" else tuple(values)
    target = Target("left", task, np.zeros(0), np.zeros(0, int), classes)
    entities, moments = rng.integers(0, 9, 80), rng.integers(0, 45, 80) * DAY
    features = earlier_labels(entities, moments, labels, target, schema, inclusive=False)
    names = names_of(target)
    assert len(names) == features.shape[1]
    none, counts = "no earlier left is known", set()
    for row, (entity, moment) in enumerate(zip(entities, moments, strict=True)):
        told = dict(zip(names, feature_words(schema, names, features[row]), strict=True))
        history = sorted((time, value) for owner, time, _, value in labels.rows() if owner == entity and time < moment)
        counts.add(n := len(history))
        if not n:
            assert {*told.values()} == {none}
            continue
        last, age = history[-1][1], (moment - history[-1][0]) / DAY
        assert told["earlier left: known"] == "an earlier left is known"
        assert told["earlier left: count"] == (
            f"{n} earlier values of left are known" if n > 1 else "1 earlier value of left is known"
        )
        days = f"{age:g} day{'' if age == 1 else 's'}"
        unit = f"the time since the last earlier left is {int(age) * DAY:,}"
        assert told["earlier left: age"] == (f"the last earlier left was {days} before" if kind == "date" else unit)
        if task == "numeric":
            mean = sum(value for _, value in history) / n
            assert told["earlier left: last"] == f"the last earlier left is {last:g}"
            start, _, number = told["earlier left: mean"].rpartition(" ")
            assert start == "the mean of the earlier left is"
            assert float(number) == pytest.approx(mean, rel=1e-3)
        for each in classes[task == "binary" :]:
            k = sum(value == each for _, value in history)
            assert (
                told[f"earlier left={each}: last"] == f"the last earlier left is {'' if last == each else 'not '}{each}"
            )
            assert told[f"earlier left={each}: mean"] == f"{k} of {n} earlier values of left are {each}"
    assert {0, 1, 2} <= counts


def test_earlier_labels_in_units_and_with_equal_signs_in_their_names() -> None:
    schema = Schema("id", "at", "timestamp")
    names = [f"earlier a=b{what}" for what in (": known", ": count", ": age", "=c: last", "=c: mean")]
    assert feature_words(schema, names, np.array([1, 4, 5400, 1, 0.25])) == [
        "an earlier a=b is known", "4 earlier values of a=b are known", "the last earlier a=b was 1.5 hours before",
        "the last earlier a=b is c", "1 of 4 earlier values of a=b are c",
    ]  # fmt: skip
    assert feature_words(schema, names[-1:], np.array([1])) == ["earlier a=b=c: mean is 1"]


def test_blocks_of_earlier_labels_name_their_features() -> None:
    target = Target("left", "binary", np.zeros(0), np.zeros(0, int), (0, 1))
    of_table = EarlierLabels("id", target, dt.timedelta(days=1), inclusive=False)
    rule = Rule.of(make.schema(), FutureOptions(every="1mo", horizon="30d", label="event"))
    by_rule = LabelsByRule(rule, target, inclusive=False)
    assert of_table.names == by_rule.names == names_of(target)
    assert len(of_table.names) == of_table.dim == by_rule.dim
