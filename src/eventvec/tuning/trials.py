"""The trials of a search: which settings come next, as Optuna proposes from those that are over, and their file.

A trial is proposed from those that are over and a seed alone, so a killed search goes on as if it had not been.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eventvec.errors import CheckpointError
from eventvec.files import write_text
from eventvec.tuning.space import Space, are_numbers

FILE = "trials.json"
RANDOM, FULL = 5, 4
"""The number of trials with random settings at the start, and of whole trainings before one is pruned."""
FINISHED, PRUNED = "finished", "pruned"
Places = dict[str, int]


@dataclass(frozen=True)
class Trial:
    """A trial that is over.

    Args:
        places: The place of the value of each setting in the space.
        scores: The scores on the way, by the third of the budget after which they were taken.
        score: The score at the end; None if the trial was pruned or could not be trained.
        seconds: The seconds of the training.
        end: `finished`, `pruned`, or why it could not be trained.
    """

    places: Places
    scores: dict[str, float]
    score: float | None
    seconds: float
    end: str


def proposed(history: Sequence[Trial], space: Space, first: Places, seed: int) -> Any:
    """Return the next trial of Optuna, with the places of its values as `params`; None if all settings were tried.

    What the tree-structured Parzen estimator proposes a second time is replaced by settings at random that were not
    tried yet.

    Args:
        first: The settings of the first trial.
    """
    import optuna

    if len(history) == math.prod(map(len, space.values())):
        return None
    kinds: dict[str, Any] = {
        name: optuna.distributions.IntDistribution(0, len(values) - 1)
        if are_numbers(values)
        else optuna.distributions.CategoricalDistribution(range(len(values)))
        for name, values in space.items()
    }
    trial_seed, tried = (seed * 1_000_003 + len(history)) % 2**32, [trial.places for trial in history]
    sampler = optuna.samplers.TPESampler(n_startup_trials=RANDOM, seed=trial_seed)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=FULL)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
        study.add_trials([_known(optuna, trial, kinds) for trial in history])
        if not history:
            study.enqueue_trial(first)
        trial, rng = study.ask(kinds), np.random.default_rng(trial_seed)
        if (places := trial.params) in tried:
            while places in tried:
                places = {name: int(rng.integers(len(values))) for name, values in space.items()}
            study.enqueue_trial(places)
            trial = study.ask(kinds)
    finally:
        optuna.logging.set_verbosity(verbosity)
    return trial


def _known(optuna: Any, trial: Trial, kinds: dict[str, Any]) -> Any:
    """Return a trial that is over for a study; one that could not be trained counts as worse than all others."""
    states = optuna.trial.TrialState
    return optuna.trial.create_trial(
        params=trial.places,
        distributions=kinds,
        value=trial.score,
        state=states.PRUNED if trial.score is None else states.COMPLETE,
        intermediate_values={int(third): score for third, score in trial.scores.items()},
    )


def read_trials(folder: Path) -> list[Trial]:
    """Return the trials that are over."""
    path = folder / FILE
    if not path.is_file():
        return []
    try:
        return [Trial(**each) for each in json.loads(path.read_text())]
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged; begin the search again in a new folder") from error


def write_trials(folder: Path, trials: Sequence[Trial]) -> None:
    """Write the trials that are over."""
    write_text(folder / FILE, json.dumps([asdict(trial) for trial in trials], indent=1))
