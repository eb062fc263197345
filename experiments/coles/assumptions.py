"""Whether a data set meets what CoLES, rejection slices and OCP assume, as measured without labels or training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from eventvec.dataset import Dataset
from eventvec.errors import DataError
from experiments.coles.lengths import power_law
from experiments.coles.repetition import repeatability
from experiments.order.window_order import irreversibility

T = TypeVar("T")

ENTITIES = 2000
"""Largest number of entities that are checked for repetition and order. Lengths are taken from all entities."""


def assumptions_met(data: Dataset) -> dict[str, bool | None]:
    """Return whether events repeat, lengths follow a power law and order can be predicted; None where data are too few.

    A column that identifies the entities does not tell whether events repeat.

    Args:
        data: The rows to check.
    """
    rng = torch.Generator().manual_seed(0)
    sample = data[torch.randperm(len(data), generator=rng)[:ENTITIES].sort()[0]]
    columns = [_result(repeatability, sample, field.name, rng) for field in data.schema.categorical]
    repeated = [column.met for column in columns if column and not column.names_entities]
    law = _result(power_law, data.sequences.lengths)
    order = _result(irreversibility, sample, rng)
    return {
        "events repeat": any(repeated) if repeated else None,
        "power law": law and law.met,
        "order predictable": order and order.met,
    }


def _result(check: Callable[..., T], *arguments: Any) -> T | None:
    """Return the result of a check, or None if the data do not allow it."""
    try:
        return check(*arguments)
    except DataError:
        return None
