"""Supervised learning from a static column, and so fine-tuning, where the encoder is trained already."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.sets import complete
from eventvec.methods.labels import Predictor, label_field, labelled
from eventvec.schema import FIRST, Categorical, Numeric, Schema, static_values
from eventvec.sequences import Sequences
from eventvec.views import Altered, RandomSlices, of_every_row


class Supervised(nn.Module):
    """An encoder with a linear layer on its embedding, trained on labels (Babaev et al. 2022, Sections 4.1 and 4.2).

    Cross-entropy of a softmax over the classes of a categorical column; of a numeric one, the squared error of the
    value that the schema standardises. With an encoder that another method has trained, this is fine-tuning; the data
    must be coded by the schema that it was trained with.

    Relations: `ExpCLR` too learns from static columns, but only which rows are alike.

    Args:
        encoder: the network that is trained, `encoder(x) -> (n, dim)`.
        schema: has the label's classes, or its mean and deviation.
        label: name of a categorical or numeric static column. Rows of which it is missing, or a class that the schema
            does not know, are not usable; rows without events are.
        views: random slices, one at least, that stand for a row in training, each with its label, `Altered` if events
            are left out too: the public code trains so. Whole rows if not given, and in validation and prediction.
        batch_norm: normalise the embedding before the linear layer, as the public code does when it fine-tunes; the
            paper has the linear layer alone.

    Raises:
        ConfigError: there is no such column, of another kind, or with fewer than two classes; or views are no slices.

    Example:
        >>> from eventvec import GRU, EventEncoder
        >>> churn = Categorical("churn", ("no", "yes"))
        >>> schema = Schema("id", "t", "integer", None, (), (Numeric("v"),), Numeric("gap"), static=(churn,))
        >>> method = Supervised(GRU(EventEncoder(schema, time=()), dim=8), schema, "churn")
        >>> labels = {"churn": torch.tensor([2, 3, 0])}
        >>> x = Sequences({"v": torch.randn(6)}, torch.tensor([0, 2, 4]), torch.tensor([2, 2, 2]), labels)
        >>> method.usable(x).tolist(), method.predictor(x).shape
        ([True, True, False], torch.Size([3, 2]))
    """

    def __init__(
        self,
        encoder: nn.Module,
        schema: Schema,
        label: str,
        views: RandomSlices | Altered | None = None,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        self.target = target = label_field(schema, label)
        outputs = 1 if isinstance(target, Numeric) else len(target.values)
        self.encoder, self.schema, self.label, self.batch_norm = encoder, schema, label, batch_norm
        self.views = views and of_every_row(views)
        linear = nn.Linear(dim := int(encoder.dim), outputs)  # type: ignore[arg-type]
        self.head = nn.Sequential(nn.BatchNorm1d(dim), linear) if batch_norm else linear

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean error of one batch of labelled rows, in training of their views."""
        if self.views is not None and self.training:
            batch, _ = self.views(batch, rng)  # a view keeps its row's static values, the label with them
        out = self.head(self.encoder(batch)).float()
        label = cast(Tensor, static_values(batch, self.label))
        if isinstance(self.target, Categorical):
            return F.cross_entropy(out, label.long() - FIRST)
        return F.mse_loss(out.squeeze(1), self.target.scale(label))

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with a label.

        Raises:
            DataError: the rows have no such column, or several with a label have all the same.
        """
        return labelled(data, self.target) & complete(self.encoder, data)

    @property
    def predictor(self) -> nn.Module:
        """An encoder of rows, labelled or not: logits `(n, classes)` as in `target.values`, or `(n, 1)` in its unit."""
        return Predictor(self.encoder, self.head, self.target).train(self.training)
