"""`evaluate`: against a plain loop, on held-out entities from Python alone, and refused where events would leak."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import eventvec as ev
from eventvec.blocks.handcrafted_sets import handcrafted_features
from eventvec.encoders.aggregates import aggregate_features
from eventvec.errors import ConfigError, DataError
from eventvec.evaluation.baselines import baselines
from eventvec.tables import holdout_mask
from eventvec.tables.label_times import untimed

N, DAYS = 90, 12
MODELS = {"models": ["logistic_regression"], "folds": 3}


def tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the events of 90 cards in random order, and their labels; half of the cards buy mostly tea."""
    rng = np.random.default_rng(0)
    tea = np.arange(N) % 2 == 0
    bought = np.where(rng.random((N, DAYS)) < np.where(tea, 0.7, 0.3)[:, None], "tea", "coffee")
    events = pl.DataFrame(
        {
            "card": np.repeat(np.arange(N), DAYS),
            "day": np.tile(np.arange(DAYS), N),
            "bought": bought.reshape(-1),
            "paid": rng.exponential(size=N * DAYS),
        }
    ).sample(fraction=1, shuffle=True, seed=1)
    labels = pl.DataFrame(
        {"card": np.arange(N), "likes": tea, "home": np.arange(N) // 6, "decided": 5 + np.arange(N) % 4}
    )
    return events, labels


EVENTS, LABELS = tables()


def read(**options: Any) -> ev.Dataset:
    return ev.read(EVENTS, key="card", time="day", **options)


def untrained(data: ev.Dataset) -> ev.Embeddings:
    return ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4), data)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> ev.Model:
    """Return a run that never saw a quarter of the cards."""
    out = tmp_path_factory.mktemp("run") / "run"
    return ev.fit(read(holdout=0.25, holdout_seed=3), method={"encoder": {"dim": 6}}, epochs=2, out=out)


def test_an_evaluation_equals_scores_of_features_that_are_joined_by_a_loop() -> None:
    data = read()
    z = untrained(data)
    table = LABELS.filter(pl.col("card") % 7 != 0).sample(fraction=1, shuffle=True, seed=2)
    options = {"group": "home", "also": ["aggregates"], **MODELS}
    evaluation = ev.evaluate(z, data, table, "likes", **options)
    label, home = dict(table.select("card", "likes").rows()), dict(table.select("card", "home").rows())
    rows = [row for row, key in enumerate(z.keys.to_pylist()) if key in label]
    keys = [z.keys[row].as_py() for row in rows]
    last = int(data.sequences.values("time").max())  # of all events: the moment of prediction
    handcrafted, _ = handcrafted_features(data[rows], np.full(len(rows), last))
    features = {"embedding": z.values[rows], "aggregates": aggregate_features(data[rows])[0]}
    features |= {"handcrafted": handcrafted, **baselines(data[rows])}
    del features["event_count"]
    expected = ev.score_features(
        features, [label[key] for key in keys], groups=[home[key] for key in keys], learned_from=None, **MODELS
    )
    assert len(rows) == evaluation.facts["n"] == 77
    for result, other in zip(evaluation.basis.results, expected.basis.results, strict=True):
        assert (result.features, result.model) == (other.features, other.model)
        assert result.main.values == pytest.approx(other.main.values, abs=1e-6)
    assert evaluation.notes == (
        "77 embeddings have a label.",
        "13 of 90 embeddings have no label, or several that disagree, and were left out.",
        untimed(None),
        *expected.notes,
    )  # fmt: skip
    shuffled = np.random.default_rng(0).permutation(N)
    again = ev.evaluate(z, data[shuffled], table, "likes", **options)
    assert again.basis.results == evaluation.basis.results


def test_a_part_of_the_embeddings_is_evaluated() -> None:
    data = read()
    z = untrained(data)
    part = ev.evaluate(z[10:70], data, LABELS, "likes", **MODELS)
    assert part.facts["n"] == 60
    assert "30 labels have no embedding and were left out." in part.notes
    without = ev.evaluate(z, None, LABELS.rename({"card": "id"}), "likes", key="id", **MODELS)
    assert {result.features for result in without.basis.results} == {"embedding"}


def test_without_training_nothing_is_claimed_about_labels_and_holdouts() -> None:
    data = read()
    z = untrained(data)
    notes = ev.evaluate(z, data, LABELS, "likes", **MODELS).notes
    assert any("whether it was trained on labels is not known" in note for note in notes)
    with pytest.raises(ConfigError, match="the run held no entities out; train with a share held out"):
        ev.evaluate(z, data, LABELS, "likes", holdout=True)


# Honest evaluations on held-out entities


def written(folder: Path, z: ev.Embeddings) -> ev.Embeddings:
    ev.write(folder / "z.parquet", z)
    return ev.read_embeddings(folder / "z.parquet")


def assert_tested_on_held_out(evaluation: ev.Answer, z: ev.Embeddings) -> None:
    """Check that the evaluation equals that of the entities which the hash of `holdout_mask` holds out."""
    held_out = holdout_mask(z.keys, 0.25, 3)
    assert 10 < held_out.sum() < 40
    assert (z.held_out == held_out).all()
    assert evaluation.facts["protocol"] == "holdout"
    note = (
        f"Tested on {held_out.sum()} labels of entities that the encoder never saw; each score is over all of them, "
        "from a model"
    )
    assert any(n.startswith(note) for n in evaluation.notes)
    labels = LABELS["likes"].to_numpy()[z.keys.to_numpy()]
    expected = ev.score_features({"embedding": z.values}, labels, holdout=held_out, **MODELS)
    assert evaluation.basis.get("embedding", "logistic_regression") == expected.basis.results[0]


def test_held_out_entities_are_evaluated_from_python(fitted: ev.Model, tmp_path: Path) -> None:
    data = fitted.read(EVENTS)
    assert (len(data), fitted.info["entities"]) == (N, N - holdout_mask(data.keys, 0.25, 3).sum())
    loaded = ev.load(fitted.path or "")
    embeddings = [
        fitted.embed(EVENTS), ev.embed(fitted.encoder, data), ev.embed(loaded.encoder, data), loaded.embed(data),
        written(tmp_path, fitted.embed(EVENTS)),
    ]  # fmt: skip
    first = ev.evaluate(embeddings[0], data, LABELS, "likes", holdout=True, **MODELS)
    assert_tested_on_held_out(first, embeddings[0])
    for z in embeddings[1:]:
        assert ev.evaluate(z, data, LABELS, "likes", holdout=True, **MODELS).to_dict() == first.to_dict()


def test_held_out_entities_are_evaluated_after_fine_tuning(fitted: ev.Model, tmp_path: Path) -> None:
    data = fitted.read(EVENTS)
    in_memory = ev.fine_tune(fitted, data, LABELS, "likes", epochs=2)
    in_folder = ev.fine_tune(fitted, data, LABELS, "likes", epochs=2, out=tmp_path / "tuned")
    twice = ev.fine_tune(in_memory, data, LABELS.rename({"likes": "drinks"}), "drinks", epochs=1)
    for run in (in_memory, ev.load(tmp_path / "tuned"), twice):
        assert run.info["entities"] == N - holdout_mask(data.keys, 0.25, 3).sum()
        z = run.embed(EVENTS)
        for embeddings in (z, written(tmp_path, z), ev.embed(run.encoder, data)):
            evaluation = ev.evaluate(embeddings, data, LABELS, "likes", holdout=True, **MODELS)
            assert_tested_on_held_out(evaluation, embeddings)
    notes = ev.evaluate(in_folder.embed(EVENTS), data, LABELS, "likes", **MODELS).notes
    assert any("was trained on the static column 'likes' too; only a hold-out" in note for note in notes)
    notes = ev.evaluate(twice.embed(EVENTS), data, LABELS, "likes", **MODELS).notes
    assert any("was trained on the static columns 'likes', 'drinks' too" in note for note in notes)


def test_an_encoder_that_is_trained_further_on_all_entities_is_not_tested_on_held_out_ones(fitted: ev.Model) -> None:
    data = ev.attach(fitted.read(EVENTS), LABELS.select("card", "likes"))
    config = {"method": {"name": "supervised", "label": "likes"}, "encoder": {"from": str(fitted.path)}}
    further = ev.fit(data, method=config, epochs=1)
    with pytest.raises(
        ConfigError, match=r"2 runs that did not hold the same entities out \(0.25 by seed 3, then none\)"
    ):
        ev.evaluate(further.embed(EVENTS), data, LABELS, "likes", holdout=True, **MODELS)


def test_updated_embeddings_are_evaluated_on_held_out_entities(fitted: ev.Model, tmp_path: Path) -> None:
    ev.update(fitted, EVENTS.filter(pl.col("day") < 7), tmp_path / "state.db")
    updated = ev.update(fitted, EVENTS.filter(pl.col("day") >= 7), tmp_path / "state.db")
    z, data = updated.embeddings, fitted.read(EVENTS)
    evaluation = ev.evaluate(z, data, LABELS, "likes", holdout=True, **MODELS)
    assert_tested_on_held_out(evaluation, z)


# Times


def test_only_events_before_a_time_are_used(fitted: ev.Model, tmp_path: Path) -> None:
    data = fitted.read(EVENTS)
    early = ev.until(data, 6)
    ways: list[tuple[ev.Dataset, dict[str, Any]]] = [
        (data, {}),
        (early, {"until": 6}),
        (data, {"until": 6}),
        (early, {}),
    ]
    expected, labels = aggregate_features(early)[0], LABELS["likes"].to_numpy()
    scores = ev.score_features({"aggregates": expected}, labels, **MODELS).basis.results[0].main.values
    for z, some in (
        (ev.embed(fitted.encoder, early), ways), (fitted.embed(EVENTS, until=6), ways[:2]),
        (written(tmp_path, fitted.embed(early)), ways[:2]),
    ):  # fmt: skip
        assert z.metadata["until"] == 6
        evaluations = [
            ev.evaluate(z, events, LABELS, "likes", also=["aggregates"], **{**MODELS, **options})
            for events, options in some
        ]
        assert all(evaluation.to_dict() == evaluations[0].to_dict() for evaluation in evaluations)
        assert evaluations[0].basis.get("aggregates", "logistic_regression").main.values == pytest.approx(
            scores, abs=1e-6
        )
    with pytest.raises(
        DataError, match=r"90 of 90 embeddings were made from events at or after 6, .*; embed the events before it"
    ):
        ev.evaluate(fitted.embed(EVENTS), data, LABELS, "likes", until=6)
    with pytest.raises(DataError, match="90 of 90 entities have another number of events in the data"):
        ev.evaluate(fitted.embed(EVENTS), early, LABELS, "likes")


def test_only_events_before_each_label_are_used(fitted: ev.Model) -> None:
    data = fitted.read(EVENTS)
    z = fitted.embed(EVENTS, cutoffs=LABELS, cutoff_column="decided")
    options = {"also": ["aggregates"], **MODELS}
    evaluation = ev.evaluate(z, data, LABELS, "likes", label_time="decided", **options)
    each = fitted.read(EVENTS, cutoffs=LABELS, cutoff_column="decided")
    assert set(each.sequences.lengths.tolist()) == {5, 6, 7, 8}
    labels = LABELS["likes"].to_numpy()
    scores = (
        ev.score_features({"aggregates": aggregate_features(each)[0]}, labels, **MODELS).basis.results[0].main.values
    )
    assert evaluation.basis.get("aggregates", "logistic_regression").main.values == pytest.approx(scores, abs=1e-6)
    with pytest.raises(DataError, match="90 of 90 embeddings were made from events at or after the time in 'decided'"):
        ev.evaluate(fitted.embed(EVENTS), data, LABELS, "likes", label_time="decided")
    assert ev.evaluate(z, data, LABELS, "likes", **options) == evaluation  # the embeddings know their times


# Refusals


def test_other_data_are_refused_or_noted(fitted: ev.Model) -> None:
    z, part = fitted.embed(EVENTS), EVENTS.filter(pl.col("card") < 40)
    with pytest.raises(DataError, match="50 of 90 embedded entities have no events in the data"):
        ev.evaluate(z, fitted.read(part), LABELS, "likes")
    with pytest.raises(DataError, match="by another schema than the embedded events; the two differ in categorical"):
        ev.evaluate(z, read(numeric=["paid"]), LABELS, "likes")
    changed = EVENTS.with_columns(paid=pl.col("paid") + 1)
    notes = ev.evaluate(z, fitted.read(changed), LABELS, "likes", **MODELS).notes
    assert notes[-1] == "The hand-crafted features are of other events than the embedding, or of more entities."
    assert notes[-1] not in ev.evaluate(z, fitted.read(EVENTS), LABELS, "likes", **MODELS).notes


@pytest.mark.parametrize(
    ("label", "options", "error", "message"),
    [
        ("liked", {}, DataError, "the label table has no column 'liked'; did you mean 'likes'"),
        ("likes", {"group": "house"}, DataError, "no column 'house'"),
        ("likes", {"key": "likes"}, ConfigError, "the label 'likes' is the key"),
        ("likes", {"label_time": "likes"}, DataError, "column 'likes'"),
        ("likes", {"until": "2020-01-01"}, ConfigError, "cannot be compared with column 'day'"),
        ("likes", {"fold": 3}, ConfigError, "there is no option 'fold'; did you mean 'folds'"),
        ("likes", {"fractions": (2.0,)}, ConfigError, r"fractions must be in \(0, 1\], got 2"),
        ("home", {"task": "binary"}, DataError, "label 'home' has 15 distinct values; a binary task needs two"),
        (None, {}, ConfigError, "label must be the name of a column, or of several, got None"),
        ([], {}, ConfigError, r"label must be the name of a column, or of several, got \[\]"),
        (["likes", None], {}, ConfigError, r"label must be the name of a column, or of several, got \['likes', None\]"),
        (["likes", "home"], {}, DataError, "label 'home' has 15 distinct values; a binary task needs two"),
        (["likes", "card"], {}, ConfigError, "the label 'card' is the key"),
        (["likes", "likes"], {}, ConfigError, "the labels must be distinct columns, got 'likes, likes'"),
        ("likes", {"task": "multilabel"}, ConfigError, "a multilabel task needs several labels, got 'likes' alone"),
        ("likes", {"split_at": 6}, ConfigError, r"split_at needs the time of each label; .* \(--label-time\)"),
        ("likes", {"gap": 6}, ConfigError, "gap is given without split_at"),
        ("likes", {"both_sides": True}, ConfigError, "both_sides is given without split_at"),
        ("likes", {"weight": "bought"}, DataError, "the label table has no column 'bought'"),
        ("likes", {"weight": "home"}, DataError, r"weights must be finite and above 0, but 6 of 90 are not \(first at"),
        ("likes", {"seed": -1}, ConfigError, r"seed must be in \[0, 2\^31\), got -1"),
        ("likes", {"until": 10**400}, ConfigError, "a whole number of 1,329 bits cannot be compared with column 'day'"),
    ],
)
def test_invalid_labels_and_options_are_refused(
    label: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    data = read()
    with pytest.raises(error, match=message):
        ev.evaluate(untrained(data), data, LABELS, label, **options)


def test_what_are_no_embeddings_is_refused_with_the_call_to_make() -> None:
    for z in ("z.parquet", None, read()):
        with pytest.raises(
            ConfigError, match=r"z must be Embeddings or a Model, got .*; take those of embed, or read them"
        ):
            ev.evaluate(z, None, LABELS, "likes")  # type: ignore[arg-type]


def test_columns_of_the_label_table_that_are_not_named_are_not_converted() -> None:
    z = untrained(read())
    expected = ev.evaluate(z, None, LABELS, "likes", **MODELS).to_dict()
    union = pa.UnionArray.from_sparse(pa.array([0] * N, pa.int8()), [pa.array(range(N))])
    zone = pa.array(range(N), pa.timestamp("us", "Mars/Base"))
    decimals = pa.array([Decimal(1)] * N, pa.decimal256(50, 2))
    arrow = LABELS.to_arrow()
    for column in (union, zone, decimals):
        assert ev.evaluate(z, None, arrow.append_column("x", column), "likes", **MODELS).to_dict() == expected
    pandas = pd.DataFrame(LABELS.to_dict(as_series=False)).assign(x=np.arange(N) * 1j)
    assert ev.evaluate(z, None, pandas, "likes", **MODELS).to_dict() == expected


def test_labels_and_keys_in_dictionaries_with_null_are_read_as_their_values() -> None:
    z = untrained(read())
    likes = [None if place % 9 == 0 else like for place, like in enumerate(LABELS["likes"].to_list())]
    plain = ev.evaluate(z, None, pa.table({"card": range(N), "likes": likes}), "likes", **MODELS)
    places = pa.array([(True, False, None).index(like) for like in likes], pa.int8())
    encoded = pa.table({
        "card": pa.DictionaryArray.from_arrays(pa.array(range(N)), pa.array(range(N))),
        "likes": pa.DictionaryArray.from_arrays(places, pa.array([True, False, None])),
    })  # fmt: skip
    assert ev.evaluate(z, None, encoded, "likes", **MODELS).to_dict() == plain.to_dict()


def test_a_label_table_without_a_line_of_names_shows_none_of_its_values(tmp_path: Path) -> None:
    LABELS.select("card", "likes").write_csv(tmp_path / "labels.csv", include_header=False)
    with pytest.raises(DataError) as caught:
        ev.evaluate(untrained(read()), None, tmp_path / "labels.csv", "likes")
    assert str(caught.value).startswith(
        "the label table has no column 'card'; the first line of labels.csv looks like data, not like column names"
    )


def test_own_features_are_joined_by_key_and_compared() -> None:
    data = read()
    z = untrained(data)
    keys = z.keys.to_pylist()
    mine = pl.DataFrame({"card": keys[::-1], "spent": [float(key) for key in keys[::-1]], "vip": True})
    evaluation = ev.evaluate(z, None, LABELS, "likes", features={"rfm": mine}, **MODELS)
    expected = np.stack([np.array(keys, float), np.ones(len(keys))], 1)
    label = dict(LABELS.select("card", "likes").rows())
    again = ev.score_features({"embedding": z.values, "rfm": expected}, [label[key] for key in keys], **MODELS)
    assert [r.main for r in evaluation.basis.results] == [r.main for r in again.basis.results]
    assert [(row["a"], row["b"]) for row in evaluation.tables["differences"]] == [("embedding", "rfm")]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda t: t.rename({"card": "id"}), ev.DataError, "'rfm' has no column 'card', the key"),
        (lambda t: t[1:], ev.DataError, "1 of 90 labelled entities have no row in the table of features 'rfm'"),
        (lambda t: pl.concat([t, t[:2]]), ev.DataError, "'rfm' has 2 repeated keys"),
        (lambda t: t[["card"]], ev.DataError, "the table of features 'rfm' has no column besides 'card'; give one"),
        (
            lambda t: t.with_columns(v=pl.lit("a")),
            ev.DataError,
            "column 'v' of the table of features 'rfm' holds String",
        ),
        (lambda t: t.with_columns(v=pl.lit(None, pl.Float64)), ev.DataError, "'rfm' have NaN or infinite numbers"),
    ],
)
def test_own_features_that_cannot_be_used_are_refused(change: Any, error: type[Exception], message: str) -> None:
    data = read()
    z = untrained(data)
    mine = pl.DataFrame({"card": z.keys.to_pylist(), "v": 1.0})
    with pytest.raises(error, match=message):
        ev.evaluate(z, None, LABELS, "likes", features={"rfm": change(mine)}, **MODELS)
    with pytest.raises(ev.ConfigError, match="features may not be called 'embedding'"):
        ev.evaluate(z, None, LABELS, "likes", features={"embedding": mine}, **MODELS)


def test_embeddings_whose_runs_are_not_known_are_evaluated() -> None:
    data = read()
    z = untrained(data)
    unknown = replace(z, metadata={**z.metadata, "holdouts": None, "labels": None})
    assert ev.evaluate(unknown, data, LABELS, "likes", **MODELS).facts["n"] == N
    with pytest.raises(ConfigError, match="the run held no entities out"):
        ev.evaluate(unknown, data, LABELS, "likes", holdout=True, **MODELS)


def test_labels_without_times_are_a_warning_unless_they_are_declined() -> None:
    data = read()
    static = LABELS.select("card", "likes")
    warned = ev.evaluate(untrained(data), data, static, "likes", **MODELS)
    assert warned.verdict[-1] == untimed(None)
    assert len(warned.verdict) <= 5
    declined = ev.evaluate(untrained(data), data, static, "likes", label_time="none", **MODELS)
    assert not any("no time" in line or "label_time" in line for line in declined.verdict)
