"""How a method's weights are trained: the optimizer, the learning rate, and from which epoch on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from eventvec.methods.declarations import Method
from eventvec.training.fit_options import OptimizerName, Schedule


class LARS(torch.optim.Optimizer):
    """Gradient descent with momentum in which each tensor of weights has a rate of its own (You et al. 2017).

    For a tensor w with the gradient g, the step has the length of ``lr · η · |w|`` at first: ``d = g + β w``,
    ``v ← m v + lr · η |w| / (|g| + β |w|) · d`` and ``w ← w - v``, where the ratio is 1 if |w| or |g| is 0. As in the
    public code of Mathieu et al. 2021, biases and the weights of batch normalisation are no exception.

    Args:
        trust: η, the share of its norm by which a tensor changes in a step at a learning rate of 1.
    """

    def __init__(
        self, params: Any, lr: float, weight_decay: float = 0.0, momentum: float = 0.9, trust: float = 0.001
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "trust": trust})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                size, slope = weight.norm(), weight.grad.norm()
                ratio = group["trust"] * size / (slope + group["weight_decay"] * size)
                ratio = torch.where((size > 0) & (slope > 0), ratio, 1.0)
                change = (weight.grad + group["weight_decay"] * weight) * (ratio * group["lr"])
                momentum = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                weight.sub_(momentum.mul_(group["momentum"]).add_(change))


OPTIMIZERS: dict[OptimizerName, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "lars": LARS
}  # fmt: skip
"""The optimizers by their names in `FitOptions`."""
_ADAM = {"step": False, "exp_avg": True, "exp_avg_sq": True}
AVERAGES: dict[OptimizerName, dict[str, bool]] = {"adam": _ADAM, "adamw": _ADAM, "lars": {"momentum": True}}
"""What each optimizer keeps for a tensor of weights, and whether that has the tensor's shape or is one number."""


def optimizer(
    method: Method, lr: float, encoder_lr: float | None = None, name: OptimizerName = "adam", weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """Return an optimizer of a method's weights; the entry `top` of each parameter group is its highest learning rate.

    Args:
        method: A module with `.encoder`.
        encoder_lr: The highest learning rate of the encoder's weights; `lr` by default.
    """
    groups = [{"params": list(method.parameters()), "top": lr}]
    if encoder_lr is not None:
        parts = (encoder_lr, list(method.encoder.parameters())), (lr, head_weights(method))
        groups = [{"params": weights, "top": top} for top, weights in parts if weights]
    return OPTIMIZERS[name](groups, lr=lr, weight_decay=weight_decay)


def head_weights(method: Method) -> list[nn.Parameter]:
    """Return the weights of a method that are not its encoder's."""
    encoder = set(method.encoder.parameters())
    return [weight for weight in method.parameters() if weight not in encoder]


def learning_rate(top: float, schedule: Schedule, share: float, drops: int, factor: float) -> float:
    """Return the learning rate of the next step.

    Args:
        schedule: `cosine` from it to 0, `constant`, or `step`: multiplied by a factor at each drop.
        share: The share of training that is over, from 0 to 1.
        drops: The number of drops so far, with `step`.
    """
    if schedule == "step":
        return top * factor**drops
    return top if schedule == "constant" else top * 0.5 * (1 + math.cos(math.pi * min(share, 1)))


@contextmanager
def frozen(method: Method, freeze: bool) -> Iterator[None]:
    """Keep a method's encoder unchanged inside the block, if `freeze`: without gradients, and in evaluation mode.

    Neither its weights nor its running statistics change, and dropout is off. The previous mode is restored afterwards.
    """
    if not freeze:
        yield
        return
    encoder = method.encoder
    weights = [weight for weight in encoder.parameters() if weight.requires_grad]
    training = encoder.training
    try:
        for weight in weights:
            weight.requires_grad_(False)
        encoder.eval()
        yield
    finally:
        encoder.train(training)
        for weight in weights:
            weight.requires_grad_()
