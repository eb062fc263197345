"""The files of a model folder. What is read is checked; what is written appears whole or not at all, with mode 0600."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import tomli_w
from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, ValidationError, model_validator

from eventvec.errors import CheckpointError, ConfigError, misfit, reason, shown
from eventvec.files import locked, refuse_inside_model, sweep, whole, write_text
from eventvec.schema import Schema
from eventvec.toml_tables import Table, check_tables, parse

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 2
"""The version of the folder; newer ones are refused, and so are those of model folders before the first release."""
INFO, TENSORS = "model.json", "model.safetensors"
READ = ("config.toml", "schema.json", TENSORS)
"""The files that `load` reads, besides `INFO`, which has their digests."""


Finite = Annotated[float, Field(allow_inf_nan=False)]
LARGEST = 1e150
"""The largest number of a head by its size, whose square is finite."""
Bounded = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]


class _Holdout(BaseModel, extra="allow"):
    """The required content of an entry of `holdouts`."""

    run: str
    fraction: float | None = Field(ge=0, lt=1)
    seed: int
    fingerprint: str
    last_event: int | float | None = None


class _Lengths(BaseModel, extra="forbid"):
    """The numbers of events of the entities with events."""

    shortest: NonNegativeInt
    median: float = Field(ge=0, allow_inf_nan=False)
    longest: NonNegativeInt


class _Spans(BaseModel, extra="forbid"):
    """The times from first to last event of the entities with events."""

    median: float = Field(ge=0, allow_inf_nan=False)
    long: float = Field(ge=0, allow_inf_nan=False)


_Share = Annotated[float, Field(ge=0, le=1)]


class _Column(BaseModel, extra="forbid"):
    """The shares of the values of a column, and the mean and the standard deviation of numbers."""

    missing: _Share
    unknown: _Share = 0
    unknown_entities: _Share = 0
    mean: Finite = 0
    std: float = Field(0, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def complete(self) -> Self:
        """Refuse a mean without a standard deviation, and the reverse."""
        if len({"mean", "std"} & self.model_fields_set) == 1:
            raise ValueError("it has one of mean and std, which come together")
        return self


class Facts(BaseModel, extra="allow"):
    """What a model remembers of its training data, see `tables.facts`."""

    period: list[int | float | str] = Field(default=[0, 0], min_length=2, max_length=2)
    lengths: _Lengths = Field(default_factory=lambda: _Lengths(shortest=0, median=0, longest=0))
    spans: _Spans = Field(default_factory=lambda: _Spans(median=0, long=0))
    columns: dict[str, _Column] = Field(default_factory=dict)


class _Format(BaseModel):
    """The version of a folder, on which the rest of a `model.json` depends."""

    format: int


class _Block(BaseModel, extra="forbid"):
    """What makes a block again: the sizes of one without training, or the columns of a table."""

    kind: str
    sizes: dict[str, NonNegativeInt | None] = Field(default_factory=dict)
    dim: NonNegativeInt = 0
    columns: list[str] = Field(default_factory=list)
    means: list[Finite] = Field(default_factory=list)
    time: str | None = None

    @model_validator(mode="after")
    def complete(self) -> Self:
        """Refuse a block without what those of its kind are made from."""
        of_kind = {"learned": (), "static": ("columns",), "table": ("columns", "means", "time")}
        for name in of_kind.get(self.kind, ("sizes", "dim")):
            if name not in self.model_fields_set:
                raise ValueError(f"it lacks {name}")
        return self


class _OfLabel(BaseModel, extra="forbid"):
    """A block that depends on a label: its earlier values from a table or by a rule, or a network."""

    kind: Literal["earlier_labels", "network"]
    key: str | None = None
    delay: str | float | int | None = None
    rule: dict[str, Any] | None = None
    latest: int | None = None


class _Learner(BaseModel, extra="forbid"):
    """A learner on a set of features, with its weight, and the kind of a caller's."""

    features: str
    learner: str
    weight: float = Field(gt=0, le=1e6, allow_inf_nan=False)
    kind: str | None = None


class _Scores(BaseModel, extra="forbid"):
    """Scores on rows that chose nothing, each with the ends of its interval."""

    by_entity: tuple[float, float, float]
    latest: tuple[float, float, float] | None


class _Feature(BaseModel, extra="forbid"):
    """A feature with the mean size of its contributions."""

    feature: str
    column: str
    block: str
    contribution: Finite


class _Groups(BaseModel, extra="forbid"):
    """A column of groups, and the names of these by their codes."""

    column: str
    names: list[str] = Field(min_length=2)


class _Intervals(BaseModel, extra="forbid"):
    """What intervals around numbers were worth: each promised coverage, the one that was measured, the mean width."""

    entities: PositiveInt
    features: str
    measured: list[tuple[_Share, _Share, Annotated[float, Field(ge=0, allow_inf_nan=False)]]]


class _Head(BaseModel, extra="forbid"):
    """What predicts a label."""

    label: str
    task: Literal["binary", "multiclass", "numeric"]
    classes: list[bool | int | float | str]
    label_time: str | None
    inclusive: bool
    blocks: dict[str, _OfLabel]
    sets: dict[str, list[str]]
    models: list[_Learner]
    offset: Bounded | list[Bounded]
    metric: Literal["mae"] | None
    scores: _Scores | None
    features: list[_Feature]
    intervals: _Intervals | None
    columns: dict[str, Finite]
    doubt: str
    groups: _Groups | None
    rows: NonNegativeInt
    entities: NonNegativeInt
    notes: list[str]

    @model_validator(mode="after")
    def classes_of_task(self) -> Self:
        """Refuse classes that are not those of the task, which are distinct and of one type."""
        count = len(self.classes)
        if count != {"binary": 2, "numeric": 0}.get(self.task, max(count, 2)):
            raise ValueError(f"the task {self.task} has {count} classes")
        if len(set(map(type, self.classes))) > 1 or len(set(self.classes)) < count:
            raise ValueError("classes must be distinct and of one type")
        return self


class _Given(BaseModel, extra="allow"):
    """The arguments of an estimator."""

    reading: dict[str, Any] | None = None


_Hash = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]


class _Info(BaseModel, extra="allow"):
    """The required content of a `model.json`, which may have more."""

    format: PositiveInt
    id: str = Field(min_length=1)
    seed: int
    fingerprint: str
    entities: NonNegativeInt
    versions: dict[str, str]
    finished: bool
    labels: list[str]
    label_samples: dict[str, list[tuple[_Hash, float]]] = Field(default_factory=dict)
    holdouts: list[_Holdout] = Field(min_length=1)
    events: NonNegativeInt = 0
    parent: str = Field("", alias="from")
    parts: dict[str, str] = Field(default_factory=dict)
    data: Facts = Field(default_factory=Facts)
    given: _Given = Field(default_factory=_Given)
    reading: dict[str, Any] = Field(default_factory=dict)


class _Epoch(BaseModel, extra="allow"):
    """The required content of an entry of `history`; what else it has are numbers."""

    __pydantic_extra__: dict[str, float | int | None] = Field(init=False)
    epoch: NonNegativeInt
    step: NonNegativeInt
    loss: float
    validation: float | None


class _Finished(_Info):
    """The required content of the `model.json` of a model that has finished."""

    blocks: dict[str, _Block]
    vector: list[str]
    states: str
    heads: list[_Head]
    files: dict[str, str]

    @model_validator(mode="after")
    def fit(self) -> Self:
        """Refuse parts that do not fit one another."""
        if unknown := next((name for name in self.vector if name not in self.blocks), None):
            raise ValueError(f"vector names the block {unknown!r}, which is not listed")
        if len({head.label for head in self.heads}) < len(self.heads):
            raise ValueError("two heads predict one label")
        return self


class _Trained(_Finished):
    """The required content of the `model.json` of a model with a trained encoder."""

    history: list[_Epoch]
    steps: NonNegativeInt
    seconds: float = Field(ge=0, allow_inf_nan=False)
    stopped: str
    usable: NonNegativeInt
    kept_epoch: PositiveInt = 1
    temperatures: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)


def read_info(path: Path) -> dict[str, Any]:
    """Return a model's `model.json`."""
    absent = f"{path} is no model folder: it has no {INFO}" if os.path.isdir(path) else f"{path} does not exist"
    text = _contents(path / INFO, absent)
    try:
        if (format_ := _Format.model_validate_json(text).format) != FORMAT:
            advice = "upgrade eventvec" if format_ > FORMAT else "train it again"
            raise CheckpointError(f"{path} has format {format_}; this eventvec reads {FORMAT}: {advice}")
        info = _Info.model_validate_json(text)
        if info.finished:
            info = _Finished.model_validate_json(text)
            if any(block.kind == "learned" for block in info.blocks.values()):
                info = _Trained.model_validate_json(text)
        return info.model_dump(by_alias=True, exclude_unset=True)
    except ValidationError as error:
        raise CheckpointError(f"{path}/{INFO} is damaged: {misfit(error)}") from error


def digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder that `load` reads, by its place in the folder."""
    inside = [f"{folder.name}/{INFO}" for folder in sorted(path.glob("network-*"))]
    return {name: _digest(path / name) for name in (*READ, *inside) if (path / name).is_file()}


def check_digests(path: Path, known: Mapping[str, str]) -> None:
    """Refuse a folder with a file that is not the one that was written."""
    present = digests(path)
    for name in sorted({*known, *present}):
        if known.get(name) != present.get(name):
            raise CheckpointError(f"{path / name} is damaged or absent: it is not the file that was written")


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; a text of no file if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def read_finished(path: Path) -> dict[str, Any]:
    """Return the `model.json` of a model that has finished."""
    info = read_info(path)
    if not info["finished"]:
        raise CheckpointError(f"{path} holds a run that has not finished; resume it: eventvec fit … --resume")
    return info


def read_config(path: Path) -> Table:
    """Return the tables of a run's `config.toml`."""
    text = _contents(path / "config.toml")
    try:
        return check_tables(parse(text.decode()))
    except (ValueError, ConfigError) as error:
        raise CheckpointError(f"{path}/config.toml is damaged: {error}") from error


def check_parts(path: Path, parts: Mapping[str, str]) -> None:
    """Refuse a run that needs a part of another package that is not registered.

    Args:
        path: The model folder.
        parts: The registered parts of the run by name, and the module of each.
    """
    from eventvec.parts import REGISTERED, load_installed

    load_installed()
    for name, module in parts.items():
        if name not in REGISTERED:
            where = "the program that trained it" if module == "__main__" else f"the module {shown(module)}"
            raise CheckpointError(
                f"{path} needs the part {shown(name)}, which is not registered; {where} registered it: import that "
                "first, or install it as a package with an entry point in the group eventvec.parts"
            )


def read_schema(path: Path) -> Schema:
    """Return the schema of a run."""
    return Schema.from_json(_contents(path / "schema.json"), f"{path}/schema.json")


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the named tensors and the texts of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        if path.exists() and not path.is_file():
            raise CheckpointError(f"{path} is damaged: it is a folder, a pipe or a device")
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged or absent: {error}") from error


def _contents(path: Path, absent: str = "") -> bytes:
    """Return the bytes of a file of a run.

    Args:
        path: The file.
        absent: The message if there is no such file.
    """
    try:
        if S_ISREG(path.stat().st_mode):
            return path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(absent or f"{path} is absent, so the run is damaged") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {reason(error)}") from error
    raise CheckpointError(f"{path} is damaged: it is a folder, a pipe or a device")


FIRST_FILES = ("config.toml", "schema.json", ".lock", ".*.draft")
"""The files of a folder that is not yet a run: a run that was killed at that point may be started again."""


def may_begin(path: Path) -> bool:
    """Return whether a run may begin in a folder: it is absent or empty, or has only the first files of a run.

    Example:
        >>> may_begin(Path("absent")), may_begin(Path(__file__).parent)
        (True, False)
    """
    return not path.exists() or all(any(file.match(name) for name in FIRST_FILES) for file in path.iterdir())


def is_half_saved(path: Path) -> bool:
    """Return whether a model folder is what is left of `Model.save` in a process that was killed.

    The model was complete then, unlike that of a training that was killed.
    """
    try:
        info = json.loads((path / INFO).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(info, dict) and info.get("finished") is False and info.get("saving") is True


def check_folder(path: Path, *, resume: bool | None = None) -> None:
    """Refuse a folder in which no run can be written, before anything is computed.

    Args:
        path: The folder.
        resume: Whether a run in the folder is continued; None where none can be.

    Raises:
        ConfigError: If no folder can be made there, see `outputs.check_place`.
        CheckpointError: If the folder is a file, lies in a model folder, or holds a run or other files.
    """
    from eventvec.tables import check_place

    check_place(path)
    if path.exists() and not path.is_dir():
        raise CheckpointError(f"{path} is a file; choose a new folder")
    refuse_inside_model(path, "choose a folder elsewhere", CheckpointError, itself=False)
    if (path / INFO).exists():
        if not resume:
            other = "" if resume is None else ", or resume it: resume=True (--resume)"
            raise CheckpointError(f"{path} holds a model already; choose a new folder{other}")
    elif not may_begin(path):
        raise CheckpointError(f"{path} is not empty and holds no run; choose a new folder")


@contextmanager
def writer(path: Path | None) -> Iterator[None]:
    """Keep other processes from the model folder while this one writes it."""
    if path is None:
        yield
        return
    check_folder(path, resume=True)
    with locked(path) as free:
        if not free:
            raise CheckpointError(
                f"another process writes the run in {path}; wait until it ends, or choose a new folder"
            )
        sweep(path)
        yield


def write_first(path: Path, config: Table, schema: Schema, info: Mapping[str, Any]) -> None:
    """Write the files of a model folder that are there before training."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if config:
        write_text(path / "config.toml", tomli_w.dumps(config))
    write_text(path / "schema.json", schema.to_json())
    write_text(path / INFO, json.dumps(info, indent=1))  # last, because it makes the folder that of a model


def discard(path: Path) -> None:
    """Delete the files of a run that failed before its first checkpoint, so another run can begin there."""
    for name in (INFO, "metrics.jsonl", "config.toml", "schema.json"):  # without the first it is no run
        (path / name).unlink(missing_ok=True)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write named tensors and texts as one safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with whole(path) as draft:
        try:
            save_file(copies, draft, metadata=dict(metadata))
        except SafetensorError as error:  # a full disk, among others
            raise OSError(str(error)) from error


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on."""
    names = ("eventvec", "torch", "numpy", "polars", "pyarrow", "safetensors", "scikit-learn")
    return {"python": platform.python_version(), **{name: _version(name) for name in names}}


@cache
def _version(name: str) -> str:
    """Return the version of a package; its metadata are searched for on the whole path of imports, so once."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
