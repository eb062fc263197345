"""No event from which a label may have been made is read: the random-label trap, by every call and on the command line.

The labels are drawn at random, and events after their time tell them. Whoever reads these events predicts the labels.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from tests.commands import answer, invoke

import eventvec as ev
from eventvec.errors import ConfigError, DataError
from eventvec.tables import Embeddings
from eventvec.tables.label_times import untimed

N, EVENTS, KNOWN = 240, 8, datetime(2024, 6, 1)
MODELS: dict[str, Any] = {"models": ["logistic_regression"], "folds": 3}
READ: dict[str, Any] = {"key": "card", "time": "at", "categorical": ["what"], "numeric": ["paid"]}


@cache
def labels() -> pl.DataFrame:
    """Return a random label for each card, with its time and a random number of a household."""
    rng = np.random.default_rng(5)
    known = [KNOWN + timedelta(hours=int(hours)) for hours in rng.integers(0, 500, N)]
    return pl.DataFrame({"card": range(N), "y": rng.permutation(N) % 2 == 0, "known": known})


@cache
def events(after: str = "tell") -> pl.DataFrame:
    """Return random events before the time of each card's label, and those after it, which tell the label or do not."""
    rng, table = np.random.default_rng(6), labels()
    cards, known = np.repeat(np.arange(N), EVENTS), np.repeat(table["known"].to_numpy(), EVENTS)
    seconds = rng.integers(1, 100 * 86_400, len(cards)).astype("timedelta64[s]")
    what = rng.choice(["a", "b", "c"], len(cards))
    early = pl.DataFrame({"card": cards, "at": known - seconds, "what": what, "paid": rng.random(len(cards))})
    told = [] if after == "nothing" else [0, 1, 3600 * 10**6]
    tell = np.where(table["y"].to_numpy(), "a", "b") if after == "tell" else rng.choice(["a", "c"], N)
    late = [
        pl.DataFrame({"card": range(N), "at": table["known"] + timedelta(microseconds=us), "what": tell, "paid": 1.0})
        for us in told
    ]  # fmt: skip
    return pl.concat([early, *late]).with_columns(pl.col("at").cast(pl.Datetime("us")))


def few() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the events and the labels of 60 cards, for what needs no power."""
    return events().filter(pl.col("card") < 60), labels()[:60]


@cache
def run() -> ev.Model:
    """Return a run that was trained on events before the time of the first label."""
    data = ev.read(events("nothing"), until=KNOWN, fitting=ev.Fitting(min_count=1), **READ)
    return ev.fit(data, method="coles", epochs=1, dim=8, beside=[])


def scores(evaluation: ev.Answer) -> list[float]:
    """Return the scores of all features, without that of the number of events."""
    return [r.main.mean for r in evaluation.basis.results if r.features != "event_count"]


def is_chance(evaluation: ev.Answer) -> bool:
    return all(abs(r.main.mean - 0.5) < max(2 * r.main.interval, 0.1) for r in evaluation.basis.results)


@cache
def vectorizer() -> ev.EventVectorizer:
    return ev.EventVectorizer("card", "at", categorical=["what"], numeric=["paid"], epochs=1, progress=False).fit(
        events()
    )


def accuracy(tuned: ev.Model) -> float:
    """Return the share of labels that a run predicts whose training they were not in, as of their times."""
    test = labels()[N // 2 :]
    predicted = pl.DataFrame(ev.predict(tuned, events(), cutoffs=test, cutoff_column="known")).join(test, on="card")
    return float((predicted["prediction"] == predicted["y"].cast(pl.String)).mean())  # type: ignore[arg-type]


def test_who_reads_the_later_events_predicts_the_labels() -> None:
    """Otherwise nothing that follows would show anything."""
    told = ev.evaluate(run().embed(events()), run().read(events()), labels(), "y", label_time="none", **MODELS)
    assert max(scores(told)) == pytest.approx(1)
    assert "All events are read, whenever a label became known, because label_time is 'none'." in told.notes
    assert " ".join(told.verdict).startswith("Too good to be true")


def test_finished_vectors_of_later_events_are_refused_with_the_command_that_helps(tmp_path: Path) -> None:
    z = run().embed(events())
    command = "eventvec embed RUN EVENTS --cutoffs LABELS --cutoff-column known -o Z"
    with pytest.raises(DataError, match=rf"240 of 240 embeddings .* at or after the time in 'known', .*{command}"):
        ev.evaluate(z, run().read(events()), labels(), "y", **MODELS)
    labels().write_csv(tmp_path / "my labels.csv")
    with pytest.raises(DataError, match=r"--cutoffs '[^']*my labels.csv' --cutoff-column known"):
        ev.evaluate(z, run().read(events()), tmp_path / "my labels.csv", "y", **MODELS)
    z = run().embed(events(), cutoffs=labels(), cutoff_column="known")
    evaluation = ev.evaluate(z, run().read(events()), labels(), "y", **MODELS)
    assert is_chance(evaluation)
    assert "Only events before the time of each label, in 'known', are read." in evaluation.notes


def test_calls_that_hold_the_events_cut_them() -> None:
    evaluation = vectorizer().evaluate(labels(), "y", **MODELS)
    assert is_chance(evaluation)
    assert any("in 'known', are read" in note for note in evaluation.notes)
    influence = ev.influence(run(), events(), labels(), "y", folds=3)
    assert abs(influence.facts["with_all_events"].value - 0.5) < 0.12
    assert any("in 'known', are read" in note for note in influence.notes)


def test_what_is_trained_on_labels_reads_nothing_later() -> None:
    train, data = labels()[: N // 2], run().read(events())
    tuned = ev.fine_tune(run(), data, train, "y", epochs=5, lr=0.01)
    assert abs(accuracy(tuned) - 0.5) < 0.15
    assert "Only events before the time of each label, in 'known', are read." in tuned.notes
    static = ev.read(events(), static=train, **READ)
    fitted = ev.fit(static, method="supervised", label="y", epochs=5, lr=0.01)
    assert abs(accuracy(fitted) - 0.5) < 0.15
    assert any("in 'known', are read" in note for note in fitted.notes)
    declined = ev.fit(static, method="supervised", label="y", label_time="none", epochs=5, lr=0.01)
    assert any("because label_time is 'none'" in note for note in declined.notes)
    test = labels()[N // 2 :]
    predicted = pl.DataFrame(ev.predict(declined, events())).join(test, on="card")
    assert (predicted["prediction"] == predicted["y"].cast(pl.String)).mean() > 0.95


def test_compared_methods_and_reports_are_scored_as_of_the_labels(tmp_path: Path) -> None:
    data = ev.read(events(), **READ)
    compared = ev.compare(data, labels(), "y", methods=["coles", "ocp"], epochs=1, out=tmp_path / "c", **MODELS)
    assert is_chance(compared)
    report = ev.report(run(), run().read(events()), labels=labels(), label="y", **MODELS)
    assert is_chance(report.basis[0])


@pytest.mark.parametrize("inclusive", [False, True])
def test_replaced_later_events_change_no_bit(inclusive: bool) -> None:
    """Nothing at or after the time of a row's label reaches a fine-tuned model, a prediction or a score."""
    moved = labels().with_columns(known=pl.col("known") - timedelta(microseconds=1)) if inclusive else labels()
    results = []
    for after in ("tell", "other", "nothing"):
        data = run().read(events(after) if after != "nothing" else events("nothing"))
        tuned = ev.fine_tune(run(), data, moved, "y", epochs=1, inclusive=inclusive)
        z = run().embed(events(after), cutoffs=moved, cutoff_column="known", inclusive=inclusive)
        predicted = ev.predict(tuned, events(after), cutoffs=moved, cutoff_column="known", inclusive=inclusive)
        evaluation = ev.evaluate(z, data, moved, "y", **MODELS)
        weights = {name: value.numpy().tobytes() for name, value in tuned.method.state_dict().items()}
        results.append((weights, z.values.tobytes(), predicted.to_pydict(), evaluation.to_dict()["results"]))
    assert results[0] == results[1] == results[2]


def test_events_at_the_time_are_read_by_choice() -> None:
    train, data = labels(), run().read(events())
    z = run().embed(events(), cutoffs=train, cutoff_column="known", inclusive=True)
    evaluation = ev.evaluate(z, data, train, "y", **MODELS)
    assert max(scores(evaluation)) == pytest.approx(1)  # the event at the very time tells the label
    assert "Only events up to and including the time of each label, in 'known', are read." in evaluation.notes
    assert z.metadata["data"]["inclusive"] is True
    with pytest.raises(ConfigError, match="inclusive is given without cutoffs"):
        ev.read(events(), inclusive=True, **READ)


def test_the_commands_follow_the_rule(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run().save(folder)
    events().write_parquet(tmp_path / "events.parquet")
    labels().write_csv(tmp_path / "labels.csv")  # times as text
    files = (tmp_path / "events.parquet", tmp_path / "labels.csv")
    z = tmp_path / "z.parquet"
    assert invoke("embed", folder, files[0], "-o", z).exit_code == 0
    evaluate = ("evaluate", z, files[1], "--label", "y", "--models", "logistic_regression", "--folds", 3)
    refused = invoke(*evaluate)
    assert refused.exit_code == 1
    assert f"eventvec embed RUN {files[0]} --cutoffs {files[1]} --cutoff-column known -o Z" in " ".join(
        refused.output.split()
    )
    assert answer(*evaluate, "--no-label-time")["results"][0]["score"]["value"] > 0.95
    assert answer(*evaluate, "--label-time", "none")["results"][0]["score"]["value"] > 0.95
    both = invoke(*evaluate, "--no-label-time", "--label-time", "known")
    assert both.exit_code == 2
    assert "give one of them" in both.output
    assert invoke("embed", folder, files[0], "--cutoffs", files[1], "--cutoff-column", "known", "-o", z).exit_code == 0
    assert abs(answer(*evaluate, "--events", files[0])["results"][0]["score"]["value"] - 0.5) < 0.12
    influence = answer("influence", folder, *files, "--label", "y", "--folds", 3)
    assert abs(influence["with_all_events"]["value"] - 0.5) < 0.12
    compared = answer(
        "compare", *files, "--key", "card", "--time", "at", "--label", "y", "--methods", "coles,ocp", "--epochs", 1,
        "--out", tmp_path / "compared", "--models", "logistic_regression",
    )  # fmt: skip
    assert all(abs(arm["score"]["value"] - 0.5) < 0.12 for arm in compared["arms"])
    fit: tuple[object, ...] = (
        "fit", "--events", files[0], "--key", "card", "--time", "at", "--static", files[1], "--method", "supervised",
        "--set", "method.label=y", "--epochs", 2,
    )  # fmt: skip
    cut, whole = (
        invoke(*fit, "--out", tmp_path / name, *more) for name, more in (("a", ()), ("b", ("--no-label-time",)))
    )
    assert (cut.exit_code, whole.exit_code) == (0, 0), (cut.output, whole.output)
    assert "before the time of each label, in 'known'" in " ".join(cut.output.split())
    assert "because label_time is 'none'" in " ".join(whole.output.split())


def table(**columns: Any) -> pl.DataFrame:
    return labels().select("card", "y").with_columns(**columns)


def test_a_time_that_is_in_doubt_is_refused() -> None:
    data, z = run().read(events()), run().embed(events())
    several = table(a=pl.lit("2024-07-01"), b=pl.lit(KNOWN))
    born = table(born=pl.lit(datetime(1980, 1, 1)))
    message = "several columns other than the labels hold times, 'a', 'b'; name the column"
    with pytest.raises(ConfigError, match=message):
        ev.fine_tune(run(), data, several, "y", epochs=1)
    with pytest.raises(ConfigError, match=message):
        ev.evaluate(z, data, several, "y", **MODELS)
    with pytest.raises(DataError, match=r"240 of 240 labelled rows have no event before .*'born', .*: label_time="):
        ev.fine_tune(run(), data, born, "y", epochs=1)
    with pytest.raises(DataError, match=r"if 'born' is another time, name the column .*: label_time="):
        ev.evaluate(z, data, born, "y", **MODELS)
    with pytest.raises(DataError, match=r"240 of 240 labelled rows have no event before .*'born'"):
        ev.fit(ev.read(events(), static=born, **READ), method="supervised", label="y", epochs=1)
    named = ev.fine_tune(run(), data, born, "y", label_time="born", epochs=1)  # whoever names it means it
    assert any("240 of 240 rows have none" in note for note in named.notes)


def test_numbers_are_never_guessed_to_be_times() -> None:
    data = run().read(events())
    for name in ("at", "known"):
        z = run().embed(data)
        with pytest.raises(DataError, match=f"'{name}' holds numbers, which are never taken as dates"):
            ev.evaluate(z, None, table(**{name: pl.lit(1_717_200_000)}), "y", **MODELS)
    whole = pl.DataFrame({"card": [1, 1, 2, 2] * 20, "day": range(80), "paid": [0.5, 1.0, 2.0, 3.0] * 20})
    whole = whole.with_columns(card=pl.col("day") // 4)
    numbers = ev.read(whole, key="card", time="day", numeric=["paid"])
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(numbers.schema), dim=2)
    likes = pl.DataFrame({"card": range(20), "y": [True, False] * 10})
    for column, refused in (("when", False), ("day", True)):
        given = likes.with_columns(pl.lit(1).alias(column))
        if refused:
            with pytest.raises(DataError, match="at or after the time in 'day'"):
                ev.evaluate(ev.embed(encoder, numbers), None, given, "y", **MODELS)
        else:
            ev.evaluate(ev.embed(encoder, numbers), None, given, "y", **MODELS)


def test_what_is_known_of_the_run_is_used_before_anything_is_suspected() -> None:
    early = run().read(events(), until=KNOWN)
    no_time = labels().drop("known")
    evaluation = ev.evaluate(run().embed(early), early, no_time, "y", **MODELS)
    assert not any("time" in note and "label" in note for note in evaluation.notes)
    tuned = ev.fine_tune(run(), early, no_time, "y", epochs=1)
    assert not any("became known" in note for note in tuned.notes)
    plain = ev.fine_tune(run(), run().read(events()), no_time, "y", epochs=1)
    assert any("became known" in note for note in plain.notes)


def test_a_run_that_was_fitted_to_later_events_is_told_once() -> None:
    later = ev.fit(ev.read(events(), **READ), method="coles", epochs=1, dim=8, beside=[])
    data = later.read(events())
    z = later.embed(events(), cutoffs=labels(), cutoff_column="known")
    said = [
        note for note in ev.evaluate(z, data, labels(), "y", **MODELS).notes if "were fitted to events up to" in note
    ]
    assert len(said) == 1
    assert "at or after the time of 240 of 240 labels" in said[0]
    assert (
        sum("were fitted to events up to" in note for note in ev.fine_tune(later, data, labels(), "y", epochs=1).notes)
        == 1
    )
    z = run().embed(events(), cutoffs=labels(), cutoff_column="known")
    assert not any("were fitted to" in note for note in ev.evaluate(z, None, labels(), "y", **MODELS).notes)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "America/Sao_Paulo"])
def test_a_date_is_the_start_of_the_day_in_the_zone_of_the_events(zone: str | None) -> None:
    day = datetime(2018, 11, 4)  # in São Paulo, the clocks went from 00:00 to 01:00
    start = pl.Series([day.replace(hour=1) if zone == "America/Sao_Paulo" else day]).dt.replace_time_zone(zone)
    at = pl.concat([start - timedelta(microseconds=1), start] * 20)
    shop = pl.DataFrame({"card": np.arange(40) // 2, "at": at})
    data = ev.read(shop, key="card", time="at", numeric=[])
    for value in (pl.lit(day.date()), pl.lit("2018-11-04")):
        cutoffs = pl.DataFrame({"card": range(20)}).with_columns(known=value)
        cut = ev.read(shop, schema=data.schema, cutoffs=cutoffs, cutoff_column="known")
        assert cut.sequences.lengths.tolist() == [1] * 20
        likes = cutoffs.with_columns(y=pl.Series([True, False] * 10))
        z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2), cut)
        notes = ev.evaluate(z, data, likes, "y", **MODELS).notes
        assert f"A date in 'known' is the start of that day ({zone or 'UTC'})." in notes
    assert ev.until(data, "2018-11-04").sequences.lengths.tolist() == [1] * 20


def test_a_label_table_may_have_columns_of_any_name() -> None:
    named = labels().to_arrow().rename_columns(["card", "y", "a\nb"])
    with pytest.raises(DataError, match="embeddings were made from events at or after the time in"):
        ev.evaluate(run().embed(events()), None, named, "y", **MODELS)


def test_histories_that_are_cut_elsewhere_are_cut_at_the_labels_too() -> None:
    """Cutoffs after the time of a label do not let the later events in."""
    half, days = labels()[: N // 2], [datetime(2024, 5, 1), datetime(2024, 9, 1)]
    once, twice = (
        pl.concat([labels().select("card", scored=pl.lit(day)) for day in days[-count:]]) for count in (1, 2)
    )
    for cutoffs in (once, twice):
        data = ev.read(events(), cutoffs=cutoffs, cutoff_column="scored", static=half, **READ)
        for named in (None, "known"):
            fitted = ev.fit(data, method="supervised", label="y", label_time=named, epochs=5, lr=0.01)
            assert any("before the time of each label, in 'known'" in note for note in fitted.notes)
            told = pl.DataFrame(ev.predict(fitted, events())).join(labels()[N // 2 :], on="card")
            assert (told["prediction"] == told["y"].cast(pl.String)).mean() < 0.75
    data = run().read(events(), cutoffs=twice, cutoff_column="scored")
    with pytest.raises(ConfigError, match=r"several times of an entity, in 'scored', .* their time in 'known'"):
        ev.fine_tune(run(), data, half, "y", label_time="known", epochs=1)


def test_a_further_table_of_static_columns_leaves_the_times_of_the_labels() -> None:
    data = ev.read(events(), static=labels()[: N // 2], **READ)
    born = pl.DataFrame({"card": range(N), "born": [datetime(1980, 1, 1)] * N, "age": np.arange(N) / 7})
    fitted = ev.fit(ev.attach(data, born, {"age": "numeric"}), method="supervised", label="y", epochs=1)
    assert any("before the time of each label, in 'known'" in note for note in fitted.notes)


def test_times_among_which_some_cannot_be_read_are_no_reason_to_read_all_events() -> None:
    known = pl.when(pl.col("card") < 3).then(pl.lit("unknown")).otherwise(pl.col("known").cast(pl.String))
    broken = labels().with_columns(known.alias("known"))
    with pytest.raises(DataError, match=r"3 unreadable times .*; if it is not the time of the labels, .*label_time="):
        ev.fine_tune(run(), run().read(events()), broken, "y", epochs=1)
    with pytest.raises(DataError, match="labelled entities have no readable time in 'known'"):
        ev.fit(ev.read(events(), static=broken, **READ), method="supervised", label="y", epochs=1)
    mixed = labels().to_pandas()
    mixed["known"] = [time if row % 2 else time.date() for row, time in enumerate(mixed["known"])]
    tuned = ev.fine_tune(run(), run().read(events()), mixed, "y", epochs=1)
    assert "Only events before the time of each label, in 'known', are read." in tuned.notes


def test_a_strict_cut_of_inclusive_histories_is_strict() -> None:
    told, known = few()
    later = known.with_columns(known=pl.col("known") + timedelta(days=90))
    data = run().read(told, cutoffs=later.rename({"known": "at"}), cutoff_column="at", inclusive=True)
    for named in (None, "known"):
        report = ev.report(run(), data, labels=known, label="y", label_time=named, **MODELS)
        assert "Only events before the time of each label, in 'known', are read." in report.basis[0].notes


def test_labels_are_found_under_either_name_of_the_key_and_streams_are_read_once(tmp_path: Path) -> None:
    told, first = few()
    told = told.rename({"card": "my card"})
    renamed = ev.read(told, **{**READ, "key": "my card"}, key_as="card")
    trained = ev.fit(renamed, method="coles", epochs=1, dim=4, beside=[])
    z = trained.embed(told, cutoffs=first, cutoff_column="known")
    for name in ("card", "my card"):
        known = first.rename({"card": name})
        ev.evaluate(z, None, known, "y", **MODELS)
    ev.report(trained, renamed, labels=known, label="y", **MODELS)  # under the name that the events have
    ev.compare(renamed, known, "y", methods=["coles", "ocp"], epochs=1, out=tmp_path / "c", **MODELS)
    for call in (
        lambda stream: ev.evaluate(z, None, stream, "y", **MODELS),
        lambda stream: ev.report(trained, renamed, labels=stream, label="y", **MODELS).basis[0],
        lambda stream: vectorizer().evaluate(stream, "y", **MODELS),
    ):
        evaluation = call(first.to_arrow().to_reader())
        assert "Only events before the time of each label, in 'known', are read." in evaluation.notes


def test_reports_show_labels_of_several_times() -> None:
    told, first = few()
    panel = pl.concat([first, first.with_columns(known=pl.col("known") - timedelta(days=30), y=~pl.col("y"))])
    data = run().read(told)
    shown = ev.report(run(), data, labels=panel, label="y", **MODELS)
    assert "120 embeddings have a label." in shown.basis[0].notes
    assert "rows that disagree" not in shown.html
    disagreeing = "60 keys of the label table have rows that disagree; the map shows no labels of them."
    assert disagreeing in ev.report(run(), data, labels=panel).notes


def test_whole_numbers_with_missing_ones_stay_whole() -> None:
    """pandas holds them as floats."""
    shop = pl.DataFrame({"card": np.arange(800) // 20, "day": np.tile(np.arange(20), 40), "paid": np.arange(800) % 7})
    data = ev.read(shop, key="card", time="day", numeric=["paid"])
    likes = pl.DataFrame({"card": range(40), "day": [10] * 39 + [None], "y": [True, False] * 19 + [True, None]})
    for given in (likes, likes.to_pandas()):
        tuned = ev.fine_tune(ev.fit(data, method="ocp", epochs=1, dim=4), data, given, "y", epochs=1)
        assert "Only events before the time of each label, in 'day', are read." in tuned.notes


def test_every_call_says_once_that_a_run_or_a_schema_was_fitted_to_later_events() -> None:
    later = ev.fit(ev.read(events(), **READ), method="coles", epochs=1, dim=8, beside=[])
    scratch = ev.fit(ev.read(events(), static=labels(), **READ), method="supervised", label="y", epochs=1)
    for notes in (ev.influence(later, events(), labels(), "y", folds=3).notes, scratch.notes):
        assert sum("fitted to events up to" in note for note in notes) == 1


def test_events_at_the_time_of_a_cutoff_are_no_choice_for_the_labels() -> None:
    scored = labels().select("card", scored="known")
    z = run().embed(events(), cutoffs=scored, cutoff_column="scored", inclusive=True)
    for named in (None, "known"):
        with pytest.raises(DataError, match="at or after the time in 'known'"):
            ev.evaluate(z, None, labels(), "y", label_time=named, **MODELS)
    assert max(scores(ev.evaluate(z, None, labels(), "y", inclusive=True, **MODELS))) == pytest.approx(1)


def test_histories_at_several_times_are_as_inclusive_as_they_were_read() -> None:
    panel = pl.concat([labels(), labels().with_columns(pl.col("known") - timedelta(days=1))])
    strict, inclusive = (
        run().read(events(), cutoffs=panel, cutoff_column="known", **more) for more in ({}, {"inclusive": True})
    )
    with pytest.raises(ConfigError, match="inclusive is given, and the histories were cut before their times in 'kno"):
        ev.fine_tune(run(), strict, panel, "y", epochs=1, inclusive=True)
    notes = ev.influence(run(), inclusive, panel, "y", folds=3).notes
    assert "Only events up to and including the time of each label, in 'known', are read." in notes


UNREADABLE: dict[str, tuple[list[Any], str]] = {
    "dotted": (["01.06.2024", "01.07.2024"], "'month' is text such as '01.06.2024', not ISO 8601, and looks like"),
    "months": (["2024-06", "2024-07"], "'month' is text such as '2024-06', not ISO 8601, and looks like months (Y"),
    "whole": ([202406, 202407], "'month' holds numbers, which are never taken as dates, although those such as 202406"),
    "days": ([20240601, 20240701], "'month' holds numbers, which are never taken as dates, although"),
    "epoch": ([1717200000, 1719792000], "'month' holds numbers, which are never taken as dates, although"),
    "day first": (["13/06/2024", "1/7/2024"], "'month' is text such as '13/06/2024', not ISO 8601, and looks like"),
    "names": (["13 June 2024", "Jul 2, 2024"], "'month' is text such as '13 June 2024', not ISO 8601, and looks like"),
    "quarters": (["2024Q2", "2024Q3"], "'month' is text such as '2024Q2', not ISO 8601, and looks like quarters"),
    "words": (["June of Ann", "July of Ann"], "'month' is text, not ISO 8601"),
}  # fmt: skip
"""Months that are no times, and what is said of them; words that may be a key are not shown."""


def unreadable(form: str) -> tuple[pl.DataFrame, str]:
    """Return labels whose times cannot be read, and the message that refuses them."""
    months, reason = UNREADABLE[form]
    no_time = labels().drop("known")
    panel = pl.concat([no_time.with_columns(month=pl.lit(month)) for month in months])
    if form == "words":
        message = rf"'card' has several rows for 240 keys, and no column of times was found \({re.escape(reason)}"
        return panel, f"{message}.*: name one"
    return panel, f"{re.escape(reason)}.*; convert it to dates and name it, label_time=.*label_time='none'"


@pytest.mark.parametrize("form", UNREADABLE)
def test_a_panel_whose_times_cannot_be_read_is_refused(form: str, tmp_path: Path) -> None:
    (panel, message), z = unreadable(form), run().embed(events())
    panel.write_csv(tmp_path / "labels.csv")
    for given in (panel, panel.to_pandas(), tmp_path / "labels.csv"):
        with pytest.raises(DataError, match=message):
            ev.evaluate(z, None, given, "y", **MODELS)
    declined = ev.evaluate(z, None, panel, "y", label_time="none", **MODELS)
    assert "240 rows of the label table repeat another one and were merged with it." in declined.notes


def test_a_panel_whose_times_cannot_be_read_is_refused_by_every_call(tmp_path: Path) -> None:
    panel, message = unreadable("months")
    panel.write_csv(tmp_path / "labels.csv")
    data = run().read(events())
    for given in (panel, panel.to_pandas(), tmp_path / "labels.csv"):
        for call in (
            lambda given: ev.EventClassifier("card", "at", budget=1, progress=False).fit(events(), given, "y"),
            lambda given: ev.fine_tune(run(), data, given, "y", epochs=1),
            lambda given: ev.influence(run(), events(), given, "y", folds=3),
            lambda given: ev.compare(data, given, "y", methods=["coles", "ocp"], epochs=1, out=tmp_path / "c"),
            lambda given: ev.tune(data, given, "y", epochs=1, out=tmp_path / "t"),
            lambda given: ev.report(run(), data, labels=given, label="y", **MODELS),
        ):
            with pytest.raises(DataError, match=message):
                call(given)


@pytest.mark.parametrize("form", [form for form in UNREADABLE if form != "words"])
def test_labels_with_one_row_per_key_whose_times_cannot_be_read_are_refused(form: str) -> None:
    panel, message = unreadable(form)
    with pytest.raises(DataError, match=message):
        ev.evaluate(run().embed(events()), None, panel[:N], "y", **MODELS)


@pytest.mark.parametrize(
    "values",
    [
        [1, 2024],
        [0.5, 20240601.5],
        ["3.10", "4.5"],
        ["A-1", "B-2"],
        [10**9, 10**10],
        ["18-25", "26-35"],
        ["1/2", "3/4"],
        ["Decile 1", "market 2"],
        ["20-30 days", "mar1"],
    ],
)
def test_other_columns_look_like_no_time(values: list[Any]) -> None:
    given = labels().drop("known").with_columns(other=pl.Series(values * (N // 2)))
    assert untimed(None) in ev.evaluate(run().embed(events()), None, given, "y", **MODELS).notes


def test_identifiers_of_ten_digits_are_no_times_and_no_message_shows_them() -> None:
    numbers = [1_000_000_000 + i for i in range(N)]
    given = labels().drop("known").with_columns(account_id=pl.Series(numbers))
    assert untimed(None) in ev.evaluate(run().embed(events()), None, given, "y", **MODELS).notes
    told = pl.DataFrame({"card": [1, 2], "at": ["1234567890", "2024-01-01"]})
    with pytest.raises(DataError) as error:
        ev.read(told, key="card", time="at", numeric=[])
    assert "1234567890" not in str(error.value)


def test_equal_rows_of_a_key_are_merged_and_rows_that_differ_anywhere_are_not() -> None:
    z, once = run().embed(events()), labels().drop("known").with_columns(wave=pl.lit(1))
    merged = ev.evaluate(z, None, pl.concat([once, once[:5]]), "y", **MODELS)
    assert "5 rows of the label table repeat another one and were merged with it." in merged.notes
    without = once[:5].with_columns(y=None, wave=2)  # rows without a label have nothing to differ in
    ev.evaluate(z, None, pl.concat([once, without], how="vertical_relaxed"), "y", **MODELS)
    with pytest.raises(DataError, match="'card' has several rows for 5 keys, and no column of times was found: name"):
        ev.evaluate(z, None, pl.concat([once, once[:5].with_columns(wave=2)]), "y", **MODELS)


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(16)])
def test_rows_of_a_key_are_compared_where_keys_are_uuids(kind: pa.DataType) -> None:
    ids = [i.to_bytes(16) for i in range(N)]
    days = pl.Series([datetime(2024, 1, 1)] * N)
    data = ev.read(pa.table({"id": pa.array(ids, kind), "at": days, "paid": np.arange(N) / N}), key="id", time="at")
    z = Embeddings.of(data, np.eye(N, 3))
    rows = pa.table({"id": pa.array([*ids, ids[0]], kind), "y": [*(i % 2 for i in range(N)), 0]})
    merged = ev.evaluate(z, None, rows, "y", **MODELS)
    assert "1 rows of the label table repeat another one and were merged with it." in merged.notes
    several = rows.append_column("wave", pa.array(range(N + 1)))
    with pytest.raises(DataError, match="'id' has several rows for 1 keys, and no column of times was found"):
        ev.evaluate(z, None, several, "y", **MODELS)


def test_lists_beside_several_rows_of_a_key_are_refused_as_labels_and_as_keys() -> None:
    z, once = run().embed(events()), labels().drop("known").with_columns(lists=pl.concat_list("y"))
    rows = pl.concat([once, once[:5]])
    with pytest.raises(DataError, match=r"label 'lists' is of type list<item: .*>; accepted: numbers, text, booleans"):
        ev.evaluate(z, None, rows.select("card", "lists"), "lists", **MODELS)
    with pytest.raises(DataError, match="column 'card' cannot be the key: it holds List"):
        ev.evaluate(z, None, rows.select(card="lists", y="y"), "y", **MODELS)


def test_the_verdict_says_that_labels_have_no_time_and_the_notes_why_no_column_is_one() -> None:
    given = labels().select("card", "y", month=pl.lit("spring"), sector=pl.lit("a"))
    tried = "No column of the labels was taken as their time: 'month' is text, not ISO 8601"
    model = ev.EventClassifier("card", "at", budget=0.1, progress=False).fit(events(), given, "y")
    answers = [
        model.explain(),
        ev.evaluate(run().embed(events()), None, given, "y", **MODELS),
        ev.influence(run(), events(), given, "y", folds=3),
    ]
    for each in answers:
        (note,) = (note for note in each.notes if note.startswith(tried))
        assert note.endswith("'sector' is text, not ISO 8601.")
        assert untimed(None) in each.notes
    assert model.explain().verdict[-1] == untimed(None)
    tuned = ev.fine_tune(run(), run().read(events()), given, "y", epochs=1)
    assert sum(note.startswith(tried) for note in tuned.notes) == 1
    model.fit(events(), given, "y", label_time="none")
    assert untimed(None) not in model.explain().verdict
    assert not any(note.startswith(tried) for note in model.notes_)


def test_labels_of_plain_numbers_say_which_column_is_their_time() -> None:
    shop = pl.DataFrame({"card": np.arange(800) // 20, "at": np.tile(np.arange(20), 40), "paid": np.arange(800) % 7})
    data = ev.read(shop, key="card", time="at", numeric=["paid"])
    panel = pl.DataFrame({"card": np.arange(80) // 2, "day": [5, 10] * 40, "y": [True, True, False, False] * 20})
    with pytest.raises(
        DataError, match="'day' holds Int64, while the times of events are numbers, of which only a col"
    ):
        ev.fine_tune(ev.fit(data, method="ocp", epochs=1, dim=4), data, panel, "y", epochs=1)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("01.06.2024", 'pl.col("month").str.to_date("%d.%m.%Y")'),
        ("2024-06", '(pl.col("month") + "-01").str.to_date()'),
        ("06/01/2024", 'pl.col("month").str.to_date("FORMAT")'),
    ],
)  # fmt: skip
def test_times_of_labels_and_cutoffs_that_cannot_be_read_are_shown_with_how_to_convert_them(
    value: str, code: str
) -> None:
    given, data = labels().select("card", "y", month=pl.lit(value)), run().read(events())
    rest = (
        f"has 240 unreadable times (first at row 0: '{value}'); accepted: ISO 8601, such as 2024-06-01, all with a zone"
    )
    advice = f"convert it first, for example {code}"
    for of, call in (
        (
            "labels",
            lambda: ev.EventClassifier("card", "at", progress=False).fit(events(), given, "y", label_time="month"),
        ),
        ("labels", lambda: ev.fine_tune(run(), data, given, "y", label_time="month", epochs=1)),
        ("cutoffs", lambda: run().embed(events(), cutoffs=given, cutoff_column="month")),
    ):
        with pytest.raises(DataError) as refused:
            call()
        assert str(refused.value).startswith(f"column 'month' of the {of} {rest}"), refused.value
        assert advice in str(refused.value)
    if "FORMAT" not in code:
        read = given.with_columns(eval(code).alias("month"))
        assert read["month"].unique().to_list() == [datetime(2024, 6, 1).date()]


def test_numbers_as_times_of_labels_are_refused_without_an_option_that_labels_do_not_have() -> None:
    given = labels().select("card", "y", month=pl.lit(202406))
    with pytest.raises(DataError, match=r"'month' of the labels holds integer values, .* dates or timestamps first$"):
        ev.fine_tune(run(), run().read(events()), given, "y", label_time="month", epochs=1)


def test_estimators_read_times_of_events_in_the_format_that_the_message_names() -> None:
    told = events().with_columns(pl.col("at").dt.strftime("%d.%m.%Y %H:%M:%S%.6f"))
    once = labels().drop("known")
    with pytest.raises(DataError, match=r"first at row 0: '\d\d.*in estimators reading=.'time_format': ...}"):
        ev.EventClassifier("card", "at", progress=False).fit(told, once, "y")
    reading = {"time_format": "%d.%m.%Y %H:%M:%S%.f"}
    model = ev.EventClassifier("card", "at", reading=reading, budget=0.1, progress=False).fit(told, once, "y")
    assert "240 rows have a label." in model.notes_


def test_labels_after_the_last_event_raise_a_question_about_their_time() -> None:
    last = events("nothing")["at"].max()
    assert isinstance(last, datetime)
    data = run().read(events("nothing"))
    for days, late, asked in ((1, 121, True), (1, 119, False), (31, 1, True), (29, 1, False), (0, 0, False)):
        known = pl.when(pl.col("card") < late).then(pl.lit(last + timedelta(days=days))).otherwise(pl.lit(last))
        given = labels().with_columns(known.alias("known"))
        question = f"{late} of 240 labels lie after the last event ({last}); is 'known' the time at which"
        notes = ev.fine_tune(run(), data, given, "y", epochs=1).notes
        assert sum(note.startswith(question) for note in notes) == asked, (days, late, notes)
    given = labels().with_columns(known=pl.lit(last + timedelta(days=1)))
    question = f"240 of 240 labels lie after the last event ({last}); is 'known' the time at which"
    model = ev.EventClassifier("card", "at", budget=0.1, progress=False).fit(events("nothing"), given, "y")
    evaluation = ev.evaluate(run().embed(data), data, given, "y", **MODELS)
    for each in (model.notes_, evaluation.notes):
        assert sum(note.startswith(question) for note in each) == 1, each
    early = run().read(events("nothing"), until=KNOWN)
    assert not any("after the last event" in note for note in ev.fine_tune(run(), early, labels(), "y", epochs=1).notes)


def test_entities_without_labels_are_counted_once() -> None:
    half = labels()[: N // 2]
    model = ev.EventClassifier("card", "at", budget=0.1, progress=False)
    plain = model.fit(events(), half.drop("known"), "y").notes_
    assert "120 of 240 entities have no label, or several that disagree, and were left out." in plain
    twice = pl.concat([labels(), labels().with_columns(pl.col("known") + timedelta(days=1))]).select("card", "known")
    data = ev.read(events(), cutoffs=twice, cutoff_column="known", **READ)
    timed = model.fit(data, half, "y").notes_
    assert "360 of 480 rows, of 240 entities, have no label, or several that disagree, and were left out." in timed


def test_keys_of_another_form_are_described_and_never_shown() -> None:
    told = events().with_columns(card="C-" + pl.col("card").cast(pl.String).str.zfill(4))
    data = ev.read(told, **READ)
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2)
    wrong, right = r"\(column 'card', Int64, of the form 9\)", r"\((large_)?string, of the form 'a-9999'\)"
    timed = ev.EventClassifier("card", "at", progress=False)
    with pytest.raises(DataError, match=rf"none of 240 labelled rows has a key {wrong} among 240 entities {right}"):
        timed.fit(told, labels(), "y")
    with pytest.raises(DataError, match=rf"none of 240 labelled rows has a key {wrong} among 240 embeddings {right}"):
        ev.evaluate(ev.embed(encoder, data), None, labels(), "y", label_time="none", **MODELS)
    with pytest.raises(DataError, match=rf"none of 240 rows of the static table has a key {wrong.lower()} among 240"):
        ev.attach(data, labels())


@pytest.mark.usefixtures("few_kernels")
@pytest.mark.parametrize("missing", [None, float("nan")], ids=["null", "NaN"])
def test_labels_that_are_missing_are_counted_wherever_labels_are_joined(missing: float | None) -> None:
    table, known = few()
    number = pl.col("y").cast(pl.Float64)
    known = known.with_columns(y=pl.when(pl.col("card") % 10 == 0).then(pl.lit(missing)).otherwise(number))
    untimed_labels, data = known.drop("known"), ev.read(table, **READ)
    of_card, timed = "6 rows of the label table have no label.", {"label_time": "known"}
    model = ev.EventClassifier(**READ, progress=False)
    panel = ev.read(table, **READ, cutoffs=known, cutoff_column="known")
    z = run().embed(table)
    for call, sentence in (
        (lambda: model.fit(table, known, "y", **timed).notes_, of_card),
        (lambda: model.fit(table, untimed_labels, "y").notes_, of_card),
        (lambda: model.fit(panel, known, "y", **timed).notes_, of_card),
        (lambda: model.fit(data, known["y"].to_numpy()).notes_, "6 of 60 rows have no label."),
        (lambda: ev.fine_tune(run(), table, known, "y", epochs=1, **timed).notes, of_card),
        (lambda: ev.fine_tune(run(), table, untimed_labels, "y", epochs=1).notes, "6 of 60 entities with a row"),
        (lambda: ev.evaluate(z, None, untimed_labels, "y", **MODELS).notes, of_card),
        (lambda: ev.influence(run(), table, labels=known, label="y", **timed).notes, of_card),
    ):  # fmt: skip
        assert sum(sentence in note for note in call()) == 1, sentence
