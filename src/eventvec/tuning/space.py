"""Which settings are searched, and which of their values are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eventvec.config import Table
from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, shown
from eventvec.models.building import outline
from eventvec.options import as_table, gather
from eventvec.training import FitOptions
from eventvec.training.flat_settings import set_at
from eventvec.training.setup import settings

MATTER = ("encoder.dim", "fit.lr", "fit.batch_size")
"""The settings that are searched if none is named: those with the largest effects in `experiments/settings`."""
FACTORS = (0.25, 0.5, 1, 2, 4)
"""By which their defaults are multiplied."""
FIXED = ("fit.epochs", "fit.time_budget", "fit.seed", "encoder.from")
"""The settings that are the same for all trials."""
Space = dict[str, list[Any]]


def search_space(
    data: Dataset, tables: Table, given: Mapping[str, Sequence[Any]] | None
) -> tuple[Space, dict[str, int]]:
    """Return the values of each setting, numbers in ascending order, and the place of the default among them.

    Args:
        data: The entities to train on, from which defaults follow.
        tables: The tables `method`, `encoder` and `fit`, as far as they are given.
        given: The values to try by the dotted name of the setting; None for multiples of the defaults of `MATTER`.
    """
    config = settings(data.sequences, tables)
    config["fit"] = {**as_table(FitOptions()), **config["fit"]}
    defaults = {name: value_at(config, name) for name in (MATTER if given is None else given)}
    if given is None:
        given = {name: _multiples(data, tables, name, value) for name, value in defaults.items() if value is not None}
    if not given:
        raise ConfigError("no setting is named, and the method has none that is searched by default; name one")
    for name, values in given.items():
        if "." not in name or name in FIXED:
            raise ConfigError(f"{name!r} cannot be searched; name an option with its table, such as {MATTER[0]}")
        if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
            raise ConfigError(f"the values of {name} must be a list, such as [1, 2, 4], got {shown(values)}")
        for value in values:
            _check(data, with_values(tables, {name: value}))
    space = {name: _ordered(values, defaults[name]) for name, values in given.items()}
    return space, {name: values.index(defaults[name]) for name, values in space.items()}


def value_at(tables: Table, name: str) -> Any:
    """Return the value of the option with a dotted name; None if there is none."""
    value: Any = tables
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def with_values(tables: Table, values: Mapping[str, Any]) -> Table:
    """Return tables with the options of dotted names; one whose value is None stays as it is."""
    for name, value in values.items():
        tables = tables if value is None else set_at(tables, tuple(name.split(".")), value)
    return tables


def _multiples(data: Dataset, tables: Table, name: str, default: Any) -> list[Any]:
    """Return the multiples of a default that the method takes."""
    values: list[Any] = []
    for factor in FACTORS:
        value = max(round(default * factor), 1) if isinstance(default, int) else default * factor
        try:
            _check(data, with_values(tables, {name: value}))
        except ConfigError:
            continue
        values.append(value)
    return values


def _check(data: Dataset, tables: Table) -> None:
    """Refuse tables from which no method can be built."""
    config = settings(data.sequences, tables)
    gather(config["fit"], FitOptions)
    outline(config, data.schema)


def _ordered(values: Sequence[Any], default: Any) -> list[Any]:
    """Return values once each with the default; numbers in ascending order, others with the default first."""
    distinct = [default]
    distinct += [value for place, value in enumerate(values) if value != default and value not in values[:place]]
    return sorted(distinct) if are_numbers(distinct) else distinct


def are_numbers(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers, which have an order."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
