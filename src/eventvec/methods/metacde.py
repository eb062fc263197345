"""MetaCDE: a kernel mean of the observations' representations predicts that of the observation at x*."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.encoders.at_places import KernelMean, context_at
from eventvec.encoders.heads import projection_head
from eventvec.encoders.interface import Encoder
from eventvec.encoders.points import points_of
from eventvec.errors import ConfigError
from eventvec.methods.cresp_targeted import POINTS, observed, one_view, rows_with, usable_targets
from eventvec.methods.declarations import Suggestion
from eventvec.methods.permuted_covariates import covariate_use
from eventvec.sequences import Sequences
from eventvec.views import Process, ShuffledParts, hold_out


class MetaCDE(nn.Module):
    """A context's kernel mean at x* predicts the representation of y* among those of other rows (Ton et al. 2021).

    The conditional mean embedding ``ĉ = Σ_i w_i g_obs(y_i)`` of Ton et al., trained with the loss of targeted CReSP
    (Mathieu et al. 2021, Equation 5) as in the public code of the latter, and not with the noise-contrastive loss and
    the fake samples of the former. There is no network on pairs and no target head. The kernel is trained too.

    Relations: `TargetedCReSP` has a network in place of the kernel, and a representation of the context.

    Args:
        encoder: A `KernelMean` over a `PointEncoder`, whose observation net also represents y*.
        views: As for `TargetedCReSP`.
        temperature: τ of the cosine similarity, above 0.
        projection: Size of the space in which predictions and targets are compared.
        targets: As for `TargetedCReSP`.

    Raises:
        ConfigError: If the encoder is not a `KernelMean`, a row has more than one view, or a number is out of range.

    Example:
        >>> from eventvec.encoders.points import Numbers, PointEncoder
        >>> method = MetaCDE(KernelMean(PointEncoder(Numbers(1, width=8))))
        >>> x = Sequences({"x": torch.rand(6), "y": torch.rand(6)}, torch.tensor([0, 3]), torch.tensor([3, 3]))
        >>> method.loss(x, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    card = (
        "The embedding is the mean of the observations' representations; the method itself represents no context. The\n"
        "prediction at an x*: `eventvec predict … --at`, or `eventvec.predict(run, events, at=places)`."
    )
    """Paragraph for the model card of a run."""

    def __init__(
        self,
        encoder: Encoder,
        views: ShuffledParts | Process = ShuffledParts(1),  # noqa: B008 (frozen)
        temperature: float = 0.5,
        projection: int = 128,
        targets: int = 1,
    ) -> None:
        super().__init__()
        if not isinstance(encoder, KernelMean):
            raise ConfigError(
                f"encoder of MetaCDE must be a kernel mean, got {type(encoder).__name__}; "
                'write [encoder] name = "kernel_mean"'
            )
        if not 0 < temperature < float("inf"):
            raise ConfigError(f"temperature must be above 0 and finite, got {temperature}")
        self.encoder, self.views, self.targets = encoder, one_view(views, targets), targets
        self.temperature, self.projection = temperature, projection
        self.project = projection_head(encoder.dim, projection)

    @property
    def predictor(self) -> KernelPrediction:
        """An encoder of rows from `hold_out` that returns ĉ for each target."""
        return KernelPrediction(self.encoder).train(self.training)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean loss over the targets of all rows."""
        return self.loss_of_targets(hold_out(self.views(batch, rng)[0], self.targets))  # (x*, y*), the other events

    def loss_of_targets(self, context: Sequences) -> Tensor:
        """Return the mean loss over the targets of rows from `hold_out`."""
        query, key = self.predictor(context), observed(self.encoder, context)  # ĉ, g_obs(y*)
        return losses.info_nce(self.project(query).float(), self.project(key).float(), temperature=self.temperature)

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows from which a context and a target can be drawn."""
        return usable_targets(points_of(self.encoder), rows_with(self.views, self.targets, x), x)

    def remark(self, x: Sequences, rng: torch.Generator) -> str:
        """Return a sentence on whether the prediction uses x*, see `covariate_use`."""
        return str(covariate_use(self, x, rng))

    @staticmethod
    def suggested(x: Sequences) -> Suggestion:
        """Return a kernel mean over points, with a network of one hidden layer for observations."""
        return {"encoder": {"name": "kernel_mean", "events": POINTS}}


class KernelPrediction(nn.Module):
    """The kernel mean at each target of rows from `hold_out`, as an encoder."""

    def __init__(self, encoder: KernelMean) -> None:
        super().__init__()
        self.encoder, self.dim = encoder, encoder.dim

    def forward(self, x: Sequences) -> Tensor:
        """Return `(targets, dim)`, one prediction per target, in row order."""
        return context_at(self.encoder, x)[0].float()
