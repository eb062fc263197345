"""The folder of shards: wherever a process is killed, the command can be given again, and jobs do not mix."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

import eventvec as ev
from eventvec.engines import output_folder, shard_worker, shards
from eventvec.engines.job import EngineOptions
from eventvec.engines.shard_worker import Outcome, score
from eventvec.files import locked
from shard_cases import EVENTS, events, make, write_events

SHARDS = 2


class Killed(BaseException):
    """What a test raises in place of a signal that ends the process."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("output")
    make(folder)
    embed(folder, folder / "z")
    return folder


@pytest.fixture
def written(place: Path, tmp_path: Path) -> Path:
    """A copy of the folder of shards, which a test may change."""
    return Path(shutil.copytree(place / "z", tmp_path / "z"))


def embed(place: Path, output: Path, table: Path | None = None, **options: object) -> ev.Shards:
    options = {"shards": SHARDS, "workers": 1, **options}
    return ev.embed_shards(place / "run", table or place / "events", output, **options)


def kill_after(patch: pytest.MonkeyPatch, calls: int) -> None:
    """Let the process change so many files and folders, and raise `Killed` at each further change."""
    left = iter(range(calls))

    def mortal(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if next(left, None) is None:
                raise Killed
            return function(*arguments, **options)

        return call

    for owner, name in (
        (Path, "mkdir"), (Path, "unlink"), (shutil, "rmtree"),
        (output_folder, "write_text"), (shard_worker, "write_text"), (shards, "write_text"),
    ):  # fmt: skip
        patch.setattr(owner, name, mortal(getattr(owner, name)))


def test_an_overwrite_that_is_killed_anywhere_can_be_given_again(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    few = write_events(events()[:600], tmp_path / "few", files=2)
    for calls in itertools.count():
        folder = Path(shutil.copytree(place / "z", tmp_path / str(calls)))
        with monkeypatch.context() as patch, suppress(Killed):
            kill_after(patch, calls)
            embed(place, folder, few, normalize=True, overwrite=True)
            break
        assert embed(place, folder, few, normalize=True, overwrite=True).rows == 600
        assert not (folder / "unfinished").exists()
    assert calls > 15


@pytest.mark.parametrize("options", [{}, {"normalize": True, "overwrite": True}], ids=str)
def test_a_folder_that_another_job_writes_is_refused_and_left_as_it_is(
    place: Path, written: Path, options: dict[str, object]
):
    before = {file.name: file.read_bytes() for file in written.iterdir()}
    with (
        locked(written),
        pytest.raises(ev.ConfigError, match=r"^another process writes .*z; wait until it is done"),
    ):
        embed(place, written, **options)
    assert {file.name: file.read_bytes() for file in written.iterdir()} == before


def test_a_folder_in_which_nothing_but_its_subfolder_was_made_is_used(place: Path, tmp_path: Path):
    (tmp_path / "z" / "unfinished" / "0123").mkdir(parents=True)
    assert embed(place, tmp_path / "z").rows == EVENTS
    assert not (tmp_path / "z" / "unfinished").exists()


def test_a_worker_of_a_killed_job_adds_nothing_to_the_next_job(place: Path, tmp_path: Path):
    written = tmp_path / "z"
    reading: dict[str, object] = {"until": 5000}
    job = shards._job(place / "run", place / "events", None, written, EngineOptions(shards=SHARDS), {}, {}, "cpu")
    other = shards._job(
        place / "run", place / "events", None, written, EngineOptions(shards=SHARDS), reading, {}, "cpu"
    )
    written.mkdir()
    assert not output_folder.begin(job, written, False)
    assert not output_folder.begin(other, written, True)
    outcome = score(job, 0, lambda: [events().cast({"shop": pl.String}).to_arrow()])  # which was at work on it
    assert outcome.record is None
    assert not output_folder.begin(other, written, False)


def test_rows_that_an_engine_loses_are_noticed_and_the_command_can_be_given_again(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def losing(*arguments: object) -> Iterator[Outcome]:
        return (outcome for outcome in run_local(*arguments) if outcome.record and outcome.record.shard)

    run_local = shards.ENGINES["local"]
    with monkeypatch.context() as patch:
        patch.setitem(shards.ENGINES, "local", losing)
        with pytest.raises(ev.DataError, match=r"brought .* rows to its workers, and the table has 6,000"):
            embed(place, tmp_path / "z")
    done = embed(place, tmp_path / "z")
    assert (done.skipped, done.rows) == (0, EVENTS)


def test_a_damaged_manifest_is_replaced_by_overwrite(place: Path, written: Path):
    (written / "manifest.json").write_text("{")
    with pytest.raises(ev.CheckpointError, match=r"manifest.json is damaged: .* again, with overwrite=True"):
        embed(place, written)
    assert embed(place, written, overwrite=True).rows == EVENTS
    ev.read_embeddings(written)


def test_events_that_cannot_be_used_replace_nothing(place: Path, written: Path, tmp_path: Path):
    other = write_events(events(), tmp_path / "other")
    events()[4000:].with_columns(card=pl.col("card").cast(pl.Int32)).write_parquet(other / "2.parquet")
    events().clear().write_parquet(tmp_path / "empty.parquet")
    events().with_columns(card=pl.col("card").cast(pl.Float64)).write_parquet(tmp_path / "float.parquet")
    for table, message in (
        (other, "column 'card' is int64 in 0.parquet and int32 in 2.parquet"),
        (tmp_path / "empty.parquet", "the table has no rows; at least one event is needed"),
        (tmp_path / "float.parquet", "column 'card' cannot be the key: it holds double"),
    ):
        with pytest.raises(ev.DataError, match=message):
            embed(place, written, table, overwrite=True)
    assert len(ev.read_embeddings(written)) == len(ev.read_embeddings(place / "z"))


def test_a_folder_inside_that_of_the_events_is_refused(place: Path, tmp_path: Path):
    folder = write_events(events(), tmp_path / "events")
    with pytest.raises(ev.ConfigError, match=r"lies in the folder .*events, which is an input"):
        embed(place, folder / "z", folder)
    assert not (folder / "z").exists()


def test_times_of_entities_are_matched_as_in_one_process(place: Path, tmp_path: Path):
    cutoffs = tmp_path / "cutoffs.parquet"
    options = {"cutoffs": cutoffs, "cutoff_column": "at"}
    pl.DataFrame({"card": [9999, None], "at": [50, 50]}).write_parquet(cutoffs)
    with pytest.raises(ev.DataError, match="no entity of the events has a time in the table of cutoffs"):
        embed(place, tmp_path / "z", **options)
    pl.DataFrame({"card": [7, None], "at": [5000, 5000]}).write_parquet(cutoffs)  # as in one process
    assert embed(place, tmp_path / "y", **options).entities == 1
    with pytest.raises(ev.DataError, match="no column 'month'"):
        embed(place, tmp_path / "x", cutoffs=cutoffs, cutoff_column="month")
    pl.DataFrame({"account": [7, 8, 9999], "at": [5000, 5000, 5000]}).write_parquet(cutoffs)
    assert embed(place, tmp_path / "w", key_as="account", **options).entities == 2
