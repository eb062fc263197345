"""The columns that `read` uses and their roles, checked against the columns of the table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from eventvec.errors import ConfigError, DataError, shown
from eventvec.schema import RESERVED, Schema, Static
from eventvec.tables.coding import kind_of
from eventvec.tables.kinds import unusable
from eventvec.tables.lists import is_list
from eventvec.tables.read_options import Columns, Fitting
from eventvec.tables.sources import Source

MEDS = {"key": "subject_id", "time": "time", "code": "code", "value": "numeric_value"}
"""The columns of the Medical Event Data Standard, https://github.com/Medical-Event-Data-Standard/meds."""

ROLES = ("categorical", "hashed", "summed", "texts", "numeric")
"""The options that name columns by their kinds."""

OUTPUT = re.compile(r"embedding|events|last_time|emb_\d+")
"""The names of columns in an embeddings file."""

EXPLODE = "for one event for each element, name it in explode= (--explode), or in summed= (--summed) for their sum"


def listed_columns(source: Source, schema: Schema | None, columns: Columns) -> dict[str, Sequence[str]]:
    """Return the columns that each option of `ROLES` names; by a schema, or with `meds`, those that it has."""
    named: dict[str, Any] = {name: vars(columns)[name] for name in ROLES}
    given = {"key": columns.key, "time": columns.time, **named}
    if schema is not None:
        fitting = None if columns.fitting == Fitting() else columns.fitting
        for name, value in {**given, "fitting": fitting}.items():
            if value is not None and value != vars(schema).get(name):
                raise ConfigError(
                    f"{name}= is given together with a schema, which already sets it; leave one of them out"
                )
        fields: dict[str, Sequence[Static]] = {
            "categorical": schema.categorical, "summed": schema.bags, "texts": schema.texts, "numeric": schema.numeric,
        }  # fmt: skip
        return {role: [field.name for field in of_role] for role, of_role in fields.items()}
    if columns.meds:
        if others := [name for name, value in given.items() if value is not None]:
            raise ConfigError(
                f"{others[0]}= is given together with meds=True, which names the columns; leave one of them out"
            )
        return {"categorical": [MEDS["code"]], "numeric": [MEDS["value"]] if MEDS["value"] in source.types else []}
    if missing := " and ".join(f"{name}=" for name in ("key", "time") if given[name] is None):
        raise ConfigError(f"{missing} must name a column of the table{source.described()}")
    for option, value in named.items():
        if isinstance(value, str):
            raise ConfigError(f"{option} must be a list of column names, got the text {shown(value)}")
        if value is not None and not (isinstance(value, Collection) and all(isinstance(name, str) for name in value)):
            raise ConfigError(f"{option} must be a list of column names, which are text, got {shown(value)}")
    return {option: tuple(value or ()) for option, value in named.items()}


def roles_of(source: Source, frame: Schema, listed: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the role of each listed column, and refuse columns that are absent or cannot have their role.

    Args:
        source: The table.
        frame: The schema without columns.
        listed: The columns that each option names, see `listed_columns`.
    """
    key, time, known_at = frame.key, frame.time, frame.known_at
    pairs = [(name, role) for role, names in listed.items() for name in names]
    others = [name for name in (frame.order, known_at) if name is not None]
    source.need([key, time, *(name for name, _ in pairs), *others])
    if key == time:
        raise ConfigError(f"column {shown(key)} is named as the key and as the time; name two columns")
    if known_at in (key, time):
        role = "key" if known_at == key else "time"
        raise ConfigError(f"column {shown(known_at)} is the {role}; name another column in known_at= (--known-at)")
    if repeated := [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]:
        raise ConfigError(f"column {shown(repeated[0])} is listed twice; list it once, as categorical or as numeric")
    for name, role in pairs:
        held = source.types[name]
        if name in (key, time):
            raise ConfigError(
                f"column {shown(name)} is the {'key' if name == key else 'time'}; remove it from the list"
            )
        if role == "summed" and not is_list(held):
            raise DataError(
                f"column {shown(name)} cannot be summed: it holds {held}; accepted: lists of text, "
                "numbers or booleans, in a table whose lists are not exploded"
            )
        if role == "texts" and kind_of(held) not in ("text", "empty"):
            raise DataError(f"column {shown(name)} cannot be text: it holds {held}; accepted: text")
        if role != "summed" and is_list(held):
            kind = "numeric" if role == "numeric" else "categorical"
            accepted = "numbers, booleans" if role == "numeric" else "text, booleans, numbers"
            raise DataError(f"column {shown(name)} cannot be {kind}: it holds {held}; accepted: {accepted}; {EXPLODE}")
        if name in RESERVED:
            raise ConfigError(
                f"column {shown(name)} has a reserved name; reserved are {', '.join(RESERVED)}; rename it in the table"
            )
    if OUTPUT.fullmatch(frame.key_out):
        raise ConfigError(
            f"the key is called {frame.key_out!r}, like a column of the embeddings file; "
            "give it another name there with key_as= (--key-as)"
        )
    return dict(pairs)


def check_static(schema: Schema | None, table: bool, columns: Mapping[str, str] | None) -> None:
    """Refuse options for a table of static columns that contradict the schema."""
    if schema is not None and columns is not None:
        raise ConfigError(
            "static_columns= is given together with a schema, which already sets it; leave one of them out"
        )
    if schema is not None and table and not schema.static:
        raise ConfigError("static= is given, but the schema has no static columns; leave it out")


def candidates(source: Source, frame: Schema, roles: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the columns that are listed or whose kind can be inferred, and a note about each that is left out.

    The key, the time and the columns that order events or say when they became known are no candidates.
    """
    names, notes = [], []
    for name, kind in source.types.items():
        if name in roles:
            names.append(name)
            continue
        if name in (frame.key, frame.time, frame.order, frame.known_at):
            continue
        reason = "its name is reserved; rename it" if name in RESERVED else unusable(kind)
        if reason and is_list(kind) and name not in RESERVED:
            reason = f"{reason}; {EXPLODE}"
        if reason:
            notes.append(f"column {shown(name)} is left out: {reason}")
        else:
            names.append(name)
    return names, notes
