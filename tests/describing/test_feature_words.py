"""Features in words against phrases from a loop over raw events, and what is said where a feature is undefined."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eventvec.describing.feature_words import feature_words
from eventvec.encoders import Aggregates, Handcrafted, RunningHandcrafted
from eventvec.schema import FIRST, MISSING, Categorical, Numeric, Schema
from feature_phrases import LENGTHS, UNITS, Row, a_schema, rows_of, same


@pytest.mark.parametrize("kind", UNITS)
def test_phrases_are_those_of_a_loop_over_events(kind: str) -> None:
    schema, x = a_schema(kind), rows_of(kind, LENGTHS)
    encoder = Handcrafted(schema)
    z = encoder(x).numpy()
    differ = []
    for row in range(1, len(LENGTHS)):
        expected = Row(x, row, schema).phrases()
        assert {*expected} == {*encoder.names}
        told = dict(zip(encoder.names, feature_words(schema, encoder.names, z[row]), strict=True))
        differ += [(row, name, told[name], expected[name]) for name in told if not same(told[name], expected[name])]
    assert differ == []
    assert {*feature_words(schema, encoder.names, z[0])} == {"there are no events"}


def test_running_features_have_the_same_phrases() -> None:
    schema, x = a_schema("date"), rows_of("date", LENGTHS)
    encoder, running = Handcrafted(schema), RunningHandcrafted(schema, within=50)
    every, some_of = encoder(x).numpy(), running(x).numpy()
    for row in range(len(LENGTHS)):
        phrases = dict(zip(encoder.names, feature_words(schema, encoder.names, every[row]), strict=True))
        expected = [phrases[name] for name in running.names]
        assert feature_words(schema, running.names, some_of[row]) == expected


def test_aggregates_are_no_logs() -> None:
    schema, x = a_schema("integer"), rows_of("integer", LENGTHS)
    encoder = Aggregates(schema)
    z = encoder(x).numpy()
    for row in range(1, len(LENGTHS)):
        expected = Row(x, row, schema).phrases()
        told = feature_words(schema, encoder.names, z[row], logs=False)
        for name, phrase, value in zip(encoder.names, told, z[row], strict=True):
            if name.startswith("tags"):
                continue
            if ("mean" in name or name.endswith(("std", "min", "max"))) and value == 0:
                assert " is 0, or " in phrase or phrase.startswith("no event has "), phrase
            elif name.endswith("distinct"):
                assert phrase.split(",")[0] == expected[name].split(",")[0]
            else:
                assert same(phrase, expected[name]), (name, phrase, expected[name])
        codes = x[[row]].columns["tags"][x[[row]].flat()].values("code").tolist()
        counts = {"tags=red": codes.count(FIRST), "tags=blue": codes.count(FIRST + 1)}
        words = dict(zip(encoder.names, told, strict=True))
        for name, count in counts.items():
            times = ["never", "once", "twice"][count] if count < 3 else f"{count} times"
            assert words[f"{name}: count"] == f"{name.removeprefix('tags=')} is {times} in tags"
        assert str(len({*codes} - {MISSING})) in words["tags: distinct"].replace("no ", "0 ").replace("one ", "1 ")


@pytest.mark.parametrize("kind", UNITS)
def test_every_name_has_a_phrase_of_its_own(kind: str) -> None:
    tricky = Categorical("a=b", ("c", "x: count", "y where z", ""))
    schemas = [
        a_schema(kind),
        Schema("id", "at", kind),
        Schema("id", "at", kind, numeric=(Numeric("n: mean"), Numeric("m where k=v", log=False))),
        Schema("id", "at", kind, categorical=(tricky, Categorical("b", ("c",))), numeric=(Numeric("paid"),)),
    ]
    for schema in schemas:
        for encoder, logs in ((Handcrafted(schema), True), (RunningHandcrafted(schema, within=9), True),
                              (Aggregates(schema), False)):  # fmt: skip
            rng = np.random.default_rng(0)
            for values in (np.zeros(encoder.dim), np.ones(encoder.dim), rng.random(encoder.dim) * 5):
                phrases = feature_words(schema, encoder.names, values, logs=logs)
                told = zip(encoder.names, phrases, strict=True)
                assert [name for name, text in told if text.startswith(f"{name} is ")] == []


def test_features_without_the_number_of_events_say_their_name_and_value() -> None:
    names = ["paid: mean", "shop=tea: share of last 3", "time: recency", "gap: mean"]
    told = feature_words(a_schema("timestamp"), names, np.array([0, 0.25, 60, -1.5]))
    assert told == ["paid: mean is 0", "shop=tea: share of last 3 is 0.25", "time: recency is 60", "gap: mean is -1.5"]


def test_features_of_the_latest_events_say_so() -> None:
    schema, x = a_schema("date"), rows_of("date", [45, 30, 45], seed=3)
    encoder = Handcrafted(schema, latest=30)
    z = encoder(x).numpy()
    told = dict(zip(encoder.names, feature_words(schema, encoder.names, z[0], latest=30), strict=True))
    last = x.slice(torch.arange(3), x.lengths - 30, torch.tensor([30, 30, 30]))
    expected = Row(last, 0, schema).phrases()
    name = "time: share in last half"
    assert told[name] == expected[name].replace("30 events", "the latest 30 events").replace("the time", "their time")
    for name in ("shop: entropy", "paid: change", "paid: slope", "gap: median", "paid where shop=tea: late mean"):
        words, at_latest, end = told[name].partition(" (of the latest 30 events)")
        assert at_latest, name
        assert same(words + end, expected[name]), name
    whole = Row(x, 0, schema).phrases()
    running = [name for name in RunningHandcrafted(schema, within=50).names if name != "events"]
    assert all(same(told[name], whole[name]) for name in (*running, "time: tenure"))
    short = feature_words(schema, encoder.names, z[1], latest=30)
    assert not any("latest" in phrase for phrase in short)


def test_only_the_chosen_features_are_told_and_the_others_are_read() -> None:
    schema = Schema("card", "day", "date", numeric=(Numeric("paid", log=False),))
    names = ["events", "paid: missing", "vector_3"]
    values = np.array([math.log(13), 0.25, 0.125])
    assert feature_words(schema, names, values, chosen=[1, 2]) == [
        "paid is missing in 3 of 12 events",
        "vector_3 is 0.125",
    ]


def test_a_name_with_two_meanings_is_told_with_its_value() -> None:
    columns = (Categorical("a", ("b=c",)), Categorical("a=b", ("c",)))
    schema = Schema("id", "at", "date", categorical=columns)
    names = ["events", "a=b=c: share"]
    assert feature_words(schema, names, np.array([1.0, 0.5]), chosen=[1]) == ["a=b=c: share is 0.5"]


def test_numbers_beyond_floats_and_long_histories() -> None:
    schema = a_schema("float")
    names = ["events", "shop=tea: share", "shop=tea: count", "paid: max"]
    told = feature_words(schema, names, np.array([math.log1p(5e6), 0.3, math.log1p(1.5e6), 3e30]))
    share = "30 % of 5,000,000 events have shop tea"
    assert told == ["there are 5,000,000 events", share, share, "the largest paid is beyond all numbers"]
