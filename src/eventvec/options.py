"""Options that belong together: one frozen dataclass, from which signatures, configuration and command line follow.

A function with such options takes `**options` and is decorated with `accepts`, so its signature and its help
follow from the dataclasses. `gather` builds them from the options of a call, and refuses unknown names.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from eventvec.errors import ConfigError, nearest

Precision = Literal["float32", "bfloat16"]
"""The precision of matrix products, see `precision`."""
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_type_hints: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)
"""The annotations of a class, evaluated once: that takes a third of the time in which one entity is updated."""
_signature: Callable[[Any], inspect.Signature] = functools.cache(inspect.signature)
LATEST = 2000
"""How many of an entity's latest events are read where no running state of all of them is, unless the user sets it."""


def accepts(*kinds: type[Any]) -> Callable[[F], F]:
    """Return a decorator that shows the fields of dataclasses as keyword arguments of a function with `**options`."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        plain = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        fields = {name: of for kind in kinds for name, of in option_types(kind).items()}  # two may have one in common
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for name, (hint, default) in fields.items()
        ]
        vars(function)["__signature__"] = signature.replace(parameters=[*plain, *shown])
        return function

    return decorate


def with_checked_names(function: F) -> F:
    """Return a function or method that refuses the name of an argument that it does not have, in one sentence."""
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        refuse_unknown(options, known)
        return function(*arguments, **options)

    return call  # type: ignore[return-value]


def refuse_unknown(options: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name of an option that is not known."""
    for name in options:
        if name not in known:
            raise ConfigError(f"there is no option {name!r}; {nearest(name, known)}")


def gather(options: Mapping[str, Any], kind: type[T], *others: type[Any]) -> T:
    """Return a dataclass of the options that are its fields.

    Args:
        options: The options that a caller gave.
        kind: The dataclass.
        others: Further dataclasses whose fields may be among the options.
    """
    refuse_unknown(options, dict.fromkeys(name for group in (kind, *others) for name in option_types(group)))
    hints = {name: hint for name, (hint, _) in option_types(kind).items() if name in options}
    return kind(**{name: checked(name, options[name], hint) for name, hint in hints.items()})


def gather_all(options: Mapping[str, Any], *kinds: type[Any]) -> list[Any]:
    """Return a dataclass of each kind, with those of the options that are its fields."""
    return [gather(options, kind, *kinds) for kind in kinds]


def checked(name: str, value: Any, hint: Any) -> Any:
    """Return the value of an option as a plain value."""
    union = get_origin(hint) in (Union, types.UnionType)
    value, kinds = _plain(value), get_args(hint) if union else (hint,)
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "None"}
    if not set(kinds) <= set(words):
        return value
    accepted = (*kinds, int) if float in kinds else kinds
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in kinds):
        raise ConfigError(f"{name} must be {' or '.join(words[kind] for kind in kinds)}, got {value!r}")
    if isinstance(value, int) and value.bit_length() > 63:  # torch and TOML know no larger ones
        raise ConfigError(f"{name} must be a number of at most 64 bits, got one of {value.bit_length()} bits")
    return value


def at_least(name: str, value: float | None, least: float) -> None:
    """Refuse an option that is below its minimum; None is no value."""
    if value is not None and value < least:
        raise ConfigError(f"{name} must be at least {least}, got {value}")


def each_at_least(least: float, **values: float | None) -> None:
    """Refuse options of which one is below their minimum; None is no value."""
    for name, value in values.items():
        at_least(name, value, least)


def one_of(name: str, value: Any, accepted: Iterable[str]) -> None:
    """Refuse an option that is none of some words."""
    if value not in (words := list(accepted)):
        raise ConfigError(f"{name} {value!r} is not known; {nearest(value, words)}")


def above_zero(name: str, value: float) -> None:
    """Refuse a number that is not above 0 and finite."""
    if not 0 < value < math.inf:
        raise ConfigError(f"{name} must be above 0 and finite, got {value}")


def within(name: str, value: float, low: float, high: float, ends: str = "[]") -> None:
    """Refuse a number outside an interval, whose ends are as in `[0, 1)`: a square bracket includes one."""
    above = value >= low if ends[0] == "[" else value > low
    below = value <= high if ends[1] == "]" else value < high
    if not (above and below):
        raise ConfigError(f"{name} must be in {ends[0]}{low:g}, {high:g}{ends[1]}, got {value}")


def check_seed(name: str, value: Any, bits: int = 62) -> None:
    """Refuse a seed that is not a whole number of at most some bits.

    Args:
        name: The name of the option.
        value: The seed.
        bits: The number of bits; LightGBM takes 31.

    Example:
        >>> check_seed("seed", -1)
        Traceback (most recent call last):
        eventvec.errors.ConfigError: seed must be in [0, 2^62), got -1
    """
    value = checked(name, value, int)
    if not 0 <= value < 2**bits:
        raise ConfigError(f"{name} must be in [0, 2^{bits}), got {value}")


def _plain(value: Any) -> Any:
    """Return a number of numpy as Python's, so it can be written into a configuration."""
    import numpy as np

    return value.item() if isinstance(value, np.generic) else value


def option_types(kind: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Return the type and default of each field of a dataclass, or of each argument of a function.

    One without a default has `inspect.Parameter.empty`.
    """
    hints = _type_hints(kind)
    return {
        name: (hints.get(name, each.annotation), each.default) for name, each in _signature(kind).parameters.items()
    }


def those_of(options: Mapping[str, Any], *kinds: Callable[..., Any]) -> dict[str, Any]:
    """Return the options that are fields of dataclasses or arguments of functions."""
    names = {name for kind in kinds for name in option_types(kind)}
    return {name: value for name, value in options.items() if name in names}


def descriptions(kind: Callable[..., Any]) -> dict[str, str]:
    """Return the description of each field of a dataclass, or of each argument of a function, from its docstring."""
    lines = inspect.cleandoc(kind.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", lines, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def writable(value: Any) -> Any:
    """Return a whole number of more than 64 bits, which TOML does not have, as a float; other values as they are.

    Example:
        >>> writable(10**25), writable(7)
        (1e+25, 7)
    """
    return float(value) if isinstance(value, int) and value.bit_length() > 63 else value


def as_table(*options: Any) -> dict[str, Any]:
    """Return dataclasses of options as one table of plain values, without values that are None."""
    table: dict[str, Any] = {}
    for group in options:
        for field in dataclasses.fields(group):
            value = vars(group)[field.name]
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                table[field.name] = as_table(value)
            elif value is not None:
                plain = writable(_plain(value))
                table[field.name] = list(plain) if isinstance(plain, tuple) else plain
    return table
