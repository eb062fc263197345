"""All settings that were tried, and those that were chosen on entities held out inside training."""

from __future__ import annotations

from experiments.expclr.arms import Arm

RATES = (0.0003, 0.001, 0.005)
POSTER = {"normalize": "none", "delta": 1.0}
"""Distances as they are and Δ = 1, as the poster prints the loss."""


def _grid(method: str, encoders: tuple[str, ...] = ("tcn", "resnet")) -> tuple[Arm, ...]:
    """Return the trials that every method had."""
    arms = [Arm(method, lr) for lr in RATES]
    return (*arms, Arm(method, 0.001, "resnet")) if "resnet" in encoders else tuple(arms)


TRIALS: dict[str, tuple[Arm, ...]] = {
    "ExpCLR": (
        *_grid("ExpCLR"), Arm("ExpCLR", 0.005, "resnet"), Arm("ExpCLR", 0.001, options={"temperature": 0.1}),
        Arm("ExpCLR", 0.005, options={"temperature": 0.1}), Arm("ExpCLR", 0.005, options={"delta": 1.0}),
        Arm("ExpCLR", 0.005, options={"largest": "data"}), Arm("ExpCLR", 0.0003, options=POSTER),
        Arm("ExpCLR", 0.001, options=POSTER), Arm("ExpCLR", 0.001, options={**POSTER, "temperature": 0.1}),
        Arm("ExpCLR", 0.001, options={**POSTER, "largest": "data"}),
    ),
    "quadratic loss": (
        *_grid("quadratic loss"), Arm("quadratic loss", 0.005, options={"delta": 1.0}),
        Arm("quadratic loss", 0.001, options=POSTER),
    ),
    "feature decoding": _grid("feature decoding"),
    "triplets": _grid("triplets"),
    "SimCLR": (
        *_grid("SimCLR"), Arm("SimCLR", 0.005, "resnet"), Arm("SimCLR", 0.005, options={"pieces": 1}),
        Arm("SimCLR", 0.005, options={"temperature": 0.1}),
    ),
    "TS2Vec": _grid("TS2Vec", ("tcn",)),
    "supervised": (*_grid("supervised"), Arm("supervised", 0.005, "resnet")),
}  # fmt: skip
"""The trials on windows of motion, by method: the score was that of a linear classifier on five training users."""
LONG = 5_000
RATE_TRIALS = (
    *(Arm("ExpCLR", lr, options=options) for lr in (3e-5, 1e-4, 3e-4) for options in (POSTER, {})),
    *(Arm("ExpCLR", lr, options=POSTER, steps=LONG) for lr in (3e-5, 1e-4, 3e-4)),
)
"""The trials at low rates, some of them with five times the steps, on the same users."""
SHORT = 345
LABEL_TRIALS = {method: tuple(Arm(method, lr, steps=SHORT) for lr in RATES) for method in ("supervised", "labels only")}
"""The trials with all labels and nothing else to learn from, with three passes over the windows, on the same users."""
FEW_TRIALS = (
    *_grid("supervised"), *_grid("semi-supervised"),
    Arm("semi-supervised", 0.0003, options={**POSTER, "added": 1.0}),
    Arm("semi-supervised", 0.001, options={**POSTER, "added": 1.0}),
    Arm("semi-supervised", 0.001, options={"added": 1.0}), Arm("semi-supervised", 0.001, options={"added": 4.0}),
)  # fmt: skip
"""The trials with a twentieth of the labels, on the same users."""
STAY_TRIALS = tuple(Arm(method, lr, "gru") for method in ("ExpCLR", "CoLES") for lr in RATES)
"""The trials on stays, on a fifth of the training stays."""

CHOSEN: dict[str, Arm] = {
    "ExpCLR": Arm("ExpCLR", 0.0003, options=POSTER),
    "quadratic loss": Arm("quadratic loss", 0.001, options=POSTER),
    "feature decoding": Arm("feature decoding", 0.001),
    "triplets": Arm("triplets", 0.0003),
    "SimCLR": Arm("SimCLR", 0.001),
    "TS2Vec": Arm("TS2Vec", 0.001),
    "supervised": Arm("supervised", 0.005, "resnet"),
}
"""The best trial of each method."""
FEW_LABELS = {
    "supervised": Arm("supervised", 0.001),
    "semi-supervised": Arm("semi-supervised", 0.001, options={"added": 1.0}),
}
"""The best trials with a twentieth of the labels, for all shares of labels."""
STAYS = {method: Arm(method, 0.005, "gru") for method in ("ExpCLR", "quadratic loss", "feature decoding", "CoLES")}
"""The best trials on stays; the quadratic loss and feature decoding take the learning rate of ExpCLR."""
