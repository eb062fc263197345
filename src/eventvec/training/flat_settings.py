"""Settings by their names alone: `dim=64` goes into the table of the one part that takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from eventvec.config import Table, arguments, completed
from eventvec.errors import ConfigError, nearest
from eventvec.methods.declarations import suggested
from eventvec.options import option_types
from eventvec.parts import ENCODER_NAMES, METHOD_NAMES, NESTED, load_installed
from eventvec.sequences import Sequences
from eventvec.toml_tables import check_tables
from eventvec.training.fit_options import FitOptions

GIVEN = ("encoder", "schema")
"""The arguments of constructors that are no settings."""
Path = tuple[str, ...]


def tables_of(method: str | Mapping[str, Any], encoder: str | Mapping[str, Any] | None) -> Table:
    """Return the tables of a configuration from a method and an encoder.

    Args:
        method: The name of a method, its table (which has a `name`), or the tables of a configuration.
        encoder: The name of an encoder, or its table; None for that of `method`, or the one that suits it.

    Example:
        >>> tables_of({"name": "coles", "margin": 0.3}, "lstm")
        {'method': {'name': 'coles', 'margin': 0.3}, 'encoder': {'name': 'lstm'}}
    """
    if isinstance(method, str):
        method = {"name": method}
    load_installed()
    tables = check_tables({"method": method} if "name" in method else method)
    if encoder is not None:
        table = {"name": encoder} if isinstance(encoder, str) else encoder
        tables["encoder"] = {**tables.get("encoder", {}), **table}
    return tables


def with_settings(tables: Table, settings: Mapping[str, Any], x: Sequences) -> Table:
    """Return the tables with settings that are given by their names alone.

    A name stands for the option of `[fit]`, of the method, of its views or other parts, of the encoder, or of its event
    encoder that is called so.

    Args:
        x: The rows to train on, by which a method suggests its encoder.

    Example:
        >>> import torch
        >>> x = Sequences({}, torch.arange(3), torch.ones(3).long())
        >>> with_settings({"method": {"name": "coles"}}, {"dim": 64, "margin": 0.3, "longest": 9, "lr": 0.1}, x) == {
        ...     "method": {"name": "coles", "margin": 0.3, "views": {"longest": 9}},
        ...     "encoder": {"dim": 64}, "fit": {"lr": 0.1}}
        True
    """
    if not settings:
        return tables
    load_installed()
    places = _places(tables, x)
    for name, value in settings.items():
        found = places.get(name, [])
        if not found:
            raise ConfigError(f"there is no option {name!r}; {nearest(name, places)}")
        if len(found) > 1:
            paths = [".".join(path) for path in found]
            raise ConfigError(
                f"{name} may mean {' or '.join(paths)}; give the one that you mean inside its table, such as "
                f"{found[0][0]}={set_at({}, found[0][1:], value)!r}"
            )
        (path,) = found
        tables = set_at(tables, path, value)
    return tables


def _places(tables: Table, x: Sequences) -> dict[str, list[Path]]:
    """Return the paths of all options by their last names."""
    method = {"name": "coles", **tables.get("method", {})}
    constructor = METHOD_NAMES.get(str(method["name"]))
    encoder = {**suggested(constructor, x)["encoder"], **tables.get("encoder", {})}
    paths: list[Path] = [("fit", name) for name in option_types(FitOptions)]
    paths += [("method", *path) for path in _options(method, METHOD_NAMES)]
    paths += [("encoder", *path) for path in _options(encoder, ENCODER_NAMES)]
    places: dict[str, list[Path]] = {}
    for path in paths:
        places.setdefault(path[-1], []).append(path)
    return places


def _options(table: Table, names: Mapping[str, Callable[..., Any]]) -> Iterator[Path]:
    """Yield the path of each option of the part that a table names, and of the parts inside it."""
    constructor = names.get(str(table.get("name", "")))
    if constructor is None:
        return
    every = completed(table, names)
    for option in arguments(constructor):
        inner = every.get(option)
        if isinstance(inner, Mapping):
            yield from ((option, *path) for path in _options({"name": option, **inner}, NESTED))
        elif option not in GIVEN:
            yield (option,)


def set_at(table: Table, path: Path, value: Any) -> Table:
    """Return a table with a value at a path."""
    if not path[1:]:
        return {**table, path[0]: value}
    inner = table.get(path[0], {})
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{path[0]} is {inner!r}, which has no option {path[1]!r}")
    return {**table, path[0]: set_at(dict(inner), path[1:], value)}
