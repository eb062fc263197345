"""The method of a run, built after its shapes were compared with the memory of this machine and with the weights.

Nothing is allocated for sizes that only a configuration claims.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from eventvec.config import Table, build_method
from eventvec.encoders.beside import BESIDE, Beside
from eventvec.encoders.feature_parts import FEATURES, joined_features
from eventvec.encoders.joined import Joined
from eventvec.errors import CheckpointError, ConfigError, nearest
from eventvec.methods.declarations import Method
from eventvec.schema import Schema
from eventvec.sequences import Sequences

PREFIX = "beside."
"""The beginning of the names of tensors of the parts beside the learned one."""
TRAINING = 4
"""The copies of each weight in training: itself, its gradient, and the two averages of Adam."""
REMEDY = "choose smaller sizes, such as encoder.dim, encoder.layers and those of the method"
LIMIT = Path("/sys/fs/cgroup/memory.max")
"""The file with the memory that a container may use."""


def outline(config: Mapping[str, Any], schema: Schema, copies: int = TRAINING) -> dict[str, Tensor] | None:
    """Return the tensors of the method of a configuration by name, with shapes and types but without numbers.

    Pre-trained models have the sizes of their files, so methods on one have no outline: the result is None.

    Args:
        config: The tables `method` and `encoder`.
        schema: The schema of the data.
        copies: How many copies of each tensor are needed.
    """
    if _names_backbone(config) or schema.texts:
        return None
    try:
        with torch.device("meta"), _NothingDrawn():
            tensors = build_method(config, schema).state_dict()
    except RuntimeError as error:  # torch counts the bytes of a tensor in 64 bits
        raise ConfigError(f"the method is too large, a tensor of it needs more than 2^63 bytes; {REMEDY}") from error
    needed = copies * sum(tensor.nbytes for tensor in tensors.values())
    if needed > (present := memory()):
        raise ConfigError(
            f"the method needs {_size(needed)} of memory, but this machine has {_size(present)}; {REMEDY}"
        )
    return tensors


class _NothingDrawn(TorchFunctionMode):
    """Leave tensors without numbers as they are where numbers are drawn: for that, torch would import its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func in (nn.init.normal_, Tensor.normal_):
            return given["tensor"] if "tensor" in given else args[0]
        return torch.empty(*args) if func is torch.randn and not given else func(*args, **given)


def memory() -> int:
    """Return the bytes of memory of this machine, or of the container that this process is in.

    Where the system does not tell, as on Windows, it is a number that no machine has.
    """
    known = hasattr(os, "sysconf")
    present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if known else sys.maxsize
    limit = LIMIT.read_text().strip() if LIMIT.is_file() else "max"
    return min(present, int(limit)) if limit.isdigit() else present


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"


def _names_backbone(table: Mapping[str, Any]) -> bool:
    """Return whether a table, or one inside it, names a pre-trained model."""
    return "backbone" in table or any(_names_backbone(value) for value in table.values() if isinstance(value, Mapping))


def build(path: Path, config: Table, schema: Schema, tensors: Mapping[str, Tensor]) -> Method:
    """Return the method of a run, after its shapes were compared with those of the weights."""
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
) -> dict[str, Beside]:
    """Return the parts that stand beside the learned one, with their tensors.

    Args:
        path: The run folder.
        sizes: The arguments of each part besides the schema, see `encoders.beside.sizes_beside`.
        schema: The schema of the run.
        tensors: The tensors whose names begin with `PREFIX`.
    """
    for name in sizes:
        if name not in BESIDE:
            raise CheckpointError(f"{path}/run.json is damaged: beside: {nearest(name, BESIDE)}")
    try:
        with refusing_damage(path):
            with torch.device("meta"), _NothingDrawn():  # sizes are claims until the tensors are compared with them
                shapes = {name: BESIDE[name](schema, **arguments) for name, arguments in sizes.items()}
            _check_weights(path, tensors, tensors_beside(shapes))
            parts = {name: BESIDE[name](schema, **arguments) for name, arguments in sizes.items()}
            nn.ModuleDict(parts).load_state_dict({name.removeprefix(PREFIX): each for name, each in tensors.items()})
    except ConfigError as error:
        raise CheckpointError(f"{path}/run.json is damaged: beside: {error}") from error
    return {name: part.eval() for name, part in parts.items()}


def tensors_beside(parts: Mapping[str, Beside]) -> dict[str, Tensor]:
    """Return the tensors of the parts beside the learned one, by their names in a run folder.

    Example:
        >>> sorted(tensors_beside({"timing": BESIDE["timing"](Schema("card", "day", "integer"))}))
        ['beside.timing.mean', 'beside.timing.scale']
    """
    return {f"{PREFIX}{name}": each for name, each in nn.ModuleDict(dict(parts)).state_dict().items()}


class Untrained(nn.Module):
    """The method of a run of features, which has an encoder and nothing to train.

    The number of features is stored with the tensors of the encoder, because another schema would change it.
    """

    width: Tensor

    def __init__(self, encoder: Joined) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("width", torch.tensor([encoder.dim]))

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Raise an error, because features have no weights."""
        raise ConfigError("a run of features has no weights, so there is nothing to train")

    def forward(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Raise an error, as `loss` does."""
        return self.loss(batch, rng)


def untrained(schema: Schema, sizes: Mapping[str, Mapping[str, int | None]]) -> Untrained:
    """Return the method of a run of features.

    Args:
        schema: The schema of the run.
        sizes: The arguments of each part besides the schema, see `encoders.feature_parts.FEATURES`.
    """
    return Untrained(
        joined_features({name: FEATURES[name](schema, **sizes[name]) for name in FEATURES if name in sizes})
    )


def build_untrained(
    path: Path, sizes: Mapping[str, Mapping[str, int | None]], schema: Schema, tensors: Mapping[str, Tensor]
) -> Untrained:
    """Return the method of a run of features with its tensors, after their shapes were compared."""
    for name in sizes:
        if name not in FEATURES:
            raise CheckpointError(f"{path}/run.json is damaged: features: {nearest(name, FEATURES)}")
    try:
        with refusing_damage(path):
            with torch.device("meta"), _NothingDrawn():
                shapes = untrained(schema, sizes).state_dict()
            _check_weights(path, tensors, shapes)
            method = untrained(schema, sizes)
            method.load_state_dict(dict(tensors))
            if int(method.width) != method.encoder.dim:
                raise ValueError(f"it had {int(method.width):,} features, and schema.json gives {method.encoder.dim:,}")
    except ConfigError as error:
        raise CheckpointError(f"{path}/run.json is damaged: features: {error}") from error
    return method


@contextmanager
def refusing_damage(path: Path, remedy: str = "") -> Iterator[None]:
    """Refuse a file if the block fails to load what was read from it into a method, an optimizer or a generator.

    Args:
        path: The file, or the run folder.
        remedy: The end of the message.

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
