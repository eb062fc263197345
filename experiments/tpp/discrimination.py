"""How far descriptions tell histories apart: the share of histories that each fits, and a bag of words.

The perfect reader, `scores.perfect_reader`, knows which histories a description is true of, and nothing else. The bag
of words knows which words the description shares with a history, and nothing about order or time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from experiments.tpp.scores import Scored, found
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


def bag_of_words(
    descriptions: Sequence[str],
    histories: Sequence[str],
    background: Sequence[str],
    types: Sequence[str] = (),
    free: bool = False,
) -> tuple[Scored, Scored]:
    """Return how well each description finds its own history by the cosine of TF-IDF vectors, see `scores.found`.

    Args:
        descriptions: The queries.
        histories: The serialised history of each query, and of further candidates after them.
        background: Serialised histories, from which vocabulary and document frequencies come.
        types: If given, the words are whole names of types, and nothing else counts.
        free: Whether names count in small letters and in the plural too, as people write them.

    Example:
        >>> texts = ["0.00,Guru", "0.00,Caucus"]
        >>> bag_of_words(['"Guru" closes the sequence.', "It all starts with Caucus."], texts, texts)[0].value
        1.0
    """
    return found(*word_vectors(descriptions, histories, background, types, free))


def word_vectors(
    descriptions: Sequence[str],
    histories: Sequence[str],
    background: Sequence[str],
    types: Sequence[str] = (),
    free: bool = False,
) -> tuple[Array, Array]:
    """Return the TF-IDF vectors of descriptions and of histories, with length 1 or 0; see `bag_of_words`.

    Example:
        >>> query, key = word_vectors(["a guru"], ["Guru", "Caucus"], ["Guru", "Caucus"])
        >>> (query @ key.T).tolist()
        [[1.0, 0.0]]
    """
    any_name = "|".join(map(re.escape, sorted(types, key=len, reverse=True)))
    names = re.compile(rf"\b({any_name.lower()})s?\b" if free else rf"\b({any_name})\b")

    def named(text: str) -> list[str]:
        return names.findall(text.lower() if free else text)

    vectorizer = TfidfVectorizer(**({"analyzer": named} if types else {})).fit(background)
    query, key = (vectorizer.transform(texts).toarray() for texts in (descriptions, histories))
    return query, key
