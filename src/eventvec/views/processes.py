"""Stochastic processes: samplers whose rows hold the parameters of a realisation, from which they draw new events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from eventvec.options import each_at_least
from eventvec.sequences import Sequences


@dataclass(frozen=True)
class Process(ABC):
    """A view sampler that draws new events from the parameters of each row; subclass it for a process of your own.

    Its views have new columns, such as `x`, the covariate, and `y`, the observation.

    Args:
        count: Views per row, at least 1.
        length: Events per view, at least 1; a targeted method holds some out, and needs one beside them.

    Raises:
        ConfigError: If an option is below its minimum.

    Example:
        >>> class Noise(Process):
        ...     def usable(self, x):
        ...         return torch.ones(len(x), dtype=torch.bool)
        ...     def __call__(self, batch, rng):
        ...         source = torch.arange(len(batch)).repeat_interleave(self.count)
        ...         values = torch.rand(len(source) * self.length, generator=rng)
        ...         lengths = torch.full_like(source, self.length)
        ...         return Sequences({"x": values, "y": values}, lengths.cumsum(0) - lengths, lengths), source
    """

    count: int = 1
    length: int = 6

    def __post_init__(self) -> None:
        each_at_least(1, count=self.count, length=self.length)

    @abstractmethod
    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with all parameters."""

    @abstractmethod
    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
