"""Vectors by key that can be searched, exactly or approximately, and the file that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from eventvec.errors import CheckpointError, ConfigError, DataError, refuse_masked
from eventvec.options import at_least
from eventvec.searching.index_files import Content, merged, place_of, row_of
from eventvec.searching.inverted import Inverted
from eventvec.sequences import Array
from eventvec.tables import Embeddings

BLOCK = 1 << 22
"""The number of scores that an exact search computes at once."""


@dataclass(frozen=True, eq=False)
class Index:
    """Vectors by key, in which the nearest to a vector are found by their cosine similarity.

    Only the learned part of each vector is compared, because the other parts have scales of their own. Like
    embeddings, an index never changes: `update` and `forget` return another one.

    Relations: `search` gives a table of hits for a key, a history or a text.

    Args:
        z: `n` embeddings of one row per entity, whose vectors have length 1 and are the learned part alone.
        inverted: What an approximate search reads; None for exact search.

    Example:
        >>> import eventvec as ev
        >>> import polars as pl
        >>> data = ev.read(pl.DataFrame({"card": [7, 8, 9], "day": [1, 2, 3]}), key="card", time="day", numeric=[])
        >>> index = Index.of(Embeddings.of(data, np.array([[1.0, 0.0], [3.0, 0.1], [0.0, 1.0]])))
        >>> rows, scores = index.neighbours(np.array([[1.0, 0.0]]), count=2)
        >>> index.keys.take(pa.array(rows[0])).to_pylist(), [round(score, 3) for score in scores[0].tolist()]
        ([7, 8], [1.0, 0.999])
    """

    z: Embeddings
    inverted: Inverted | None = None

    @staticmethod
    def of(z: Embeddings, *, approximate: bool = False) -> Index:
        """Return an index of embeddings.

        Args:
            z: The embeddings, one row per entity.
            approximate: Whether the search is approximate, which needs faiss (the extra `search`) and at least 10,000
                vectors. `Index.recall` is its measured share of the exact neighbours.

        Raises:
            ConfigError: If entities have several vectors, at several times, or faiss is not installed.
            DataError: If there are too few vectors for an approximate search.
        """
        if not isinstance(z, Embeddings):
            raise ConfigError(
                f"an index is made of Embeddings, got {type(z).__name__}; see ev.embed, ev.read_embeddings"
            )
        if z.moments is not None:
            raise ConfigError(
                "an index needs one vector per entity, and these histories were cut at a time each; embed them whole"
            )
        unit = unit_length(learned_part(z))
        metadata = {name: value for name, value in z.metadata.items() if name != "parts"}
        return Index(replace(z, values=unit, metadata=metadata), Inverted.of(unit) if approximate else None)

    def __len__(self) -> int:
        return len(self.z)

    def __repr__(self) -> str:
        kind = "exact" if self.inverted is None else f"approximate, recall {self.inverted.recall:.3f}"
        return f"Index({len(self):,} entities, {self.z.shape[1]} numbers each, {kind})"

    @property
    def keys(self) -> pa.Array:
        """`n` keys."""
        return self.z.keys

    @property
    def run(self) -> str | None:
        """The id of the run that made the vectors, if eventvec trained it."""
        return self.z.metadata.get("run")

    @property
    def recall(self) -> float:
        """The share of the 10 exact neighbours that a search finds, measured when the index was made; 1 if exact."""
        return 1.0 if self.inverted is None else self.inverted.recall

    def check_model(self, run: str | None) -> None:
        """Refuse another run than the one that made the vectors.

        Args:
            run: The id of a run.

        Raises:
            CheckpointError: If it is another one.
        """
        if run != self.run:
            raise CheckpointError(
                f"the index holds vectors of the run {self.run}, and not of {run}; vectors of two runs cannot be "
                "compared; build an index for each run"
            )

    def has(self, key: Any) -> bool:
        """Return whether the index has a key; the text of a whole number stands for the number."""
        return place_of(self.keys, key) >= 0

    def row_of(self, key: Any) -> int:
        """Return the row of a key; the text of a whole number stands for the number.

        Raises:
            DataError: If the index does not have the key.
        """
        return row_of(self.keys, key)

    def neighbours(
        self, queries: Array, count: int = 10, *, among: Array | None = None, without: int | None = None
    ) -> tuple[Array, Array]:
        """Return `(m, count)` the rows nearest to each query, best first, and `(m, count)` their cosine similarity.

        Args:
            queries: `(m, dim)` vectors of any length, without parts other than the learned one.
            count: The number of neighbours, at least 1; fewer are returned if there are no more.
            among: `(k,)` the rows to search, exactly; all by default.
            without: A row that is left out, such as that of the query itself.

        Raises:
            ConfigError: If `count` is below 1.
            DataError: If the queries have another number of dimensions, or a number is masked.
        """
        at_least("count", count, 1)
        refuse_masked(queries, "queries")
        queries = np.atleast_2d(np.asarray(queries, np.float32))
        if queries.shape[1] != self.z.shape[1]:
            raise DataError(f"the query has {queries.shape[1]} numbers and the vectors of the index {self.z.shape[1]}")
        queries, asked = unit_length(queries), count + (without is not None)
        found = None
        if self.inverted is not None and among is None:
            found = self.inverted.neighbours(self.z.values, queries, min(asked, len(self)))
        if found is None or (found[0] < 0).any():
            found = nearest_rows(self.z.values, queries, asked, among)
        return found if without is None else left_out(*found, np.array([without]), count)

    def update(self, z: Embeddings) -> Index:
        """Return the index with further vectors: those of keys that it has replace theirs, the others are added.

        Embeddings that `ev.update` returned are numbered by batch. The same batch changes nothing when it is given
        again, an older one is passed over, and one that leaves out a batch is refused.

        Args:
            z: Embeddings of the same run.

        Raises:
            CheckpointError: If they are of another run, or a batch between them and the index is absent.
            DataError: If their vectors have another number of dimensions.
        """
        self.check_model(z.metadata.get("run"))
        before, batch = self.z.metadata.get("batch"), z.metadata.get("batch")
        if before is not None and batch is not None and batch < before:
            return self
        if before is not None and batch is not None and batch > before + 1:
            raise CheckpointError(
                f"the index has the batches of the state store up to number {before}, and this is number {batch}; give "
                "it those between first, or build it again from the embeddings of all entities"
            )
        vectors = unit_length(learned_part(z))
        if vectors.shape[1] != self.z.shape[1]:
            raise DataError(f"the vectors have {vectors.shape[1]} numbers, and those of the index {self.z.shape[1]}")
        rows, keys = merged(self.keys, z.keys)
        columns: dict[str, Any] = {"keys": keys}
        for name, new in (("values", vectors), ("events", z.events), ("last_time", z.last_time)):
            old = vars(self.z)[name]
            columns[name] = np.concatenate([old, np.empty((len(keys) - len(old), *old.shape[1:]), old.dtype)])
            columns[name][rows] = new
        metadata = {**self.z.metadata, **({} if batch is None else {"batch": batch})}
        inverted = self.inverted and self.inverted.changed(rows, rows, vectors)
        return Index(replace(self.z, metadata=metadata, **columns), inverted)

    def forget(self, key: Any) -> Index:
        """Return the index without an entity.

        Raises:
            DataError: If the index does not have the key.
        """
        row, last = self.row_of(key), len(self) - 1
        order = np.arange(last)
        moved = order[row : row + 1].copy()  # where the last one goes; nowhere if it is the one to forget
        order[moved] = last
        removed = np.unique([row, last])
        inverted = self.inverted and self.inverted.changed(removed, moved, self.z.values[[last] * len(moved)])
        return Index(self.z[order], inverted)

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write the index to a file, whole or not at all, which only its owner can read.

        Args:
            path: The file. An index that eventvec wrote is replaced.
            overwrite: Whether another file may be replaced too.

        Raises:
            ConfigError: If the path is no place for a file, see `outputs.check_output`.
        """
        arrays = {"vectors": self.z.values, "events": self.z.events, "last_time": self.z.last_time}
        about: dict[str, Any] = {"metadata": self.z.metadata}
        if self.inverted is not None:
            arrays["inverted"], about["inverted"] = self.inverted.dump()
        Content(self.keys, arrays, about, self.z.schema).write(path, overwrite=overwrite)

    @staticmethod
    def loaded(content: Content) -> Index:
        """Return the index that a file holds.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: If its parts do not belong together.
        """
        keys, arrays, metadata = content.keys, content.arrays, content.about["metadata"]
        z = Embeddings(keys, arrays["vectors"], arrays["events"], arrays["last_time"], content.schema, metadata)
        if not isinstance(metadata, Mapping) or {len(keys)} != {len(z.values), len(z.events), len(z.last_time)}:
            raise ValueError("the parts do not belong together")
        inverted = content.about.get("inverted")
        return Index(z, inverted and Inverted.loaded(arrays["inverted"], inverted, z.values))


def learned_part(z: Embeddings) -> Array:
    """Return `(n, dim)` the learned part of each vector, which is the whole vector if it has no parts."""
    return z.values[:, slice(*z.parts.get("learned", (0, z.shape[1])))]


def unit_length(vectors: Array) -> Array:
    """Return `(n, dim)` float32 the vectors at length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def left_out(rows: Array, scores: Array, without: Array, count: int) -> tuple[Array, Array]:
    """Return at most `count` of each query's neighbours without a row, such as its own, `(1,)` or `(m,)`."""
    is_out = rows == without[:, None]
    last = np.argsort(is_out, axis=1, kind="stable")
    remaining = min(count, rows.shape[1] - bool(is_out.any(1).all()))
    return np.take_along_axis(rows, last, 1)[:, :remaining], np.take_along_axis(scores, last, 1)[:, :remaining]


def nearest_rows(vectors: Array, queries: Array, count: int, among: Array | None = None) -> tuple[Array, Array]:
    """Return `(m, count)` the rows nearest to each query and their scores, from all scores, a block at a time."""
    if among is not None:
        vectors = vectors[among]
    count, step = min(count, len(vectors)), max(count, BLOCK // max(len(queries), 1))
    matrix, q = torch.from_numpy(vectors), torch.from_numpy(queries)
    scores, rows = torch.empty(len(q), 0), torch.empty(len(q), 0, dtype=torch.int64)
    for start in range(0, len(matrix), step):
        block = q @ matrix[start : start + step].T
        best, place = block.topk(min(count, block.shape[1]), dim=1)
        scores, rows = torch.cat([scores, best], 1), torch.cat([rows, place + start], 1)
        kept = scores.topk(min(count, scores.shape[1]), dim=1)
        scores, rows = kept.values, rows.gather(1, kept.indices)
    found = rows.numpy()
    return (found if among is None else among[found]), scores.numpy()
