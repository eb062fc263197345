"""The set `stays`: two days of measurements in intensive care, and thirty questions of a doctor.

The questions and rules were written before any search was run on them.
"""

from __future__ import annotations

import polars as pl
import torch

from experiments.data.data_folder import data_file
from experiments.words.queries import Query, number

KEY = "stay"
DRAWN, SEED = 1_500, 46
HOUR, DAY = 60, 1_440  # minutes
BLOOD_TESTS = (
    "ALP", "ALT", "AST", "Albumin", "BUN", "Bilirubin", "Cholesterol", "Creatinine", "Glucose", "HCO3", "HCT", "K",
    "Lactate", "Mg", "Na", "PaCO2", "PaO2", "Platelets", "SaO2", "TroponinI", "TroponinT", "WBC", "pH",
)  # fmt: skip


def frame() -> pl.DataFrame:
    """Return the measurements of 1,500 stays of set a of physionet2012, drawn once.

    The columns are `stay`, `minute` (since admission), `parameter` (its short name) and `value` (in its unit).

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.
    """
    path = data_file("physionet2012/events.parquet", "https://physionet.org/content/challenge-2012")
    events = pl.read_parquet(path).filter(pl.col("set").cast(pl.String) == "a")
    stays = events["record_id"].unique().sort()
    rows = torch.randperm(len(stays), generator=torch.Generator().manual_seed(SEED))[:DRAWN].numpy()
    drawn = events.filter(pl.col("record_id").is_in(stays.gather(rows).implode()))
    text, value = pl.col("parameter").cast(pl.String), pl.col("value").cast(pl.Float64)
    columns = {"stay": pl.col("record_id"), "minute": pl.col("minutes").cast(pl.Int64), "parameter": text}
    return drawn.select(**columns, value=value).sort(KEY, "minute", maintain_order=True)


def for_rules(events: pl.DataFrame) -> pl.DataFrame:
    """Return the measurements: rules read no columns beside them."""
    return events


def measured(*parameters: str) -> pl.Expr:
    """Return whether an event measures one of some parameters."""
    return pl.col("parameter").is_in(parameters)


def values(*parameters: str) -> pl.Expr:
    """Return the values of some parameters."""
    return pl.col("value").filter(measured(*parameters))


def minutes(*parameters: str) -> pl.Expr:
    """Return the minutes at which some parameters are measured."""
    return minute.filter(measured(*parameters))


def during(first_hour: int, until_hour: int, *parameters: str) -> pl.Expr:
    """Return the values of some parameters from one hour until before another."""
    return pl.col("value").filter(measured(*parameters) & (minute >= first_hour * HOUR) & (minute < until_hour * HOUR))


minute = pl.col("minute")
blood = measured(*BLOOD_TESTS)
first_day = minute < DAY
cuff, line = ("NISysABP",), ("SysABP",)
systolic = (*cuff, *line)
quarter_1, quarter_2, quarter_3, quarter_4 = (during(start, start + 12, *systolic).mean() for start in (0, 12, 24, 36))

QUERIES = (
    # which measurements, how often, when
    Query("hardly any lab tests in the first day", number(blood & first_day) <= 15),
    Query("blood drawn over and over again", number(blood) >= 120),
    Query("somebody kept a close eye on the troponin", number(measured("TroponinT", "TroponinI")) >= 4),
    Query("put on the ventilator only later, not when the patient arrived", minutes("MechVent").first() >= 12 * HOUR),
    Query("extubated early: off the ventilator within half a day and never on it again",
          minutes("MechVent").last() <= 12 * HOUR),
    Query("breathing by machine throughout both days",
          (minutes("MechVent").first() <= 2 * HOUR) & (minutes("MechVent").last() >= 46 * HOUR)),
    Query("pressure was taken with a cuff to begin with, then an arterial line went in",
          (minutes(*cuff).first() < minutes(*line).first()) & (minutes(*line).first() >= 6 * HOUR)),
    Query("the arterial line came out again after roughly a day",
          (number(measured(*line)) >= 5) & (minutes(*line).last() < 28 * HOUR) & (minute.last() > 40 * HOUR)),
    Query("weight written down practically every hour", number(measured("Weight")) >= 60),
    Query("lactate checked on the first day, nobody bothered afterwards",
          (minutes("Lactate").len() >= 3) & (minutes("Lactate").last() < DAY)),
    Query("the liver was looked at, but not until the second day", minutes("ALT", "AST").first() >= DAY),
    Query("one blood gas after another in the second half of the stay", number(measured("pH") & ~first_day) >= 7),
    Query("a whole battery of tests as soon as they came through the door",
          pl.col("parameter").filter(minute <= HOUR).n_unique() >= 20),
    # pauses and pace
    Query("nobody recorded anything for hours at a stretch", minute.diff().max() >= 200),
    Query("the notes break off before the two days are over", minute.last() <= 47 * HOUR),
    Query("nothing at all in the chart for a good while after admission, the first entries come late",
          minute.first() >= 100),
    Query("watched far more closely at the start than at the end",
          number(minute >= 36 * HOUR) <= 0.42 * number(minute < 12 * HOUR)),
    Query("things got hectic on day two: many more measurements than on day one",
          number(~first_day) >= 1.15 * number(first_day)),
    # values that are high or low
    Query("racing heart the whole time", values("HR").mean() >= 106),
    Query("slow pulse", values("HR").median() <= 65),
    Query("runs a high fever", (values("Temp") >= 39).sum() >= 2),
    Query("barely passes any water", (values("Urine").sum() <= 1_200) & (values("Urine").len() >= 4)),
    Query("stays in a deep coma", values("GCS").max() <= 8),
    Query("blood sugar through the roof", values("Glucose").max() >= 320),
    # values that change
    Query("blood pressure keeps falling",
          (quarter_1 > quarter_2) & (quarter_2 > quarter_3) & (quarter_3 > quarter_4)),
    Query("wakes up: much more alert at the end than on arrival", values("GCS").last() - values("GCS").first() >= 10),
    Query("kidneys getting worse from day to day",
          (values("Creatinine").last() >= 1.3 * values("Creatinine").first()) & (values("Creatinine").last() >= 1.3)),
    Query("too acidic at first, put right later", (values("pH").first() <= 7.28) & (values("pH").last() >= 7.36)),
    Query("arrived cold and was warmed up",
          (values("Temp").first() <= 35.2) & (values("Temp").last() >= 36.5)),
    Query("heart rate all over the place", values("HR").std() >= 18),
)  # fmt: skip
