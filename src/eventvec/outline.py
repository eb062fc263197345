"""The shapes of a method's tensors, and the memory that they need, before any of them is allocated."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eventvec.config import build_method
from eventvec.errors import ConfigError
from eventvec.schema import Schema

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

    Raises:
        ConfigError: If a name or an option is not accepted, or the tensors need more memory than this machine has.
    """
    if _names_backbone(config) or schema.texts:
        return None
    try:
        with torch.device("meta"):
            tensors = build_method(config, schema).state_dict()
    except RuntimeError as error:  # torch counts the bytes of a tensor in 64 bits
        raise ConfigError(f"the method is too large, a tensor of it needs more than 2^63 bytes; {REMEDY}") from error
    needed = copies * sum(tensor.nbytes for tensor in tensors.values())
    if needed > (present := memory()):
        raise ConfigError(
            f"the method needs {_size(needed)} of memory, but this machine has {_size(present)}; {REMEDY}"
        )
    return tensors


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
