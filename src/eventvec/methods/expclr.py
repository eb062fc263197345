"""ExpCLR: distances between rows follow the differences of their expert features (Nonnenmacher et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, cast, get_args

import torch
from torch import Tensor, nn

from eventvec import losses
from eventvec.dataset import static_values
from eventvec.encoders.interface import Encoder, check_encoder
from eventvec.errors import ConfigError
from eventvec.methods import expert_columns
from eventvec.methods.declarations import suggests
from eventvec.methods.explained import explained_features
from eventvec.methods.label_losses import has_label, static_column
from eventvec.schema import Categorical, Schema, check_schema
from eventvec.sequences import Sequences, stack
from eventvec.views.draws import integers

Largest: TypeAlias = Literal["batch", "data"]


@suggests(lambda x: {"encoder": {"name": "tcn"}})  # the kind of encoder that the paper uses
class ExpCLR(nn.Module):
    """Contrastive learning with expert features and without augmentation.

    Features are static columns, which the schema standardises with the scales of the training data; they are needed in
    training only. Distances are divided by the mean of their row, as in Kim et al. 2021, and Δ is chosen so that the
    mean of the target distances is 1 too: with a fixed Δ, few or correlated features would push all rows to one
    distance.

    A feature may be a category. The paper's distances are between vectors of numbers, and it does not say how
    categories enter them. In our reading a category is its indicators, one for each value of the schema, times 1/√2:
    two different categories are at distance 1, as far apart as two numbers that differ by a standard deviation. An
    unknown category counts as missing. With labels as the only feature, two rows have the similarity 1 if their labels
    are equal and 0 if not, the paper's rule for labels: this is the fully supervised form.

    With `label`, two rows that have labels are similar if these are equal, and all other pairs as their features are;
    the paper's poster has this semi-supervised form but not its formula, and this is our reading. If few rows have
    labels, hardly a pair of a batch has two, so `added` rows with labels are drawn anew and join each batch in
    training. Rows that lack some features are compared by those that both have, see `losses.feature_similarity`.

    Relations: `Supervised` decodes static columns as labels; here features only define how similar rows are.

    Args:
        encoder: Encoder that is trained, `encoder(x) -> (n, dim)`; it reads whole rows, one view each.
        schema: Has the scales of the features.
        features: Names of numeric, vector or categorical columns of the static table, `--static`.
        delta: Distance Δ of the least similar pair, or `auto`, ``1 / mean(1 - s)`` of each batch.
        temperature: τ; the lower it is, the more the worst pairs weigh. Infinity weighs all pairs equally (the paper's
            quadratic loss).
        normalize: `row_mean` or `none`, see `losses.quadratic`.
        largest: Over which rows the similarity takes the largest distance between features: those of the `batch`, or
            all `data` to train on (at most 8,192 of them).
        label: Name of a categorical static column with labels of some rows.
        added: How many rows with labels join a batch in training, for each of its rows, at least 0.

    Raises:
        ConfigError: If a column does not fit its role, or a number is out of range.

    Example:
        >>> import eventvec as ev
        >>> schema = ev.Schema("id", "t", "integer", static=(ev.schema.Numeric("speed"),))
        >>> method = ExpCLR(ev.encoders.GRU(ev.encoders.EventEncoder(schema), dim=4), schema, ["speed"])
        >>> speed = {"speed": torch.tensor([1.0, 2.0, float("nan")])}
        >>> x = Sequences({"gap": torch.randn(6)}, torch.tensor([0, 2, 4]), torch.tensor([2, 2, 2]), speed)
        >>> method.usable(x).tolist()
        [True, True, False]
    """

    compares_rows = True

    def __init__(
        self,
        encoder: Encoder,
        schema: Schema,
        features: Sequence[str],
        delta: float | Literal["auto"] = "auto",
        temperature: float = 1.0,
        normalize: losses.Normalization = "row_mean",
        largest: Largest = "batch",
        label: str | None = None,
        added: float = 0.0,
    ) -> None:
        super().__init__()
        check_encoder(encoder)
        check_schema(schema)
        if not temperature > 0:
            raise ConfigError(f"temperature must be above 0, got {temperature}")
        if delta != "auto" and not 0 < delta < float("inf"):
            raise ConfigError(f"delta must be above 0 and finite, or 'auto', got {delta!r}")
        if normalize not in get_args(losses.Normalization):
            raise ConfigError(f"normalize must be 'row_mean' or 'none', got {normalize!r}")
        if largest not in get_args(Largest):
            raise ConfigError(f"largest must be 'batch' or 'data', got {largest!r}")
        if not 0 <= added < float("inf"):
            raise ConfigError(f"added must be at least 0 and finite, got {added}")
        if added and label is None:
            raise ConfigError(f"added must be 0 without a label, got {added}; name the column of labels in `label`")
        self.encoder, self.schema, self.features = encoder, schema, tuple(features)
        self.delta, self.temperature, self.normalize = delta, temperature, normalize
        self.largest, self.label, self.added = largest, label, added
        self.fields = expert_columns.feature_fields(schema, features)
        self.entries = expert_columns.feature_entries(self.fields)
        self.label_field = None if label is None else static_column(schema, "label", label, Categorical)
        self._largest_distance: float | None = None
        self._labelled: Sequences | None = None

    @property
    def static_columns(self) -> tuple[str, ...]:
        """The features, and the label if there is one."""
        return self.features if self.label is None else (*self.features, self.label)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each number that `expert` returns: a column, a column and the place in its vector, or a value."""
        return tuple(name for field in self.fields for name in expert_columns.feature_columns(field))

    def expert(self, x: Sequences) -> Tensor:
        """Return `(n, d)` standardised features of each row, and indicators of categories; NaN where missing."""
        return expert_columns.expert_features(x, self.fields)

    def prepare(self, x: Sequences) -> None:
        """Find the largest distance between features of the rows to train on, and the rows with labels, if needed."""
        if self.label_field is None:
            expert_columns.check_differences(x, self.fields)
        elif self.added:
            self._labelled = x[has_label(x, self.label_field).nonzero().squeeze(1)]
        if self.largest == "data":
            self._largest_distance = losses.largest_distance(self.expert(x), entries=self.entries)

    def similarity(self, x: Sequences) -> Tensor:
        """Return `(n, n)` similarities of rows, NaN for two rows that have neither a feature nor a label in common."""
        if self.largest == "data" and self._largest_distance is None:
            raise ConfigError("largest='data' needs the rows to train on: give them to prepare first, as fit does")
        s = losses.feature_similarity(self.expert(x), largest=self._largest_distance, entries=self.entries)
        if self.label_field is None:
            return s
        known = has_label(x, self.label_field)
        return losses.with_labels(s, cast(Tensor, static_values(x, self.label_field.name)), known)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the ExpCLR loss over all pairs of a batch, with the rows that are added in training."""
        if self.training and self._labelled is not None and len(self._labelled):
            count = round(self.added * len(batch))
            drawn = integers(torch.full((count,), len(self._labelled), device=batch.device), rng)
            batch = stack(batch, self._labelled[drawn])
        s, z = self.similarity(batch), self.encoder(batch)
        return losses.expclr_loss(z, s, delta=self.delta, temperature=self.temperature, normalize=self.normalize)

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least one event, and with a feature or a label."""
        known = expert_columns.has_feature(x, self.fields)
        if self.label_field is not None:
            known = known | has_label(x, self.label_field)
        return known & (x.lengths > 0)

    def remark(self, x: Sequences, rng: torch.Generator) -> str:
        """Return a sentence on how well the embedding predicts each feature, see `explained_features`."""
        return str(explained_features(self, x, rng))
