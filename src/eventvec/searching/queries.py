"""`search`: the histories most similar to that of a key, to another history, or to a description; `read_index`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.answers import Answer
from eventvec.dataset import Dataset
from eventvec.describing.matching import parts
from eventvec.errors import ConfigError, DataError
from eventvec.models import Model
from eventvec.options import at_least
from eventvec.schema import Schema
from eventvec.searching.index_files import Content, damaged
from eventvec.searching.sentence_index import KIND, SentenceIndex
from eventvec.searching.summaries import summaries
from eventvec.searching.vector_index import Index
from eventvec.sequences import Array
from eventvec.tables import Embeddings, read
from eventvec.tables.keys import align, key_series
from eventvec.tables.sources import Tabular, columns_of, open_source

SCORE, SUMMARY = "similarity", "history"
WORDS_SCORE, MATCHED, STALE = "bm25", "sentences", "stale"
NOTHING = "Nothing fits: no sentence has any of these words."
NOTHING_CLEAR = "Nothing fits clearly: no sentence is nearer to these words than to sentences about other things."


def search(
    index: Index | Embeddings | SentenceIndex | Dataset | Model,
    *,
    key: Any = None,
    history: Dataset | Tabular | Sequence[Mapping[str, Any]] | None = None,
    text: str | None = None,
    model: Model | None = None,
    count: int = 10,
    among: Tabular | None = None,
    events: Dataset | Tabular | None = None,
) -> Answer:
    """Return the entities that fit a query best: nearest by their vectors, or by sentences that are true of them.

    The query is one of `key`, `history` and `text`. The vectors nearest to that of a key, of a history or, with a model
    that was trained on descriptions, of a text are found by their cosine similarity. Any other text is compared with
    the sentences of `describe`, see `SentenceIndex`, which needs no training.

    Relations: `Index.neighbours` answers many queries at once; `EventVectorizer.similar` searches the events of `fit`.

    Args:
        index: What is searched: for `key` and `history` embeddings, which are searched exactly, or an `Index`, which
            can be approximate; for `text` a `SentenceIndex`, or histories that are described first: a `Dataset`, or the
            `events` of a model, of embeddings or of an `Index`.
        key: The key of an entity in the index, which is not a hit itself; the text of a whole number stands for it.
        history: The events of one entity, as `Model.read` takes them; it needs `model`.
        text: What is to be found, in words.
        model: The model that made the vectors; for `text` only one with a text tower, such as one of `tpp_embedding`.
        count: How many hits to return, at least 1; fewer if no more entities are searched.
        among: A table with the column of the key: only these entities are searched, exactly.
        events: The events of the entities. Each hit then has its history in one line.

    Returns:
        An answer with a row for each hit: the key under its own name; `similarity`, from −1 to 1, for sentences the
        cosine and up to .2 for words in common, or `bm25` without a language model; for sentences those that fit best
        (`sentences`), and, if the index has stale entities, whether the hit is (`stale`); and with `events` its
        `history`. `.frame()` has them as a polars frame.

    Raises:
        ConfigError: If not exactly one query is given, the model is absent or embeds no texts, the text has no words,
            or `count` is below 1.
        CheckpointError: If the model is not the one that made the vectors.
        DataError: If the key is not in the index, the history is not of one entity, or no key of `among` is in it.

    Example:
        >>> import eventvec as ev
        >>> flights = ev.datasets.flights()[0][:300]
        >>> z = ev.fit(flights, method="coles", epochs=1, beside=[]).embed(flights)
        >>> hits = ev.search(z, key="N0EGMQ", count=2, events=flights)
        >>> hits.verdict, hits.frame().columns
        (('The 2 nearest of 300 entities.',), ['tailnum', 'similarity', 'history'])
    """
    given = [name for name, value in (("key", key), ("history", history), ("text", text)) if value is not None]
    if len(given) != 1:
        raise ConfigError(
            f"give one of key=, history= and text= (--key, --history, --text), got {' and '.join(given) or 'none'}"
        )
    at_least("count", count, 1)
    if isinstance(index, SentenceIndex | Dataset | Model) or (text is not None and model is None):
        if text is None:
            raise ConfigError(f"{given[0]}= searches vectors: give the embeddings of a model, or an Index of them")
        return _by_words(_sentences(index, events), text, count, among, events)
    index = index if isinstance(index, Index) else Index.of(index)
    row = None if key is None else index.row_of(key)
    if row is not None:
        query = index.z.values[[row]]
    elif model is None:
        raise ConfigError(f"{given[0]}= needs the model that made the vectors: model=ev.load(path) (--model)")
    else:
        index.check_model(model.lineage.run)
        query = _vector(model, history, text)
    searched = None if among is None else _rows(index.keys, index.z.schema, among)
    rows, scores = index.neighbours(query, count, among=searched, without=row)
    hits = index.z[rows[0]]
    frame = _frame(hits.keys, hits.schema, pl.Series(SCORE, scores[0]), events)
    total = len(index if searched is None else searched)
    line = f"The {len(frame):,} nearest of {total:,} entities."
    return Answer((line,), {"hits": frame.to_dicts()}, facts={"searched": total}, lists=True, title="Similar histories")


def read_index(path: Path | str) -> Index | SentenceIndex:
    """Return the index in a file that `Index.save` or `SentenceIndex.save` wrote.

    Raises:
        CheckpointError: If there is no such file, it holds no index, is damaged, or is of a later version; or if the
            language model of its sentences is another one now.
        ConfigError: If that language model is not installed.

    Example:
        >>> read_index("absent.index")
        Traceback (most recent call last):
        eventvec.errors.CheckpointError: absent.index does not exist; give an index that `eventvec search --save` ...
    """
    content = Content.read(path)
    try:
        return (SentenceIndex if content.about.get("kind") == KIND else Index).loaded(content)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise damaged(path) from error


def _sentences(
    index: Index | Embeddings | SentenceIndex | Dataset | Model, events: Dataset | Tabular | None
) -> SentenceIndex:
    """Return the sentences that are searched, made from the events where they are not there yet."""
    if isinstance(index, SentenceIndex):
        return index
    if isinstance(index, Dataset):
        return SentenceIndex.of(index)
    if events is None:
        raise ConfigError(
            "text= finds histories by sentences about them, which need their events: events= (--events); vectors are "
            "searched with a model that was trained on descriptions: model= (--model)"
        )
    if isinstance(index, Model):
        return SentenceIndex.of(events if isinstance(events, Dataset) else index.read(events))
    schema = (index.z if isinstance(index, Index) else index).schema
    return SentenceIndex.of(events if isinstance(events, Dataset) else read(events, schema=schema))


def _by_words(
    index: SentenceIndex, text: str, count: int, among: Tabular | None, events: Dataset | Tabular | None
) -> Answer:
    """Return the histories of which the sentences fit a text best."""
    fits = index.sentences.scorer(parts(text))
    scores = index.sentences.of_histories(fits)
    searched = np.arange(len(index)) if among is None else _rows(index.keys, index.schema, among)
    rows = searched[np.argsort(-scores[searched], kind="stable")[:count]]
    matched = index.sentences.matched(fits, rows)
    with_model = index.sentences.encoder is not None
    score = pl.Series(SCORE if with_model else WORDS_SCORE, scores[rows])
    frame = _frame(index.keys.take(pa.array(rows)), index.schema, score, events)
    frame = frame.insert_column(2, pl.Series(MATCHED, [" ".join(sentences) for sentences in matched], pl.String))
    lines = [f"The {len(rows):,} of {len(searched):,} entities whose sentences fit best."]
    if fits.max(1).mean() <= index.sentences.scorer.clear:
        lines.insert(0, NOTHING_CLEAR if with_model else NOTHING)
    if index.stale.any():
        frame = frame.insert_column(3, pl.Series(STALE, index.stale[rows]))
        lines.append(f"{index.stale[rows].sum():,} of them are stale: they have later events; refresh the index.")
    facts = {"searched": len(searched), "sentences": len(index.sentences.texts)}
    tables, title = {"hits": frame.to_dicts()}, "Histories by words"
    return Answer(tuple(lines), tables, index.notes, facts=facts, lists=True, title=title)


def _frame(keys: pa.Array, schema: Schema, scores: pl.Series, events: Dataset | Tabular | None) -> pl.DataFrame:
    """Return hits as a table."""
    frame = pl.DataFrame([key_series(pa.chunked_array([keys]), "key").alias(schema.key_out), scores])
    return frame if events is None else frame.with_columns(pl.Series(SUMMARY, _histories(keys, schema, events)))


def _vector(model: Model, history: Any, text: str | None) -> Array:
    """Return `(1, dim)` the vector of a text, or of a history: its learned part."""
    if text is not None:
        return model.embed_texts([text])
    z = model.embed(history)
    if len(z) != 1:
        raise DataError(f"the history must be of one entity, got events of {len(z):,}")
    return Index.of(z).z.values


def _rows(keys: pa.Array, schema: Schema, among: Tabular) -> Array:
    """Return the rows of the entities that a table names."""
    names = columns_of(among)
    key = next((name for name in (schema.key_out, schema.key) if name in names), "")
    if not key:
        raise DataError(f"the table of keys to search has no column {schema.key_out!r}; name the column like this")
    column = open_source(among).load([key]).column(key)
    rows = align(keys, pl.DataFrame({key: key_series(column, key)}), key)
    rows = np.unique(rows[rows >= 0])
    if not len(rows):
        raise DataError(f"none of the {len(column):,} keys to search is among the {len(keys):,} entities of the index")
    return rows


def _histories(keys: pa.Array, schema: Schema, events: Dataset | Tabular) -> list[str | None]:
    """Return the history of each hit in one line; None where the events have none of it."""
    data = events if isinstance(events, Dataset) else read(events, schema=schema)
    rows = align(data.keys, pl.DataFrame({"key": key_series(pa.chunked_array([keys]), "key")}), "key")
    lines = dict(zip(rows[rows >= 0].tolist(), summaries(data[rows[rows >= 0]]), strict=True))
    return [lines.get(row) for row in rows.tolist()]
