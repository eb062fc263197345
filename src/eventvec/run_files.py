"""The files of a run folder as they are read: each is checked, and what does not fit is refused in one sentence.

Nothing is allocated for sizes that only a configuration claims: they are compared with the weights first.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any

import torch
from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from eventvec import toml
from eventvec.config import Table, build_method, check_tables
from eventvec.encoders.beside import BESIDE
from eventvec.encoders.compressed import Compressed
from eventvec.errors import CheckpointError, ConfigError, misfit, nearest, shown
from eventvec.methods.declarations import Method
from eventvec.outline import outline
from eventvec.parts import REGISTERED, load_installed
from eventvec.schema import Schema
from eventvec.tables.read_options import today

FORMAT = 1
"""The version of the run folder; newer ones are refused."""


PREFIX = "beside."
"""The beginning of the names of tensors of the parts beside the learned one."""


class _Holdout(BaseModel, extra="allow"):
    """The required content of an entry of `holdouts`."""

    run: str
    fraction: float | None = Field(ge=0, lt=1)
    seed: int
    fingerprint: str


class _Lengths(BaseModel, extra="forbid"):
    """The numbers of events of the entities with events."""

    shortest: NonNegativeInt
    median: float = Field(ge=0, allow_inf_nan=False)
    longest: NonNegativeInt


class _Facts(BaseModel, extra="allow"):
    """What a model card says of the data, see `tables.facts`."""

    period: list[int | float | str] = Field(default=[0, 0], min_length=2, max_length=2)
    lengths: _Lengths = Field(default_factory=lambda: _Lengths(shortest=0, median=0, longest=0))
    columns: dict[str, dict[str, float]] = Field(default_factory=dict)


class _Format(BaseModel):
    """The version of a run folder, on which the rest of a `run.json` depends."""

    format: int


class _Info(BaseModel, extra="allow"):
    """The required content of a `run.json`, which may have more."""

    format: PositiveInt
    id: str = Field(min_length=1)
    seed: int
    fingerprint: str
    entities: NonNegativeInt
    versions: dict[str, str]
    labels: list[str]
    holdouts: list[_Holdout] = Field(min_length=1)
    finished: bool
    events: NonNegativeInt = 0
    parent: str = Field("", alias="from")
    parts: dict[str, str] = Field(default_factory=dict)
    data: _Facts = Field(default_factory=_Facts)


class _Epoch(BaseModel, extra="allow"):
    """The required content of an entry of `history`; what else it has are numbers."""

    __pydantic_extra__: dict[str, float | int | None] = Field(init=False)
    epoch: NonNegativeInt
    step: NonNegativeInt
    loss: float
    validation: float | None


class _Finished(_Info):
    """The required content of the `run.json` of a run that has finished."""

    history: list[_Epoch]
    steps: NonNegativeInt
    seconds: float = Field(ge=0, allow_inf_nan=False)
    stopped: str
    usable: NonNegativeInt
    kept_epoch: PositiveInt = 1
    temperatures: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    beside: dict[str, dict[str, NonNegativeInt | None]] = Field(default_factory=dict)


def read_info(path: Path) -> dict[str, Any]:
    """Return a run's `run.json`.

    Raises:
        CheckpointError: If the folder has no `run.json`, it is damaged, or a newer eventvec wrote it.
    """
    text = _contents(path / "run.json", f"{path} is not a run folder: it has no run.json")
    try:
        format_ = _Format.model_validate_json(text).format
        if format_ > FORMAT:
            raise CheckpointError(f"{path} has format {format_}; this eventvec reads up to {FORMAT}: upgrade eventvec")
        info = _Info.model_validate_json(text)
        return (_Finished.model_validate_json(text) if info.finished else info).model_dump(
            by_alias=True, exclude_unset=True
        )
    except ValidationError as error:
        raise CheckpointError(f"{path}/run.json is damaged: {misfit(error)}") from error


def read_config(path: Path) -> Table:
    """Return the tables of a run's `config.toml`.

    Raises:
        CheckpointError: If it is absent or damaged.
    """
    text = _contents(path / "config.toml")
    try:
        tables = with_former_defaults(check_tables(toml.parse(text.decode())))
        return {**tables, "data": today(tables["data"])} if "data" in tables else tables
    except (ValueError, ConfigError) as error:
        raise CheckpointError(f"{path}/config.toml is damaged: {error}") from error


def with_former_defaults(tables: Table) -> Table:
    """Return the tables of a run, with the options that an earlier eventvec did not have at their former values."""
    tables = copy.deepcopy(tables)
    method, events = tables.get("method", {}), tables.get("encoder", {}).get("events")
    if method.get("name") == "cresp":
        method.setdefault("target_head", {"name": "plain_head"})
    if method.get("name") in ("supervised", "tpp_embedding") and "fit" in tables:
        tables["fit"].setdefault("keep", "best" if "patience" in tables["fit"] else "last")
    while isinstance(events, dict):
        if events.get("name") == "pairs":
            events.setdefault("scaled", False)
        events = events.get("events")
    return tables


def check_parts(path: Path, parts: Mapping[str, str]) -> None:
    """Refuse a run that needs a part of another package that is not registered.

    Args:
        path: The run folder.
        parts: The registered parts of the run by name, and the module of each.

    Raises:
        CheckpointError: If one is not registered; the message names it and its module, which is never imported here.
    """
    load_installed()
    for name, module in parts.items():
        if name not in REGISTERED:
            where = "the program that trained it" if module == "__main__" else f"the module {shown(module)}"
            raise CheckpointError(
                f"{path} needs the part {shown(name)}, which is not registered; {where} registered it: import that "
                "first, or install it as a package with an entry point in the group eventvec.parts"
            )


def read_schema(path: Path) -> Schema:
    """Return the schema of a run.

    Raises:
        CheckpointError: If its `schema.json` is absent or damaged.
    """
    return Schema.from_json(_contents(path / "schema.json"), f"{path}/schema.json")


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the named tensors and the texts of a safetensors file.

    Raises:
        CheckpointError: If the file is absent or damaged.
    """
    try:
        if path.exists() and not path.is_file():
            raise CheckpointError(f"{path} is damaged: it is a folder, a pipe or a device")
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged or absent: {error}") from error


@contextmanager
def refusing_damage(path: Path, remedy: str = "") -> Iterator[None]:
    """Refuse a file if the block fails to load what was read from it into a method, an optimizer or a generator.

    Args:
        path: The file, or the run folder.
        remedy: The end of the message.

    Raises:
        CheckpointError: If the block raises an error of torch, a tokenizer or a backbone.

    Example:
        >>> import torch
        >>> with refusing_damage(Path("run")):
        ...     torch.nn.Linear(1, 1).load_state_dict({})
        Traceback (most recent call last):
        eventvec.errors.CheckpointError: run is damaged: Error(s) in loading state_dict for Linear: Missing key(s) ...
    """
    try:
        yield
    except (LookupError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged: {' '.join(str(error).split())}{remedy}") from error


def build(path: Path, config: Table, schema: Schema, tensors: Mapping[str, Tensor]) -> Method:
    """Return the method of a run, after its shapes were compared with those of the weights.

    Raises:
        CheckpointError: If its configuration names something that is absent, or does not fit the weights.
    """
    try:
        if (shapes := outline(config, schema, copies=1)) is not None:
            _check_weights(path, tensors, shapes)
            return build_method(config, schema)
        method = build_method(config, schema)
    except ConfigError as error:
        raise CheckpointError(f"{path} needs what its config.toml names: {error}") from error
    _check_weights(path, tensors, method.state_dict())
    return method


def build_beside(
    path: Path, sizes: Mapping[str, Mapping[str, int | None]], schema: Schema, tensors: Mapping[str, Tensor]
) -> dict[str, Compressed]:
    """Return the parts that stand beside the learned one, with their tensors.

    Args:
        path: The run folder.
        sizes: The arguments of each part besides the schema, see `encoders.beside.sizes_beside`.
        schema: The schema of the run.
        tensors: The tensors whose names begin with `PREFIX`.

    Raises:
        CheckpointError: If a part takes other arguments, or does not fit its tensors.
    """
    for name in sizes:
        if name not in BESIDE:
            raise CheckpointError(f"{path}/run.json is damaged: beside: {nearest(name, BESIDE)}")
    try:
        with refusing_damage(path):
            with torch.device("meta"):  # sizes are claims until the tensors are compared with them
                shapes = {name: BESIDE[name](schema, **arguments) for name, arguments in sizes.items()}
            _check_weights(path, tensors, tensors_beside(shapes))
            parts = {name: BESIDE[name](schema, **arguments) for name, arguments in sizes.items()}
            nn.ModuleDict(parts).load_state_dict({name.removeprefix(PREFIX): each for name, each in tensors.items()})
    except ConfigError as error:
        raise CheckpointError(f"{path}/run.json is damaged: beside: {error}") from error
    return {name: part.eval() for name, part in parts.items()}


def tensors_beside(parts: Mapping[str, Compressed]) -> dict[str, Tensor]:
    """Return the tensors of the parts beside the learned one, by their names in a run folder.

    Example:
        >>> sorted(tensors_beside({"timing": BESIDE["timing"](Schema("card", "day", "integer"))}))
        ['beside.timing.mean', 'beside.timing.scale']
    """
    return {f"{PREFIX}{name}": each for name, each in nn.ModuleDict(dict(parts)).state_dict().items()}


def _contents(path: Path, absent: str = "") -> bytes:
    """Return the bytes of a file of a run.

    Args:
        path: The file.
        absent: The message if there is no such file.

    Raises:
        CheckpointError: If it is absent, cannot be read, or is no regular file; a pipe would never end.
    """
    try:
        if S_ISREG(path.stat().st_mode):
            return path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(absent or f"{path} is absent, so the run is damaged") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    raise CheckpointError(f"{path} is damaged: it is a folder, a pipe or a device")


def _check_weights(path: Path, tensors: Mapping[str, Tensor], shapes: Mapping[str, Tensor]) -> None:
    """Raise an error if weights have other names, shapes or types than those of the method, or are not finite."""
    damaged = f"{path} is damaged: model.safetensors"
    for name in sorted(shapes.keys() ^ tensors.keys()):
        raise CheckpointError(f"{damaged} {'lacks' if name in shapes else 'has an unknown'} tensor {name!r}")
    for name, tensor in tensors.items():
        expected = shapes[name]
        varies = name.endswith("_extra_state")  # the text of a tokenizer
        if tensor.dtype != expected.dtype or (tensor.shape != expected.shape and not varies):
            raise CheckpointError(
                f"{damaged} has {name!r} as {_kind(tensor)}, but config.toml and schema.json ask for {_kind(expected)}"
            )
        if not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{damaged} holds weights that are not finite, in {name!r}")


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
