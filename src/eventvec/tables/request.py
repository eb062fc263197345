"""The columns that `read` uses and their roles, checked against the columns of the table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from eventvec.errors import ConfigError, DataError, shown
from eventvec.schema import RESERVED, Schema
from eventvec.tables.coding import kind_of
from eventvec.tables.kinds import unusable
from eventvec.tables.lists import is_list
from eventvec.tables.sources import Source

MEDS = {"key": "subject_id", "time": "time", "code": "code", "value": "numeric_value"}
"""The columns of the Medical Event Data Standard, https://github.com/Medical-Event-Data-Standard/meds."""

Role: TypeAlias = Literal["categorical", "hashed", "summed", "texts", "numeric"]
ROLES: tuple[Role, ...] = get_args(Role)
"""The options that name columns by their kinds."""

OUTPUT = re.compile(r"embedding|events|last_time|emb_\d+")
"""The names of columns in an embeddings file."""

EXPLODE = "for one event for each element, name it in explode= (--explode), or in summed= (--summed) for their sum"


@dataclass(frozen=True)
class Request:
    """The roles of columns; `inferred` means that the kinds of all but the last three are inferred."""

    key: str
    time: str
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    inferred: bool = False
    hashed: tuple[str, ...] = ()
    summed: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def listed(self) -> tuple[str, ...]:
        """The categorical columns, then the hashed and summed ones, the texts and the numeric ones."""
        return (*self.categorical, *self.hashed, *self.summed, *self.texts, *self.numeric)

    @cached_property
    def roles(self) -> Mapping[str, Role]:
        """The option that lists a column, by the names of the columns."""
        return {name: option for option in ROLES for name in vars(self)[option]}


def by_schema(schema: Schema, options: Mapping[str, object]) -> Request:
    """Return the columns of a schema."""
    for name, value in options.items():
        if value is not None and value != vars(schema).get(name):
            raise ConfigError(f"{name}= is given together with a schema, which already sets it; leave one of them out")
    categorical, numeric = (tuple(field.name for field in fields) for fields in (schema.categorical, schema.numeric))
    summed = tuple(field.name for field in schema.bags)
    texts = tuple(field.name for field in schema.texts)
    return Request(schema.key, schema.time, categorical, numeric, summed=summed, texts=texts)


def by_name(source: Source, key: str | None, time: str | None, options: Mapping[str, Sequence[str] | None]) -> Request:
    """Return the columns that the caller names."""
    if key is None or time is None:
        missing = " and ".join(f"{name}=" for name, value in (("key", key), ("time", time)) if value is None)
        raise ConfigError(f"{missing} must name a column of the table{source.described()}")
    for option, value in options.items():
        if isinstance(value, str):
            raise ConfigError(f"{option} must be a list of column names, got the text {shown(value)}")
        if value is not None and not (isinstance(value, Collection) and all(isinstance(name, str) for name in value)):
            raise ConfigError(f"{option} must be a list of column names, which are text, got {shown(value)}")
    inferred = options["categorical"] is None and options["numeric"] is None
    return Request(key, time, inferred=inferred, **{option: tuple(value or ()) for option, value in options.items()})


def by_meds(source: Source, options: Mapping[str, object]) -> Request:
    """Return the columns of the Medical Event Data Standard; the numeric value may be absent."""
    named = [name for name, value in options.items() if value is not None]
    if named:
        raise ConfigError(
            f"{named[0]}= is given together with meds=True, which names the columns; leave one of them out"
        )
    numeric = (MEDS["value"],) if MEDS["value"] in source.types else ()
    return Request(MEDS["key"], MEDS["time"], (MEDS["code"],), numeric)


def check(source: Source, request: Request, key_out: str, order: str | None, known_at: str | None) -> None:
    """Refuse columns that are absent or cannot have their role."""
    listed = request.listed
    source.need([request.key, request.time, *listed, *(name for name in (order, known_at) if name is not None)])
    if request.key == request.time:
        raise ConfigError(f"column {shown(request.key)} is named as the key and as the time; name two columns")
    if known_at in (request.key, request.time):
        role = "key" if known_at == request.key else "time"
        raise ConfigError(f"column {shown(known_at)} is the {role}; name another column in known_at= (--known-at)")
    if repeated := [name for name, count in Counter(listed).items() if count > 1]:
        raise ConfigError(f"column {shown(repeated[0])} is listed twice; list it once, as categorical or as numeric")
    for name, listed_as in request.roles.items():
        if name in (request.key, request.time):
            role = "key" if name == request.key else "time"
            raise ConfigError(f"column {shown(name)} is the {role}; remove it from the list")
        if listed_as == "summed" and not is_list(source.types[name]):
            raise DataError(
                f"column {shown(name)} cannot be summed: it holds {source.types[name]}; accepted: lists of text, "
                "numbers or booleans, in a table whose lists are not exploded"
            )
        if listed_as == "texts" and kind_of(source.types[name]) not in ("text", "empty"):
            raise DataError(f"column {shown(name)} cannot be text: it holds {source.types[name]}; accepted: text")
        if is_list(source.types[name]) and listed_as != "summed":
            kind, accepted = "categorical", "text, booleans, numbers"
            if listed_as == "numeric":
                kind, accepted = "numeric", "numbers, booleans"
            held = f"it holds {source.types[name]}; accepted: {accepted}"
            raise DataError(f"column {shown(name)} cannot be {kind}: {held}; {EXPLODE}")
        if name in RESERVED:
            raise ConfigError(
                f"column {shown(name)} has a reserved name; reserved are {', '.join(RESERVED)}; rename it in the table"
            )
    if OUTPUT.fullmatch(key_out):
        raise ConfigError(
            f"the key is called {key_out!r}, like a column of the embeddings file; "
            "give it another name there with key_as= (--key-as)"
        )


def check_static(schema: Schema | None, table: bool, columns: Mapping[str, str] | None) -> None:
    """Refuse options for a table of static columns that contradict the schema."""
    if schema is not None and columns is not None:
        raise ConfigError(
            "static_columns= is given together with a schema, which already sets it; leave one of them out"
        )
    if schema is not None and table and not schema.static:
        raise ConfigError("static= is given, but the schema has no static columns; leave it out")


def candidates(source: Source, request: Request, others: Collection[str | None]) -> tuple[list[str], list[str]]:
    """Return the columns whose kind can be inferred, and a note about each that is left out without being read.

    The key, the time and the others, which order events or say when they became known, are no candidates. Hashed and
    summed columns and texts, which the caller names, are always used.
    """
    names, notes = [], []
    for name, kind in source.types.items():
        if name in request.roles:
            names.append(name)
            continue
        if name in (request.key, request.time, *others):
            continue
        reason = "its name is reserved; rename it" if name in RESERVED else unusable(kind)
        if reason and is_list(kind) and name not in RESERVED:
            reason = f"{reason}; {EXPLODE}"
        if reason:
            notes.append(f"column {shown(name)} is left out: {reason}")
        else:
            names.append(name)
    return names, notes
