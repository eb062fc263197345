"""The names that help shows without importing the parts are those of the parts."""

from __future__ import annotations

import cases
from eventvec import part_names
from eventvec.encoders import ENCODERS
from eventvec.methods import METHODS
from eventvec.methods.declarations import declared


def test_the_names_are_those_of_the_parts() -> None:
    assert tuple(METHODS) == part_names.METHODS
    assert tuple(ENCODERS) == part_names.ENCODERS


def test_the_methods_with_a_paragraph_in_the_card_are_listed() -> None:
    assert tuple(name for name in METHODS if declared(cases.CASES[name]()[0]).card) == part_names.WITH_PARAGRAPH
