"""The blocks of a model, built after their shapes were compared with the memory of this machine and with the weights.

Nothing is allocated for sizes that only a configuration claims.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from eventvec.blocks.caller_features import CallerFeatures
from eventvec.blocks.rows import Block
from eventvec.blocks.static_values import STATIC, StaticValues
from eventvec.blocks.untrained import BLOCKS, EventBlock
from eventvec.config import Table, build_method
from eventvec.errors import CheckpointError, ConfigError, nearest
from eventvec.methods.declarations import Method
from eventvec.models.learned import LEARNED, Learned
from eventvec.schema import Schema

TABLE = "table"
"""The kind of a block of a caller's table of features."""
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


def describe_blocks(blocks: Mapping[str, Block]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what `model.json` says of each block, and the tensors of all, with the block before their names."""
    described, tensors = dict[str, Any](), dict[str, Tensor]()
    for name, block in blocks.items():
        state: Mapping[str, Tensor] = {}
        if isinstance(block, Learned):
            described[name], state = {"kind": LEARNED}, cast(nn.Module, block.method).state_dict()
        elif isinstance(block, EventBlock):
            described[name] = {"kind": block.kind, "sizes": dict(block.sizes), "dim": block.encoder.dim}
            state = block.tensors
        elif isinstance(block, StaticValues):
            described[name] = {"kind": STATIC, "columns": [each.name for each in block.fields]}
        elif isinstance(block, CallerFeatures):
            described[name] = {
                "kind": TABLE, "columns": list(block.columns), "means": list(block.means), "time": block.time,
            }  # fmt: skip
        else:
            raise TypeError(f"no folder can hold a block {type(block).__name__}")
        tensors |= {f"{name}.{key}": each for key, each in state.items()}
    return described, tensors


def build_blocks(
    path: Path, described: Mapping[str, Any], config: Table, schema: Schema, tensors: Mapping[str, Tensor]
) -> dict[str, Block]:
    """Return the blocks of a model, each after its shapes were compared with those of its tensors.

    Args:
        path: The folder of the model.
        described: What `model.json` says of each block.
        config: The configuration of a trained encoder.
        schema: The schema of the model.
        tensors: The tensors of the model.
    """
    blocks = dict[str, Block]()
    for name, each in described.items():
        arrays, kind = under(tensors, f"{name}."), each["kind"]
        if kind == LEARNED:
            method = build(path, config, schema, arrays)
            with refusing_damage(path):  # names and shapes fit; a tokenizer or a backbone may not
                cast(nn.Module, method).load_state_dict(arrays)
            blocks[name] = Learned(method.eval(), config)
        elif kind in BLOCKS:
            blocks[name] = _event_block(path, name, each, schema, arrays)
        elif kind == STATIC:
            with refusing_damage(path):
                blocks[name] = StaticValues.of(schema, each["columns"])
        elif kind == TABLE and len(each["columns"]) == len(each["means"]):
            blocks[name] = CallerFeatures(name, tuple(each["columns"]), tuple(each["means"]), each["time"])
        else:
            raise CheckpointError(f"{path}/model.json is damaged: block {name!r}: {nearest(kind, [LEARNED, *BLOCKS])}")
    return blocks


def _event_block(
    path: Path, name: str, each: Mapping[str, Any], schema: Schema, tensors: Mapping[str, Tensor]
) -> EventBlock:
    try:
        with refusing_damage(path):
            with torch.device("meta"), _NothingDrawn():  # sizes are claims until the tensors are compared with them
                shapes = EventBlock.of(each["kind"], schema, each["sizes"])
            if int(shapes.encoder.dim) != each["dim"]:
                raise ValueError(f"{name} had {each['dim']:,} features, and schema.json gives {shapes.encoder.dim:,}")
            _check_weights(path, tensors, shapes.tensors)
            block = EventBlock.of(each["kind"], schema, each["sizes"])
            cast(nn.Module, block.encoder).load_state_dict(dict(tensors))
    except ConfigError as error:
        raise CheckpointError(f"{path}/model.json is damaged: block {name!r}: {error}") from error
    return block


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it.

    Example:
        >>> under({"codes.mean": torch.zeros(1), "learned.mean": torch.zeros(1)}, "codes.")
        {'mean': tensor([0.])}
    """
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}


def check_known(path: Path, tensors: Iterable[str], owners: Iterable[str]) -> None:
    """Refuse a tensor that belongs to no block and no head."""
    beginnings = tuple(f"{owner}." for owner in owners)
    if unknown := next((name for name in tensors if not name.startswith(beginnings)), None):
        raise CheckpointError(f"{path} is damaged: model.safetensors has an unknown tensor {unknown!r}")


@contextmanager
def refusing_damage(path: Path, remedy: str = "") -> Iterator[None]:
    """Refuse a file if the block fails to load what was read from it into a method, an optimizer or a generator.

    Args:
        path: The file, or the model folder.
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
