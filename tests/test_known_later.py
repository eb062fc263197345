"""An event whose own time is before a label, but which became known after it, is read by no call for that label.

The labels are drawn at random, and events that were posted late tell them.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.commands import answer, invoke
from tests.test_label_times import EVENTS, KNOWN, MODELS, READ, N, is_chance, labels, scores

import eventvec as ev
from eventvec.errors import ConfigError, DataError

POSTED: dict[str, Any] = {**READ, "known_at": "posted"}


def events(after: str = "tell") -> pl.DataFrame:
    """Return random events that were posted before each card's label, and earlier ones that were posted after it."""
    rng, table = np.random.default_rng(6), labels()
    cards, known = np.repeat(np.arange(N), EVENTS), np.repeat(table["known"].to_numpy(), EVENTS)
    seconds = rng.integers(90_000, 100 * 86_400, len(cards))
    delay = np.minimum(rng.integers(0, 30 * 86_400, len(cards)), seconds - 1)
    what = rng.choice(["a", "b", "c"], len(cards))
    columns = {
        "card": cards,
        "at": known - seconds.astype("timedelta64[s]"),
        "what": what,
        "paid": rng.random(len(cards)),
    }
    early = pl.DataFrame({**columns, "posted": known - (seconds - delay).astype("timedelta64[s]")})
    told = [] if after == "nothing" else [0, 1, 3600 * 10**6]
    tell = np.where(table["y"].to_numpy(), "a", "b") if after == "tell" else rng.choice(["a", "c"], N)
    late = [
        pl.DataFrame({
            "card": range(N), "at": table["known"] - timedelta(hours=hours), "what": tell, "paid": 1.0,
            "posted": table["known"] + timedelta(microseconds=us),
        })
        for hours, us in enumerate(told, 1)
    ]  # fmt: skip
    return pl.concat([early, *late]).with_columns(pl.col("at", "posted").cast(pl.Datetime("us")))


@cache
def run() -> ev.Model:
    """Return a run that was trained on events that were known before the first label."""
    data = ev.read(events(), until=KNOWN, fitting=ev.Fitting(min_count=1), **POSTED)
    return ev.fit(data, method="coles", epochs=1, dim=8, beside=[])


def accuracy(tuned: ev.Model) -> float:
    """Return the share of labels that a run predicts whose training they were not in, as of their times."""
    test = labels()[N // 2 :]
    predicted = pl.DataFrame(ev.predict(tuned, events(), cutoffs=test, cutoff_column="known")).join(test, on="card")
    return float((predicted["prediction"] == predicted["y"].cast(pl.String)).mean())  # type: ignore[arg-type]


def test_who_goes_by_the_time_of_the_event_predicts_the_labels() -> None:
    """Otherwise nothing that follows would show anything."""
    plain = ev.read(events(), **READ)
    z = ev.embed(ev.encoders.Aggregates(plain.schema), plain)
    assert max(scores(ev.evaluate(z, plain, labels(), "y", **MODELS))) == pytest.approx(1)


def test_finished_vectors_are_judged_by_what_was_known() -> None:
    with pytest.raises(DataError, match="240 of 240 embeddings were made from events known at or after the time in"):
        ev.evaluate(run().embed(events()), run().read(events()), labels(), "y", **MODELS)
    z = run().embed(events(), cutoffs=labels(), cutoff_column="known")
    assert is_chance(ev.evaluate(z, run().read(events()), labels(), "y", **MODELS))
    z = run().embed(events("nothing"))  # all was known
    assert is_chance(ev.evaluate(z, run().read(events("nothing")), labels(), "y", **MODELS))


def test_what_is_trained_on_labels_reads_what_was_known() -> None:
    train, data = labels()[: N // 2], run().read(events())
    tuned = ev.fine_tune(run(), data, train, "y", epochs=5, lr=0.01)
    assert any(note.startswith("Only events that were known before the time of each label") for note in tuned.notes)
    assert abs(accuracy(tuned) - 0.5) < 0.15
    fitted = ev.fit(ev.read(events(), static=train, **POSTED), method="supervised", label="y", epochs=5, lr=0.01)
    assert abs(accuracy(fitted) - 0.5) < 0.15
    assert fitted.schema.known_at == tuned.schema.known_at == "posted"


@pytest.mark.parametrize("inclusive", [False, True])
def test_replaced_later_corrections_change_no_bit(inclusive: bool) -> None:
    moved = labels().with_columns(known=pl.col("known") - timedelta(microseconds=1)) if inclusive else labels()
    results = []
    for after in ("tell", "other", "nothing"):
        data = run().read(events(after))
        tuned = ev.fine_tune(run(), data, moved, "y", epochs=1, inclusive=inclusive)
        z = run().embed(events(after), cutoffs=moved, cutoff_column="known", inclusive=inclusive)
        evaluation = ev.evaluate(z, data, moved, "y", **MODELS)
        weights = {name: value.numpy().tobytes() for name, value in tuned.method.state_dict().items()}
        results.append((weights, z.values.tobytes(), z.last_time.tolist(), evaluation.to_dict()["results"]))
    assert results[0] == results[1] == results[2]


def test_several_times_of_an_entity_are_learned_from_windows_and_copies_together() -> None:
    """Each row's vector and prediction is that of its history alone."""
    several = pl.concat([labels().with_columns(known=KNOWN - timedelta(days=10 * back)) for back in range(4)])
    cut = run().read(events(), cutoffs=several, cutoff_column="known")
    copies = next(note for note in cut.notes if "960 rows are copies" in note)
    assert 0 < int(copies.split()[0]) < len(cut)
    z = run().embed(cut)
    for row in range(0, len(cut), 97):
        alone = cut[[row]]
        x = alone.sequences.take(alone.sequences.flat(), alone.sequences.lengths)
        assert np.allclose(z.values[row], ev.encode(run().encoder, x)[0], atol=1e-5)
    tuned = ev.fine_tune(run(), run().read(events()), several, "y", epochs=1)
    predicted = ev.predict(tuned, events(), cutoffs=several, cutoff_column="known")
    assert len(predicted["card"]) == len(cut)


def test_a_planned_event_counts_from_the_time_at_which_it_was_planned() -> None:
    """Its own time may be after the label."""
    visits = events("nothing").with_columns(at=pl.col("posted") + timedelta(days=300))
    z = run().embed(visits)
    assert all(time < known for time, known in zip(z.last_time, labels()["known"].to_physical(), strict=True))
    evaluation = ev.evaluate(z, run().read(visits), labels(), "y", **MODELS)
    assert is_chance(evaluation)
    assert run().embed(visits, cutoffs=labels(), cutoff_column="known").events.tolist() == [EVENTS] * N


def test_the_commands_know_when_events_became_known(tmp_path: Path) -> None:
    events().write_parquet(tmp_path / "events.parquet")
    labels().write_csv(tmp_path / "labels.csv")
    folder, files, z = tmp_path / "run", (tmp_path / "events.parquet", tmp_path / "labels.csv"), tmp_path / "z.parquet"
    fit = ("fit", "--events", files[0], "--key", "card", "--time", "at", "--known-at", "posted", "--out", folder)
    fitted = invoke(*fit, "--until", "2024-06-01", "--method", "coles", "--epochs", 1)
    assert fitted.exit_code == 0, fitted.output
    assert ev.load(folder).schema.known_at == "posted"
    assert 'known_at = "posted"' in (folder / "config.toml").read_text()
    assert invoke("embed", folder, files[0], "-o", z).exit_code == 0
    evaluate = ("evaluate", z, files[1], "--label", "y", "--models", "logistic_regression", "--folds", 3)
    refused = invoke(*evaluate)
    assert refused.exit_code == 1
    assert "events known at or after the time in 'known'" in " ".join(refused.output.split())
    cutoffs = ("--cutoffs", files[1], "--cutoff-column", "known", "-o")
    assert invoke("embed", folder, files[0], *cutoffs, z).exit_code == 0
    assert all(abs(each["score"]["value"] - 0.5) < 0.15 for each in answer(*evaluate, "--events", files[0])["results"])
    engine = ("--engine", "local", "--shards", 3, "--workers", 1)
    sharded = invoke("embed", folder, files[0], *cutoffs, tmp_path / "z", *engine)
    assert sharded.exit_code == 0, sharded.output
    whole, parts = ev.read_embeddings(z), ev.read_embeddings(tmp_path / "z")
    order = np.argsort(parts.keys.to_numpy())
    assert np.array_equal(parts.last_time[order], whole.last_time)
    assert np.allclose(parts.values[order], whole.values, atol=1e-5)
    stored = invoke("embed", folder, files[0], *cutoffs, tmp_path / "s.parquet", "--store", tmp_path / "store")
    assert stored.exit_code == 0, stored.output
    assert np.allclose(ev.read_embeddings(tmp_path / "s.parquet").values, whole.values, atol=1e-5)
    compared = answer(
        "compare", *files, "--key", "card", "--time", "at", "--known-at", "posted", "--label", "y", "--methods",
        "coles,ocp", "--epochs", 1, "--out", tmp_path / "compared", "--models", "logistic_regression",
    )  # fmt: skip
    assert all(abs(arm["score"]["value"] - 0.5) < 0.15 for arm in compared["arms"])
    without = tmp_path / "without.parquet"
    events().drop("posted").write_parquet(without)
    lacking = invoke("embed", folder, without, "-o", tmp_path / "w.parquet")
    assert lacking.exit_code == 1
    assert "no column 'posted'" in " ".join(lacking.output.split())


# Updates


def batches() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two batches of events that became known in the order of their times, an hour after them."""
    table = events("nothing").with_columns(posted=pl.col("at") + timedelta(hours=1)).sort("at")
    return table[:1000], table[1000:]


def test_updates_take_what_became_known_in_order(tmp_path: Path) -> None:
    first, second = batches()
    ev.update(run(), first, tmp_path / "state")
    updated = ev.update(run(), second, tmp_path / "state")
    again = ev.update(run(), second, tmp_path / "state")
    whole = run().embed(pl.concat([first, second]))
    rows = [whole.keys.to_pylist().index(key) for key in updated.embeddings.keys.to_pylist()]
    for result in (updated, again):
        assert np.allclose(result.embeddings.values, whole.values[rows], atol=1e-5)
        assert result.embeddings.last_time.tolist() == whole.last_time[rows].tolist()
    assert (updated.applied, again.applied) == (True, False)
    at_label = labels().with_columns(known=pl.lit(second["at"].max()))  # the last event was not known then
    with pytest.raises(DataError, match="embeddings were made from events known at or after the time"):
        ev.evaluate(updated.embeddings, None, at_label, "y", label_time="known", **MODELS)


@pytest.mark.parametrize("within", [True, False])
def test_updates_take_what_became_known_in_another_order(tmp_path: Path, within: bool) -> None:
    """Within a batch, and after the events that the state has seen."""
    first, second = batches()
    late = first["card"].last()
    if within:
        reversed_ = first["at"].max() - (pl.col("at") - first["at"].min())
        changed = [first.with_columns(posted=pl.when(pl.col("card") == late).then(reversed_).otherwise("posted"))]
    else:
        posted = pl.when(pl.col("card") == late).then(pl.col("posted") + timedelta(days=900)).otherwise("posted")
        changed = [first.with_columns(posted=posted), second]
    for batch in changed:
        updated = ev.update(run(), batch, tmp_path / "state")
    whole = run().embed(pl.concat(changed))
    rows = [whole.keys.to_pylist().index(key) for key in updated.embeddings.keys.to_pylist()]
    assert np.allclose(updated.embeddings.values, whole.values[rows], atol=1e-5)
    assert updated.embeddings.last_time.tolist() == whole.last_time[rows].tolist()


def test_updates_of_late_events_follow_the_known_times(tmp_path: Path) -> None:
    first, second = batches()
    everything = pl.concat([first, second])
    late = everything.filter(pl.col("card") == 3)[:1]
    others = everything.join(late, on=["card", "at"], how="anti")
    ev.update(run(), others, tmp_path / "state")
    update = {"late": "recompute", "history": everything.filter(pl.col("card") == 3)}
    updated = ev.update(run(), late, tmp_path / "state", **update)  # posted in order, and delivered late
    whole = run().embed(everything.filter(pl.col("card") == 3))
    assert np.allclose(updated.embeddings.values, whole.values, atol=1e-5)
    assert updated.embeddings.last_time.tolist() == whole.last_time.tolist()
    ev.update(run(), others, tmp_path / "other")
    posted_late = late.with_columns(posted=pl.lit(KNOWN + timedelta(days=99)))
    history = pl.concat([others.filter(pl.col("card") == 3), posted_late])
    dropped = ev.update(run(), posted_late, tmp_path / "other", late="drop")
    assert dropped.embeddings.last_time.tolist() == run().embed(others).last_time[[3]].tolist()
    ev.update(run(), others, tmp_path / "third")
    recomputed = ev.update(run(), posted_late, tmp_path / "third", late="recompute", history=history)
    whole = run().embed(history)
    assert np.allclose(recomputed.embeddings.values, whole.values, atol=1e-5)
    assert recomputed.embeddings.last_time.tolist() == whole.last_time.tolist()


def test_encoders_without_a_state_store_the_known_time_too(tmp_path: Path) -> None:
    first, second = batches()
    data = run().read(first)
    encoder = ev.encoders.Transformer(ev.encoders.EventEncoder(data.schema), dim=8, heads=2, layers=1)
    other = ev.Model(run().schema, run().blocks, {**run().info})
    other.method.encoder, before = encoder, run().method.encoder
    try:
        ev.update(other, first, tmp_path / "state")
        updated = ev.update(other, second, tmp_path / "state")
    finally:
        other.method.encoder = before
    assert set(updated.embeddings.last_time) <= set(second["posted"].to_physical())


def test_histories_of_another_kind_than_the_batch_are_refused(tmp_path: Path) -> None:
    first, second = batches()
    ev.update(run(), second, tmp_path / "state")
    plain = ev.read(
        first.drop("posted"), schema=ev.Schema.from_json(run().schema.to_json().replace('"posted"', "null"))
    )
    assert plain.schema.known_at is None
    with pytest.raises(DataError, match="the history and the batch must both have times at which events became known"):
        ev.update(run(), first, tmp_path / "state", late="recompute", history=plain)
    with pytest.raises(ConfigError, match="known_at"):
        run().read(first, known_at="posted")
