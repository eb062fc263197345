"""Untargeted CReSP: contrastive representations of stochastic processes (Mathieu et al. 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.encoders.heads import projection_head
from eventvec.encoders.sets import SetEncoder, complete
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.views import ShuffledParts
from eventvec.views.processes import Sinusoids, Snooker


class CReSP(nn.Module):
    """Untargeted: looks at one realisation agree, looks at different ones do not (Equation 6).

    Relations: `TargetedCReSP` asks what is seen at x*. Over a `SetEncoder` without layers this is FCLR.

    Args:
        encoder: the network that is trained, a `SetEncoder` in the paper.
        views: at least two views per row: random halves of its events, or of a process.
        temperature: of the cosine similarity, τ, above 0.
        projection: size of the space in which views are compared.

    Raises:
        ConfigError: there are fewer than two views per row, or a number is out of range.

    Example:
        >>> from eventvec.encoders.points import Pairs
        >>> from eventvec.encoders.sets import SetEncoder
        >>> from eventvec.views.processes import sinusoids
        >>> method = CReSP(SetEncoder(Pairs(), dim=16), Sinusoids(count=2, length=5))
        >>> method.loss(sinusoids(4).sequences, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    def __init__(
        self,
        encoder: nn.Module,
        views: ShuffledParts | Sinusoids | Snooker = ShuffledParts(2),  # noqa: B008 (frozen)
        temperature: float = 0.5,
        projection: int = 128,
    ) -> None:
        super().__init__()
        if views.count < 2:
            raise ConfigError(f"views has count {views.count}; at least 2 views of a row are needed to compare them")
        if not 0 < temperature < float("inf"):
            raise ConfigError(f"temperature is {temperature}; it must be above 0 and finite")
        self.encoder, self.views, self.temperature, self.projection = encoder, views, temperature, projection
        self.project = projection_head(int(encoder.dim), projection)  # type: ignore[arg-type]

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean loss over pairs of views of one row."""
        views, source = self.views(batch, rng)  # the context, split: Section 3.1
        z = self.project(self.encoder(views)).float()
        return losses.nt_xent(z, source, temperature=self.temperature)

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows of which the views can be drawn."""
        usable = self.views.usable(data)
        return usable & complete(self.encoder, data) if isinstance(self.views, ShuffledParts) else usable


def fclr(
    encoder: nn.Module,
    views: ShuffledParts | Sinusoids | Snooker = ShuffledParts(2),  # noqa: B008 (frozen)
    temperature: float = 0.5,
    projection: int = 128,
) -> CReSP:
    """Return FCLR (Gondal et al. 2021) in this framework: untargeted CReSP over a set encoder without attention.

    Raises:
        ConfigError: the encoder is not a `SetEncoder` without attention.

    Example:
        >>> from eventvec.encoders.points import Pairs
        >>> from eventvec.encoders.sets import SetEncoder
        >>> fclr(SetEncoder(Pairs(), dim=16, layers=0)).encoder.layers
        0
    """
    if not isinstance(encoder, SetEncoder) or encoder.layers:
        found = f"{type(encoder).__name__} with layers = {getattr(encoder, 'layers', None)}"
        raise ConfigError(f'FCLR is a mean without attention, not a {found}; write [encoder] name = "set", layers = 0')
    return CReSP(encoder, views, temperature, projection)
