"""The options of `fit`, which are those of the `[fit]` table and of the command line too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from eventvec.errors import ConfigError, nearest
from eventvec.options import LATEST, check_seed

PATIENCE, MINUTES = 5, 5
"""The bounds of a training without `epochs` and `time_budget`: epochs without improvement, and minutes."""

Keep = Literal["best", "last"]
Schedule = Literal["cosine", "constant", "step"]
OptimizerName = Literal["adam", "adamw", "lars"]
TrainingPrecision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class FitOptions:
    """How a method is trained.

    Args:
        epochs: The number of passes over the data.
        time_budget: The seconds of training, validation included.
        batch_size: The number of entities per step, at least 2.
        lr: The highest learning rate.
        encoder_lr: The highest learning rate of the encoder's weights, a lower one in fine-tuning; `lr` by default.
        freeze: The number of epochs at the start in which the encoder stays as it is, in evaluation mode.
        schedule: How the learning rate changes: `cosine` from the highest one to 0 at the bound, `constant`, or `step`.
        warmup: The number of steps at the start in which the learning rate rises to that of the schedule, in proportion
            to the steps taken. Self-attention needs it at high learning rates.
        step_epochs: With `step`, the number of epochs after which the learning rate falls.
        step_factor: With `step`, the factor by which it falls, in (0, 1]; the CoLES paper's runs use .9025 or .8.
        optimizer: Which optimizer: `adam`, `adamw`, whose weight decay is apart from the gradient, or `lars`, for large
            batches. The learning rate of LARS is far higher: .1 for each 256 entities of a batch is usual.
        weight_decay: The factor of weight decay, at least 0. With `adam`, it is added to the gradient.
        clip: The largest norm of the gradient; longer gradients are scaled to it.
        validation: The share of usable entities held out for validation, in [0, 0.5]; none if that is fewer than 2. The
            validation loss is the mean over at most 50 batches of them, or as many as a tenth of the time budget takes.
        patience: The number of epochs without improvement of the validation after which training stops.
        keep: Which weights the run ends with: those of the `best` epoch or those of the `last`. The best has the lowest
            validation loss, or the highest score on the same rows if the method declares one, as `tpp_embedding` and
            `cross_order` do; equal scores are compared by the loss. By default, best with `patience`, for methods that
            learn labels and for `tpp_embedding`, else last. With best and without `epochs`, training stops after 5
            epochs without improvement, or after `patience`. Without validation the weights are the last ones.
        precision: The precision of matrix products in training, `float32` or `bfloat16`. `auto` is bfloat16 on an x86
            CPU with instructions for it, for a recurrent encoder as large as a GRU of 256 or larger, and else float32;
            a note says so, and the run records which one it was and keeps it when it is resumed. With bfloat16, the
            states of a recurrent encoder stay float32, and so do products that are too small to gain from it. A CPU
            without instructions for bfloat16 refuses it.
        threads: The number of threads of the CPU. By default one for models with states of up to about 128 numbers, for
            which others bring little and cost much beside other programs, and torch's number for larger ones or where
            the variable `OMP_NUM_THREADS` is set.
        seed: The seed of everything random.
        beside: What the vectors of the run have beside the learned part: any of `timing`, `aggregates`, `codes` and
            `convolutions`; an empty list for nothing. By default timing and aggregates for `coles` by name or in
            tables, and nothing otherwise. Timing has standardised features of the times and of the number of events.
            Aggregates are hand-crafted features of all columns, or their principal components if there are more than
            256. Codes are components of how often codes, pairs of codes and codes with numbers occur, see
            `encoders.Codes`. Convolutions are components of how the latest 256 events respond to random kernels, see
            `encoders.Convolutions`. Means, scales and components are computed after the training from all entities with
            events that are not held out, those that the method cannot use included, and do not count as time of the
            training. Training further leaves them out.
        components: The number of principal components of `aggregates`, if there are more than 256 of them.
        latest: How many of an entity's latest events an encoder without a running state reads when it embeds, such as a
            transformer; a state store keeps as many. Recurrent encoders read all.
        checkpoint_every: The number of steps between two checkpoints of a model folder.

    Raises:
        ConfigError: If an option is out of range.

    Example:
        >>> FitOptions(epochs=3).bounded.time_budget, FitOptions().bounded.time_budget
        (None, 300.0)
    """

    epochs: int | None = None
    time_budget: float | None = None
    batch_size: int = 64
    lr: float = 0.002
    encoder_lr: float | None = None
    freeze: int = 0
    schedule: Schedule = "cosine"
    warmup: int = 0
    step_epochs: int = 10
    step_factor: float = 0.9025
    optimizer: OptimizerName = "adam"
    weight_decay: float = 0.0
    clip: float | None = None
    validation: float = 0.05
    patience: int | None = None
    keep: Keep | None = None
    precision: TrainingPrecision = "auto"
    threads: int | None = field(default=None, compare=False)  # a resumed run may have another, as for checkpoints
    seed: int = 0
    beside: Sequence[str] = ()
    components: int = 64
    latest: int = LATEST
    checkpoint_every: int = field(default=200, compare=False)

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        wrong = []
        least = {
            "epochs": 1,
            "batch_size": 2,
            "patience": 1,
            "step_epochs": 1,
            "freeze": 0,
            "warmup": 0,
            "components": 1,
            "latest": 1,
            "threads": 1,
            "checkpoint_every": 1,
        }
        values = vars(self)
        for name, low in least.items():
            if (value := values[name]) is not None and value < low:
                reason = " (a batch of one has no negatives and no statistics)" if name == "batch_size" else ""
                wrong.append(f"{name} must be at least {low}, got {value}{reason}")
        for name in ("time_budget", "lr", "encoder_lr", "clip"):
            if (value := values[name]) is not None and not 0 < value < math.inf:
                wrong.append(f"{name} must be above 0 and finite, got {value}")
        if not 0 <= self.weight_decay < math.inf:
            wrong.append(f"weight_decay must be at least 0 and finite, got {self.weight_decay}")
        if not 0 < self.step_factor <= 1:
            wrong.append(f"step_factor must be above 0 and at most 1, got {self.step_factor}")
        if not 0 <= self.validation <= 0.5:
            wrong.append(f"validation must be in [0, 0.5], got {self.validation}")
        choices = {"schedule": Schedule, "optimizer": OptimizerName, "keep": Keep, "precision": TrainingPrecision}
        for name, accepted in ((name, get_args(choice)) for name, choice in choices.items()):
            if (value := values[name]) not in accepted and (name, value) != ("keep", None):
                wrong.append(f"{name} {value!r} is not known; {nearest(str(value), accepted)}")
        beside, reasons = _in_order(self.beside)
        if wrong := wrong + reasons:
            raise ConfigError("; ".join(wrong))
        object.__setattr__(self, "beside", beside)

    @property
    def bounded(self) -> FitOptions:
        """The same options, with a bound of 5 minutes and early stopping where no bound is given.

        Early stopping is added to a time budget alone if the run takes the best weights.
        """
        if self.epochs is not None or (self.time_budget is not None and (self.keep != "best" or not self.validation)):
            return self
        budget = 60.0 * MINUTES if self.time_budget is None else self.time_budget
        patience = PATIENCE if self.patience is None else self.patience
        return replace(self, time_budget=budget, patience=patience)

    @property
    def keeps_best(self) -> bool:
        """Whether the run ends with the weights of the epoch with the best validation, if there is one.

        Example:
            >>> FitOptions(epochs=3).keeps_best, FitOptions(epochs=3, patience=2).keeps_best
            (False, True)
        """
        return self.keep == "best" or (self.keep is None and self.patience is not None)


def _in_order(beside: Any) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of parts in the order in which the parts stand in a vector, each once, and what is wrong."""
    if isinstance(beside, tuple) and not beside:
        return (), []
    from eventvec.blocks.untrained import BLOCKS

    if isinstance(beside, str) or not isinstance(beside, Sequence):
        return (), [f"beside must be a list of parts among {', '.join(BLOCKS)}, got {beside!r}"]
    unknown = [part for part in beside if part not in list(BLOCKS)]
    reasons = [f"beside {part!r} is not known; {nearest(str(part), BLOCKS)}" for part in unknown]
    return tuple(part for part in BLOCKS if part in beside), reasons
