"""Descriptions of random histories: what the describer states is what the parser calls true, and nothing else."""

from __future__ import annotations

import ast
import itertools
import random
import re
from pathlib import Path

import pytest

from eventvec.errors import DataError
from experiments.tpp import descriptions, sentences, truth
from experiments.tpp.descriptions import PARTS, WORDINGS, describe, sentence
from experiments.tpp.facts import Fact, facts
from experiments.tpp.truth import History

TYPES = ("Nice Answer", "Guru", "Yearling (old)", "pH", "Mt. Hood")
BY_NAMES = {
    0: "no_leader diverse narrow same_ends different_ends repeats alternates even uneven gaps_grow gaps_shrink pause "
    "no_pause mostly thin spread burst no_cluster busier calmer widens narrows newcomers all_early",
    1: "majority leading begins ends runs placed regular burst_of clustered cluster_at scattered more less stops sets_in "
    "throughout",
    2: "only_these before follows together gives_way",
}
"""Kinds by the number of types that they name."""
IN_A_PART = ("placed", "pause", "mostly", "thin", "burst", "cluster_at")


def all_statements() -> list[Fact]:
    """Return everything that can be stated about the types, true or not."""
    return [
        Fact("", kind, names, part)
        for number, kinds in BY_NAMES.items()
        for kind in kinds.split()
        for names in itertools.permutations(TYPES, number)
        for part in (PARTS if kind in IN_A_PART else ("",))
    ]


def random_history(rng: random.Random) -> tuple[list[str], list[int]]:
    """Return a history with ties, bursts, frequent and rare types, and types that change over time."""
    size, period = rng.randint(1, 40), rng.choice((0, 3, 12, 60, 10_000))
    centres = [rng.randint(0, period) for _ in range(rng.randint(1, 4))]
    width = rng.choice((0, period // 20, period))
    times = sorted(abs(rng.choice(centres) + rng.randint(-width, width)) for _ in range(size))
    weights = [rng.random() ** rng.choice((0, 3)) + 0.01 for _ in TYPES]
    first = rng.choices(TYPES, weights, k=size)
    second = rng.choices(TYPES, rng.sample(weights, len(weights)), k=size)
    cut = rng.randint(0, size)
    return first[:cut] + second[cut:], times


def histories(seed: int, number: int) -> list[tuple[list[str], list[int]]]:
    rng = random.Random(seed)
    return [random_history(rng) for _ in range(number)]


def test_facts_and_checks_agree_on_every_statement_about_random_histories() -> None:
    rng = random.Random(0)
    held = set()
    for names, times in histories(1, 400):
        history = History(names, times)
        stated = {(fact.kind, fact.names, fact.part) for fact in facts(names, times)}
        for fact in all_statements():
            (statement,) = sentences.parse(sentence(fact, rng))
            expected = (fact.kind, fact.names, fact.part) in stated
            assert history.holds(statement) is expected, (fact, names, times)
        held |= {kind for kind, _, _ in stated}
    assert held == set(WORDINGS)  # each kind is true somewhere, so that its check is tested both ways
