"""Features as a table with named columns: what they are, as of when, and that every way gives the same."""

from __future__ import annotations

import itertools
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from fits import ABSENT, change

ROLES: dict[str, Any] = {
    "key": "card", "time": "day", "categorical": ["shop"], "numeric": ["paid"],
    "fitting": ev.Fitting(min_count=1, log=False),
}  # fmt: skip
ALL = ("handcrafted", "codes", "convolutions")
CONTINUED = ("aggregates", "codes")


def table(n: int = 40, events: int = 1200, seed: int = 0) -> pl.DataFrame:
    """Return events in random order, some of which have the time of another one of their entity."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "card": rng.integers(0, n, events),
            "day": rng.integers(0, 400, events) * 0.25,
            "shop": rng.choice(["tea", "oil", "rye", "fig"], events),
            "paid": np.where(rng.random(events) < 0.1, np.nan, rng.normal(0, 20, events)),
        }
    )


def cutoffs(n: int = 40) -> pl.DataFrame:
    """Return two times of each entity."""
    rng = np.random.default_rng(1)
    return pl.DataFrame({"card": [*range(n), *range(n)], "asked": 30 + rng.integers(0, 200, 2 * n) * 0.25})


def log(value: float) -> float:
    return math.copysign(math.log1p(abs(value)), value)


def slow(events: pl.DataFrame, card: int, moment: float, inclusive: bool = False) -> dict[str, float]:
    """Return some features of an entity, by a loop over its events."""
    before = [row for row in events.rows() if row[0] == card and (row[1] < moment or (inclusive and row[1] == moment))]
    before.sort(key=lambda row: row[1])
    days = [row[1] for row in before]
    tea = [row[3] for row in before if row[2] == "tea" and not math.isnan(row[3])]
    return {
        "time: events": log(len(days)),
        "time: span": log(days[-1] - days[0]),
        "time: recency": log(moment - days[-1]),
        "time: tenure": log(moment - days[0]),
        "gap: max": log(max(after - day for day, after in itertools.pairwise(days))),
        "shop=tea: share": sum(row[2] == "tea" for row in before) / len(days),
        "paid where shop=tea: mean": statistics.fmean(tea) if tea else 0.0,
    }


def test_features_are_those_of_a_slow_loop() -> None:
    events, asked = table(), cutoffs()
    for inclusive in (False, True):
        frame = ev.features(events, cutoffs=asked, cutoff_column="asked", inclusive=inclusive, **ROLES).frame()
        assert frame.columns[:3] == ["card", "asked", "time: events"]
        assert sorted(frame.select("card", "asked").rows()) == sorted(asked.rows())
        for row in frame.iter_rows(named=True):
            for name, value in slow(events, row["card"], row["asked"], inclusive).items():
                assert row[name] == pytest.approx(value, rel=1e-5, abs=1e-5), name


def test_without_a_cut_the_moment_is_the_last_event_and_a_note_says_so() -> None:
    events = table()
    last = float(events["day"].max())  # type: ignore[arg-type]
    z = ev.features(events, **ROLES)
    for row in z.frame().iter_rows(named=True):
        for name, value in slow(events, row["card"], last, inclusive=True).items():
            assert row[name] == pytest.approx(value, rel=1e-5, abs=1e-5), name
    assert any(f"are as of {last}, the time of the last event" in note for note in z.metadata["notes"])
    for other in (ev.features(events, until=50, **ROLES), ev.features(events, parts=["aggregates"], **ROLES)):
        assert not any("as of" in note for note in other.metadata["notes"])


def test_names_are_unique_stable_and_those_of_the_columns(tmp_path: Path) -> None:
    events = table()
    z = ev.features(events, parts=["convolutions", "codes", "handcrafted"], save=tmp_path / "run", **ROLES)
    again = ev.features(events.sample(fraction=1, shuffle=True, seed=3), parts=["codes", "handcrafted"], **ROLES)
    assert z.names[: again.shape[1]] == again.names
    assert len(set(z.names)) == z.shape[1]
    assert {"paid: mean", "paid where shop=tea: mean", "shop=tea: count", "codes_0", "convolutions_95"} <= set(z.names)
    assert z.frame().columns == ["card", *z.names, "events", "last_time"]
    assert list(z.parts) == list(ALL)
    assert ev.update(ev.load(tmp_path / "run"), events, tmp_path / "state.db").embeddings.names == z.names


def test_events_after_the_cutoff_change_no_bit() -> None:
    events, last = table(), cutoffs().group_by("card").max()
    options = {"parts": ("handcrafted", "codes"), "cutoffs": last, "cutoff_column": "asked", **ROLES}
    before = ev.features(events, **options)
    after = pl.col("day") >= pl.col("asked")
    changed = events.join(last, on="card").with_columns(
        paid=pl.when(after).then(pl.col("paid") * 3 + 100).otherwise("paid"),
        shop=pl.when(after).then(pl.lit("new")).otherwise("shop"),
        day=pl.when(after).then(pl.col("day") + 1).otherwise("day"),
    )
    assert not changed.drop("asked").equals(events.select("card", "day", "shop", "paid"))
    result = ev.features(changed.drop("asked"), **options)
    assert result.names == before.names
    assert np.array_equal(result.values, before.values)


def test_memory_a_store_and_a_loaded_run_give_equal_bits(tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "events.parquet")
    cut = {"cutoffs": cutoffs(), "cutoff_column": "asked"}
    for parts in (("handcrafted", "codes"), ("timing",)):
        run, stored = tmp_path / f"run-{len(parts)}-{parts[0]}", {"store": tmp_path / "store", **cut, **ROLES}
        z = ev.features(tmp_path / "events.parquet", parts=parts, save=run, **cut, **ROLES)
        for other in (
            ev.features(tmp_path / "events.parquet", parts=parts, **stored),
            ev.features(tmp_path / "events.parquet", model=run, **cut),
            ev.features(tmp_path / "events.parquet", model=ev.load(run), store=tmp_path / "coded", **cut),
            ev.load(run).embed(tmp_path / "events.parquet", **cut),
            ev.embed(ev.load(run).encoder, ev.load(run).read(tmp_path / "events.parquet", **cut)),
        ):
            assert (other.names, other.keys, other.moments.tolist()) == (z.names, z.keys, z.moments.tolist())  # type: ignore[union-attr]
            assert np.array_equal(other.values, z.values)


def test_shards_are_the_table_of_one_process(tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "events.parquet")
    cutoffs().write_parquet(tmp_path / "cutoffs.parquet")
    cut = {"cutoffs": str(tmp_path / "cutoffs.parquet"), "cutoff_column": "asked"}
    z = ev.features(tmp_path / "events.parquet", save=tmp_path / "run", **cut, **ROLES)
    arguments = tmp_path / "run", tmp_path / "events.parquet"
    ev.embed_shards(*arguments, tmp_path / "shards", shards=3, workers=1, **cut)
    frame = ev.read_embeddings(tmp_path / "shards").frame().sort("card", "asked")
    assert frame.columns == z.frame().columns
    assert frame.equals(z.frame().sort("card", "asked"))
    with pytest.raises(ev.ConfigError, match=r"shards have no last event in common; name it: until= or cutoffs="):
        ev.embed_shards(*arguments, tmp_path / "others", shards=3, workers=1)


def test_an_update_continues_all_features_exactly(tmp_path: Path) -> None:
    events = table()
    early = events.filter(pl.col("day") < 60)
    ev.features(early, parts=CONTINUED, save=tmp_path / "run", **ROLES)
    run = ev.load(tmp_path / "run")
    ev.update(run, early, tmp_path / "state.db")
    updated = ev.update(run, events.filter(pl.col("day") >= 60), tmp_path / "state.db").embeddings
    fresh = ev.features(events, model=run)
    assert updated.frame().columns == fresh.frame().columns
    rows = {key: place for place, key in enumerate(fresh.keys.to_pylist())}
    expected = fresh.values[[rows[key] for key in updated.keys.to_pylist()]]
    assert np.allclose(updated.values, expected, rtol=1e-6, atol=1e-6)
    ev.features(early, save=tmp_path / "all", **ROLES)
    model = ev.load(tmp_path / "all")
    ev.update(model, early, tmp_path / "other.db")
    updated = ev.update(model, events.filter(pl.col("day") >= 60), tmp_path / "other.db").embeddings
    for row, key in enumerate(updated.keys.to_pylist()):  # each as of its own last event
        alone = ev.features(events.filter(pl.col("card") == key), model=model)
        np.testing.assert_allclose(updated.values[row], alone.values[0], rtol=1e-6, atol=1e-6)


def test_tables_are_written_and_read_with_their_names(tmp_path: Path) -> None:
    z = ev.features(table(), parts=["handcrafted", "codes"], cutoffs=cutoffs(), cutoff_column="asked", **ROLES)
    for place in (tmp_path / "z.parquet", f"duckdb://{tmp_path}/z.db#features"):
        ev.write(place, z)
        again = ev.read_embeddings(place)
        assert (again.names, again.parts) == (z.names, z.parts)
        assert again.frame().sort("card", "asked").equals(z.frame().sort("card", "asked"))


def test_features_are_scored_as_an_embedding_is_or_beside_one(tmp_path: Path) -> None:
    events = table().with_columns(day=pl.datetime(2024, 1, 1) + pl.duration(hours=pl.col("day") * 24))
    labels = events.group_by("card").agg(likes=pl.col("shop").eq("tea").mean() > 0.25)
    z = ev.features(events, parts=["aggregates"], **ROLES)
    ev.write(tmp_path / "z.parquet", z)
    beside = {"mine": tmp_path / "z.parquet"}
    options: dict[str, Any] = {"models": ["logistic_regression"], "folds": 2, "label_time": None}
    result = ev.evaluate(z, events, labels, "likes", features=beside, **options)
    assert {row["features"] for row in result.to_dict()["results"]} >= {"embedding", "handcrafted", "mine"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"parts": ["handcraftd"]}, "there is no part 'handcraftd'; did you mean 'handcrafted'"),
        ({"parts": []}, "parts must name at least one of handcrafted"),
        ({"parts": "codes"}, "parts must be a list of names, got 'codes'"),
        ({"parts": ["timing", "handcrafted"]}, "handcrafted has the features of timing already; leave timing out"),
        ({"parts": ["aggregates", "timing"]}, "aggregates has the features of timing already"),
        ({"cutoffs": cutoffs()}, "cutoffs is given without cutoff_column"),
        (
            {"cutoffs": cutoffs().rename({"asked": "time: span"}), "cutoff_column": "time: span"},
            "is called like a feat",
        ),
        ({"speed": 3}, "there is no option 'speed'"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ev.ConfigError, match=sentence):
        ev.features(table(), **ROLES, **options)


def test_further_refusals(tmp_path: Path) -> None:
    events = table()
    with pytest.raises(ev.DataError, match=r"column 'asked' has 1 missing value .*; every row needs a time"):
        ev.features(
            events, cutoffs=pl.DataFrame({"card": [1, 2], "asked": [3.0, None]}), cutoff_column="asked", **ROLES
        )
    renamed, roles = events.rename({"card": "codes_0"}), {**ROLES, "key": "codes_0"}
    with pytest.raises(ev.ConfigError, match=r"^the column 'codes_0' is called like a feature; .*key_as="):
        ev.features(renamed, parts=["codes"], **roles)
    assert ev.features(renamed, parts=["codes"], key_as="card", **roles).frame().columns[:2] == ["card", "codes_0"]
    twice = events.rename({"shop": "a"}).with_columns(pl.col("a").replace("tea", "b=tea"), pl.col("a").alias("a=b"))
    with pytest.raises(ev.ConfigError, match="two features are called 'a=b=tea: count'; rename one of the columns"):
        ev.features(twice, **{**ROLES, "categorical": ["a", "a=b"]})
    ev.features(events, save=tmp_path / "run", **ROLES)
    with pytest.raises(ev.CheckpointError, match=r"run holds a model already; choose a new folder$"):
        ev.features(events, save=tmp_path / "run", **ROLES)
    with pytest.raises(ev.ConfigError, match=r"has no block 'codes' of events; accepted: handcrafted$"):
        ev.features(events, model=tmp_path / "run", parts=["codes"])
    for options in ({"key": "card"}, {"save": tmp_path / "new"}):
        with pytest.raises(ev.ConfigError, match=f"^{next(iter(options))}= .* is given together with model="):
            ev.features(events, model=tmp_path / "run", **options)  # type: ignore[arg-type]
    data = ev.read(events, **ROLES)
    with pytest.raises(ev.ConfigError, match="until applies to a table, but the events are a data set already"):
        ev.features(data, until=3)
    learned = ev.fit(data, method="ocp", epochs=1)
    np.testing.assert_array_equal(ev.features(events, model=learned).values, learned.embed(events).values)


def test_a_run_of_features_is_checked_when_it_is_loaded(tmp_path: Path) -> None:
    ev.features(table(), save=tmp_path / "run", **ROLES)
    run = ev.load(tmp_path / "run")
    with pytest.raises(ev.ConfigError, match="has no block learned, a trained encoder; its blocks are handcrafted"):
        ev.fine_tune(run, table(), cutoffs().unique("card"), "asked")
    with pytest.raises(ev.ConfigError, match="has no block learned, a trained encoder; its blocks are handcrafted"):
        assert run.method is None
    assert (run.steps, run.seconds, run.stopped, run.usable) == (0, 0.0, "no training", 40)
    assert ev.card(run) == ev.card(tmp_path / "run")
    written = (tmp_path / "run/model.json").read_text()
    for place, value, sentence in (
        ("dim", ABSENT, "model.json is damaged: blocks.handcrafted: .*it lacks dim"),
        ("kind", "other", "model.json is damaged: block 'handcrafted': accepted: aggregates, codes"),
        ("sizes", {"values": 1, "within": 0}, "features, and schema.json gives"),
        ("sizes", {"depth": 1}, "is damaged: .*depth"),
        ("sizes", {"values": -1}, "model.json is damaged: blocks"),
    ):
        (tmp_path / "run/model.json").write_text(written)
        change(tmp_path / "run/model.json", f"blocks.handcrafted.{place}", value)
        with pytest.raises(ev.CheckpointError, match=sentence):
            ev.load(tmp_path / "run")
