"""Targeted CReSP: what would this realisation show at x*? (Mathieu et al. 2021, Section 3.1.)"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.encoders.heads import mlp, projection_head
from eventvec.encoders.points import Pairs
from eventvec.encoders.sets import complete
from eventvec.errors import ConfigError, DataError
from eventvec.sequences import Sequences
from eventvec.views import ShuffledParts, hold_out
from eventvec.views.processes import Sinusoids, Snooker


class TargetedCReSP(nn.Module):
    """A context and x* predict the representation of the observation y*, among those of other rows (Equation 5).

    `encoder` gives the context representation c, `predictor` the prediction ĉ at `static["x*"]` of rows that
    `hold_out` made. As in the public code, the target's representation sees y* only, and both go through one
    projection head.

    Relations: `CReSP` has one representation of a realisation, whatever is asked of it.

    Args:
        encoder: a `SetEncoder` over `Pairs`, whose observation net also represents y*.
        views: one view per row, of which the first event is the target: the row shuffled, or a process.
        temperature: of the cosine similarity, τ, above 0.
        projection: size of the space in which predictions and targets are compared.

    Raises:
        ConfigError: the encoder is not over `Pairs`, a row has more than one view, or a number is out of range.

    Example:
        >>> from eventvec.encoders.points import Numbers
        >>> from eventvec.encoders.sets import SetEncoder
        >>> from eventvec.views.processes import sinusoids
        >>> method = TargetedCReSP(SetEncoder(Pairs(Numbers(1, width=8)), dim=16), Sinusoids(count=1, length=10))
        >>> method.loss(sinusoids(4).sequences, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    def __init__(
        self,
        encoder: nn.Module,
        views: ShuffledParts | Sinusoids | Snooker = ShuffledParts(1),  # noqa: B008 (frozen)
        temperature: float = 0.5,
        projection: int = 128,
    ) -> None:
        super().__init__()
        pairs = getattr(encoder, "events", None)
        if not isinstance(pairs, Pairs):
            raise ConfigError("a targeted method needs an encoder of pairs: name = 'set', events = { name = 'pairs' }")
        if views.count != 1:
            raise ConfigError(f"views has count {views.count}; the target is held out of 1 view per row")
        if not 0 < temperature < float("inf"):
            raise ConfigError(f"temperature is {temperature}; it must be above 0 and finite")
        self.encoder, self.views, self.temperature, self.projection = encoder, views, temperature, projection
        dim, size = int(encoder.dim), int(pairs.observation.dim)  # type: ignore[arg-type]
        self.head = mlp(dim + int(pairs.covariate.dim), dim, dim, dim, size)  # type: ignore[arg-type]
        self.project = projection_head(size, projection)

    @property
    def predictor(self) -> Prediction:
        """The encoder of rows with `static["x*"]` that gives ĉ = h(c, x*)."""
        size = self.head[-1].out_features
        return Prediction(self.encoder, self.head, int(size)).train(self.training)  # type: ignore[arg-type]

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean loss of one target per row."""
        context = hold_out(self.views(batch, rng)[0])  # (x*, y*) and the rest
        pairs = self.encoder.events
        assert isinstance(pairs, Pairs)
        query, key = self.predictor(context), pairs.observation(context.static["y*"])  # ĉ and g_obs(y*)
        return losses.info_nce(self.project(query).float(), self.project(key).float(), temperature=self.temperature)

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which a context and a target can be drawn."""
        usable = self.views.usable(data)
        return usable & complete(self.encoder, data) if isinstance(self.views, ShuffledParts) else usable


class Prediction(nn.Module):
    """What a set predicts at `static["x*"]`: `h(c, x*)`, an encoder of rows that `hold_out` made.

    Args:
        encoder: a `SetEncoder` over `Pairs`, which gives the context representation c and the covariate net.
        head: the target head h, `(n, encoder.dim + covariate.dim) -> (n, dim)`.
        dim: size of what the head gives.

    Example:
        >>> from eventvec.encoders.sets import SetEncoder
        >>> encoder, head = SetEncoder(Pairs(), dim=8), mlp(9, 4)
        >>> x = Sequences({"x": torch.rand(3), "y": torch.rand(3)}, torch.tensor([0]), torch.tensor([3]),
        ...               {"x*": torch.tensor([0.5])})
        >>> Prediction(encoder, head, dim=4)(x).shape
        torch.Size([1, 4])
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, dim: int) -> None:
        super().__init__()
        self.encoder, self.head, self.dim = encoder, head, dim

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one prediction per row.

        Raises:
            DataError: the rows do not say where to predict.
        """
        pairs = self.encoder.events
        assert isinstance(pairs, Pairs)
        if "x*" not in x.static:
            raise DataError("a prediction is made at static['x*'], which the rows lack; make it with views.hold_out(x)")
        out: Tensor = self.head(torch.cat([self.encoder(x), pairs.covariate(x.static["x*"])], 1))
        return out.float()
