"""The options of `tune`."""

from __future__ import annotations

from dataclasses import dataclass

from eventvec.options import at_least, check_seed


@dataclass(frozen=True)
class TuneOptions:
    """How long a search goes on, and how its trials are scored.

    Args:
        trials: The number of trials, the defaults included, at least 2.
        time_budget: The seconds of training of each trial; 60 if `epochs` is not given either.
        epochs: The epochs of each trial.
        holdout: The share of entities that the search never sees.
        folds: The number of folds in which trials are scored.
        seed: The seed of the hold-out, the search, the trainings and the folds, in [0, 2³¹).
        resume: Whether a search that was begun in the folder goes on.

    Raises:
        ConfigError: If `trials` is below 2, or the seed is not in [0, 2^31).
    """

    trials: int = 20
    time_budget: float | None = None
    epochs: int | None = None
    holdout: float = 0.2
    folds: int = 5
    seed: int = 0
    resume: bool = False

    def __post_init__(self) -> None:
        check_seed("seed", self.seed, 31)
        at_least("trials", self.trials, 2)
