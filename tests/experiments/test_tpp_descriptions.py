"""Descriptions of random histories: what the describer states is what the parser calls true, and nothing else."""

from __future__ import annotations

import ast
import itertools
import random
import re
import sys
from pathlib import Path

import pytest
from experiments.tpp import descriptions, sentences, truth
from experiments.tpp.descriptions import PARTS, WORDINGS, describe, sentence
from experiments.tpp.facts import Fact, facts
from experiments.tpp.truth import History

from eventvec.errors import DataError

TYPES = ("Nice Answer", "Guru", "Yearling (old)", "pH", "Mt. Hood")
OTHERS = tuple("abcdefghijkl")
"""Types that occur in some histories, about which the test states nothing."""
BY_NAMES = {
    0: "no_leader diverse narrow same_ends different_ends repeats alternates even uneven gaps_grow gaps_shrink pause "
    "no_pause mostly thin spread burst no_cluster busier calmer widens narrows newcomers all_early",
    1: "majority leading begins ends runs placed regular burst_of clustered cluster_at scattered more less stops "
    "sets_in throughout",
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
    bursts = sorted(abs(rng.choice(centres) + rng.randint(-width, width)) for _ in range(size))
    grid = sorted([0, 40, *rng.choices(range(41), k=size)])[:size]  # bounds such as a tenth of the period are often met
    ladder = list(
        itertools.accumulate(rng.choices((0, 1, 1, 1, 2, 10, 20), rng.choice(((1,) * 7, (0, *[1] * 6))), k=size))
    )
    times = rng.choice((bursts, grid, ladder, list(range(size))))
    weights = [rng.random() ** rng.choice((0, 3)) + 0.01 for _ in TYPES]
    first = rng.choices(TYPES, weights, k=size)
    second = rng.choices(TYPES, rng.sample(weights, len(weights)), k=size)
    cut, others = rng.randint(0, size), rng.choice((0, 0, 0, 0.9))
    names = first[:cut] + second[cut:]
    return [rng.choice(OTHERS) if rng.random() < others else name for name in names], times


def histories(seed: int, number: int) -> list[tuple[list[str], list[int]]]:
    rng = random.Random(seed)
    return [random_history(rng) for _ in range(number)]


def test_facts_and_checks_agree_on_every_statement_about_random_histories() -> None:
    rng = random.Random(0)
    held = set()
    few_gaps = (["Guru"] * 5, [0, 1, 2, 3, 40])  # as few as can be spaced unevenly
    for names, times in [few_gaps, *histories(1, 400)]:
        history = History(names, times)
        stated = {(fact.kind, fact.names, fact.part) for fact in facts(names, times)}
        for fact in all_statements():
            (statement,) = sentences.parse(sentence(fact, rng))
            expected = (fact.kind, fact.names, fact.part) in stated
            assert history.holds(statement) is expected, (fact, names, times)
        held |= {kind for kind, _, _ in stated}
    assert held == set(WORDINGS)  # each kind is true somewhere, so that its check is tested both ways


def test_each_wording_is_read_as_its_kind_and_by_one_pattern_only() -> None:
    for kind, wordings in WORDINGS.items():
        for wording in wordings:
            for part, phrase in [(part, phrase) for part, name in enumerate(PARTS) for phrase in PARTS[name]]:
                text = wording.format(x='"Mt. Hood"', y='"pH"', part=phrase)
                read = [name for name, pattern in sentences.PATTERNS if pattern.fullmatch(text)]
                assert read == [kind], text
                (statement,) = sentences.parse(f"{text[0].upper()}{text[1:]}.")
                assert statement.x == ("Mt. Hood" if "{x}" in wording else "")
                assert statement.y == ("pH" if "{y}" in wording else "")
                assert statement.part == (part if "{part}" in wording else None)


def test_the_parser_and_the_checks_import_nothing_of_the_describer() -> None:
    """They may import each other, the exceptions, and the standard library."""
    for module in (sentences, truth):
        tree = ast.parse(Path(module.__file__).read_text())
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
        outside = {name for name in imported if name and name.split(".")[0] not in sys.stdlib_module_names}
        assert outside <= {"eventvec.errors", "experiments.tpp.sentences"}
        assert not {"importlib", "runpy"} & imported


def test_no_description_has_a_number_and_each_has_two_to_five_sentences() -> None:
    numbers = "one two three four five six seven eight nine ten dozen once twice single half third quarter"
    rng = random.Random(0)
    lengths = set()
    for names, times in histories(2, 300):
        if len(facts(names, times)) < 5:
            continue
        description = describe(names, times, rng)
        lengths.add(len(sentences.parse(description)))
        words = re.findall(r"[a-z]+|\d+", re.sub(r'"[^"]*"', "", description.lower()))
        assert not set(words) & set(numbers.split())
        assert not any(word.isdigit() for word in words)
    assert lengths == {2, 3, 4, 5}


def test_a_description_leaves_most_things_out_and_varies_with_the_seed() -> None:
    names, times = next(history for history in histories(3, 100) if len(facts(*history)) >= 15)
    texts = [describe(names, times, random.Random(seed)) for seed in range(50)]
    assert texts == [describe(names, times, random.Random(seed)) for seed in range(50)]
    assert len(set(texts)) >= 45
    statements = [sentences.parse(text) for text in texts]
    stated = {statement.kind for read in statements for statement in read}
    assert all(len({statement.kind for statement in read}) == len(read) for read in statements)
    assert stated == {fact.kind for fact in facts(names, times)}  # every kind that holds has its turn
    assert all(sum(bool(statement.x) for statement in read) <= descriptions.NAMED for read in statements)


def test_the_order_of_simultaneous_events_does_not_matter() -> None:
    rng = random.Random(5)
    for names, times in histories(4, 200):
        order = sorted(range(len(times)), key=lambda place: (times[place], rng.random()))
        assert set(facts([names[place] for place in order], times)) == set(facts(names, times))


def test_another_unit_and_another_start_change_nothing() -> None:
    for names, times in histories(5, 200):
        assert facts(names, [7 * time + 1_600_000_000_000 for time in times]) == facts(names, times)


def test_short_histories_and_quotation_marks_are_refused() -> None:
    with pytest.raises(DataError, match="only 1 facts hold for a history of 1 events"):
        describe(["Guru"], [0], random.Random(0))
    with pytest.raises(DataError, match="quotation mark"):
        describe(['"Guru"'] * 5, [0, 1, 2, 3, 4], random.Random(0))
    with pytest.raises(DataError, match="as many names as times"):
        facts(["Guru"], [0, 1])
    with pytest.raises(DataError, match="descend"):
        facts(["Guru", "Guru"], [1, 0])


def test_the_readme_defines_every_kind() -> None:
    readme = Path(descriptions.__file__).with_name("README.md").read_text()
    rows = re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|", readme, flags=re.MULTILINE)
    defined = [kind for row in rows for kind in re.findall("[a-z_]+", row)]
    assert sorted(defined) == sorted(WORDINGS) == sorted(sentences.MEANINGS) == sorted(truth.CHECKS)
