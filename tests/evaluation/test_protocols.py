"""Splits by date, and labels of one entity at several times: against plain loops, and refused where they cannot be."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from eventvec.blocks.handcrafted_sets import handcrafted_features
from eventvec.encoders.aggregates import aggregate_features
from eventvec.errors import ConfigError, DataError
from eventvec.learners.folds import date_splits
from eventvec.learners.task import target

N, MODELS = 80, {"models": ["logistic_regression"], "folds": 3}
FIRST = date(2024, 1, 1)
MONTHS = [FIRST + timedelta(days=30 * month) for month in range(1, 7)]


def tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the payments of 80 cards in half a year, and at the end of each month whether a card pays in the next."""
    rng = np.random.default_rng(0)
    rate = rng.gamma(2, 6, N)
    counts = rng.poisson(rate) + 1
    events = pl.DataFrame({"card": np.repeat(np.arange(N), counts), "paid": rng.exponential(size=counts.sum())})
    days = rng.integers(0, 210, counts.sum())
    events = events.with_columns(at=pl.Series([FIRST + timedelta(days=int(day)) for day in days]))
    rows = []
    for card in range(N):
        its_days = days[events["card"].to_numpy() == card]
        for number, month in enumerate(MONTHS, 1):
            pays = bool(((its_days >= 30 * number) & (its_days < 30 * number + 30)).any())
            rows.append({"card": card, "month": month, "pays": pays, "weight": 1.0 + card % 3, "city": card // 4})
    return events, pl.DataFrame(rows).sample(fraction=1, shuffle=True, seed=1)


EVENTS, LABELS = tables()


DATA = ev.read(EVENTS, key="card", time="at", numeric=["paid"])


def read(labels: pl.DataFrame = LABELS) -> ev.Dataset:
    return ev.read(EVENTS, schema=DATA.schema, cutoffs=labels, cutoff_column="month")


def embedded() -> ev.Embeddings:
    data = read()
    return ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4), data)


def test_each_label_has_the_features_of_its_own_time_and_entities_are_never_split() -> None:
    z = embedded()
    evaluation = ev.evaluate(z, EVENTS, LABELS, "pays", also=["aggregates"], **MODELS)
    assert (evaluation.facts["n"], evaluation.facts["entities"]) == (len(z), N) == (6 * N, N)
    label = {(card, month): pays for card, month, pays in LABELS.select("card", "month", "pays").rows()}
    each: dict[str, dict[tuple[int, date], np.ndarray[Any, Any]]] = {"aggregates": {}, "handcrafted": {}}
    for month in MONTHS:
        until = ev.until(DATA, month)
        for name, values in (
            ("aggregates", aggregate_features(until)), ("handcrafted", handcrafted_features(until, month))
        ):  # fmt: skip
            each[name] |= {(card, month): row for card, row in zip(until.keys.to_pylist(), values[0], strict=True)}
    places = z.frame().select("card", "month").rows()
    labels = [label[place] for place in places]
    rows = {"embedding": z.values, **{name: np.stack([of[place] for place in places]) for name, of in each.items()}}
    expected = ev.score_features(rows, labels, groups=z.keys.to_numpy(), **MODELS)
    for result in expected.basis.results:
        values = evaluation.basis.get(result.features, result.model).main.values
        assert values == pytest.approx(result.main.values, abs=1e-4), result.features
    assert evaluation.to_dict()["entities"] == N


def test_the_same_rows_are_evaluated_from_a_file_a_data_set_and_in_any_order(tmp_path: Path) -> None:
    z = embedded()
    ev.write(tmp_path / "z.parquet", z)
    data = read()
    expected = ev.evaluate(z, EVENTS, LABELS, "pays", **MODELS)
    order = np.random.default_rng(1).permutation(len(data))
    for embeddings, events in (
        (ev.read_embeddings(tmp_path / "z.parquet"), DATA), (z, data), (z, data[order]),
    ):  # fmt: skip
        assert ev.evaluate(embeddings, events, LABELS.reverse(), "pays", label_time="month", **MODELS) == expected
    part = ev.evaluate(z[z.moments < z.moments.max()], EVENTS, LABELS, "pays", **MODELS)
    assert part.facts["n"] == 5 * N
    assert "80 labels have no embedding and were left out." in part.notes
    one = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4), ev.until(DATA, "2024-02-01"))
    with pytest.raises(DataError, match="the data have several rows per entity and the embeddings have one"):
        ev.evaluate(one, data, LABELS.filter(pl.col("month") == MONTHS[0]), "pays", label_time="none", **MODELS)


def test_labels_belong_to_embeddings_of_the_same_time_also_where_each_entity_has_one() -> None:
    z = embedded()
    for month in MONTHS[1:3]:
        now = z[z.moments == z.moments.min() + 30 * (MONTHS.index(month)) * 86_400 * 10**6]
        assert now.frame()["month"].unique().to_list() == [month]
        part = ev.evaluate(now, EVENTS, LABELS, "pays", **MODELS)
        alone = ev.evaluate(now, EVENTS, LABELS.filter(pl.col("month") == month), "pays", label_time="month", **MODELS)
        assert part.basis.results == alone.basis.results
        assert (part.facts["n"], part.facts["entities"]) == (N, N)
    with pytest.raises(
        DataError, match=r"none of 80 labelled rows has a key .* and time .*; embed at the times of the"
    ):
        ev.evaluate(now, EVENTS, LABELS.filter(pl.col("month") == MONTHS[0]), "pays", **MODELS)


def test_the_number_of_entities_is_that_of_the_rows_that_the_protocol_uses() -> None:
    rng = np.random.default_rng(0)
    entities, x, labels = np.repeat(np.arange(60), 4), rng.normal(size=(240, 3)), rng.random(240) < 0.4
    cities, held_out = entities // 3, entities % 10 == 0
    options = {"entities": entities, "groups": cities, "holdout": held_out, **MODELS}
    evaluation = ev.score_features({"embedding": x}, labels, **options)
    used = ~np.isin(cities, cities[held_out]) | held_out
    assert (evaluation.facts["n"], evaluation.facts["entities"]) == (used.sum(), len(np.unique(entities[used])))
    with pytest.raises(ConfigError, match="both_sides needs later, and has no meaning with holdout"):
        ev.score_features({"embedding": x}, labels, both_sides=True, **MODELS)


def test_own_features_are_of_the_entity_or_of_each_of_its_times() -> None:
    z = embedded()
    of_entity = pl.DataFrame({"card": range(N), "number": np.arange(N) * 1.0})
    of_time = LABELS.select("card", "month", answer=pl.col("pays").cast(pl.Float64))
    evaluation = ev.evaluate(
        z, None, LABELS, "pays", features={"entity": of_entity, "time": of_time.reverse()}, **MODELS
    )
    assert evaluation.basis.get("time", "logistic_regression").main.mean == 1
    assert evaluation.basis.get("entity", "logistic_regression").main.mean < 0.9
    with pytest.raises(DataError, match="80 of 480 labelled entities have no row in the table of features 'time'"):
        ev.evaluate(z, None, LABELS, "pays", features={"time": of_time.filter(pl.col("month") > MONTHS[0])}, **MODELS)
    with pytest.raises(DataError, match="the table of features 'time' has 1 repeated keys"):
        ev.evaluate(z, None, LABELS, "pays", features={"time": pl.concat([of_time, of_time[:1]])}, **MODELS)
    with pytest.raises(DataError, match="the table of features 'time' has no column besides 'card' and 'month'"):
        ev.evaluate(z, None, LABELS, "pays", features={"time": LABELS[["card", "month"]]}, **MODELS)
    untimed = of_time.with_columns(month=pl.when(pl.int_range(pl.len()) >= 80).then("month"))
    with pytest.raises(DataError, match="80 of 480 labelled entities have no row in the table of features 'time'"):
        ev.evaluate(z, None, LABELS, "pays", features={"time": untimed}, **MODELS)


def test_own_features_of_several_times_are_joined_to_entities_with_one_label() -> None:
    labels = LABELS.unique("card", keep="first", maintain_order=True)
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(DATA.schema), dim=4), read(labels))
    of_time = LABELS.select("card", "month", answer=pl.col("pays").cast(pl.Float64))
    evaluation = ev.evaluate(z, None, labels, "pays", label_time="month", features={"time": of_time}, **MODELS)
    assert evaluation.basis.get("time", "logistic_regression").main.mean == 1


def test_labels_at_several_times_of_entities_with_one_embedding_are_refused_with_what_to_do() -> None:
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(DATA.schema), dim=4), DATA)
    with pytest.raises(DataError, match=r"all 80 labelled keys have rows that disagree, .*label table as cutoffs="):
        ev.evaluate(z, None, LABELS, "pays", label_time="month", **MODELS)


def test_labels_at_other_times_than_the_embeddings_are_refused_with_what_to_do() -> None:
    later = LABELS.with_columns(pl.col("month") + timedelta(days=1))
    with pytest.raises(DataError, match=r"none of 480 labelled rows has a key .* and time .*; embed at the times of"):
        ev.evaluate(embedded(), None, later, "pays", **MODELS)


def test_a_hold_out_test_counts_labels_that_are_not_entities() -> None:
    groups, x = np.repeat(np.arange(40), 3), np.random.default_rng(0).normal(size=(120, 2))
    evaluation = ev.score_features({"embedding": x}, np.arange(120) % 2, groups=groups, holdout=groups < 10, **MODELS)
    assert any(note.startswith("Tested on 30 labels of entities that") for note in evaluation.notes)


def test_groups_hold_whole_entities() -> None:
    z = embedded()
    assert ev.evaluate(z, None, LABELS, "pays", group="city", **MODELS).facts["n"] == len(z)
    split = LABELS.with_columns(city=pl.when(pl.col("card") == 3).then(pl.col("month").dt.month()).otherwise(99))
    with pytest.raises(DataError, match="1 of 80 entities have labels in several groups; each needs one group"):
        ev.evaluate(z, None, split, "pays", group="city", **MODELS)


# Splits by date


@pytest.mark.parametrize("numeric", [False, True])
@pytest.mark.parametrize("both_sides", [False, True])
def test_a_split_by_date_trains_before_and_tests_after_it(both_sides: bool, numeric: bool) -> None:
    rng = np.random.default_rng(0)
    labels = target(rng.normal(size=300) if numeric else rng.random(300) < 0.3)
    entities, later = rng.integers(0, 60, 300), rng.random(300) < 0.4
    splits = date_splits(labels, later, 5, entities, 0, both_sides)
    for train, test in splits:
        assert not later[train].any()
        assert later[test].all()
        if both_sides:
            assert test.tolist() == np.flatnonzero(later).tolist()
        else:
            assert not set(entities[train]) & set(entities[test])
    tested = np.concatenate([test for _, test in splits])
    if not both_sides:
        assert sorted(tested.tolist()) == np.flatnonzero(later).tolist()
    left_out = [np.setdiff1d(np.flatnonzero(~later), train) for train, _ in splits]
    assert sorted(np.concatenate(left_out).tolist()) == np.flatnonzero(~later).tolist()


def test_labels_in_the_gap_are_left_out_and_the_result_says_who_is_on_both_sides() -> None:
    z, split = embedded(), {"split_at": MONTHS[4], "gap": "31d", **MODELS}
    apart = ev.evaluate(z, EVENTS, LABELS, "pays", **split)
    shared = ev.evaluate(z, EVENTS, LABELS, "pays", both_sides=True, **split)
    assert apart.facts["n"] == shared.facts["n"] == 5 * N
    assert apart.facts["protocol"] == shared.facts["protocol"] == apart.to_dict()["protocol"] == "date"
    assert "80 labels in the gap of 31d before that time were left out." in apart.notes
    sentence = "Trained on 240 labels before the date, tested on 160 at or after it;"
    assert f"{sentence} no model was trained on an entity that it tests." in apart.notes
    assert f"{sentence} 80 of 80 test entities were trained on before it." in shared.notes
    assert any("the encoder may have seen later events" in note for note in apart.notes)
    assert shared.basis.get("embedding", "logistic_regression").main.same_test
    assert not apart.basis.get("embedding", "logistic_regression").main.same_test
    exact = ev.evaluate(z, EVENTS, LABELS, "pays", **{**split, "gap": timedelta(days=30)})
    assert exact.facts["n"] == 6 * N  # what a label 30 days before describes ends at the date
    for gap, left_out in (("29d", 0), ("1mo", N)):  # from 30 April to 29 or 30 May
        day_before = ev.evaluate(z, EVENTS, LABELS, "pays", **{**split, "split_at": "2024-05-29", "gap": gap})
        assert day_before.facts["n"] == 6 * N - left_out
    joined = LABELS.join(z.frame().with_row_index("row"), on=["card", "month"]).sort("row")
    outside_gap = joined.filter((pl.col("month") >= MONTHS[4]) | (pl.col("month") < MONTHS[3]))
    expected = ev.score_features(
        {"embedding": z.values[outside_gap["row"].to_numpy()]}, outside_gap["pays"].to_numpy(),
        groups=outside_gap["card"].to_numpy(), later=(outside_gap["month"] >= MONTHS[4]).to_numpy(), **MODELS,
    )  # fmt: skip
    assert apart.basis.get("embedding", "logistic_regression") == expected.basis.results[0]


def test_one_label_per_entity_with_its_own_time_is_split_by_date_too() -> None:
    labels = LABELS.unique("card", keep="first", maintain_order=True)
    data = read(labels)
    z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4), data)
    evaluation = ev.evaluate(z, EVENTS, labels, "pays", label_time="month", split_at="2024-04-01", **MODELS)
    assert (evaluation.facts["protocol"], evaluation.facts["n"], evaluation.facts["entities"]) == ("date", N, N)


def test_held_out_entities_are_tested_after_the_date_and_others_train_before_it() -> None:
    rng = np.random.default_rng(0)
    labels, x = rng.random(200) < 0.4, rng.normal(size=(200, 3))
    held_out, later = rng.random(200) < 0.4, rng.random(200) < 0.5
    chosen = held_out == later
    evaluation = ev.score_features({"embedding": x}, labels, holdout=held_out, later=later, **MODELS)
    expected = ev.score_features({"embedding": x[chosen]}, labels[chosen], holdout=held_out[chosen], **MODELS)
    assert evaluation.basis.results == expected.basis.results
    assert f"{(~chosen).sum()} labels are on the other side of the date and were left out." in evaluation.notes


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"split_at": "2030-01-01"}, DataError, "0 of 480 labels are at or after the date of the split"),
        ({"split_at": "2020-01-01"}, DataError, "480 of 480 labels are at or after the date of the split"),
        ({"split_at": 5}, ConfigError, "5 cannot be compared with column 'at'"),
        ({"split_at": "2024-04-01", "gap": "soon"}, ConfigError, "'soon' is no length of time for column 'at'"),
        ({"split_at": "2024-04-01", "gap": "-1d"}, ConfigError, "'-1d' is no length of time for column 'at'"),
        (
            {"split_at": "2024-04-01", "gap": 30},
            ConfigError,
            "30 is no length of time for column 'at'",
        ),
        (
            {"split_at": 5, "holdout": True, "both_sides": True},
            ConfigError,
            "both_sides is given together with holdout",
        ),
        ({"split_at": "2024-04-01", "gap": "-3d"}, ConfigError, "'-3d' is no length of time for column 'at'"),
        ({"label_time": "none"}, ConfigError, r"labels need a time too; name its column .* \(--label-time\)"),
        ({"label_time": "weight"}, DataError, "column 'weight' of the labels holds float values, but column 'at'"),
    ],
)
def test_splits_that_cannot_be_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ev.evaluate(embedded(), None, LABELS, "pays", **{**MODELS, **options})
