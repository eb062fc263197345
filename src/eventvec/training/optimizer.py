"""Which of a method's weights learn, at what rate and from which epoch on: what `train` asks before each step.

What is *not* here: the loop, and what else a run may be told (`train`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from torch import nn

from eventvec.errors import nearest

Schedule = Literal["cosine", "constant", "step"]


def adam(method: nn.Module, lr: float, encoder_lr: float | None = None) -> torch.optim.Adam:
    """Return Adam over a method's weights; the entry `top` of each group is its highest rate.

    Args:
        method: has `.encoder`.
        lr: highest rate.
        encoder_lr: highest rate of the encoder's weights; that of the others if not given.

    Example:
        >>> method = nn.ModuleDict({"head": nn.Linear(8, 2), "encoder": nn.Linear(3, 8)})
        >>> method.encoder = method["encoder"]
        >>> [(group["top"], len(group["params"])) for group in adam(method, 0.01, 0.001).param_groups]
        [(0.001, 2), (0.01, 2)]
    """
    groups = [{"params": list(method.parameters()), "top": lr}]
    if encoder_lr is not None:
        parts = (encoder_lr, list(method.encoder.parameters())), (lr, own(method))  # type: ignore[union-attr]
        groups = [{"params": weights, "top": top} for top, weights in parts if weights]
    return torch.optim.Adam(groups, lr=lr)


def own(method: nn.Module) -> list[nn.Parameter]:
    """Return the weights of a method that are not its encoder's.

    Example:
        >>> method = nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 2))
        >>> method.encoder = method[0]
        >>> [tuple(weight.shape) for weight in own(method)]
        [(2, 8), (2,)]
    """
    encoder = set(method.encoder.parameters())  # type: ignore[union-attr]
    return [weight for weight in method.parameters() if weight not in encoder]


def rate(top: float, schedule: Schedule, share: float, drops: int, factor: float) -> float:
    """Return the learning rate of the next step.

    Args:
        top: the highest rate.
        schedule: `cosine` from it to 0, `constant`, or `step`: times a factor at each drop.
        share: how much of training is over, from 0 to 1.
        drops: how often the rate was multiplied, with `step`.
        factor: by what.

    Example:
        >>> [rate(0.4, name, share=0.5, drops=2, factor=0.5) for name in ("cosine", "constant", "step")]
        [0.2, 0.4, 0.1]
    """
    if schedule == "step":
        return top * factor**drops
    return top if schedule == "constant" else top * 0.5 * (1 + math.cos(math.pi * min(share, 1)))


@contextmanager
def frozen(method: nn.Module, freeze: bool) -> Iterator[None]:
    """Keep a method's encoder as it is inside the block, if so asked: no gradients, and in evaluation mode.

    So neither its weights nor its running statistics move and nothing is dropped out; both are as before afterwards.

    Example:
        >>> method = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
        >>> method.encoder = method[0]
        >>> with frozen(method, True):
        ...     method.encoder(torch.randn(5, 2)).requires_grad, method.encoder.training
        (False, False)
        >>> method.encoder.weight.requires_grad, method.encoder.training, method.encoder.running_mean.tolist()
        (True, True, [0.0, 0.0])
    """
    encoder: nn.Module = method.encoder  # type: ignore[assignment]
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


def faults(method: nn.Module, settings: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with those of `fit`'s settings that are about rates and freezing, a sentence each.

    Example:
        >>> method = nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 2))
        >>> method.encoder = method[0]
        >>> settings = {"lr": 0.0, "encoder_lr": None, "clip": None, "freeze": 0,
        ...             "schedule": "step", "step_epochs": 1, "step_factor": 0.5}
        >>> faults(method, settings)
        ['lr is 0.0, it must be above 0 and finite']
    """
    said = []
    for name in ("lr", "encoder_lr", "clip"):
        if settings[name] is not None and not 0 < settings[name] < math.inf:
            said.append(f"{name} is {settings[name]}, it must be above 0 and finite")
    if settings["schedule"] not in (accepted := get_args(Schedule)):
        said.append(f"schedule {settings['schedule']!r} is not known; {nearest(settings['schedule'], accepted)}")
    if settings["step_epochs"] < 1:
        said.append(f"step_epochs is {settings['step_epochs']}, at least 1 is needed")
    if not 0 < settings["step_factor"] <= 1:
        said.append(f"step_factor is {settings['step_factor']}, it must be above 0 and at most 1")
    if settings["freeze"] < 0:
        said.append(f"freeze is {settings['freeze']}, at least 0 is needed")
    if settings["freeze"] > 0 and not own(method):
        said.append(
            f"freeze is {settings['freeze']}, but a {type(method).__name__} has no weights besides its encoder's: "
            "nothing would learn; leave it out"
        )
    return said
