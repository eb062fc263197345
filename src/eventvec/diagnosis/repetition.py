"""Do histories repeat: is what an entity does at one time nearer to what it does at another than to what others do?

CoLES takes slices of one history for views of the same thing (Babaev et al. 2022, Section 3.2); where events repeat,
they are. The paper's Figure 4 compares histograms of event types by their Kullback-Leibler divergence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eventvec.config import suggest
from eventvec.dataset import Dataset
from eventvec.diagnosis.estimate import MET, Estimate, estimate
from eventvec.errors import ConfigError, DataError, nearest
from eventvec.sequences import Sequences
from eventvec.views import at_least, integers

FEWEST = 20
"""Entities with two slices from which anything is concluded."""

SMOOTHING = 1e-2
"""Added to the count of each event type, so that one that a slice lacks does not make the divergence infinite."""

CONSTANT = 0.95
"""A field that never changes in this share of entities names them; that it repeats says nothing about events."""

CELLS = 1 << 22
"""About how many counts are held at once."""


@dataclass(frozen=True, eq=False)
class Repeatability:
    """Divergences of event types within and between entities; returned by `repeatability`.

    Args:
        field: the categorical column.
        types: values that occur.
        shortest: events in the shortest slice.
        longest: events in the longest.
        skipped: entities without two slices that share no event.
        constant: share of entities in which the field has one value only.
        within: `(n,)` divergence of an entity's first slice from its second, KL(first ‖ second), in nats.
        between: `(n,)` of the same slice from one of another entity, of the same length.
        symmetric_within: `(n,)` mean of KL(first ‖ second) and KL(second ‖ first).
        symmetric_between: `(n,)` the same between entities.
        nearer: chance that `within` is below `between`, equal ones counting half.
        difference: median of `between` minus median of `within`.
    """

    field: str
    types: int
    shortest: int
    longest: int
    skipped: int
    constant: float
    within: Tensor
    between: Tensor
    symmetric_within: Tensor
    symmetric_between: Tensor
    nearer: Estimate
    difference: Estimate

    @property
    def names_entities(self) -> bool:
        """Whether the field hardly ever changes within an entity."""
        return self.constant >= CONSTANT

    @property
    def met(self) -> bool:
        """Whether own slices are nearer (interval above `MET`, and that of the difference above 0), by a field that
        changes within entities."""
        return self.nearer.clear and self.difference.low > 0 and not self.names_entities

    @property
    def medians(self) -> tuple[float, float]:
        """Median within and between entities."""
        return float(self.within.median()), float(self.between.median())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; medians instead of the divergences."""
        plain = ("field", "types", "shortest", "longest", "skipped", "constant", "names_entities", "met")
        divergences = ("within", "between", "symmetric_within", "symmetric_between")
        return {
            **{name: getattr(self, name) for name in plain},
            "entities": len(self.within),
            **{f"median_{name}": float(getattr(self, name).median()) for name in divergences},
            "nearer": self.nearer.to_dict(),
            "difference": self.difference.to_dict(),
            "threshold": MET,
        }


def repeatability(
    data: Dataset, field: str, rng: torch.Generator, *, shortest: int | None = None, longest: int | None = None
) -> Repeatability:
    """Return how far the event types of two slices of one entity are apart, beside slices of two entities.

    The paper leaves details open; the reading taken is this. Of each entity with room for them, two slices of one
    length that share no event are drawn, the length uniform from `shortest` to `longest` or half of the history. The
    first is compared with the second, and with a slice of the same length of another entity, drawn from all that are
    long enough: a short slice differs more from anything, so that lengths have to match. Each type gets 0.01 of an
    event more before normalising; unknown values are one type, missing ones another. Intervals draw entities again.

    Relations: `irreversibility` asks whether a history moves on; both can hold.

    Args:
        data: rows.
        field: a categorical column.
        rng: of slices, partners and intervals.
        shortest: events in the shortest slice; by the rule of `config.suggest` if not given.
        longest: events in the longest slice; likewise.

    Raises:
        ConfigError: there is no such categorical column, or the lengths make no range.
        DataError: fewer than 20 entities have two slices, or all events are of one type.

    Example:
        >>> from eventvec import datasets
        >>> found = repeatability(datasets.flights()[0], "dest", torch.Generator().manual_seed(0))
        >>> found.met, found.medians[0] < found.medians[1], found.nearer.value > 0.7
        (True, True, True)
    """
    named = {category.name: category for category in data.schema.categorical}
    if field not in named:
        raise ConfigError(f"there is no categorical column {field!r}; {nearest(field, named)}")
    x, size = data.sequences.to("cpu"), named[field].size
    slices = suggest(x, {})["method"]["views"]
    low = slices["shortest"] if shortest is None else shortest
    high = max(low, slices["longest"]) if longest is None else longest
    at_least("shortest", low, 1)
    at_least("longest", high, low)
    x = x[x.lengths >= 2 * low]
    if len(x) < FEWEST:
        raise DataError(
            f"{len(x):,} of {len(data):,} entities have {2 * low} events, two slices of {low}; whether events repeat "
            f"needs {FEWEST} of them, or shorter slices"
        )
    code, row = x.values(field).long(), x.rows()
    types = len(code.unique())
    if types == 1:
        raise DataError(f"all events have one value of column {field!r}, which cannot tell entities apart")
    first = code[x.lengths.cumsum(0) - x.lengths]
    changes = torch.bincount(row, (code != first[row]).double(), minlength=len(x)) > 0
    own, second, other = _slices(x, low, high, rng)
    divergences = torch.cat([_divergences(*part, field, size, types) for part in _parts(own, second, other, size)], 1)
    within, between = divergences[0], divergences[2]
    entity = torch.arange(len(x))
    nearer = (within < between).float() + (within == between).float() / 2
    return Repeatability(
        field, types, low, high, len(data) - len(x), 1 - float(changes.float().mean()),
        within, between, divergences[1], divergences[3],
        estimate(lambda w: w @ nearer / w.sum(1), entity, rng),
        estimate(lambda w: _median(between, w) - _median(within, w), entity, rng),
    )  # fmt: skip


def _slices(x: Sequences, low: int, high: int, rng: torch.Generator) -> tuple[Sequences, Sequences, Sequences]:
    """Return two slices of each row that share no event, and one of another row, all three of one length."""
    n, row = len(x), torch.arange(len(x))
    high = min(high, int(x.lengths.topk(2)[0][1]))  # so that the longest row finds a partner
    length = low + integers((x.lengths // 2).clamp(max=high) - low + 1, rng)
    room = x.lengths - 2 * length
    one, two = (integers(room + 1, rng) for _ in range(2))
    earlier, later = torch.minimum(one, two), torch.maximum(one, two) + length
    swapped = torch.rand(n, generator=rng) < 0.5
    own = x.slice(row, torch.where(swapped, later, earlier), length)
    second = x.slice(row, torch.where(swapped, earlier, later), length)
    order = x.lengths.argsort(stable=True)
    rank = order.argsort()
    begin = torch.searchsorted(x.lengths[order], length)  # rows from here on are long enough, the row itself among them
    pick = begin + integers(n - 1 - begin, rng)
    partner = order[pick + (pick >= rank)]
    return own, second, x.slice(partner, integers(x.lengths[partner] - length + 1, rng), length)


def _parts(
    own: Sequences, second: Sequences, other: Sequences, size: int
) -> Iterator[tuple[Sequences, Sequences, Sequences]]:
    """Yield the slices in blocks of rows that have about `CELLS` counts."""
    for rows in torch.arange(len(own)).split(max(CELLS // size, 1)):
        yield own[rows], second[rows], other[rows]


def _divergences(own: Sequences, second: Sequences, other: Sequences, field: str, size: int, types: int) -> Tensor:
    """Return `(4, n)`: KL from the own second slice, the same symmetrised, and both from the other entity's slice."""
    p, q, r = (_histogram(part, field, size, types) for part in (own, second, other))
    found = []
    for against in (q, r):
        ratio = p.log() - against.log()
        forward, backward = (p * ratio).sum(1), -(against * ratio).sum(1)
        found += [forward, (forward + backward) / 2]
    return torch.stack(found)


def _histogram(x: Sequences, field: str, size: int, types: int) -> Tensor:
    """Return `(n, size)` smoothed shares of event types; what never occurs anywhere adds nothing to a divergence."""
    counts = torch.bincount(x.rows() * size + x.values(field).long(), minlength=len(x) * size).view(len(x), size)
    return (counts + SMOOTHING) / (x.lengths.unsqueeze(1) + SMOOTHING * types)


def _median(values: Tensor, weight: Tensor) -> Tensor:
    """Return `(draws,)` the median of values drawn as often as the weights `(draws, n)` say."""
    order = values.argsort()
    below = weight[:, order].cumsum(1)
    return values[order][(below < below[:, -1:] / 2).sum(1)]
