"""Labels as a method meets them: which static columns are some, which rows have one, what is predicted of it."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from eventvec.errors import ConfigError, DataError
from eventvec.schema import FIRST, Categorical, Numeric, Schema, static_values
from eventvec.sequences import Sequences


def label_field(schema: Schema, label: str) -> Categorical | Numeric:
    """Return what the schema says of a static column that is to be learned.

    Raises:
        ConfigError: there is no such column, it is of another kind, or it has fewer than two classes.

    Example:
        >>> schema = Schema("id", "t", "integer", None, (), (), Numeric("gap"), static=(Numeric("age"),))
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
