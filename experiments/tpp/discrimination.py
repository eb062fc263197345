"""How far descriptions tell histories apart: the share of histories that each fits, and two readers without training.

The perfect reader knows which histories a description is true of, and nothing else. The bag of words knows which words
the description shares with a history, and nothing about order or time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from eventvec.retrieval import Retrieval, score_retrieval
from experiments.tpp.sentences import parse
from experiments.tpp.truth import History

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def fits(descriptions: Sequence[str], histories: Sequence[History]) -> Array:
    """Return `(descriptions, histories)` whether all sentences of a description are true of a history.

    Args:
        descriptions: What the parser reads.
        histories: The events.

    Raises:
        DataError: If a sentence cannot be read.

    Example:
        >>> histories = [History(["Guru", "Caucus"], [0, 9]), History(["Caucus", "Guru"], [0, 9])]
        >>> fits(['"Guru" closes the sequence.'], histories).tolist()
        [[False, True]]
    """
    read = [parse(description) for description in descriptions]
    return np.array([[all(map(history.holds, statements)) for history in histories] for statements in read])


def shares_of_others(fit: Array) -> Array:
    """Return for each description the share of the other histories that it fits.

    Args:
        fit: `(n, n)` whether description i fits history j.

    Example:
        >>> shares_of_others(np.array([[True, True], [False, True]])).tolist()
        [1.0, 0.0]
    """
    n = len(fit)
    others: Array = (fit.sum(1) - fit.diagonal()) / max(n - 1, 1)
    return others


def perfect_reader(fit: Array, k: int = 5) -> tuple[float, float]:
    """Return the expected mean reciprocal rank and Recall@k of a reader that uses only the truth of descriptions.

    The histories that a description fits are first, in random order, so that the expected reciprocal rank of its own
    history among f of them is ``H_f / f``.

    Args:
        fit: `(n, n)` whether description i fits history j; true on the diagonal.
        k: The greatest rank that counts for the recall.

    Example:
        >>> perfect_reader(np.array([[True, True], [False, True]]))
        (0.875, 1.0)
    """
    number = fit.sum(1)
    harmonic = np.cumsum(1 / np.arange(1, len(fit) + 1))
    return float((harmonic[number - 1] / number).mean()), float(np.minimum(k / number, 1).mean())


def bag_of_words(
    descriptions: Sequence[str], histories: Sequence[str], background: Sequence[str], types: Sequence[str] = ()
) -> Retrieval:
    """Return how well each description finds its own history by the cosine of TF-IDF vectors.

    Args:
        descriptions: The queries.
        histories: The serialised history of each query.
        background: Serialised histories, from which vocabulary and document frequencies come.
        types: If given, the words are whole names of types, and nothing else counts.

    Example:
        >>> texts = ["0.00,Guru", "0.00,Caucus"]
        >>> bag_of_words(['"Guru" closes the sequence.', "It all starts with Caucus."], texts, texts).mrr
        1.0
    """
    names = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in sorted(types, key=len, reverse=True)))
    vectorizer = TfidfVectorizer(**({"analyzer": names.findall} if types else {})).fit(background)
    query, key = (torch.from_numpy(vectorizer.transform(texts).toarray()) for texts in (descriptions, histories))
    return score_retrieval(query, key)
