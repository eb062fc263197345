"""Targeted CReSP: predict the representation of an observation at a given x* (Mathieu et al. 2021, Section 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.encoders.at_places import context_at
from eventvec.encoders.heads import GatedHead, Head, projection_head
from eventvec.encoders.interface import Encoder
from eventvec.encoders.points import PointEncoder, points_of
from eventvec.errors import ConfigError, DataError, shown
from eventvec.methods.declarations import suggests
from eventvec.methods.permuted_covariates import covariate_use, observed
from eventvec.options import above_zero, at_least
from eventvec.sequences import Sequences
from eventvec.views import Process, ShuffledParts, hold_out

POINTS = {"name": "pairs", "observation": {"name": "numbers", "width": 64}}
"""The table of an event encoder that suits targeted methods: observations have a network of one hidden layer."""


class TargetedMethod(nn.Module, ABC):
    """A method that holds out the first events of each view and predicts them from the others, at their x*."""

    def __init__(self, encoder: Encoder, views: ShuffledParts | Process, targets: int) -> None:
        super().__init__()
        if views.count != 1:
            raise ConfigError(f"count of views must be 1, because a row has one context, got {views.count}")
        at_least("targets", targets, 1)
        length = views.longest if isinstance(views, ShuffledParts) else views.length
        if length is not None and length <= targets:
            raise ConfigError(f"targets must be below the length of views, {length}, got {targets}")
        self.encoder, self.views, self.targets = encoder, views, targets

    @property
    @abstractmethod
    def predictor(self) -> nn.Module:
        """An encoder of rows from `hold_out` that returns a prediction for each target."""

    @abstractmethod
    def loss_of_targets(self, context: Sequences) -> Tensor:
        """Return the mean loss over the targets of rows from `hold_out`."""

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean loss over the targets of all rows."""
        return self.loss_of_targets(hold_out(self.views(batch, rng)[0], self.targets))  # (x*, y*), the other events

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows from which a context and a target can be drawn."""
        rows = self.views.usable(x)
        if isinstance(self.views, ShuffledParts):
            rows = rows & (x.lengths > self.targets)
        return varied_covariates(points_of(self.encoder), rows, x)


class TargetedContrast(TargetedMethod):
    """A targeted method that finds the representation of y* among those of the batch, behind a projection head."""

    compares_rows = True
    project: nn.Module

    def __init__(
        self, encoder: Encoder, views: ShuffledParts | Process, temperature: float, projection: int, targets: int
    ) -> None:
        above_zero("temperature", temperature)
        super().__init__(encoder, views, targets)
        self.temperature, self.projection = temperature, projection

    def loss_of_targets(self, context: Sequences, encoded: Tensor | None = None, key: Tensor | None = None) -> Tensor:
        """Return the mean loss over the targets of rows from `hold_out`.

        Args:
            context: The rows.
            encoded: That of `context_at`.
            key: What `observed` returns for the rows, if it is known.
        """
        query = self.predictor(context, encoded)  # ĉ
        key = observed(self.encoder, context) if key is None else key  # g_obs(y*)
        return losses.info_nce(self.project(query).float(), self.project(key).float(), temperature=self.temperature)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows from which a context and a target can be drawn."""
        if points_of(self.encoder).observation_dim < 2:
            raise ConfigError(
                "observation must be represented by at least 2 numbers for a targeted method, got 1, whose cosines are "
                'all 1 or -1; write encoder.events.observation = { name = "numbers", width = 64 }'
            )
        return super().usable(x)

    def remark(self, x: Sequences, rng: torch.Generator) -> str:
        """Return a sentence on whether the prediction uses x*, see `covariate_use`."""
        return str(covariate_use(self, x, rng))


@suggests(lambda x: {"encoder": {"name": "set", "events": POINTS}})
class TargetedCReSP(TargetedContrast):
    """A context and x* predict the representation of the observation y* among those of other rows (Equation 5).

    `encoder` returns the context representation c, `predictor` the prediction ĉ at each target of rows from `hold_out`.
    As in the public code, the target's representation depends on y* only, and prediction and target share one
    projection head.

    Relations: `CReSP` has a single representation of a realisation, which depends on no x*.

    Args:
        encoder: A `SetEncoder` over a `PointEncoder`, whose observation net also represents y*.
        views: One view per row, whose first events are targets: the row shuffled, or a draw from a process.
        temperature: τ of the cosine similarity, above 0.
        projection: Size of the space in which predictions and targets are compared.
        target_head: The network h that predicts from c and x*. With a `PlainHead`, training may stop at a loss that
            knows the realisation and ignores x*; `covariate_use` measures that. `SigmoidHead` is the gated one of the
            public code.
        targets: Events of each row that are held out and predicted from the others, at least 1. Each is one query; the
            other targets of its row are negatives too, because a prediction should tell the places of a row apart.

    Raises:
        ConfigError: If the encoder has no `PointEncoder`, a row has more than one view, or a number is out of range.

    Example:
        >>> from eventvec.encoders import Numbers, SetEncoder
        >>> method = TargetedCReSP(SetEncoder(PointEncoder(Numbers(1, width=8)), dim=16))
        >>> x = Sequences({"x": torch.rand(6), "y": torch.rand(6)}, torch.tensor([0, 3]), torch.tensor([3, 3]))
        >>> method.loss(x, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    card = (
        "The embedding represents the context, which is all events of a row, and depends on no x*. The prediction\n"
        "at an x* is another vector: `eventvec predict … --at`, or `eventvec.predict(run, events, at=places)`."
    )
    """Paragraph for the model card of a run."""

    def __init__(
        self,
        encoder: Encoder,
        views: ShuffledParts | Process = ShuffledParts(1),  # noqa: B008 (frozen)
        temperature: float = 0.5,
        projection: int = 128,
        target_head: Head = GatedHead(),  # noqa: B008 (frozen)
        targets: int = 1,
    ) -> None:
        points = points_of(encoder)
        super().__init__(encoder, views, temperature, projection, targets)
        self.target_head, size = target_head, points.observation_dim
        self.head = target_head.build(encoder.dim, points.covariate_dim, size)
        self.project = projection_head(size, projection)

    @property
    def predictor(self) -> Prediction:
        """An encoder of rows from `hold_out` that returns ĉ = h(c, x*) for each target."""
        return Prediction(self.encoder, self.head, points_of(self.encoder).observation_dim).train(self.training)


class Prediction(nn.Module):
    """The prediction `h(c, x*)` at each target of rows from `hold_out`, as an encoder."""

    def __init__(self, encoder: Encoder, head: Callable[[Tensor, Tensor], Tensor], dim: int) -> None:
        super().__init__()
        self.encoder, self.head, self.dim = encoder, head, dim

    def forward(self, x: Sequences, encoded: Tensor | None = None) -> Tensor:
        """Return `(targets, dim)`, one prediction per target, in row order; `encoded` is that of `context_at`."""
        return self.head(*context_at(self.encoder, x, encoded)).float()


def varied_covariates(points: PointEncoder, rows: Tensor, x: Sequences) -> Tensor:
    """Return `(n,)` bool: `rows` of x, after a check that a covariate varies; those of a process have no events yet."""
    used, several = x[rows & (x.lengths > 0)], len(points.covariates) > 1
    if len(used) < 2:
        return rows
    for name in points.covariates:
        columns = (points.column(name, used[block]) for block in used.blocks())
        first = next(columns)
        if any(bool((values != first[0]).any()) for values in (first, *columns)):
            return rows
    raise DataError(
        f"covariate{'s' * several} {', '.join(map(shown, points.covariates))} {'have' if several else 'has'} a "
        f"single value in all events of {len(used):,} rows, so a prediction cannot depend on it; name a column "
        "that varies, or take an untargeted method such as cresp_untargeted"
    )
