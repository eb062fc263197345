"""Which rows a training learns from, which it is measured on, and what is to be said about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from eventvec.errors import DataError
from eventvec.precision import products
from eventvec.sequences import Sequences
from eventvec.views import moments


def split(method: nn.Module, x: Sequences, settings: Mapping[str, Any]) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Return the rows to train on, those held out for validation, and what is to be said about it.

    Args:
        method: its `usable` says which rows it can use; without one it can use all.
        x: the rows.
        settings: `validation`, the share of usable rows to hold out, `seed` and `patience`.

    Raises:
        DataError: fewer than two rows are usable.

    Example:
        >>> x = Sequences({}, torch.zeros(8).long(), torch.zeros(8).long())
        >>> rows, held, notes = split(nn.Identity(), x, {"seed": 0, "validation": 0.25, "patience": None})
        >>> len(rows), len(held), sorted([*rows.tolist(), *held.tolist()]) == list(range(8)), notes
        (6, 2, True, ())
    """
    asked: Any = getattr(method, "usable", None)
    usable: Tensor = asked(x) if asked else torch.ones(len(x), dtype=torch.bool, device=x.device)
    rows, notes = usable.nonzero().squeeze(1), []
    if len(rows) < len(x):
        notes.append(
            f"{len(x) - len(rows):,} of {len(x):,} entities cannot be used by this method and are left out: they have "
            "too few events, or too few distinct times, or lack a value that it needs"
        )
    if len(rows) < 2:
        times = moments(x).longest
        tied = f", the most distinct times are {times}" if times < x.longest else ""
        raise DataError(
            f"{len(rows)} of {len(x):,} entities can be used by this method, 2 are needed: histories are too short "
            f"(the longest has {x.longest} events{tied}) for its views or windows, or values that it needs are missing"
        )
    if x.total > 1 and alike(x[rows[:100]]) and alike(x[rows]):
        names = ", ".join(name for name in x.columns if name != "time")
        notes.append(
            f"every event is the same in all columns ({names}): only the times and the number of events tell histories "
            "apart, so little can be learned; name columns that vary"
        )
    shuffle = torch.Generator().manual_seed(settings["seed"])
    rows = rows[torch.randperm(len(rows), generator=shuffle).to(x.device)]
    count = int(settings["validation"] * len(rows))
    if count < 2:
        count = 0
        if settings["patience"] is not None:
            notes.append("too few entities to hold any out for validation, so early stopping has nothing to go by")
    return rows[count:], rows[:count], tuple(notes)


@torch.no_grad()
def validate(method: nn.Module, x: Sequences, held: Tensor, settings: Mapping[str, Any]) -> float | None:
    """Return the mean loss per batch on held-out rows, in the same batches each time; none without rows.

    Args:
        method: put into evaluation mode.
        x: the rows.
        held: `(m,)` those that are held out.
        settings: `batch_size`, `seed` and `precision`.

    Example:
        >>> x = Sequences({}, torch.zeros(8).long(), torch.zeros(8).long())
        >>> validate(nn.Identity(), x, torch.tensor([]), {}) is None
        True
    """
    if not len(held):
        return None
    size = min(settings["batch_size"], len(held))
    rng = generator(x.device, settings["seed"] + 1)
    method.eval()
    with products(settings["precision"], x.device):
        losses = [method(x[rows], rng) for rows in held[: len(held) // size * size].split(size)]
    return float(torch.stack(losses).float().mean())


def alike(x: Sequences) -> bool:
    """Return whether every event is the same in all columns but `time`; a missing `gap` is like any other.

    Example:
        >>> gap = torch.tensor([float("nan"), 2.0, float("nan")])
        >>> x = Sequences({"code": torch.tensor([5, 5, 5]), "gap": gap}, torch.tensor([0, 2]), torch.tensor([2, 1]))
        >>> alike(x), alike(Sequences({"code": torch.tensor([5, 5, 4])}, x.starts, x.lengths))
        (True, False)
    """
    index = x.flat()
    for name, column in x.columns.items():  # the first one that varies ends it
        if name == "time":
            continue
        if not isinstance(column, Tensor):
            return False
        values = column[index]
        if name == "gap":
            values = values[~values.isnan()]
        if len(values) and not bool(values.isclose(values[0], rtol=0, atol=0, equal_nan=True).all()):
            return False
    return True


def generator(device: torch.device, seed: int) -> torch.Generator:
    """Return a generator on a device, seeded.

    Example:
        >>> generator(torch.device("cpu"), 7).initial_seed()
        7
    """
    return torch.Generator(device).manual_seed(seed)
