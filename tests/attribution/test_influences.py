"""A planted field, time or period is what drives the score, a permuted label has nothing that drives it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev

N, EVENTS = 240, 18


def purchases(seed: int = 0) -> pl.DataFrame:
    """Return 18 purchases of each of 240 cards.

    Each card has its own share of tea, its own mean amount and its own rhythm. In the last third of its events, the
    shop is the one that the card has come to like; before, it is any. The tip says nothing.
    """
    rng = np.random.default_rng(seed)
    shape = (N, EVENTS)
    tea, mean, rhythm, liked = rng.random(N), rng.normal(size=N), rng.exponential(20, N) + 1, rng.random(N) < 0.5
    late = np.arange(EVENTS) >= EVENTS * 2 // 3
    shop = np.where(late, liked[:, None], rng.random(shape) < 0.5)
    hours = np.cumsum(rng.exponential(size=shape) * rhythm[:, None], 1)
    start = np.datetime64("2024-01-01", "us")
    columns = {
        "card": np.repeat(np.arange(N), EVENTS),
        "when": (start + (hours * 3600e6).astype("timedelta64[us]")).reshape(-1),
        "item": np.where(rng.random(shape) < tea[:, None], "tea", "ink").reshape(-1),
        "shop": np.where(shop, "north", "south").reshape(-1),
        "paid": (mean[:, None] + rng.normal(size=shape)).reshape(-1),
        "tip": rng.normal(size=N * EVENTS),
    }
    return pl.DataFrame(columns)


def labels() -> pl.DataFrame:
    """Return labels of each card that follow from one field, from the times or from the last third of its events."""
    last = pl.col("shop").slice(EVENTS * 2 // 3)
    values = purchases().sort("card", "when").group_by("card", maintain_order=True).agg(
        item=(pl.col("item") == "tea").mean(),
        paid=pl.col("paid").mean(),
        when=pl.col("when").diff().mean().dt.total_seconds(),
        last=(last == "north").mean(),
    )  # fmt: skip
    binary = values.select("card", *(pl.col(name) > pl.col(name).median() for name in ("item", "paid", "when", "last")))
    thirds = (values["paid"].rank() / (N / 3 + 1)).floor().cast(pl.Int64)
    return binary.with_columns(
        permuted=binary["item"].shuffle(seed=7),
        number=values["paid"],
        third=thirds.replace_strict([0, 1, 2], ["low", "mid", "high"]),
    )


@pytest.fixture(scope="module")
def run() -> ev.Model:
    """Return a run with timing and aggregates beside the learned part, as by default."""
    data = ev.read(purchases(), key="card", time="when", categorical=["item", "shop"], numeric=["paid", "tip"])
    return ev.fit(data, method={"encoder": {"dim": 16}}, epochs=2)


@pytest.fixture(scope="module")
def data(run: ev.Model) -> ev.Dataset:
    return run.read(purchases())


@pytest.mark.parametrize("name", ["item", "paid", "when"])
def test_a_planted_field_is_found(run: ev.Model, data: ev.Dataset, name: str) -> None:
    result = ev.influence(run, data, labels(), name)
    assert result.facts["measure"] == "auroc"
    assert result.facts["with_all_events"].value == pytest.approx(1, abs=0.1)
    planted, *others = [row for row in result.rows if row["kind"] == "field"]
    assert planted["left_out"] == name
    assert planted["change"].high < -0.1
    assert all(row["change"].low > planted["change"].high for row in others)  # the intervals do not meet
    assert all(row["change"].value > planted["change"].value / 3 for row in others)
    assert result.verdict[0].startswith(f"Without {name!r}, auroc of {name} falls by .")
    assert result.verdict[-1].endswith(" (logistic_regression, 240 entities).")


def test_a_planted_period_is_found(run: ev.Model, data: ev.Dataset) -> None:
    result = ev.influence(run, data, labels(), "last")
    shares = [row for row in result.rows if "third" in row["left_out"]]
    assert shares[0]["left_out"] == "last third"
    assert shares[0]["change"].high < -0.1
    assert all(row["change"].value > shares[0]["change"].value / 3 for row in shares[1:])
    fields = [row for row in result.rows if row["kind"] == "field"]
    assert fields[0]["left_out"] == "shop"


def test_features_as_of_a_moment_are_vectors_too(tmp_path: Path) -> None:
    roles = {"key": "card", "time": "when", "categorical": ["item", "shop"], "numeric": ["paid", "tip"]}
    ev.features(purchases(), **roles, save=tmp_path / "features")
    handcrafted = ev.load(tmp_path / "features")
    result = ev.influence(handcrafted, purchases(), labels(), "item")
    fields = [row for row in result.rows if row["kind"] == "field"]  # in front of these are periods, which move times
    assert fields[0]["left_out"] == "item"
    assert fields[0]["change"].place == "behind"


def test_nothing_drives_a_permuted_label(run: ev.Model, data: ev.Dataset) -> None:
    result = ev.influence(run, data, labels(), "permuted")
    assert result.facts["with_all_events"].value == pytest.approx(0.5, abs=0.15)
    changes = [row["change"] for row in result.rows]
    assert sum(change.place != "level" for change in changes) <= 2  # of 12, each by chance in one of 20
    assert min(change.high for change in changes) > -0.05  # a planted field has less than -0.1
    assert max(abs(change.value) for change in changes) < 0.1
    if not any(change.high < 0 for change in changes):
        assert result.verdict[0] == "No field or period is shown to drive auroc of permuted."


@pytest.mark.slow
def test_a_permuted_label_is_called_driven_seldom(run: ev.Model, data: ev.Dataset) -> None:
    """About 5 % of the intervals do not hold 0; the mean of 40 tables of 12 rows is known to about 2 %."""
    rates = []
    for seed in range(40):
        permuted = labels().with_columns(pl.col("item").shuffle(seed=seed))
        rows = ev.influence(run, data, permuted, "item").rows
        rates.append(np.mean([row["change"].place != "level" for row in rows]))
    assert np.mean(rates) <= 0.09


@pytest.mark.parametrize(("name", "measure", "model"), [("number", "r2", "ridge"), ("third", "accuracy", "knn")])
def test_labels_of_numbers_and_of_classes(run: ev.Model, data: ev.Dataset, name: str, measure: str, model: str) -> None:
    result = ev.influence(run, data, labels(), name, model="knn" if model == "knn" else None)
    assert (result.facts["measure"], result.facts["model"], result.rows[0]["change"].high < 0) == (measure, model, True)
    assert next(row["left_out"] for row in result.rows if row["kind"] == "field") == "paid"


def test_the_full_score_is_that_of_evaluate(run: ev.Model, data: ev.Dataset) -> None:
    result = ev.influence(run, data, labels(), "item", folds=4, seed=3)
    evaluated = ev.evaluate(run.embed(data), None, labels(), "item", folds=4, seed=3, models=["logistic_regression"])
    assert result.facts["with_all_events"] == evaluated.row(features="embedding")["score"]
    assert result.facts["n"] == evaluated.facts["n"] == N


def test_the_model_of_verdicts_can_be_named(run: ev.Model, data: ev.Dataset) -> None:
    few = labels().head(60)
    result = ev.influence(run, data, few, "item", folds=2, model="stacked")
    evaluated = ev.evaluate(run.embed(data), None, few, "item", folds=2)
    expected = evaluated.row(features="embedding", model="stacked")["score"]
    assert result.facts["with_all_events"].value == pytest.approx(expected.value, abs=1e-9)
    assert result.rows[0]["change"].value < 0


def cosine_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return 1 - (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def test_vectors_move_as_far_as_those_of_a_table_without_the_field(run: ev.Model, data: ev.Dataset) -> None:
    result = ev.influence(run, data)
    full = run.embed(data).values.astype(float)
    without = run.embed(purchases().with_columns(shop=pl.lit(None, pl.String))).values.astype(float)
    pairs = cosine_distances(full[:, None], full[None])[~np.eye(N, dtype=bool)]
    shop = result.row(left_out="shop")["change"]
    assert shop.value == pytest.approx(cosine_distances(full, without).mean() / pairs.mean(), rel=1e-4)
    assert shop.low < shop.value < shop.high
    changes = [row["change"].value for row in result.rows]
    assert changes == sorted(changes, reverse=True)
    field = next(row["left_out"] for row in result.rows if row["kind"] == "field")
    assert result.verdict[0].startswith(f"Without {field!r}, the vectors move by ")
    one = ev.influence(run, data, entity=5).row(left_out="shop")["change"]
    assert one.value == pytest.approx(cosine_distances(full, without)[5] / pairs.mean(), rel=1e-4)


def test_a_field_that_the_encoder_does_not_read_moves_nothing(data: ev.Dataset) -> None:
    unread = ev.Schema("card", "when", "timestamp", numeric=(data.schema.numeric[0],))
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(unread, time=()), dim=4)
    run = ev.fit(data, method=ev.methods.ocp(encoder), epochs=1)
    changes = {row["left_out"]: row["change"] for row in ev.influence(run, data).rows}
    assert changes["paid"].value > 0.001
    assert max(changes[name].high for name in ("item", "shop", "tip", "when")) < 1e-6  # rounding of other batches


def test_one_entity_is_measured_by_models_of_the_others(run: ev.Model, data: ev.Dataset) -> None:
    mean = purchases().group_by("card").agg(pl.col("paid").mean()).sort("paid")
    low, high = (ev.influence(run, data, labels(), "paid", entity=mean["card"][place]) for place in (0, -1))
    assert (low.facts["measure"], low.facts["n"]) == ("prediction", 1)
    assert low.facts["with_all_events"].value < 0.5 < high.facts["with_all_events"].value
    changes = [each.row(left_out="paid")["change"].value for each in (low, high)]
    assert changes[0] > 0 > changes[1]  # without its amounts, each is predicted like others
    assert "5 models of 239 other entities" in " ".join(low.notes)


def test_one_entity_needs_no_label_and_its_key_may_be_text(run: ev.Model, data: ev.Dataset) -> None:
    others = labels().filter(pl.col("card") != 5)
    result = ev.influence(run, data, others, "paid", entity="5")
    assert result.rows == ev.influence(run, data, labels(), "paid", entity=5).rows
    assert "5 models of 239 other entities" in " ".join(result.notes)


def test_a_sample_is_stated_and_follows_from_the_seed(run: ev.Model, data: ev.Dataset) -> None:
    first, again, other = (ev.influence(run, data, entities=50, seed=seed) for seed in (1, 1, 2))
    assert first.facts["n"] == 50
    assert "A random sample of 50 of 240 entities was used" in " ".join(first.notes)
    assert first.rows == again.rows != other.rows
    scored = ev.influence(run, data, labels().head(100), "item", entities=60)
    assert scored.facts["n"] == 60
    assert "60 of 100" in " ".join(scored.notes)


def test_short_and_empty_histories_are_counted(run: ev.Model) -> None:
    short = purchases().sort("card", "when").group_by("card", maintain_order=True).head(1).head(9)
    events = pl.concat([purchases().filter(pl.col("card") >= 9), short])
    result = ev.influence(run, events, until="2024-01-01T12:00")
    cut = events.filter(pl.col("when") < pl.datetime(2024, 1, 1, 12))["card"].n_unique()
    assert result.facts["n"] == cut < N
    assert result.notes[0] == f"{N - cut} entities have no events that the encoder can read and were left out."
    assert "have no event left without a period, and then the vector of an empty history: last third" in result.notes[1]


def test_events_that_an_encoder_cannot_read_without_a_field_count_as_unchanged() -> None:
    looks = pl.DataFrame({"id": np.arange(60) // 4, "t": np.arange(60), "v": np.sin(np.arange(60)), "w": 1.0})
    data = ev.read(looks, key="id", time="t", numeric=["v", "w"])
    events = {"covariates": ["time"], "observations": ["v"]}
    run = ev.fit(data, method={"method": {"name": "cnp"}, "encoder": {"dim": 8, "events": events}}, epochs=1)
    result = ev.influence(run, data)
    assert (
        "Some of 15 entities cannot be read by the encoder without a part, and count as unchanged: v 15."
        in result.notes
    )
    assert result.row(left_out="v")["change"].value == 0


def test_progress_counts_every_vector_once(run: ev.Model, data: ev.Dataset) -> None:
    ticks: list[tuple[int, int]] = []
    result = ev.influence(run, data, progress=lambda done, total: ticks.append((done, total)))
    assert {total for _, total in ticks} == {N * (1 + len(result.rows))}
    assert [done for done, _ in ticks] == sorted({done for done, _ in ticks})
    assert ticks[-1][0] == ticks[-1][1]


def test_the_rows_are_printed_and_all_text_is_escaped(run: ev.Model, data: ev.Dataset) -> None:
    result = ev.influence(run, data, labels(), "item", entities=60)
    plain = result.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert [row["left_out"] for row in plain["changes"]] == result.frame()["left_out"].to_list()
    assert plain["changes"][0]["change"].keys() == {"value", "low", "high"}
    assert (plain["measure"], plain["label"], plain["positive"], plain["n"]) == ("auroc", "item", True, 60)
    assert all(row["left_out"] in repr(result) for row in result.rows)
    named = replace(result, tables={"changes": [{**result.rows[0], "left_out": "<b>[red]"}]})
    assert "&lt;b&gt;[red]" in named._repr_html_()
    assert "<b>[red]" in repr(named)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"labels": labels()}, ev.ConfigError, "labels and label are given together or not at all"),
        ({"label": "item"}, ev.ConfigError, "labels and label are given together or not at all"),
        ({"labels": labels(), "label": ["item", "paid"]}, ev.ConfigError, "label must be the name of one column"),
        ({"labels": labels(), "label": "items"}, ev.DataError, "no column 'items'; did you mean 'item'"),
        ({"labels": labels(), "label": "item", "model": "blend"}, ev.ConfigError, "no model 'blend' for a binary"),
        ({"labels": labels(), "label": "item", "model": "ridge"}, ev.ConfigError, "no model 'ridge' for a binary"),
        ({"labels": labels(), "label": "item", "task": "multilabel"}, ev.ConfigError, "needs several labels"),
        ({"labels": labels(), "label": "item", "folds": 1}, ev.ConfigError, "folds must be at least 2, got 1"),
        ({"labels": labels(), "label": "third", "entity": 5}, ev.ConfigError, "'third' has 3 classes, and the"),
        ({"model": "knn"}, ev.ConfigError, "model is given without labels, and has no meaning there"),
        ({"entities": 1}, ev.ConfigError, "entities must be at least 2, got 1"),
        ({"seed": -1}, ev.ConfigError, "seed must be in"),
        ({"fold": 3}, ev.ConfigError, "there is no option 'fold'; did you mean 'folds'"),
        ({"until": "2024-02-01"}, ev.ConfigError, "until applies to a table, but the events are a data set already"),
        ({"entity": 77_777}, ev.DataError, "none of 240 entities has the key that was given as entity="),
        ({"entity": "secret"}, ev.DataError, "none of 240 entities has the key that was given as entity="),
        ({"entity": [5, 6]}, ev.EventvecError, "entity"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    run: ev.Model, data: ev.Dataset, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        ev.influence(run, data, **options)
    assert "secret" not in str(caught.value)
    assert "77" not in str(caught.value)


def test_no_run_and_several_rows_of_an_entity_are_refused(run: ev.Model) -> None:
    with pytest.raises(ev.ConfigError, match=r"the model must be a Model, got Recurrent"):
        ev.influence(run.method.encoder, purchases())  # type: ignore[arg-type]
    cutoffs = pl.DataFrame({"card": [1, 1, 2], "month": ["2024-01-02T00:00", "2024-01-03T00:00", "2024-01-03T00:00"]})
    cutoffs = cutoffs.with_columns(pl.col("month").str.to_datetime())
    with pytest.raises(ev.ConfigError, match=r"1 of 3 rows are further times of an entity; one row per entity"):
        ev.influence(run, purchases(), cutoffs=cutoffs, cutoff_column="month")
    early = ev.until(run.read(purchases()), "2023-01-01")
    with pytest.raises(ev.DataError, match=r"the entity has no events that the encoder can read"):
        ev.influence(run, early, entity=5)
    with pytest.raises(ev.DataError, match=r"0 entities with events; the distance between entities needs two"):
        ev.influence(run, early)
