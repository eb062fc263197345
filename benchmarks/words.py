"""Searches by words among 10,000 and 100,000 histories: the time and memory of the index and of a query; one thread.

The histories are slices of those of the aircraft inside the package: a random aircraft, and up to 100 of its flights in
a row from a random one on. They are described, and their sentences are embedded by all-MiniLM-L6-v2 and compared with
the queries. Memory is the largest that the process held, above what it held before.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
import torch

import eventvec as ev
from benchmarks.measure import Row, options, show, timed
from eventvec.describing.matching import Sentences
from eventvec.encoders import SentenceEncoder
from eventvec.searching.sentence_index import MODEL

SIZES, EVENTS, REPEATS = (10_000, 100_000), 100, 5
QUERIES = (
    "a long silence, then many flights",
    "mostly at night. Often the same destination several times in a row.",
    "flies ever longer distances",
    "regular on Mondays; late towards the end",
    "starts in Newark, then only from JFK",
)


def histories(n: int) -> ev.Dataset:
    """Return `n` slices of real histories."""
    flights = ev.datasets.flights()[0]
    x, rng = flights.sequences, np.random.default_rng(0)
    base = rng.integers(0, len(x), n)
    lengths = x.lengths.numpy()[base]
    starts = x.starts.numpy()[base] + (rng.random(n) * np.maximum(lengths - EVENTS, 1)).astype(np.int64)
    slices = ev.Sequences(x.columns, torch.from_numpy(starts), torch.from_numpy(np.minimum(lengths, EVENTS)))
    return ev.Dataset(pl.Series(np.arange(n)).to_arrow(), slices, flights.schema)


def rows(small: bool) -> list[Row]:
    """Return one row for each number of histories."""
    torch.set_num_threads(1)
    return [_row(histories(n), QUERIES[:2] if small else QUERIES * REPEATS) for n in ((3,) if small else SIZES)]


def _row(data: ev.Dataset, queries: Sequence[str]) -> Row:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    plain = ev.SentenceIndex.of(data, backbone=None)
    described = time.perf_counter() - start
    encoder = SentenceEncoder(MODEL)
    start = time.perf_counter()
    index = replace(plain, sentences=Sentences.of(plain.sentences.table(), encoder))
    embedded = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    seconds = [timed(lambda text=text: ev.search(index, text=text)) for text in queries]
    by_words = [timed(lambda text=text: ev.search(plain, text=text)) for text in queries]
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder) / "index")
        size = (Path(folder) / "index").stat().st_size
    return {
        "histories": len(index), "events": data.sequences.total, "sentences": len(index.sentences.ids),
        "distinct": len(index.sentences.texts), "describe, s": described, "embed, s": embedded,
        "ms a query": 1e3 * median(seconds), "slowest": 1e3 * max(seconds), "ms, BM25": 1e3 * median(by_words),
        "memory, GB": memory / 1e6, "file, GB": size / 1e9,
    }  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    given = options(__doc__, "words").parse_args()
    show("searches by words", rows(given.small), {"threads": 1}, given.json)


if __name__ == "__main__":
    main()
