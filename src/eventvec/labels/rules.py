"""The options of `future_labels` as text, which each row of its table has, because frames lose Arrow's metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from eventvec.errors import ConfigError
from eventvec.labels.future_options import FutureOptions
from eventvec.options import as_table, gather


def listed_conditions(options: FutureOptions) -> FutureOptions:
    """Return options whose conditions are lists of numbers and texts, which JSON holds and which mean the same.

    Example:
        >>> listed_conditions(FutureOptions(1, 2, where={"shop": "tea", "paid": (">1", "<2")})).where
        {'shop': ['tea'], 'paid': ['>1', '<2']}
    """
    if not isinstance(options.where, Mapping):
        return options
    where = {name: [_plain(each) for each in listed(of)] for name, of in options.where.items()}
    return replace(options, where=where or None)


def listed(values: Any) -> list[Any]:
    """Return one value, or several, as a list."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it; a condition compares the text of any other value."""
    is_plain = isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    return value if is_plain else str(value)


def rule_table(options: FutureOptions) -> dict[str, Any]:
    """Return options as a table that JSON holds, from which `options_in` makes the same ones.

    Example:
        >>> rule_table(FutureOptions(every="1mo", horizon=timedelta(days=20)))
        {'every': '1mo', 'horizon': [20, 0, 0], 'gap': 0, 'label': 'no_event', 'zone': 'UTC'}
    """
    table = as_table(listed_conditions(options))
    lengths = {name: each for name, each in table.items() if isinstance(each, timedelta)}
    table |= {name: [each.days, each.seconds, each.microseconds] for name, each in lengths.items()}
    return {**table, "observed_until": str(options.observed_until)} if options.observed_until is not None else table


def rule_text(options: FutureOptions) -> str:
    """Return options as compact JSON."""
    return json.dumps(rule_table(options), separators=(",", ":"))


def options_of(table: Mapping[str, Any]) -> FutureOptions:
    """Return the options of which `rule_table` made a table.

    Raises:
        ConfigError: If the table has other entries or lacks some.
        ValueError: If a length of time is no such length.
    """
    if absent := {"every", "horizon"} - set(table):
        raise ConfigError(f"the rule has no {min(absent)}")
    lengths = {name: table[name] for name in ("every", "horizon", "gap") if isinstance(table.get(name), list)}
    return gather({**table, **{name: timedelta(*parts) for name, parts in lengths.items()}}, FutureOptions)


def options_in(text: str) -> FutureOptions | None:
    """Return the options that a text holds as JSON; None if it holds no options.

    Example:
        >>> options_in(rule_text(FutureOptions("1mo", "20d"))) == FutureOptions("1mo", "20d")
        True
        >>> options_in("a rule of another kind")
    """
    try:
        table = json.loads(text)
        return options_of(table) if isinstance(table, dict) else None
    except (ConfigError, ValueError, TypeError, OverflowError, RecursionError):
        return None
