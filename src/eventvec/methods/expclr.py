"""ExpCLR: rows lie as far apart as what experts measure of them says (Nonnenmacher et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.dataset import static_values
from eventvec.encoders.sets import complete
from eventvec.errors import ConfigError
from eventvec.schema import Numeric, Schema, Vector
from eventvec.sequences import Sequences


class ExpCLR(nn.Module):
    """Contrastive learning with expert features: distances of embeddings follow those of features, no augmentation.

    Features are static columns, standardised by the schema, whose scales come from the training data. Distances are
    divided by the mean of their row as in Kim et al. 2021, and Δ is chosen so that the distances asked for are 1 on
    average too: with a fixed Δ, few or correlated features would push all rows to one distance.

    Relations: `Supervised` learns one static column as a label; here features only say what is alike.

    Args:
        encoder: the network that is trained, `encoder(x) -> (n, dim)`; whole rows, one view each.
        schema: says how the features are scaled.
        features: names of numeric or vector static columns; rows that lack a value are not usable.
        delta: distance Δ of the least similar pair, or `auto`, ``1 / mean(1 - s)`` of each batch.
        temperature: τ; small values weigh the worst pairs more, infinity all alike (the paper's quadratic loss).
        normalize: `row_mean` or `none`, see `losses.quadratic`.

    Raises:
        ConfigError: a feature is not a number or vector, none is named, or a number is out of range.

    Example:
        >>> from eventvec import EventEncoder, GRU
        >>> schema = Schema("id", "t", "integer", numeric=(Numeric("v"),), static=(Numeric("speed"),))
        >>> method = ExpCLR(GRU(EventEncoder(schema, time=()), dim=4), schema, ["speed"])
        >>> speed = torch.tensor([1.0, 2.0, float("nan")])
        >>> x = Sequences({"v": torch.randn(6)}, torch.tensor([0, 2, 4]), torch.tensor([2, 2, 2]), {"speed": speed})
        >>> method.usable(x).tolist(), method.loss(x[:2], torch.Generator()).item() >= 0
        ([True, True, False], True)
    """

    def __init__(
        self,
        encoder: nn.Module,
        schema: Schema,
        features: Sequence[str],
        delta: float | Literal["auto"] = "auto",
        temperature: float = 1.0,
        normalize: losses.Normalization = "row_mean",
    ) -> None:
        super().__init__()
        if not features or not temperature > 0 or (delta != "auto" and not 0 < delta < float("inf")):
            said = f"features {list(features)}, delta {delta!r}, temperature {temperature}"
            raise ConfigError(f"{said}: name at least one feature; the numbers must be above 0, delta finite")
        if normalize not in get_args(losses.Normalization):
            raise ConfigError(f"normalize is {normalize!r}; accepted: row_mean, none")
        self.encoder, self.schema, self.features = encoder, schema, tuple(features)
        self.delta, self.temperature, self.normalize = delta, temperature, normalize
        self.fields = [_field(schema, name) for name in features]

    def expert(self, x: Sequences) -> Tensor:
        """Return `(n, d)` the standardised features of each row, NaN where missing."""
        columns = [(field, cast(Tensor, static_values(x, field.name))) for field in self.fields]
        return torch.column_stack([field.scale(values) for field, values in columns])

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the ExpCLR loss over all pairs of a batch; nothing is drawn."""
        s = losses.feature_similarity(self.expert(batch))
        z = self.encoder(batch)
        return losses.expclr(z, s, delta=self.delta, temperature=self.temperature, normalize=self.normalize)

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least one event and all features."""
        return self.expert(data).isfinite().all(1) & (data.lengths > 0) & complete(self.encoder, data)


def _field(schema: Schema, name: str) -> Numeric | Vector:
    field = schema.static_field(name)
    if not isinstance(field, Numeric | Vector):
        raise ConfigError(f"static column {name!r} is of kind {type(field).__name__.lower()}; features are numbers")
    return field
