"""The protocol of a method, and the functions that read what a method declares about itself.

A method declares the rows that it can use, the static columns that it learns from, the encoder and sizes that suit
data, and how it is validated. A declaration that is missing has a default, which stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from eventvec.encoders.interface import Encoder, EventEncoding, readable_rows
from eventvec.sequences import Sequences
from eventvec.views.sizes import slice_bounds

Suggestion: TypeAlias = dict[str, dict[str, Any]]
"""Tables of a configuration, `{"method": …, "encoder": …, "fit": …}`, each `{option: value}`; any may be absent."""

_F = TypeVar("_F", bound=Callable[..., Any])


class Method(Protocol):
    """A `torch.nn.Module` that trains its encoder with a loss on batches of rows.

    `forward` is the loss too, so that wrappers for data-parallel training see it. A method keeps the arguments of its
    constructor as attributes of the same names. It may also have:

    - `usable(x) -> (n,) bool`: the rows that the method can use. Without it, the method can use all rows.
    - `static_columns`: the names of the static columns that it learns from.
    - `static_inputs`: the names of those among them that its `predictor` reads too.
    - `prepare(x)`: a function that `fit` calls with the rows to train on, before the first step.
    - `suggested(x) -> Suggestion`: a static method that returns the options and the encoder that suit data x.
    - `fit_defaults(x)`: a mapping of options of `fit` that suit the method and data x, where the user gives none.
    - `strata(x) -> (n,)`: the stratum of each row, a whole number; each stratum has its share in the validation.
    - `scored_by` and `validation_score(batches) -> float`: the name of a score and the score, the higher the better, of
      the rows of all batches together. The best epoch is then chosen by the score on held-out rows, and not by the
      loss. It is called in evaluation mode, without gradients, and takes every batch once.
    - `predictor`: an encoder that returns predictions, such as logits; `label_fields`: the fields of the labels that it
      predicts, side by side.
    - `text`: an encoder of descriptions.
    - `learns_order`: whether it learns in which order events are; `fit` then notes the columns that reveal it.
    - `card`: a paragraph for the model card of its runs.
    - `remark(x, rng) -> str`: a sentence on what the trained method does on rows x, for the notes of its runs.

    Example:
        >>> import eventvec as ev
        >>> from eventvec.methods import CoLES
        >>> method: Method = CoLES(ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8))
        >>> method.encoder.dim
        8
    """

    training: bool

    @property
    def encoder(self) -> Encoder:
        """The encoder that is trained."""

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch, a scalar; `rng` is the only source of randomness for views."""

    def __call__(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the loss of a batch."""

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Yield the weights."""

    def train(self, mode: bool = True) -> Self:
        """Put the method into training mode, or into evaluation mode if `mode` is false."""

    def eval(self) -> Self:
        """Put the method into evaluation mode."""

    def to(self, device: torch.device | str) -> Self:
        """Move the weights to a device."""

    def state_dict(self) -> dict[str, Any]:
        """Return the weights by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Replace the weights by those of the same names."""


class StateEncoder(Encoder, Protocol):
    """An encoder with one state per event, such as `GRU`, `LSTM` and `SetEncoder`."""

    @property
    def events(self) -> EventEncoding:
        """The event encoder."""

    def states(self, x: Sequences, events: Tensor | None = None) -> Tensor:
        """Return `(total, state_dim)` states, in row order, from encoded events if they are given."""


def usable_rows(method: Method | nn.Module, x: Sequences) -> Tensor:
    """Return `(n,)` bool: the rows that a method can use and that its encoder can read.

    Args:
        method: Its `usable` marks the rows that it can use, and its encoder's `usable` the rows that it can read. A
            method or encoder without `usable` takes all rows.
        x: The rows.
    """
    usable = readable_rows(method, x).clone()
    for block in x.blocks():  # an encoder looks at the values of all events
        usable[block] &= readable_rows(getattr(method, "encoder", None), x[block])
    return usable


def static_columns(method: Method | nn.Module) -> tuple[str, ...]:
    """Return the names of the static columns that a method learns from; `()` if it declares none."""
    columns: tuple[str, ...] = getattr(method, "static_columns", ())
    return columns


def static_inputs(method: Method | nn.Module) -> tuple[str, ...]:
    """Return the names of the static columns that a method reads in prediction; `()` if it declares none."""
    return getattr(method, "static_inputs", None) or ()


def suggested(constructor: Callable[..., Any] | None, x: Sequences) -> Suggestion:
    """Return the options and the encoder that suit a method for data x, as tables of a configuration.

    Args:
        constructor: A class or function that returns a method. Its attribute `suggested`, if it has one, returns the
            tables from x. Without one, or without a table for the encoder, the encoder is `gru`.
        x: The rows.
    """
    rule: Callable[[Sequences], Suggestion] | None = getattr(constructor, "suggested", None)
    return {"method": {}, "encoder": {"name": "gru"}, "fit": {}, **(rule(x) if rule else {})}


def fit_defaults(method: Method | nn.Module, x: Sequences) -> dict[str, Any]:
    """Return the options of `fit` that a method declares for data x; empty if it declares none."""
    rule: Callable[[Sequences], Mapping[str, Any]] | None = getattr(method, "fit_defaults", None)
    return dict(rule(x)) if rule else {}


def score_entry(method: Method | nn.Module) -> str | None:
    """Return the entry of a method's score in the records of its training; None if it declares no score.

    Example:
        >>> class Scored(torch.nn.Module):
        ...     scored_by = "accuracy"
        >>> score_entry(Scored()), score_entry(torch.nn.Identity())
        ('validation_accuracy', None)
    """
    name: str | None = getattr(method, "scored_by", None)
    return None if name is None else f"validation_{name}"


def suggests(rule: Callable[[Sequences], Suggestion]) -> Callable[[_F], _F]:
    """Return a decorator that sets the attribute `suggested` of a function that returns a method.

    Example:
        >>> @suggests(lambda x: {"encoder": {"name": "lstm"}})
        ... def variant(encoder): ...
        >>> suggested(variant, Sequences({}, torch.tensor([0]), torch.tensor([1])))
        {'method': {}, 'encoder': {'name': 'lstm'}, 'fit': {}}
    """

    def declare(function: _F) -> _F:
        vars(function)["suggested"] = rule
        return function

    return declare


def suggested_slices(x: Sequences) -> Suggestion:
    """Return the suggestion of a method that compares slices: `views` up to twice the median length.

    Example:
        >>> suggested_slices(Sequences({}, torch.zeros(9).long(), torch.full((9,), 75)))
        {'method': {'views': {'name': 'random_slices', 'shortest': 18, 'longest': 150}}}
    """
    shortest, longest = slice_bounds(x)
    return {"method": {"views": {"name": "random_slices", "shortest": shortest, "longest": longest}}}
