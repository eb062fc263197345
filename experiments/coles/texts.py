"""The control of Figure 4, panel e: texts as histories of words, which the paper takes for data that do not repeat."""

from __future__ import annotations

import polars as pl
import torch

from eventvec import Fitting, read
from eventvec.dataset import Dataset
from experiments.coles.repetition import divergence_row
from experiments.command_line import Row
from experiments.data import debian_changelogs_frames

VOCABULARIES = (200, 1_000, 5_000)
"""How many of the most frequent words are event types of their own; all other words are one more type."""
CHANGELOGS, ENTRIES, DEALT = "changelogs", "longest entries", "changelogs, words dealt at random"
SMALL_PACKAGES = 60


def rows(small: bool, seed: int) -> list[Row]:
    """Return a row per kind of text and vocabulary: divergences of words within one text and between texts."""
    result: list[Row] = []
    for name, frame in word_frames(small, seed).items():
        for size in VOCABULARIES[:1] if small else VOCABULARIES:
            data, rng = histories(frame, size), torch.Generator().manual_seed(seed)
            result.append({**divergence_row(name, data, "word", rng), "vocabulary": size, "texts": len(data)})
    return result


def word_frames(small: bool, seed: int) -> dict[str, pl.DataFrame]:
    """Return the words of Debian changelogs by kind of text, one row per word: `package`, `position`, `word`.

    A text is the whole changelog of a package, or its longest entry, so that there is one text for each package. In the
    third kind the words of all changelogs are dealt to the packages at random: nothing tells one text from another.
    """
    entries = debian_changelogs_frames()[0].with_row_index("entry")
    if small:
        entries = entries.filter(pl.col("package").rank("dense") <= SMALL_PACKAGES)
    words = (
        entries.with_columns(pl.col("text").str.to_lowercase().str.extract_all(r"\p{L}+").alias("word"))
        .explode("word")
        .drop_nulls("word")
        .with_row_index("position")
    )
    longest = pl.col("entry") == pl.col("entry").sort_by("length", "entry").last().over("package")
    longest_entries = words.with_columns(length=pl.len().over("package", "entry")).filter(longest).drop("length")
    return {
        CHANGELOGS: words,
        ENTRIES: longest_entries,
        DEALT: words.with_columns(pl.col("word").shuffle(seed)),
    }


def histories(words: pl.DataFrame, vocabulary: int) -> Dataset:
    """Return texts with a word as an event, one per package; words outside the vocabulary are unknown.

    Args:
        words: `package`, `position` and `word`.
        vocabulary: The number of words that are known, the most frequent ones.
    """
    fitting = Fitting(min_count=1, max_values=vocabulary)
    return read(words, key="package", time="position", categorical=("word",), numeric=(), fitting=fitting)
