"""What searches histories for a question: each reader says how near every history is to every question."""

from __future__ import annotations

import numpy as np

from experiments.tpp.discrimination import word_vectors
from experiments.words.problems import Problem
from experiments.words.queries import Array

BAG = "bag of words"


def readers(problem: Problem) -> dict[str, Array]:
    """Return the similarities `(queries, histories)` by the name of the reader.

    *Chance* finds all histories alike. The *bag of words* is the cosine of TF-IDF vectors of the question and of the
    history as text.

    Args:
        problem: The set and its questions.
    """
    query, history = word_vectors(problem.queries, problem.texts, problem.texts)
    return {"chance": np.zeros(problem.relevant.shape), BAG: query @ history.T}
