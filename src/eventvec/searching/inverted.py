"""Approximate search by an inverted file of faiss: vectors in cells around centroids, of which the nearest are read.

Each vector is kept in 8 bits per number. The candidates that a search finds are ranked again by the exact vectors, so
that scores are exact. The number of cells to read is the smallest power of two that finds `RECALL` of the exact
neighbours of a sample of the vectors themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eventvec.errors import DataError, need
from eventvec.sequences import Array

RECALL = 0.98
"""The share of exact neighbours that a search must find, in a sample of the vectors."""
SAMPLE = 200
"""The number of vectors in that sample."""
COUNT = 10
"""The number of neighbours for which the recall is measured."""
CANDIDATES = 8
"""The number of candidates for each neighbour, before they are ranked by the exact vectors."""
FEWEST = 10_000
"""The number of vectors from which cells can be learned."""
PER_CELL = 64
"""The number of vectors for each centroid that k-means is trained on."""


@dataclass(frozen=True, eq=False)
class Inverted:
    """An inverted file over the rows of a matrix.

    `faiss_index` has rows as ids; a search reads `probes` cells, and finds a share `recall` of the 10 exact ones.
    """

    faiss_index: Any
    probes: int
    recall: float

    @staticmethod
    def of(vectors: Array) -> Inverted:
        """Return an inverted file of `(n, dim)` float32 vectors of length 1."""
        faiss = need("faiss", "search")
        n, dim = vectors.shape
        if n < FEWEST:
            raise DataError(
                f"an approximate index needs at least {FEWEST:,} vectors, got {n:,}; exact search is as fast here"
            )
        cells = round(4 * n**0.5)
        rng = np.random.default_rng(0)
        training = vectors[np.sort(rng.permutation(n)[: PER_CELL * cells])]
        kind = faiss.ScalarQuantizer.QT_8bit
        quantizer = faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFScalarQuantizer(quantizer, dim, cells, kind, faiss.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = 1
        index.train(training)
        index.add_with_ids(vectors, np.arange(n))
        queries = np.sort(rng.permutation(n)[:SAMPLE])
        exact = np.argpartition(-(vectors[queries] @ vectors.T), COUNT, axis=1)[:, : COUNT + 1]  # themselves among them
        probes, recall = 1, 0.0
        while recall < RECALL and probes <= cells:
            rows, _ = Inverted(index, probes, recall).neighbours(vectors, vectors[queries], COUNT + 1)
            hits = [len(set(one) & set(other)) for one, other in zip(exact.tolist(), rows.tolist(), strict=True)]
            recall = sum(hits) / exact.size
            probes *= 1 if recall >= RECALL else 2
        return Inverted(index, probes, recall)

    def neighbours(self, vectors: Array, queries: Array, count: int) -> tuple[Array, Array]:
        """Return `(m, count)` the rows nearest to each query, −1 where there is none, and their scores, best first."""
        self.faiss_index.nprobe = self.probes
        candidates = self.faiss_index.search(queries, CANDIDATES * count)[1]
        scores = np.einsum("mkd,md->mk", vectors[np.maximum(candidates, 0)], queries)
        scores[candidates < 0] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(candidates, order, 1), np.take_along_axis(scores, order, 1)

    def changed(self, removed: Array, added: Array, vectors: Array) -> Inverted:
        """Return the inverted file without some rows, and then with the vectors of others."""
        index = need("faiss", "search").clone_index(self.faiss_index)
        index.remove_ids(removed.astype(np.int64))
        index.add_with_ids(np.ascontiguousarray(vectors, np.float32), added.astype(np.int64))
        return replace(self, faiss_index=index)

    def dump(self) -> tuple[Array, dict[str, Any]]:
        """Return the bytes of faiss' index, and plain values that `loaded` needs beside them."""
        data = need("faiss", "search").serialize_index(self.faiss_index)
        return data, {"probes": self.probes, "recall": self.recall}

    @staticmethod
    def loaded(data: Array, described: dict[str, Any], vectors: Array) -> Inverted:
        """Return what `dump` returned as an inverted file; the bytes must be those: faiss trusts the sizes in them."""
        faiss = need("faiss", "search")
        index = faiss.deserialize_index(data)
        if not isinstance(index, faiss.IndexIVFScalarQuantizer) or (index.ntotal, index.d) != vectors.shape:
            raise ValueError("the inverted file is not one of these vectors")
        lists = index.invlists
        sizes = [lists.list_size(cell) for cell in range(lists.nlist)]
        ids = [faiss.rev_swig_ptr(lists.get_ids(cell), size) for cell, size in enumerate(sizes) if size]
        if not np.array_equal(np.sort(np.concatenate(ids)), np.arange(len(vectors))):
            raise ValueError("the inverted file has other rows than the vectors")
        return Inverted(index, int(described["probes"]), float(described["recall"]))
