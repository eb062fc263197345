"""The options of training: their ranges, their defaults, and the bounds of a training without any."""

from __future__ import annotations

from typing import Any

import pytest

from eventvec.blocks.untrained import BLOCKS
from eventvec.errors import ConfigError
from eventvec.training import FitOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"time_budget": 0.0}, "time_budget must be above 0 and finite, got 0.0"),
        ({"time_budget": float("nan")}, "time_budget must be above 0 and finite, got nan"),
        ({"time_budget": float("inf")}, "time_budget must be above 0 and finite, got inf"),
        (
            {"batch_size": 1},
            "batch_size must be at least 2, got 1 (a batch of one has no negatives and no statistics)",
        ),
        ({"lr": -1.0}, "lr must be above 0 and finite, got -1.0"),
        ({"lr": 0.0}, "lr must be above 0 and finite, got 0.0"),
        ({"encoder_lr": 0.0}, "encoder_lr must be above 0 and finite, got 0.0"),
        ({"freeze": -1}, "freeze must be at least 0, got -1"),
        ({"warmup": -1}, "warmup must be at least 0, got -1"),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0 and finite, got -0.1"),
        ({"optimizer": "sgd"}, "optimizer 'sgd' is not known; accepted: adam, adamw, lars"),
        ({"schedule": "steps"}, "schedule 'steps' is not known; did you mean 'step'? accepted: constant, cosine, step"),
        ({"step_epochs": 0}, "step_epochs must be at least 1, got 0"),
        ({"step_factor": 0.0}, "step_factor must be above 0 and at most 1, got 0.0"),
        ({"step_factor": 1.5}, "step_factor must be above 0 and at most 1, got 1.5"),
        ({"clip": 0.0}, "clip must be above 0 and finite, got 0.0"),
        ({"validation": 0.9}, "validation must be in [0, 0.5], got 0.9"),
        ({"validation": -0.1}, "validation must be in [0, 0.5], got -0.1"),
        ({"keep": "first"}, "keep 'first' is not known; accepted: best, last"),
        ({"patience": 0}, "patience must be at least 1, got 0"),
        (
            {"precision": "float16"},
            "precision 'float16' is not known; did you mean 'bfloat16' or 'float32'? ",
        ),
        ({"seed": 2**62}, f"seed must be in [0, 2^62), got {2**62}"),
        ({"seed": -1}, "seed must be in [0, 2^62), got -1"),
        ({"seed": 10**5000}, "seed must be a number of at most 64 bits, got one of 16610 bits"),
        ({"components": 0}, "components must be at least 1, got 0"),
        ({"beside": ["times"]}, f"beside 'times' is not known; accepted: {', '.join(sorted(BLOCKS))}"),
        ({"beside": ["timing", ["aggregates"]]}, "beside ['aggregates'] is not known; "),
        (
            {"beside": "timing"},
            f"beside must be a list of parts among {', '.join(BLOCKS)}, got 'timing'",
        ),
        ({"beside": None}, f"beside must be a list of parts among {', '.join(BLOCKS)}, got None"),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1, got 0"),
        ({"epochs": 0, "lr": 0.0}, "epochs must be at least 1, got 0; lr must be above 0 and finite, got 0.0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        FitOptions(**options)
    assert str(error.value).startswith(message)


def test_the_ends_of_the_ranges_are_accepted() -> None:
    least = FitOptions(
        epochs=1, time_budget=1e-9, batch_size=2, lr=1e-9, encoder_lr=1e-9, freeze=0, step_epochs=1, step_factor=1e-9,
        clip=1e-9, validation=0, patience=1, seed=0, checkpoint_every=1,
    )  # fmt: skip
    assert least.validation == 0
    assert FitOptions(step_factor=1, validation=0.5, seed=2**62 - 1).seed == 2**62 - 1


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        ({}, (None, 300.0, 5)),
        ({"patience": 2}, (None, 300.0, 2)),
        ({"epochs": 3}, (3, None, None)),
        ({"time_budget": 9.0}, (None, 9.0, None)),
        ({"epochs": 3, "time_budget": 9.0, "patience": 2}, (3, 9.0, 2)),
        ({"epochs": 3, "keep": "best"}, (3, None, None)),
        ({"time_budget": 9.0, "keep": "best"}, (None, 9.0, 5)),
        ({"time_budget": 9.0, "keep": "last"}, (None, 9.0, None)),
        ({"time_budget": 9.0, "keep": "best", "validation": 0.0}, (None, 9.0, None)),
    ],
)
def test_a_training_without_epochs_and_time_is_bounded(options: dict[str, Any], bounds: tuple[Any, ...]) -> None:
    bounded = FitOptions(**options).bounded
    assert (bounded.epochs, bounded.time_budget, bounded.patience) == bounds
    assert bounded.bounded == bounded


@pytest.mark.parametrize(
    ("options", "keeps_best"),
    [({}, False), ({"patience": 2}, True), ({"keep": "best"}, True), ({"patience": 2, "keep": "last"}, False)],
)
def test_the_best_weights_are_kept_with_patience_unless_the_last_are_asked_for(
    options: dict[str, Any], keeps_best: bool
) -> None:
    assert FitOptions(epochs=1, **options).keeps_best == keeps_best


def test_parts_beside_the_learned_one_are_in_one_order() -> None:
    assert FitOptions(beside=["aggregates", "timing", "aggregates"]).beside == ("timing", "aggregates")
    assert FitOptions(beside=["timing", "aggregates"]) == FitOptions(beside=("aggregates", "timing"))


def test_options_are_equal_whatever_the_number_of_steps_between_checkpoints() -> None:
    assert FitOptions(checkpoint_every=1) == FitOptions(checkpoint_every=7) != FitOptions(batch_size=7)
