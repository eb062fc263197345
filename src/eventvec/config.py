"""Configuration: a TOML table is the keyword arguments of one constructor, type-checked; nothing more.

Defaults live in the signatures; `suggest` gives those that follow from the data.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import nn

from eventvec.encoders import ENCODERS, EventEncoder, Recurrent
from eventvec.encoders.points import Images, Numbers, Pairs
from eventvec.encoders.segments import Segmented
from eventvec.errors import ConfigError, nearest
from eventvec.losses.negatives import NEGATIVES
from eventvec.losses.objectives import OBJECTIVES
from eventvec.methods import METHODS, Order, SlicePairs
from eventvec.schema import Schema
from eventvec.sequences import Sequences
from eventvec.views import VIEWS, moments
from eventvec.views.pairs import PAIRS
from eventvec.views.processes import PROCESSES

Table = dict[str, Any]
TABLES = ("data", "encoder", "method", "fit")
PARTS: Mapping[str, Callable[..., Any]] = {
    **VIEWS,
    **PAIRS,
    **PROCESSES,
    **NEGATIVES,
    **OBJECTIVES,
    "events": EventEncoder,
    "segmented": Segmented,
    "pairs": Pairs,
    "numbers": Numbers,
    "images": Images,
}
"""What a nested table may name; a table called `events` need not."""
ENCODER_NAMES: Mapping[str, Callable[..., Any]] = {**ENCODERS, "recurrent": Recurrent}
METHOD_NAMES: Mapping[str, Callable[..., Any]] = {**METHODS, "order": Order, "slice_pairs": SlicePairs}
"""With the classes that several names share, so that a model put together in Python can be written down."""


SUGGESTED: Mapping[str, Table] = {
    "cresp": {"name": "set"},
    "cross_order": {"name": "gru", "events": {"name": "segmented"}},
    "cresp_untargeted": {"name": "set"},
    "expclr": {"name": "tcn"},
    "fclr": {"name": "set", "layers": 0},
    "masked_language": {"name": "text"},
    "tpp_embedding": {"name": "language"},
}
"""The encoder of a method that is not made for recurrent ones."""


def read_config(path: Path | str, changes: Iterable[str] = ()) -> Table:
    """Return the tables of a TOML file, with changes like `method.margin=0.3` made to them.

    Raises:
        ConfigError: the file is absent or no TOML, a table is unknown, or a change is not `table.option=value`.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        ...     _ = file.write('[method]\\nname = "coles"\\n'), file.flush()
        ...     read_config(file.name, ["method.margin=0.3"])
        {'method': {'name': 'coles', 'margin': 0.3}}
    """
    try:
        config = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error
    for name, table in config.items():
        if name not in TABLES:
            raise ConfigError(f"{path}: [{name}] is not a table of a configuration; {nearest(name, TABLES)}")
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {name} is {table!r}; a table of options is accepted, headed [{name}]")
    return change(config, changes)


def change(config: Table, changes: Iterable[str]) -> Table:
    """Return the tables with changes like `method.margin=0.3` made to them.

    Raises:
        ConfigError: a change is not `table.option=value`.

    Example:
        >>> change({"fit": {"seed": 1}}, ["fit.epochs=3"])
        {'fit': {'seed': 1, 'epochs': 3}}
    """
    config = copy.deepcopy(config)
    for text in changes:
        place, equals, value = text.partition("=")
        *tables, option = place.strip().split(".")
        if not equals or not tables or not option or tables[0] not in TABLES:
            raise ConfigError(f"--set {text!r}: write table.option=value, with a table of {', '.join(TABLES)}")
        target = config
        for name in tables:
            target = target.setdefault(name, {})
            if not isinstance(target, dict):
                raise ConfigError(f"--set {text!r}: {name} is {target!r}, which has no options")
        target[option] = _value(value.strip())
    return config


def build(table: Table, names: Mapping[str, Callable[..., Any]], where: str, **given: Any) -> Any:
    """Return what the named constructor makes of a table's other entries.

    A nested table with a `name` is built first, from `PARTS`. A constructor that takes `events` gets an event encoder
    of the options in the table of that name.

    Args:
        table: `{"name": …, option: value, …}`.
        names: name to constructor.
        where: what the table is called in messages.
        given: arguments that the table may not set; constructors, nested ones too, get those that they take.

    Raises:
        ConfigError: a name or an option is unknown, or a value has the wrong type or is refused.

    Example:
        >>> build({"name": "random_slices", "count": 3}, VIEWS, "method.views")
        RandomSlices(count=3, shortest=15, longest=150)
    """
    name = str(table.get("name", ""))
    if name not in names:
        raise ConfigError(f"{where}: name {name!r} is not known; {nearest(name, names)}")
    takes, said = arguments(names[name]), {option: value for option, value in table.items() if option != "name"}
    if "events" in takes:
        events = said.get("events", {})
        said["events"] = {"name": "events", **events} if isinstance(events, dict) else events
    made = options(said, names[name], given, where)
    needed = [
        option
        for option, parameter in inspect.signature(names[name]).parameters.items()
        if parameter.default is inspect.Parameter.empty and option not in {**made, **given}
    ]
    if needed:
        raise ConfigError(f"{where}: {name} needs {', '.join(needed)}")
    try:
        return names[name](**made, **{name: value for name, value in given.items() if name in takes})
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from error


def options(table: Table, constructor: Callable[..., Any], given: Mapping[str, Any], where: str) -> Table:
    """Return a table as keyword arguments of a constructor, type-checked, nested tables with a `name` built.

    Args:
        table: `{option: value, …}`.
        constructor: whose arguments they are.
        given: arguments that the table may not set.
        where: what the table is called in messages.

    Raises:
        ConfigError: an option is unknown, or a value has the wrong type or is refused.

    Example:
        >>> options({"margin": 1, "views": {"name": "random_slices", "count": 2}}, METHODS["coles"], {}, "method")
        {'margin': 1.0, 'views': RandomSlices(count=2, shortest=15, longest=150)}
    """
    hints, made = arguments(constructor), {}
    for option, value in table.items():
        if option not in hints or option in given:
            raise ConfigError(f"{where} has no option {option!r}; {nearest(option, set(hints) - set(given))}")
        if isinstance(value, dict) and ((fitting := _fitting(hints[option])) or "name" in value):
            if len(fitting) > 1 and "name" not in value:
                raise ConfigError(f"{where}.{option} is {value!r}; add name = one of: {', '.join(fitting)}")
            name = str(value.get("name", fitting[0] if fitting else ""))
            known = PARTS if name in PARTS or not fitting else {fit: PARTS[fit] for fit in fitting}
            value = build({**value, "name": name}, known, f"{where}.{option}", **given)
        made[option] = check(value, hints[option], f"{where}.{option}")
    return made


def build_encoder(table: Table, schema: Schema) -> nn.Module:
    """Return the encoder of an `[encoder]` table; its entry `events` holds the event encoder's options.

    As it is, untrained, it is the plainest baseline: `embed` takes it, and its batch normalisation changes nothing yet.
    An entry `from` names the run whose weights training began with: `checkpoint.begin_from` puts them in.

    Example:
        >>> from eventvec.schema import Categorical, Numeric
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> build_encoder({"name": "gru", "dim": 16, "events": {"time": []}}, schema).dim
        16
    """
    own = {option: value for option, value in table.items() if option != "from"}
    encoder: nn.Module = build(own, ENCODER_NAMES, "encoder", schema=schema)
    return encoder


def build_method(config: Table, schema: Schema) -> nn.Module:
    """Return the method of a configuration's `[method]` and `[encoder]` tables.

    Example:
        >>> from eventvec.schema import Categorical, Numeric
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> config = {"method": {"name": "ocp", "length": 3}, "encoder": {"name": "gru", "dim": 8}}
        >>> build_method(config, schema).pairs
        OrderPairs(length=3, skip=0, within=None, count=1)
    """
    encoder = build_encoder(config.get("encoder", {}), schema)
    method: nn.Module = build(config.get("method", {}), METHOD_NAMES, "method", encoder=encoder, schema=schema)
    return method


def describe(method: nn.Module) -> Table:
    """Return the `[method]` and `[encoder]` tables from which `build_method` makes a method of the same shape.

    Reads each constructor's arguments back from the attributes of the same names, which every encoder and method keeps.

    Example:
        >>> from eventvec.schema import Categorical, Numeric
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> config = {"method": {"name": "pcl", "length": 3}, "encoder": {"name": "gru", "dim": 8}}
        >>> describe(build_method(config, schema))["method"]
        {'name': 'order', 'pairs': {'name': 'permutation_pairs', 'length': 3, 'skip': 0, 'count': 1}}
    """
    encoder = method.encoder
    assert isinstance(encoder, nn.Module)
    return {"method": _table(method, {"encoder", "schema"}), "encoder": _table(encoder, {"schema"})}


def suggest(x: Sequences, config: Table) -> Table:
    """Return the tables of a configuration with what follows from the data filled in where nothing was said.

    Slices reach to twice the median length, within 16 and 200 events, and from an eighth of that; windows of pairs
    take a tenth of the median number of distinct times; the width grows with the cube root of the number of entities,
    32 to 512; batches hold a sixteenth of the entities, 8 to 128. A rule of thumb from the settings of the CoLES
    paper's four data sets.

    Example:
        >>> import torch
        >>> x = Sequences({}, torch.arange(3000) * 75, torch.full((3000,), 75))
        >>> suggest(x, {"method": {"name": "coles", "margin": 0.3}, "fit": {"epochs": 3}}) == {
        ...     "method": {"name": "coles", "margin": 0.3,
        ...                "views": {"name": "random_slices", "shortest": 18, "longest": 150}},
        ...     "encoder": {"name": "gru", "dim": 128}, "fit": {"batch_size": 128, "epochs": 3}}
        True
    """
    filled = x.lengths[x.lengths > 0]
    n, median = len(filled), int(filled.median()) if len(filled) else 0
    longest = min(max(2 * median, 16), 200)
    said = config.get("encoder", {})
    apt = SUGGESTED.get(str(config.get("method", {}).get("name")), {"name": "gru"})
    encoder = {**(apt if said.get("name", apt["name"]) == apt["name"] else {}), **said}
    if "dim" in arguments(ENCODER_NAMES.get(str(encoder["name"]), Recurrent)):
        encoder.setdefault("dim", _power(8 * n ** (1 / 3), 32, 512))
    method = {"name": "coles", **config.get("method", {})}
    name, views = str(method["name"]), method.get("views", {})
    if name in ("coles", "nsp", "siamese", "sop") and isinstance(views, dict):
        method["views"] = _sized(views, {"shortest": longest // 8, "longest": longest})
    elif name in METHODS and "length" in arguments(METHODS[name]):
        times = int(moments(x).lengths[x.lengths > 0].median()) if n else 0
        method.setdefault("length", min(max(times // 10, 1), 50))
    batch = {"batch_size": _power(n / 16, 8, 128)}
    return {**config, "method": method, "encoder": encoder, "fit": {**batch, **config.get("fit", {})}}


def complete(config: Table) -> Table:
    """Return the tables with every default of `[method]` and `[encoder]` written out, nested tables too.

    So a run says what it was made with even after a default has changed.

    Example:
        >>> complete({"method": {"name": "ocp"}, "encoder": {"name": "gru", "dim": 8}}) == {
        ...     "method": {"name": "ocp", "length": 1, "skip": 0, "count": 1},
        ...     "encoder": {"name": "gru", "dim": 8, "layers": 1,
        ...                 "events": {"time": ["gap"], "width": 32, "batch_norm": True}}}
        True
    """
    names = {"method": METHOD_NAMES, "encoder": ENCODER_NAMES}
    return {key: _completed(table, names[key]) if key in names else table for key, table in config.items()}


def arguments(constructor: Callable[..., Any]) -> dict[str, Any]:
    """Return the names of a constructor's arguments and the types that they are annotated with.

    Example:
        >>> arguments(VIEWS["disjoint_segments"])
        {'count': <class 'int'>}
    """
    target = constructor.__init__ if inspect.isclass(constructor) else constructor
    hints = get_type_hints(target)
    return {name: hints.get(name, Any) for name in inspect.signature(target).parameters if name != "self"}


def check(value: Any, kind: Any, where: str) -> Any:
    """Return the value if it is of a type; whole numbers pass for fractions, lists for tuples.

    Raises:
        ConfigError: it is not.

    Example:
        >>> check(1, float, "fit.lr")
        1.0
    """
    plain = isinstance(kind, type) and (issubclass(kind, int | float | str) or dataclasses.is_dataclass(kind))
    adapter = TypeAdapter(kind) if plain else TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))
    try:
        return adapter.validate_python(value, strict=not (isinstance(value, list) or dataclasses.is_dataclass(kind)))
    except ValidationError as error:
        first, *more = dict.fromkeys(each["msg"] for each in error.errors())  # one of each member of a union
        wanted = " or ".join(
            [first[0].lower() + first[1:], *(other.removeprefix("Input should be ") for other in more)]
        )
        raise ConfigError(f"{where} is {value!r}: {wanted}") from error


def _sized(views: Table, bounds: Table) -> Table:
    """Return the table of a view sampler, with bounds of events if it, or the one inside it, has both."""
    made = {"name": "random_slices", **views}
    maker = PARTS.get(str(made["name"]))
    takes = arguments(maker) if maker else {}
    if "views" in takes and isinstance(made.get("views", {}), dict):
        made["views"] = _sized(made.get("views", {}), bounds)
    return {**(bounds if set(bounds) <= set(takes) else {}), **made}


def _fitting(kind: Any) -> list[str]:
    """Return the names of the parts that an option of this type takes."""
    kinds = tuple(each for each in (kind, *get_args(kind)) if inspect.isclass(each))
    return sorted(name for name, part in PARTS.items() if inspect.isclass(part) and issubclass(part, kinds))


def _completed(table: Table, names: Mapping[str, Callable[..., Any]]) -> Table:
    if str(table.get("name", "")) not in names:
        return table  # `build` says what is wrong with it
    make, filled = names[table["name"]], {"name": table["name"]}
    target = make.__init__ if inspect.isclass(make) else make
    for option, parameter in inspect.signature(target).parameters.items():
        value = table.get(option, {"name": "events"} if option == "events" else parameter.default)
        if isinstance(value, dict):
            nested = _completed({"name": option, **value}, PARTS)
            filled[option] = {k: v for k, v in nested.items() if (k, v) != ("name", option)}
        elif dataclasses.is_dataclass(value):
            filled[option] = _table(value, set())
        elif value is not None and value is not inspect.Parameter.empty:
            filled[option] = list(value) if isinstance(value, tuple) else value
    return {**table, **filled}


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word is a string


def _table(thing: Any, without: set[str]) -> Table:
    names = {make: name for name, make in {**PARTS, **ENCODER_NAMES, **METHOD_NAMES}.items() if inspect.isclass(make)}
    if type(thing) not in names:
        raise ConfigError(f"a {type(thing).__name__} cannot be written down; accepted: {', '.join(names.values())}")
    table: Table = {"name": names[type(thing)]}
    for option in arguments(type(thing)):
        value = None if option in without else getattr(thing, option)
        if isinstance(value, nn.Module) or dataclasses.is_dataclass(value):
            nested = _table(value, {"schema"})
            table[option] = {k: v for k, v in nested.items() if (k, v) != ("name", option)}
        elif value is not None:
            table[option] = list(value) if isinstance(value, tuple) else value
    return table


def _power(value: float, low: int, high: int) -> int:
    return int(min(max(2 ** round(math.log2(max(value, 1))), low), high))
