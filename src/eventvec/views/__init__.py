"""View samplers: which events of a batch a method sees, drawn for all rows at once.

A sampler is a frozen dataclass that is called as ``sampler(batch, rng) -> (views, source)``. `source[i]` is the row
that view i was cut from, so equal sources are positive pairs. `usable(x)` marks the rows that the sampler can draw
from. The random generator must be on the device of the batch.

::

    windows        slices, segments and time windows: no event is copied
    perturbed      series with changed numbers and order
    counterfeits   copies of rows with exchanged types or intervals
    samples        subsets and orders of a row's events: events are copied
    window_pairs   pairs of windows over distinct times, with a label per pair
    part_pairs     pairs of the two parts of a slice, with a label per pair
    processes      stochastic processes, which draw new events
    cuts           cuts without randomness: at a time, after the first event, at a window's edge
    ties           the distinct times of a row, and windows over them
    sizes          sizes of slices, windows, embeddings and batches that follow from the data
    draws          the random numbers that samplers share

No sampler has state.
"""

from collections.abc import Callable
from typing import Any

from eventvec.views.counterfeits import Counterfeits
from eventvec.views.cuts import as_of, hold_out, restart_gap
from eventvec.views.part_pairs import NextPairs, SwappedPairs
from eventvec.views.perturbed import Perturbed
from eventvec.views.processes import Process
from eventvec.views.samples import (
    Altered,
    CappedSamples,
    DisjointSamples,
    RandomSamples,
    ShuffledParts,
    Views,
    of_every_row,
    several,
)
from eventvec.views.ties import count_times, distinct_times, during
from eventvec.views.window_pairs import BiasedOrderPairs, EntityPairs, OrderPairs, PermutationPairs, Windowed
from eventvec.views.windows import DisjointSegments, RandomSlices, RejectionSlices, TimeWindows

VIEWS: dict[str, Callable[..., Any]] = {
    "altered": Altered,
    "capped_samples": CappedSamples,
    "counterfeits": Counterfeits,
    "disjoint_samples": DisjointSamples,
    "disjoint_segments": DisjointSegments,
    "perturbed": Perturbed,
    "random_samples": RandomSamples,
    "random_slices": RandomSlices,
    "rejection_slices": RejectionSlices,
    "shuffled_parts": ShuffledParts,
    "time_windows": TimeWindows,
}
"""The view samplers by their names in a configuration."""

PAIRS: dict[str, Callable[..., Any]] = {
    "biased_order_pairs": BiasedOrderPairs,
    "entity_pairs": EntityPairs,
    "next_pairs": NextPairs,
    "order_pairs": OrderPairs,
    "permutation_pairs": PermutationPairs,
    "swapped_pairs": SwappedPairs,
}
"""The pair samplers by their names in a configuration."""

__all__ = [
    "PAIRS",
    "VIEWS",
    "Altered",
    "BiasedOrderPairs",
    "CappedSamples",
    "Counterfeits",
    "DisjointSamples",
    "DisjointSegments",
    "EntityPairs",
    "NextPairs",
    "OrderPairs",
    "PermutationPairs",
    "Perturbed",
    "Process",
    "RandomSamples",
    "RandomSlices",
    "RejectionSlices",
    "ShuffledParts",
    "SwappedPairs",
    "TimeWindows",
    "Views",
    "Windowed",
    "as_of",
    "count_times",
    "distinct_times",
    "during",
    "hold_out",
    "of_every_row",
    "restart_gap",
    "several",
]
