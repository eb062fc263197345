"""The options of `compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eventvec.options import check_seed


@dataclass(frozen=True)
class CompareOptions:
    """What is compared, and under which budget.

    Args:
        methods: Names of methods; by default one for each idea, whatever the events are like. They are those of
            `arms.TRIED`. Tables of a configuration (`method`, `encoder`, `fit`) by the name of the arm are accepted.
        encoders: Names of encoders, by default gru; each method is trained with each of them.
        time_budget: The seconds of training of each arm; 60 if `epochs` is not given either.
        epochs: The epochs of each arm.
        folds: The number of folds.
        models: The models that are scored, as for `evaluate`; the first that verdicts are about decides.
        seed: The seed of training and of the folds, in [0, 2³¹).
        resume: Whether a plan that was begun in the folder goes on.

    Raises:
        ConfigError: If the seed is not in [0, 2^31).
    """

    methods: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None
    encoders: Sequence[str] | None = None
    time_budget: float | None = None
    epochs: int | None = None
    folds: int = 5
    models: Sequence[str] | None = None
    seed: int = 0
    resume: bool = False

    def __post_init__(self) -> None:
        check_seed("seed", self.seed, 31)
