"""Views of a series with changed numbers and order: jitter, scaling and permutation, which are usual for sensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eventvec.errors import ConfigError
from eventvec.options import at_least
from eventvec.schema import Schema
from eventvec.sequences import Sequences, on_host
from eventvec.views.draws import cut_at_random, sources

PLACES = ("time", "gap", "segment")
"""The columns that stay where they are when pieces change places."""


@dataclass(frozen=True)
class Perturbed:
    """Copies of each row with noise on its numbers, numbers times a factor, and pieces in random order.

    These are the augmentations of sensor data of Um et al. 2017. With `NTXent` in `Siamese`, they are SimCLR on series.
    Noise is in units of the schema's standard deviations, and a factor multiplies the standardised number. Numbers that
    pass through a logarithm are perturbed there. Missing numbers stay missing; categories move with their piece; times
    stay where they are.

    Relations: `Altered` leaves events out; `RandomSlices` cuts.

    Args:
        schema: Has the numeric columns and their scales.
        count: Copies per row, at least 2.
        jitter: Standard deviation of the noise of each event, at least 0.
        scaling: Standard deviation of the factor of each column and copy, whose mean is 1, at least 0.
        pieces: The number of pieces that change places, at least 1; 1 keeps the order.

    Raises:
        ConfigError: If a number is out of range.

    Example:
        >>> from eventvec.schema import Numeric
        >>> sampler = Perturbed(Schema("id", "t", "integer", numeric=(Numeric("v", log=False),)), pieces=3)
        >>> x = Sequences({"v": torch.zeros(4)}, torch.tensor([0]), torch.tensor([4]))
        >>> sampler(x, torch.Generator())[1].tolist()
        [0, 0]
    """

    schema: Schema
    count: int = 2
    jitter: float = 0.1
    scaling: float = 0.2
    pieces: int = 5

    def __post_init__(self) -> None:
        at_least("count", self.count, 2)
        at_least("pieces", self.pieces, 1)
        for name, value in (("jitter", self.jitter), ("scaling", self.scaling)):
            if not 0 <= value < float("inf"):
                raise ConfigError(f"{name} must be at least 0 and finite, got {value}")

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with an event."""
        return x.lengths > 0

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` copies of each row, row after row."""
        source = sources(len(batch), self.count, batch.device)
        rows = batch[source]
        views = rows.take(rows.flat(), rows.lengths)
        columns, row = dict(views.columns), views.rows()
        for field in self.schema.numeric:
            number = field.scale(views.values(field.name))
            factor = 1 + self.scaling * torch.randn(len(views), generator=rng, device=rng.device)
            noise = self.jitter * torch.randn(len(number), generator=rng, device=rng.device)
            columns[field.name] = field.unscale(number * factor[row] + noise)
        if self.pieces > 1:
            order = _pieces_shuffled(views, self.pieces, rng)
            columns |= {name: values[order] for name, values in columns.items() if name not in PLACES}
        return replace(views, columns=columns), source


def _pieces_shuffled(x: Sequences, pieces: int, rng: torch.Generator) -> Tensor:
    """Return `(total,)` positions of events with the pieces of each row in random order; cuts are drawn at random."""
    begins, counts = cut_at_random(x, pieces, rng)
    piece = begins.long().cumsum(0) - 1
    n_pieces = int(on_host(counts).sum())
    drawn = torch.rand(n_pieces, generator=rng, device=rng.device, dtype=torch.float64) / 2  # never rounds to 1
    return (x.rows() + drawn[piece]).argsort(stable=True)
