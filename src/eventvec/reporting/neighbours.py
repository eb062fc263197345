"""The nearest neighbours of entities, and their histories, which the page shows as timelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch

from eventvec.dataset import Dataset
from eventvec.reporting.entity_columns import most_frequent
from eventvec.reporting.maps import packed
from eventvec.reporting.timelines import EVENTS, Histories, histories
from eventvec.searching.vector_index import learned_part, left_out, nearest_rows, unit_length
from eventvec.sequences import Array
from eventvec.tables import Embeddings
from eventvec.tables.times import to_arrow

EXAMPLES = 12
"""The number of entities that stand for all: each is nearest to the centre of a cluster."""
NEIGHBOURS = 8
"""The number of neighbours of each entity."""
LOOKED_UP = 10_000
"""The largest number of entities for which the neighbours of all are in the page."""
CLUSTERED = 20_000
"""The largest number of entities that are clustered."""
OF_MANY = 500
"""The number of entities whose neighbours are in the page if there are more than that."""
SIMILARITIES = 65_535
"""The number of steps between a cosine similarity of -1 and one of 1."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest neighbours of entities by the cosine similarity of the learned part of their vectors.

    `queries` is `(q,)` rows, the examples first, `nearest` `(q, k)` their neighbours, nearest first, and `similarity`
    `(q, k)`; `entities` were searched. Histories are there if the events are at hand.
    """

    queries: Array
    nearest: Array
    similarity: Array
    examples: int
    entities: int
    histories: Histories | None

    @property
    def rule(self) -> str:
        """How the examples and the other entities were chosen, in words."""
        drawn = len(self.queries) - self.examples
        rest = "" if len(self.queries) == self.entities else f" Of the other entities, {drawn:,} were drawn by lot."
        return (
            f"The {self.examples} examples are typical: the entities were divided into {self.examples} clusters by "
            f"k-means, and each example is nearest to the centre of one, the largest cluster first.{rest}"
        )


def neighbours_of(z: Embeddings, data: Dataset | None, seed: int = 0, first: Sequence[str] = ()) -> Neighbours:
    """Return the nearest neighbours of entities, exactly, by the cosine similarity of the learned part."""
    unit = unit_length(learned_part(z).astype(np.float32))
    rng = np.random.default_rng(seed)
    examples = _typical(unit, rng, seed)
    others = np.setdiff1d(np.arange(len(z)), examples)
    if len(z) > LOOKED_UP:
        others = rng.choice(others, OF_MANY - len(examples), replace=False)
    queries = np.r_[examples, others]
    rows, scores = nearest_rows(unit, unit[queries], min(NEIGHBOURS, len(z) - 1) + 1)
    nearest, similarity = left_out(rows, scores, queries, min(NEIGHBOURS, len(z) - 1))
    timelines = None if data is None else histories(data, _order(queries, nearest, len(z)), EVENTS, first)
    return Neighbours(queries, nearest, similarity, len(examples), len(z), timelines)


def neighbours_data(near: Neighbours) -> dict[str, Any]:
    """Return what the script of the page shows neighbours and timelines from."""
    steps = np.round((near.similarity.clip(-1, 1) + 1) / 2 * SIMILARITIES).astype(np.uint16)
    return {
        "queries": packed(near.queries.astype(np.uint32)),
        "nearest": packed(near.nearest.astype(np.uint32).reshape(-1)),
        "similarity": packed(steps.reshape(-1)),
        "count": near.nearest.shape[1],
        "examples": near.examples,
        "histories": None if near.histories is None else near.histories.to_dict(),
    }


def neighbour_rows(
    near: Neighbours, names: pl.Series, z: Embeddings, data: Dataset | None, count: int = 3
) -> tuple[list[str], list[list[Any]]]:
    """Return the headings and rows of a table: each example, and below it its nearest neighbours."""
    head = ["example", "entity", "similarity", "events", "last event"]
    queries, nearest = near.queries[: near.examples], near.nearest[: near.examples, :count]
    rows = np.concatenate([queries[:, None], nearest], 1).reshape(-1)
    first = np.arange(len(rows)) % (nearest.shape[1] + 1) == 0
    similarity = np.concatenate([np.ones((len(queries), 1)), near.similarity[: near.examples, :count]], 1).reshape(-1)
    part = z[rows]
    last = pl.Series(to_arrow(z.schema, part.last_time, part.events == 0)).cast(pl.String).str.slice(0, 19)
    columns: list[list[Any]] = [
        [f"{place // (nearest.shape[1] + 1) + 1}" if is_first else "" for place, is_first in enumerate(first)],
        names[rows].to_list(),
        ["example" if is_first else f"{value:.3f}" for is_first, value in zip(first, similarity, strict=True)],
        [f"{events:,}" for events in part.events],
        last.fill_null("").to_list(),
    ]
    for field in [] if data is None else [field for field in data.schema.categorical if field.values][:3]:
        assert data is not None
        head.append(f"most frequent {field.name}")
        columns.append(most_frequent(data.sequences[torch.from_numpy(rows)], field).fill_null("").to_list())
    return head, [list(row) for row in zip(*columns, strict=True)]


def _typical(unit: Array, rng: np.random.Generator, seed: int) -> Array:
    """Return the rows nearest to the centres of clusters, that of the largest cluster first."""
    from sklearn.cluster import KMeans

    sample = np.sort(rng.permutation(len(unit))[:CLUSTERED])
    count = min(EXAMPLES, len(np.unique(unit[sample], axis=0)))
    clusters = KMeans(count, n_init=1, random_state=seed).fit(unit[sample])
    distance = clusters.transform(unit[sample])
    sizes = np.bincount(clusters.labels_, minlength=count)
    nearest = sample[distance.argmin(0)][np.argsort(-sizes, kind="stable")]
    return np.asarray(list(dict.fromkeys(nearest.tolist())), np.int64)


def _order(queries: Array, nearest: Array, n: int) -> Array:
    """Return all rows in the order in which their histories enter the page: each query with its neighbours."""
    wanted = np.concatenate([queries[:, None], nearest], 1).reshape(-1)
    _, first = np.unique(np.r_[wanted, np.arange(n)], return_index=True)
    order: Array = np.r_[wanted, np.arange(n)][np.sort(first)]
    return order
