"""Small networks on top of an encoder: perceptrons, projection heads, and heads that read a context and x*."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from eventvec.encoders.normalisation import BatchNorm1d
from eventvec.encoders.sinusoidal import Harmonics, check_harmonics
from eventvec.options import at_least


def mlp(*sizes: int) -> nn.Sequential:
    """Return a multi-layer perceptron: linear layers of these sizes, with ReLU between them."""
    modules: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        modules += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def projection_head(dim: int, out: int) -> nn.Sequential:
    """Return the projection head of a contrastive loss: linear, batch norm, ReLU, linear, batch norm.

    As in the public code of Mathieu et al. 2021, there are no biases, and the last normalisation has no weights. Unlike
    there, the statistics are those of the batch in evaluation mode too: queries and keys have different statistics, and
    with running ones, which mix them, a trained model's validation loss is at chance level.
    """
    at_least("projection", out, 1)
    first, second = nn.Linear(dim, dim, bias=False), nn.Linear(dim, out, bias=False)
    norms = nn.BatchNorm1d(dim, track_running_stats=False), nn.BatchNorm1d(out, affine=False, track_running_stats=False)
    return nn.Sequential(first, norms[0], nn.ReLU(), second, norms[1])


def expander(dim: int, out: int) -> nn.Sequential:
    """Return the expander of VICReg: linear, batch norm, ReLU, linear, with batch statistics in evaluation mode too.

    Relations: `projection_head` ends in a normalisation, which would already fix the variance that the VICReg loss
    controls.
    """
    norm = nn.BatchNorm1d(out, track_running_stats=False)
    return nn.Sequential(nn.Linear(dim, out, bias=False), norm, nn.ReLU(), nn.Linear(out, out, bias=False))


class Head(ABC):
    """A description of a network that reads a context and a place x*; `build` returns the network."""

    @abstractmethod
    def build(self, context: int, covariate: int, out: int) -> nn.Module:
        """Return a network from `c (n, context)` and `x* (n, covariate)` to `(n, out)`."""


@dataclass(frozen=True)
class PlainHead(Head):
    """A head that reads `[c, g_cov(x*)]` with a multi-layer perceptron of three hidden layers.

    Mathieu et al. 2021, Section 3.2, and the decoder of the conditional neural process in the public code. As the
    target head of a contrastive loss it may learn to ignore x*; `GatedHead` is the default there.

    Example:
        >>> import torch
        >>> PlainHead().build(context=8, covariate=1, out=4)(torch.rand(5, 8), torch.rand(5, 1)).shape
        torch.Size([5, 4])
    """

    def build(self, context: int, covariate: int, out: int) -> nn.Module:
        """Return a network from `c (n, context)` and `x* (n, covariate)` to `(n, out)`."""
        return _SideBySide(*mlp(context + covariate, context, context, context, out))


@dataclass(frozen=True)
class GatedHead(Head):
    """A head in which harmonics f of x* scale and shift the context c: ``MLP(c ⊙ (W f + v) + U f + u)``.

    Mathieu et al. 2021, Section 3.2, say that a gated architecture works well; `SigmoidHead` is that of the public
    code. Here the gate depends on x* only and is not bounded. The product makes the prediction depend on x* from the
    first step; a plain perceptron learned to ignore x* where the context alone lowers a contrastive loss.

    Args:
        count: Harmonics of each number of g_cov(x*).
        period: The longest period, in the unit of g_cov(x*). The default suits covariates of standard deviation one and
            ranges up to about ten.

    Raises:
        ConfigError: If a number is not positive.

    Example:
        >>> import torch
        >>> GatedHead().build(context=8, covariate=1, out=4)(torch.rand(5, 8), torch.rand(5, 1)).shape
        torch.Size([5, 4])
    """

    count: int = 16
    period: float = 20.0

    def __post_init__(self) -> None:
        check_harmonics(1, self.count, self.period)

    def build(self, context: int, covariate: int, out: int) -> nn.Module:
        """Return a network from `c (n, context)` and `x* (n, covariate)` to `(n, out)`."""
        return _Gated(Harmonics(covariate, self.count, self.period), context, out)


@dataclass(frozen=True)
class SigmoidHead(Head):
    """A head that gates itself: ``sigmoid(V h + v) ⊙ (W h + w)``, where h is the batch norm of `[c, g_cov(x*)]`.

    The gated target head of the public code of Mathieu et al. 2021, which it has for ShapeNet; its other experiments
    have the perceptron of `PlainHead`.

    Relations: in `GatedHead`, only x* decides the gate, and a perceptron follows.

    Example:
        >>> import torch
        >>> SigmoidHead().build(context=8, covariate=1, out=4)(torch.rand(5, 8), torch.rand(5, 1)).shape
        torch.Size([5, 4])
    """

    def build(self, context: int, covariate: int, out: int) -> nn.Module:
        """Return a network from `c (n, context)` and `x* (n, covariate)` to `(n, out)`."""
        return _SideBySide(OrderedDict(net=SigmoidGate(context + covariate, out)))


class SigmoidGate(nn.Module):
    """`h = BN(values)`, then `sigmoid(V h + v) ⊙ (W h + w)`, as in the public code of Mathieu et al. 2021."""

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__()
        self.norm, self.value, self.gate = BatchNorm1d(inputs), nn.Linear(inputs, dim), nn.Linear(inputs, dim)

    def forward(self, values: Tensor) -> Tensor:
        """Return `(n, dim)` from values `(n, inputs)`."""
        h = self.norm(values)
        out: Tensor = self.gate(h).sigmoid() * self.value(h)
        return out


class _SideBySide(nn.Sequential):
    """Layers on a context and a place side by side."""

    def forward(self, context: Tensor, place: Tensor) -> Tensor:  # type: ignore[override]
        out: Tensor = super().forward(torch.cat([context, place], 1))  # type: ignore[no-untyped-call]
        return out


class _Gated(nn.Module):
    """A multi-layer perceptron on a context that features of a place scale and shift."""

    def __init__(self, features: Harmonics, context: int, out: int) -> None:
        super().__init__()
        self.features = features
        self.scale, self.shift = nn.Linear(features.dim, context), nn.Linear(features.dim, context)
        self.net = mlp(context, context, context, out)

    def forward(self, context: Tensor, place: Tensor) -> Tensor:
        f = self.features(place)
        out: Tensor = self.net(context * self.scale(f) + self.shift(f))
        return out
