"""A training for each of several settings of a method; the result is the one with the lowest validation loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sized
from dataclasses import replace
from typing import Any

from eventvec.errors import ConfigError
from eventvec.methods.declarations import Method
from eventvec.models import Record
from eventvec.training.fit_options import FitOptions
from eventvec.training.kept_weights import LOSS, best_epoch
from eventvec.training.state import Training

Progress = Callable[[Record], None]


def check_trials(settings: Mapping[str, Any], held_out: Sized) -> None:
    """Refuse to choose among settings without a validation."""
    if settings and not len(held_out):
        raise ConfigError(
            f"{' or '.join(settings)} is chosen on entities held out for validation, and none are held out; set one of "
            "them, or set validation (at least 40 labelled entities have one by default)"
        )


def best_trial(
    method: Method,
    settings: Mapping[str, Callable[[], None]],
    once: Callable[[FitOptions, Progress | None, str], Training],
    options: FitOptions,
    progress: Progress | None,
) -> tuple[Training, dict[str, Any], str]:
    """Return the training with the lowest validation loss, what is recorded about all, and a sentence on the choice.

    The method has the weights of that training afterwards. The trainings have the same initial weights, batches and
    random numbers, and share a time budget. Each keeps its checkpoint, so a killed run repeats none that ended.

    Args:
        method: The method with its initial weights.
        settings: What sets each setting, by its text.
        once: Trains the method with options until a bound is reached, with a checkpoint in a file of a name.
    """
    if options.time_budget is not None:
        options = replace(options, time_budget=options.time_budget / len(settings))
    start, trained, losses = _weights(method), list[Training](), dict[str, float]()
    kept, weights = "", start
    for place, (setting, choose) in enumerate(settings.items()):
        method.load_state_dict(start)
        choose()
        shared = None if progress is None else _part(progress, place, len(settings))
        state = once(options, shared, f"checkpoint-{place}.safetensors")
        trained.append(state)
        losses[setting] = _validation_loss(state)
        if not kept or losses[setting] < losses[kept]:
            kept, weights = setting, _weights(method)
    method.load_state_dict(weights)
    settings[kept]()
    others = ", ".join(f"{loss:.3g} with {setting}" for setting, loss in losses.items() if setting != kept)
    note = f"{kept} was chosen: its validation loss is {losses[kept]:.3g}, against {others}"
    seconds = round(sum(state.seconds for state in trained), 3)
    return trained[list(settings).index(kept)], {"chosen": kept, "tried": losses, "seconds": seconds}, note


def _part(progress: Progress, place: int, count: int) -> Progress:
    """Return a function that tells a training's share of the bound as a share of all trainings."""
    return lambda record: progress({**record, "share": (place + float(record["share"] or 0)) / count})


def _weights(method: Method) -> dict[str, Any]:
    return {name: value.detach().clone() for name, value in method.state_dict().items()}


def _validation_loss(state: Training) -> float:
    """Return the validation loss of the weights that a training ends with."""
    epoch = best_epoch(state.history, state.score) if state.best_weights else None
    loss = float(state.history[-1 if epoch is None else epoch - 1][LOSS] or 0.0)
    return math.inf if math.isnan(loss) else loss
