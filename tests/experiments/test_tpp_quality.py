"""What is computed of the quality of descriptions, counted by hand and beside loops."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest
from experiments.tpp.benchmarks import KEY, Benchmark, split
from experiments.tpp.descriptions import describe
from experiments.tpp.facts import facts
from experiments.tpp.published import OURS, QUALITY
from experiments.tpp.quality import TEMPORAL, counts, implied, quality, shares
from experiments.tpp.sentences import parse
from experiments.tpp.truth import History

NAMES, TIMES = ["Guru"] * 4 + ["Caucus"] * 4, [0, 1, 2, 3, 30, 31, 32, 33]


def test_true_sentences_and_what_they_cover_are_counted_by_hand() -> None:
    topic = {fact.kind: fact.topic for fact in facts(NAMES, TIMES)}
    temporal = [kind for kind, of in topic.items() if of in TEMPORAL]
    assert {topic["gives_way"], topic["begins"], topic["pause"]} == {"trends", "order", "timing"}
    text = (
        '"Guru" gives way to "Caucus". The sequence begins with "Guru". There is a long pause near the beginning. '
        'The sequence ends with "Guru".'
    )
    found = shares(text, NAMES, TIMES)  # the pause is midway, and the end is of Caucus
    assert found.true == 0.5
    assert found.kinds == 2 / len(topic)
    assert found.topics == 2 / len(set(topic.values()))
    assert found.temporal_kinds == 1 / len(temporal)
    assert found.temporal_topics == 1 / 3
    assert shares('The sequence ends with "Guru".', NAMES, TIMES) == (0.0,) * 5


def test_a_history_at_one_time_has_no_temporal_facts_to_miss() -> None:
    found = shares('Most of the events are "A".', ["A", "A", "A", "B"], [0, 0, 0, 0])
    assert (found.true, found.topics, found.temporal_kinds, found.temporal_topics) == (1.0, 1.0, 1.0, 1.0)


def test_sentences_that_others_imply_are_those_of_a_loop() -> None:
    rng = random.Random(0)
    histories = []
    for _ in range(200):
        names = rng.choices("ABC", k=rng.randint(6, 30))
        histories.append(History(names, sorted(rng.randrange(1000) for _ in names)))
    read = [parse(describe(history.names, history.at, rng)) for history in histories[:40]]
    read.append(parse('The sequence begins with "A". The sequence ends with "A". "B" is absent from the later part.'))
    read.append(parse('Only a small range of types appears. Most of the events are "A".'))
    expected = []
    for statements in read:
        redundant = 0
        for second in statements:
            for first in statements:
                cases = [history for history in histories if history.holds(first)]
                if first is not second and len(cases) >= 20 and all(history.holds(second) for history in cases):
                    redundant += 1
                    break
        expected.append(redundant / len(statements))
    assert implied(read, histories).tolist() == expected
    assert implied([parse("No type dominates the sequence.")], histories).tolist() == [0.0]


def made(size: int = 30) -> Benchmark:
    """Return histories in which A comes before B, described."""
    rng, events, texts = random.Random(1), [], []
    for key in range(size):
        names = ["A"] * rng.randint(3, 6) + ["B"] * rng.randint(3, 6)
        times = sorted(rng.sample(range(10_000), len(names)))
        texts.append(describe(names, times, rng))
        events += [(key, time, name) for name, time in zip(names, times, strict=True)]
    table = pl.DataFrame(events, [KEY, "time", "type_text"], orient="row")
    return Benchmark("usgs_earthquakes", table, texts, 1, split(size))


def test_rows_stand_beside_the_judges() -> None:
    data = made()
    rows = {row["measure"]: row for row in quality(data)}
    true = rows["sentences that are true"]
    assert (true["ours"], true["ours, 1 to 5"]) == (1.0, 5.0)
    assert true["another's"] < 1
    assert true["minus GPT-4o"] == pytest.approx(5 - 4.36)
    assert true["minus GPT-4o-mini"] == pytest.approx(5 - 4.99)
    kinds = rows["kinds of facts that hold and are stated"]
    histories = data.histories()
    by_loop = [
        len({statement.kind for statement in parse(text)}) / len({fact.kind for fact in facts(names, times)})
        for text, (_, names, times) in zip(data.descriptions, histories, strict=True)
    ]
    assert kinds["ours"] == pytest.approx(np.mean(by_loop))
    assert kinds["minus GPT-4o"] == pytest.approx(1 + 4 * np.mean(by_loop) - 4.31)
    assert rows["words"]["minus GPT-4o"] is None
    assert rows["words per sentence"]["GPT-4o"] == 4.96
    assert all(row["ours"] == 1 for row in rows.values() if row["measure"] == "2 to 5 sentences, no number")


def test_counts_are_of_words_and_the_prompt_leaves_out_numbers_but_in_names() -> None:
    data = made(10)
    data.descriptions[0] = 'The sequence begins with "Type 7". It all finishes with "A".'
    data.descriptions[1] = 'The sequence begins with "A".'
    per_sentence, words, kept, _ = counts(data)
    assert (per_sentence[0], words[0]) == (5.5, 11)
    assert kept[:2].tolist() == [1, 0]


def test_the_published_tables_have_a_score_for_every_set_and_criterion() -> None:
    assert [len(table) for table in QUALITY.values()] == [25, 25]
    assert QUALITY["GPT-4o"]["amazon-review", "conciseness"] == 4.82
    assert QUALITY["GPT-4o-mini"]["chicago-crime", "coverage"] == 4.87
    assert QUALITY["GPT-4o"][OURS["stackoverflow_badges"], "accuracy"] == 4.10
