"""Supervised learning from a static column; with an encoder that is trained already, this is fine-tuning."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.dataset import static_values
from eventvec.encoders.interface import Encoder, check_encoder
from eventvec.errors import ConfigError, DataError
from eventvec.schema import FIRST, Categorical, Numeric, Schema, check_schema
from eventvec.sequences import Sequences
from eventvec.views import Altered, RandomSlices, of_every_row


class Supervised(nn.Module):
    """An encoder with a linear layer on its embedding, trained on labels (Babaev et al. 2022, Sections 4.1 and 4.2).

    The loss is the cross-entropy of a softmax over the classes of a categorical column, or the squared error of a
    numeric column, as the schema standardises it. If another method has trained the encoder, this is fine-tuning, and
    the data must be coded by the schema that the encoder was trained with.

    Relations: `ExpCLR` learns from static columns too, but only how similar rows are.

    Args:
        encoder: Encoder that is trained, `encoder(x) -> (n, dim)`.
        schema: Has the label's classes, or its mean and standard deviation.
        label: Name of a categorical or numeric static column. Rows whose label is missing, or a class that is not in
            the schema, are not usable; rows without events are.
        views: Random slices, at least one, that replace a row in training, each with the row's label; `Altered` leaves
            out events too. As in the public code. By default, rows are whole, as always in validation and prediction.
        batch_norm: Whether to normalise the embedding before the linear layer, as the public code does in fine-tuning;
            the paper has only the linear layer.

    Raises:
        ConfigError: If there is no such column, it is of another kind or has fewer than two classes, or the views are
            not slices.

    Example:
        >>> from eventvec.encoders import EventEncoder, GRU
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
        encoder: Encoder,
        schema: Schema,
        label: str,
        views: RandomSlices | Altered | None = None,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        check_encoder(encoder)
        check_schema(schema)
        self.target = target = label_field(schema, label)
        outputs = 1 if isinstance(target, Numeric) else len(target.values)
        self.encoder, self.schema, self.label, self.batch_norm = encoder, schema, label, batch_norm
        self.views = views and of_every_row(views)
        linear = nn.Linear(encoder.dim, outputs)
        self.head = nn.Sequential(nn.BatchNorm1d(encoder.dim), linear) if batch_norm else linear

    @property
    def static_columns(self) -> tuple[str, ...]:
        """The label."""
        return (self.label,)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean error of a batch of labelled rows, or in training of their views."""
        if self.views is not None and self.training:
            batch, _ = self.views(batch, rng)  # a view keeps the static values of its row, so the label too
        out = self.head(self.encoder(batch)).float()
        label = cast(Tensor, static_values(batch, self.label))
        if isinstance(self.target, Categorical):
            return F.cross_entropy(out, label.long() - FIRST)
        return F.mse_loss(out.squeeze(1), self.target.scale(label))

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with a label.

        Raises:
            DataError: If the rows have no such column, or all rows that have a label have the same.
        """
        return labelled(x, self.target)

    @property
    def predictor(self) -> Predictor:
        """An encoder of rows with or without a label, see `Predictor`; classes are in the order of `target.values`."""
        return Predictor(self.encoder, self.head, self.target).train(self.training)


class Predictor(nn.Module):
    """An encoder and a head as one encoder, which returns logits, or for a numeric label a value in the label's unit.

    Args:
        encoder: `encoder(x) -> (n, encoder.dim)`.
        head: `(n, encoder.dim) -> (n, classes)`, or `(n, 1)` for a numeric label.
        target: The label.

    Example:
        >>> import torch
        >>> method = Predictor(nn.Identity(), nn.Identity(), Numeric("age", log=False, mean=50.0, std=10.0))
        >>> method(torch.tensor([[-1.0], [0.5]])).tolist(), method.dim
        ([[40.0], [55.0]], 1)
    """

    def __init__(self, encoder: Encoder, head: nn.Module, target: Categorical | Numeric) -> None:
        super().__init__()
        self.encoder, self.head, self.target = encoder, head, target
        self.dim = 1 if isinstance(target, Numeric) else len(target.values)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`."""
        out: Tensor = self.head(self.encoder(x))
        return out if isinstance(self.target, Categorical) else self.target.unscale(out)


def label_field(schema: Schema, label: str) -> Categorical | Numeric:
    """Return the schema's field of a static column that is to be learned.

    Raises:
        ConfigError: If there is no such column, it is of another kind, or it has fewer than two classes.

    Example:
        >>> schema = Schema("id", "t", "integer", static=(Numeric("age"),))
        >>> label_field(schema, "age").name
        'age'
    """
    target = schema.static_field(label)
    if not isinstance(target, Categorical | Numeric):
        kind = type(target).__name__.lower()
        raise ConfigError(f"label must be a categorical or numeric column, got {label!r}, which is {kind}")
    if isinstance(target, Categorical) and len(target.values) < 2:
        raise ConfigError(f"label {label!r} must have at least 2 classes in the schema, got {len(target.values)}")
    return target


def labelled(x: Sequences, target: Categorical | Numeric) -> Tensor:
    """Return `(n,)` bool: rows with a label.

    Raises:
        DataError: If the rows have no such column, or at least two rows have a label and all labels are the same.

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
            f"static column {target.name!r} has a single value in all {len(values):,} rows with a label; "
            "at least 2 different values are needed to learn from them"
        )
    return known
