"""Earlier labels as features: against loops over the table of labels, and hidden until they were known."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.commands import answer, invoke

import eventvec as ev
from eventvec.errors import ConfigError
from eventvec.evaluation import on_labels
from eventvec.evaluation.suspicion import OPENING
from eventvec.examples.labelled import join_examples
from eventvec.tables.label_times import labels_beside
from eventvec.tables.read_options import LabelTime
from eventvec.tables.times import duration

N, START, US = 40, datetime(2024, 1, 29, 12), timedelta(microseconds=1)
MODELS: dict[str, Any] = {"models": ["logistic_regression"], "folds": 3}
LABELS: dict[str, Any] = {"yes": "binary", "kind": "multiclass", "worth": "numeric", "price": "numeric"}


def panel(seed: int = 0) -> pl.DataFrame:
    """Return labels of 40 cards at several times each, some missing, repeated or in disagreement, in random order."""
    rng = np.random.default_rng(seed)
    n = 12 * N
    # many labels of one card have equal times, or differ by a microsecond or by whole days
    steps = rng.choice([0, 1, 2, 14, 28, 29, 30, 31, 59, 60], n)
    at = [
        START + timedelta(days=int(step)) + int(shift) * US
        for step, shift in zip(steps, rng.integers(-1, 2, n), strict=True)
    ]
    table = pl.DataFrame({
        "card": rng.integers(0, N, n), "at": pl.Series(at, dtype=pl.Datetime("us")), "yes": rng.random(n) < 0.4,
        "kind": rng.choice(["a", "b", "c"], n), "worth": rng.normal(size=n).round(1),
        "price": [Decimal(int(cents)) / 8 for cents in rng.integers(0, 999, n)], "weight": 0.1 + rng.random(n),
        "city": 0,
    })  # fmt: skip
    table = table.with_columns(
        pl.when(pl.Series(rng.random(n) < 0.8)).then(pl.col(name)).alias(name) for name in ("yes", "kind", "worth")
    ).with_columns(pl.when(pl.Series(rng.random(n) < 0.9)).then("worth").otherwise(float("nan")).alias("worth"))
    table = pl.concat([table, table.sample(60, seed=seed), table.sample(60, seed=1).with_columns(yes=pl.lit(True))])
    return table.with_columns(city=pl.col("card") // 4).sample(fraction=1, shuffle=True, seed=seed)


def embedded(table: pl.DataFrame, **options: Any) -> tuple[ev.Embeddings, pl.DataFrame]:
    """Return embeddings of each card's events before each of its times, and the events."""
    rng = np.random.default_rng(1)
    first = [START - timedelta(days=int(day)) for day in rng.integers(1, 90, 5 * N)]
    events = pl.DataFrame({
        "card": np.arange(5 * N) % N, "at": pl.Series(first, dtype=pl.Datetime("us")), "paid": rng.random(5 * N)
    })  # fmt: skip
    data = ev.read(events, key="card", time="at", numeric=["paid"], cutoffs=table, cutoff_column="at", **options)
    return ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2), data), events


class CaughtError(Exception):
    """Ends an evaluation before models are trained."""


def sets_of(monkeypatch: pytest.MonkeyPatch, *arguments: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return what `evaluate` gives to `score_features`: the sets of features, and the other arguments."""
    caught: list[Any] = []

    def catch(sets: Any, labels: Any, **others: Any) -> Any:
        caught.append((sets, {"labels": labels, **others}))
        raise CaughtError

    monkeypatch.setattr(on_labels, "score_features", catch)
    with pytest.raises(CaughtError):
        ev.evaluate(*arguments, **options)
    return caught[0]


def by_loops(
    z: ev.Embeddings, rows: Any, table: pl.DataFrame, name: str, task: str, delay: str, inclusive: bool, until: Any
) -> np.ndarray[Any, Any]:
    """Return the features of one label, row by row, from what was known then."""
    frame = pl.DataFrame(z.frame())
    length, present = duration(z.schema, delay), table.filter(pl.col(name).is_not_null()).select("card", "at", name)
    if task == "numeric":
        present = present.with_columns(pl.col(name).cast(pl.Float64)).filter(pl.col(name).is_not_nan())
    classes = sorted(present[name].unique().to_list()) if task != "numeric" else []
    known_at = {}
    for time in present["at"].unique():
        micros = np.array([(time - datetime(1970, 1, 1)) // US])
        known_at[time] = datetime(1970, 1, 1) + int(length.after(micros, None)[0]) * US
    found = []
    for card, at in frame.select("card", "at").rows():
        if not rows(card, at):
            continue
        at = at if until is None else min(at, until)
        values: dict[datetime, set[Any]] = {}
        for other, time, value in present.rows():
            if other == card:
                values.setdefault(time, set()).add(value)
        history = []
        for time, distinct in values.items():
            known = known_at[time]
            if len(distinct) == 1 and time < at and (known <= at if inclusive else known < at):
                history.append((known, time, distinct.pop()))
        history.sort(key=lambda row: row[:2])
        kinds = classes[1:] if task == "binary" else classes
        numbers = [[float(value == kind) for kind in kinds] if kinds else [float(value)] for _, _, value in history]
        if not history:
            found.append([0.0] * (3 + 2 * max(len(kinds), 1)))
            continue
        age = (at - history[-1][1]) / timedelta(seconds=1)
        found.append([1.0, len(history), age, *numbers[-1], *np.mean(numbers, axis=0)])
    return np.array(found)


@pytest.mark.parametrize(("delay", "inclusive"), [("0d", False), ("30d", False), ("1mo", True), ("30d", True),
                                                  ("0d", True), ("1mo", False), ("1y", False)])  # fmt: skip
@pytest.mark.parametrize(("name", "task"), LABELS.items())
def test_features_equal_a_loop_over_what_was_known(
    name: str, task: str, delay: str, inclusive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the times of a third of the labels, so that most labels have no embedding."""
    table = panel()
    z, _ = embedded(table.filter(pl.col("card") % 3 > 0).sample(fraction=0.5, seed=4), inclusive=inclusive)
    options = {"label_time": "at", "weight": "weight", "group": "city", "task": task}
    plain = sets_of(monkeypatch, z, None, table.with_columns(weight=1.0), name, **options)
    sets, others = sets_of(monkeypatch, z, None, table.with_columns(weight=1.0), name, earlier_labels=delay, **options)
    assert list(sets) == ["embedding", "earlier_labels"]
    assert all(np.array_equal(plain[1][key], others[key]) for key in ("labels", "groups", "weights", "entities"))
    joined = join_examples(z, labels_beside(z, table, [name], LabelTime("at")))
    where = set(zip(z.keys.take(joined.positions).to_pylist(), z.moments[joined.positions].tolist(), strict=True))
    expected = by_loops(
        z,
        lambda card, at: (card, (at - datetime(1970, 1, 1)) // US) in where,
        table,
        name,
        task,
        delay,
        inclusive,
        None,
    )
    assert sets["earlier_labels"] == pytest.approx(expected, abs=1e-9)
    assert len(others["names"]["earlier_labels"]) == expected.shape[1]
    assert (expected[:, 0] == 0).any()
    assert delay == "1y" or 0.2 < expected[:, 0].mean() < 1


def days(keys: Any, times: Any, **columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"card": keys, "at": pl.Series(times, dtype=pl.Datetime("us")), **columns})


@pytest.mark.parametrize(("shift", "inclusive", "known"), [(-1, False, 1), (0, False, 0), (0, True, 1), (1, True, 0)])
def test_a_label_is_read_from_the_microsecond_on_at_which_it_is_known(
    shift: int, inclusive: bool, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = START + timedelta(days=30)
    first = days(range(N), [START + shift * US] * N, y=[card % 2 for card in range(N)])
    second = days(range(N), [at] * N, y=[card % 2 for card in range(N)])
    z, _ = embedded(second)
    for delay in ("30d", timedelta(days=30)):
        sets, _ = sets_of(
            monkeypatch, z, None, pl.concat([first, second]), "y", label_time="at", earlier_labels=delay,
            inclusive=inclusive,
        )  # fmt: skip
        features = sets["earlier_labels"]
        assert (features[:, :2] == known).all()
        assert features[:, 2] == pytest.approx(known * (30 * 86400 - shift * 1e-6), abs=1e-9)
        assert (features[:, 3] == known * (z.keys.to_numpy() % 2)).all()


@pytest.mark.parametrize(("kind", "delay"), [("integer", 5), ("integer", 0), ("float", 2.5), ("date", "5d")])
@pytest.mark.parametrize("inclusive", [False, True])
def test_numbers_and_dates_are_times_too(
    kind: str, delay: Any, inclusive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, n = np.random.default_rng(3), 200
    numbers = pl.Series(rng.integers(0, 20, n))
    numbers = numbers / 2 if kind == "float" else numbers.cast(pl.Int32).cast(pl.Date) if kind == "date" else numbers
    table = pl.DataFrame({"card": [f"c{i}" for i in range(n // 10)] * 10, "day": numbers, "y": rng.normal(size=n)})
    table = table.unique(["card", "day"], maintain_order=True)
    data = ev.read(table, key="card", time="day", cutoffs=table, cutoff_column="day", inclusive=inclusive)
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2), data)
    sets, _ = sets_of(monkeypatch, z, None, table, "y", label_time="day", earlier_labels=delay)
    length, unit = (timedelta(days=5), timedelta(seconds=1)) if kind == "date" else (delay, 1)
    rows = list(zip(*(table[name].to_list() for name in ("card", "day", "y")), strict=True))
    for (card, at), features in zip(pl.DataFrame(z.frame())["card", "day"].rows(), sets["earlier_labels"], strict=True):
        its = [(day, y) for other, day, y in rows if other == card and day < at]
        its = sorted((day, y) for day, y in its if (day + length <= at if inclusive else day + length < at))
        last = [1, len(its), (at - its[-1][0]) / unit, its[-1][1], np.mean([y for _, y in its])] if its else [0] * 5
        assert features == pytest.approx(last)


def test_each_of_several_labels_has_its_own_features_and_a_cut_hides_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = panel(2).with_columns(late=pl.col("kind") == "a")
    z, _ = embedded(table)
    sets, others = sets_of(monkeypatch, z, None, table, ["yes", "late"], label_time="at", earlier_labels="14d")
    keys = join_examples(z, labels_beside(z, table, ["yes", "late"], LabelTime("at"))).positions
    where = {(z.keys[row].as_py(), z.moments[row]) for row in keys.tolist()}

    def rows(card: int, at: datetime) -> bool:
        return (card, (at - datetime(1970, 1, 1)) // US) in where

    loops = [by_loops(z, rows, table, name, "binary", "14d", False, None) for name in ("yes", "late")]
    assert sets["earlier_labels"] == pytest.approx(np.concatenate(loops, axis=1), abs=1e-9)
    assert others["names"]["earlier_labels"] == [
        f"'earlier {name}{what}'" for name in ("yes", "late")
        for what in (": known", ": count", ": age", "=True: last", "=True: mean")
    ]  # fmt: skip
    until = START + timedelta(days=30)
    sets, _ = sets_of(monkeypatch, z, None, table, ["yes", "late"], label_time="at", earlier_labels="14d", until=until)
    loops = [by_loops(z, rows, table, name, "binary", "14d", False, until) for name in ("yes", "late")]
    assert sets["earlier_labels"] == pytest.approx(np.concatenate(loops, axis=1), abs=1e-9)


# What it is worth


def copied() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return random labels of each card, of which every second one equals that of 30 days before, and only these."""
    rng, pairs = np.random.default_rng(5), 3
    random = rng.random((N, pairs)) < 0.5
    at = [START + timedelta(days=30 * month) for month in range(2 * pairs)]
    table = days(np.repeat(np.arange(N), 2 * pairs), at * N, y=np.repeat(random, 2, axis=1).reshape(-1))
    return table, table.filter(pl.col("at").is_in(at[1::2]))


@pytest.mark.parametrize(
    ("delay", "inclusive", "shown"),
    [("1d", False, True), ("29d", False, True), ("30d", False, False), ("30d", True, True), ("31d", True, False)],
)
def test_last_months_label_helps_only_if_it_was_known(delay: str, inclusive: bool, shown: bool) -> None:
    table, second = copied()
    z, events = embedded(second)
    result = ev.evaluate(
        z, events, table, "y", label_time="at", earlier_labels=delay, inclusive=inclusive, **MODELS
    )  # fmt: skip
    score = result.basis.get("earlier_labels", "logistic_regression").main.mean
    assert score == 1 if shown else abs(score - 0.5) < 0.2
    assert {"embedding_earlier_labels", "embedding_handcrafted"} < {each.features for each in result.basis.results}
    assert " ".join(result.verdict).startswith(f"{OPENING}earlier_labels scores 1.000 auroc") == shown
    if shown:
        assert "the feature 'earlier y=True: last' alone predicts 'y'" in " ".join(result.verdict)
        assert "whether earlier labels were known after their delay" in " ".join(result.verdict)
        assert result.verdict[1].startswith("Do not use it yet for y: embedding ")
        assert result.verdict[2].startswith("Together with earlier labels: 1.000")
    when = "no later than" if inclusive else "before"
    none = 0 if shown else N
    assert result.notes[-1] == (
        f"Earlier labels are known {delay} after their time, and read if that is {when} the time of the row; {none} of "
        "120 rows have none."
    )
    plain = ev.evaluate(z, events, table, "y", label_time="at", inclusive=inclusive, **MODELS)
    assert plain.basis.get("embedding", "logistic_regression") == result.basis.get("embedding", "logistic_regression")
    assert all("earlier" not in each.features for each in plain.basis.results)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"label_time": "none"}, ConfigError, r"earlier_labels needs the time of each label; .* \(--label-time\)"),
        ({"earlier_labels": "soon"}, ConfigError, "'soon' is no length of time for column 'at'"),
        ({"earlier_labels": "-1d"}, ConfigError, "'-1d' is no length of time for column 'at'"),
        ({"earlier_labels": True}, ConfigError, "True"),
        ({"earlier_labels": 30}, ConfigError, "30 is no length of time for column 'at'"),
        (
            {"features": {"earlier_labels": pl.DataFrame({"card": range(N), "v": 1.0})}},
            ConfigError,
            "may not be called",
        ),
        ({"features": {"embedding_earlier_labels": pl.DataFrame()}}, ConfigError, "may not be called"),
    ],
)
def test_what_makes_no_sense_is_refused(options: Any, error: type[Exception], message: str) -> None:
    table = days(range(N), [START] * N, y=[card % 2 == 0 for card in range(N)])
    z, _ = embedded(table)
    with pytest.raises(error, match=message):
        ev.evaluate(z, None, table, "y", **{"label_time": "at", "earlier_labels": "1d", **MODELS, **options})


@pytest.mark.usefixtures("few_kernels")
def test_the_command_the_estimator_and_the_report_take_the_delay(tmp_path: Path) -> None:
    table, second = copied()
    z, events = embedded(second)
    ev.write(tmp_path / "z.parquet", z)
    table.write_parquet(tmp_path / "labels.parquet")
    given = answer(
        "evaluate", tmp_path / "z.parquet", tmp_path / "labels.parquet", "--label", "y", "--label-time", "at",
        "--models", "logistic_regression", "--folds", 3, "--earlier-labels", "1d",
    )  # fmt: skip
    python = ev.evaluate(z, None, table, "y", label_time="at", earlier_labels="1d", **MODELS)
    assert given["results"] == json.loads(json.dumps(python.to_dict()))["results"]
    assert "embedding_earlier_labels" in {each["features"] for each in given["results"]}
    refused = invoke(
        "evaluate", tmp_path / "z.parquet", tmp_path / "labels.parquet", "--label", "y", "--no-label-time",
        "--earlier-labels", "1d",
    )  # fmt: skip
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "labels need a time too" in refused.stderr
    assert invoke("report", "--help").output.count("--earlier-labels")
    vectorizer = ev.EventVectorizer(key="card", time="at", epochs=1).fit(events)
    result = vectorizer.evaluate(table, "y", earlier_labels="1d", **MODELS)
    assert "earlier_labels" in {each.features for each in result.basis.results}
    page = ev.report(vectorizer.run_, events, labels=table, label="y", earlier_labels="1d", **MODELS)
    assert page.basis[0].basis.results == result.basis.results
