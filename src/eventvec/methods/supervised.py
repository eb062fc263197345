"""Supervised learning from a static column, and so fine-tuning, where the encoder is trained already."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.dataset import static_values
from eventvec.encoders.sets import complete
from eventvec.errors import ConfigError, DataError
from eventvec.schema import FIRST, Categorical, Numeric, Schema
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
        >>> from eventvec import EventEncoder, GRU
        >>> churn = Categorical("churn", ("no", "yes"))
        >>> schema = Schema("id", "t", "integer", numeric=(Numeric("v"),), static=(churn,))
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


def label_field(schema: Schema, label: str) -> Categorical | Numeric:
    """Return what the schema says of a static column that is to be learned.

    Raises:
        ConfigError: there is no such column, it is of another kind, or it has fewer than two classes.

    Example:
        >>> schema = Schema("id", "t", "integer", static=(Numeric("age"),))
        >>> label_field(schema, "age").name
        'age'
    """
    target = schema.static_field(label)
    if not isinstance(target, Categorical | Numeric):
        raise ConfigError(f"static column {label!r} is of kind {type(target).__name__.lower()}, which is no label")
    if isinstance(target, Categorical) and len(target.values) < 2:
        count = len(target.values)
        raise ConfigError(f"static column {label!r} has {count} classes in the schema; at least 2 are needed")
    return target


def labelled(x: Sequences, target: Categorical | Numeric) -> Tensor:
    """Return `(n,)` bool: rows that have a label.

    Raises:
        DataError: the rows have no such column, or those that have a label, two at least, have all the same.

    Example:
        >>> import torch
        >>> labels = {"churn": torch.tensor([2, 3, 0])}  # 0 is missing, 1 unknown to the schema
        >>> x = Sequences({}, torch.zeros(3).long(), torch.zeros(3).long(), labels)
        >>> labelled(x, Categorical("churn", ("no", "yes")))
        tensor([ True,  True, False])
    """
    label = cast(Tensor, static_values(x, target.name))
    known = label >= FIRST if isinstance(target, Categorical) else ~label.isnan()
    values = label[known]
    if len(values) > 1 and bool((values == values[0]).all()):
        raise DataError(
            f"static column {target.name!r} has one and the same value in all {len(values):,} rows that have any; "
            "at least 2 different ones are needed to learn what tells them apart"
        )
    return known


class Predictor(nn.Module):
    """An encoder and a head as one encoder: logits, or of a numeric label, a number in the label's unit.

    Args:
        encoder: `encoder(x) -> (n, encoder.dim)`.
        head: `(n, encoder.dim) -> (n, classes)`, or `(n, 1)` of a numeric label.
        target: the label.

    Example:
        >>> import torch
        >>> method = Predictor(nn.Identity(), nn.Identity(), Numeric("age", log=False, mean=50.0, std=10.0))
        >>> method(torch.tensor([[-1.0], [0.5]])).tolist(), method.dim
        ([[40.0], [55.0]], 1)
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, target: Categorical | Numeric) -> None:
        super().__init__()
        self.encoder, self.head, self.target = encoder, head, target
        self.dim = 1 if isinstance(target, Numeric) else len(target.values)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`."""
        out: Tensor = self.head(self.encoder(x))
        return out if isinstance(self.target, Categorical) else self.target.unscale(out)
