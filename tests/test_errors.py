"""Messages: one line that no terminal obeys, short names, no values of a header that is data, and bounded work."""

from __future__ import annotations

import difflib

import pytest

from eventvec.errors import COMPARED, CheckpointError, ConfigError, DataError, listed, nearest, no_column, shown

HOSTILE = "\x1b[31mred\x07\n\u202e\u200b\ud800"


@pytest.mark.parametrize("kind", [DataError, ConfigError, CheckpointError])
def test_no_message_has_a_character_that_a_terminal_obeys(kind: type[Exception]):
    message = str(kind(f"column {HOSTILE} is absent"))
    assert message == r"column \x1b[31mred\x07\n\u202e\u200b\ud800 is absent"
    assert str(kind("ä · 日本 ±")) == "ä · 日本 ±"


def test_names_and_values_are_shortened():
    assert shown("x" * 50) == "'" + "x" * 40 + "…'"
    assert shown("it's\n") == '"it\'s\\n"'
    assert shown(10**5000) == "a whole number of 16,610 bits"
    assert shown(-3) == "-3"
    assert len(shown(list(range(1000)))) == 41
    assert listed("abc") == "a, b, c"
    assert listed(str(place) for place in range(1500)).endswith(", 19, … (1,500 in all)")
    message = no_column("y" * 100, ["x" * 10_000, "short"])
    assert message == f"there is no column '{'y' * 40}…'; accepted: short, {'x' * 40}…"


def test_the_nearest_names_are_found_among_many(monkeypatch: pytest.MonkeyPatch):
    compared: list[int] = []
    original = difflib.get_close_matches
    monkeypatch.setattr(
        difflib,
        "get_close_matches",
        lambda name, names, **how: compared.append(len(names)) or original(name, names, **how),
    )
    names = [f"column_{place:05d}" for place in range(20_000)]
    assert nearest("ammount", [*names, "amount"]).startswith("did you mean 'amount'? accepted: amount, column_00000")
    assert nearest("column_x", names).startswith("did you mean 'column_")
    assert "did you mean" not in nearest("shop", names)
    assert compared == [COMPARED] * 3


def test_a_wrong_name_of_any_type_is_compared():
    assert nearest(3, ["a", "3"]) == "did you mean '3'? accepted: 3, a"
    assert nearest("a", []) == "accepted: none"
