"""The protocol of a method, and what a method may declare about itself, with the default of each declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import torch
from torch import Tensor, nn

from eventvec.encoders.interface import Encoder, EventEncoding, Module, declarations, readable_rows
from eventvec.errors import listed, shown
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.sequences import Sequences
from eventvec.views.sizes import slice_bounds

Suggestion: TypeAlias = dict[str, dict[str, Any]]
"""Tables of a configuration, `{"method": …, "encoder": …, "fit": …}`, each `{option: value}`; any may be absent."""

_C = TypeVar("_C", bound=Callable[..., Any])


class Method(Module, Protocol):
    """A `torch.nn.Module` that trains its encoder with a loss on batches of rows.

    `forward` is the loss too, so wrappers for data-parallel training see it. A method keeps the arguments of its
    constructor as attributes of the same names. What else it may have is listed in `Declared`. Its constructor may have
    an attribute `suggested`, see the function of that name.

    Example:
        >>> import eventvec as ev
        >>> from eventvec.methods import CoLES
        >>> method: Method = CoLES(ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8))
        >>> method.encoder.dim
        8
    """

    @property
    def encoder(self) -> Encoder:
        """The encoder that is trained."""

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch, a scalar; `rng` is the only source of randomness for views."""

    def __call__(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch."""


class StateEncoder(Encoder, Protocol):
    """An encoder with one state per event, such as `GRU`, `LSTM` and `SetEncoder`."""

    @property
    def events(self) -> EventEncoding:
        """The event encoder."""

    def states(self, x: Sequences, events: Tensor | None = None) -> Tensor:
        """Return `(total, state_dim)` states, in row order, from encoded events if they are given."""


class TextTower(Encoder, Protocol):
    """An encoder of the texts in a static column."""

    column: str


@dataclass(frozen=True)
class Declared:
    """What a method may declare about itself, beside its encoder and its loss: attributes of the same names.

    Args:
        usable: Returns `(n,)` bool, the rows that the method can use; all if it declares nothing.
        static_columns: The names of the static columns that it learns from.
        static_inputs: The names of those among them that its `predictor` reads too.
        prepare: Is called by `fit` with the rows to train on, before the first step.
        fit_defaults: Returns options of `fit` that suit the method and the data, where the user gives none.
        strata: Returns `(n,)` the stratum of each row, a whole number; each stratum has its share in the validation.
        scored_by: The name of a score. The best epoch is then chosen by the score on held-out rows, not by the loss.
        validation_score: Returns this score, the higher the better, of the rows of all batches together. It is called
            in evaluation mode, without gradients, and takes every batch once.
        predictor: An encoder that returns predictions, such as logits.
        label_fields: The fields of the labels that the predictor predicts, side by side.
        label_time: The column with the times of the labels in the table of static columns, see
            `tables.label_times.LabelTime`.
        inclusive: Whether events at the very time of a label are read too.
        text: An encoder of descriptions.
        learns_order: Whether it learns in which order events are; `fit` then notes the columns that reveal it.
        compares_rows: Whether its loss compares the rows of a batch, and so depends on their number; `fit` then notes a
            validation on smaller batches than the training's.
        trials: Functions that set the method to each of several settings, by the setting as text. `fit` trains each,
            from the same weights, and keeps the one with the lowest validation loss.
        card: A paragraph for the model card of its runs.
        remark: Returns a sentence on what the trained method does on rows, for the notes of its runs.
    """

    usable: Callable[[Sequences], Tensor] | None = None
    static_columns: tuple[str, ...] = ()
    static_inputs: tuple[str, ...] = ()
    prepare: Callable[[Sequences], None] | None = None
    fit_defaults: Callable[[Sequences], Mapping[str, Any]] | None = None
    strata: Callable[[Sequences], Tensor] | None = None
    scored_by: str | None = None
    validation_score: Callable[[Iterator[Sequences]], float] | None = None
    predictor: Encoder | None = None
    label_fields: tuple[Categorical | Numeric, ...] = ()
    label_time: str | None = None
    inclusive: bool = False
    text: TextTower | None = None
    learns_order: bool = False
    compares_rows: bool = False
    trials: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    card: str = ""
    remark: Callable[[Sequences, torch.Generator], str] | None = None

    @property
    def score_entry(self) -> str | None:
        """The entry of the score in the records of a training; None without a score."""
        return None if self.scored_by is None else f"validation_{self.scored_by}"


def declared(method: Method | nn.Module) -> Declared:
    """Return what a method declares about itself, with the defaults of what it does not."""
    return declarations(method, Declared)


def usable_rows(method: Method | nn.Module, x: Sequences) -> Tensor:
    """Return `(n,)` bool: the rows that a method can use and that its encoder can read."""
    usable = readable_rows(method, x).clone()
    for block in x.blocks():  # an encoder looks at the values of all events
        usable[block] &= readable_rows(method.encoder, x[block])
    return usable


def suggested(constructor: Callable[..., Any] | None, x: Sequences) -> Suggestion:
    """Return the options and the encoder that suit a method for data x, as tables of a configuration.

    They are those of the constructor's `suggested`, if it has one. Without a table for the encoder, it is `gru`.
    """
    rule: Callable[[Sequences], Suggestion] | None = getattr(constructor, "suggested", None)
    return {"method": {}, "encoder": {"name": "gru"}, "fit": {}, **(rule(x) if rule else {})}


def suggests(rule: Callable[[Sequences], Suggestion]) -> Callable[[_C], _C]:
    """Return a decorator that sets the attribute `suggested` of a method's class, or of a function that returns one."""

    def declare(constructor: _C) -> _C:
        cast(Any, constructor).suggested = staticmethod(rule)
        return constructor

    return declare


def suggested_slices(x: Sequences) -> Suggestion:
    """Return the suggestion of a method that compares slices: `views` up to twice the median length."""
    shortest, longest = slice_bounds(x)
    return {"method": {"views": {"name": "random_slices", "shortest": shortest, "longest": longest}}}


def static_roles(method: Method | nn.Module, schema: Schema) -> str:
    """Return a sentence that says for each static column whether it is an input of the model, learned from or not read.

    Example:
        >>> from eventvec.encoders import GRU, EventEncoder
        >>> from eventvec.methods import ocp
        >>> schema = Schema("id", "day", "date", static=(Numeric("age"),))
        >>> static_roles(ocp(GRU(EventEncoder(schema), dim=2)), schema)
        "static columns: 'age' not read"
    """
    declares, names = declared(method), [field.name for field in schema.static]
    inputs = [name for name in names if name in declares.static_inputs]
    learned = [name for name in names if name in declares.static_columns and name not in inputs]
    unread = [name for name in names if name not in (*inputs, *learned)]
    roles = {"inputs of the model": inputs, "learned from": learned, "not read": unread}
    return "static columns: " + ", ".join(
        f"{listed(map(shown, group))} {role}" for role, group in roles.items() if group
    )


def static_notes(method: Method | nn.Module, schema: Schema) -> tuple[str, ...]:
    """Return the sentence of `static_roles` with a remedy, if the method leaves out any static column."""
    declares = declared(method)
    if {field.name for field in schema.static} <= {*declares.static_columns, *declares.static_inputs}:
        return ()
    remedy = (
        "fine_tune reads those that are named in static_inputs= (--set method.static_inputs=… with --method supervised)"
    )
    return (f"{static_roles(method, schema)}, because the encoder reads events only; {remedy}",)
