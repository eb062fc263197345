"""Which events count: those of some categories, and those whose numbers compare in some ways."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from eventvec.errors import ConfigError, nearest, shown
from eventvec.labels.rules import listed
from eventvec.schema import FIRST, Categorical, Numeric, Schema

Condition: TypeAlias = Callable[[Tensor], Tensor]
"""A function from `(m,)` values of a column to `(m,)` bool."""

COMPARISONS = {">=": torch.ge, "<=": torch.le, ">": torch.gt, "<": torch.lt, "=": torch.eq}


def conditions(schema: Schema, where: Mapping[str, Any]) -> list[tuple[str, Condition]]:
    """Return the columns that are tested, each with its condition; an event counts if it fulfils all of them.

    Several values of a category are alternatives, several comparisons of a number must all hold. A missing value
    fulfils none.
    """
    if not isinstance(where, Mapping):
        raise ConfigError(f"where must be a mapping from columns to values, got {type(where).__name__}")
    tests: list[tuple[str, Condition]] = []
    for name, given in where.items():
        values = listed(given)
        if not values:
            raise ConfigError(f"where names no value of column {shown(name)}; give one at least, or leave it out")
        field = field_of(schema, name)
        if isinstance(field, Categorical):
            tests.append((name, _one_of([_code(field, value) for value in values])))
        else:
            tests += [(name, _comparison(field, value)) for value in values]
    return tests


def field_of(schema: Schema, name: str) -> Categorical | Numeric:
    """Return a column of categories or numbers."""
    fields = {field.name: field for field in schema.fields}
    if name not in fields:
        raise ConfigError(f"the events have no column {shown(name)} of categories or numbers; {nearest(name, fields)}")
    return fields[name]


def split_conditions(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return conditions such as mcc=5411 and amount>100 by their columns, as `conditions` takes them."""
    where: dict[str, list[str]] = {}
    for text in texts:
        parts = re.fullmatch(r"([^<>=]+)(<=|>=|<|>|=)(.+)", text, re.DOTALL)
        if parts is None:
            raise ConfigError(f"{shown(text)} is no condition; accepted: a column, =, <, >, <= or >=, and a value")
        name, sign, value = parts.groups()
        where.setdefault(name.strip(), []).append(value if sign == "=" else f"{sign}{value}")
    return where


def _one_of(codes: list[int]) -> Condition:
    return lambda column: torch.isin(column, torch.tensor(codes, dtype=column.dtype))


def _code(field: Categorical, value: object) -> int:
    """Return the code of a value, which no other value has."""
    if field.buckets:
        raise ConfigError(
            f"column {shown(field.name)} is hashed, and several values share a bucket; read it as a category: "
            "categorical= (--categorical)"
        )
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, float) and value.is_integer():
        text = str(int(value))
    else:
        text = str(value)
    if text not in field.values:
        raise ConfigError(
            f"column {shown(field.name)} has no value {shown(text)} in its vocabulary of {len(field.values):,} values; "
            "correct it, or if it is rare, read the events with fitting=Fitting(min_count=1)"
        )
    return FIRST + field.values.index(text)


def _comparison(field: Numeric, value: object) -> Condition:
    """Return the comparison that a text such as >100 names, or with a number alone the equality; NaN fulfils none."""
    sign, text = re.fullmatch(r"\s*(<=|>=|<|>|=?)(.*)", str(value), re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        number = float(text)
        if isinstance(value, bool) or not math.isfinite(number):
            raise ValueError
    except ValueError as error:
        raise ConfigError(
            f"{shown(value)} cannot be compared with column {shown(field.name)}; accepted: a number, or text such as "
            "'>100' or '<=0.5'"
        ) from error
    compare = COMPARISONS[sign or "="]
    return lambda column: compare(column, torch.tensor(number, dtype=column.dtype))
