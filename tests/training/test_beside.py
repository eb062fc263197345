"""Runs whose vectors have parts beside the learned one: fitted, stored, resumed, trained further and updated."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
from commands import answer
from eventvec.blocks.untrained import WIDEST, EventBlock, sizes_beside
from eventvec.encoders import Codes, Compressed, Convolutions, RunningHandcrafted
from eventvec.encoders.interface import lineage_of
from eventvec.methods.declarations import usable_rows
from eventvec.schema import Categorical, Numeric, Schema
from fits import ABSENT, Interrupted, change, coles, dataset, interrupt_after, labels, same, table, weights
from updates import content, whole
from updates import same as same_vectors

EVERY: dict[str, Any] = {"beside": ["timing", "aggregates", "codes", "convolutions"], "epochs": 1, "batch_size": 8}
BOTH: dict[str, Any] = {"beside": ("timing", "aggregates"), "components": 6, "batch_size": 8}


@pytest.fixture(scope="module", autouse=True)
def few_features_are_many() -> Iterator[None]:
    """The small tables of these tests have few features, which would not be compressed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eventvec.blocks.untrained.NARROW", 8)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ev.Model:
    return ev.fit(dataset(), method=coles(dataset()), epochs=1, out=tmp_path_factory.mktemp("runs") / "run", **BOTH)


def encoder_of(run: ev.Model, name: str) -> Any:
    """Return the encoder of a block beside the learned one."""
    block = run.blocks[name]
    assert isinstance(block, EventBlock)
    return block.encoder


@pytest.fixture
def copied(run: ev.Model, tmp_path: Path) -> Path:
    assert run.path is not None
    return Path(shutil.copytree(run.path, tmp_path / "run"))


def test_the_vector_has_the_learned_part_and_those_beside_it(run: ev.Model) -> None:
    z, x = run.embed(table()), dataset().sequences
    assert z.parts == {"learned": (0, 8), "timing": (8, 15), "aggregates": (15, 21)}
    assert torch.equal(torch.from_numpy(z.values[:, :8]), ev.encode(run.method.encoder, x))
    alone = ev.fit(dataset(), method=coles(dataset()), epochs=1, batch_size=8)
    np.testing.assert_array_equal(z.values[:, :8], alone.embed(table()).values)  # the training does not know of them
    assert alone.embed(table()).parts == {}
    assert isinstance(alone.encoder, ev.encoders.Recurrent)


def test_the_parts_are_fitted_to_the_entities_that_are_not_held_out() -> None:
    data = dataset()
    run = ev.fit(data, method=coles(data), epochs=1, **BOTH, validation=0.25)
    shuffled = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    rows = data.sequences[shuffled[10:].sort().values]
    expected = Compressed(RunningHandcrafted(data.schema, 50, 20), 6).fit(rows)
    assert same(weights(encoder_of(run, "aggregates")), weights(expected))
    everyone = Compressed(RunningHandcrafted(data.schema, 50, 20), 6).fit(data.sequences)
    assert not same(weights(encoder_of(run, "aggregates")), weights(everyone))


def test_the_parts_are_fitted_to_entities_that_the_method_cannot_use_too() -> None:
    events = table()
    some = ev.read(events.filter(pl.col("t") < pl.col("id")), schema=dataset().schema)  # one event to 29 of each
    short = events.with_columns(pl.col("t") + pl.col("id"))
    cut = ev.read(short, schema=dataset().schema, until=30)  # ten entities have no event
    for data in (some, cut):
        filled = data.sequences[data.sequences.lengths > 0]
        method = coles(data)
        assert int(usable_rows(method, filled).sum()) < len(filled)
        run = ev.fit(data, method=method, epochs=1, **BOTH, validation=0)
        expected = Compressed(RunningHandcrafted(data.schema, 50, 20), 6).fit(filled)
        assert same(weights(encoder_of(run, "aggregates")), weights(expected))


def test_one_part_alone_and_none(tmp_path: Path) -> None:
    run = ev.fit(dataset(), method="ocp", epochs=1, beside=["timing"])
    assert list(run.embed(table()).parts) == ["learned", "timing"]
    run.save(tmp_path / "run")
    assert np.array_equal(ev.load(tmp_path / "run").embed(table()), run.embed(table()))
    assert ev.fit(dataset(), method="ocp", epochs=1, beside=()).beside == ()


def test_a_loaded_run_gives_the_same_vectors(run: ev.Model) -> None:
    assert run.path is not None
    loaded = ev.load(run.path)
    assert np.array_equal(loaded.embed(table()), run.embed(table()))
    assert loaded.embed(table()).parts == run.embed(table()).parts
    assert loaded.config["fit"]["beside"] == ["timing", "aggregates"]
    assert loaded.embed(table()).metadata["run"] == run.id
    for encoder in (loaded.method.encoder, loaded.encoder, run.method.encoder):
        record = lineage_of(encoder)
        assert record is not None
        assert record.run == run.id
    for module in (loaded.encoder, loaded.method, *(encoder_of(loaded, name) for name in loaded.beside)):
        assert not module.training


def test_the_command_line_and_files_keep_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table().write_parquet("events.parquet")
    labels().write_parquet("labels.parquet")
    data = ("--events", "events.parquet", "--key", "id", "--time", "t", "--categorical", "code")
    answer(
        "fit", *data, "--numeric", "amount", "--epochs", 1, "--beside", "aggregates,timing", "--out", "run",
        "--set", "fit.components=6",
    )  # fmt: skip
    assert answer("embed", "run", "events.parquet", "-o", "z.parquet")["dim"] == 32 + 7 + 6
    answer("update", "run", "events.parquet", "--state", "state.db", "-o", "fresh.parquet")
    z, fresh = ev.read_embeddings("z.parquet"), ev.read_embeddings("fresh.parquet")
    assert fresh.parts == z.parts == {"learned": (0, 32), "timing": (32, 39), "aggregates": (39, 45)}
    np.testing.assert_allclose(fresh, z, atol=1e-5)
    result = answer(
        "evaluate",
        "z.parquet",
        "labels.parquet",
        "--label",
        "churn",
        "--events",
        "events.parquet",
        "--models",
        "knn",
        "--also",
        "parts",
    )
    parts = {row["features"] for row in result["results"] if row["features"].startswith("embedding: ")}
    assert parts == {f"embedding: {way}{name}" for way in ("", "without ") for name in z.parts}


def test_updates_in_batches_give_the_vectors_of_whole_histories(run: ev.Model, tmp_path: Path) -> None:
    events = table().sort("t", "id")
    rng = np.random.default_rng(0)
    batch = np.sort(rng.integers(0, 4, len(events)))
    expected = whole(run, events)
    for number in range(4):
        updated = ev.update(run, events.filter(batch == number), tmp_path / "state.db")
        assert updated.embeddings.parts == run.embed(table()).parts
        assert same_vectors(updated, whole(run, events.filter(batch <= number)))
    assert same_vectors(updated, expected)
    again = ev.update(run, events.filter(batch == 3), tmp_path / "state.db")  # `read` without a `state` before it
    assert not again.applied
    assert np.array_equal(again.embeddings, updated.embeddings)


def test_an_encoder_without_a_state_reads_the_latest_events(tmp_path: Path) -> None:
    run = ev.fit(dataset(), method=coles(dataset(), "transformer"), epochs=1, **BOTH)
    updated = ev.update(run, table(), tmp_path / "state.db")
    np.testing.assert_allclose(updated.embeddings, run.embed(table()), atol=1e-5)


def test_codes_and_convolutions_stand_beside_what_is_learned_and_are_stored(tmp_path: Path) -> None:
    data = dataset()
    run = ev.fit(data, method=coles(data), **EVERY, validation=0, out=tmp_path / "run")
    z = run.embed(table())
    assert list(z.parts) == ["learned", "timing", "aggregates", "codes", "convolutions"]
    assert [end - start for start, end in (z.parts["codes"], z.parts["convolutions"])] == [64, 96]
    x = data.sequences
    for name, part in (("codes", Codes(data.schema)), ("convolutions", Compressed(Convolutions(data.schema), 96))):
        expected = part.fit(x)(x)
        np.testing.assert_allclose(z.values[:, slice(*z.parts[name])], expected, atol=1e-4)
    loaded = ev.load(tmp_path / "run")
    assert np.array_equal(loaded.embed(table()), z)
    sizes = {name: block.sizes for name, block in loaded.blocks.items() if isinstance(block, EventBlock)}
    assert sizes["codes"] == {"components": 64, "terms": 2048}
    assert sizes["convolutions"] == {"components": 96, "window": 256}
    refused = {"'directions' as": ("codes.sizes.terms", 2**50), "at least 1": ("convolutions.sizes.window", 0)}
    for message, (place, value) in refused.items():
        shutil.copytree(tmp_path / "run", copy := tmp_path / place)
        change(copy / "model.json", f"blocks.{place}", value)
        with pytest.raises(ev.CheckpointError, match=message):
            ev.load(copy)


def test_codes_continue_in_updates_and_most_of_their_counts_take_no_space(tmp_path: Path) -> None:
    run = ev.fit(dataset(), method=coles(dataset()), epochs=1, batch_size=8, beside=["codes"])
    events = table().sort("t", "id")
    batch = np.sort(np.random.default_rng(0).integers(0, 3, len(events)))
    for number in range(3):
        updated = ev.update(run, events.filter(batch == number), tmp_path / "state.db")
    assert same_vectors(updated, whole(run, events))
    dense = 4 * (8 + 2048 + 1)
    assert max(len(row[-1]) for row in content(tmp_path / "state.db")) < dense / 4
    again = ev.update(run, events.filter(batch == 2), tmp_path / "state.db")
    assert np.array_equal(again.embeddings, updated.embeddings)


def test_convolutions_have_no_state_but_a_window_of_recent_events(tmp_path: Path) -> None:
    run = ev.fit(dataset(), method=coles(dataset()), epochs=1, batch_size=8, beside=["codes", "convolutions"])
    early = pl.col("t") < 20
    ev.update(run, table().filter(early), tmp_path / "state.db")
    updated = ev.update(run, table().filter(~early), tmp_path / "state.db")
    np.testing.assert_allclose(updated.embeddings, run.embed(table()), atol=1e-4)  # the window holds all events


def test_series_have_convolutions_but_no_codes() -> None:
    series = ev.read(table().drop("code"), key="id", time="t", numeric=["amount"])
    method = coles(series)
    start = weights(method)
    with pytest.raises(ev.ConfigError, match="codes needs a categorical column or a list column"):
        ev.fit(series, method=method, epochs=1, beside=["codes"])
    assert same(weights(method), start)  # refused before the training
    run = ev.fit(series, method=method, epochs=1, batch_size=8, beside=["convolutions"])
    assert run.embed(series).parts == {"learned": (0, 8), "convolutions": (8, 104)}


def test_entities_without_events_and_any_order_of_entities(run: ev.Model) -> None:
    data = run.read(table().with_columns(pl.col("t") + pl.col("id")), until=5)
    z = run.embed(data).values
    assert np.isfinite(z).all()
    np.testing.assert_allclose(z[5:], np.tile(z[5], (35, 1)), atol=1e-6)
    assert (data.sequences.lengths > 0).tolist() == [True] * 5 + [False] * 35
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_allclose(run.embed(dataset()[order]), run.embed(dataset()).values[order], atol=1e-6)


def test_a_resumed_run_ends_with_the_parts_of_one_that_was_never_interrupted(tmp_path: Path) -> None:
    options: dict[str, Any] = {**BOTH, "epochs": 2, "checkpoint_every": 1}
    expected = ev.fit(dataset(), method=coles(dataset()), **options)
    with pytest.raises(Interrupted):
        ev.fit(dataset(), method=coles(dataset()), **options, out=tmp_path / "run", progress=interrupt_after(6))
    resumed = ev.fit(dataset(), method=coles(dataset()), **options, out=tmp_path / "run", resume=True)
    assert np.array_equal(resumed.embed(table()), expected.embed(table()))
    finished = ev.fit(dataset(), method=coles(dataset()), **options, out=tmp_path / "run", resume=True)
    assert np.array_equal(finished.embed(table()), expected.embed(table()))
    for other in ({"beside": ("timing",)}, {"components": 7}):
        with pytest.raises(ev.CheckpointError, match=r"other settings in \[fit\]"):
            ev.fit(dataset(), method=coles(dataset()), **{**options, **other}, out=tmp_path / "run", resume=True)


def test_an_encoder_is_trained_further_without_the_parts(run: ev.Model) -> None:
    assert run.path is not None
    further = ev.fit(dataset(), method={"encoder": {"from": str(run.path)}}, epochs=1, lr=1e-9, batch_size=8, beside=[])
    start = weights(run.method.encoder)
    assert {name: value.shape for name, value in weights(further.encoder).items()} == {
        name: value.shape for name, value in start.items()
    }
    assert further.beside == ()
    tuned = ev.fine_tune(run, dataset(), labels(), "churn", epochs=1, beside=["timing"])
    assert list(tuned.embed(table()).parts) == ["learned", "timing"]
    assert ev.predict(tuned, table()).num_rows == 40
    assert same(weights(run.method.encoder), start)
    assert tuned.info["holdouts"][0]["run"] == run.id


def test_vectorizers_take_the_parts(tmp_path: Path) -> None:
    vectorizer = ev.EventVectorizer("id", "t", epochs=1, beside=["timing"], progress=False).fit(table())
    frame = vectorizer.transform(table())
    assert frame.width == 1 + 32 + 7
    assert list(vectorizer.get_feature_names_out()) == frame.columns[1:]
    vectorizer.save(tmp_path / "run")
    loaded = ev.EventVectorizer.load(tmp_path / "run")
    assert loaded.transform(table()).equals(frame)
    assert loaded.fit(dataset()).run_.beside == ("timing",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"aggregates.sizes.components": 7}, "aggregates had 6 features, and schema.json gives 7"),
        ({"aggregates.sizes.components": 7, "aggregates.dim": 7}, "has 'projection' as .* ask for"),
        ({"aggregates.sizes.components": 2**50, "aggregates.dim": 2**50}, "has 'projection' as|damaged"),
        ({"aggregates.sizes.components": 0}, "damaged: block 'aggregates': components must be at least 1"),
        ({"aggregates.sizes.values": 1}, "has 'mean' as"),
        ({"aggregates.sizes.colour": 1}, "damaged: .*colour"),
        ({"aggregates.kind": "codes"}, "damaged: .*values"),
        ({"colour": {}}, "model.json is damaged: blocks.colour.kind: Field required"),
        (
            {"colour": {"kind": "red", "sizes": {}, "dim": 1}},
            "model.json is damaged: block 'colour': .*accepted: aggregates, codes",
        ),
        ({"colour": {"kind": "timing", "sizes": {}, "dim": 8}}, "colour had 8 features, and schema.json gives 7"),
        ({"colour": {"kind": "timing"}}, "model.json is damaged: blocks.colour: .*it lacks sizes"),
        ({"colour": {"kind": "static"}}, "model.json is damaged: blocks.colour: .*it lacks columns"),
        ({"colour": {"kind": "table", "columns": ["a"], "time": None}}, "blocks.colour: .*it lacks means"),
        ({"aggregates": ABSENT}, "vector names the block 'aggregates', which is not listed"),
    ],
)
def test_damaged_parts_are_refused(copied: Path, changes: dict[str, Any], message: str) -> None:
    for place, value in changes.items():
        change(copied / "model.json", f"blocks.{place}", value)
    with pytest.raises(ev.CheckpointError, match=message) as error:
        ev.load(copied)
    assert "\n" not in str(error.value)


def test_tensors_of_no_block_are_refused(copied: Path) -> None:
    change(copied / "model.json", "vector", ["learned"])
    for name in ("aggregates", "timing"):
        change(copied / "model.json", f"blocks.{name}", ABSENT)
        with pytest.raises(ev.CheckpointError, match=r"has an unknown tensor 'aggregates\."):
            ev.load(copied)


def test_parts_need_times() -> None:
    data = dataset()
    x = data.sequences
    timeless = ev.Sequences({n: v for n, v in x.columns.items() if n != "time"}, x.starts, x.lengths)
    without = ev.Dataset(data.keys, timeless, data.schema)
    with pytest.raises(ev.DataError, match="beside needs events with times, and the data have none"):
        ev.fit(without, method=coles(data), epochs=1, beside=["timing"])


def test_few_features_are_kept_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, width = Schema("id", "t", "integer", numeric=(Numeric("v"),)), 15
    for most, components in ((width, None), (width - 1, 64)):
        monkeypatch.setattr("eventvec.blocks.untrained.NARROW", most)
        assert sizes_beside(schema, ["aggregates"], 64)["aggregates"]["components"] == components


def test_wide_tables_have_fewer_values_of_each_column() -> None:
    many = tuple(f"v{i}" for i in range(300))
    narrow = Schema("id", "t", "integer", categorical=(Categorical("a", many),))
    wide = Schema(
        "id", "t", "integer", categorical=tuple(Categorical(f"c{i}", many) for i in range(8)),
        numeric=tuple(Numeric(f"n{i}") for i in range(10)),
    )  # fmt: skip
    assert sizes_beside(narrow, ["aggregates"], 64)["aggregates"] == {"components": 64, "values": 50, "frequent": 20}
    sizes = sizes_beside(wide, ["timing", "aggregates"], 8)
    assert sizes == {"timing": {"components": None}, "aggregates": {"components": 8, "values": 10, "frequent": 10}}
    assert RunningHandcrafted(wide, 10, 10).dim <= WIDEST < RunningHandcrafted(wide, 20, 20).dim


def test_the_model_card_names_the_parts(run: ev.Model) -> None:
    assert run.path is not None
    card = (run.path / "README.md").read_text()
    assert "| static columns used | none |\n| beside the learned part | `timing`, `aggregates` |\n| steps, sec" in card
