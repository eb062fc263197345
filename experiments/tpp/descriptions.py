"""Descriptions of event sequences from templates: order, counts and timing in words, without numbers or timestamps.

The paper's descriptions are written by GPT-4o-mini and vary in form. These follow templates, so scores on them cannot
be compared with the paper's.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

COUNTS = ("once", "twice", "three times", "four times", "five times")
DURATIONS = (
    (7, "a few days"), (45, "some weeks"), (180, "some months"), (400, "about a year"), (800, "about two years"),
)  # fmt: skip
OPENINGS = ("The user starts with", "The sequence begins with", "First come")
ENDINGS = ("The last badges are", "It ends with", "Towards the end the user earns")
MOST_FREQUENT = ("Most frequent is", "The badge earned most often is", "Dominant is")
PAUSES = ("The longest pause comes after", "There is a long silence after", "Nothing happens for long after")


def describe(names: Sequence[str], days: Sequence[float], rng: random.Random) -> str:
    """Return a description of one sequence in a few sentences.

    Args:
        names: the text of each event, in order of time.
        days: the time of each event, in days.
        rng: chooses between wordings.

    Example:
        >>> describe(["Guru", "Guru", "Yearling"], [0.0, 0.5, 40.0], random.Random(1))
        'The user starts with Guru, Guru and Yearling. Dominant is Guru (twice), beside Yearling (once). ...'
    """
    ranked = Counter(names).most_common()
    first, *others = (f"{name} ({count_in_words(count)})" for name, count in ranked)
    beside = f", beside {enumerate_words(others[:4])}" if others else ", and nothing else"
    gaps = [later - earlier for earlier, later in pairwise(days)]
    sentences = [
        f"{rng.choice(OPENINGS)} {enumerate_words(names[:3])}.",
        f"{rng.choice(MOST_FREQUENT)} {first}{beside}.",
        f"All of it takes {duration(days[-1] - days[0])}, {busiest_third(days)}.",
        f"{rng.choice(ENDINGS)} {enumerate_words(names[-3:])}.",
    ]
    if gaps:
        longest = max(range(len(gaps)), key=gaps.__getitem__)
        sentences.insert(3, f"{rng.choice(PAUSES)} {names[longest]}, before {names[longest + 1]}.")
    return " ".join(sentences)


def enumerate_words(words: Sequence[str]) -> str:
    """Return words with commas between them and `and` before the last.

    Example:
        >>> enumerate_words(["a", "b", "c"])
        'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def count_in_words(count: int) -> str:
    """Return a count in words, vague above five.

    Example:
        >>> count_in_words(2), count_in_words(7), count_in_words(30)
        ('twice', 'several times', 'many times')
    """
    return COUNTS[count - 1] if count <= len(COUNTS) else "several times" if count < 10 else "many times"


def duration(days: float) -> str:
    """Return a duration in words.

    Example:
        >>> duration(30.0), duration(2000.0)
        ('some weeks', 'several years')
    """
    return next((words for bound, words in DURATIONS if days < bound), "several years")


def busiest_third(days: Sequence[float]) -> str:
    """Return in words which third of the time contains most of the events.

    Example:
        >>> busiest_third([0.0, 1.0, 2.0, 30.0]), busiest_third([0.0, 5.0, 10.0])
        ('most of it early', 'spread evenly')
    """
    whole = (days[-1] - days[0]) or 1.0
    thirds = Counter(min(int(3 * (day - days[0]) / whole), 2) for day in days)
    third, count = thirds.most_common(1)[0]
    return (
        ("most of it early", "most of it midway", "most of it late")[third]
        if 2 * count > len(days)
        else "spread evenly"
    )
