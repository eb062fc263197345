"""The three benchmarks: their recipes on small files of the same form; test_tpp_truth.py has those of the real ones."""

from __future__ import annotations

import datetime
import json
import random
from pathlib import Path

import polars as pl
import pytest
from experiments.data.data_folder import data_file
from experiments.tpp.benchmarks import DAY, KEY, OTHERS, SETS, Benchmark, benchmark, described_by_others, split
from experiments.tpp.parameter_names import PARAMETER_NAMES

import backbones
from disk import parquet
from eventvec.dataset import strings
from eventvec.encoders.language import LanguageEncoder
from eventvec.errors import ConfigError, DataError


def rows_of(sequences: dict[int, list[tuple[float, str]]]) -> list[tuple[int, float, str]]:
    return [(key, time, name) for key, events in sequences.items() for time, name in events]


@pytest.fixture
def badges(folder: Path) -> dict[int, list[tuple[float, str]]]:
    """Write badges of 12 users: one has too few, one too many, and one type is awarded too seldom.

    Two users have the fewest and the most badges that count, and a type is awarded 200 times to those who count.
    """
    rng = random.Random(0)
    sequences: dict[int, list[tuple[float, str]]] = {}
    for user in range(12):
        number = {0: 40, 1: 100, 3: 39, 7: 101}.get(user, rng.randint(41, 99))
        names = [rng.choice(("Guru", "Caucus")) for _ in range(number - 21)] + ["Yearling"] * 20 + ["Publicist"]
        names = names if user not in (3, 7) else ["Guru"] * number
        sequences[user] = [(1.3e9 + 86_400.25 * day, name) for day, name in enumerate(names)]
    rows = rows_of(sequences)
    rng.shuffle(rows)
    parquet(
        folder / "stackoverflow_badges/events.parquet",
        {name: [row[place] for row in rows] for place, name in enumerate(("seq_id", "time", "type_text"))},
    )
    return sequences


def test_badges_follow_the_recipe(badges: dict[int, list[tuple[float, str]]]) -> None:
    data = benchmark("stackoverflow_badges")
    histories = {history.key: history for history in data.histories()}
    assert list(histories) == [user for user in badges if user not in (3, 7)]
    for user, history in histories.items():
        expected = [(time, name) for time, name in badges[user] if name != "Publicist"][:64]
        assert history.names == [name for _, name in expected]
        assert history.times == [round(time * 1000) for time, _ in expected]


def test_descriptions_depend_on_the_seed_and_the_key_only(badges: dict[int, list[tuple[float, str]]]) -> None:
    every, some, again = benchmark("stackoverflow_badges"), benchmark("stackoverflow_badges", sequences=4), benchmark(
        "stackoverflow_badges", seed=1
    )  # fmt: skip
    by_key = dict(zip((history.key for history in every.histories()), every.descriptions, strict=True))
    assert len(some) == 4
    assert [by_key[history.key] for history in some.histories()] == some.descriptions
    assert some.descriptions == benchmark("stackoverflow_badges", sequences=4).descriptions
    assert again.descriptions != every.descriptions


def test_the_data_set_has_the_descriptions_of_its_rows(badges: dict[int, list[tuple[float, str]]]) -> None:
    badges = benchmark("stackoverflow_badges")
    data = badges.dataset()
    assert data.keys.to_pylist() == [history.key for history in badges.histories()]
    assert strings(data.sequences.static["description"]) == badges.descriptions
    assert data.sequences.values("time").tolist() == badges.events["time"].to_list()
    assert {*data.schema.categorical[0].values} == {"Caucus", "Guru", "Yearling"}


def test_a_serialised_history_has_a_line_per_event(folder: Path) -> None:
    start = datetime.datetime(2021, 4, 28, tzinfo=datetime.UTC)
    hours = [0, 6, 7, 30, 30, 48]
    parquet(
        folder / "usgs_earthquakes/tppllm_style_sequences.parquet",
        {
            "seq_id": [0] * 6 + [1] * 4 + [2] * 5,
            "time": [start + datetime.timedelta(hours=hour) for hour in (*hours, *range(4), *range(0, 60, 12))],
            "type_text": ["Small", "Large", "Large", "Small", "Medium", "Large"] + ["Small"] * 9,
        },
    )
    data = benchmark("usgs_earthquakes")  # the second sequence is too short
    assert data.serialised() == [
        "0.00,Small\n0.25,Large\n0.29,Large\n1.25,Small\n1.25,Medium\n2.00,Large",
        "0.00,Small\n0.50,Small\n1.00,Small\n1.50,Small\n2.00,Small",
    ]
    assert (data.unit, data.events[KEY].to_list()) == (DAY, [0] * 6 + [2] * 5)


def test_a_history_is_serialised_as_the_language_encoder_reads_it(badges: dict[int, list[tuple[float, str]]]) -> None:
    users = benchmark("stackoverflow_badges")
    data = users.dataset()
    encoder = LanguageEncoder(backbones.folder(), data.schema, "type_text", unit=users.unit, reads="serialised")
    texts = [
        "\n".join(f"{(time - times[0]) / users.unit:.2f},{name}" for time, name in zip(times, names, strict=True))
        for _, names, times in users.histories()
    ]
    assert users.serialised() == encoder.lines(data.sequences) == texts
    assert texts[0].startswith("0.00,")
    assert "\n0.03," in texts[0]  # a day in months


def test_stays_have_written_names(folder: Path) -> None:
    parquet(
        folder / "physionet2012/events.parquet",
        {
            "set": ["a"] * 6 + ["b"] * 6,
            "record_id": [5] * 6 + [9] * 6,
            "minutes": [0, 0, 7, 7, 60, 90] * 2,
            "parameter": ["HR", "pH", "HR", "K", "HR", "Urine"] * 2,
            "value": [0.0] * 12,
        },
    )
    (history,) = benchmark("physionet2012").histories()
    assert history.names == ["heart rate", "arterial acidity", "heart rate", "potassium", "heart rate", "urine output"]
    assert history.times == [0, 0, 420_000, 420_000, 3_600_000, 5_400_000]


EARTHQUAKES = "usgs_earthquakes"


@pytest.fixture
def earthquakes(folder: Path) -> dict[int, str]:
    """Write 60 sequences, of which another author described five, and 45 may be learned from; return what it wrote."""
    start, rng = datetime.datetime(2021, 4, 28, tzinfo=datetime.UTC), random.Random(0)
    times = [start + datetime.timedelta(hours=hour) for hour in range(6)]
    parquet(
        folder / f"{EARTHQUAKES}/tppllm_style_sequences.parquet",
        {
            "seq_id": [key for key in range(60) for _ in times],
            "time": times * 60,
            "type_text": [rng.choice(("Small", "Large")) for _ in range(360)],
        },
    )
    texts = {key: f"A quake that nobody here would call by the number of {key}." for key in (3, 50, 14, 7, 31)}
    write_lines(folder / "described/earthquakes.jsonl", texts)
    learned = [key for key in range(60) if key not in texts and key % 6]  # those that 6 divides are kept back
    write_lines(folder / "described/earthquakes_train.jsonl", dict.fromkeys(learned, "A text that is not read."))
    return texts


def write_lines(path: Path, texts: dict[int, str]) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps({"seq_id": key, "description": text}) for key, text in texts.items()]
    path.write_text("\n".join(lines) + "\n")


def keys_of(data: Benchmark, part: str) -> list[int]:
    keys = data.events[KEY].unique(maintain_order=True).to_list()
    return [keys[row] for row in getattr(data.split, part)]


def test_what_another_author_described_is_searched_and_never_learned(earthquakes: dict[int, str]) -> None:
    data, usual = described_by_others(EARTHQUAKES), benchmark(EARTHQUAKES)
    learned = keys_of(data, "training") + keys_of(data, "validation")
    test = keys_of(data, "test")
    assert (data.by_others, test[:5]) == (5, list(earthquakes))
    assert set(test[5:]) == set(keys_of(usual, "test")) - set(earthquakes)
    assert [data.descriptions[row] for row in data.queries] == list(earthquakes.values())
    assert not set(learned) & set(test)
    assert set(learned) == {key for key in range(60) if key % 6} - set(test)  # none of those that are kept back
    ours = {text for text in data.descriptions if "nobody" not in text}
    assert ours <= set(usual.descriptions)
    assert len(data.descriptions) == len(learned) + len(test)


def test_where_no_file_names_what_may_be_learned_the_rest_is(earthquakes: dict[int, str], folder: Path) -> None:
    (folder / "described/earthquakes_train.jsonl").unlink()
    data, usual = described_by_others(EARTHQUAKES), benchmark(EARTHQUAKES)
    learned = keys_of(data, "training") + keys_of(data, "validation")
    assert sorted(learned) == sorted({*range(60)} - set(earthquakes) - set(keys_of(usual, "test")))


def test_a_small_set_by_another_author_learns_from_none_of_them_either(earthquakes: dict[int, str]) -> None:
    data = described_by_others(EARTHQUAKES, sequences=30, longest=4)
    assert (data.by_others, len(data.events)) == (3, 4 * len(data))
    assert not {*keys_of(data, "training"), *keys_of(data, "validation")} & set(earthquakes)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", list(SETS))
def test_no_described_history_of_the_data_is_in_a_part_for_training_or_validation(name: str) -> None:
    data, file = described_by_others(name), OTHERS[name][0]
    texts = dict(pl.read_ndjson(data_file(f"described/{file}.jsonl", "")).iter_rows())
    assert keys_of(data, "test")[: data.by_others] == list(texts)
    learned = {*keys_of(data, "training"), *keys_of(data, "validation")}
    assert len(learned) > 500
    assert not learned & set(keys_of(data, "test"))
    assert not {data.descriptions[row] for part in data.split[:2] for row in part} & set(texts.values())


def test_parts_are_those_of_the_published_code() -> None:
    parts = split(3336)
    assert [len(rows) for rows in parts] == [2668, 334, 334]  # Stack Overflow, as published
    assert sorted(row for rows in parts for row in rows) == list(range(3336))


def test_another_set_and_a_missing_file_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="accepted: stackoverflow_badges, usgs_earthquakes, physionet2012"):
        benchmark("taxi")
    for name in SETS:
        with pytest.raises(DataError, match="is needed"):
            benchmark(name)


def test_the_table_of_parameters_has_37_different_names_without_digits() -> None:
    assert len(PARAMETER_NAMES) == len(set(PARAMETER_NAMES.values())) == 37
    assert not any(letter.isdigit() or letter == '"' for name in PARAMETER_NAMES.values() for letter in name)
