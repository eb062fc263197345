"""The medical data sets: small tables in their format, labels by a loop, and the counts of the published tables."""

from __future__ import annotations

import statistics
from pathlib import Path

import polars as pl
import pytest

from disk import parquet
from eventvec.errors import ConfigError
from experiments import data as datasets

# physionet2012: a table in the same format


@pytest.fixture
def stays(folder: Path) -> pl.DataFrame:
    parquet(
        folder / "physionet2012/outcomes.parquet",
        {"RecordID": [1, 2, 3, 4], "In-hospital_death": [0, 1, 0, 1], "set": ["a", "b", "a", "c"]},
    )
    return parquet(
        folder / "physionet2012/events.parquet",
        {
            "set": ["a", "a", "b", "b", "b", "c", "c"],
            "record_id": [1, 1, 2, 2, 2, 4, 4],
            "minutes": [5, 7, 0, 0, 9, 1, 2],
            "parameter": ["HR", "MechVent", "HR", "MechVent", "HR", "HR", "HR"],
            "value": [70.0, 1.0, 90.0, 1.0, 110.0, 60.0, 735.0],
        },
    ).cast({"record_id": pl.Int32})


def test_physionet_values_are_scaled_by_parameter_over_all_sets(stays: pl.DataFrame) -> None:
    events, _ = datasets.physionet2012_frames("a")
    heart = stays.filter(parameter="HR")["value"].to_list()
    low, middle, high = statistics.quantiles(heart, n=4, method="inclusive")
    assert events.rows()[0][:3] == (1, 5, "HR")
    expected = [(70 - middle) / (high - low), 0.0]  # MechVent is constant: only the median is subtracted
    assert events["value"].to_list() == pytest.approx(expected)


def test_physionet_labels_are_those_of_stays_with_events(stays: pl.DataFrame) -> None:
    assert datasets.physionet2012_frames("ab")[1].rows() == [(1, "a", 0), (2, "b", 1)]  # stay 3 has no event
    events, labels = datasets.physionet2012_frames()
    assert (len(events), labels["record_id"].to_list()) == (len(stays), [1, 2, 4])


@pytest.mark.parametrize("sets", ["", "d", "abd"])
def test_physionet_refuses_another_set(sets: str) -> None:
    with pytest.raises(ConfigError, match="letters a, b and c"):
        datasets.physionet2012(sets)


@pytest.mark.data
def test_physionet_counts() -> None:
    data, labels = datasets.physionet2012("a")
    assert data.keys.to_pylist() == labels["record_id"].to_list()
    assert (len(data), data.sequences.total) == (3_997, 1_733_980)
    assert labels["In-hospital_death"].sum() == 554


# nafld: tables in the same format

NAFLD = {  # person: dates of measurement, diagnoses, end of follow-up
    1: ([-10, 0, 5, 90], [(5 + 1826, "diabetes")], 5000),  # on the last day of the five years
    2: ([-10, 0, 5], [(5 + 1827, "diabetes")], 5000),  # one day later: after the five years
    3: ([1, 2, 3], [(3, "diabetes")], 5000),  # on the day itself: not a first diagnosis afterwards
    4: ([1, 2, 3], [(3, "htn"), (4, "MI")], 3 + 1825),  # follow-up ends a day too early
    5: ([1, 2, 3], [(9, "diabetes"), (7, "diabetes")], 10),  # diagnosed, however short the follow-up
    6: ([1, 2], [], 5000),  # two dates
    7: ([], [(4, "stroke")], 5000),  # no test: no row
    8: ([1, 1, 2, 3], [], 3 + 1826),  # two tests on one day are one date
}


@pytest.fixture
def livers(folder: Path) -> Path:
    tests = [(person, day, "sbp", 100.0 + i) for person, (days, _, _) in NAFLD.items() for i, day in enumerate(days)]
    tests += [(person, day, "dbp", value) for person, day, _, value in tests]  # as in the published table
    tests += tests[:3]
    diagnoses = [(person, *diagnosis) for person, (_, history, _) in NAFLD.items() for diagnosis in history]
    parquet(folder / "nafld/nafld1.parquet", {"id": list(NAFLD), "futime": [end for _, _, end in NAFLD.values()]})
    for number, names, rows in ((2, ("id", "days", "test", "value"), tests), (3, ("id", "days", "event"), diagnoses)):
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        parquet(folder / f"nafld/nafld{number}.parquet", columns)
    return folder


def slow_label(person: int) -> tuple[int, bool | None] | None:
    """Return the day of the third date and the label; None for a person without a test."""
    days, diagnoses, end = NAFLD[person]
    dates = sorted(set(days))
    if not dates:
        return None
    at = dates[:3][-1]
    first = min((day for day, name in diagnoses if name == "diabetes"), default=None)
    if len(dates) < 3 or (first is not None and first <= at):
        return at, None
    if first is not None and first <= at + 1826:
        return at, True
    return at, False if end >= at + 1826 else None


def test_nafld_labels_equal_a_loop_over_people(livers: Path) -> None:
    expected = {person: label for person in NAFLD if (label := slow_label(person))}
    _, labels = datasets.nafld_frames()
    assert {person: (at, label) for person, at, label in labels.iter_rows()} == expected
    assert [label for _, label in expected.values()] == [True, False, None, None, True, None, False]


def test_nafld_rows_end_with_the_day_of_the_third_date(livers: Path) -> None:
    data, labels = datasets.nafld()
    assert data.keys.to_pylist() == labels["id"].to_list()
    assert [data[[row]].sequences.values("time").tolist() for row in range(len(data))] == [
        [-10, 0, 5],
        [-10, 0, 5],
        [1, 2, 3, 3],
        [1, 2, 3, 3],
        [1, 2, 3],
        [1, 2],
        [1, 1, 2, 3],
    ]
    events, _ = datasets.nafld_frames()
    assert set(events["kind"]) == {"sbp", "diabetes", "htn", "MI", "stroke"}
    pressures = sorted(100.0 + i for days, _, _ in NAFLD.values() for i in range(len(days)))
    low, middle, high = statistics.quantiles(pressures, n=4, method="inclusive")
    first = events.filter(id=1, days=5, kind="sbp")["value"].to_list()
    assert first == pytest.approx([(102 - middle) / (high - low)])


@pytest.mark.data
def test_nafld_counts() -> None:
    data, labels = datasets.nafld()
    assert (len(data), data.sequences.total) == (15_666, 58_314)
    assert (labels["diabetes"].count(), labels["diabetes"].sum()) == (10_226, 897)
    last = data.sequences.values("time")[data.sequences.lengths.cumsum(0) - 1]
    assert (last.numpy() <= labels["at"].to_numpy()).all()


# pbc: a table in the same format

PATIENTS = [  # last day of follow-up, status; 800 + 730 = 1530
    (800, 2, None),  # ended on the day itself
    (801, 1, True),  # a transplant on the next day
    (1530, 2, True),
    (1531, 2, False),
    (1530, 0, False),  # followed to the end
    (1529, 0, None),  # one day short
]


@pytest.fixture
def cirrhosis(folder: Path) -> Path:
    rows = [(i, end, status, day) for i, (end, status, _) in enumerate(PATIENTS) for day in (800, 0, 801) if day <= end]
    columns = dict(zip(("id", "futime", "status", "day"), map(list, zip(*rows, strict=True)), strict=True))
    findings = {name.replace("_", "."): [1.0] * len(rows) for name in datasets.PBC_FINDINGS}
    parquet(folder / "pbc/pbcseq.parquet", {**columns, **findings, "rownames": list(range(len(rows)))})
    return folder


def test_pbc_labels_patients_at_risk_on_the_day(cirrhosis: Path) -> None:
    data, labels = datasets.pbc()
    assert labels.rows() == [(i, 800, ended) for i, (_, _, ended) in enumerate(PATIENTS)]
    assert data.keys.to_pylist() == labels["id"].to_list()
    assert [data[[row]].sequences.values("time").tolist() for row in range(6)] == [[0, 800]] * 6


def test_pbc_times_label_each_visit(cirrhosis: Path) -> None:
    labels = {(i, day): ended for _, i, day, ended in datasets.pbc_times().iter_rows()}
    for i, (end, status, _) in enumerate(PATIENTS):
        for day in (day for day in (0, 800, 801) if day <= end):
            within = status > 0 and day < end <= day + 730
            assert labels[i, day] == (within or None if end <= day or not (within or end >= day + 730) else within)
    assert datasets.pbc_times()["visit"].is_unique().all()


@pytest.mark.data
def test_pbc_counts() -> None:
    data, labels = datasets.pbc()
    assert (len(data), data.sequences.total) == (312, 1_023)
    assert (labels["ended"].count(), labels["ended"].sum()) == (267, 46)
    ended = datasets.pbc_times()["ended"]
    assert (len(ended), ended.count(), ended.sum()) == (1_945, 1_802, 313)
