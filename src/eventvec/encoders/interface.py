"""The protocols of encoders and event encoders, and what they may have besides, with the default of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor, nn

from eventvec.errors import ConfigError
from eventvec.options import LATEST
from eventvec.schema import Schema
from eventvec.sequences import Sequences, histories
from eventvec.views.cuts import latest

DEEPEST = 1000
"""The largest number of layers of an encoder."""
T = TypeVar("T")


class Module(Protocol):
    """What `torch.nn.Module` gives to encoders and methods."""

    training: bool

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Yield the weights."""

    def train(self, mode: bool = True) -> Self:
        """Put it into training mode, or into evaluation mode if `mode` is false."""

    def eval(self) -> Self:
        """Put it into evaluation mode."""

    def to(self, device: torch.device | str) -> Self:
        """Move the weights to a device."""

    def state_dict(self) -> dict[str, Any]:
        """Return the weights by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Replace the weights by those of the same names."""


@runtime_checkable
class Encoder(Module, Protocol):
    """A `torch.nn.Module` that turns rows of events into one vector per row. `Capabilities` lists what it may have.

    Example:
        >>> import eventvec as ev
        >>> encoder: Encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8)
        >>> encoder.dim
        8
    """

    dim: int

    def __call__(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one vector per row."""


@runtime_checkable
class EventEncoding(Protocol):
    """A `torch.nn.Module` that turns the columns of events into one vector per event.

    Of `Capabilities`, it may have `usable`, `joins` and `schema`.

    Example:
        >>> import eventvec as ev
        >>> events: EventEncoding = ev.encoders.EventEncoder(ev.Schema("id", "t", "integer"))
        >>> events.dim
        2
    """

    dim: int

    def __call__(self, x: Sequences) -> Tensor:
        """Return `(total, dim)`, one vector per event, in row order."""


@dataclass(frozen=True)
class Lineage:
    """The runs that trained an encoder.

    Args:
        run: The id of the last run.
        labels: The static columns that any of the runs learned from.
        holdouts: For each run, the earliest first: its id (`run`), the `fraction` held out (or None), the `seed` of
            that choice, the `fingerprint` of the data and the time of their `last_event`.
        path: The folder of the last run, if it has one.
        samples: Of the labels, see `models.label_samples`.
        data: What the last run remembers of its data, see `tables.facts`.
    """

    run: str
    labels: tuple[str, ...]
    holdouts: tuple[Mapping[str, Any], ...]
    path: str | None = None
    samples: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, the entries about the encoder in the metadata of a file."""
        return {"run": self.run, "labels": list(self.labels), "holdouts": [dict(holdout) for holdout in self.holdouts]}


@dataclass(frozen=True)
class Capabilities:
    """What an encoder or an event encoder may have beside `dim` and its call: attributes of the same names.

    Args:
        usable: Returns `(n,)` bool, the rows that it can read; all if it has none.
        states: Returns `(total, state_dim)`, one vector per event of rows, from encoded events if they are given.
        state_dim: The size of these vectors; `dim` if it has none.
        causal: Whether they are independent of later events.
        state: Returns `(n, k)` the state after each row, from initial states if they are given.
        read: Returns `(n, dim)` the embedding of each state; if it has `latest`, from states and rows of latest events.
        latest: How many of a row's latest events are read: beside the state of all, if it has one, and otherwise alone.
        beginnings: Returns `(m, dim)` the embeddings of the first events of rows, from the rows, `(m,)` the row of each
            and `(m,)` the number of events of each; every row is read once.
        sparse: Whether most numbers of a state are 0, so stores keep the others with their places.
        stored_dim: k, which an encoder needs whose states stand beside those of others in `Joined`.
        at: Returns `(n, ..., dim)` from rows and encoded places, if the vectors depend on a place.
        reads_moment: Whether it reads each row's moment of prediction, the static value `handcrafted.MOMENT`.
        joins: Whether it distinguishes the second of two joined rows from the first.
        events: The event encoder of an encoder.
        schema: What the columns mean that it reads.
        lineage: What it was trained on, which `fit` and `load` record, so it follows the encoder into fine-tuning
            and into embeddings files.
        kept_as: The attributes that have arguments of its constructor under other names, by the arguments.
    """

    usable: Callable[[Sequences], Tensor] | None = None
    states: Callable[..., Tensor] | None = None
    state_dim: int | None = None
    causal: bool = False
    state: Callable[..., Tensor] | None = None
    read: Callable[..., Tensor] | None = None
    latest: int | None = None
    beginnings: Callable[[Sequences, Tensor, Tensor], Tensor] | None = None
    sparse: bool = False
    stored_dim: int | None = None
    at: Callable[[Sequences, Tensor], Tensor] | None = None
    reads_moment: bool = False
    joins: bool = False
    events: nn.Module | None = None
    schema: Schema | None = None
    lineage: Lineage | None = None
    kept_as: Mapping[str, str] = field(default_factory=dict)

    @property
    def continues(self) -> bool:
        """Whether the encoder continues exactly from a stored state alone."""
        return self.has_state and self.latest is None

    @property
    def has_state(self) -> bool:
        """Whether the encoder has a state after each row, from which it goes on with later events."""
        return self.state is not None and self.read is not None


def capabilities(part: object) -> Capabilities:
    """Return what an encoder or an event encoder has beside `dim` and its call, with defaults for the rest."""
    return declarations(part, Capabilities)


def declarations(part: object, kind: type[T]) -> T:
    """Return a dataclass of the attributes of a part that are fields of it, with its defaults for absent ones."""
    values = {each.name: getattr(part, each.name, None) for each in fields(cast(Any, kind))}
    return kind(**{name: value for name, value in values.items() if value is not None})


def bound_reading(encoder: Encoder, count: int = LATEST) -> None:
    """Let an encoder read so many latest events of each row where it has no state, unless it names a number itself."""
    has = capabilities(encoder)
    if (has.latest is None) != has.has_state:  # hand-crafted features read the latest events beside a state
        cast(Any, encoder).latest = count


def rows_read(encoder: Encoder, x: Sequences) -> Sequences:
    """Return rows with the events that an encoder reads: the latest ones, where it has no state of the others."""
    has = capabilities(encoder)
    return x if has.latest is None or has.has_state else latest(x, has.latest)


def embed_beginnings(encoder: Encoder, x: Sequences) -> Tensor:
    """Return `(n, dim)` the embedding of each row; of rows that begin alike, the longest is read, if the encoder can.

    Relations: calling the encoder gives the same, but for rounding, and reads every row.
    """
    beginnings = capabilities(encoder).beginnings
    if beginnings is None:
        return encoder(x)
    longest, history = histories(x)
    return beginnings(x[longest], history, x.lengths)


@contextmanager
def evaluating(module: Module) -> Iterator[None]:
    """Put a module into evaluation mode inside the block."""
    if isinstance(module, nn.Module) and not any(part.training for part in module.modules()):
        yield  # setting the mode of each part again takes as long as one event does
        return
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


def lineage_of(encoder: Any) -> Lineage | None:
    """Return what an encoder, or a part of it, has been trained on; None if that is not known."""
    modules = encoder.modules() if isinstance(encoder, nn.Module) else ()
    return next((known for module in modules if (known := capabilities(module).lineage)), None)


def attach_lineage(encoder: Encoder, record: Lineage) -> None:
    """Record on an encoder what it has been trained on, as its attribute `lineage`."""
    cast(Any, encoder).lineage = record


def state_size(encoder: Encoder) -> int:
    """Return the size of an encoder's vectors of events, `states(x)`."""
    size = capabilities(encoder).state_dim
    return int(encoder.dim if size is None else size)


def check_states(encoder: Encoder, accepted: str, causal: bool = False) -> None:
    """Refuse an encoder without a state after each event, or with states that depend on later events if `causal`."""
    has = capabilities(encoder)
    if has.states is None or (causal and not has.causal):
        that = " that does not depend on later events" if causal else ""
        raise ConfigError(
            f"encoder must have a state after each event{that}, got {type(encoder).__name__}; accepted: the encoders "
            f"{accepted}"
        )


class OverEvents(nn.Module):
    """A module that reads the events that its event encoder can read."""

    events: EventEncoding

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows that the event encoder can read."""
        return readable_rows(self.events, x)


def check_encoder(encoder: Any) -> None:
    """Refuse what is no encoder."""
    if not _is_built(encoder, "dim", "parameters"):
        what = f"the class {encoder.__name__}" if isinstance(encoder, type) else type(encoder).__name__
        raise ConfigError(
            f"the encoder must be a module with `dim`, such as eventvec.encoders.GRU, got {what}; that of a run is "
            "run.encoder, and run.embed(events) takes a frame"
        )


def check_events(events: Any) -> None:
    """Refuse what is no event encoder."""
    if not _is_built(events, "dim"):
        raise ConfigError(
            "events must be an event encoder, such as eventvec.encoders.EventEncoder(data.schema), got "
            f"{type(events).__name__}"
        )


def _is_built(part: Any, *names: str) -> bool:
    """Return whether a part is no class, and has some attributes."""
    return not isinstance(part, type) and all(hasattr(part, name) for name in names)


def check_depth(layers: int) -> None:
    """Refuse a number of layers that no network has; each takes time to build, however small it is."""
    if layers > DEEPEST:
        raise ConfigError(f"layers must be at most {DEEPEST}, got {layers}")


def check_multiple(dim: int, heads: int) -> None:
    """Refuse a size that cannot be divided among attention heads."""
    if dim % heads:
        raise ConfigError(f"dim must be a multiple of heads, got dim {dim}, heads {heads}")


def check_odd(name: str, value: int) -> None:
    """Refuse an even number of events that a convolution reads."""
    if value % 2 == 0:
        raise ConfigError(f"{name} must be odd, got {value}")


def readable_rows(part: object, x: Sequences) -> Tensor:
    """Return `(n,)` bool: the rows that a method, an encoder or an event encoder can use; all without `usable`."""
    usable = capabilities(part).usable
    rows: Tensor = torch.ones_like(x.lengths, dtype=torch.bool) if usable is None else usable(x)
    return rows
