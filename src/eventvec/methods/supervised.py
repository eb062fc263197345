"""Supervised learning from static columns; with an encoder that is trained already, this is fine-tuning."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from eventvec.dataset import static_values
from eventvec.encoders.interface import Encoder, check_encoder, embed_beginnings, rows_read
from eventvec.encoders.static_inputs import StaticInputs
from eventvec.errors import ConfigError, DataError
from eventvec.methods import label_losses
from eventvec.methods.declarations import StateEncoder, usable_rows
from eventvec.methods.label_losses import ClassWeights, Label, has_label, outputs_of, row_losses, row_weights
from eventvec.methods.next_event import NextEvent
from eventvec.options import one_of
from eventvec.schema import FIRST, Categorical, Numeric, Schema, check_schema
from eventvec.sequences import Sequences, histories
from eventvec.views import Altered, RandomSlices, of_every_row
from eventvec.views.sizes import validation_share

AUXILIARY_WEIGHTS = (0.0, 0.1, 1.0)
"""The weights of the auxiliary loss that are tried."""


class Supervised(nn.Module):
    """An encoder with a linear layer on its embedding, trained on labels (Babaev et al. 2022, Sections 4.1 and 4.2).

    The loss of a row is the cross-entropy of a softmax over the classes of a categorical column, or the squared error
    of a numeric column, as the schema standardises it. The loss is the weighted mean Σ v_i l_i / Σ v_i over rows with a
    label, where v_i is the row's weight times that of its class; both are 1 by default. With several labels it is the
    mean of their losses, each over the rows that have this label. In training, the loss of a batch of m rows is Σ v_i
    l_i / (m v̄), where v̄ is the mean of v over all rows to train on, 0 where the label is missing: dividing by the
    weights of the batch would make heavy rows count less, because they are in batches of large weight. If another
    method has trained the encoder, the data must be coded by the schema that the encoder was trained with.

    With an auxiliary loss, that of `NextEvent` on the same events and the same encoder is added in training: the mean
    over events in nats, times a weight. It keeps the encoder from learning few labels by heart. Slices of 128 events
    are read once more for it, of rows that begin alike those of the longest, so no event after the time of a label
    is read. Validation and prediction are those of the label alone. By default the weight is chosen: `fit` trains with
    each of 0, .1 and 1, from the same initial weights and in the same batches, and keeps the training with the lowest
    validation loss. That takes three trainings, which share a `time_budget`. (Karpukhin and Savchenko 2025 report that
    such a loss helps on five of five data sets.)

    Relations: `ExpCLR` learns from static columns too, but only how similar rows are.

    Args:
        encoder: Encoder that is trained, `encoder(x) -> (n, dim)`.
        schema: Has the label's classes, or its mean and standard deviation.
        label: Name of a categorical or numeric column of the static table, `--static`, or of several. Rows without any
            label, or with a class that is not in the schema, are not usable. Rows without events are.
        views: Random slices, at least one, that replace a row in training, each with the row's label; `Altered` leaves
            out events too. As in the public code. By default, rows are whole, as always in validation and prediction.
        batch_norm: Whether to normalise the embedding before the linear layer, as the public code does in fine-tuning.
        static_inputs: Names of categorical or numeric static columns that the linear layer reads beside the embedding,
            in training and in prediction; a missing value is an input too.
        class_weights: The weight of each class by its name, or in the order of the schema; or `balanced`, with which
            all classes count the same, whatever their number of rows, and which alone is accepted for several labels.
        weight: Name of a numeric static column with the weight of each row, above 0.
        label_time: The column with the time of each label in the table of static columns, see
            `tables.label_times.LabelTime`; `fit` cuts the histories of data there that are not cut yet.
        inclusive: Whether events at the very time of a label are read too.
        auxiliary: `next_event` to learn to predict the next event too; the encoder must be one that `NextEvent` takes.
        auxiliary_weight: The weight of this loss, at least 0; by default, it is chosen on validation.

    Raises:
        ConfigError: If a column does not fit its role, a weight is out of range, the views are not slices, or the
            encoder has no state after each event for the auxiliary loss.

    Example:
        >>> import eventvec as ev
        >>> schema = ev.Schema("id", "t", "integer", static=(Categorical("churn", ("no", "yes")),))
        >>> method = Supervised(ev.encoders.GRU(ev.encoders.EventEncoder(schema), dim=8), schema, "churn")
        >>> labels = {"churn": torch.tensor([2, 3, 0])}
        >>> x = Sequences({"gap": torch.randn(6)}, torch.tensor([0, 2, 4]), torch.tensor([2, 2, 2]), labels)
        >>> method.usable(x).tolist(), method.predictor(x).shape
        ([True, True, False], torch.Size([3, 2]))
    """

    def __init__(
        self,
        encoder: Encoder,
        schema: Schema,
        label: str | Sequence[str],
        views: RandomSlices | Altered | None = None,
        batch_norm: bool = False,
        static_inputs: Sequence[str] | None = None,
        class_weights: ClassWeights | None = None,
        weight: str | None = None,
        label_time: str | None = None,
        inclusive: bool = False,
        auxiliary: Literal["next_event"] | None = None,
        auxiliary_weight: float | None = None,
    ) -> None:
        super().__init__()
        check_encoder(encoder)
        check_schema(schema)
        self.label_fields = tuple(label_losses.label_field(schema, name) for name in label_losses.label_names(label))
        self.encoder, self.schema, self.batch_norm = encoder, schema, batch_norm
        self.label = label if isinstance(label, str) else tuple(label)
        self.views = views and of_every_row(views)
        self.static_inputs = label_losses.column_names("static_inputs", static_inputs) if static_inputs else None
        self.class_weights, self.weight = class_weights, weight
        self.label_time, self.inclusive = label_time, inclusive
        self.rows_begin_alike = False  # among the rows to train on, several times of an entity
        self.mean_weights: list[float] | None = None  # v̄ of each label, from the rows to train on
        self._check_roles()
        width, outputs = encoder.dim, sum(map(outputs_of, self.label_fields))
        self.inputs = StaticInputs(schema, self.static_inputs) if self.static_inputs else None
        width += self.inputs.dim if self.inputs else 0
        linear = nn.Linear(width, outputs)
        self.head = nn.Sequential(nn.BatchNorm1d(width), linear) if batch_norm else linear
        if class_weights is not None:
            given = label_losses.given_class_weights(self.label_fields, class_weights)
            for place, target in enumerate(self.label_fields):  # a name of a column may be none of a buffer
                if target.name in given:
                    self.register_buffer(f"class_weights_{place}", given[target.name])
        self.auxiliary, self.auxiliary_weight = auxiliary, auxiliary_weight
        self._check_auxiliary()
        self.next_event = None if auxiliary is None else _beside(NextEvent(cast(StateEncoder, encoder), schema))
        self._set_weight(AUXILIARY_WEIGHTS[-1] if auxiliary_weight is None else auxiliary_weight)

    def _check_roles(self) -> None:
        names = {target.name for target in self.label_fields}
        if self.weight is not None:
            label_losses.static_column(self.schema, "weight", self.weight, Numeric)
        for role, columns in (("static_inputs", self.static_inputs or ()), ("weight", (self.weight,))):
            if twice := next((name for name in columns if name in names), None):
                raise ConfigError(f"{role} names the label {twice!r}; a label cannot have another role")

    def _check_auxiliary(self) -> None:
        weight = self.auxiliary_weight
        if self.auxiliary is not None:
            one_of("auxiliary", self.auxiliary, ["next_event"])
        elif weight is not None:
            raise ConfigError('auxiliary_weight is the weight of an auxiliary loss; add auxiliary = "next_event"')
        if weight is not None and not 0 <= weight < math.inf:
            raise ConfigError(f"auxiliary_weight must be at least 0 and finite, got {weight}")

    def _set_weight(self, weight: float) -> None:
        self.weight_of_next = weight

    @property
    def trials(self) -> Mapping[str, Callable[[], None]]:
        """What sets each weight of the auxiliary loss that is tried; nothing if the weight is given."""
        if self.next_event is None or self.auxiliary_weight is not None:
            return {}
        return {f"auxiliary_weight = {weight:g}": partial(self._set_weight, weight) for weight in AUXILIARY_WEIGHTS}

    @property
    def static_columns(self) -> tuple[str, ...]:
        """The labels, the inputs and the column of weights."""
        others = (*(self.static_inputs or ()), *((self.weight,) if self.weight else ()))
        return tuple(dict.fromkeys((*(target.name for target in self.label_fields), *others)))

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the weighted mean error of a batch of labelled rows, or in training of their views.

        In training, the auxiliary loss of the rows is added, if there is one.
        """
        rows = batch
        if self.views is not None and self.training:
            batch, _ = self.views(batch, rng)  # a view keeps the static values of its row, so the label too
        batch = rows_read(self.encoder, batch)
        z = embed_beginnings(self.encoder, batch) if self.rows_begin_alike else self.encoder(batch)
        outputs = _outputs(z, self.inputs, self.head, self.label_fields, batch)
        weights = torch.stack([self.weights_for(batch, target) for target in self.label_fields])
        losses = torch.stack(
            [row_losses(target, out.float(), batch) for target, out in zip(self.label_fields, outputs, strict=True)]
        )
        totals, labels = weights.sum(1), torch.full((), len(weights), device=weights.device)
        if self.mean_weights is None:
            labels = (totals > 0).sum()
        else:
            means = torch.tensor(self.mean_weights, dtype=totals.dtype)
            totals = means.to(totals.device, non_blocking=True) * len(batch)
        loss: Tensor = ((weights * losses).sum(1) / totals.clamp(min=torch.finfo().tiny)).sum() / labels
        return loss + self._auxiliary_loss(rows, rng) if self.training else loss

    def _auxiliary_loss(self, rows: Sequences, rng: torch.Generator) -> Tensor | float:
        """Return the loss of the next event, times its weight; of rows that begin alike, the longest is read."""
        if self.next_event is None or not self.weight_of_next:
            return 0.0
        rows = rows[histories(rows)[0]] if self.rows_begin_alike else rows
        rows = rows[self.next_event.usable(rows)]
        return self.weight_of_next * self.next_event.loss(rows, rng) if len(rows) else 0.0

    forward = loss

    def weights_for(self, x: Sequences, target: Label) -> Tensor:
        """Return `(n,)` the weight of each row in the loss of a label: 0 without the label."""
        weights = row_weights(x, self.weight).where(has_label(x, target), 0.0)
        if self.class_weights is not None and isinstance(target, Categorical):
            codes = cast(Tensor, static_values(x, target.name)).long()
            weights = weights * self._of_classes(target)[codes.clamp(min=FIRST) - FIRST]
        return weights

    def prepare(self, x: Sequences) -> None:
        """Set balanced weights of classes, and the mean weight of a row, from the rows to train on.

        Of rows that are the history of an entity at several times, each history will be read once in a batch.
        """
        self.rows_begin_alike = len(histories(x)[0]) < len(x)
        if self.class_weights == label_losses.BALANCED:
            for target in self.label_fields:
                if isinstance(target, Categorical):
                    weights = label_losses.balanced_weights(x, target, row_weights(x, self.weight))
                    self._of_classes(target).copy_(weights)
        self.mean_weights = [float(self.weights_for(x, target).mean()) for target in self.label_fields]

    def _of_classes(self, target: Label) -> Tensor:
        return self.get_buffer(f"class_weights_{self.label_fields.index(target)}")

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with a label, any of several."""
        known = torch.stack([label_losses.labelled(x, target) for target in self.label_fields])
        if len(known[0]) and not bool(known.any(1).all()):
            without = self.label_fields[int((~known.any(1)).nonzero()[0])].name
            remedy = "leave it out of label" if len(known) > 1 else "at least two rows need a label"
            raise DataError(f"static column {without!r} has no value in any row; {remedy}")
        label_losses.check_row_weights(x, self.weight, known.any(0))
        for name in self.static_inputs or ():
            static_values(x, name)
        return known.any(0)

    def fit_defaults(self, x: Sequences) -> dict[str, Any]:
        """Return the share for validation; the best epoch is kept, because few labels are soon learned by heart."""
        x = x[usable_rows(self, x)]
        filled = x.lengths > 0
        entities = len(histories(x[filled])[0]) + int((~filled).sum())
        return {"validation": validation_share(entities), "keep": "best"}

    def strata(self, x: Sequences) -> Tensor:
        """Return `(n,)` the number of each row's class, or of its classes; equal numbers for numeric labels."""
        classes = [
            cast(Tensor, static_values(x, each.name)) for each in self.label_fields if isinstance(each, Categorical)
        ]
        if not classes:
            return torch.zeros_like(x.lengths)
        strata: Tensor = torch.stack(classes, 1).unique(dim=0, return_inverse=True)[1]
        return strata

    @property
    def predictor(self) -> Predictor:
        """An encoder of rows with or without a label, see `Predictor`; classes are in the order of the schema."""
        return Predictor(self.encoder, self.head, self.label_fields, self.inputs).train(self.training)


def _beside(auxiliary: NextEvent) -> NextEvent:
    """Return a method that uses its encoder but does not own it: the encoder's weights are those of another method."""
    encoder = auxiliary.encoder
    del auxiliary.encoder
    vars(auxiliary)["encoder"] = encoder
    return auxiliary


class Predictor(nn.Module):
    """An encoder and a head as one encoder of logits, or of numbers in the label's unit; several side by side."""

    def __init__(
        self, encoder: Encoder, head: nn.Module, targets: tuple[Label, ...], inputs: StaticInputs | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.label_fields, self.inputs = encoder, head, targets, inputs
        self.dim = sum(map(outputs_of, self.label_fields))

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`."""
        return self.of_vectors(self.encoder(rows_read(self.encoder, x)), x)

    def of_vectors(self, z: Tensor, x: Sequences) -> Tensor:
        """Return `(n, dim)` from the embeddings of rows, of which only static columns are read."""
        outputs = _outputs(z, self.inputs, self.head, self.label_fields, x)
        parts = [
            output if isinstance(target, Categorical) else target.unscale(output)
            for target, output in zip(self.label_fields, outputs, strict=True)
        ]
        return torch.cat(parts, 1)


def _outputs(
    z: Tensor, inputs: StaticInputs | None, head: nn.Module, targets: Sequence[Label], x: Sequences
) -> tuple[Tensor, ...]:
    """Return `(n, outputs)` for each label, of a head on embeddings, beside static columns if there are any."""
    out: Tensor = head(z if inputs is None else torch.cat([z, inputs(x)], 1))
    parts: tuple[Tensor, ...] = out.split(list(map(outputs_of, targets)), 1)
    return parts
