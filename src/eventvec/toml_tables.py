"""The TOML of a configuration as tables: what no table may hold is refused; `config` builds parts from them."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any

from eventvec.credentials import has_login
from eventvec.errors import ConfigError, nearest
from eventvec.files import path_only

Table = dict[str, Any]
TABLES = ("data", "encoder", "method", "fit")
ADDRESSES = ("data.path", "data.cutoffs", "data.static")
"""The options that may be the address of a table."""
DEEPEST = 32
"""The number of tables and lists that may lie in one another; a configuration has about five."""


def read_config(path: Path | str, changes: Iterable[str] = ()) -> Table:
    """Return the tables of a TOML file, with changes like `method.margin=0.3` made to them."""
    path_only(path)
    try:
        if not S_ISREG(Path(path).stat().st_mode):
            raise ConfigError(f"{path} is a folder, a pipe or a device; name a TOML file")
        config = parse(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    return change(check_tables(config, f"{path}: "), changes)


def check_tables(config: Mapping[str, Any], prefix: str = "") -> Table:
    """Return a copy of a configuration whose entries are all tables that eventvec reads.

    Args:
        config: The configuration.
        prefix: The start of the message, such as the path of the file.
    """
    try:
        check_values(config)
        check_texts(config, ADDRESSES)
    except ValueError as error:
        raise ConfigError(f"{prefix}{error}") from error
    for name, table in config.items():
        if name not in TABLES:
            raise ConfigError(f"{prefix}[{name}] is not a table of a configuration; {nearest(str(name), TABLES)}")
        if not isinstance(table, Mapping):
            raise ConfigError(f"{prefix}{name} must be a table of options, headed [{name}], got {table!r}")
    return {name: dict(table) for name, table in config.items()}


def change(config: Table, changes: Iterable[str]) -> Table:
    """Return the tables with changes like `method.margin=0.3` made to them."""
    config = copy.deepcopy(config)
    for text in changes:
        place, equals, value = text.partition("=")
        *tables, option = place.strip().split(".")
        if has_login(text) and not place.strip().startswith(ADDRESSES):
            raise ConfigError(
                f"a --set looks like an address with a password, which only {', '.join(ADDRESSES)} may have; it is not "
                "shown"
            )
        if not equals or not tables or not option or tables[0] not in TABLES:
            raise ConfigError(f"--set {text!r} must be table.option=value, where table is one of {', '.join(TABLES)}")
        target = config
        for name in tables:
            target = target.setdefault(name, {})
            if not isinstance(target, dict):
                raise ConfigError(f"--set {text!r} sets an option of {name}, but {name} is {target!r}, not a table")
        target[option] = _value(place, value.strip())
    return check_tables(config, "--set: ")


def parse(text: str) -> dict[str, Any]:
    """Return the tables of TOML text, whose values `check_values` refuses if they are too deep or too large."""
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

    Example:
        >>> check_values({"fit": {"seed": 2**70}})
        Traceback (most recent call last):
        ValueError: fit.seed is a whole number of more than 64 bits
    """
    for path, value, depth in _walk(tables):
        option = path.replace("[]", "")
        if depth > DEEPEST:
            table = option.split(".")[0]
            raise ValueError(f"{table} has tables or lists that are nested in more than {DEEPEST} levels")
        if isinstance(value, int) and value.bit_length() > 63:
            raise ValueError(f"{option} is a whole number of more than 64 bits")


def check_texts(tables: Mapping[str, Any], addresses: Sequence[str]) -> None:
    """Refuse a text or a name that may have a password, without showing it.

    Args:
        tables: The tables.
        addresses: The options that may be addresses of tables, with a password; the first may be a table of such.

    Example:
        >>> check_texts({"encoder": {"from": "postgresql:ann:secret@db"}}, ["data.path"])
        Traceback (most recent call last):
        ValueError: a text of [encoder] looks like an address with a password, which only data.path may have; ...
    """
    for path, value, _ in _walk(tables):
        texts = list(map(str, value)) if isinstance(value, Mapping) else []
        if isinstance(value, str) and path not in addresses and path.rpartition(".")[0] != addresses[0]:
            texts = [value]
        if any(map(has_login, texts)):
            table = f"[{path.split('.')[0]}]" if path else "the configuration"
            raise ValueError(
                f"a text of {table} looks like an address with a password, which only {', '.join(addresses)} may have; "
                "it is not shown"
            )


def _walk(tables: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Yield each value in tables and lists after its path, in which `[]` is any element of a list, with its depth."""
    values: list[tuple[str, Any, int]] = [("", tables, 0)]
    while values:
        path, value, depth = values.pop()
        yield path, value, depth
        if isinstance(value, Mapping):
            values += [(f"{path}.{name}" if path else str(name), each, depth + 1) for name, each in value.items()]
        elif isinstance(value, list | tuple):
            values += [(f"{path}[]", each, depth + 1) for each in value]


def _value(option: str, text: str) -> Any:
    """Return the value of TOML text; a word without quotes is a string."""
    try:
        value, *others = parse(f"v = {text}").values()
    except tomllib.TOMLDecodeError:
        return text
    except ValueError as error:
        raise ConfigError(f"--set {option}: {error}") from error
    return text if others else value
