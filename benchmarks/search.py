"""Searches among a million vectors: exact, approximate with faiss, and among a list of keys; with one thread.

The vectors are those of a real run on the flights inside the package, enlarged with noise: each is repeated, and each
of its numbers gets normal noise of half the standard deviation of that dimension. Queries are vectors of aircraft that
were held out of the index, with noise of the same size.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import torch

import eventvec as ev
from benchmarks.measure import Row, options, show, timed

SIZE, QUERIES, COUNT, NOISE, HELD_OUT = 1_000_000, 200, 10, 0.5, 200


def vectors(small: bool) -> tuple[ev.Embeddings, np.ndarray]:
    """Return the embeddings to search, and `(QUERIES, dim)` the vectors to search for."""
    flights = ev.datasets.flights()[0][: 800 if small else None]
    run = ev.fit(flights[: 100 if small else None], method="coles", epochs=1 if small else 5, beside=[])
    z = run.embed(flights)
    rng, n = np.random.default_rng(0), 10_000 if small else SIZE
    noise = NOISE * z.values.std(0)
    order = rng.permutation(len(z))
    base = order[HELD_OUT:][rng.integers(0, len(z) - HELD_OUT, n)]
    enlarged = z.values[base] + noise * rng.standard_normal((n, z.shape[1]), np.float32)
    queries = z.values[order[:HELD_OUT]] + noise * rng.standard_normal((HELD_OUT, z.shape[1]), np.float32)
    many = replace(z, keys=pa.array(np.arange(n)), values=enlarged, events=z.events[base], last_time=z.last_time[base])
    return many, queries[:QUERIES]


def rows(small: bool) -> list[Row]:
    """Return one row for each way to search."""
    torch.set_num_threads(1)
    import faiss

    faiss.omp_set_num_threads(1)
    z, queries = vectors(small)
    start = time.perf_counter()
    exact = ev.Index.of(z)
    built = time.perf_counter() - start
    start = time.perf_counter()
    approximate = ev.Index.of(z, approximate=True)
    cells = time.perf_counter() - start
    truth = exact.neighbours(queries, COUNT)[0]
    some = np.sort(np.random.default_rng(1).permutation(len(z))[: len(z) // 100])
    table = [
        _row("exact", exact, queries, truth, built, None),
        _row("approximate", approximate, queries, truth, cells, None),
        _row("among 1 % of the keys", approximate, queries, exact.neighbours(queries, COUNT, among=some)[0], 0.0, some),
    ]
    for row, index in zip(table, (exact, approximate, approximate), strict=True):
        row["probes"] = index.inverted.probes if index.inverted else None
        row["recall at the build"] = index.recall
        row["update of 1,000, s"] = timed(lambda index=index: index.update(z[:1000]))
    return table


def _row(
    what: str, index: ev.Index, queries: np.ndarray, truth: np.ndarray, built: float, among: np.ndarray | None
) -> Row:
    singles = [timed(lambda q=q: index.neighbours(q, COUNT, among=among)) for q in queries]
    found = index.neighbours(queries, COUNT, among=among)[0]
    recall = np.mean([len({*one} & {*other}) / COUNT for one, other in zip(found, truth, strict=True)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        saved = timed(lambda: index.save(path))
        loaded = timed(lambda: ev.read_index(path))
        size = path.stat().st_size
    return {
        "search": what, "vectors": len(index), "numbers": index.z.shape[1], "recall@10": float(recall),
        "ms a query": 1e3 * median(singles), "slowest": 1e3 * max(singles),
        "ms a query of 200": 1e3 * timed(lambda: index.neighbours(queries, COUNT, among=among)) / len(queries),
        "build, s": built, "save, s": saved, "load, s": loaded, "file, GB": size / 1e9,
    }  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    given = options(__doc__, "search").parse_args()
    show("searches", rows(given.small), {"threads": 1}, given.json)


if __name__ == "__main__":
    main()
