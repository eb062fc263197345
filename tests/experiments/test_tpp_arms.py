"""The models of the tables: their sets, what is kept of a training, and the published settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiments.tpp import arms
from experiments.tpp.apart import perfect_apart
from experiments.tpp.arms import Arm, similarities
from experiments.tpp.benchmarks import DAY, HOUR, KEY, Benchmark, Split, mixed
from experiments.tpp.full import published
from experiments.tpp.published import ABLATIONS, FOLDERS, TUNED, UNTUNED
from experiments.tpp.records import read_benchmark, read_split, write_records
from experiments.tpp.scores import searched, share_told_apart
from experiments.tpp.settings import RATES, TRIALS, competing, tuned

import backbones
from eventvec.errors import DataError

NAMES = ("Guru", "Caucus", "Yearling")


def small_set(name: str, unit: int, n: int = 20, seed: int = 0) -> Benchmark:
    """Return histories of three types, the first of which the description names."""
    rng = np.random.default_rng(seed)
    keys = np.repeat(np.arange(n) + 100 * seed, 4)
    times = rng.integers(1, 9, (n, 4)).cumsum(1).ravel() * unit
    types = [NAMES[i] for i in rng.integers(0, 3, 4 * n)]
    events = pl.DataFrame({KEY: keys, "time": times, "type_text": types})
    texts = [f'"{name}" opens the sequence.' for name in types[::4]]
    order = rng.permutation(n)
    return Benchmark(name, events, texts, unit, Split(order[: n - 6], order[n - 6 : n - 3], order[n - 3 :]))


def test_a_mixture_has_a_share_of_each_part_and_the_times_of_each_set() -> None:
    sets = [small_set("one", DAY, 40), small_set("two", HOUR, 20, seed=1)]
    both = mixed(sets, share=0.5)
    assert [len(rows) for rows in both.split] == [17 + 7, 1 + 1, 1 + 1]
    assert sorted(np.concatenate(both.split)) == list(range(28))
    lines, expected = both.serialised(), [each.serialised() for each in sets]
    assert set(lines[:19]) <= set(expected[0])
    assert set(lines[19:]) <= set(expected[1])
    for place, data in enumerate(sets):
        start = 19 * place
        of_part = {(expected[place][i], data.descriptions[i]) for i in data.split.training}
        rows = [i for i in both.split.training if (i >= 19) == bool(place)]
        assert {(lines[i], both.descriptions[i]) for i in rows} <= of_part
        assert start <= min(rows)


def test_files_of_the_published_format_are_read_as_the_set_they_were_written_from(tmp_path: Path) -> None:
    data = small_set("one", DAY)
    write_records(data, tmp_path / "one")
    again = read_benchmark(tmp_path / "one")
    order = np.concatenate(data.split)
    assert again.serialised() == [data.serialised()[i] for i in order]
    assert again.descriptions == [data.descriptions[i] for i in order]
    assert [list(rows) for rows in again.split] == [list(range(14)), [14, 15, 16], [17, 18, 19]]
    assert {part: len(rows) for part, rows in read_split(tmp_path / "one").items()} == {
        "training": 14, "validation": 3, "test": 3,
    }  # fmt: skip
    (tmp_path / "one/test.json").unlink()
    with pytest.raises(DataError, match="has no file for test"):
        read_benchmark(tmp_path / "one")


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> Arm:
    monkeypatch.setattr(arms, "problem", lambda name, small: small_set(name, DAY))
    return Arm("one", backbones.folder("bert"), epochs=2, batch_size=4, lora=2)


def test_a_model_is_trained_once_and_what_it_finds_similar_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arm: Arm
) -> None:
    first = similarities(arm, False, tmp_path)
    assert first["test"].shape == first["held out"].shape == (3, 3)
    assert first["types"].shape == first["gaps"].shape == (3, 3, 3)
    assert "reworded" not in first  # the set is not one of ours
    assert len(first["about"]["validation"]) == 2
    monkeypatch.setattr(arms, "_trained", lambda *_: pytest.fail("trained again"))
    again = similarities(arm, False, tmp_path)
    assert np.array_equal(again["test"], first["test"])
    assert again["about"] == first["about"]


def test_the_rows_that_chose_the_epoch_are_known(tmp_path: Path, arm: Arm) -> None:
    towers = similarities(replace(arm, gru=5, lora=None), False, tmp_path)
    mrr = towers["about"]["validation"][towers["about"]["epoch"] - 1]
    assert searched(towers["held out"])[0].value == pytest.approx(mrr, abs=1e-6)
    assert not set(towers["held out rows"]) & set(small_set("one", DAY).split.test)


def test_no_training_reads_what_another_author_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arm: Arm) -> None:
    data, trained = replace(small_set("one", DAY), by_others=2), []
    for text in ("A Guru comes first.", "Nothing of the kind."):
        texts = [text if row in data.queries else ours for row, ours in enumerate(data.descriptions)]
        of = replace(data, descriptions=texts)
        monkeypatch.setattr(arms, "problem", lambda name, small, of=of: of)
        trained.append(similarities(arm, False, tmp_path / text))
    one, other = trained
    assert np.array_equal(one["held out"], other["held out"])
    assert one["about"]["validation"] == other["about"]["validation"]
    assert np.array_equal(one["test"][2:], other["test"][2:])
    assert not np.array_equal(one["test"][:2], other["test"][:2])
    assert "types" not in one  # of no use where the descriptions are free text


def test_untrained_models_are_read_too(tmp_path: Path, arm: Arm) -> None:
    untuned = similarities(replace(arm, epochs=0), False, tmp_path)
    assert "gaps" not in untuned
    assert "validation" not in untuned["about"]


def test_the_perfect_reader_tells_no_counterfeit_of_which_the_description_is_true() -> None:
    data = small_set("one", DAY)
    assert perfect_apart(data, "gaps").value == 0.5  # the first type is the same
    assert 0.5 < perfect_apart(data, "types").value <= 1.0


def test_the_settings_of_the_tables_are_among_the_trials() -> None:
    chosen = {**tuned("usgs_earthquakes"), **competing("usgs_earthquakes")}
    for name in RATES:
        assert chosen[name] in TRIALS


def test_the_published_run_has_a_row_for_each_published_number() -> None:
    rows = list(published())
    plain = [name for _, name in ABLATIONS if name == "all"]  # stands in Table 6 too
    assert len(rows) == len(TUNED) + len(UNTUNED) + len(ABLATIONS) - len(plain) == 42 + 42 + 14
    title, trained, score = next(row for row in rows if "hidden=time_and_type" in row[0])
    assert (title, score) == ("Tables 8 to 10: hidden=time_and_type", (0.727, 0.875))
    assert [arm.seed for arm in trained] == [0, 1, 2, 3, 4]
    assert trained[0].reading == {"dtype": "4bit", "unit": HOUR, "hidden": "time_and_type"}
    assert (trained[0].epochs, trained[0].lr, trained[0].batch_size, trained[0].warmup) == (25, 4e-4, 8, 0.02)


def test_the_mixture_of_the_published_sets_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTVEC_DATA", str(tmp_path))
    for place, name in enumerate(FOLDERS[:-1]):
        write_records(small_set(name, DAY, 20, place), tmp_path / "tesrbench" / name)
    assert [len(rows) for rows in arms.problem("tesrbench/mixed", False).split] == [5 * 4, 0, 0]
    assert len(arms.problem("tesrbench/nyc-taxi", False)) == 20


@pytest.mark.parametrize(("reads", "exchanged"), [("text", "gaps"), ("time", "types")])
def test_what_is_not_read_is_told_apart_by_half(tmp_path: Path, arm: Arm, reads: str, exchanged: str) -> None:
    z = similarities(replace(arm, reading={"reads": reads}, epochs=1), False, tmp_path)
    score = share_told_apart(z["test"], z[exchanged], z[f"{exchanged} differ"])
    assert z[f"{exchanged} differ"].any()
    assert (score.value, score.half_width) == (0.5, 0.0)
