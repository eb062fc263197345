"""Dataclasses of options as options of the command line: their names, types, defaults and help."""

from __future__ import annotations

import functools
import inspect
import os
import re
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer

from eventvec.errors import ConfigError
from eventvec.options import descriptions, option_types
from eventvec.tables.addresses import check_format, features_name
from eventvec.tables.read_options import DECLINED

FILES = "Events: Parquet file, folder, glob, CSV, or postgresql://…#table; several tables as cards=CARDS,app=APP."
WRITTEN = "Parquet file to write, or a table: duckdb:///path.db#table, postgresql://…#table, delta:///folder."
Full = Annotated[bool, typer.Option("--full", help="Print all tables and notes.")]
NEVER_EMPTY = {"columns", "encoders", "methods", "models", "parts"}
"""The lists that name at least one of what they list; others may be empty, as a list of columns may."""
PANELS = {
    "Columns": "Columns", "TableFormat": "Format of the table", "Cuts": "Cuts in time", "HoldOut": "Entities",
    "StaticColumns": "Entities", "Storage": "Storage", "FitOptions": "Training", "LabelTime": "Labels",
    "LabelOptions": "Labels",
}  # fmt: skip
"""The heading in `--help` of the options of a dataclass, by its name; those of others are under the first heading."""
F = TypeVar("F", bound=Callable[..., Any])


def not_empty(text: str | None) -> str | None:
    """Return the text of an option; refuse an empty one, such as a variable of the shell that is not set.

    Example:
        >>> not_empty("events.parquet")
        'events.parquet'
    """
    if text is not None and not text.strip():
        raise typer.BadParameter("it is empty; give a value, or leave it out")
    return text


text_option = functools.partial(typer.Option, callback=not_empty)
text_argument = functools.partial(typer.Argument, callback=not_empty)


def table_output(output: Any) -> Any:
    """Return the place to which a command writes a table; refuse an empty one, and a file of another format."""
    if output is not None:
        not_empty(str(output))
        try:
            check_format(output)
        except ConfigError as error:
            raise typer.BadParameter(str(error)) from error
    return output


def named_tables(paths: Sequence[str] | None) -> dict[str, str]:
    """Return tables of features by their names; refuse two of one name."""
    named = dict[str, str]()
    for path in paths or ():
        if (name := features_name(path)) in named:
            raise ConfigError(f"--features names two tables called {name!r}; rename one of the files")
        named[name] = path
    return named


def event_tables(text: str | None) -> Any:
    """Return the path of a table of events; for several tables, `cards=cards.parquet,app=app.parquet`, their paths."""
    comma = r",(?=\w+=)" if "://" in str(text) else ","  # a query has commas of its own
    parts = [part.partition("=") for part in re.split(comma, not_empty(text) or "")]
    named = all(re.fullmatch(r"\w+", name) and path for name, _, path in parts)
    return {name: path for name, _, path in parts} if named and not os.path.exists(str(text)) else text


events_option = functools.partial(typer.Option, callback=event_tables)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to standard output.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, …; auto uses a GPU if there is one.")]
NoLabelTime = Annotated[
    bool,
    typer.Option("--no-label-time", help="Labels have no time: read all events.", rich_help_panel=PANELS["LabelTime"]),
]
FeatureTables = Annotated[
    list[str] | None, typer.Option(help="Table of further features, named by its file; may be given several times.")
]
EventsArgument = Annotated[str, typer.Argument(metavar="EVENTS", callback=event_tables, help=FILES)]


def takes(*kinds: type[Any] | tuple[type[Any], Sequence[str]]) -> Callable[[F], F]:
    """Return a decorator that adds fields of dataclasses to a command with `**options`.

    The help of an option is the first sentence about it in the docstring of the dataclass. The command gets the options
    that were given, in their types there. On the command line, the parts of a list are separated by commas, and a time
    budget is given as 120s, 10m or 2h. Options of other types, such as mappings, are not added.

    Args:
        kinds: Dataclasses, or pairs of one and the names of the fields to add.
    """
    added: dict[str, tuple[type[Any], Any, Any]] = {}
    for kind in kinds:
        source, names = kind if isinstance(kind, tuple) else (kind, None)
        added |= {
            name: (source, hint, default)
            for name, (hint, default) in option_types(source).items()
            if (names is None or name in names) and _text_type(name, hint) is not None
        }

    def decorate(function: F) -> F:
        signature = inspect.signature(function, eval_str=True)
        plain = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        extra = [_parameter(source, name, hint, default) for name, (source, hint, default) in added.items()]
        if "label_time" in added:
            keyword = inspect.Parameter.KEYWORD_ONLY
            extra.append(inspect.Parameter("no_label_time", keyword, default=False, annotation=NoLabelTime))

        def command(**arguments: Any) -> Any:
            if arguments.pop("no_label_time", False):
                if arguments.get("label_time") is not None:
                    raise ConfigError("--label-time and --no-label-time are both given; give one of them")
                arguments["label_time"] = DECLINED
            options = {name: _value(name, hint, arguments.pop(name, None)) for name, (_, hint, _) in added.items()}
            return function(**arguments, **{name: value for name, value in options.items() if value is not None})

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        vars(command)["__signature__"] = signature.replace(parameters=[*plain, *extra])
        return command  # type: ignore[return-value]

    return decorate


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given, which are those that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def split_names(text: str) -> list[str]:
    """Return the names in a text, which are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def numbers(option: str, text: str) -> list[float]:
    """Return the numbers in a text, which are separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"{option} must be numbers separated by commas, like 1,0.25, got {text!r}") from error


def seconds(option: str, text: str) -> float:
    """Return a time budget in seconds, from a number alone or with s, m or h after it."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        return float(number) * unit
    except ValueError as error:
        raise ConfigError(f"{option} must be seconds, minutes or hours, like 120s, 10m or 2h, got {text!r}") from error


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union other than None, or the type itself."""
    union = get_origin(hint) in (Union, types.UnionType)
    return tuple(member for member in (get_args(hint) if union else (hint,)) if member is not type(None))


def _text_type(name: str, hint: Any) -> type[Any] | None:
    """Return the type of a field on the command line; None if the field cannot be an option there."""
    members = _members(hint)
    if name == "time_budget" or Any in members or str in members or get_origin(members[0]) in (Literal, Sequence):
        return str
    return next((kind for kind in (bool, int, float) if members == (kind,)), None)


def _parameter(source: type[Any], name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Return the parameter of a command for a field of a dataclass."""
    kind, members = _text_type(name, hint), _members(hint)
    text = descriptions(source)[name].partition(". ")[0].rstrip(".") + "."
    choices = [str(choice) for member in members if get_origin(member) is Literal for choice in get_args(member)]
    if choices:
        text += f" One of: {', '.join(choices)}."
    if name == "time_budget":
        text += " For example 120s, 10m or 2h."
    if get_origin(members[0]) is Sequence:
        parts = get_args(members[0])[0]
        likely = "1,0.25" if parts is float else ",".join(get_args(parts)) or "a,b,c"
        text += f" Separated by commas, like {likely}."
    if default is not None and default is not False and default != ():
        values = default if isinstance(default, tuple) else (default,)
        text += f" Default: {','.join(f'{value:g}' if isinstance(value, float) else str(value) for value in values)}."
    optional: Any = kind if kind is bool else Union[kind, None]  # noqa: UP007 (a type that is not known here)
    option = typer.Option(f"--{name.replace('_', '-')}", help=text, rich_help_panel=PANELS.get(source.__name__))
    annotation = Annotated[optional, option]
    absent = False if kind is bool else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=absent, annotation=annotation)


def _value(name: str, hint: Any, text: Any) -> Any:
    """Return the value of an option in the type of its field; None if the option was not given."""
    if text is None or text is False:
        return None
    option, first = f"--{name.replace('_', '-')}", _members(hint)[0]
    may_be_empty = get_origin(first) is Sequence and name not in NEVER_EMPTY
    if isinstance(text, str) and not text.strip() and not may_be_empty:
        raise ConfigError(f"{option} is empty; give a value, or leave it out")
    if name == "time_budget":
        return seconds(option, text)
    if get_origin(first) is Sequence:
        return numbers(option, text) if get_args(first)[0] is float else split_names(text)
    return text
