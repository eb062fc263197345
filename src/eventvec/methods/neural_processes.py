"""Conditional neural processes, which predict the distribution of an observation at a given x*."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from eventvec.encoders.at_places import CrossAttention, context_at, targets_of
from eventvec.encoders.heads import Head, PlainHead
from eventvec.encoders.interface import Encoder
from eventvec.encoders.points import PointEncoder, points_of
from eventvec.encoders.sets import SetEncoder
from eventvec.errors import ConfigError, shown
from eventvec.losses import Gaussian, gaussian_nll
from eventvec.methods.cresp_targeted import POINTS, TargetedMethod
from eventvec.methods.declarations import suggests
from eventvec.sequences import Sequences
from eventvec.views import Process, ShuffledParts


class CNP(TargetedMethod):
    """A context and x* predict the distribution of the observation y* (Garnelo et al. 2018).

    ``-log p(y*|c, x*)`` with a Gaussian p whose mean and deviation a decoder computes from c and x* (Mathieu et al.
    2021, Equation 2), in the reading of their public code: one target per row unless `targets` says otherwise, and the
    mean over the numbers of y*. The names `cnp`, `acnp` and `acnp_cross` build this class with other encoders.

    Relations: `TargetedCReSP` predicts a representation of y* and needs no likelihood.

    Args:
        encoder: An encoder over a `PointEncoder`: `SetEncoder` or `CrossAttention`.
        views: One view per row, whose first events are targets: the row shuffled, or a draw from a process.
        decoder: The network from c and x* to the mean and the raw deviation: `PlainHead`, as in the public code.
        likelihood: The Gaussian with its smallest deviation.
        targets: Events of each row that are held out and predicted from the others, at least 1.

    Raises:
        ConfigError: If the encoder has no `PointEncoder`, an observation is categorical, a row has more than one view,
            or the decoder does not return observations of the size that the encoder reads.

    Example:
        >>> x = Sequences({"x": torch.rand(6), "y": torch.rand(6)}, torch.tensor([0, 3]), torch.tensor([3, 3]))
        >>> CNP(SetEncoder(PointEncoder(), dim=16)).loss(x, torch.Generator().manual_seed(0)).shape
        torch.Size([])
    """

    card = (
        "The embedding represents the context, which is all events of a row, and depends on no x*. The mean and the\n"
        "standard deviation of the observation at an x*: `eventvec predict … --at`, or\n"
        "`eventvec.predict(run, events, at=places)`."
    )
    """Paragraph for the model card of a run."""

    def __init__(
        self,
        encoder: Encoder,
        views: ShuffledParts | Process = ShuffledParts(1),  # noqa: B008 (frozen)
        decoder: Head = PlainHead(),  # noqa: B008 (frozen)
        likelihood: Gaussian = Gaussian(),  # noqa: B008 (frozen)
        targets: int = 1,
    ) -> None:
        points = points_of(encoder)
        super().__init__(encoder, views, targets)
        self.decoder, self.likelihood = decoder, likelihood
        self.net = decoder.build(encoder.dim, points.covariate_dim, 2 * _numbers(points))

    @property
    def predictor(self) -> Distribution:
        """An encoder of rows from `hold_out` that returns the mean and the deviation of y* for each target."""
        return Distribution(self.encoder, self.net, self.likelihood).train(self.training)

    def loss_of_targets(self, context: Sequences) -> Tensor:
        """Return the mean loss over the targets of rows from `hold_out`."""
        mean, deviation = self.predictor(context).chunk(2, 1)
        points = points_of(self.encoder)
        y = points.numbers(points.observations, targets_of(points, context), star="*")
        return gaussian_nll(mean, deviation, y.float().reshape(mean.shape))


class Distribution(nn.Module):
    """The mean and the standard deviation at each target of rows from `hold_out`, as an encoder."""

    def __init__(self, encoder: Encoder, net: nn.Module, likelihood: Gaussian) -> None:
        super().__init__()
        self.encoder, self.net, self.likelihood = encoder, net, likelihood
        self.dim = 2 * _numbers(points_of(encoder))

    def forward(self, x: Sequences) -> Tensor:
        """Return `(targets, 2 · size)`, the means and then the standard deviations, in row order."""
        mean, raw = self.net(*context_at(self.encoder, x)).float().chunk(2, 1)
        return torch.cat([mean, self.likelihood.deviation(raw)], 1)


@suggests(lambda x: {"encoder": {"name": "set", "layers": 0, "events": POINTS}})
def cnp(
    encoder: Encoder,
    views: ShuffledParts | Process = ShuffledParts(1),  # noqa: B008 (frozen)
    decoder: Head = PlainHead(),  # noqa: B008 (frozen)
    likelihood: Gaussian = Gaussian(),  # noqa: B008 (frozen)
    targets: int = 1,
) -> CNP:
    """Return a conditional neural process (Garnelo et al. 2018): `CNP` with the mean over points, without attention.

    Raises:
        ConfigError: If the encoder is not a `SetEncoder` without attention.

    Example:
        >>> cnp(SetEncoder(PointEncoder(), dim=16, layers=0)).encoder.layers
        0
    """
    return CNP(_check(encoder, isinstance(encoder, SetEncoder) and not encoder.layers, '"set", layers = 0'), views,
               decoder, likelihood, targets)  # fmt: skip


@suggests(lambda x: {"encoder": {"name": "set", "events": POINTS}})
def acnp(
    encoder: Encoder,
    views: ShuffledParts | Process = ShuffledParts(1),  # noqa: B008 (frozen)
    decoder: Head = PlainHead(),  # noqa: B008 (frozen)
    likelihood: Gaussian = Gaussian(),  # noqa: B008 (frozen)
    targets: int = 1,
) -> CNP:
    """Return the ACNP of Mathieu et al. 2021: `CNP` with self-attention over the points, and their mean.

    Relations: `acnp_cross` has the cross-attention of Kim et al. 2019, which Mathieu et al. cite for this name, but
    their public code does not have.

    Raises:
        ConfigError: If the encoder is not a `SetEncoder` with attention.

    Example:
        >>> acnp(SetEncoder(PointEncoder(), dim=16)).encoder.layers
        2
    """
    return CNP(_check(encoder, isinstance(encoder, SetEncoder) and encoder.layers > 0, '"set", layers = 2'), views,
               decoder, likelihood, targets)  # fmt: skip


@suggests(lambda x: {"encoder": {"name": "cross_attention", "events": POINTS}})
def acnp_cross(
    encoder: Encoder,
    views: ShuffledParts | Process = ShuffledParts(1),  # noqa: B008 (frozen)
    decoder: Head = PlainHead(),  # noqa: B008 (frozen)
    likelihood: Gaussian = Gaussian(),  # noqa: B008 (frozen)
    targets: int = 1,
) -> CNP:
    """Return an attentive conditional neural process (Kim et al. 2019): `CNP` in which x* attends to the points.

    Raises:
        ConfigError: If the encoder is not a `CrossAttention`.

    Example:
        >>> acnp_cross(CrossAttention(PointEncoder(), dim=16)).encoder.layers
        0
    """
    return CNP(_check(encoder, isinstance(encoder, CrossAttention), '"cross_attention"'), views, decoder,
               likelihood, targets)  # fmt: skip


def _numbers(points: PointEncoder) -> int:
    """Return how many numbers an observation consists of."""
    if points.observation is None or len(points.observation_codes):
        codes = [name for name in points.observations if name in points.codes]
        raise ConfigError(
            f"observation {shown(codes[0])} is categorical, but a neural process predicts numbers; name numeric "
            "columns, or take a contrastive method such as cresp"
        )
    return math.prod(points.observation.shape)


def _check(encoder: Encoder, fits: bool, name: str) -> Encoder:
    if fits:
        return encoder
    layers = f" with layers = {encoder.layers}" if isinstance(encoder, SetEncoder) else ""
    raise ConfigError(f"encoder must be [encoder] name = {name} for this method, got {type(encoder).__name__}{layers}")
