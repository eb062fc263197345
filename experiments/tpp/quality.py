"""What of the quality of descriptions can be computed without a judge (Liu and Quan 2024, Tables 3 and 4).

The paper asks GPT-4o and GPT-4o-mini for a score from 1 to 5 on five criteria. Three of them ask for a share: how much
of a description is correct, how many of the details it has, and how many of the temporal patterns. These are computed
here, with the catalogue of facts as the details, and put on the judges' scale by 1 + 4 · share, which is our reading of
its ends. Clarity, and whether a text is as short as it can be, take a reader; of these only counts are given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from experiments.command_line import Row
from experiments.tpp.benchmarks import Array, Benchmark
from experiments.tpp.descriptions import FEWEST, MOST
from experiments.tpp.facts import facts
from experiments.tpp.published import JUDGES, OURS, QUALITY
from experiments.tpp.sentences import Statement, parse
from experiments.tpp.truth import History

TEMPORAL = ("timing", "clustering", "trends")
"""The topics of temporal patterns: the paper names clustering, trends and intervals."""
SHARES = {
    "accuracy": ("sentences that are true",),
    "coverage": ("kinds of facts that hold and are stated", "topics that hold and are touched"),
    "fidelity": ("the same, of kinds about time", "the same, of topics about time"),
}
"""What is computed of each criterion that asks for a share."""
COUNTS = {
    "clarity": ("words per sentence",),
    "conciseness": ("words", "2 to 5 sentences, no number", "sentences that another one implies"),
}
"""What is counted of the others."""
FEWEST_CASES = 20
"""A sentence implies another one if that is true in all histories in which it is true, which must be this many."""


class Shares(NamedTuple):
    """What a description says of a history, as shares from 0 to 1.

    Args:
        true: Of its sentences, those that are true.
        kinds: Of the kinds of facts that hold, those that it states.
        topics: Of the topics of these, those that it touches.
        temporal_kinds: As `kinds`, for timing, clustering and trends.
        temporal_topics: As `topics`, for timing, clustering and trends.
    """

    true: float
    kinds: float
    topics: float
    temporal_kinds: float
    temporal_topics: float


def shares(description: str, names: Sequence[str], times: Sequence[int]) -> Shares:
    """Return what a description says of a history; false sentences state nothing.

    Args:
        description: What the parser reads.
        names: The type of each event.
        times: The time of each event, ascending.

    Example:
        >>> shares('"Guru" closes the sequence.', ["Guru", "Guru", "Guru", "Caucus"], [0, 1, 2, 9]).true
        0.0
    """
    history, statements = History(names, times), parse(description)
    true = [statement.kind for statement in statements if history.holds(statement)]
    topic = {fact.kind: fact.topic for fact in facts(names, times)}
    temporal = {kind: of for kind, of in topic.items() if of in TEMPORAL}
    return Shares(len(true) / len(statements), *_stated(true, topic), *_stated(true, temporal))


def quality(data: Benchmark) -> list[Row]:
    """Return a row for each thing that is computed: ours, on the scale, and beside the paper's judges.

    *Another's* is the same for the description of the next history, as a control.
    """
    histories, n = data.histories(), len(data)
    ours, another = (
        np.array([
            shares(data.descriptions[(row + step) % n], histories[row].names, histories[row].times) for row in range(n)
        ])
        for step in (0, 1)
    )  # fmt: skip
    columns = iter(zip(ours.T, another.T, strict=True))
    rows = [
        _row(data.name, criterion, measure, *next(columns)) for criterion, of in SHARES.items() for measure in of
    ]  # fmt: skip
    counted = iter(counts(data))
    return rows + [
        _row(data.name, criterion, measure, next(counted)) for criterion, of in COUNTS.items() for measure in of
    ]  # fmt: skip


def counts(data: Benchmark) -> list[Array]:
    """Return words per sentence, words, whether the prompt is kept, and the share of sentences implied (test part).

    The prompt asks for two to five sentences without numbers; those in the name of a type do not count.
    """
    words = np.array([len(text.split()) for text in data.descriptions])
    sentences = np.array([len(parse(text)) for text in data.descriptions])
    unquoted = [re.sub('"[^"]*"', "", text) for text in data.descriptions]
    kept = [FEWEST <= k <= MOST and not re.search(r"\d", text) for k, text in zip(sentences, unquoted, strict=True)]
    read = [parse(data.descriptions[row]) for row in data.split.test]
    histories = [History(names, times) for _, names, times in data.histories()]
    return [words / sentences, words, np.array(kept, float), implied(read, histories)]


def implied(read: Sequence[Sequence[Statement]], histories: Sequence[History]) -> Array:
    """Return for each description the share of its sentences that one of its others implies.

    A sentence implies another one if the other one is true in all histories in which it is true, at least 20.

    Args:
        read: The statements of each description.
        histories: Those that tell what implies what.

    Example:
        >>> rows = [History(["A"] * (3 + i), list(range(3 + i))) for i in range(20)]
        >>> implied([parse('The sequence begins with "A". Beginning and end are of the same type.')], rows).tolist()
        [1.0]
    """
    where = {
        statement: np.array([history.holds(statement) for history in histories])
        for statement in {statement for statements in read for statement in statements}
    }
    redundant = [
        {second for first, second in permutations(statements, 2) if _implies(where[first], where[second])}
        for statements in read
    ]
    return np.array([len(some) / len(statements) for some, statements in zip(redundant, read, strict=True)])


def _implies(first: Array, second: Array) -> bool:
    return int(first.sum()) >= FEWEST_CASES and bool(second[first].all())


def _stated(true: Sequence[str], topic: dict[str, str]) -> tuple[float, float]:
    """Return the share of kinds and that of topics that true statements cover; 1 where nothing holds."""
    stated = {kind for kind in true if kind in topic}
    kinds = len(stated) / len(topic) if topic else 1.0
    return kinds, len({topic[kind] for kind in stated}) / max(len(set(topic.values())), 1) if topic else 1.0


def _row(name: str, criterion: str, measure: str, ours: Array, another: Array | None = None) -> Row:
    """Return one row: the mean over descriptions with its 95 % interval, beside the judges' scores if it is a share.

    Args:
        name: of the set.
        criterion: of the paper.
        measure: What is computed of it.
        ours: `(n,)` of the descriptions.
        another: `(n,)` the same of the descriptions of other histories, for shares on the judges' scale.
    """
    value = float(ours.mean())
    score = None if another is None else 1 + 4 * value
    row: Row = {
        "data": name, "criterion": criterion, "measure": measure, "ours": value,
        "±": 1.96 * float(ours.std(ddof=1)) / len(ours) ** 0.5,
        "another's": None if another is None else float(another.mean()), "ours, 1 to 5": score,
    }  # fmt: skip
    for judge in JUDGES:
        paper = QUALITY[judge].get((OURS.get(name, ""), criterion))
        row |= {judge: paper, f"minus {judge}": None if paper is None or score is None else score - paper}
    return row
