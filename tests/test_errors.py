"""Messages: one line that no terminal obeys, short names, no values of a header that is data, and bounded work."""

from __future__ import annotations

import difflib
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from eventvec.cli import app
from eventvec.errors import COMPARED, CheckpointError, ConfigError, DataError, listed, nearest, no_column, shown
from eventvec.tables import read

HOSTILE = "\x1b[31mred\x07\n\u202e\u200b\ud800"


@pytest.mark.parametrize("kind", [DataError, ConfigError, CheckpointError])
def test_no_message_has_a_character_that_a_terminal_obeys(kind: type[Exception]):
    message = str(kind(f"column {HOSTILE} is absent"))
    assert message == r"column \x1b[31mred\x07\n\u202e\u200b\ud800 is absent"
    assert str(kind("ä · 日本 ±")) == "ä · 日本 ±"


def test_the_terminal_shows_escapes_of_names_of_columns_and_files(tmp_path: Path):
    path = tmp_path / "a\x1b[31m\n.csv"
    path.write_text("card\x1b[31m,day\u202e\n1,2\n")
    for arguments in (["--key", "cart", "--time", "day"], []):
        result = CliRunner().invoke(app, ["fit", "--events", str(path), *arguments, "--dry-run"])
        assert result.exit_code in (1, 2)
        assert "\\x1b[31m" in result.output
        assert result.output.strip("\n").isprintable()
    missing = CliRunner().invoke(app, ["fit", "--events", f"{path}x", "--key", "a", "--time", "b", "--dry-run"])
    assert missing.exit_code == 1
    assert missing.output.strip("\n").isprintable()


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


SECRETS = [
    "4000123412341234",
    "2020-01-31",
    "31.01.2020 10:00",
    "-1.5",
    ".5",
    " 7",
    "5d0c3f5e-3f0e-4c5e-9a54-3a1cf3e3d6c9",
    "aD0c3f5e3f0e4c5e9a543a1cf3e3d6c9",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_header_that_is_data_is_named_as_such_and_not_shown(tmp_path: Path, secret: str):
    path = tmp_path / "events.csv"
    path.write_text(f"{secret},anna\n{secret},bea\n")
    for source, header in ((path, "the first line of events.csv"), (pl.read_csv(path), "the header")):
        with pytest.raises(DataError) as caught:
            read(source, key="card", time="at")
        message = str(caught.value)
        assert message.startswith(f"there is no column 'card'; {header} looks like data, not like column names; give")
        assert secret.strip() not in message
        assert "anna" not in message
        with pytest.raises(ConfigError) as unnamed:
            read(source)
        assert f"must name a column of the table; {header} looks like data" in str(unnamed.value)
        assert "anna" not in str(unnamed.value)


def test_columns_whose_names_begin_with_a_digit_can_be_used():
    table = pl.DataFrame({"1st": [1, 1], "2020-01-31": [1, 2], "3": [0.5, 1.5]})
    assert len(read(table, key="1st", time="2020-01-31", numeric=["3"])) == 1
