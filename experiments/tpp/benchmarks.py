"""Three benchmarks by the recipe of TESRBench (Liu and Quan 2024, Section 3): event sequences with descriptions.

Descriptions come from `describe`, where the paper's come from GPT-4o-mini. The sets are those of the paper that can be
had here (badges and earthquakes, in other extracts), and one more, the measurements of intensive-care stays.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from sklearn.model_selection import train_test_split

import eventvec as ev
from eventvec.dataset import event_lines
from eventvec.errors import ConfigError
from experiments.data.data_folder import data_file
from experiments.tpp.descriptions import EVERY_WORDING, OTHER_WORDINGS, describe
from experiments.tpp.parameter_names import PARAMETER_NAMES

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

KEY = "sequence"
SEED = 0
SEQUENCES, LONGEST, SHORTEST = 1500, 64, 5
"""The most sequences of a benchmark, the most events of a sequence, and the fewest."""
HOUR = 3_600_000
DAY, MONTH = 24 * HOUR, 30 * 24 * HOUR
"""Units in milliseconds, in which all times are: those of the paper, and hours for stays."""


class History(NamedTuple):
    """One sequence: its key, and the type and time of each event, in order of time."""

    key: int
    names: list[str]
    times: list[int]


class Split(NamedTuple):
    """The rows of the three parts of a benchmark."""

    training: Array
    validation: Array
    test: Array


@dataclass(frozen=True)
class Benchmark:
    """Sequences of one set, each with a description.

    Args:
        name: The name of the set.
        events: `sequence`, `time` in milliseconds and `type_text`, in order of sequences and times.
        descriptions: One per sequence, in ascending order of `sequence`.
        unit: The unit of relative times in milliseconds.
        split: The rows of the three parts.
        by_others: How many rows of the test part, the first ones, another author described; 0 for a benchmark whose
            descriptions all come from `describe`.
    """

    name: str
    events: pl.DataFrame
    descriptions: list[str]
    unit: int
    split: Split
    by_others: int = 0

    def __len__(self) -> int:
        return len(self.descriptions)

    @property
    def queries(self) -> Array:
        """The rows whose descriptions are searched for: the whole test part, or what another author described of it."""
        return self.split.test[: self.by_others or None]

    def histories(self) -> list[History]:
        """Return the sequences in ascending order of keys."""
        return _histories(self.events)

    def serialised(self) -> list[str]:
        """Return the sequences as text: a line of relative time and type for each event."""
        since = self.events.select((pl.col("time") - pl.col("time").first()).over(KEY) / self.unit).to_series()
        lengths = self.events.group_by(KEY, maintain_order=True).len()["len"]
        return event_lines(since.to_numpy(), self.events["type_text"].to_arrow(), lengths.to_numpy())

    def dataset(self) -> ev.Dataset:
        """Return the sequences with their descriptions as a static column of texts, in ascending order of keys."""
        keys = self.events[KEY].unique(maintain_order=True)
        static = pl.DataFrame({KEY: keys, "description": self.descriptions})
        return ev.read(
            self.events, key=KEY, time="time", categorical=["type_text"], static=static,
            static_columns={"description": "text"}, fitting=ev.Fitting(min_count=1),
        )  # fmt: skip


def benchmark(name: str, seed: int = SEED, sequences: int = SEQUENCES, longest: int = LONGEST) -> Benchmark:
    """Return one of the benchmarks.

    A random part of the sequences of at least 5 events is drawn; of each, the first events count. Their descriptions
    depend on the seed and the key, not on one another.

    Args:
        name: A key of `SETS`.
        seed: The seed of the descriptions; the sequences are always the same.
        sequences: At most this many.
        longest: The number of events of each sequence, at most.

    Raises:
        ConfigError: If there is no such benchmark.
        DataError: If the file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> benchmark("stackoverflow_badges").descriptions[0]  # doctest: +SKIP
    """
    if name not in SETS:
        raise ConfigError(f"benchmark {name!r} is not known; accepted: {', '.join(SETS)}")
    load, unit = SETS[name]
    events = _drawn(load(), sequences, longest)
    texts = _described(name, events, seed, EVERY_WORDING)
    return Benchmark(name, events, texts, unit, split(len(texts)))


def reworded(data: Benchmark) -> Benchmark:
    """Return a benchmark whose descriptions state the same facts, never in the first wording of a kind or a part.

    Args:
        data: A benchmark of one set, as `benchmark` returns it by default.

    Example:
        >>> reworded(benchmark("stackoverflow_badges")).descriptions[0]  # doctest: +SKIP
    """
    return replace(data, descriptions=_described(data.name, data.events, SEED, OTHER_WORDINGS))


def described_by_others(name: str, sequences: int = SEQUENCES, longest: int = sys.maxsize) -> Benchmark:
    """Return a benchmark whose test part begins with histories that another author described, in free text.

    After them, the test part has that of the usual benchmark. Training and validation are drawn from the histories that
    the data allow for learning, the keys of `described/*_train.jsonl`; where there is no such file, from the other
    parts of the usual benchmark. Nothing is learned from a described history. All descriptions but those of the other
    author come from `describe`. Histories are whole, as that author read them, and stays have the values of their
    measurements as `value`.

    Args:
        name: A key of `SETS`.
        sequences: The number of sequences of the usual benchmark. If it is smaller than by default, so are the other
            parts: a tenth of it are described histories, and at most as many are for training and validation.
        longest: The number of events of each sequence, at most.

    Raises:
        DataError: If a file is not in the folder that EVENTVEC_DATA names.

    Example:
        >>> described_by_others("usgs_earthquakes").by_others  # doctest: +SKIP
        40
    """
    file, load = OTHERS[name]
    path = data_file(f"described/{file}.jsonl", "a language model that reads the events by TESRBench's instruction")
    texts = dict(pl.read_ndjson(path).iter_rows())
    usual, small = benchmark(name, sequences=sequences), sequences < SEQUENCES
    keys = usual.events[KEY].unique(maintain_order=True).to_numpy()
    described = np.array(list(texts))[: sequences // 10 if small else None]
    test = np.concatenate([described, np.setdiff1d(keys[usual.split.test], list(texts))])
    learned = np.setdiff1d(_may_be_learned(path, keys), np.concatenate([list(texts), test]))
    training, validation = train_test_split(learned[: sequences if small else None], test_size=1 / 9, random_state=SEED)
    parts = training, validation, test
    events = _first_events(load(), pl.DataFrame({KEY: np.concatenate(parts)}), longest)
    every = events[KEY].unique(maintain_order=True).to_numpy()
    ours = _described(name, events, SEED, EVERY_WORDING)
    descriptions = [texts.get(key, text) for key, text in zip(every.tolist(), ours, strict=True)]
    rows = Split(*(np.searchsorted(every, part) for part in parts))
    return Benchmark(name, events, descriptions, usual.unit, rows, len(described))


def _may_be_learned(path: Path, keys: Array) -> Array:
    """Return the keys of the file of histories to train on that lies beside the described ones, or else all keys."""
    named = path.with_name(f"{path.stem}_train.jsonl")
    return pl.read_ndjson(named).to_series().to_numpy() if named.is_file() else keys


def with_more_pairs(data: Benchmark, sequences: int = sys.maxsize) -> Benchmark:
    """Return a benchmark with other sequences of its set for training; validation and test are the same.

    Args:
        data: A benchmark of one set.
        sequences: At most this many.

    Example:
        >>> len(with_more_pairs(benchmark("stackoverflow_badges")).split.training)  # doctest: +SKIP
        3480
    """
    longest = int(data.events.group_by(KEY).len()["len"].max())  # type: ignore[arg-type]
    more = benchmark(data.name, sequences=sequences, longest=longest)
    few, every = (each.events[KEY].unique(maintain_order=True).to_numpy() for each in (data, more))
    held_out = [np.flatnonzero(np.isin(every, few[rows])) for rows in (data.split.validation, data.split.test)]
    training = np.setdiff1d(np.arange(len(every)), np.concatenate(held_out))
    return replace(more, split=Split(training, *held_out))


def mixed(benchmarks: Sequence[Benchmark], share: float = 0.3) -> Benchmark:
    """Return a random share of each part of several benchmarks, side by side, as the published code mixes domains.

    A unit of each set becomes an hour, so that times keep the numbers that they have in their own unit.

    Args:
        benchmarks: The sets.
        share: The share, rounded down.

    Example:
        >>> mixed([benchmark(name) for name in SETS]).split.test  # doctest: +SKIP
    """
    rng, parts, texts, start = np.random.default_rng(SEED), [], list[str](), 0
    chosen: dict[str, list[Array]] = {part: [] for part in Split._fields}
    for data in benchmarks:
        drawn = {part: rng.permutation(rows)[: int(share * len(rows))] for part, rows in data.split._asdict().items()}
        taken = np.sort(np.concatenate(list(drawn.values())))
        keys = data.events[KEY].unique(maintain_order=True).gather(taken)
        renamed = pl.DataFrame({KEY: keys, "row": np.arange(start, start + len(taken))})
        since = (pl.col("time") - pl.col("time").first()).over(KEY) / data.unit * HOUR
        events = data.events.join(renamed, on=KEY, maintain_order="left")
        parts.append(events.select(pl.col("row").alias(KEY), time=since.round().cast(pl.Int64), type_text="type_text"))
        texts += [data.descriptions[i] for i in taken]
        for part, rows in drawn.items():
            chosen[part].append(start + np.searchsorted(taken, rows))
        start += len(taken)
    return Benchmark("mixed", pl.concat(parts), texts, HOUR, Split(*map(np.concatenate, chosen.values())))


def split(n: int) -> Split:
    """Return the rows of training, validation and test (80, 10 and 10 %), drawn as the published code does.

    Args:
        n: The number of sequences; with fewer than 10, all are for training.

    Example:
        >>> [len(rows) for rows in split(1500)]
        [1200, 150, 150]
    """
    if n < 10:
        return Split(np.arange(n), np.arange(0), np.arange(0))
    training, rest = train_test_split(np.arange(n), test_size=0.2, random_state=SEED)
    validation, test = train_test_split(rest, test_size=0.5, random_state=SEED)
    return Split(training, validation, test)


def stackoverflow_badges() -> pl.DataFrame:
    """Return the badges of users with 40 to 100 of them, of types awarded 200 times or more: 3,780 users, 19 types."""
    path = data_file("stackoverflow_badges/events.parquet", "Stack Overflow badges in the form of Du et al. 2016")
    milliseconds = (pl.col("time") * 1000).round().cast(pl.Int64)
    table = pl.read_parquet(path).select(
        sequence="seq_id", time=milliseconds, type_text=pl.col("type_text").cast(pl.String)
    )
    return table.filter(pl.len().over(KEY).is_between(40, 100)).filter(pl.len().over("type_text") >= 200)


def usgs_earthquakes() -> pl.DataFrame:
    """Return earthquakes by place, broken at gaps of more than a day, 5 to 30 each: 839 sequences, 3 types."""
    path = data_file(
        "usgs_earthquakes/tppllm_style_sequences.parquet", "https://earthquake.usgs.gov/earthquakes/search"
    )
    return pl.read_parquet(path).select(sequence="seq_id", time=pl.col("time").dt.epoch("ms"), type_text="type_text")


def physionet2012() -> pl.DataFrame:
    """Return the parameters measured during the intensive-care stays of set a: 3,997 stays, 37 types."""
    return _measurements().filter(pl.col("set") == "a").select(KEY, "time", "type_text").collect()


def every_stay() -> pl.DataFrame:
    """Return the parameters measured during the stays of all three sets, and their values."""
    return _measurements().select(KEY, "time", "type_text", "value").collect()


def _measurements() -> pl.LazyFrame:
    path = data_file("physionet2012/events.parquet", "https://physionet.org/content/challenge-2012")
    written = pl.col("parameter").cast(pl.String).replace_strict(PARAMETER_NAMES)
    milliseconds = pl.col("minutes").cast(pl.Int64) * 60_000
    return pl.scan_parquet(path).select("set", "value", sequence="record_id", time=milliseconds, type_text=written)


SETS: dict[str, tuple[Callable[[], pl.DataFrame], int]] = {
    "stackoverflow_badges": (stackoverflow_badges, MONTH),
    "usgs_earthquakes": (usgs_earthquakes, DAY),
    "physionet2012": (physionet2012, HOUR),
}
"""The loader of each set, and the unit of its relative times."""
OTHERS: dict[str, tuple[str, Callable[[], pl.DataFrame]]] = {
    "stackoverflow_badges": ("badges", stackoverflow_badges),
    "usgs_earthquakes": ("earthquakes", usgs_earthquakes),
    "physionet2012": ("stays", every_stay),
}
"""The file of descriptions by another author, and the loader of the histories that this author read."""


def _drawn(events: pl.DataFrame, sequences: int, longest: int) -> pl.DataFrame:
    """Return the first events of random sequences, in order of keys and times, then of the table."""
    keys = events.filter(pl.len().over(KEY) >= SHORTEST)[KEY].unique().sort()
    drawn = keys.gather(np.random.default_rng(SEED).permutation(len(keys))[:sequences])
    return _first_events(events, drawn.to_frame(), longest)


def _first_events(events: pl.DataFrame, keys: pl.DataFrame, longest: int) -> pl.DataFrame:
    """Return the first events of some sequences, in order of keys and times, then of the table."""
    ordered = events.join(keys.cast(dict(events.select(KEY).schema)), on=KEY, how="semi", maintain_order="left")
    ordered = ordered.sort(KEY, "time", maintain_order=True)
    return ordered.filter(pl.int_range(pl.len()).over(KEY) < longest)


def _described(name: str, events: pl.DataFrame, seed: int, among: slice) -> list[str]:
    """Return a description of each sequence, in some of the wordings; its facts depend on the seed and the key."""
    return [
        describe(names, times, random.Random(f"{name} {seed} {key}"), among) for key, names, times in _histories(events)
    ]


def _histories(events: pl.DataFrame) -> list[History]:
    grouped = events.group_by(KEY, maintain_order=True).agg("type_text", "time")
    return [History(*row) for row in grouped.iter_rows()]
