"""Which histories fit some words: the sentences of a query against the sentences about each history."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import torch

from eventvec.encoders import SentenceEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Array

BLOCK = 1 << 16
"""The number of sentences whose vectors are compared at once."""
CLAUSE = 3
"""The least number of words on each side of a comma that parts a query."""
SATURATION, LENGTH = 1.5, 0.75
"""The constants k and b of BM25."""
WORDS = 0.2
"""The weight of BM25, as a share of the best sentence's, beside a cosine."""
UNRELATED_SHARE = 0.95
UNRELATED = (
    "The soup needs more salt.", "My brother plays the guitar.", "A red car is parked outside.",
    "She wrote a letter to her aunt.", "The moon is made of rock.", "Paris is the capital of France.",
    "Please close the door quietly.", "He forgot the name of the film.", "Water boils at a hundred degrees.",
    "The cat sleeps on the sofa.", "We painted the kitchen yellow.", "Who wrote this novel?",
    "Birds fly south in autumn.", "The bridge was built of stone.", "I cannot find my glasses.",
    "Turn left at the church.", "The singer has a deep voice.", "Iron is heavier than wood.",
    "Her grandmother came from Spain.", "The tree lost its leaves.", "Put the book back on the shelf.",
    "It is raining in the mountains.", "The teacher explained the poem.", "His shoes are too small.",
    "A whale is not a fish.", "They danced until the music stopped.", "The recipe asks for two eggs.",
    "Nobody understood the joke.", "The window faces the garden.", "Gravity bends light.",
)  # fmt: skip
"""Sentences that are about no history. A query that is no nearer than 95 % of them fits nothing clearly."""


class BM25:
    """BM25 (Robertson and Zaragoza 2009), each sentence as a document; without a language model.

    `clear` is the score above which a sentence fits clearly.

    Args:
        sentences: `n` sentences.
    """

    clear = 0.0

    def __init__(self, sentences: Sequence[str]) -> None:
        from scipy import sparse  # type: ignore[import-untyped]
        from sklearn.feature_extraction.text import CountVectorizer

        self.counting = CountVectorizer(token_pattern=r"(?u)\b\w+\b")
        self.weights = sparse.csr_matrix((len(sentences), 0), dtype=np.float32)
        if sentences:
            counts = self.counting.fit_transform(sentences).astype(np.float32).tocoo()
            n, k = len(sentences), SATURATION
            lengths = np.asarray(counts.sum(1)).ravel()
            frequency = np.bincount(counts.col, minlength=counts.shape[1])
            rarity = np.log1p((n - frequency + 0.5) / (frequency + 0.5))
            norm = k * (1 - LENGTH + LENGTH * lengths / lengths.mean())
            weights = rarity[counts.col] * counts.data * (k + 1) / (counts.data + norm[counts.row])
            self.weights = sparse.csr_matrix((weights.astype(np.float32), (counts.row, counts.col)), counts.shape)

    def __call__(self, queries: Sequence[str]) -> Array:
        """Return `(m, n)` float32, the score of each sentence for each query."""
        if not self.weights.shape[1]:
            return np.zeros((len(queries), self.weights.shape[0]), np.float32)
        words = self.counting.transform(queries).sign()
        return np.asarray((words @ self.weights.T).toarray(), np.float32)


class Meanings:
    """The cosine of sentence vectors, kept in float16, and a fifth of BM25 as a share of the best sentence's.

    The share was chosen among 0, .1, .2, .3, .5 and 1 on descriptions of the training parts of `experiments/tpp`.

    Args:
        encoder: A frozen language model.
        vectors: `(n, dim)` the vectors of the sentences, of length 1.
        sentences: `n` sentences.
    """

    def __init__(self, encoder: SentenceEncoder, vectors: Array, sentences: Sequence[str]) -> None:
        self.encoder, self.vectors, self.words = encoder, vectors, BM25(sentences)

    @cached_property
    def clear(self) -> float:
        """The score above which a sentence fits clearly, for which the model reads `UNRELATED`."""
        nearest = self(UNRELATED).max(1) if len(self.vectors) else np.zeros(1)
        return float(np.quantile(nearest, UNRELATED_SHARE))

    def __call__(self, queries: Sequence[str]) -> Array:
        """Return `(m, n)` float32, the score of each sentence for each query."""
        q = torch.from_numpy(unit_vectors(self.encoder, queries)).float()
        blocks = torch.from_numpy(self.vectors).split(BLOCK)
        cosines: Array = torch.cat([q.new_empty(len(q), 0), *(q @ block.float().T for block in blocks)], 1).numpy()
        words = self.words(queries)
        best = words.max(1, keepdims=True, initial=0)
        return np.asarray(cosines + WORDS * np.divide(words, best, out=words, where=best > 0))


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences about histories, each distinct one once.

    A history's score for a query is the mean, over the sentences of the query, of the score of that sentence of the
    history which fits best.

    Args:
        texts: The distinct sentences.
        starts: `(n,)` the place in `ids` at which the sentences of each history begin; each has one at least.
        ids: The places in `texts` of the sentences of one history after another.
        scorer: How well sentences fit.

    Example:
        >>> table = pl.DataFrame({"row": [0, 0, 1], "sentence": ["Opens shop.", "Sells bread.", "Opens a bar."]})
        >>> sentences = Sentences.of(table, None)
        >>> sentences.scores("Sells bread.").argmax().item()
        0
    """

    texts: list[str]
    starts: Array
    ids: Array
    scorer: BM25 | Meanings

    @staticmethod
    def of(table: pl.DataFrame, encoder: SentenceEncoder | None, known: Sentences | None = None) -> Sentences:
        """Return the sentences of a table.

        Args:
            table: `row` and `sentence`; the rows are 0 to n − 1, each with a sentence at least.
            encoder: A language model; without one, BM25 alone.
            known: Sentences with vectors of this encoder, which are not computed again.
        """
        ordered = table.sort("row", maintain_order=True)
        distinct = ordered.select(pl.col("sentence").unique().sort()).with_row_index("place")
        texts = distinct["sentence"].to_list()
        ids = ordered.join(distinct, on="sentence", how="left", maintain_order="left")["place"].to_numpy()
        lengths = np.bincount(ordered["row"].to_numpy())
        if not lengths.all():
            raise DataError("a history has no sentence, and no words can find it; leave it out")
        scorer = BM25(texts) if encoder is None else Meanings(encoder, _vectors(encoder, texts, known), texts)
        return Sentences(texts, lengths.cumsum() - lengths, ids.astype(np.int32), scorer)

    def table(self) -> pl.DataFrame:
        """Return the table of which the sentences were made, see `of`."""
        rows = np.repeat(np.arange(len(self)), np.diff(np.append(self.starts, len(self.ids))))
        return pl.DataFrame({"row": rows, "sentence": pl.Series(self.texts, dtype=pl.String).gather(self.ids)})

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def encoder(self) -> SentenceEncoder | None:
        """The language model that compares sentences; None for BM25 alone."""
        return self.scorer.encoder if isinstance(self.scorer, Meanings) else None

    def scores(self, query: str) -> Array:
        """Return `(n,)` float32, how well each history fits a query."""
        return self.of_histories(self.scorer(parts(query)))

    def of_histories(self, scores: Array) -> Array:
        """Return `(n,)` float32, how well each history fits, given `(m, texts)` how well the sentences do."""
        best: Array = np.empty((len(scores), 0), np.float32)
        if len(self):
            best = np.stack([np.maximum.reduceat(row[self.ids], self.starts) for row in scores])
        return np.asarray(best.mean(0))

    def matched(self, scores: Array, rows: Array) -> list[list[str]]:
        """Return the sentences of each row that fit the sentences of a query best, without repetitions.

        Args:
            scores: `(m, texts)` how well the sentences fit.
            rows: `(k,)` the histories.
        """
        ends = np.append(self.starts[1:], len(self.ids))
        found = []
        for row in rows.tolist():
            ids = self.ids[self.starts[row] : ends[row]]
            best = ids[scores[:, ids].argmax(1)]
            found.append([self.texts[place] for place in dict.fromkeys(best.tolist())])
        return found


def parts(query: str) -> list[str]:
    """Return the sentences of a query.

    It is parted after a full stop and the like, at the end of a line, before *then*, and at commas if each clause has
    three words or more.

    Raises:
        ConfigError: If the query has no words.

    Example:
        >>> parts("long silence, then many cheap purchases at night")
        ['long silence', 'many cheap purchases at night']
    """
    clauses = list[str]()
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+|,?\s+(?:and\s+)?then\s+", query):
        by_comma = sentence.split(", ")
        clauses += by_comma if all(len(clause.split()) >= CLAUSE for clause in by_comma) else [sentence]
    found = [clause.strip() for clause in clauses if re.search(r"\w", clause)]
    if not found:
        raise ConfigError("text (--text) has no words; describe what is to be found")
    return found


def unit_vectors(encoder: SentenceEncoder, sentences: Sequence[str]) -> Array:
    """Return `(n, dim)` float16, the vectors of sentences at length 1."""
    with torch.no_grad():
        z = torch.nn.functional.normalize(encoder.encode(sentences), dim=1)
    return z.half().cpu().numpy()


def _vectors(encoder: SentenceEncoder, texts: Sequence[str], known: Sentences | None) -> Array:
    """Return `(n, dim)` float16, the vectors of sentences; those of known ones are taken from there."""
    if known is None or not isinstance(known.scorer, Meanings):
        return unit_vectors(encoder, texts)
    places = {text: place for place, text in enumerate(known.texts)}
    place = np.array([places.get(text, -1) for text in texts], np.int64)
    vectors = np.empty((len(texts), encoder.dim), np.float16)
    vectors[place >= 0] = known.scorer.vectors[place[place >= 0]]
    vectors[place < 0] = unit_vectors(encoder, [text for text, at in zip(texts, place, strict=True) if at < 0])
    return vectors
