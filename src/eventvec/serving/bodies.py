"""The bodies of requests and answers, and what is said about a request that does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from eventvec.errors import DataError, listed
from eventvec.schema import Schema
from eventvec.serving.pushes import Late

MOST = 1_000
"""The largest number of events, or of keys, in a request; `update` applies larger batches."""


class EventsBody(BaseModel):
    """Events that are applied together, of one entity or of several.

    The same request may be sent again: it is applied once, and `applied` in the answer is then false.
    """

    model_config = ConfigDict(extra="forbid")
    events: list[dict[str, Any]] = Field(
        min_length=1,
        max_length=MOST,
        description="An object for each event, with the columns that the run reads; null is missing.",
    )
    batch_id: str | None = Field(
        None, min_length=1, description="The name of the push; without one, its content identifies it."
    )
    position: dict[str, str] | None = Field(
        None, description="How far streams had been read after these events, stored with the states."
    )
    late: Late = Field("refuse", description="Whether events older than the entity's last one are an error.")


class KeysBody(BaseModel):
    """The entities to predict for."""

    model_config = ConfigDict(extra="forbid")
    keys: list[StrictInt | StrictStr] = Field(min_length=1, max_length=MOST)


class PushedAnswer(BaseModel):
    """The entities that a push has events of, after it."""

    run: str
    keys: list[str]
    vectors: list[list[float]]
    applied: bool = Field(description="Whether it was applied now; false if it was applied before.")
    new: int
    late: int
    notes: list[str]


class VectorAnswer(BaseModel):
    """The vector of an entity after its last event."""

    run: str
    vector: list[float]


class PredictionsAnswer(BaseModel):
    """The columns of `eventvec predict` for each key, in the order of the keys."""

    run: str
    predictions: list[dict[str, Any]]


class HealthAnswer(BaseModel):
    """Whether the server applies events, and what it serves."""

    ready: bool
    run: str
    positions: dict[str, str] = Field(description="How far each stream was read, by the pushes with a position.")


class Refusal(BaseModel):
    """Why a request was refused, in one sentence."""

    detail: str


def columns_read(schema: Schema) -> frozenset[str]:
    """Return the columns of an event that a run reads."""
    fields = [field.name for field in (*schema.fields, *schema.nested)]
    names = (schema.key, schema.time, schema.order, schema.known_at, *fields)
    return frozenset(name for name in names if name is not None)


def unread_notes(events: Sequence[Mapping[str, Any]], read: frozenset[str]) -> list[str]:
    """Return a sentence about columns that the run does not read, if there are any.

    Raises:
        DataError: If events differ in the columns that the run reads.

    Example:
        >>> unread_notes([{"card": 1, "day": 3, "shop": "bakery"}], frozenset({"card", "day"}))
        ['columns that the run does not read: shop']
    """
    first, unread = read & events[0].keys(), set[str]()
    for place, event in enumerate(events):
        names = event.keys()
        if read & names != first:
            raise DataError(
                f"event {place:,} has other columns than event 0 (counted from 0); give each event all columns, and "
                "null where a value is missing"
            )
        unread |= names - read
    return [f"columns that the run does not read: {listed(sorted(unread))}"] if unread else []


def misfit_of(errors: Iterable[Mapping[str, Any]]) -> str:
    """Return what is wrong with a body: the first fault after its place, without any of the values and names in it."""
    fields = {*EventsBody.model_fields, *KeysBody.model_fields}
    first = next(iter(errors))
    if first["type"] == "extra_forbidden":
        return f"the body has an unknown field; accepted: {', '.join(EventsBody.model_fields)} (POST /events), or keys"
    if first["type"] == "json_invalid":
        return f"the body is not JSON (at character {first['loc'][-1]})"
    place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in fields)
    return f"{place}: {first['msg']}" if place else "the body must be a JSON object, with Content-Type application/json"
