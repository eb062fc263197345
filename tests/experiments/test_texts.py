"""Texts as histories of words: which words each kind of text has, in which order, and which are known."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from experiments.coles import texts

from disk import parquet


@pytest.fixture
def frames(folder: Path) -> dict[str, pl.DataFrame]:
    """Return the words of two packages with two entries each, listed with the last entry first."""
    columns = {
        "package": ["b", "b", "a", "a"],
        "date": [datetime.datetime(2020, 1, day) for day in (4, 3, 2, 1)],
        "urgency": ["low"] * 4,
        "text": ["End.", "Fix the build, fix 3 tests", "New patch for Ärger", "New upstream"],
    }
    parquet(folder / "debian_changelogs/entries.parquet", columns)
    return texts.word_frames(small=False, seed=0)


def words(frame: pl.DataFrame) -> dict[str, list[str]]:
    ordered = frame.sort("position")
    return {package: ordered.filter(pl.col("package") == package)["word"].to_list() for package in ("a", "b")}


def test_a_changelog_has_its_words_in_the_order_of_dates(frames: dict[str, pl.DataFrame]) -> None:
    assert words(frames[texts.CHANGELOGS]) == {
        "a": ["new", "upstream", "new", "patch", "for", "ärger"],
        "b": ["fix", "the", "build", "fix", "tests", "end"],
    }


def test_the_longest_entry_of_each_package_is_taken(frames: dict[str, pl.DataFrame]) -> None:
    assert words(frames[texts.ENTRIES]) == {
        "a": ["new", "patch", "for", "ärger"],
        "b": ["fix", "the", "build", "fix", "tests"],
    }


def test_dealing_keeps_words_and_lengths(frames: dict[str, pl.DataFrame]) -> None:
    whole, dealt = words(frames[texts.CHANGELOGS]), words(frames[texts.DEALT])
    assert {key: len(values) for key, values in whole.items()} == {key: len(values) for key, values in dealt.items()}
    assert Counter(whole["a"] + whole["b"]) == Counter(dealt["a"] + dealt["b"])
    assert whole != dealt


def test_rare_words_are_unknown(frames: dict[str, pl.DataFrame]) -> None:
    data = texts.histories(frames[texts.CHANGELOGS], 2)
    assert data.schema.categorical[0].values == ("fix", "new")
    assert data.sequences.lengths.tolist() == [6, 6]
