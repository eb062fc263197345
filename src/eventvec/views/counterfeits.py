"""Counterfeits of a row: the same events with exchanged types or intervals, which a loss can take as negatives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from eventvec.options import at_least, one_of
from eventvec.sequences import Sequences, Values
from eventvec.views.draws import shuffled_order, sources

Exchanged: TypeAlias = Literal["types", "gaps"]
TIMES = ("time", "gap")
"""The columns that stay where types are exchanged."""


@dataclass(frozen=True)
class Counterfeits:
    """Copies of each row in which either the types or the intervals are in a random order.

    With `types`, the times stay, and the other columns are permuted together among the row's events. With `gaps`, the
    other columns and the first time stay, and the intervals between neighbouring events are permuted, so the row
    lasts as long as before. All orders have the same probability, also that of the row itself.

    Relations: `Altered` gives views that should be similar to the row; counterfeits should be dissimilar.
    `TPPEmbedding` takes them as negatives.

    Args:
        count: Counterfeits per row, at least 1.
        exchanged: What is in a random order: `types` or `gaps`.

    Raises:
        ConfigError: If `count` is below 1, or `exchanged` is not known.

    Example:
        >>> columns = {"time": torch.tensor([1, 2, 5, 9]), "code": torch.tensor([2, 3, 4, 5])}
        >>> x = Sequences(columns, torch.tensor([0]), torch.tensor([4]))
        >>> Counterfeits(count=2)(x, torch.Generator())[0].values("time").tolist()
        [1, 2, 5, 9, 1, 2, 5, 9]
    """

    count: int = 1
    exchanged: Exchanged = "types"

    def __post_init__(self) -> None:
        at_least("count", self.count, 1)
        one_of("exchanged", self.exchanged, get_args(Exchanged))

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows of at least two events, or two intervals, that can be exchanged."""
        return x.lengths >= (2 if self.exchanged == "types" else 3)

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` counterfeits of each row, row after row."""
        source = sources(len(batch), self.count, batch.device)
        rows = batch[source]
        rows = rows.take(rows.flat(), rows.lengths)
        return (_types_exchanged(rows, rng) if self.exchanged == "types" else _gaps_exchanged(rows, rng)), source


def _types_exchanged(x: Sequences, rng: torch.Generator) -> Sequences:
    """Return rows, whose events fill the columns row after row, with all columns but those of times permuted."""
    order = shuffled_order(x.rows(), rng)
    columns = {name: values if name in TIMES else values[order] for name, values in x.columns.items()}
    return replace(x, columns=columns)


def _gaps_exchanged(x: Sequences, rng: torch.Generator) -> Sequences:
    """Return rows, whose events fill the columns row after row, with permuted intervals between their events."""
    row, later = x.rows(), (x.steps() > 0).nonzero().squeeze(1)  # the events that an interval ends at
    order = later[shuffled_order(row[later], rng)]
    time = x.values("time")
    intervals = torch.zeros_like(time)
    intervals[later] = time[order] - time[order - 1]
    since = intervals.cumsum(0)  # over the rows before, too
    first = x.starts[row]
    columns: dict[str, Values] = {**x.columns, "time": time[first] + (since - since[first])}
    if "gap" in x.columns:
        gap = x.values("gap")
        columns["gap"] = gap.index_copy(0, later, gap[order])
    return replace(x, columns=columns)
