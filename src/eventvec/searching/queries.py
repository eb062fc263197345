"""`search`: the histories most similar to that of a key, to another history, or to a written description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.answers import Answer
from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError
from eventvec.runs import Run
from eventvec.searching.summaries import summaries
from eventvec.searching.vector_index import Index
from eventvec.sequences import Array
from eventvec.tables import Embeddings, read
from eventvec.tables.keys import align, key_series
from eventvec.tables.sources import Tabular, columns_of, open_source

SCORE, SUMMARY = "similarity", "history"


def search(
    index: Index | Embeddings,
    *,
    key: Any = None,
    history: Dataset | Tabular | Sequence[Mapping[str, Any]] | None = None,
    text: str | None = None,
    run: Run | None = None,
    count: int = 10,
    among: Tabular | None = None,
    events: Dataset | Tabular | None = None,
) -> Answer:
    """Return the entities whose vectors are nearest to a query, with their cosine similarity, nearest first.

    The query is one of `key`, `history` and `text`.

    Relations: `Index.neighbours` answers many queries at once; `EventVectorizer.similar` searches the events of `fit`.

    Args:
        index: What is searched. Embeddings are searched exactly; an `Index` can be approximate.
        key: The key of an entity in the index, which is not a hit itself; the text of a whole number stands for it.
        history: The events of one entity, as `Run.read` takes them; it needs `run`.
        text: A written description, for a run with a text tower, such as one of `tpp_embedding`; it needs `run`.
        run: The run that made the vectors.
        count: How many hits to return, at least 1; fewer if no more entities are searched.
        among: A table with the column of the key: only these entities are searched, exactly.
        events: The events of the entities. Each hit then has its history in one line.

    Returns:
        An answer with a row for each hit: the key under its own name, `similarity`, from −1 to 1, and with `events` its
        `history`. `.frame()` has them as a polars frame.

    Raises:
        ConfigError: If not exactly one query is given, the run is absent or embeds no texts, or `count` is below 1.
        CheckpointError: If the run is not the one that made the vectors.
        DataError: If the key is not in the index, the history is not of one entity, or no key of `among` is in it.

    Example:
        >>> import eventvec as ev
        >>> flights = ev.datasets.flights()[0][:300]
        >>> z = ev.fit("coles", flights, epochs=1, beside=[]).embed(flights)
        >>> hits = ev.search(z, key="N0EGMQ", count=2, events=flights)
        >>> hits.verdict, hits.frame().columns
        (('The 2 nearest of 300 entities.',), ['tailnum', 'similarity', 'history'])
    """
    given = [name for name, value in (("key", key), ("history", history), ("text", text)) if value is not None]
    if len(given) != 1:
        raise ConfigError(
            f"give one of key=, history= and text= (--key, --history, --text), got {' and '.join(given) or 'none'}"
        )
    index = index if isinstance(index, Index) else Index.of(index)
    row = None if key is None else index.row_of(key)
    if row is not None:
        query = index.z.values[[row]]
    elif run is None:
        raise ConfigError(f"{given[0]}= needs the run that made the vectors: run=ev.load(path) (--run)")
    else:
        index.check_run(run.id)
        query = _vector(run, history, text)
    searched = None if among is None else _rows(index, among)
    rows, scores = index.neighbours(query, count, among=searched, without=row)
    hits = index.z[rows[0]]
    frame = pl.DataFrame(
        [key_series(pa.chunked_array([hits.keys]), "key").alias(hits.schema.key_out), pl.Series(SCORE, scores[0])]
    )
    if events is not None:
        frame = frame.with_columns(pl.Series(SUMMARY, _histories(hits, events)))
    total = len(index if searched is None else searched)
    line = f"The {len(frame):,} nearest of {total:,} entities."
    return Answer((line,), {"hits": frame.to_dicts()}, facts={"searched": total}, lists=True, title="Similar histories")


def _vector(run: Run, history: Any, text: str | None) -> Array:
    """Return `(1, dim)` the vector of a text, or of a history: its learned part."""
    if text is not None:
        return run.embed_texts([text])
    z = run.embed(history)
    if len(z) != 1:
        raise DataError(f"the history must be of one entity, got events of {len(z):,}")
    return Index.of(z).z.values


def _rows(index: Index, among: Tabular) -> Array:
    """Return the rows of the entities that a table names."""
    names = columns_of(among)
    key = next((name for name in (index.z.schema.key_out, index.z.schema.key) if name in names), "")
    if not key:
        raise DataError(
            f"the table of keys to search has no column {index.z.schema.key_out!r}; name the column like this"
        )
    column = open_source(among).load([key]).column(key)
    rows = align(index.keys, pl.DataFrame({key: key_series(column, key)}), key)
    rows = np.unique(rows[rows >= 0])
    if not len(rows):
        raise DataError(f"none of the {len(column):,} keys to search is among the {len(index):,} entities of the index")
    return rows


def _histories(hits: Embeddings, events: Dataset | Tabular) -> list[str | None]:
    """Return the history of each hit in one line; None where the events have none of it."""
    data = events if isinstance(events, Dataset) else read(events, schema=hits.schema)
    rows = align(data.keys, pl.DataFrame({"key": key_series(pa.chunked_array([hits.keys]), "key")}), "key")
    lines = dict(zip(rows[rows >= 0].tolist(), summaries(data[rows[rows >= 0]]), strict=True))
    return [lines.get(row) for row in rows.tolist()]
