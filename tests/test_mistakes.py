"""Natural mistakes of a first day, and the sentence that each gets: an error, a warning, the verdict, or a note."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.commands import invoke

import eventvec as ev

pytestmark = pytest.mark.usefixtures("few_kernels")
N, DUE = 60, datetime(2024, 5, 1)
COLUMNS: dict[str, Any] = {"key": "card", "time": "at", "categorical": ["shop"], "numeric": ["paid"]}


@cache
def events() -> pl.DataFrame:
    """Return payments from January to July 2024."""
    rng = np.random.default_rng(0)
    card = np.repeat(np.arange(N), 30)
    at = np.datetime64("2024-01-01", "us") + rng.integers(0, 200 * 86_400, len(card)) * np.timedelta64(1, "s")
    shops = rng.choice(["tea", "oil", "fish"], len(card))
    return pl.DataFrame({"card": card, "at": at, "shop": shops, "paid": rng.lognormal(2, 1, len(card))})


@cache
def labels() -> pl.DataFrame:
    """Return a random label of each card, without a time."""
    return pl.DataFrame({"card": range(N), "churn": np.random.default_rng(1).permutation(N) % 2})


def due(values: Any) -> pl.DataFrame:
    """Return the labels with a column that is meant as their time."""
    return labels().with_columns(
        pl.lit(values).alias("due") if not isinstance(values, list) else pl.Series("due", values)
    )


def fitted(events: Any = None, labels_: Any = None, label: Any = "churn", **options: Any) -> ev.EventClassifier:
    """Return a classifier; options of the class and of `fit` may mix."""
    given = {name: options.pop(name) for name in ("vector", "key", "time", "reading") if name in options}
    model = ev.EventClassifier(**{**COLUMNS, "progress": False, **given})
    table = globals()["events"]() if events is None else events
    return model.fit(table, due(DUE) if labels_ is None else labels_, label, **options)


@cache
def model() -> ev.EventClassifier:
    return fitted(labels_=labels(), label_time="none")


@cache
def run() -> ev.Model:
    """Return a run that has learned the label."""
    data = ev.read(events(), **COLUMNS)
    return ev.fine_tune(ev.fit(data, method="coles", epochs=1, dim=4, beside=[]), data, labels(), "churn", epochs=1)


def tells() -> pl.DataFrame:
    """Return a table without times, one column of which tells the label."""
    return labels().select("card", refund=pl.col("churn") + pl.Series(np.random.default_rng(2).random(N)) / 2)


def vectors(**options: Any) -> ev.Answer:
    """Return an evaluation of vectors as of the times of the labels."""
    data = ev.read(events(), cutoffs=due(DUE), cutoff_column="due", **COLUMNS)
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2), data)
    return ev.evaluate(z, None, due(DUE), "churn", models=["logistic_regression"], **options)


def written(folder: Path, content: str) -> Path:
    (folder / "events.csv").write_text(content)
    return folder / "events.csv"


def command(*arguments: object) -> None:
    """Run a command, and raise its message."""
    done = invoke(*arguments)
    if done.exit_code:
        raise ev.ConfigError(done.stderr)


DATED = pl.col("at").dt.date()
HOURS = [datetime(2024, 5, 1, 1)] * N
ZONED = pl.lit(DUE).dt.replace_time_zone("Europe/Berlin")
MIXED = ["2024-05-01T00:00:00Z", "2024-05-01T00:00:00"] * (N // 2)
COMMAS = pl.col("paid").round(2).cast(pl.String).str.replace(".", ",", literal=True)
HALF = labels().with_columns(churn=pl.when(pl.col("card") < 20).then(float("nan")).otherwise("churn"))
TWICE = pl.concat([labels(), labels().with_columns(churn=1 - pl.col("churn"))])

ERROR, WARNING, VERDICT, NOTE = "error", "warning", "verdict", "note"
Mistake = tuple[str, Callable[[Path], Any], str]
MISTAKES: dict[str, Mistake] = {
    # Times
    "dated events, labels with a time of day": (
        NOTE, lambda _: fitted(events().with_columns(DATED), due(HOURS)),
        "times of events are whole days, so an event is read from the beginning of the next day on",
    ),
    "a static table that tells the label": (
        VERDICT, lambda _: fitted(static=tells()),
        "the feature 'refund' (static) alone predicts 'churn' with an AUROC of 1.000",
    ),
    "the same, without times": (
        NOTE, lambda _: fitted(static=tells()),
        "The static columns 'refund' have no times, and may hold what became known after a label.",
    ),
    "features that tell the label": (
        VERDICT, lambda _: fitted(features={"mine": tells()}), "Too good to be true: .*the feature 'refund' (mine)",
    ),
    "features without times in evaluate": (
        NOTE, lambda _: vectors(features={"mine": tells()}), "The table of features 'mine' has no times, and may hold",
    ),
    "labels after all events": (
        VERDICT, lambda _: fitted(labels_=due(datetime(2024, 9, 1))),
        r"No event lies within 4\d days before a label: all 60 labels lie after the last event",
    ),
    "day-first dates": (
        ERROR, lambda _: fitted(labels_=due("24/05/2024")), "'due' is text such as '24/05/2024', not ISO 8601",
    ),
    "months as text": (ERROR, lambda _: fitted(labels_=due("2024-05")), "and looks like months (YYYY-MM); convert it"),
    "seconds since 1970": (ERROR, lambda _: fitted(labels_=due(1714521600)), "look like seconds since 1970; convert"),
    "whole numbers as dates": (ERROR, lambda _: fitted(labels_=due(20240501)), "look like dates (YYYYMMDD); convert"),
    "quarters": (ERROR, lambda _: fitted(labels_=due("2024Q2")), "and looks like quarters (such as 2024Q1); convert"),
    "events without a zone, labels with one": (
        NOTE, lambda _: fitted(labels_=labels().with_columns(due=ZONED)),
        "The times of the events have no zone and count as UTC; those in 'due' have one.",
    ),
    "times with and without a zone": (
        ERROR, lambda _: fitted(labels_=due(MIXED)), "'due' of the labels mixes times with a zone and 30 times without",
    ),
    "labels without times": (VERDICT, lambda _: fitted(labels_=labels()), "The labels have no time, so events after a"),
    "a run that has learned the label": (
        ERROR, lambda _: fitted(vector=run()), "has learned the label 'churn', and its vectors reveal it",
    ),
    "the same under another name": (
        ERROR, lambda _: fitted(labels_=labels().rename({"churn": "left"}), label="left", vector=run()),
        "has learned the label 'churn', of which 'left' is a copy",
    ),
    # What is read
    "the last month only": (
        WARNING, lambda _: model().predict(events().filter(pl.col("at") > datetime(2024, 7, 1))),
        "long histories last .* days (.* days in training); give all events of each entity",
    ),
    "amounts in cents": (
        WARNING, lambda _: model().predict(events().with_columns(pl.col("paid") * 100)),
        "column 'paid': a typical number is .* (.* in training)",
    ),
    "other codes": (
        WARNING, lambda _: model().predict(events().with_columns(pl.col("shop").str.to_uppercase())),
        "column 'shop': 100 % of the values are unknown (0 % in training)",
    ),
    "labels that are NaN": (NOTE, lambda _: fitted(labels_=HALF, label_time="none"), "20 rows of the label table have"),
    "decimal commas": (
        NOTE, lambda _: ev.read(events().with_columns(COMMAS), key="card", time="at"),
        "texts in column 'paid' are numbers in another notation; to read them: decimal=','",
    ),
    # Calls
    "several labels": (ERROR, lambda _: fitted(label=["churn", "spend"]), "an estimator learns one label"),
    "labels that disagree": (
        ERROR, lambda _: fitted(labels_=TWICE, label_time="none"), "60 labelled keys have rows that disagree",
    ),
    "an empty table of labels": (ERROR, lambda _: fitted(labels_=labels()[:0]), "the label table has no rows"),
    "keys that are floats": (
        ERROR, lambda _: fitted(events().with_columns(pl.col("card").cast(float))), "be the key: it holds .* cast",
    ),
    "score as in scikit-learn": (
        ERROR, lambda _: model().score(events(), labels(), "churn"), "score",
    ),
    "a misspelt argument": (ERROR, lambda _: ev.EventClassifier(key="card", tiem="at"), "did you mean 'time'"),
    "a CSV file with semicolons": (
        ERROR, lambda folder: ev.read(written(folder, "card;at;paid\n1;2024-01-01;2,5\n"), key="card", time="at"),
        "separates its columns by semicolons, and commas are accepted",
    ),
    "a column name with a NUL": (
        ERROR, lambda _: ev.read(events().rename({"paid": "pa\0id"}), key="card", time="at"), "NUL",
    ),
    "cuda where there is none": (
        ERROR, lambda _: ev.fit(ev.read(events(), **COLUMNS), method="coles", device="cuda:99"),
        "device 'cuda:99' cannot be used",
    ),
    "an output that exists": (
        ERROR, lambda folder: command("fit", "--events", "e.csv", "--labels", "l.csv", "--label", "y", "--out", folder),
        "is not empty and holds no run; choose a new folder",
    ),
    "the label among the events": (
        ERROR, lambda _: fitted(label="paid", labels_=due(DUE).with_columns(paid=pl.col("churn"))),
        "the label 'paid' is also a column of the events, which are features",
    ),
}  # fmt: skip
"""By its name where the sentence stands, what a user does, and the sentence, in which `.*` and `\\d` are patterns."""


def sentences(mistake: Callable[[Path], Any], folder: Path) -> dict[str, list[str]]:
    """Return what a user is told, by where it stands."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = mistake(folder)
        except ev.EventvecError as error:
            return {ERROR: [str(error)]}
    answer = result.explain() if isinstance(result, ev.EventClassifier) else result
    return {
        WARNING: [str(each.message) for each in caught if issubclass(each.category, ev.EventvecWarning)],
        VERDICT: list(getattr(answer, "verdict", ())),
        NOTE: list(getattr(answer, "notes", ())),
    }


def test_there_are_as_many_mistakes_as_were_tried() -> None:
    assert len(MISTAKES) == 32


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_its_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    place, mistake, sentence = MISTAKES[name]
    pattern = re.escape(sentence).replace(r"\.\*", ".*").replace(r"\\d", r"\d")
    lines = sentences(mistake, tmp_path)
    assert any(re.search(pattern, line) for line in lines.get(place, [])), lines
