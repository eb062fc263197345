"""Configuration: each TOML table holds the keyword arguments of one constructor, which are checked against its types.

Defaults stand in the signatures; `suggest` returns those that follow from the data.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import nn

from eventvec.encoders.interface import Encoder, capabilities
from eventvec.errors import ConfigError, nearest
from eventvec.methods.declarations import Method
from eventvec.options import checked, descriptions
from eventvec.parts import ENCODER_NAMES, KINDS, METHOD_NAMES, NESTED, REGISTERED
from eventvec.schema import Schema
from eventvec.toml_tables import Table as Table

ABSENT = object()


def build(table: Table, names: Mapping[str, Callable[..., Any]], where: str, **fixed: Any) -> Any:
    """Return what the named constructor returns for the other entries of a table.

    A nested table with a `name` is built first. A constructor that takes `events` gets an event encoder
    with the options in the table of that name.

    Args:
        table: `{"name": …, option: value, …}`.
        names: The constructor of each name.
        where: The name of the table in messages.
        fixed: Arguments that the table may not set. Each constructor, nested ones too, gets those that it takes.
    """
    name = str(table.get("name", ""))
    if name not in names:
        raise ConfigError(f"{where}: name {name!r} is not known; {nearest(name, names)}")
    accepted, entries = arguments(names[name]), {option: value for option, value in table.items() if option != "name"}
    if "events" in accepted:
        events = entries.get("events", {})
        entries["events"] = {"name": "events", **events} if isinstance(events, dict) else events
    values = options(entries, names[name], fixed, where)
    missing = [
        option
        for option, parameter in inspect.signature(names[name]).parameters.items()
        if option in accepted and parameter.default is inspect.Parameter.empty and option not in {**values, **fixed}
    ]
    if missing:
        about = descriptions(names[name])
        each = (f"{option}{_in_brackets(about.get(option, ''))}: --set {where}.{option}=…" for option in missing)
        raise ConfigError(f"{where}: {name} needs {'; and '.join(each)}")
    try:
        return names[name](**values, **{option: value for option, value in fixed.items() if option in accepted})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    except TypeError as error:  # torch raises it for sizes of more than 64 bits, with a message of several lines
        reason = "a size is too large" if "verflow" in str(error) else str(error).partition("\n")[0]
        raise ConfigError(f"{where}: {reason}") from error


def _in_brackets(description: str) -> str:
    """Return the first sentence of a description in brackets, if there is one."""
    first = description.partition(". ")[0].rstrip(".").replace("`", "")
    return f" ({first[0].lower()}{first[1:]})" if first else ""


def options(table: Table, constructor: Callable[..., Any], fixed: Mapping[str, Any], where: str) -> Table:
    """Return a table as keyword arguments of a constructor: types are checked, nested tables with a `name` are built.

    Args:
        table: `{option: value, …}`.
        constructor: The constructor that takes the options.
        fixed: Arguments that the table may not set.
        where: The name of the table in messages.
    """
    hints, values = arguments(constructor), {}
    for option, value in table.items():
        if option not in hints or option in fixed:
            raise ConfigError(f"{where} has no option {option!r}; {nearest(option, set(hints) - set(fixed))}")
        known = True
        if isinstance(value, dict) and ((parts := _part_names(hints[option])) or "name" in value):
            if len(parts) > 1 and "name" not in value:
                raise ConfigError(f"{where}.{option} is {value!r}; add name = one of: {', '.join(parts)}")
            name = str(value.get("name", parts[0] if parts else ""))
            names = NESTED if name in NESTED or not parts else {part: NESTED[part] for part in parts}
            value = build({**value, "name": name}, names, f"{where}.{option}", **fixed)
            known = name not in REGISTERED or name not in parts  # the annotation names no class of others
        values[option] = check(value, hints[option], f"{where}.{option}") if known else value
    return values


def build_encoder(table: Table, schema: Schema) -> Encoder:
    """Return the untrained encoder of an `[encoder]` table; its entry `events` holds the options of the event encoder.

    The entry `from`, the run whose encoder is trained further, is not used here but in `training.setup`.
    """
    options = {option: value for option, value in table.items() if option != "from"}
    encoder: Encoder = build(options, ENCODER_NAMES, "encoder", schema=schema)
    return encoder


def build_method(config: Mapping[str, Any], schema: Schema) -> Method:
    """Return the method of a configuration's `[method]` and `[encoder]` tables.

    Example:
        >>> from eventvec.schema import Categorical
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> config = {"method": {"name": "ocp", "length": 3}, "encoder": {"name": "gru", "dim": 8}}
        >>> build_method(config, schema).pairs
        OrderPairs(length=3, skip=0, within=None, count=1)
    """
    encoder = build_encoder(dict(config.get("encoder", {})), schema)
    method: Method = build(dict(config.get("method", {})), METHOD_NAMES, "method", encoder=encoder, schema=schema)
    return method


def resolved(config: Table, method: Method) -> Table:
    """Return the tables from which a method was built, with whole paths and what its parts chose for `auto`.

    Example:
        >>> from eventvec.encoders import GRU, EventEncoder
        >>> from eventvec.methods import CPC
        >>> method = CPC(GRU(EventEncoder(Schema("id", "t", "integer")), dim=8))
        >>> resolved({"encoder": {"name": "gru", "dim": 8}}, method)
        {'encoder': {'name': 'gru', 'dim': 8}}
    """
    config = copy.deepcopy(config)
    _resolve(config.get("encoder", {}), method.encoder)
    _resolve(config.get("method", {}), method)
    return config


def _resolve(table: Table, part: Any) -> None:
    """Put whole paths, and what a part chose for `auto`, into its table and into those of its own parts."""
    for option, value in table.items():
        resolved = getattr(part, option, None)
        if isinstance(value, str) and isinstance(resolved, str | float):
            table[option] = resolved
        elif isinstance(value, dict) and isinstance(resolved, nn.Module):
            _resolve(value, resolved)


def describe(method: Method) -> Table:
    """Return the `[method]` and `[encoder]` tables from which `build_method` builds a method of the same shape.

    The arguments of each constructor are read from the attributes of the same names, so they are those of the
    parts as they are now.
    """
    return {"method": _table(method, {"encoder", "schema"}), "encoder": _table(method.encoder, {"schema"})}


def complete(config: Table) -> Table:
    """Return the tables with every default of `[method]` and `[encoder]` written out, those of nested tables too.

    A run can then be built again after a default has changed.
    """
    names = {"method": METHOD_NAMES, "encoder": ENCODER_NAMES}
    return {key: completed(table, names[key]) if key in names else table for key, table in config.items()}


@functools.lru_cache(512)
def arguments(constructor: Any) -> Mapping[str, Any]:
    """Return the name and the annotated type of each argument of a constructor; `Any` where there is no annotation."""
    target = constructor.__init__ if inspect.isclass(constructor) else constructor
    try:
        hints = get_type_hints(target)
    except NameError:  # the annotations of a class in a function name what only that function knows
        hints = {}
    parameters = inspect.signature(target).parameters.values()
    named = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name != "self"]
    return {name: hints.get(name, Any) for name in named}


def check(value: Any, kind: Any, where: str) -> Any:
    """Return a value that has a type; a whole number becomes a float, and a list a tuple, where the type asks for it.

    Args:
        value: The value.
        kind: The type.
        where: The name of the option in the message.
    """
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        accepted = [field.name for field in dataclasses.fields(kind)]
        for name in value:
            if name not in accepted:
                raise ConfigError(f"{where} has no option {name!r}; {nearest(name, accepted)}")
    value = checked(where, value, kind)
    try:
        return _adapter(kind).validate_python(
            value, strict=not (isinstance(value, list) or dataclasses.is_dataclass(kind))
        )
    except ValidationError as error:
        first, *rest = dict.fromkeys(entry["msg"] for entry in error.errors())  # one for each member of a union
        types = [first[0].lower() + first[1:], *(message.removeprefix("Input should be ") for message in rest)]
        raise ConfigError(f"{where} is {value!r}: {' or '.join(types)}") from error


@functools.lru_cache(512)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what checks values of a type; making it takes longer than the check."""
    plain = isinstance(kind, type) and (issubclass(kind, int | float | str) or dataclasses.is_dataclass(kind))
    return TypeAdapter(kind) if plain else TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))


def _part_names(kind: Any) -> list[str]:
    """Return the names of the parts that an option of a type accepts."""
    kinds = tuple(
        nn.Module if Protocol in member.__bases__ else member  # issubclass refuses protocols with attributes
        for member in (kind, *get_args(kind))
        if inspect.isclass(member)
    )
    names = {name for name, part in NESTED.items() if inspect.isclass(part) and issubclass(part, kinds)}
    return sorted(names | {name for name, (kind, _) in REGISTERED.items() if names & set(KINDS[kind])})


def completed(table: Table, names: Mapping[str, Callable[..., Any]]) -> Table:
    """Return a table with every default of the constructor that it names, and those of the parts inside it."""
    if str(table.get("name", "")) not in names:
        return table  # `build` raises the error
    constructor, filled = names[table["name"]], {"name": table["name"]}
    target, hints = constructor.__init__ if inspect.isclass(constructor) else constructor, arguments(constructor)
    for option, parameter in inspect.signature(target).parameters.items():
        if option not in hints:
            continue
        value = table.get(option, {"name": "events"} if option == "events" else parameter.default)
        if isinstance(value, dict):
            default_name = {"name": option} if option in _part_names(hints.get(option)) else {}
            nested = completed({**default_name, **value}, NESTED)
            filled[option] = {k: v for k, v in nested.items() if (k, v) != ("name", option)}
        elif dataclasses.is_dataclass(value):
            filled[option] = _table(value, set())
        elif value is not None and value is not inspect.Parameter.empty:
            filled[option] = list(value) if isinstance(value, tuple) else value
    return {**table, **filled}


def _table(part: Any, without: set[str]) -> Table:
    """Return the table from which a part can be built, without some arguments of its constructor."""
    names = {kind: name for name, kind in {**NESTED, **ENCODER_NAMES, **METHOD_NAMES}.items() if inspect.isclass(kind)}
    what = type(part).__name__
    if type(part) not in names:
        raise ConfigError(
            f"{what} has no name in configurations, so a model folder cannot hold it; give it one: "
            f'ev.register("{what.lower()}", {what}, kind=…)'
        )
    table, kept_as = Table(name=names[type(part)]), capabilities(part).kept_as
    kind: Any = type(part)
    for option in arguments(kind):
        value = None if option in without else getattr(part, kept_as.get(option, option), ABSENT)
        if value is ABSENT:
            raise ConfigError(
                f"{what} does not keep its argument {option!r} as an attribute, so a model folder cannot hold it; set "
                f"self.{option} in its constructor"
            )
        if isinstance(value, nn.Module) or dataclasses.is_dataclass(value):
            nested = _table(value, {"schema"})
            table[option] = {k: v for k, v in nested.items() if (k, v) != ("name", option)}
        elif value is not None:
            table[option] = list(value) if isinstance(value, tuple) else value
    return table
