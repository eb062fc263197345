"""The options of `drift`."""

from __future__ import annotations

from dataclasses import dataclass

from eventvec.errors import ConfigError
from eventvec.options import at_least, check_seed

MOST_PERMUTATIONS = 100_000
"""The largest number of permutations; each has a weight in memory for every row."""


@dataclass(frozen=True)
class DriftOptions:
    """How two periods are compared.

    Args:
        level: The largest probability that anything is found between equal periods, above 0 and below 1.
        entities: The largest number of entities of each period that are compared, at least 2. Fewer are compared if
            they have more than about eight million events.
        permutations: The number of permutations, from 19 to 100,000. The smallest possible p-value is
            1 / (permutations + 1), times the number of columns.
        held_out: Compare only entities that the model held out of its training, so the encoder saw neither period.
        seed: The seed of the sample and of the permutations.

    Raises:
        ConfigError: If an option is out of range.

    Example:
        >>> DriftOptions().level
        0.05
    """

    level: float = 0.05
    entities: int = 2000
    permutations: int = 1999
    held_out: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        if not 0 < self.level < 1:
            raise ConfigError(f"level must be above 0 and below 1, got {self.level}")
        at_least("entities", self.entities, 2)
        at_least("permutations", self.permutations, 19)
        if self.permutations > MOST_PERMUTATIONS:
            raise ConfigError(f"permutations must be at most {MOST_PERMUTATIONS:,}, got {self.permutations}")
