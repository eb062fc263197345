"""Triplets from expert features: of two rows, the one with the nearer features should have the nearer embedding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.encoders.interface import Encoder, check_encoder
from eventvec.methods import expert_columns
from eventvec.methods.declarations import suggests
from eventvec.options import above_zero, at_least
from eventvec.schema import Schema, check_schema
from eventvec.sequences import Sequences


@suggests(lambda x: {"encoder": {"name": "tcn"}})
class ExpertTriplets(nn.Module):
    """The triplet loss with the order that expert features give, a baseline of `ExpCLR`.

    For each row of a batch, `count` pairs of other rows are drawn; the row whose features are nearer is the positive:
    ``max(0, D_ap - D_an + m)`` with Euclidean distances between embeddings. Pairs at equal or unknown distances do not
    count.

    Relations: `ExpCLR` uses how far features are apart, and not only which are nearer.

    Args:
        encoder: Encoder that is trained, `encoder(x) -> (n, dim)`.
        schema: Has the scales of the features.
        features: Names of numeric, vector or categorical columns of the static table, `--static`; categories enter
            distances as in `ExpCLR`.
        margin: m, above 0.
        count: Pairs for each row, at least 1.

    Raises:
        ConfigError: If a feature cannot be used, or a number is out of range.

    Example:
        >>> import eventvec as ev
        >>> schema = ev.Schema("id", "t", "integer", static=(ev.schema.Numeric("speed"),))
        >>> method = ExpertTriplets(ev.encoders.GRU(ev.encoders.EventEncoder(schema), dim=4), schema, ["speed"])
        >>> speed = {"speed": torch.arange(3.0)}
        >>> x = Sequences({"gap": torch.ones(6)}, torch.arange(3) * 2, torch.full((3,), 2), speed)
        >>> method.loss(x, torch.Generator().manual_seed(0)).item() > 0
        True
    """

    def __init__(
        self, encoder: Encoder, schema: Schema, features: Sequence[str], margin: float = 1.0, count: int = 16
    ) -> None:
        super().__init__()
        above_zero("margin", margin)
        at_least("count", count, 1)
        check_encoder(encoder)
        check_schema(schema)
        self.encoder, self.schema, self.features = encoder, schema, tuple(features)
        self.margin, self.count, self.fields = margin, count, expert_columns.feature_fields(schema, features)
        self.entries = expert_columns.feature_entries(self.fields)

    @property
    def static_columns(self) -> tuple[str, ...]:
        """The features."""
        return self.features

    def prepare(self, x: Sequences) -> None:
        """Refuse rows to train on in which no feature has two values."""
        expert_columns.check_differences(x, self.fields)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean loss of the triplets of a batch that count."""
        similarity = losses.feature_similarity(expert_columns.expert_features(batch, self.fields), entries=self.entries)
        z = self.encoder(batch)
        distance = losses.squared_distances(z).clamp(min=1e-12).sqrt()
        n = len(batch)
        one, other = (torch.randint(n, (n, self.count), generator=rng, device=batch.device) for _ in range(2))
        nearer = similarity.gather(1, one) - similarity.gather(1, other)
        violation = (distance.gather(1, one) - distance.gather(1, other)) * nearer.nan_to_num(0.0).sign() + self.margin
        counted = (nearer.nan_to_num(0.0) != 0).float()
        return (violation.clamp(min=0) * counted).sum() / counted.sum().clamp(min=1)

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least one event and a feature."""
        return expert_columns.has_feature(x, self.fields) & (x.lengths > 0)
