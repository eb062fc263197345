"""Whether events repeat: are two slices of one entity more similar than slices of two entities?

CoLES treats slices of one sequence as views of the same entity (Babaev et al. 2022, Section 3.2), which is justified
where events repeat. As in Figure 4 of the paper, slices are compared by the Kullback-Leibler (KL) divergence of their
histograms of event types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError, nearest
from eventvec.sequences import Sequences
from eventvec.views.draws import at_least, integers
from eventvec.views.sizes import slice_bounds
from experiments.bootstrap import Estimate, estimate
from experiments.command_line import Row

FEWEST = 20
"""Smallest number of entities with two slices from which a result is returned."""

SMOOTHING = 1e-2
"""Added to the count of each event type, so that a type missing from a slice does not make the divergence infinite."""

CONSTANT = 0.95
"""A field with one value only in this share of the entities identifies them and does not show that events repeat."""

CELLS = 1 << 22
"""Approximate number of counts that are held in memory at once."""


@dataclass(frozen=True, eq=False)
class Repeatability:
    """Divergences of event types within and between entities; returned by `repeatability`.

    Args:
        constant: Share of entities in which the field has one value only.
        within: `(n,)` divergence of an entity's first slice from its second, KL(first ‖ second), in nats.
        between: `(n,)` divergence of the same slice from a slice of another entity with the same length.
        nearer: Probability that `within` is below `between`; ties count half.
        difference: Median of `between` minus median of `within`.
    """

    constant: float
    within: Tensor
    between: Tensor
    nearer: Estimate
    difference: Estimate

    @property
    def names_entities(self) -> bool:
        """Whether the field hardly ever changes within an entity, and so identifies it."""
        return self.constant >= CONSTANT

    @property
    def met(self) -> bool:
        """Whether slices of the same entity are more similar.

        This holds if the interval of `nearer` lies above `MET`, that of `difference` lies above 0, and the field
        changes within entities.
        """
        return self.nearer.clear and self.difference.low > 0 and not self.names_entities

    @property
    def medians(self) -> tuple[float, float]:
        """The median divergences within and between entities."""
        return float(self.within.median()), float(self.between.median())


def repeatability(
    data: Dataset, field: str, rng: torch.Generator, *, shortest: int | None = None, longest: int | None = None
) -> Repeatability:
    """Return the divergence of event types between slices of one entity, beside that between slices of two entities.

    The paper leaves details open; this function reads it as follows. From each entity that is long enough, two disjoint
    slices of equal length are drawn. The length is uniform from `shortest` to `longest`, or to half of the sequence if
    that is less. The first slice is compared with the second, and with a slice of the same length of another entity,
    which is drawn from all that are long enough. Lengths have to match because a short slice differs more from any
    other. Each event type gets 0.01 of an event before normalising; unknown values count as one type, missing values as
    another. Intervals come from a bootstrap over entities.

    Relations: `irreversibility` checks whether a history moves on. Both can hold.

    Args:
        data: The rows to check.
        field: A categorical column.
        rng: Generator for slices, partners and intervals.
        shortest: Number of events in the shortest slice. By default, `views.sizes.slice_bounds` sets it.
        longest: Number of events in the longest slice. By default, `views.sizes.slice_bounds` sets it.

    Raises:
        ConfigError: If there is no such categorical column, `shortest` is below 1, or `longest` is below `shortest`.
        DataError: If fewer than 20 entities have two slices, or all events have the same type.

    Example:
        >>> from eventvec import datasets
        >>> r = repeatability(datasets.flights()[0], "dest", torch.Generator().manual_seed(0))
        >>> r.met, r.medians[0] < r.medians[1], r.nearer.value > 0.7
        (True, True, True)
    """
    categories = {category.name: category for category in data.schema.categorical}
    if field not in categories:
        raise ConfigError(f"there is no categorical column {field!r}; {nearest(field, categories)}")
    x, size = data.sequences.to("cpu"), categories[field].size
    bounds = slice_bounds(x)
    low = bounds[0] if shortest is None else shortest
    high = max(low, bounds[1]) if longest is None else longest
    at_least("shortest", low, 1)
    at_least("longest", high, low)
    x = x[x.lengths >= 2 * low]
    if len(x) < FEWEST:
        raise DataError(
            f"to tell whether events repeat, {FEWEST} entities need {2 * low} events (two slices of {low}), but only "
            f"{len(x):,} of {len(data):,} have as many; use shorter slices or more data"
        )
    code, row = x.values(field).long(), x.rows()
    types = len(code.unique())
    if types == 1:
        raise DataError(f"all events have the same value in column {field!r}, which cannot distinguish entities")
    first_code = code[x.lengths.cumsum(0) - x.lengths]
    changes = torch.bincount(row, (code != first_code[row]).double(), minlength=len(x)) > 0
    slices = _slices(x, low, high, rng)
    divergences = torch.cat([_divergences(*part, field, size, types) for part in _blocks(*slices, size)], 1)
    within, between = divergences
    entity = torch.arange(len(x))
    nearer = (within < between).float() + (within == between).float() / 2
    return Repeatability(
        1 - float(changes.float().mean()),
        within,
        between,
        estimate(lambda w: w @ nearer / w.sum(1), entity, rng),
        estimate(lambda w: _median(between, w) - _median(within, w), entity, rng),
    )


def divergence_row(name: str, data: Dataset, field: str, rng: torch.Generator) -> Row:
    """Return the median divergences of a field of a data set, their difference and `nearer`, with their intervals."""
    divergence = repeatability(data, field, rng)
    within, between = divergence.medians
    return {
        "data": name, "field": field, "within": within, "between": between,
        "difference": divergence.difference.value,
        "low": divergence.difference.low, "high": divergence.difference.high,
        "nearer": divergence.nearer.value, "nearer low": divergence.nearer.low, "nearer high": divergence.nearer.high,
    }  # fmt: skip


def _slices(x: Sequences, low: int, high: int, rng: torch.Generator) -> tuple[Sequences, Sequences, Sequences]:
    """Return two disjoint slices of each row and one slice of another row, all three of equal length."""
    n, row = len(x), torch.arange(len(x))
    high = min(high, int(x.lengths.topk(2)[0][1]))  # so that the longest row has a partner
    length = low + integers((x.lengths // 2).clamp(max=high) - low + 1, rng)
    room = x.lengths - 2 * length
    offsets = [integers(room + 1, rng) for _ in range(2)]
    earlier, later = torch.minimum(*offsets), torch.maximum(*offsets) + length
    swapped = torch.rand(n, generator=rng) < 0.5
    first = x.slice(row, torch.where(swapped, later, earlier), length)
    second = x.slice(row, torch.where(swapped, earlier, later), length)
    order = x.lengths.argsort(stable=True)
    rank = order.argsort()
    begin = torch.searchsorted(x.lengths[order], length)  # rows from here on are long enough, including the row itself
    pick = begin + integers(n - 1 - begin, rng)
    partner = order[pick + (pick >= rank)]
    return first, second, x.slice(partner, integers(x.lengths[partner] - length + 1, rng), length)


def _blocks(
    first: Sequences, second: Sequences, partner: Sequences, size: int
) -> Iterator[tuple[Sequences, Sequences, Sequences]]:
    """Yield the slices in blocks of rows with about `CELLS` counts each."""
    for rows in torch.arange(len(first)).split(max(CELLS // size, 1)):
        yield first[rows], second[rows], partner[rows]


def _divergences(first: Sequences, second: Sequences, partner: Sequences, field: str, size: int, types: int) -> Tensor:
    """Return `(2, n)`: the divergence from the entity's second slice, and from the partner's slice."""
    p, q, r = (_histogram(part, field, size, types) for part in (first, second, partner))
    return torch.stack([(p * (p.log() - against.log())).sum(1) for against in (q, r)])


def _histogram(x: Sequences, field: str, size: int, types: int) -> Tensor:
    """Return `(n, size)` smoothed shares of event types; types that never occur add nothing to a divergence."""
    counts = torch.bincount(x.rows() * size + x.values(field).long(), minlength=len(x) * size).view(len(x), size)
    return (counts + SMOOTHING) / (x.lengths.unsqueeze(1) + SMOOTHING * types)


def _median(values: Tensor, weight: Tensor) -> Tensor:
    """Return `(draws,)` the median of values that are repeated as often as their weights `(draws, n)`."""
    order = values.argsort()
    below = weight[:, order].cumsum(1)
    return values[order][(below < below[:, -1:] / 2).sum(1)]
