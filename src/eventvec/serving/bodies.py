"""The bodies of requests and answers, and what is said about a request that does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

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
    cutoff: StrictInt | StrictFloat | StrictStr | None = Field(
        None,
        description="The moment of prediction, as the times of events are given, not before the last event of an "
        "entity; by default the time of this event, which is then read too.",
    )
    reasons: int = Field(0, ge=0, le=50, description="How many reasons of each prediction are returned.")
    label: str | None = Field(None, description="The label whose reasons are returned, if the model predicts several.")


class TablesBody(BaseModel):
    """Rows of tables that the model reads beside events; the same rows given again change nothing."""

    model_config = ConfigDict(extra="forbid")
    static: list[dict[str, Any]] | None = Field(
        None, min_length=1, max_length=MOST, description="An object for each entity, with its key and static columns."
    )
    labels: list[dict[str, Any]] | None = Field(
        None, min_length=1, max_length=MOST, description="An object for each label that became known, with its time."
    )
    features: dict[str, Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST)]] | None = Field(
        None, description="By the name of each table, an object for each entity with its key and further features."
    )
    batch_id: str | None = Field(None, min_length=1, description="The name of these rows.")


class EnteredAnswer(BaseModel):
    """Whether rows of tables are new."""

    run: str
    applied: bool = Field(description="Whether they were entered now; false if they were entered before.")


class PushedAnswer(BaseModel):
    """The entities that a push has events of, after it."""

    run: str = Field(description="The model that gave these answers; of a push that is given again, the one of then.")
    keys: list[str]
    vectors: list[list[float]] = Field(description="Empty lists if the model has no vectors.")
    predictions: list[dict[str, Any]] = Field(
        description="The columns of `eventvec predict` for each key after its last event; empty objects if the model "
        "predicts no label."
    )
    times: list[Any] = Field(description="The moment of each prediction, the time of the last event.")
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
    reasons: list[list[dict[str, Any]]] | None = Field(
        None, description="The reasons of each prediction, the largest contribution first, if they are asked for."
    )


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
    fields = {*EventsBody.model_fields, *KeysBody.model_fields, *TablesBody.model_fields}
    first = next(iter(errors))
    if first["type"] == "extra_forbidden":
        accepted: dict[str, type[BaseModel]] = {"/events": EventsBody, "/predict": KeysBody, "/tables": TablesBody}
        names = "; ".join(f"{', '.join(body.model_fields)} (POST {path})" for path, body in accepted.items())
        return f"the body has an unknown field; accepted: {names}"
    if first["type"] == "json_invalid":
        return f"the body is not JSON (at character {first['loc'][-1]})"
    place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in fields)
    return f"{place}: {first['msg']}" if place else "the body must be a JSON object, with Content-Type application/json"
