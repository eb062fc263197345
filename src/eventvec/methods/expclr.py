"""ExpCLR: distances between rows follow the differences of their expert features (Nonnenmacher et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.dataset import static_values
from eventvec.encoders.interface import Encoder, check_encoder
from eventvec.errors import ConfigError
from eventvec.methods.declarations import Suggestion
from eventvec.schema import Numeric, Schema, Vector, check_schema
from eventvec.sequences import Sequences


class ExpCLR(nn.Module):
    """Contrastive learning with expert features and without augmentation.

    Features are static columns, which the schema standardises with the scales of the training data. Distances are
    divided by the mean of their row, as in Kim et al. 2021, and Δ is chosen so that the mean of the target distances is
    1 too: with a fixed Δ, few or correlated features would push all rows to one distance.

    Relations: `Supervised` learns a static column as a label; here features only define how similar rows are.

    Args:
        encoder: Encoder that is trained, `encoder(x) -> (n, dim)`; it reads whole rows, one view each.
        schema: Has the scales of the features.
        features: Names of numeric or vector static columns; rows that lack a value are not usable.
        delta: Distance Δ of the least similar pair, or `auto`, ``1 / mean(1 - s)`` of each batch.
        temperature: τ; the lower it is, the more the worst pairs weigh. Infinity weighs all pairs equally (the paper's
            quadratic loss).
        normalize: `row_mean` or `none`, see `losses.quadratic`.

    Raises:
        ConfigError: If there are no features, a feature is not a number or vector, or a number is out of range.

    Example:
        >>> from eventvec.encoders import EventEncoder, GRU
        >>> schema = Schema("id", "t", "integer", numeric=(Numeric("v"),), static=(Numeric("speed"),))
        >>> method = ExpCLR(GRU(EventEncoder(schema, time=()), dim=4), schema, ["speed"])
        >>> speed = torch.tensor([1.0, 2.0, float("nan")])
        >>> x = Sequences({"v": torch.randn(6)}, torch.tensor([0, 2, 4]), torch.tensor([2, 2, 2]), {"speed": speed})
        >>> method.usable(x).tolist(), method.loss(x[:2], torch.Generator()).item() >= 0
        ([True, True, False], True)
    """

    def __init__(
        self,
        encoder: Encoder,
        schema: Schema,
        features: Sequence[str],
        delta: float | Literal["auto"] = "auto",
        temperature: float = 1.0,
        normalize: losses.Normalization = "row_mean",
    ) -> None:
        super().__init__()
        check_encoder(encoder)
        check_schema(schema)
        if not features:
            raise ConfigError("features must name at least one static column, got none")
        if not temperature > 0:
            raise ConfigError(f"temperature must be above 0, got {temperature}")
        if delta != "auto" and not 0 < delta < float("inf"):
            raise ConfigError(f"delta must be above 0 and finite, or 'auto', got {delta!r}")
        if normalize not in get_args(losses.Normalization):
            raise ConfigError(f"normalize must be 'row_mean' or 'none', got {normalize!r}")
        self.encoder, self.schema, self.features = encoder, schema, tuple(features)
        self.delta, self.temperature, self.normalize = delta, temperature, normalize
        self.fields = [_feature_field(schema, name) for name in features]

    @property
    def static_columns(self) -> tuple[str, ...]:
        """The features."""
        return self.features

    def expert(self, x: Sequences) -> Tensor:
        """Return `(n, d)` standardised features of each row, NaN where missing."""
        columns = [(field, cast(Tensor, static_values(x, field.name))) for field in self.fields]
        return torch.column_stack([field.scale(values) for field, values in columns])

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the ExpCLR loss over all pairs of a batch; nothing is drawn."""
        s = losses.feature_similarity(self.expert(batch))
        z = self.encoder(batch)
        return losses.expclr_loss(z, s, delta=self.delta, temperature=self.temperature, normalize=self.normalize)

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least one event and all features."""
        return self.expert(x).isfinite().all(1) & (x.lengths > 0)

    @staticmethod
    def suggested(x: Sequences) -> Suggestion:
        """Return a temporal convolution, the kind of encoder that the paper uses."""
        return {"encoder": {"name": "tcn"}}


def _feature_field(schema: Schema, name: str) -> Numeric | Vector:
    field = schema.static_field(name)
    if not isinstance(field, Numeric | Vector):
        kind = type(field).__name__.lower()
        raise ConfigError(f"features must be numeric or vector columns, got {name!r}, which is {kind}")
    return field
