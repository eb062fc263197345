"""Untargeted CReSP: contrastive representations of stochastic processes (Mathieu et al. 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.encoders.heads import projection_head
from eventvec.encoders.interface import Encoder
from eventvec.encoders.sets import SetEncoder
from eventvec.errors import ConfigError
from eventvec.methods.declarations import suggests
from eventvec.options import above_zero
from eventvec.sequences import Sequences
from eventvec.views import Process, ShuffledParts


@suggests(lambda x: {"encoder": {"name": "set"}})
class CReSP(nn.Module):
    """Untargeted CReSP: views of one realisation agree, views of different realisations do not (Equation 6).

    Relations: `TargetedCReSP` predicts the observation at a given x*. With a `SetEncoder` without layers this is FCLR.

    Args:
        encoder: Encoder that is trained, in the paper a `SetEncoder`.
        views: At least two views per row: random halves of its events, or draws from a process.
        temperature: τ of the cosine similarity, above 0.
        projection: Size of the space in which views are compared.

    Raises:
        ConfigError: If there are fewer than two views per row, or a number is out of range.

    Example:
        >>> from eventvec.encoders.points import PointEncoder
        >>> method = CReSP(SetEncoder(PointEncoder(), dim=16))
        >>> x = Sequences({"x": torch.rand(6), "y": torch.rand(6)}, torch.tensor([0, 3]), torch.tensor([3, 3]))
        >>> method.loss(x, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    compares_rows = True

    def __init__(
        self,
        encoder: Encoder,
        views: ShuffledParts | Process = ShuffledParts(2),  # noqa: B008 (frozen)
        temperature: float = 0.5,
        projection: int = 128,
    ) -> None:
        super().__init__()
        if views.count < 2:
            raise ConfigError(f"count of views must be at least 2 to compare views of a row, got {views.count}")
        above_zero("temperature", temperature)
        self.encoder, self.views, self.temperature, self.projection = encoder, views, temperature, projection
        self.project = projection_head(encoder.dim, projection)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean loss over pairs of views of one row."""
        views, source = self.views(batch, rng)  # the context, split: Section 3.1
        z = self.project(self.encoder(views)).float()
        return losses.nt_xent(z, source, temperature=self.temperature)

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows from which the views can be drawn."""
        return self.views.usable(x)


@suggests(lambda x: {"encoder": {"name": "set", "layers": 0}})
def fclr(
    encoder: Encoder,
    views: ShuffledParts | Process = ShuffledParts(2),  # noqa: B008 (frozen)
    temperature: float = 0.5,
    projection: int = 128,
) -> CReSP:
    """Return FCLR (Gondal et al. 2021) in this framework: untargeted CReSP with a set encoder without attention.

    Raises:
        ConfigError: If the encoder is not a `SetEncoder` without attention.

    Example:
        >>> from eventvec.encoders.points import PointEncoder
        >>> fclr(SetEncoder(PointEncoder(), dim=16, layers=0)).encoder.layers
        0
    """
    if not isinstance(encoder, SetEncoder) or encoder.layers:
        layers = f" with layers = {encoder.layers}" if isinstance(encoder, SetEncoder) else ""
        raise ConfigError(
            f"encoder of FCLR must be a set encoder without attention, got {type(encoder).__name__}{layers}; "
            'write [encoder] name = "set", layers = 0'
        )
    return CReSP(encoder, views, temperature, projection)
