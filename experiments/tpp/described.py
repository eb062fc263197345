"""Search without training: a history is what is said about it, which a query is matched with by sentences."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import get_args

import numpy as np
import polars as pl
import pyarrow as pa
import torch
import torch.nn.functional as F

import eventvec as ev
from eventvec.dataset import text_column
from eventvec.encoders import SentenceEncoder
from eventvec.views.counterfeits import Exchanged
from experiments.tpp.apart import exchanged_histories
from experiments.tpp.arms import COUNTERFEITS, MINILM, Array, Similarities
from experiments.tpp.benchmarks import KEY, Benchmark, History, reworded
from experiments.tpp.descriptions import FIRST_WORDING, sentence
from experiments.tpp.facts import facts
from experiments.tpp.late import sentences_of

FACTS, SHIPPED = "described + MiniLM", "ev.describe + MiniLM"
"""All facts in the templates of the study, one wording each; and what the package writes."""


def all_facts(histories: Sequence[History]) -> list[list[str]]:
    """Return a sentence for every fact of each history, in the first wording of its kind.

    Example:
        >>> all_facts([History(0, ["Guru", "Guru", "Guru", "Caucus"], [0, 1, 2, 9])])[0][0]
        'Most of the events are "Guru".'
    """
    rng = random.Random(0)  # it chooses among one wording
    return [[sentence(fact, rng, among=FIRST_WORDING) for fact in facts(names, times)] for _, names, times in histories]


def package_sentences(events: pl.DataFrame) -> list[list[str]]:
    """Return what `ev.describe` writes about each history of a table, in the order of the table.

    Example:
        >>> package_sentences(benchmark("usgs_earthquakes").events)  # doctest: +SKIP
    """
    rare = ev.Fitting(min_count=1)
    data = ev.read(events, key=KEY, time="time", categorical=["type_text"], fitting=rare)
    table = ev.describe(data, names={"type_text": "type"})
    sentences = dict(table.group_by(KEY, maintain_order=True).agg("sentence").iter_rows())
    return [sentences[key] for key in events[KEY].unique(maintain_order=True)]


def matched(queries: Sequence[str], documents: Sequence[Sequence[str]], encoder: SentenceEncoder) -> Array:
    """Return `(queries, documents)` the mean, over the sentences of a query, of the best cosine in the document.

    Args:
        queries: Texts of at least one sentence.
        documents: The sentences of each history, at least one.
        encoder: A frozen model of sentences.

    Example:
        >>> matched(["Types repeat."], [["Types repeat.", "It ends."]], SentenceEncoder(MINILM))  # doctest: +SKIP
        array([[1.]], dtype=float32)
    """
    split = [sentences_of(query) for query in queries]
    every = [sentence for sentences in (*split, *documents) for sentence in sentences]
    with torch.no_grad():
        unit = F.normalize(encoder(text_column(pa.array(every))), dim=1).numpy()  # each distinct sentence is read once
    counts, sizes = [len(sentences) for sentences in split], [len(sentences) for sentences in documents]
    of_query, of_document = np.split(unit, [sum(counts)])
    best = np.maximum.reduceat(of_query @ of_document.T, np.cumsum([0, *sizes[:-1]]), axis=1)
    similar: Array = np.add.reduceat(best, np.cumsum([0, *counts[:-1]]), axis=0) / np.array(counts)[:, None]
    return similar


def by_sentences(data: Benchmark, held_out: Array) -> dict[str, Similarities]:
    """Return what matching sentence by sentence finds similar, for each way of describing, as for a trained model.

    `ev.describe` reads the whole set as one table.

    Args:
        data: A benchmark of one set.
        held_out: The rows beside the test part on which fusions are chosen.
    """
    encoder, test, found = SentenceEncoder(MINILM), data.split.test, dict[str, Similarities]()
    for name, sentences in _documents(data).items():
        searched = {"held out": (data, held_out), "test": (data, test), "reworded": (reworded(data), test)}
        found[name] = {
            part: matched([of.descriptions[row] for row in rows], [sentences[row] for row in rows], encoder)
            for part, (of, rows) in searched.items()
        }
    return found


def counterfeits_by_sentences(data: Benchmark) -> dict[str, Similarities]:
    """Return the same for the test part and its counterfeits, whose sentences are made from the exchanged events.

    `ev.describe` reads counterfeits in the place of their histories in the table.

    Args:
        data: A benchmark of one set.
    """
    encoder, test = SentenceEncoder(MINILM), data.split.test
    queries = [data.descriptions[row] for row in test]
    found: dict[str, Similarities] = {
        name: {"test": matched(queries, [sentences[row] for row in test], encoder)}
        for name, sentences in _documents(data).items()
    }
    for exchanged in get_args(Exchanged):
        copies, differ = exchanged_histories(data, exchanged)
        for name, sentences in ((FACTS, all_facts(copies)), (SHIPPED, _described_anew(data, copies))):
            found[name][exchanged] = matched(queries, sentences, encoder).reshape(len(test), *differ.shape)
            found[name][f"{exchanged} differ"] = differ
    return found


def _documents(data: Benchmark) -> dict[str, list[list[str]]]:
    """Return the sentences of each history by the way of describing."""
    return {FACTS: all_facts(data.histories()), SHIPPED: package_sentences(data.events)}


def _described_anew(data: Benchmark, copies: Sequence[History]) -> list[list[str]]:
    """Return what `ev.describe` writes about counterfeits, one of each history at a time."""
    others = data.events.filter(~pl.col(KEY).is_in([key for key, _, _ in copies]))
    sentences: list[list[str]] = [[] for _ in copies]
    for place in range(COUNTERFEITS):
        one_each = pl.DataFrame(copies[place::COUNTERFEITS], schema=[KEY, "type_text", "time"], orient="row")
        exchanged = one_each.explode("type_text", "time").select(
            pl.col(name).cast(kind) for name, kind in data.events.schema.items()
        )
        sentences[place::COUNTERFEITS] = package_sentences(pl.concat([exchanged, others]))[: len(one_each)]
    return sentences
