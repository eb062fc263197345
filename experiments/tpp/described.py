"""Search without training: a history is what is said about it, which a query is matched with by sentences."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from typing import get_args

import numpy as np
import polars as pl

import eventvec as ev
from eventvec.describing import code_facts, number_facts, order_facts, time_facts
from eventvec.describing.matching import Sentences
from eventvec.describing.templates import TEMPLATES, Template
from eventvec.encoders import SentenceEncoder
from eventvec.views.counterfeits import Exchanged
from experiments.tpp.apart import exchanged_histories
from experiments.tpp.arms import COUNTERFEITS, MINILM, Array, Similarities
from experiments.tpp.benchmarks import KEY, Benchmark, History, reworded
from experiments.tpp.descriptions import FIRST_WORDING, sentence
from experiments.tpp.facts import facts

FACTS, SHIPPED = "described + MiniLM", "ev.describe + MiniLM"
"""All facts in the templates of the study, one wording each, and what the package writes, by a language model."""
EARLIER = "ev.describe, 16 kinds + MiniLM"
"""What the package writes without the thirteen kinds that were added later, which hold by the rules of facts here."""
BM25 = {FACTS: "described + BM25", SHIPPED: "ev.describe + BM25", EARLIER: "ev.describe, 16 kinds + BM25"}
"""The same sentences without a language model."""
EARLIER_TEMPLATES: tuple[Template, ...] = (
    time_facts.count, time_facts.span, code_facts.shares, code_facts.variety, code_facts.ends, order_facts.follows,
    time_facts.silence, time_facts.pace, time_facts.burst, time_facts.frequency, order_facts.changes,
    number_facts.levels, number_facts.averages, number_facts.trends, time_facts.hours, time_facts.weekdays,
)  # fmt: skip


def all_facts(histories: Sequence[History]) -> list[list[str]]:
    """Return a sentence for every fact of each history, in the first wording of its kind.

    Example:
        >>> all_facts([History(0, ["Guru", "Guru", "Guru", "Caucus"], [0, 1, 2, 9])])[0][0]
        'Most of the events are "Guru".'
    """
    rng = random.Random(0)  # it chooses among one wording
    return [[sentence(fact, rng, among=FIRST_WORDING) for fact in facts(names, times)] for _, names, times in histories]


def package_sentences(events: pl.DataFrame, templates: Sequence[Template] = TEMPLATES) -> list[list[str]]:
    """Return what `ev.describe` writes about each history of a table, in the order of the table.

    The column of types is called "type", as descriptions of the benchmarks call it.

    Args:
        events: `sequence`, `time`, `type_text`, and perhaps `value`.
        templates: The kinds of sentences.

    Example:
        >>> package_sentences(benchmark("usgs_earthquakes").events)  # doctest: +SKIP
    """
    rare = ev.Fitting(min_count=1)
    numbers = [name for name in events.columns if name == "value"]
    data = ev.read(events, key=KEY, time="time", categorical=["type_text"], numeric=numbers, fitting=rare)
    table = ev.describe(data, names={"type_text": "type"}, templates=templates)
    sentences = dict(table.group_by(KEY, maintain_order=True).agg("sentence").iter_rows())
    return [sentences[key] for key in events[KEY].unique(maintain_order=True)]


def matched(queries: Sequence[str], documents: Sequence[Sequence[str]], encoder: SentenceEncoder | None) -> Array:
    """Return `(queries, documents)` how well histories fit queries, as in a search by words with the package.

    Args:
        queries: Texts.
        documents: The sentences of each history, at least one.
        encoder: A frozen model of sentences; None for BM25.

    Example:
        >>> matched(["Types repeat."], [["Types repeat.", "It ends."], ["It begins."]], None).argmax().item()
        0
    """
    rows = np.arange(len(documents)).repeat([len(sentences) for sentences in documents])
    every = [sentence for sentences in documents for sentence in sentences]
    index = Sentences.of(pl.DataFrame({"row": rows, "sentence": every}), encoder)
    return np.stack([index.scores(query) for query in queries])


def by_sentences(data: Benchmark, held_out: Array | None = None) -> dict[str, Similarities]:
    """Return what matching sentence by sentence finds similar, for each way of describing, as for a trained model.

    `ev.describe` reads the whole set as one table.

    Args:
        data: A benchmark of one set.
        held_out: The rows beside the test part on which fusions are chosen; None where none is.
    """
    encoder, test, found = SentenceEncoder(MINILM), data.split.test, dict[str, Similarities]()
    in_other_words = reworded(data)
    documents = {**_documents(data), EARLIER: package_sentences(data.events, EARLIER_TEMPLATES)}
    for name, sentences in documents.items():
        for way, model in ((name, encoder), (BM25[name], None)):
            sets, rows = {"test": data, "reworded": in_other_words}, data.queries
            queries = [of.descriptions[row] for of in sets.values() for row in rows]
            both = matched(queries, [sentences[row] for row in test], model)
            found[way] = dict(zip(sets, np.split(both, 2), strict=True))
            if held_out is not None:
                unseen = [data.descriptions[row] for row in held_out], [sentences[row] for row in held_out]
                found[way]["held out"] = matched(*unseen, model)
    return found


def counterfeits_by_sentences(data: Benchmark) -> dict[str, Similarities]:
    """Return the same for the test part and its counterfeits, whose sentences are made from the exchanged events.

    `ev.describe` reads counterfeits in the place of their histories in the table.

    Args:
        data: A benchmark of one set.
    """
    encoder, test, found = SentenceEncoder(MINILM), data.split.test, dict[str, Similarities]()
    queries = [data.descriptions[row] for row in test]
    drawn = {exchanged: exchanged_histories(data, exchanged) for exchanged in get_args(Exchanged)}
    for name, sentences in _documents(data).items():
        anew = [all_facts(copies) if name == FACTS else _described_anew(data, copies) for copies, _ in drawn.values()]
        every = [[sentences[row] for row in test], *anew]  # in one index, so that what is said of both is level
        ends = np.cumsum([len(documents) for documents in every])[:-1]
        similar, *of_copies = np.split(matched(queries, list(chain(*every)), encoder), ends, axis=1)
        found[name] = {"test": similar}
        for (exchanged, (_, differ)), to_copies in zip(drawn.items(), of_copies, strict=True):
            found[name][exchanged] = to_copies.reshape(len(test), *differ.shape)
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
