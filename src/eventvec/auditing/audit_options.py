"""The options of `audit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eventvec.options import check_seed


@dataclass(frozen=True)
class AuditOptions:
    """Which columns are protected, and how they are predicted.

    Args:
        columns: The protected columns; by default all but the key.
        models: The models that predict them, see `EvaluationOptions`; the first that verdicts are about is shown.
        folds: The number of folds of the cross-validation.
        seed: The seed of everything random.

    Raises:
        ConfigError: If the seed is below 0 or too large.
    """

    columns: Sequence[str] | None = None
    models: Sequence[str] | None = None
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
