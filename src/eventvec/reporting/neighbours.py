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
from eventvec.reporting.in_words import InWords
from eventvec.reporting.maps import packed
from eventvec.reporting.timelines import Histories, histories
from eventvec.searching.vector_index import learned_part, left_out, nearest_rows, unit_length
from eventvec.sequences import Array
from eventvec.tables import Embeddings
from eventvec.tables.times import to_arrow

EXAMPLES = 6
"""The number of entities that stand for all: each is nearest to the centre of a cluster."""
NEIGHBOURS = 8
"""The number of neighbours of each entity."""
LOOKED_UP = 10_000
"""The largest number of entities for which the neighbours of all are in the page."""
CLUSTERED = 20_000
"""The largest number of entities that are clustered."""
OF_MANY = 500
"""The number of entities whose neighbours are in the page if there are more than that."""
IN_WORDS = "in words"
"""The column of a table with sentences about entities."""
SIMILARITIES = 65_535
"""The number of steps between a cosine similarity of -1 and one of 1."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest neighbours of entities by the cosine similarity of the learned part of their vectors.

    `queries` is `(q,)` rows, the examples first, `nearest` `(q, k)` their neighbours, nearest first, and `similarity`
    `(q, k)`; `entities` were searched. Examples have a `usual` number of events, between the quartiles, so a
    person can judge them. Histories, and sentences about them, are there if the events are at hand.
    """

    queries: Array
    nearest: Array
    similarity: Array
    examples: int
    entities: int
    usual: tuple[int, int]
    histories: Histories | None
    in_words: InWords | None

    @property
    def rule(self) -> str:
        """How the examples and the other entities were chosen, in words."""
        few, many = self.usual
        drawn = len(self.queries) - self.examples
        rest = "" if len(self.queries) == self.entities else f" Of the other entities, {drawn:,} were drawn by lot."
        told = (
            " In words, an example has the sentences that are true of it and of the fewest others, and a neighbour "
            "those that are true of both."
        )
        return (
            f"The {self.examples} examples have a usual number of events, {few:,} to {many:,} as the middle half of "
            f"the entities; each is nearest to the centre of a cluster of these, the largest cluster first.{rest}"
            f"{told if self.in_words else ''}"
        )


def neighbours_of(z: Embeddings, data: Dataset | None, seed: int = 0, first: Sequence[str] = ()) -> Neighbours:
    """Return the nearest neighbours of entities, exactly, by the cosine similarity of the learned part."""
    unit = unit_length(learned_part(z).astype(np.float32))
    rng = np.random.default_rng(seed)
    few, many = np.quantile(z.events, (0.25, 0.75), method="inverted_cdf").tolist()
    usual = np.flatnonzero((z.events >= few) & (z.events <= many))
    examples = usual[_typical(unit[usual], rng, seed)]
    others = np.setdiff1d(np.arange(len(z)), examples)
    if len(z) > LOOKED_UP:
        others = rng.choice(others, OF_MANY - len(examples), replace=False)
    queries = np.r_[examples, others]
    rows, scores = nearest_rows(unit, unit[queries], min(NEIGHBOURS, len(z) - 1) + 1)
    nearest, similarity = left_out(rows, scores, queries, min(NEIGHBOURS, len(z) - 1))
    timelines = in_words = None
    if data is not None and data.sequences.total:
        order = _order(queries, nearest, len(z))
        shown = np.union1d(examples, nearest[: len(examples)])
        timelines, in_words = histories(data, order, first=first), InWords.of(data, order, len(shown))
    return Neighbours(queries, nearest, similarity, len(examples), len(z), (int(few), int(many)), timelines, in_words)


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
        "words": None if near.in_words is None else near.in_words.to_dict(),
    }


def neighbour_rows(
    near: Neighbours, names: pl.Series, z: Embeddings, data: Dataset | None, count: int = 3
) -> list[dict[str, Any]]:
    """Return the rows of a table: each example with what is telling about it, and its nearest neighbours.

    Of a neighbour, the sentences are those that are true of the example too.
    """
    queries, nearest = near.queries[: near.examples], near.nearest[: near.examples, :count]
    rows = np.concatenate([queries[:, None], nearest], 1).reshape(-1)
    scores = np.concatenate([np.full((len(queries), 1), np.nan), near.similarity[: near.examples, :count]], 1).reshape(
        -1
    )
    part = z[rows]
    last = pl.Series(to_arrow(z.schema, part.last_time, part.events == 0)).cast(pl.String).str.slice(0, 19)
    columns: dict[str, Sequence[Any]] = {
        "example": [
            f"{place // (nearest.shape[1] + 1) + 1}" if np.isnan(score) else "" for place, score in enumerate(scores)
        ],
        "entity": names[rows].to_list(),
        "similarity": scores.tolist(),
        "events": part.events.tolist(),
        "last_event": last.fill_null("").to_list(),
    }
    for field in [] if data is None else [field for field in data.schema.categorical if field.values][:2]:
        assert data is not None
        modes = most_frequent(data.sequences[torch.from_numpy(rows)], field)
        columns[f"most frequent {field.name}"] = modes.fill_null("").to_list()
    if near.in_words is not None:
        pairs = [(row, like) for like, found in zip(queries, nearest, strict=True) for row in (like, *found)]
        columns[IN_WORDS] = [near.in_words.about(row, None if row == like else like) for row, like in pairs]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


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
