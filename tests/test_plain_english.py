"""Sentences of `ev.describe` are true to a reader who does not know its rules, and no two contradict each other."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
from plain_english import claim, contradictions, plain_histories
from test_describe import EVERY, events_of, random_histories

SETS: dict[str, tuple[str, str, str, Sequence[str], Sequence[str]]] = {
    "earthquakes": ("usgs_earthquakes/tppllm_style_sequences", "seq_id", "time", ["type_text"], ["mag", "depth"]),
    "badges": ("stackoverflow_badges/events", "seq_id", "time", ["type_text"], []),
    "shop": ("online_retail/transactions", "CustomerID", "InvoiceDate", ["StockCode", "Country"], ["Quantity"]),
    "laboratory": ("nafld/nafld2", "id", "days", ["test"], ["value"]),
    "diagnoses": ("nafld/nafld3", "id", "days", ["event"], []),
    "visits": ("pbc/pbcseq", "id", "day", ["stage", "edema"], ["bili", "chol"]),
    "engines": ("cmapss/train_FD001", "unit", "cycle", [], ["s2", "s3", "s4"]),
    "changelogs": ("debian_changelogs/entries", "package", "date", ["urgency", "dist", "author"], []),
    "taxis": ("tpp_benchmarks/taxi", "seq", "time", ["type"], ["dt"]),
    "loans": ("bpic2012/events", "case", "time", ["activity", "transition", "resource"], []),
    "races": ("rel_f1/results", "driverId", "date", ["status", "constructorId"], ["position", "grid"]),
    "production": ("process_outcomes/production", "Case ID", "Complete Timestamp", ["Activity"], ["Qty_Completed"]),
    "sepsis": ("process_outcomes/sepsis_cases_1", "Case ID", "time:timestamp", ["Activity"], ["CRP", "Leucocytes"]),
    "clients": ("sber_age_sample/transactions", "client_id", "trans_date", ["small_group"], ["amount_rur"]),
    "measurements": ("synthea_omop/measurement", "person_id", "measurement_date", ["measurement_source_value"], []),
    "stays": ("physionet2012/events", "record_id", "minutes", ["parameter"], ["value"]),
}
"""Real data: the file in the folder that EVENTVEC_DATA names, its key, time, columns of codes and of numbers."""
QUICK = ("earthquakes", "visits", "production", "clients")


def read_set(name: str) -> ev.Dataset:
    file, key, time, categorical, numeric = SETS[name]
    table = pl.read_parquet(Path(os.environ["EVENTVEC_DATA"]) / f"{file}.parquet").drop_nulls(key)
    if name == "stays":
        table = table.filter(pl.col("set") == "a")
    return ev.read(table, key=key, time=time, categorical=categorical, numeric=numeric)


def check(data: ev.Dataset) -> None:
    """Fail if a sentence about a history is false, or two of them contradict each other."""
    table = ev.describe(data, names=None, most=100_000)
    key = data.schema.key_out
    told = dict(table.group_by(key, maintain_order=True).agg("sentence").iter_rows())
    assert len(told) == sum(data.sequences.lengths > 0)
    for name, history in zip(pl.Series(data.keys).to_list(), plain_histories(data), strict=True):
        sentences = told.get(name, [])
        assert contradictions(sentences) == [], name
        assert [sentence for sentence in sentences if not claim(sentence)(history)] == [], (name, history)


@pytest.mark.data
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SETS])
def test_sentences_about_real_histories_are_true_and_contradict_none(name: str) -> None:
    check(read_set(name))


def test_sentences_about_some_aircraft_are_true_and_contradict_none() -> None:
    check(ev.datasets.flights()[0][torch.arange(0, 4_043, 400)])


@pytest.mark.slow
def test_sentences_about_all_aircraft_are_true_and_contradict_none() -> None:
    check(ev.datasets.flights()[0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("least", [1, 40])  # how many events a code has that is not an unknown one
def test_sentences_about_random_histories_are_true_and_contradict_none(seed: int, least: int) -> None:
    events = events_of(random_histories(seed, apart=seed >= 2))
    fitting = ev.Fitting(min_count=least)
    check(ev.read(events, key="card", time="when", categorical=["mcc"], numeric=["amount"], fitting=fitting))


def test_the_reader_finds_contradictions_and_false_sentences() -> None:
    data = ev.read(events_of(random_histories(0)), key="card", time="when", categorical=["mcc"], numeric=["amount"])
    history = next(each for each in plain_histories(data) if each.n == 30)
    told = ["Most events have the mcc number 1.", "Most events have the mcc number 2.", "No mcc dominates."]
    assert len(contradictions(told)) == 4  # both orders of the first two, and the last one with each
    assert not all(claim(sentence)(history) for sentence in told)
    assert contradictions(["Most events have the mcc number 1.", "Most events have the shop number 2."]) == []


def told(times: Sequence[Any], codes: Sequence[str | None], amounts: Sequence[float | None]) -> list[str]:
    """Return the sentences about a history, told among forty others that have amounts from 0 to 39 and many codes."""
    others = pl.DataFrame({"id": range(1, 41), "t": [times[0]] * 40, "code": "z", "amount": np.arange(40.0)})
    one = pl.DataFrame(
        {"id": 0, "t": times, "code": list(codes), "amount": amounts}, schema_overrides={"amount": pl.Float64}
    )
    events = pl.concat([one.with_columns(pl.col("id").cast(pl.Int64), pl.col("code").cast(pl.String)), others])
    data = ev.read(events, key="id", time="t", categorical=["code"], numeric=["amount"], fitting=EVERY)
    return ev.describe(data, most=1_000).filter(pl.col("id") == 0)["sentence"].to_list()


DAYS = [dt.datetime(2024, 1, 1, 12) + dt.timedelta(days=day) for day in range(40)]
MIDNIGHTS = [dt.datetime(2024, 1, day) for day in range(1, 29)]
NONE: list[float | None] = [None] * 40
Case = tuple[list[Any], Sequence[str | None], list[float | None]]


@pytest.mark.parametrize(
    ("case", "true", "false"),
    [
        ((DAYS[:20], "a" * 20, [39.0, 38.0, *NONE[:18]]), "All events have the code a.", "a high amount"),
        ((DAYS[:4], "abab", [39.0, 39.0, 0.0, 0.0]), "The history begins with the code a.", "Most events"),
        ((DAYS[:20], ["a", "a", *[None] * 18], NONE[:20]), "Some events have the code a.", "always the same"),
        ((DAYS[:20], ["a", "a", *[None] * 18], NONE[:20]), "There are 11 to 20 events.", "dominates"),
        ((DAYS[:20], ["a", *"b" * 19], NONE[:20]), "Almost all events have the code b.", "All events have the code b"),
        ((DAYS[:9], "aabbcdefg", NONE[:9]), "Some events have the code a.", "code c"),
        ((DAYS[:12], "abcd" + "a" * 8, NONE[:12]), "Most events have the code a.", "varies a lot"),
        ((DAYS, "abcdefghij" * 4, NONE), "The code has 6 to 10 different values.", "few different values"),
        (([DAYS[0]] * 6, "abcdef", [1.0, 1.0, 2.0, 3.0, 4.0, 5.0]), "There are 6 to 10 events.", "rises"),
        (([dt.date(2024, 1, 1)] * 2, "ab", NONE[:2]), "All events lie within a day.", "within an hour"),
        (([dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "ab", NONE[:2]), "All events lie within a week.", "within a day"),
        (([dt.datetime(2023, 1, 1, 5), dt.datetime(2024, 1, 2, 5)], "ab", NONE[:2]),
         "All events lie within three years.", "within a year"),
        ((MIDNIGHTS[:4], "abcd", NONE[:4]), "There are 3 to 5 events.", "at night"),
        ((MIDNIGHTS[::7], "abcd", NONE[:4]), "There are 3 to 5 events.", "Mondays"),
        ((sorted(DAYS[:5] * 2), "abacadaeaf", NONE[:10]), "Many events have the code a.", "from one event to the next"),
        ((DAYS[:10:2] + DAYS[10:20], "abcbd" + "e" * 10, NONE[:15]), "There are 11 to 20 events.", "steady"),
    ],
)  # fmt: skip
def test_what_is_false_in_plain_english_is_not_told(case: Case, true: str, false: str) -> None:
    sentences = told(*case)
    assert true in sentences
    assert not any(false in sentence for sentence in sentences), sentences


def test_codes_that_the_schema_does_not_have_are_values_too() -> None:
    events = pl.DataFrame({"id": 0, "t": range(30), "code": [*"ab" * 10, *"cdefghijkl"]})
    data = ev.read(events, key="id", time="t", categorical=["code"], fitting=ev.Fitting(min_count=5))
    sentences = ev.describe(data, most=1_000)["sentence"]
    assert "Many events have the code a." in sentences.to_list()
    assert not sentences.str.contains("different values|varied over time|All values").any()
