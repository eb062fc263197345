"""Whether the prediction of a targeted method uses x*: its loss with the true x*, and with x* permuted among rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from eventvec.encoders.at_places import targets_of
from eventvec.encoders.heads import PlainHead
from eventvec.encoders.interface import Encoder, capabilities, evaluating
from eventvec.encoders.points import TIME, PointEncoder, earliest, points_of
from eventvec.errors import ConfigError, DataError
from eventvec.methods.declarations import usable_rows
from eventvec.sequences import Sequences
from eventvec.views import Process, ShuffledParts, hold_out

BATCH, BATCHES = 64, 20
PARTS = ("encoder", "views", "targets", "temperature", "loss_of_targets")
"""What `Targeted` has. From Python 3.12 on, `isinstance` of a protocol does not find the submodules of a module."""
LITTLE = 0.05
"""The share of the range between floor and chance below which a difference is called small."""


class Targeted(Protocol):
    """A method whose loss tells the observation at x* from those of other rows, by cosines over a temperature."""

    views: ShuffledParts | Process
    temperature: float
    targets: int

    @property
    def encoder(self) -> Encoder:
        """The encoder of points."""

    def loss_of_targets(self, context: Sequences, encoded: Tensor | None = None, key: Tensor | None = None) -> Tensor:
        """Return the mean loss of rows from `hold_out`; `encoded` is that of `context_at`, `key` that of `observed`."""


@dataclass(frozen=True)
class CovariateUse:
    """The loss of a targeted method with the true x* and with the x* of other rows; `str` says what follows.

    Args:
        loss: The mean loss with the true x*.
        permuted: The mean loss when each row is predicted at the x* of another row.
        floor: The smallest loss that is possible for cosines at the temperature, see `contrastive_floor`.
        chance: The loss of a prediction that knows nothing, log B for B targets.
        plain_head: Whether the method has a `PlainHead`, which may be the cause.

    Example:
        >>> print(CovariateUse(loss=2.686, permuted=2.691, floor=2.23, chance=4.16, plain_head=True))
        the prediction hardly depends on x*: the loss is 2.69, and 2.69 if x* is permuted among rows (floor 2.23, chance
        4.16); train longer, or take target_head = { name = "gated_head" }
    """

    loss: float
    permuted: float
    floor: float
    chance: float
    plain_head: bool = False

    @property
    def share(self) -> float:
        """The rise of the loss by the permutation, as a share of the range between floor and chance."""
        return (self.permuted - self.loss) / (self.chance - self.floor)

    def __str__(self) -> str:
        numbers = (
            f"the loss is {self.loss:.2f}, and {self.permuted:.2f} if x* is permuted among rows "
            f"(floor {self.floor:.2f}, chance {self.chance:.2f})"
        )
        if self.chance - self.loss < LITTLE * (self.chance - self.floor):
            return f"the prediction has learned little: {numbers}; train longer"
        if self.share < LITTLE:
            other_head = ', or take target_head = { name = "gated_head" }' if self.plain_head else ""
            return f"the prediction hardly depends on x*: {numbers}; train longer{other_head}"
        return f"the prediction uses x*: {numbers}"


@torch.no_grad()
def covariate_use(method: Targeted, x: Sequences, rng: torch.Generator) -> CovariateUse:
    """Return whether the prediction of a targeted method uses x*.

    A targeted method can stop at a loss that knows the realisation and ignores x*, because the targets of other rows
    differ from a row's own at any x*. Permuting x* among rows shows it: if the loss stays, x* is not used.

    Args:
        method: A method such as `TargetedCReSP`. Its mode is restored afterwards.
        x: Rows that it was not trained on; 20 batches of 64, or of all if there are fewer, are drawn from them.
        rng: Draws views and the rows of each batch.

    Raises:
        ConfigError: If the method is not targeted, or has another loss, as neural processes have.
        DataError: If fewer than two rows are usable.

    Example:
        >>> from eventvec.encoders import Numbers, PointEncoder, SetEncoder
        >>> from eventvec.methods import TargetedCReSP
        >>> method = TargetedCReSP(SetEncoder(PointEncoder(Numbers(1, width=8)), dim=16))
        >>> x = Sequences({"x": torch.rand(320), "y": torch.rand(320)}, 5 * torch.arange(64), torch.full((64,), 5))
        >>> use = covariate_use(method, x, torch.Generator().manual_seed(0))
        >>> round(use.floor, 2), round(use.chance, 2)
        (2.23, 4.16)
    """
    if not (isinstance(method, nn.Module) and all(hasattr(method, name) for name in PARTS)):
        raise ConfigError(
            f"method must predict at x* and be trained by a contrastive loss, got {type(method).__name__}; accepted: "
            "TargetedCReSP, MetaCDE"
        )
    rows = usable_rows(method, x).nonzero().squeeze(1)
    if len(rows) < 2:
        raise DataError(f"at least 2 rows must be usable to permute x* among them, got {len(rows)} of {len(x):,}")
    size, losses = min(BATCH, len(rows)), []
    with evaluating(method):
        for _ in range(BATCHES):
            batch = rows[torch.randperm(len(rows), generator=rng, device=x.device)[:size]]
            context = hold_out(method.views(x[batch], rng)[0], method.targets)
            other = permuted(context, points_of(method.encoder), method.targets)
            encoded = method.encoder(context) if capabilities(method.encoder).at is None else None
            key = observed(method.encoder, context)  # no y* is moved
            losses.append([float(method.loss_of_targets(targets, encoded, key)) for targets in (context, other)])
    loss, elsewhere = (sum(values) / len(losses) for values in zip(*losses, strict=True))
    plain = isinstance(vars(method).get("target_head"), PlainHead)
    queries = size * method.targets
    return CovariateUse(loss, elsewhere, contrastive_floor(queries, method.temperature), math.log(queries), plain)


def observed(encoder: Encoder, context: Sequences) -> Tensor:
    """Return `(targets, observation_dim)` g_obs(y*), the representation of each target of rows from `hold_out`."""
    points = points_of(encoder)
    return points.g_obs(targets_of(points, context), "*")


def permuted(context: Sequences, points: PointEncoder, count: int) -> Sequences:
    """Return rows from `hold_out`, in random order, whose targets have the covariates of the row before.

    Times are those since the earliest event of the context, because another row may lie years before.
    """
    targets = targets_of(points, context)
    targets = targets.take(targets.flat(), targets.lengths)
    moved = {name: targets.values(name).roll(count, 0) for name in points.covariates if name != TIME}
    if TIME in points.covariates:
        first = earliest(context)[targets.rows()]
        moved[TIME] = (targets.values(TIME) - first).roll(count, 0) + first
    static = {name: values for name, values in context.static.items() if name not in ("x*", "y*")}
    return replace(context, static={**static, "targets": replace(targets, columns={**targets.columns, **moved})})


def contrastive_floor(rows: int, temperature: float) -> float:
    """Return the smallest InfoNCE of cosines for B rows: ``log(1 + (B - 1)·exp(-(1 + 1/(B - 1)) / τ))``.

    A prediction then equals its target, and the B targets are the corners of a regular simplex, with cosines -1/(B -
    1). It needs B - 1 dimensions; a batch whose targets resemble one another has a higher one.
    """
    others = rows - 1
    return math.log1p(others * math.exp(-(1 + 1 / others) / temperature))
