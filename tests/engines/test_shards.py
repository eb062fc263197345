"""Shards that processes of this machine write: the same as one process, whole or not at all, and each of them once."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from joblib.externals.loky import get_reusable_executor
from typer.testing import CliRunner

import eventvec as ev
import processes
from eventvec.cli import app
from eventvec.engines import shards
from eventvec.engines.event_parts import chunks_of, parts_of, shards_of
from eventvec.engines.job import EngineOptions
from eventvec.engines.shard_worker import score
from eventvec.tables.shard_folder import digest_of, read_manifest
from fits import sign
from shard_cases import CUT, ENTITIES, EVENTS, by_key, check_alike, events, make, write_events
from test_disk_full import disk_of

SHARDS = 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    make(folder)
    ev.embed_shards(folder / "run", folder / "events", folder / "z", shards=SHARDS, workers=2)
    return folder


@pytest.fixture
def written(place: Path, tmp_path: Path) -> Path:
    """A copy of the folder of shards, which a test may change."""
    return Path(shutil.copytree(place / "z", tmp_path / "z"))


def digests(folder: Path) -> dict[str, str]:
    return {file.name: digest_of(file) for file in sorted(folder.glob("shard-*"))}


def test_shards_hold_what_one_process_writes(place: Path):
    z = ev.read_embeddings(place / "z")
    check_alike(z, ev.load(place / "run").embed(place / "events"))
    manifest = read_manifest(place / "z")
    assert [record.shard for record in manifest.shards] == list(range(SHARDS))
    assert manifest.rows == sum(record.rows for record in manifest.shards) == EVENTS
    assert sum(record.entities for record in manifest.shards) == ENTITIES
    for record in manifest.shards:
        assert list(record.seconds) == ["load", "read", "embed", "write"]
        assert min(record.seconds[stage] for stage in ("read", "embed", "write")) > 0
    assert {record.file: record.sha256 for record in manifest.shards} == digests(place / "z")
    assert sorted(file.name for file in (place / "z").iterdir()) == sorted([*digests(place / "z"), "manifest.json"])


def test_each_worker_loads_the_model_once(place: Path, tmp_path: Path):
    done = ev.embed_shards(place / "run", place / "events", tmp_path / "z", shards=12, workers=2)
    workers = {record.worker for record in done.shards}
    assert len(workers) <= 2
    assert sum(record.seconds["load"] > 0 for record in done.shards) <= len(workers)  # none where it has one already


@pytest.mark.parametrize(
    "options",
    [
        {"until": CUT, "normalize": True},
        {"wide": True, "key_as": "account", "order": "paid"},
        {"ties": "canonical"},
    ],
    ids=str,
)
def test_options_do_what_they_do_in_one_process(place: Path, tmp_path: Path, options: dict[str, object]):
    ev.embed_shards(place / "run", place / "events", tmp_path / "z", shards=3, workers=2, **options)
    options.pop("wide", None)
    check_alike(ev.read_embeddings(tmp_path / "z"), ev.load(place / "run").embed(place / "events", **options))


def test_entities_have_a_row_for_each_of_their_times(place: Path, tmp_path: Path):
    cutoffs = tmp_path / "cutoffs.parquet"
    pl.DataFrame({"card": [3, 3, 7, 9999], "month": [2000, CUT, 50, 1]}).write_parquet(cutoffs)
    options = {"cutoffs": cutoffs, "cutoff_column": "month"}
    done = ev.embed_shards(place / "run", place / "events", tmp_path / "z", shards=16, workers=2, **options)
    assert sum(record.file is not None for record in done.shards) == 2
    z, expected = ev.read_embeddings(tmp_path / "z"), ev.load(place / "run").embed(place / "events", **options)
    rows, wanted = (
        dict(zip(zip(each.keys.to_pylist(), each.moments.tolist(), strict=True), each.values.tolist(), strict=True))
        for each in (z, expected)
    )
    pl.DataFrame({"card": [3], "month": [2000]}).write_parquet(cutoffs)
    with pytest.raises(ev.ConfigError, match="holds shards of another job; the two differ in tables"):
        ev.embed_shards(place / "run", place / "events", tmp_path / "z", shards=16, **options)
    again = ev.embed_shards(place / "run", place / "events", tmp_path / "y", shards=16, workers=2, **options)
    assert again.entities == 1  # the workers, which are still there, read the table anew
    assert rows.keys() == wanted.keys() == {(3, 2000), (3, CUT), (7, 50)}
    np.testing.assert_allclose([rows[row] for row in wanted], list(wanted.values()), atol=1e-5)


def test_a_shard_depends_on_keys_and_their_number_alone():
    keys = pa.chunked_array([[5, 1, 5, 900_000_000_000]])
    assert shards_of(keys, 7, "keys").tolist() == shards_of(keys.cast(pa.string()), 7, "keys").tolist()
    many = shards_of(pa.chunked_array([np.arange(100_000)]), 10, "keys")
    assert (abs(np.bincount(many) - 10_000) < 500).all()  # 5 standard deviations


def test_parts_have_all_rows_once_and_in_order(place: Path):
    job = job_of(place)
    chunks = [chunk for part in parts_of(job) for chunk in chunks_of(job, part, ())]
    assert [order for order, _ in chunks] == sorted({order for order, _ in chunks})
    table = events().cast({"shop": pl.String}).select(job.columns)
    shard_of = shards_of(pa.chunked_array([table["card"].to_arrow()]), SHARDS, "card")
    for shard in range(SHARDS):
        rows = pl.DataFrame(pa.Table.from_batches([by_shard[shard] for _, by_shard in chunks]))
        assert rows.equals(table.filter(shard_of == shard))


def job_of(place: Path, **changes: object) -> shards.Job:
    job = shards._job(place / "run", place / "events", None, place / "new", EngineOptions(shards=SHARDS), {}, {}, "cpu")
    return replace(job, **changes)


def test_given_again_only_what_is_absent_or_damaged_is_written(place: Path, written: Path):
    again = partial(ev.embed_shards, place / "run", place / "events", written, shards=SHARDS, workers=2)
    before = digests(place / "z")
    assert again().skipped == SHARDS
    (written / "shard-00003.parquet").unlink()
    damaged = written / "shard-00001.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"x" + damaged.read_bytes()[-8:])
    changed_before = (written / "shard-00002.parquet").stat().st_mtime_ns
    assert again().skipped == SHARDS - 2
    assert digests(written) == before
    assert (written / "shard-00002.parquet").stat().st_mtime_ns == changed_before


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("spark", "pyspark")])
def test_an_engine_that_is_not_installed_is_refused_before_anything_is_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Any, package: str
):
    monkeypatch.setitem(sys.modules, package, None)
    for write in (ev.embed_shards, partial(ev.update_shards, state=tmp_path / "states")):
        with pytest.raises(ev.ConfigError, match=f"needs {package}: pip install"):
            write(place / "run", place / "events", output=tmp_path / "z", engine=engine)
    assert not list(tmp_path.iterdir())


def test_an_unknown_precision_is_refused_before_anything_is_written(place: Path, tmp_path: Path):
    with pytest.raises(ev.ConfigError, match="precision 'float16' is not known"):
        ev.embed_shards(place / "run", place / "events", tmp_path / "z", precision="float16")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_another_job_does_not_touch_the_folder_without_overwrite(place: Path, written: Path):
    before = digests(written)
    for options in ({"shards": 4}, {"shards": SHARDS, "until": CUT}, {"shards": SHARDS, "normalize": True}):
        with pytest.raises(ev.ConfigError, match="holds shards of another job; the two differ in"):
            ev.embed_shards(place / "run", place / "events", written, **options)
    assert digests(written) == before
    ev.embed_shards(place / "run", place / "events", written, shards=4, workers=2, overwrite=True)
    assert len(digests(written)) == 4
    assert len(ev.read_embeddings(written)) == ENTITIES


def test_a_folder_that_is_not_whole_is_not_read(place: Path, written: Path):
    shard = written / "shard-00002.parquet"
    content = shard.read_bytes()
    shard.unlink()
    with pytest.raises(ev.CheckpointError, match=r"shard 2 of 5 in .*z, shard-00002.parquet, is missing; give the"):
        ev.read_embeddings(written)
    shard.write_bytes(content[:-1])
    with pytest.raises(ev.CheckpointError, match="is not what was written: its size or its checksum differs"):
        ev.read_embeddings(written)
    (written / "manifest.json").unlink()
    with pytest.raises(ev.CheckpointError, match=r"has no manifest.json: it is not a folder of shards, or not all"):
        ev.read_embeddings(written)


def exchanged(written: Path, other: ev.Embeddings) -> None:
    """Put a shard of others into a folder, with its checksum in the manifest."""
    shard = written / "shard-00002.parquet"
    ev.write(shard, other)
    manifest = json.loads((written / "manifest.json").read_text())
    manifest["shards"][2] |= {"bytes": shard.stat().st_size, "sha256": digest_of(shard)}
    (written / "manifest.json").write_text(json.dumps(manifest))


def test_a_shard_of_another_run_or_schema_is_refused(place: Path, written: Path):
    z = ev.read_embeddings(place / "z" / "shard-00002.parquet")
    exchanged(written, replace(z, metadata={**z.metadata, "run": "3f2a"}))
    with pytest.raises(ev.CheckpointError, match=r"shard-00002.parquet in .* was written by run 3f2a, and shard-00000"):
        ev.read_embeddings(written)
    exchanged(written, replace(z, schema=replace(z.schema, key_as="account")))
    with pytest.raises(ev.CheckpointError, match=r"is of another schema than shard-00000.parquet; remove it"):
        ev.read_embeddings(written)


def test_shards_whose_times_have_other_units_are_read_together(tmp_path: Path):
    days = [datetime(2024, 1, day) for day in range(1, 11)]
    cards = [pl.DataFrame({"card": card, "at": days, "paid": np.arange(10.0)}) for card in range(9)]
    cards[0] = cards[0].with_columns(pl.col("at") + timedelta(milliseconds=1))
    pl.concat(cards).write_parquet(tmp_path / "events.parquet")
    data = ev.read(tmp_path / "events.parquet", key="card", time="at")
    assert data.schema.time_unit is None
    model = ev.fit(
        data, method={"method": {"name": "ocp"}, "encoder": {"dim": 4}}, epochs=1, beside=[], out=tmp_path / "run"
    )
    ev.embed_shards(tmp_path / "run", tmp_path / "events.parquet", tmp_path / "z", shards=3, workers=1)
    units = [ev.read_embeddings(file).schema.time_unit for file in sorted((tmp_path / "z").glob("*.parquet"))]
    assert sorted(units, key=str) == [None, "day", "day"]
    z = ev.read_embeddings(tmp_path / "z")
    check_alike(z, model.embed(tmp_path / "events.parquet"))
    assert z.schema == model.schema


def changed_manifest(written: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((written / "manifest.json").read_text())
    change(manifest)
    (written / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda manifest: manifest["shards"].pop(), "it must have each of 5 shards once and in order, got 4 records"),
        (lambda manifest: manifest["shards"].pop(1), "it must have each of 5 shards once and in order, got 4 records"),
        (lambda manifest: manifest["shards"].reverse(), "each of 5 shards once and in order, got 5 records"),
        (lambda manifest: manifest["job"].pop("shards"), "each of None shards once and in order, got 5 records"),
        (lambda manifest: manifest["shards"][1].update(rows=0), "of the 6,000 of the table of events"),
        (lambda manifest: manifest["shards"][1].update(file=None), r"shard 1 has \d+ entities and no file"),
        (
            lambda manifest: manifest["shards"][1].update(file="../other/shard-00001.parquet"),
            "the file of shard 1 must be shard-00001.parquet in the folder itself",
        ),
        (
            lambda manifest: manifest["shards"][1].update(file="shard-00002.parquet"),
            "the file of shard 1 must be shard-00001.parquet in the folder itself",
        ),
    ],
)
def test_a_manifest_that_lacks_a_shard_or_names_another_file_is_refused(
    place: Path, written: Path, change: Callable[[dict[str, Any]], object], message: str
):
    other = Path(shutil.copytree(place / "z", written.parent / "other"))
    changed_manifest(written, change)
    with pytest.raises(ev.CheckpointError, match=rf"manifest.json is damaged: .*{message}.*; give the command"):
        ev.read_embeddings(written)
    with pytest.raises(ev.CheckpointError, match="is damaged: "):
        ev.embed_shards(place / "run", place / "events", written, shards=SHARDS, workers=1)
    assert digests(other) == digests(written) == digests(place / "z")


def test_a_vocabulary_in_another_order_is_refused(place: Path, written: Path, tmp_path: Path):
    z = ev.read_embeddings(place / "z" / "shard-00002.parquet")
    shop = z.schema.categorical[0]
    exchanged(written, replace(z, schema=replace(z.schema, categorical=(replace(shop, values=shop.values[::-1]),))))
    with pytest.raises(ev.CheckpointError, match=r"is of another schema than shard-00000.parquet; remove it"):
        ev.read_embeddings(written)
    job = job_of(place, blocks="0123")
    error = score(job, 0, partial(list, [events().to_arrow()])).error
    assert error is not None
    assert "has other blocks, or another schema, than when the job began; restore the folder" in error
    changed = Path(shutil.copytree(place / "run", tmp_path / "run"))
    schema = json.loads((changed / "schema.json").read_text())
    schema["categorical"][0]["values"].reverse()
    (changed / "schema.json").write_text(json.dumps(schema))
    sign(changed)
    changed_manifest(written, lambda manifest: manifest["job"].update(run=str(changed)))
    with pytest.raises(ev.ConfigError, match="holds shards of another job; the two differ in blocks"):
        ev.embed_shards(changed, place / "events", written, shards=SHARDS, workers=1)


def test_bad_events_are_one_sentence_and_given_again_the_rest_is_done(place: Path, tmp_path: Path):
    table = events()
    folder = write_events(table, tmp_path / "events")
    bad = table.with_columns(pl.when(pl.col("card") == 17).then(None).otherwise("when").alias("when"))
    bad[4000:].write_parquet(folder / "2.parquet", row_group_size=700)
    again = partial(ev.embed_shards, place / "run", folder, tmp_path / "z", shards=SHARDS, workers=2)
    with pytest.raises(
        ev.DataError, match=r"shard \d of 5: column 'when' has .* missing .*of 5 shards are written and"
    ):
        again()
    table[4000:].write_parquet(folder / "2.parquet", row_group_size=700)
    with pytest.raises(ev.ConfigError, match="holds shards of another job; the two differ in events"):
        again()
    again(overwrite=True)
    assert by_key(ev.read_embeddings(tmp_path / "z")) == by_key(ev.read_embeddings(place / "z"))


def test_files_without_a_key_or_of_another_schema_are_refused(place: Path, tmp_path: Path):
    table = events()
    folder = write_events(table, tmp_path / "events")
    (table[4000:].with_columns(card=pl.col("card").cast(pl.Int32))).write_parquet(folder / "2.parquet")
    with pytest.raises(ev.DataError, match=r"column 'card' is int64 in 0.parquet and int32 in 2.parquet"):
        ev.embed_shards(place / "run", folder, tmp_path / "z", shards=3, workers=2)
    (table[4000:].with_columns(card=pl.lit(None, pl.Int64))).write_parquet(folder / "2.parquet")
    with pytest.raises(ev.DataError, match=r"column 'card' of .*2.parquet has 2,000 missing values \(first at row 0\)"):
        ev.embed_shards(place / "run", folder, tmp_path / "y", shards=3, workers=2)


def test_a_file_that_changes_or_goes_meanwhile_is_refused(place: Path, tmp_path: Path):
    folder = write_events(events(), tmp_path / "events")
    job = job_of(
        place,
        files=shards._job(place / "run", folder, None, place / "new", EngineOptions(shards=2), {}, {}, "cpu").files,
    )
    parts = parts_of(job)
    os.utime(folder / "0.parquet", (1, 1))
    with pytest.raises(ev.DataError, match=r"0.parquet changed since the job began"):
        list(chunks_of(job, parts[0], ()))
    (folder / "0.parquet").unlink()
    with pytest.raises(ev.DataError, match=r"0.parquet is missing; workers must see the events at the path"):
        list(chunks_of(job, parts[0], ()))


def test_a_worker_of_another_version_or_run_is_refused(place: Path):
    job = job_of(place)
    other = replace(job, versions={**job.versions, "eventvec": "0.0.1"})
    rows = partial(list, [events().to_arrow()])
    error = score(other, 0, rows).error
    assert error is not None
    assert "has eventvec" in error
    assert "and the job was begun with 0.0.1; install the same version on all machines" in error
    error = score(replace(job, run_id="3f2a"), 0, rows).error
    assert error is not None
    assert "must hold run 3f2a, got run" in error
    assert not (place / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shards", "4"], "--shards applies to an engine; name one"),
        (["--engine", "dask"], "engine 'dask' is not known"),
        (["--engine", "local", "--workers", "0"], "workers must be at least 1"),
        (["--engine", "local", "--store", "s"], "--store is for events that one process reads"),
    ],
)
def test_options_that_do_not_fit_are_refused(place: Path, tmp_path: Path, arguments: list[str], message: str):
    result = CliRunner().invoke(
        app, ["embed", str(place / "run"), str(place / "events"), "-o", str(tmp_path / "z"), *arguments]
    )
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_inputs_and_outputs_that_do_not_fit_are_refused(place: Path, tmp_path: Path):
    (tmp_path / "mine.txt").write_text("dear diary")
    for output, message in (
        (tmp_path, "is not empty and holds no shards"),
        (tmp_path / "mine.txt", "is a file"),
        (place / "run" / "z", "lies in the model folder"),
        (place, "is or holds an input"),
    ):
        with pytest.raises(ev.ConfigError, match=message):
            ev.embed_shards(place / "run", place / "events", output)
    events().cast({"shop": pl.String}).write_csv(tmp_path / "events.csv")
    for table in (tmp_path / "events.csv", events()):
        with pytest.raises(ev.ConfigError, match="an engine reads Parquet files"):
            ev.embed_shards(place / "run", table, tmp_path / "z")
    assert (tmp_path / "mine.txt").read_text() == "dear diary"


def test_the_command_writes_the_same_shards(place: Path, tmp_path: Path):
    arguments = ["embed", str(place / "run"), str(place / "events"), "-o", str(tmp_path / "z"), "--json"]
    result = CliRunner().invoke(app, [*arguments, "--engine", "local", "--shards", str(SHARDS), "--workers", "2"])
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told == {
        "output": str(tmp_path / "z"), "entities": ENTITIES, "rows": EVENTS, "shards": SHARDS, "skipped": 0
    }  # fmt: skip
    ours, theirs = (by_key(ev.read_embeddings(folder)) for folder in (tmp_path / "z", place / "z"))
    assert ours == theirs
    labels = tmp_path / "labels.parquet"
    pl.DataFrame({"card": range(ENTITIES), "y": [card % 2 for card in range(ENTITIES)]}).write_parquet(labels)
    result = CliRunner().invoke(app, ["search", str(tmp_path / "z"), "--key", "7", "--json"])
    assert json.loads(result.stdout)["searched"] == ENTITIES, result.stderr
    data = ev.read(place / "events", schema=ev.load(place / "run").schema)
    result = ev.evaluate(ev.read_embeddings(tmp_path / "z"), data, labels, "y", models=["logistic_regression"])
    assert not [note for note in result.notes if "other events" in note]


def fill_disk(place: Path, output: Path, size: int) -> None:
    with disk_of(size), pytest.raises(ev.DataError, match="cannot be written and is as it was before"):
        ev.embed_shards(place / "run", place / "events", output, shards=SHARDS, workers=2)
    get_reusable_executor().shutdown()  # a child of multiprocessing waits for its threads


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_nothing_is_half_written(place: Path, tmp_path: Path):
    smallest = min(file.stat().st_size for file in (place / "z").glob("shard-*"))
    for size in (10_000, smallest - 100):  # of the events in parts, and of embeddings
        output = tmp_path / str(size)
        assert processes.exit_code(fill_disk, place, output, size) == 0
        assert not list(output.glob("shard-*"))
        assert not list(output.rglob("*draft*"))
        ev.embed_shards(place / "run", place / "events", output, shards=SHARDS, workers=2)
        assert digests(output) == digests(place / "z")


def test_lists_are_exploded_although_no_element_is_a_feature(tmp_path: Path):
    items = [["a"], ["b", "c"], [], ["a"], ["b"]]
    events = pl.DataFrame({"id": [1, 1, 2, 2, 3], "t": [1, 2, 1, 2, 1], "v": [0.5, 1, 2, 3, 4], "items": items})
    events.write_parquet(tmp_path / "events.parquet")
    data = ev.read(events, key="id", time="t", numeric=["v"], explode=["items"])
    run = ev.fit(data, method="ocp", epochs=1, out=tmp_path / "run")
    ev.embed_shards(tmp_path / "run", tmp_path / "events.parquet", tmp_path / "z", shards=2, workers=1)
    z = ev.read_embeddings(tmp_path / "z")
    counts = dict(zip(z.keys.to_pylist(), z.events.tolist(), strict=True))
    assert counts == dict(zip([1, 2, 3], run.embed(events).events.tolist(), strict=True)) == {1: 3, 2: 2, 3: 1}
