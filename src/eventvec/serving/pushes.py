"""What a session applies at once, and what it returns for that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np
import polars as pl

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError, EventvecError, shown
from eventvec.models import Model
from eventvec.options import one_of
from eventvec.sequences import Array, Sequences, stack
from eventvec.tables.event_rows import EventRows
from eventvec.tables.hashing import fnv_of
from eventvec.updating.batch_identity import Identities, batch_identity
from eventvec.updating.batches import in_key_order
from eventvec.updating.store import ROWS

Late = Literal["refuse", "drop"]
Events: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Dataset
"""One event as a dictionary, several of them, or a data set of the run's schema."""
T = TypeVar("T")


@dataclass(frozen=True)
class Push:
    """Events that are applied together, of one entity or of several.

    Args:
        events: The events.
        batch_id: The name of the push, which then identifies it. Without a name, its position does, or else its events;
            no two pushes may then have equal events.
        position: How far streams had been read after the last of these events, such as `{"cards": "1700-0"}`. It is
            recorded in the transaction of the states, and `StateSession.positions` returns it. A push that is refused,
            or was applied before, records none.
        late: What becomes of events older than the last one that their entity's state has seen: `refuse` raises an
            error, `drop` leaves them out.

    Raises:
        ConfigError: If an option is out of range.

    Example:
        >>> Push({"card": 7, "day": 3}, position={"cards": "1700-0"}).name
        "position [('cards', '1700-0')]"
    """

    events: Events
    batch_id: str | None = None
    position: Mapping[str, str] | None = None
    late: Late = "refuse"

    def __post_init__(self) -> None:
        one_of("late", self.late, get_args(Late))
        if not isinstance(self.events, Mapping | list | tuple | Dataset):
            kind = type(self.events).__name__
            raise ConfigError(f"a push must be a dictionary, a list of dictionaries or a Dataset, got {kind}")
        texts: list[Any] = [] if self.batch_id is None else [self.batch_id]
        if self.position is not None:
            texts += [*self.position, *self.position.values()] if isinstance(self.position, Mapping) else [None]
        if self.position == {} or not all(isinstance(text, str) and text and is_unicode(text) for text in texts):
            raise ConfigError("batch_id must be text, and position texts by the names of streams; none may be empty")

    @property
    def name(self) -> str | None:
        """The name of the batch in the store."""
        if self.batch_id is not None or self.position is None:
            return self.batch_id
        return f"position {sorted(self.position.items())}"


class Pushed(NamedTuple):
    """The entities that a push has events of, after it.

    Args:
        keys: Their keys as text, in order.
        vectors: `(n, dim)` float32, their embeddings; 0 columns if the model has no vectors.
        predictions: What the model predicts for each after its last event, by the columns of `ev.predict`; empty
            dictionaries if it predicts no label.
        times: The moments of prediction: the time of the last event of each, or with `known_at` the one at which the
            last of its events became known.
        model: The id of the model that gave these answers; of a push that is given again, the one of then.
        applied: Whether the push was applied now; if not, it was applied before, and the results are those of then.
        new: The number of entities that were new to the store.
        late: The number of events that were left out because they were late.
        notes: Sentences about what was counted, such as values outside the vocabulary.

    Example:
        >>> import eventvec as ev
        >>> with ev.open_state(ev.load("run"), "state.db") as session:  # doctest: +SKIP
        ...     pushed = session.push({"card": 7, "day": 3})
        >>> pushed.keys, pushed.vectors.shape, pushed.applied  # doctest: +SKIP
        (['7'], (1, 128), True)
    """

    keys: list[str]
    vectors: Array
    predictions: list[dict[str, Any]]
    times: list[Any]
    model: str
    applied: bool
    new: int
    late: int
    notes: tuple[str, ...]

    @property
    def rows(self) -> list[tuple[str, str, Any, dict[str, Any], Array]]:
        """Of each entity the key, the model, the moment, the prediction and the vector, as rows of a table."""
        return list(zip(self.keys, repeat(self.model), self.times, self.predictions, self.vectors, strict=False))


class ReadPush(NamedTuple):
    """A push whose events have been read.

    Args:
        read: Rows among which are its entities, in the order of `names`; pushes that were read together share them.
        start: The place of the first of its rows.
        names: The canonical texts of its keys.
        identity: What `update` would know the batch by.
        notes: Sentences about its events.
    """

    push: Push
    read: Sequences
    start: int
    names: list[str]
    identity: str
    notes: tuple[str, ...]


def rows_of(pushes: Sequence[ReadPush]) -> Sequences:
    """Return the rows of pushes, those of one after the other."""
    read = pushes[0].read
    if all(each.read is read for each in pushes):
        places = [place for each in pushes for place in range(each.start, each.start + len(each.names))]
        return read if len(places) == len(read) else read[places]
    return stack(*(each.read[each.start : each.start + len(each.names)] for each in pushes))


class PushReader:
    """A reader of pushes by the schema of a run."""

    def __init__(self, run: Model) -> None:
        self.run, self._rows, self._identities = run, EventRows(run.schema), Identities(run.schema)

    def read(self, pushes: Sequence[Push]) -> list[ReadPush | EventvecError]:
        """Return pushes with their events as rows, or why they cannot be used; all at once where they are plain."""
        if not pushes:
            return []
        events = [[push.events] if isinstance(push.events, Mapping) else push.events for push in pushes]
        plain = [each for each in events if not isinstance(each, Dataset)]
        read = self._rows.read(plain) if len(plain) == len(events) else None
        if read is None and len(pushes) > 1:
            return [self.read([push])[0] for push in pushes]
        if read is None:
            return [_read_whole(pushes[0], events[0], self.run)]
        hashes = np.array(list(map(fnv_of, read.keys)), np.uint64)
        if len(hashes) < len(read.values.times):
            hashes = hashes.repeat(read.x.lengths.numpy())
        known = self._identities(read.values, hashes, list(map(len, plain)))
        return [
            ReadPush(push, read.x, start, read.keys[start:end], identity, notes)
            for push, (start, end), identity, notes in zip(
                pushes, pairwise([0, *read.ends]), known, read.notes, strict=True
            )
        ]


def _read_whole(push: Push, events: Dataset | Sequence[Mapping[str, Any]], run: Model) -> ReadPush | EventvecError:
    """Return a push as `update` reads a batch."""
    try:
        if not isinstance(events, Dataset) and any(
            isinstance(event, Mapping) and run.schema.key not in event for event in events
        ):
            raise DataError(f"an event has no {shown(run.schema.key)}; every event needs a key")
        full = run.read(events if isinstance(events, Dataset) else list(events)).to("cpu")
        data, names = in_key_order(full[full.sequences.lengths > 0])
        if not names:
            raise DataError("the push has no events; at least one is needed")
        return ReadPush(push, replace(data.sequences, static={}), 0, names, batch_identity(data), data.notes)
    except EventvecError as error:
        return error
    except UnicodeError:
        return DataError("the events have text that is not Unicode")
    except pl.exceptions.PanicException:
        return DataError("the events have values that no table holds")


def is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair, which no file can hold.

    Example:
        >>> is_unicode("ü"), is_unicode("\\ud800")
        (True, False)
    """
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def in_groups(reads: Iterable[tuple[T, ReadPush]]) -> Iterator[list[tuple[T, ReadPush]]]:
    """Yield pushes in order, in groups within which no two have an entity or a name in common."""
    group: list[tuple[T, ReadPush]] = []
    entities, names = set[str](), set[str]()
    for place, read in reads:
        taken = not entities.isdisjoint(read.names) or read.push.name in names
        if group and (taken or len(entities) + len(read.names) > ROWS):
            yield group
            group, entities, names = [], set(), set()
        group.append((place, read))
        entities.update(read.names)
        names.update([read.push.name] if read.push.name else [])
    if group:
        yield group
