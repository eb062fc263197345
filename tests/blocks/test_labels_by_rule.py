"""Earlier labels by the rule of `future_labels`: against loops, without leaks, the same in training and prediction."""

from __future__ import annotations

import calendar
import json
import re
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.commands import answer, invoke

import eventvec as ev
import fits
from eventvec.blocks.earlier_labels import EARLIER
from eventvec.blocks.labels_by_rule import NOT_READ, READ, LabelsByRule
from eventvec.blocks.rows import Rows
from eventvec.embedding import with_moment
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.labels.future_options import FutureOptions
from eventvec.labels.horizons import Rule
from eventvec.labels.rules import listed_conditions
from eventvec.learners.task import Target, target
from eventvec.predicting.rows_to_predict import PredictionSources, rows_to_predict
from eventvec.training.head_options import HeadOptions
from eventvec.training.labelled_rows import LabelledRows, LabelSources, labelled_rows

N, START = 40, datetime(2024, 1, 5)
LABELS = ("no_event", "event", "count", "time_to_next", "sum:paid")
COLUMNS: dict[str, Any] = {"categorical": ["shop"], "numeric": ["paid"]}


hand_crafted_features_alone = pytest.fixture(fits.without_codes, autouse=True, scope="module")


def numbered(seed: int = 0, kind: type[Any] = int) -> pl.DataFrame:
    """Return events at numbers from 0 to 99, of cards that are busy or not."""
    rng = np.random.default_rng(seed)
    cards = np.repeat(np.arange(N), np.where(np.arange(N) % 2 == 0, 30, 6))
    days = rng.integers(0, 100, len(cards)).astype(kind)
    paid = rng.choice([0.5, 1.25, 3.0, 0.1], len(cards))
    return pl.DataFrame({"card": cards, "day": days, "shop": rng.choice(["tea", "oil"], len(cards)), "paid": paid})


def dated(seed: int = 0) -> pl.DataFrame:
    """Return events of some months, some of them at midnight."""
    rng, table = np.random.default_rng(seed), numbered(seed)
    hours = np.where(rng.random(len(table)) < 0.3, 0, rng.integers(0, 24, len(table)))
    at = [START + timedelta(days=2 * int(day), hours=int(hour)) for day, hour in zip(table["day"], hours, strict=True)]
    return table.select("card", pl.Series("at", at, pl.Datetime("us")), "shop", "paid")


def later(time: Any, length: Any) -> Any:
    """Return the time that is a length later: a number, or days (`d`) or months (`mo`) of the calendar."""
    if not isinstance(length, str):
        return time + length
    number = int(length.rstrip("dmo"))
    if length.endswith("d"):
        return time + timedelta(days=number)
    year, month = divmod(time.year * 12 + time.month - 1 + number, 12)
    return time.replace(year=year, month=month + 1, day=min(time.day, calendar.monthrange(year, month + 1)[1]))


def by_loops(
    events: pl.DataFrame, rows: list[tuple[int, Any]], options: dict[str, Any], of: Target, inclusive: bool
) -> np.ndarray[Any, Any]:
    """Return the features of each row, from the events before its time alone."""
    found = []
    time, label = events.columns[1], options["label"]
    wanted = {"tea"} if options.get("where") else {"tea", "oil"}
    if time == "day":
        grid = [type(events[time][0])(each) for each in range(0, 200, options["every"])]
    else:
        grid = [datetime(2024 + month // 12, 1 + month % 12, 1) for month in range(24)]
    width = len(of.classes) if of.task == "multiclass" else 1
    for card, moment in rows:
        history = [
            (at, shop, paid)
            for owner, at, shop, paid in events.rows()
            if owner == card and (at <= moment if inclusive else at < moment)
        ]
        known = []
        for snapshot in grid if history else []:
            opens = later(snapshot, options["gap"])
            closes = later(opens, options["horizon"])
            read = closes <= moment if inclusive else closes < moment
            if snapshot <= min(at for at, _, _ in history) or not read:
                continue
            inside = [(at, paid) for at, shop, paid in history if opens < at <= closes and shop in wanted]
            since = min((at for at, _ in inside), default=None)
            seconds = since - snapshot if since is not None else None
            answers = {
                "no_event": not inside,
                "event": bool(inside),
                "count": len(inside),
                "time_to_next": seconds.total_seconds() if isinstance(seconds, timedelta) else seconds,
                "sum:paid": sum(float(np.float32(paid)) for _, paid in inside),
            }
            if answers[label] is not None:
                known.append((closes, snapshot, answers[label]))
        if not known:
            found.append([0.0] * (3 + 2 * width))
            continue
        known.sort(key=lambda each: each[:2])
        age = moment - known[-1][1]
        age = age.total_seconds() if isinstance(age, timedelta) else age
        kinds = of.classes[1:] if of.task == "binary" else of.classes
        values = [[float(value == kind) for kind in kinds] if kinds else [float(value)] for _, _, value in known]
        found.append([1.0, len(known), age, *values[-1], *np.mean(values, axis=0)])
    return np.array(found)


def features_of(
    events: pl.DataFrame, cutoffs: pl.DataFrame, options: dict[str, Any], of: Target, inclusive: bool = False
) -> np.ndarray[Any, Any]:
    """Return the features of rows at the times of a table."""
    time = events.columns[1]
    data = ev.read(events, key="card", time=time, **COLUMNS, cutoffs=cutoffs, cutoff_column=time, inclusive=inclusive)
    rule = Rule.of(data.schema, listed_conditions(FutureOptions(**options)))
    return LabelsByRule(rule, of, inclusive).features(Rows(with_moment(data)))[0]


OF: dict[str, Target] = {
    "no_event": target([True, False], None, "y"),
    "event": target([True, False], None, "y"),
    "count": target([0, 1, 2, 3], "multiclass", "y"),
    "time_to_next": target([0.0, 1.5], "numeric", "y"),
    "sum:paid": target([0.0, 1.5], "numeric", "y"),
}


def times_of(events: pl.DataFrame, moments: list[Any]) -> pl.DataFrame:
    """Return each card at each time."""
    cards = events.select(pl.col("card").unique())
    return cards.join(
        pl.DataFrame({events.columns[1]: moments}, schema=events.select(events.columns[1]).schema), how="cross"
    )


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("kind", [int, float])
def test_features_at_numbers_equal_a_loop(kind: type[Any], label: str, inclusive: bool) -> None:
    """The horizon of a label ends exactly at 35; rows are before, at and after that."""
    events = numbered(kind=kind)
    options: dict[str, Any] = {"every": 10, "horizon": 12, "gap": 3, "label": label, "where": {"shop": "tea"}}
    cutoffs = times_of(events, [kind(each) for each in (0, 1, 34, 35, 36, 60, 99, 150)])
    rows = cutoffs.sort("card", "day").rows()
    found = features_of(events, cutoffs, options, OF[label], inclusive)
    expected = by_loops(events, rows, options, OF[label], inclusive)
    assert found == pytest.approx(expected, abs=1e-9)
    assert 0.2 < expected[:, 0].mean() < 1


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(("gap", "horizon"), [("0d", "1mo"), ("3d", "20d"), ("1mo", "2mo")])
def test_features_at_times_of_the_calendar_equal_a_loop(label: str, gap: str, horizon: str) -> None:
    events = dated()
    options: dict[str, Any] = {"every": "1mo", "horizon": horizon, "gap": gap, "label": label}
    moments = [datetime(2024, 2, 1), datetime(2024, 4, 1), datetime(2024, 4, 1, 1), datetime(2024, 7, 15, 3)]
    cutoffs = times_of(events, moments)
    rows = cutoffs.sort("card", "at").rows()
    for inclusive in (False, True):
        found = features_of(events, cutoffs, options, OF[label], inclusive)
        assert found == pytest.approx(by_loops(events, rows, options, OF[label], inclusive), abs=1e-6)
    assert 0.2 < found[:, 0].mean() < 1


def test_blocks_of_entities_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    events = numbered()
    cutoffs = times_of(events, [20, 50, 80])
    options: dict[str, Any] = {"every": 3, "horizon": 5, "label": "sum:paid"}
    expected = features_of(events, cutoffs, options, OF["sum:paid"])
    monkeypatch.setattr("eventvec.sequences.BLOCK", 100)
    np.testing.assert_array_equal(features_of(events, cutoffs, options, OF["sum:paid"]), expected)


@pytest.mark.parametrize("label", LABELS)
def test_clocks_that_are_set_back_hide_no_label(label: str) -> None:
    """An hour after snapshots is in the hour that comes twice, so horizons of days end in another order than theirs."""
    at = [datetime(2024, 10, 26, 0, 0, 30) + timedelta(hours=7 * hour) for hour in range(160)]
    events = pl.DataFrame({"card": 1, "at": at, "shop": "tea", "paid": 1.0})
    options: dict[str, Any] = {"every": "10m", "horizon": "30d", "gap": "1h", "label": label, "zone": "Europe/Berlin"}
    ends = [datetime(2024, 11, 25, 23, 50) + timedelta(minutes=5 * i) for i in range(40)]
    cutoffs = pl.DataFrame({"card": 1, "at": ends})
    alone = [features_of(events, cutoffs[i : i + 1], options, OF[label]) for i in range(len(ends))]
    np.testing.assert_array_equal(features_of(events, cutoffs, options, OF[label]), np.concatenate(alone))
    data = ev.read(events, key="card", time="at", **COLUMNS)
    table = pl.DataFrame(ev.future_labels(data, **options)).filter(pl.col("known_at") < ends[-1])
    assert features_of(events, cutoffs, options, OF[label])[-1, 1] == table.drop_nulls().height
    assert (table["known_at"].diff() < timedelta(0)).any()


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("label", LABELS)
def test_events_at_or_after_the_time_of_a_row_change_no_bit(label: str, inclusive: bool) -> None:
    events = numbered()
    cutoffs = times_of(events, [50])
    first = 51 if inclusive else 50
    rng = np.random.default_rng(9)
    late = pl.DataFrame({
        "card": np.repeat(np.arange(N), 9), "day": rng.integers(first, 90, 9 * N), "shop": "tea", "paid": 99.0
    })  # fmt: skip
    options: dict[str, Any] = {"every": 10, "horizon": 8, "label": label}
    before = events.filter(pl.col("day") < first)
    results = [
        features_of(each, cutoffs.filter(pl.col("card").is_in(before["card"].implode())), options, OF[label], inclusive)
        for each in (before, pl.concat([before, late]), events)
    ]
    assert results[0][:, 0].any()
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_later_rows_of_an_entity_change_no_bit_of_earlier_ones() -> None:
    events = dated()
    options: dict[str, Any] = {"every": "1mo", "horizon": "20d", "label": "sum:paid"}
    moments = [datetime(2024, 3, 10), datetime(2024, 5, 1), datetime(2024, 8, 1)]
    together = features_of(events, times_of(events, moments), options, OF["sum:paid"])
    for i, moment in enumerate(moments):
        np.testing.assert_array_equal(
            features_of(events, times_of(events, [moment]), options, OF["sum:paid"]), together[i::3]
        )


# fitting ------------------------------------------------------------------------------------------------------------


def panel(events: pl.DataFrame, **options: Any) -> pl.DataFrame:
    data = ev.read(events, key="card", time=events.columns[1], **COLUMNS)
    default = {"every": 10, "horizon": 5, "name": "quiet"}
    return pl.DataFrame(ev.future_labels(data, **{**default, **options}))


def classifier(**options: Any) -> ev.EventClassifier:
    return ev.EventClassifier("card", "day", **{**COLUMNS, "progress": False, **options})


def learned_from(events: pl.DataFrame, labels: pl.DataFrame, label: str, numeric: bool, **options: Any) -> LabelledRows:
    """Return what a predictor learns from."""

    def read(**cuts: Any) -> ev.Dataset:
        return ev.read(events, key="card", time="day", **COLUMNS, **cuts)

    asked = HeadOptions(**options)
    return labelled_rows(LabelSources(labels, (label,), read=read, options=asked, numeric=numeric))


def blocks_of(model: Any) -> dict[str, Any]:
    """Return the blocks that the head of a model may read, those of its label included."""
    (head,) = model.model_.heads.values()
    return {**model.model_.blocks, **head.blocks}


def notes_about(model: Any) -> list[str]:
    return [note for note in model.notes_ if note.startswith((READ, NOT_READ))]


def test_earlier_labels_are_read_by_default_and_need_no_labels_to_predict(tmp_path: Path) -> None:
    events = numbered()
    labels = panel(events)
    model = classifier().fit(events, labels, "quiet")
    assert notes_about(model) == [READ]
    assert isinstance(blocks_of(model)[EARLIER], LabelsByRule)
    now = model.predict_proba(events)
    assert now.columns == ["card", "p_false", "p_true"]
    assert len(now) == N
    at = times_of(events, [90])
    predicted = model.predict_proba(events, at)
    assert predicted.equals(model.predict_proba(events.filter(pl.col("day") < 90), at))
    model.save(tmp_path / "model")
    assert ev.EventClassifier.load(tmp_path / "model").predict_proba(events, at).equals(predicted)


@pytest.mark.parametrize("frame", ["arrow", "polars", "pandas", "parquet"])
def test_any_frame_of_the_labels_has_the_rule(frame: str, tmp_path: Path) -> None:
    events = numbered()
    labels: Any = panel(events).filter(pl.col("day") > 10)
    labels.write_parquet(tmp_path / "labels.parquet")
    frames = {"arrow": labels.to_arrow(), "polars": labels, "parquet": str(tmp_path / "labels.parquet")}
    given = labels.to_pandas() if frame == "pandas" else frames[frame]
    assert notes_about(classifier().fit(events, given, "quiet")) == [READ]


def test_training_and_prediction_compute_the_same_bits(tmp_path: Path) -> None:
    """Also of sums, for which the order of the numbers matters, and after the model was saved and loaded."""
    events = numbered()
    labels = panel(events, label="sum:paid", name="spend", gap=2)
    learned = learned_from(events, labels, "spend", True)
    block, rows = learned.of_heads[0].own[EARLIER], learned.rows
    trained = block.features(rows)[0]
    assert trained[:, 0].any()
    model = ev.EventRegressor("card", "day", **COLUMNS, progress=False).fit(events, labels, "spend")
    assert isinstance(blocks_of(model)[EARLIER], LabelsByRule)
    model.save(tmp_path / "model")
    for each in (model, ev.EventRegressor.load(tmp_path / "model")):
        again = rows_to_predict(each.model_, events, PredictionSources(cutoffs=labels), {})
        assert again.data.keys.to_pylist() == rows.data.keys.to_pylist()
        assert again.moments.tolist() == rows.moments.tolist()
        np.testing.assert_array_equal(blocks_of(each)[EARLIER].features(again)[0], trained)


def test_the_file_holds_the_rule_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    events = numbered()
    model = classifier().fit(events, panel(events, where={"shop": ("tea", "oil")}), "quiet")
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    info = json.loads(path.read_text())
    (head,) = info["heads"]
    rule = head["blocks"][EARLIER]["rule"]

    def changed(**earlier: Any) -> None:
        blocks = {**head["blocks"], EARLIER: {"kind": EARLIER, **earlier}}
        path.write_text(json.dumps({**info, "heads": [{**head, "blocks": blocks}]}))

    assert rule == {
        "every": 10, "horizon": 5, "gap": 0, "label": "no_event", "where": {"shop": ["tea", "oil"]}, "zone": "UTC",
        "name": "quiet",
    }  # fmt: skip
    changes: list[dict[str, Any]] = [
        {"label": "median"}, {"horizon": 0}, {"every": "soon"}, {"more": 1}, {"where": {"shop": ["wine"]}},
        {"every": [1, 2, 3, 4, 5, 6, 7, 8]}, {"zone": 3},
    ]  # fmt: skip
    for change in changes:
        changed(rule={**rule, **change})
        with pytest.raises(CheckpointError, match="is damaged"):
            ev.EventClassifier.load(tmp_path / "model")
    changed(rule={}, key="card")
    with pytest.raises(CheckpointError, match="is damaged"):
        ev.EventClassifier.load(tmp_path / "model")


def test_entities_without_events_have_no_earlier_labels() -> None:
    """Their rows begin where those of another entity begin."""
    events = numbered()
    model = classifier().fit(events, panel(events), "quiet")
    cutoffs = pl.DataFrame({"card": [0, 0, N + 1], "day": [-5, 80, 80]})
    rows = rows_to_predict(model.model_, events, PredictionSources(cutoffs=cutoffs), {})
    values = blocks_of(model)[EARLIER].features(rows)[0]
    assert rows.data.sequences.starts[2] == rows.data.sequences.starts[0] == 0
    assert values[1].any()
    assert not values[[0, 2]].any()
    nobody = Rows(rows.data[[2]])
    assert blocks_of(model)[EARLIER].features(nobody)[0].tolist() == [[0.0] * 5]


def test_the_default_is_declined(tmp_path: Path) -> None:
    events = numbered()
    labels = panel(events)
    model = classifier().fit(events, labels, "quiet", earlier_labels="none")
    assert EARLIER not in blocks_of(model)
    assert not notes_about(model)
    by_table = classifier().fit(events, labels, "quiet", earlier_labels=5)
    assert not notes_about(by_table)
    with pytest.raises(DataError, match="the model reads earlier labels; give the table"):
        by_table.predict_proba(events, times_of(events, [90]))
    data = ev.read(events, key="card", time="day", **COLUMNS)
    array = classifier().fit(data, np.arange(N) % 2, earlier_labels="none")
    assert EARLIER not in blocks_of(array)
    with pytest.raises(ConfigError, match="earlier_labels needs a table of labels with times"):
        classifier().fit(data, np.arange(N) % 2, earlier_labels=5)


def test_labels_by_rule_equal_those_of_a_delay_where_the_table_has_them_all() -> None:
    events = numbered()
    labels = panel(events)
    learned = learned_from(events, labels, "quiet", False)
    delayed = learned_from(events, labels, "quiet", False, earlier_labels=5)
    by_rule, by_delay = (each.of_heads[0].own[EARLIER].features(each.rows)[0] for each in (learned, delayed))
    np.testing.assert_array_equal(by_rule, by_delay)


def test_tables_of_the_users_own_have_no_default() -> None:
    events = numbered()
    labels = panel(events)
    for table, label in (
        (labels.drop("rule"), "quiet"),
        (labels.drop("known_at"), "quiet"),
        (labels.with_columns(rule=pl.lit("monthly")), "quiet"),
        (labels.with_columns(rule=7), "quiet"),
        (labels.with_columns(rule=pl.lit(None, pl.String)), "quiet"),
        (labels.rename({"quiet": "churn"}), "churn"),
    ):
        model = classifier().fit(events, table, label)
        assert EARLIER not in blocks_of(model)
        assert not notes_about(model)


@pytest.mark.parametrize("numeric", [False, True])
def test_labels_as_numbers_keep_the_default_and_others_do_not(numeric: bool) -> None:
    events = numbered()
    labels = panel(events)
    if numeric:
        kept = classifier().fit(events, labels.with_columns(pl.col("quiet").cast(pl.Int8)), "quiet")
        assert notes_about(kept) == [READ]
        return
    model = classifier().fit(events, labels.with_columns(pl.col("quiet").cast(pl.String)), "quiet")
    assert notes_about(model) == [f"{NOT_READ}the rule gives labels of another kind than those of the table."]
    assert EARLIER not in blocks_of(model)


def test_a_rule_that_does_not_apply_to_the_events_is_noted() -> None:
    events = numbered().with_columns(posted=pl.col("day"))
    of_tea, of_sums = panel(numbered(), where={"shop": "tea"}), panel(numbered(), label="sum:paid", name="quiet")
    of_tea, of_sums = (
        of_tea.with_columns(pl.col("quiet").cast(pl.Int8)),
        of_sums.with_columns(quiet=pl.col("quiet").round()),
    )
    cases: list[tuple[Any, pl.DataFrame, str]] = [
        (classifier(reading={"known_at": "posted"}), of_tea, r"events became known later .* \(known_at\)"),
        (classifier(categorical=[]), of_tea, "the events have no column 'shop' of categories or numbers"),
        (classifier(numeric=[]), of_sums, "the events have no column 'paid' of categories or numbers"),
        (classifier(categorical=[], reading={"hashed": ["shop"]}), of_tea, "column 'shop' is hashed"),
        (classifier(reading={"fitting": ev.Fitting(10_000)}), of_tea, "column 'shop' has no value 'tea' in its voc"),
    ]
    for model, labels, why in cases:
        model.fit(events, labels, "quiet")
        assert EARLIER not in blocks_of(model)
        (note,) = notes_about(model)
        assert note.startswith(NOT_READ)
        assert re.search(why, note)
    other = panel(numbered(), horizon=7).with_columns(pl.col("day") + 1)
    twice = pl.concat([each.with_columns(pl.col("rule").cast(pl.String)) for each in (panel(numbered()), other)])
    (note,) = notes_about(classifier().fit(numbered(), twice, "quiet"))
    assert note == f"{NOT_READ}they have 2 rules."
    same = pl.concat([panel(numbered(), observed_until=50), panel(numbered()).filter(pl.col("day") > 50)])
    assert notes_about(classifier().fit(numbered(), same, "quiet")) == [READ]


def test_data_that_are_read_already(tmp_path: Path) -> None:
    events = numbered()
    data = ev.read(events, key="card", time="day", **COLUMNS)
    model = ev.EventClassifier(progress=False).fit(data, panel(events), "quiet")
    assert notes_about(model) == [READ]
    assert model.predict_proba(data).shape == (N, 2)
    stored = ev.read(events, key="card", time="day", **COLUMNS, store=tmp_path / "store")
    again = ev.EventClassifier(progress=False).fit(stored, panel(events), "quiet")
    np.testing.assert_array_equal(again.predict_proba(stored), model.predict_proba(data))


def test_the_command_line_reads_and_declines_them(tmp_path: Path) -> None:
    events, paths = numbered(), {name: str(tmp_path / f"{name}.parquet") for name in ("events", "labels", "out")}
    events.write_parquet(paths["events"])
    columns = ["--key", "card", "--time", "day"]
    invoke("labels", paths["events"], *columns, "--every", 10, "--horizon", 5, "--name", "quiet", "-o", paths["labels"])
    fit = ["fit", "--events", paths["events"], *columns, "--categorical", "shop", "--numeric", "paid",
           "--labels", paths["labels"], "--label", "quiet", "--json"]  # fmt: skip
    assert EARLIER in answer(*fit, "--out", tmp_path / "model")["blocks"]
    assert READ in ev.EventClassifier.load(tmp_path / "model").notes_
    answer("predict", tmp_path / "model", paths["events"], "--until", 90, "-o", paths["out"], "--json")
    assert len(pl.read_parquet(paths["out"])) == N
    assert EARLIER not in answer(*fit, "--earlier-labels", "none", "--out", tmp_path / "other")["blocks"]


# known_at is no label's time ----------------------------------------------------------------------------------------


def test_known_at_is_no_time_of_a_label() -> None:
    events = dated()
    data = ev.read(events, key="card", time="at", **COLUMNS)
    labels = ev.future_labels(data, every="1mo", horizon="20d", name="quiet")
    frame = pl.DataFrame(labels)
    z = ev.embed(
        ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2),
        ev.read(events, key="card", time="at", **COLUMNS, cutoffs=frame, cutoff_column="at"),
    )
    result = ev.evaluate(z, events, frame, "quiet", models=["logistic_regression"], folds=3)
    assert any("in 'at', are read" in note for note in result.notes)
    model = ev.EventClassifier("card", "at", **COLUMNS, progress=False).fit(events, frame, "quiet")
    assert model.model_.heads["quiet"].label_time == "at"
    renamed = frame.rename({"at": "when"})
    assert ev.EventClassifier("card", "at", **COLUMNS, progress=False).fit(events, renamed, "quiet").predict(
        events, frame
    ).columns == ["card", "at", "prediction"]
    explicit = ev.EventClassifier("card", "at", **COLUMNS, progress=False)
    explicit.fit(events, frame.drop("at"), "quiet", label_time="known_at", earlier_labels="none")
    assert explicit.model_.heads["quiet"].label_time == "known_at"
    assert explicit.predict(events, frame).columns == ["card", "known_at", "prediction"]
    with pytest.raises(
        ConfigError, match="the only column of times is 'known_at', which is when the labels were known"
    ):
        ev.EventClassifier("card", "at", **COLUMNS, progress=False).fit(events, frame.drop("at"), "quiet")
    with pytest.raises(ConfigError, match="no column holds times in the table of cutoffs"):
        model.predict(events, frame.drop("at"))


def test_an_own_time_of_events_that_is_called_known_at_is_one_of_labels() -> None:
    events = dated().rename({"at": "known_at"})
    labels = pl.DataFrame({"card": range(N), "known_at": [date(2024, 5, 1)] * N, "churn": [i % 2 for i in range(N)]})
    model = ev.EventClassifier("card", "known_at", **COLUMNS, progress=False).fit(events, labels, "churn")
    assert model.model_.heads["churn"].label_time == "known_at"


def test_labels_as_static_columns_are_the_labels_alone() -> None:
    for events, options in ((numbered(), {}), (dated(), {"every": "1mo", "horizon": "20d"})):
        labels, time = panel(events, **options), events.columns[1]
        data = ev.read(events, key="card", time=time, **COLUMNS, cutoffs=labels, cutoff_column=time, static=labels)
        assert [field.name for field in data.schema.static] == ["quiet"]
        run = ev.fit(data, method={"method": {"name": "supervised", "label": "quiet"}, "fit": {"epochs": 1}})
        assert "quiet" in run.info["labels"]
