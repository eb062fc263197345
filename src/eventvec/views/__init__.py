"""View samplers: which events of a batch a method looks at, drawn for all rows at once.

A sampler is a frozen dataclass that is called: ``(batch, rng) -> (views, source)``, where `source[i]` is the row that
view i was cut from, so that equal sources are positive pairs. Each has `usable(x)`, which says of which rows it can
draw. The generator must live on the device of the batch. What is *not* here: pairs of windows (`pairs`), losses,
encoders, any state.
"""

from collections.abc import Callable, Mapping
from typing import Any

from eventvec.views.cuts import as_of, hold_out, restart_gap
from eventvec.views.distinct_times import during, moments
from eventvec.views.draws import at_least, integers
from eventvec.views.samples import Altered, DisjointSamples, RandomSamples, ShuffledParts, Views, of_every_row, several
from eventvec.views.windows import DisjointSegments, RandomSlices, RejectionSlices, TimeWindows

VIEWS: Mapping[str, Callable[..., Any]] = {
    "altered": Altered,
    "disjoint_samples": DisjointSamples,
    "disjoint_segments": DisjointSegments,
    "random_samples": RandomSamples,
    "random_slices": RandomSlices,
    "rejection_slices": RejectionSlices,
    "shuffled_parts": ShuffledParts,
    "time_windows": TimeWindows,
}
"""One name per sampler, as a configuration names it."""

__all__ = [
    "VIEWS",
    "Altered",
    "DisjointSamples",
    "DisjointSegments",
    "RandomSamples",
    "RandomSlices",
    "RejectionSlices",
    "ShuffledParts",
    "TimeWindows",
    "Views",
    "as_of",
    "at_least",
    "during",
    "hold_out",
    "integers",
    "moments",
    "of_every_row",
    "restart_gap",
    "several",
]
