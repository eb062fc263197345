"""TOML text to plain values, of limited depth and size, so that every later step can take them apart."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eventvec.credentials import has_login

DEEPEST = 32
"""The number of tables and lists that may lie in one another; a configuration has about five."""


def parse(text: str) -> dict[str, Any]:
    """Return the tables of TOML text, whose values `check_values` refuses if they are too deep or too large.

    Raises:
        tomllib.TOMLDecodeError: If the text is not TOML.
        ValueError: If Python cannot read it because it is nested too deeply, or a number has too many digits.

    Example:
        >>> parse("[fit]\\nepochs = 3")
        {'fit': {'epochs': 3}}
    """
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(f"tables and lists are nested in more than {DEEPEST} levels") from error
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # Python reads at most 4300 digits
        raise ValueError("a whole number has more than 64 bits") from error


def check_values(tables: Mapping[str, Any]) -> None:
    """Refuse tables that are nested too deeply, or that have a whole number of more than 64 bits.

    Raises:
        ValueError: If there is such a value.

    Example:
        >>> check_values({"fit": {"seed": 2**70}})
        Traceback (most recent call last):
        ValueError: fit.seed is a whole number of more than 64 bits
    """
    values: list[tuple[str, Any, int]] = [("", tables, 0)]
    while values:
        place, value, depth = values.pop()
        if depth > DEEPEST:
            raise ValueError(f"{place.split('.')[0]} has tables or lists that are nested in more than {DEEPEST} levels")
        if isinstance(value, int) and value.bit_length() > 63:
            raise ValueError(f"{place} is a whole number of more than 64 bits")
        values += [(part, child, depth + 1) for part, child in _children(place, value)]


def check_texts(tables: Mapping[str, Any], addresses: Sequence[str]) -> None:
    """Refuse a text or a name that may have a password, without showing it.

    Args:
        tables: The tables.
        addresses: The options that may be addresses of tables, with a password; the first may be a table of such.

    Raises:
        ValueError: If there is such a text elsewhere.

    Example:
        >>> check_texts({"encoder": {"from": "postgresql:ann:secret@db"}}, ["data.path"])
        Traceback (most recent call last):
        ValueError: a text of [encoder] looks like an address with a password, which only data.path may have; ...
    """
    values: list[tuple[str, Any]] = [("", tables)]
    while values:
        place, value = values.pop()
        texts = list(map(str, value)) if isinstance(value, Mapping) else []
        if isinstance(value, str) and place not in addresses and place.rpartition(".")[0] != addresses[0]:
            texts = [value]
        if any(map(has_login, texts)):
            table = f"[{place.split('.')[0]}]" if place else "the configuration"
            raise ValueError(
                f"a text of {table} looks like an address with a password, which only {', '.join(addresses)} may have; "
                "it is not shown"
            )
        values += _children(f"{place}[]" if isinstance(value, list | tuple) else place, value)


def _children(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each value in a table or list, after its place."""
    if isinstance(value, Mapping):
        yield from ((f"{place}.{name}" if place else str(name), child) for name, child in value.items())
    elif isinstance(value, list | tuple):
        yield from ((place, child) for child in value)
