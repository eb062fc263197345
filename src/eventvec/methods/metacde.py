"""MetaCDE: a kernel mean of the observations' representations predicts that of the observation at x*."""

from __future__ import annotations

from eventvec.encoders.at_places import KernelMean
from eventvec.encoders.heads import projection_head
from eventvec.encoders.interface import Encoder
from eventvec.errors import ConfigError
from eventvec.methods.cresp_targeted import POINTS, Prediction, TargetedContrast
from eventvec.methods.declarations import suggests
from eventvec.views import Process, ShuffledParts


@suggests(lambda x: {"encoder": {"name": "kernel_mean", "events": POINTS}})
class MetaCDE(TargetedContrast):
    """A context's kernel mean at x* predicts the representation of y* among those of other rows (Ton et al. 2021).

    The conditional mean embedding ``ĉ = Σ_i w_i g_obs(y_i)`` of Ton et al., trained with the loss of targeted CReSP
    (Mathieu et al. 2021, Equation 5) as in the public code of the latter, and not with the noise-contrastive loss and
    the fake samples of the former, which `experiments/cresp/noise_contrastive.py` has. There is no network on pairs and
    no target head. The kernel is trained too. `KernelMean(softmax=False)` has the weights of Ton et al.

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
        >>> import torch
        >>> from eventvec.encoders.points import Numbers, PointEncoder
        >>> from eventvec.sequences import Sequences
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
        if not isinstance(encoder, KernelMean):
            raise ConfigError(
                f"encoder of MetaCDE must be a kernel mean, got {type(encoder).__name__}; "
                'write [encoder] name = "kernel_mean"'
            )
        super().__init__(encoder, views, temperature, projection, targets)
        self.project = projection_head(encoder.dim, projection)

    @property
    def predictor(self) -> Prediction:
        """An encoder of rows from `hold_out` that returns ĉ, the kernel mean at x*, for each target."""
        return Prediction(self.encoder, lambda mean, covariate: mean, self.encoder.dim).train(self.training)
