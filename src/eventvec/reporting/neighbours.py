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
from eventvec.reporting.timelines import timelines
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
    `(q, k)`. `rule` says how the examples and the other entities were chosen. `histories`, as the page draws them, and
    sentences about them are there if the events are at hand.
    """

    queries: Array
    nearest: Array
    similarity: Array
    examples: int
    rule: str
    histories: dict[str, Any] | None
    in_words: InWords | None


def neighbours_of(z: Embeddings, data: Dataset | None, seed: int = 0, first: Sequence[str] = ()) -> Neighbours:
    """Return the nearest neighbours of entities, exactly, by the cosine similarity of the learned part.

    Examples have a usual number of events, between the quartiles, so a person can judge them.
    """
    unit = unit_length(learned_part(z).astype(np.float32))
    rng = np.random.default_rng(seed)
    few, many = np.quantile(z.events, (0.25, 0.75), method="inverted_cdf").tolist()
    usual = np.flatnonzero((z.events >= few) & (z.events <= many))
    examples = usual[_typical(unit[usual], rng, seed)]
    others = np.setdiff1d(np.arange(len(z)), examples)
    rule = (
        f"The {len(examples)} examples have a usual number of events, {int(few):,} to {int(many):,} as the middle half "
        "of the entities; each is nearest to the centre of a cluster of these, the largest cluster first."
    )
    if len(z) > LOOKED_UP:
        others = rng.choice(others, OF_MANY - len(examples), replace=False)
        rule += f" Of the other entities, {len(others):,} were drawn by lot."
    queries = np.r_[examples, others]
    rows, scores = nearest_rows(unit, unit[queries], min(NEIGHBOURS, len(z) - 1) + 1)
    nearest, similarity = left_out(rows, scores, queries, min(NEIGHBOURS, len(z) - 1))
    histories = in_words = None
    if data is not None and data.sequences.total:
        by_query = np.r_[np.column_stack([queries, nearest]).ravel(), np.arange(len(z))]
        order = pl.Series(by_query).unique(maintain_order=True).to_numpy()
        shown = np.union1d(examples, nearest[: len(examples)])
        histories, in_words = timelines(data, order, first=first), InWords.of(data, order, len(shown))
        rule += (
            " In words, an example has the sentences that are true of it and of the fewest others, and a neighbour "
            "those that are true of both."
        )
    return Neighbours(queries, nearest, similarity, len(examples), rule, histories, in_words)


def neighbours_data(near: Neighbours) -> dict[str, Any]:
    """Return what the script of the page shows neighbours and timelines from."""
    steps = np.round((near.similarity.clip(-1, 1) + 1) / 2 * SIMILARITIES).astype(np.uint16)
    return {
        "queries": packed(near.queries.astype(np.uint32)),
        "nearest": packed(near.nearest.astype(np.uint32).reshape(-1)),
        "similarity": packed(steps.reshape(-1)),
        "count": near.nearest.shape[1],
        "examples": near.examples,
        "histories": near.histories,
        "words": None if near.in_words is None else near.in_words.to_dict(),
    }


def neighbour_rows(
    near: Neighbours, names: pl.Series, z: Embeddings, data: Dataset | None, count: int = 3
) -> list[dict[str, Any]]:
    """Return the rows of a table: each example with what is telling about it, and its nearest neighbours.

    Of a neighbour, the sentences are those that are true of the example too.
    """
    queries, nearest = near.queries[: near.examples], near.nearest[: near.examples, :count]
    rows = np.column_stack([queries, nearest]).ravel()
    similarity = near.similarity[: near.examples, :count]
    part = z[rows]
    last = pl.Series(to_arrow(z.schema, part.last_time, part.events == 0)).cast(pl.String).str.slice(0, 19)
    columns: dict[str, Any] = {
        "example": [text for number in range(len(queries)) for text in (f"{number + 1}", *[""] * nearest.shape[1])],
        "entity": names[rows],
        "similarity": np.insert(similarity.astype(np.float64), 0, np.nan, axis=1).ravel(),
        "events": part.events,
        "last_event": last.fill_null(""),
    }
    if data is not None:
        for field in [field for field in data.schema.categorical if field.values][:2]:
            modes = most_frequent(data.sequences[torch.from_numpy(rows)], field)
            columns[f"most frequent {field.name}"] = modes.fill_null("")
    if near.in_words is not None:
        pairs = [(row, like) for like, found in zip(queries, nearest, strict=True) for row in (like, *found)]
        columns[IN_WORDS] = [near.in_words.about(row, like) for row, like in pairs]
    return pl.DataFrame(columns).to_dicts()


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
