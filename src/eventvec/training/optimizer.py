"""Which of a method's weights are trained, with which learning rate, and from which epoch on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import nn

from eventvec.methods.declarations import Method

Schedule = Literal["cosine", "constant", "step"]


def adam(method: Method, lr: float, encoder_lr: float | None = None) -> torch.optim.Adam:
    """Return Adam over a method's weights; the entry `top` of each parameter group is its highest learning rate.

    Args:
        method: A module with `.encoder`.
        lr: The highest learning rate.
        encoder_lr: The highest learning rate of the encoder's weights; `lr` by default.

    Example:
        >>> method = nn.ModuleDict({"head": nn.Linear(8, 2), "encoder": nn.Linear(3, 8)})
        >>> method.encoder = method["encoder"]
        >>> [(group["top"], len(group["params"])) for group in adam(method, 0.01, 0.001).param_groups]
        [(0.001, 2), (0.01, 2)]
    """
    groups = [{"params": list(method.parameters()), "top": lr}]
    if encoder_lr is not None:
        parts = (encoder_lr, list(method.encoder.parameters())), (lr, head_weights(method))
        groups = [{"params": weights, "top": top} for top, weights in parts if weights]
    return torch.optim.Adam(groups, lr=lr)


def head_weights(method: Method) -> list[nn.Parameter]:
    """Return the weights of a method that are not its encoder's.

    Example:
        >>> method = nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 2))
        >>> method.encoder = method[0]
        >>> [tuple(weight.shape) for weight in head_weights(method)]
        [(2, 8), (2,)]
    """
    encoder = set(method.encoder.parameters())
    return [weight for weight in method.parameters() if weight not in encoder]


def learning_rate(top: float, schedule: Schedule, share: float, drops: int, factor: float) -> float:
    """Return the learning rate of the next step.

    Args:
        top: The highest learning rate.
        schedule: `cosine` from it to 0, `constant`, or `step`: multiplied by a factor at each drop.
        share: The share of training that is over, from 0 to 1.
        drops: The number of drops so far, with `step`.
        factor: The factor of each drop.

    Example:
        >>> [learning_rate(0.4, name, share=0.5, drops=2, factor=0.5) for name in ("cosine", "constant", "step")]
        [0.2, 0.4, 0.1]
    """
    if schedule == "step":
        return top * factor**drops
    return top if schedule == "constant" else top * 0.5 * (1 + math.cos(math.pi * min(share, 1)))


@contextmanager
def frozen(method: Method, freeze: bool) -> Iterator[None]:
    """Keep a method's encoder unchanged inside the block, if `freeze`: without gradients, and in evaluation mode.

    Neither its weights nor its running statistics change, and dropout is off. The previous mode is restored afterwards.

    Example:
        >>> method = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
        >>> method.encoder = method[0]
        >>> with frozen(method, True):
        ...     method.encoder(torch.randn(5, 2)).requires_grad, method.encoder.training
        (False, False)
        >>> method.encoder.weight.requires_grad, method.encoder.training, method.encoder.running_mean.tolist()
        (True, True, [0.0, 0.0])
    """
    encoder = method.encoder
    weights = [weight for weight in encoder.parameters() if freeze and weight.requires_grad]
    training = encoder.training
    try:
        for weight in weights:
            weight.requires_grad_(False)
        encoder.train(training and not freeze)
        yield
    finally:
        encoder.train(training)
        for weight in weights:
            weight.requires_grad_()
