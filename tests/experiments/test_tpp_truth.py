"""Sentences that are true and false of small histories, worked out by hand, and false ones planted in descriptions."""

from __future__ import annotations

import random
import re

import numpy as np
import polars as pl
import pytest
from experiments.tpp import benchmarks, sentences
from experiments.tpp.benchmarks import KEY, SETS, benchmark, split
from experiments.tpp.descriptions import describe
from experiments.tpp.discrimination import bag_of_words, fits, shares_of_others
from experiments.tpp.scores import perfect_reader
from experiments.tpp.sentences import Statement, parse
from experiments.tpp.truth import History, holds

from eventvec.errors import DataError

SWITCH = History(["Guru"] * 4 + ["Caucus"] * 4, [0, 1, 2, 3, 30, 31, 32, 33])
"""Four gurus within the first third, a pause of 27 of 33, and four caucuses within the last third."""
STEADY = History(["A", "B"] * 6, list(range(0, 60, 5)))
"""Two types in turn, five apart."""
SLOWING = History(["A", "B", "C", "B", "B", "B", "B", "B", "B"], [0, 1, 2, 3, 4, 14, 24, 34, 44])
NAMES = ("Guru", "Caucus", "Nice Answer", "Yearling", "Mt. Hood", "pH", "A (b)", "Large")
CLOCK = History(["A"] * 11, list(range(11)))
"""Gaps of exactly a tenth of the period."""
TIED = History(["A", "B", "A", "B", "A", "B", "C"], [0, 0, 5, 5, 10, 10, 20])


@pytest.mark.parametrize(
    ("history", "true", "false"),
    [
        (SWITCH, '"Guru" gives way to "Caucus".', '"Caucus" gives way to "Guru".'),
        (SWITCH, '"Guru" tends to come before "Caucus".', '"Guru" tends to come after "Caucus".'),
        (SWITCH, '"Guru" occurs mainly early on.', '"Guru" occurs mainly towards the end.'),
        (SWITCH, 'In the late part, "Caucus" has most of its events.', '"Caucus" occurs mainly midway through.'),
        (SWITCH, "There is a long pause midway through.", "There is a long pause near the beginning."),
        (SWITCH, '"Guru" is absent from the later part.', '"Guru" is absent from the earlier part.'),
        (SWITCH, 'The sequence begins with "Guru".', 'The sequence begins with "Caucus".'),
        (SWITCH, 'It all finishes with "Caucus".', 'It all finishes with "Guru".'),
        (SWITCH, 'Nearly all events are either "Guru" or "Caucus".', 'Most of the events are "Guru".'),  # exactly half
        (SWITCH, 'There is a cluster of "Guru" early on.', 'There is a cluster of "Guru" towards the end.'),
        (SWITCH, "Very short and very long gaps both occur.", "The events are fairly evenly spaced."),
        (SWITCH, "Types tend to repeat directly.", "Types seldom repeat directly."),  # 6 of 7 steps
        (SWITCH, '"Caucus" tends to repeat right away.', '"Caucus" is often directly followed by "Guru".'),
        (STEADY, "The events are fairly evenly spaced.", "Very short and very long gaps both occur."),
        (STEADY, '"A" is often directly followed by "B".', '"A" tends to repeat right away.'),
        (STEADY, "Types seldom repeat directly.", "Types tend to repeat directly."),
        (STEADY, '"B" recurs at regular intervals.', '"B" becomes more frequent over time.'),
        (STEADY, "Activity never halts for long.", "There is a long pause midway through."),  # 5 of 55
        (STEADY, '"A" occurs throughout the sequence.', '"A" comes in a tight cluster.'),
        (STEADY, "Beginning and end are of different types.", "Beginning and end are of the same type."),
        (SLOWING, "The pace slows down over time.", "The pace quickens over time."),  # medians 1 and 10
        (SLOWING, '"B" makes up the majority of the sequence.', '"A" makes up the majority of the sequence.'),
        (SLOWING, "The earlier part is busier than the later part.", "Activity never halts for long."),
        (SLOWING, "Most of the events take place early on.", "Most of the events take place in the late part."),
        (SLOWING, "All types are present early on.", "New types still appear towards the end."),
        (SLOWING, "Fewer types are involved later than earlier.", "More types are involved later than earlier."),
        (CLOCK, "There is no long pause.", "There is a long pause midway through."),
        (TIED, '"A" usually coincides with "B".', '"A" usually coincides with "C".'),
        (TIED, 'The sequence ends with "C".', 'The sequence begins with "A".'),  # or with B
    ],
)  # fmt: skip
def test_sentences_of_small_histories(history: History, true: str, false: str) -> None:
    assert (holds(true, history), holds(false, history)) == (True, False)
    assert not holds(f"{true} Also, {false[0].lower()}{false[1:]}", history)


OPPOSITES = (
    (r'^("[^"]+") tends to come before ("[^"]+")', r"\2 tends to come before \1"),
    (r'^("[^"]+") gives way to ("[^"]+")', r"\2 gives way to \1"),
    (r'^((?:"[^"]+"|Most events of the type "[^"]+") (?:occurs mainly|appears predominantly|fall)) (?:early on|near the'
     " beginning|in the early part)", r"\1 towards the end"),
    (r'^((?:"[^"]+"|Most events of the type "[^"]+") (?:occurs mainly|appears predominantly|fall)) (?:late in the'
     " sequence|towards the end|in the late part)", r"\1 early on"),
    ("^(There is a long pause|Activity halts for long|Most of the events take place|The bulk of the activity comes) "
     "(?:early on|near the beginning|in the early part)", r"\1 towards the end"),
    ("^(There is a long pause|Activity halts for long|Most of the events take place|The bulk of the activity comes) "
     "(?:late in the sequence|towards the end|in the late part)", r"\1 near the beginning"),
    (r'^("[^"]+") becomes more frequent over time', r"\1 becomes less frequent over time"),
    (r'^("[^"]+") becomes less frequent over time', r"\1 becomes more frequent over time"),
    (r'^("[^"]+") is absent from the later part', r"\1 is absent from the earlier part"),
    (r'^("[^"]+") is absent from the earlier part', r"\1 is absent from the later part"),
    ("^Activity increases over time", "Activity decreases over time"),
    ("^Activity decreases over time", "Activity increases over time"),
    ("^The pace slows down over time", "The pace quickens over time"),
    ("^The pace quickens over time", "The pace slows down over time"),
    ("^The events are fairly evenly spaced", "The events are spaced very unevenly"),
    ("^The events are spaced very unevenly", "The events are fairly evenly spaced"),
    ("^Beginning and end are of the same type", "Beginning and end are of different types"),
    ("^Beginning and end are of different types", "Beginning and end are of the same type"),
    ("^The variety of types grows over time", "The variety of types shrinks over time"),
    ("^Types tend to repeat directly", "Types seldom repeat directly"),
    (r'^The sequence (begins|ends) with "[^"]+"', r'The sequence \1 with "Unheard of"'),
    (r'^Most of the events are "[^"]+"', 'Most of the events are "Unheard of"'),
)  # fmt: skip
"""Sentences, as regular expressions, and what contradicts them."""


def planted(description: str) -> list[str]:
    """Return the description with one of its sentences turned into what contradicts it, for each that can be."""
    split_up = re.findall(r'(?:"[^"]*"|[^".])+\.', description)
    plants = []
    for place, text in enumerate(split_up):
        for pattern, opposite in OPPOSITES:
            false = re.sub(pattern, opposite, text.strip())
            if false != text.strip():
                plants.append(" ".join(part.strip() for part in [*split_up[:place], false, *split_up[place + 1 :]]))
    return plants


def random_histories(seed: int, number: int) -> list[tuple[list[str], list[int]]]:
    """Return histories of which at least two facts hold: of 5 to 60 events of 2 to 8 types, some of them rare."""
    rng = random.Random(seed)
    drawn = []
    for _ in range(number):
        types = rng.sample(NAMES, rng.randint(2, 8))
        size, spread = rng.randint(5, 60), rng.choice((1, 3))
        names = rng.choices(types, [1 / (1 + place) ** rng.choice((0, 1)) for place in range(len(types))], k=size)
        drawn.append((names, sorted(round(1_000_000 * rng.random() ** spread) for _ in range(size))))
    return drawn


def check_descriptions(histories: list[tuple[list[str], list[int]]], descriptions: list[str]) -> None:
    """Assert that descriptions are true, that planted sentences are caught, and that others' are mostly false."""
    read = [History(*history) for history in histories]
    false_plants = 0
    for history, description in zip(read, descriptions, strict=True):
        assert holds(description, history), description
        for plant in planted(description):
            assert not holds(plant, history), plant
            false_plants += 1
    assert false_plants >= len(read) / 3
    some = slice(0, 60)
    assert shares_of_others(fits(descriptions[some], read[some])).mean() < 0.15


def test_descriptions_of_random_histories_are_true_and_planted_sentences_are_caught() -> None:
    histories, rng = random_histories(0, 400), random.Random(1)
    check_descriptions(histories, [describe(*history, rng) for history in histories])


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sequences", "events", "types", "drawn", "parts"),
    [
        ("stackoverflow_badges", 3_780, 221_481, 19, 1_500, [1200, 150, 150]),
        ("usgs_earthquakes", 839, 8_408, 3, 839, [671, 84, 84]),
        ("physionet2012", 3_997, 1_733_980, 37, 1_500, [1200, 150, 150]),
    ],
)
def test_benchmarks_have_their_counts_and_true_descriptions_and_planted_sentences_are_caught(
    name: str, sequences: int, events: int, types: int, drawn: int, parts: list[int]
) -> None:
    table = SETS[name][0]()
    assert (table[KEY].n_unique(), len(table), table["type_text"].n_unique()) == (sequences, events, types)
    data = benchmark(name)
    lengths = data.events.group_by(KEY).len()["len"]
    assert (len(data), [len(rows) for rows in split(len(data))]) == (drawn, parts)
    assert lengths.min() >= benchmarks.SHORTEST  # type: ignore[operator]
    assert lengths.max() <= benchmarks.LONGEST  # type: ignore[operator]
    assert isinstance(data.events, pl.DataFrame)
    assert len(set(data.descriptions)) >= 0.99 * len(data)
    check_descriptions([(history.names, history.times) for history in data.histories()], data.descriptions)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"Guru" is wonderful.', "cannot be read"),
        ("There is a long pause in March.", "cannot be read"),
        ('"Guru" closes the sequence', "no sequence of sentences"),
        ("", "no sequence of sentences"),
        ('"Guru" gives way to "Guru.', "no sequence of sentences"),
        ('"Guru" gives way to Caucus.', "cannot be read"),
        ("Also, also, there is no long pause.", "cannot be read"),
        ('Right after "Guru" there is usually "Caucus" again.', "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_an_error(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse(text)
    with pytest.raises(DataError, match=message):
        parse(f"There is no long pause. {text}")


def test_a_name_that_does_not_occur_makes_a_sentence_false() -> None:
    names = {"x": "Great Answer", "y": "Guru"}
    for kind, patterns in sentences.MEANINGS.items():
        if "(?P<x>" in patterns[0]:
            statement = Statement(kind, names["x"], names["y"] if "(?P<y>" in patterns[0] else "", 0)
            assert not SWITCH.holds(statement)


# How far descriptions discriminate


def test_the_perfect_reader_has_the_expectation_of_a_random_order_of_what_fits() -> None:
    fit = np.array([[1, 1, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]], dtype=bool)
    rng = np.random.default_rng(0)
    orders = [
        [rng.permutation(np.flatnonzero(row)).tolist().index(answer) + 1 for answer, row in enumerate(fit)]
        for _ in range(4000)
    ]
    mrr, recall = (score.value for score in perfect_reader(fit, k=2))
    assert mrr == pytest.approx((1 / np.array(orders)).mean(), abs=0.01)
    assert recall == pytest.approx((np.array(orders) <= 2).mean(), abs=0.01)
    assert shares_of_others(fit).tolist() == pytest.approx([2 / 3, 0, 1 / 3, 1])


def test_a_bag_of_words_sees_the_types_and_not_their_order() -> None:
    ab, ba, cc = "0.00,Guru\n1.00,Caucus", "0.00,Caucus\n1.00,Guru", "0.00,Yearling\n1.00,Yearling"
    texts = ['"Guru" gives way to "Caucus".', '"Caucus" gives way to "Guru".', '"Yearling" opens the sequence.']
    mrr, _ = bag_of_words(texts, [ab, ba, cc], [ab, ba, cc])
    assert mrr.value == pytest.approx((0.75 + 0.75 + 1) / 3)  # the first two are level: rank 1 or 2
