"""Which rows a method is trained on, which are held out for validation, and the validation loss and score."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from eventvec import distributed
from eventvec.errors import DataError
from eventvec.methods.declarations import Method, declared, usable_rows
from eventvec.precision import matmul_precision
from eventvec.schema import KNOWN
from eventvec.sequences import Sequences
from eventvec.training.fit_options import FitOptions
from eventvec.views import count_times

BATCHES = 50
"""The largest number of batches in a validation: more would hardly change the mean, and take long on large data."""


class Split(NamedTuple):
    """The rows to train on, those held out for validation, and `(n,)` the entity of every row, if some have several."""

    training: Tensor
    held_out: Tensor
    entity: Tensor | None


def split(
    method: Method, x: Sequences, options: FitOptions, entity: Tensor | None = None
) -> tuple[Split, tuple[str, ...]]:
    """Return the rows to train on and those held out for validation, and sentences about what was left out.

    Args:
        method: The method; rows that it or its encoder cannot use (`usable`) are left out.
        options: `validation`, the share of usable rows to hold out, `seed`, `patience` and `keep` are used. If the
            method declares strata, each has its share, and so has each batch of the validation.
        entity: `(n,)` the entity of each row, if entities have several. Their rows are held out together, and the
            stratum of an entity is that of one of its rows.
    """
    rows, notes = usable_rows(method, x).nonzero().squeeze(1), []
    if len(rows) < len(x):
        what = "entities" if entity is None else "rows"
        notes.append(
            f"{len(x) - len(rows):,} of {len(x):,} {what} cannot be used by this method and are left out: they have "
            "too few events, or too few distinct times, or lack a value that it needs"
        )
    if len(rows) < 2:
        times = int(count_times(x).max()) if len(x) else 0
        ties = f" at {times} distinct times" if times < x.longest else ""
        raise DataError(
            f"{len(rows)} of {len(x):,} entities can be used by this method, at least 2 are needed: histories are too "
            f"short (the longest has {x.longest} events{ties}) for its views or windows, or values that it needs are "
            "missing"
        )
    if x.total > 1 and all_equal(x[rows[:100]]) and all_equal(x[rows]):
        names = ", ".join(name for name in x.columns if name not in ("time", KNOWN))
        notes.append(
            f"all events are equal in all columns ({names}): histories differ only in times and numbers of events, so "
            "little can be learned; name columns that vary"
        )
    shuffle = torch.Generator().manual_seed(options.seed)
    rows = rows[torch.randperm(len(rows), generator=shuffle).to(x.device)]
    everyone = rows
    if entity is not None:
        rows = rows[first_of_each(entity[rows])]
    count = int(options.validation * len(rows))
    if count < 2:
        count = 0
        if options.patience is not None or options.keeps_best:
            few = "too few for a validation" if options.validation else "not split for a validation"
            notes.append(
                f"the {len(rows):,} usable entities are {few}, so training cannot stop early, and the weights are "
                "those of the last epoch"
            )
    strata = declared(method).strata
    if strata is not None and count:
        rows = rows[_spread(strata(x)[rows])]
    if entity is None:
        return Split(rows[count:], rows[:count], None), tuple(notes)
    held_out = torch.isin(entity[everyone], entity[rows[:count]])
    ordered = by_entity(everyone[held_out], entity, entity[rows[:count]])
    return Split(everyone[~held_out], ordered, entity), tuple(notes)


def first_of_each(numbers: Tensor) -> Tensor:
    """Return the ascending positions at which numbers occur for the first time."""
    _, number = numbers.unique(return_inverse=True)
    each = torch.arange(len(numbers), device=numbers.device)
    firsts = each.new_full((int(number.max()) + 1,), len(numbers)).scatter_reduce(0, number, each, "amin")
    return firsts.sort()[0]


def by_entity(rows: Tensor, entity: Tensor, order: Tensor) -> Tensor:
    """Return rows entity after entity.

    Args:
        rows: `(m,)` rows.
        entity: `(n,)` the entity of every row.
        order: The entities of these rows, in the order in which they come.
    """
    rank = torch.empty(int(entity.max()) + 1, dtype=torch.int64, device=entity.device)
    rank[order] = torch.arange(len(order), device=entity.device)
    return rows[rank[entity[rows]].argsort(stable=True)]


def rows_per_step(options: FitOptions, rows: Tensor, entity: Tensor | None) -> int:
    """Return the number of rows in a batch: of `batch_size` entities, if entities have several rows on average."""
    return options.batch_size * (1 if entity is None else math.ceil(len(rows) / len(entity[rows].unique())))


def _spread(strata: Tensor) -> Tensor:
    """Return `(n,)` positions of rows in an order whose every beginning has about the same share of each stratum.

    A row is placed by the share of its stratum that comes before it. Rows of one stratum stay in their order.
    """
    _, stratum, sizes = strata.unique(return_inverse=True, return_counts=True)
    by_stratum = stratum.argsort(stable=True)
    ranks = torch.empty_like(stratum)
    firsts = sizes.cumsum(0) - sizes
    ranks[by_stratum] = torch.arange(len(strata), device=strata.device) - firsts.repeat_interleave(sizes)
    order: Tensor = ((ranks + 0.5) / sizes[stratum]).argsort(stable=True)
    return order


def validation_batches(held_out: Tensor, size: int) -> tuple[Tensor, ...]:
    """Return the batches of held-out rows on which the validation loss is computed: all full ones, at most `BATCHES`.

    Args:
        held_out: `(m,)` the positions of the rows that are held out, in random order.
        size: The number of rows in a batch.
    """
    if not len(held_out):
        return ()
    size = min(size, len(held_out))
    batches: tuple[Tensor, ...] = held_out[: len(held_out) // size * size].split(size)[:BATCHES]
    return batches


def size_note(method: Method, training: Tensor, held_out: Tensor, size: int) -> tuple[str, ...]:
    """Return a note if a loss that compares the rows of a batch is validated on smaller batches than it is trained on.

    Args:
        method: The method.
        training: The rows to train on.
        held_out: The rows of the validation.
        size: The number of rows in a batch.
    """
    size = min(size, len(training))
    if not declared(method).compares_rows or not 0 < len(held_out) < size:
        return ()
    return (
        f"the loss compares the rows of a batch, {size:,} in training and {len(held_out):,} in the validation, so the "
        "two losses are on different scales: compare each with itself over the epochs",
    )


@torch.no_grad()
def validate(
    method: Method, x: Sequences, batches: Sequence[Tensor], options: FitOptions, seconds: float = math.inf
) -> tuple[list[float], float | None]:
    """Return the loss of each batch of held-out rows, and the method's score of all of them if it declares one.

    They are the same each time, if the weights are the same.

    Args:
        options: `seed` and `precision` are used.
        seconds: The time that the batches take at most, with the score; the first batch is always computed.
    """
    rng, begun, losses = generator(x.device, options.seed + 1), time.perf_counter(), list[float]()

    def batches_in_time() -> Iterator[Sequences]:
        """Yield each batch after its loss is computed, until the time is up."""
        for rows in batches:
            batch = x[rows]
            losses.append(float(method(batch, rng)))
            yield batch
            if seconds == math.inf:
                continue
            elapsed = distributed.broadcast_number(time.perf_counter() - begun)
            if elapsed * (1 + 1 / len(losses)) > seconds:  # with one more
                break

    score = declared(method).validation_score
    method.eval()
    with matmul_precision(options.precision, x.device):
        if score is not None and batches:
            return losses, float(score(batches_in_time()))
        for _ in batches_in_time():
            pass
    return losses, None


def all_equal(x: Sequences) -> bool:
    """Return whether all events are equal in all columns but those of times; a missing `gap` equals any other."""
    first: dict[str, Tensor] = {}
    for block in x.blocks():
        rows = x[block]
        index = rows.flat()
        for name, column in rows.columns.items():  # stops at the first column that varies
            if name in ("time", KNOWN):
                continue
            if not isinstance(column, Tensor):
                return False
            values = column[index]
            if name == "gap":
                values = values[~values.isnan()]
            if not len(values):
                continue
            if not bool(values.isclose(first.setdefault(name, values[0]), rtol=0, atol=0, equal_nan=True).all()):
                return False
    return True


def generator(device: torch.device, seed: int) -> torch.Generator:
    """Return a random generator on a device, with a seed."""
    return torch.Generator(device).manual_seed(seed)
