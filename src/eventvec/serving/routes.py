"""The routes of a server: events in, vectors and predictions out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from eventvec.errors import AbsentOutputError, CheckpointError, EventvecError, UnknownEntityError, need
from eventvec.models import versions
from eventvec.serving.bodies import (
    EnteredAnswer,
    EventsBody,
    HealthAnswer,
    KeysBody,
    PredictionsAnswer,
    PushedAnswer,
    Refusal,
    TablesBody,
    VectorAnswer,
    columns_read,
    misfit_of,
    unread_notes,
)
from eventvec.serving.limits import AGAIN, Limits, Refused, log
from eventvec.serving.measures import Measures
from eventvec.serving.micro_batches import MicroBatches, Result
from eventvec.serving.pushes import Push, Pushed
from eventvec.serving.serve_options import ServeOptions
from eventvec.serving.session import StateSession

if TYPE_CHECKING:
    from fastapi import FastAPI

CODES = {
    400: "The body cannot be read as JSON.",
    401: "The token is absent or wrong.",
    404: "The store does not have the entity.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    422: "The body or its events cannot be used, or events are late.",
    429: "The server has too much to do; send the request again after the seconds of Retry-After.",
    501: "The model predicts no label, or has no vectors.",
    503: "The store cannot be used now, or the push takes too long; send the same request again.",
}
SILENT = dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)
"""What FastAPI records for OpenTelemetry: nothing, because a path may have a key. Old versions ignore it."""


def application(session: StateSession, options: ServeOptions, token: str | None = None) -> FastAPI:
    """Return the application of a server, whose thread for pushes runs between its start-up and its shutdown.

    Args:
        session: The session with a store, which the caller closes after the shutdown.
        options: The limits.
        token: The token that requests must have, if they need one.
    """
    fastapi = need("fastapi", "serve")
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, Response

    run, read = session.model.id, columns_read(session.model.schema)
    batches = MicroBatches(session, options.waiting)
    measures = Measures(batches.__len__)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batches.start()
        yield
        await asyncio.to_thread(batches.close)

    app: FastAPI = fastapi.FastAPI(
        title="eventvec", summary="Events in, vectors and predictions out.", version=versions()["eventvec"],
        lifespan=lifespan, redoc_url=None, docs_url="/docs", swagger_ui_oauth2_redirect_url=None, telemetry=SILENT,
    )  # fmt: skip
    app.add_middleware(Limits, options=options, token=token, full=lambda: batches.full, measure=measures.request)

    def answered(body: dict[str, Any], code: int = 200) -> Response:
        return Response(to_json(body, inf_nan_mode="null"), code, media_type="application/json")

    @app.exception_handler(RequestValidationError)
    async def misfit(request: Any, error: RequestValidationError) -> Response:
        return JSONResponse({"detail": misfit_of(error.errors())}, 422)

    @app.exception_handler(EventvecError)
    async def refuse(request: Any, error: EventvecError) -> Any:
        return refusal(error).response

    @app.post("/events", response_model=PushedAnswer, responses=described(400, 401, 408, 413, 415, 422, 429, 503))
    async def events(body: EventsBody) -> Any:
        """Apply events, and return the vectors and predictions of their entities; all is in the store then."""
        began = time.perf_counter()
        notes = unread_notes(body.events, read)
        result = batches.submit(Push(body.events, body.batch_id, body.position, body.late))
        if result is None and batches.running:
            raise Refused(429, "too many pushes wait to be applied; send it again later", **AGAIN)
        if result is None:
            raise Refused(503, "the server is ending; send the same request to the next one", **AGAIN)
        pushed = await within(result, options.seconds)
        applied = len(body.events) - pushed.late if pushed.applied else 0
        measures.push(time.perf_counter() - began, applied, pushed.late if pushed.applied else 0)
        return answered(
            {
                "run": pushed.model, "keys": pushed.keys, "vectors": pushed.vectors.tolist(),
                "predictions": pushed.predictions, "times": pushed.times, "applied": pushed.applied,
                "new": pushed.new, "late": pushed.late,
                "notes": [*notes, *pushed.notes],
            }
        )  # fmt: skip

    @app.get("/vectors/{key:path}", response_model=VectorAnswer, responses=described(401, 404, 429, 501, 503))
    def vector(key: str) -> Any:
        """Return the vector of an entity after its last event."""
        return answered({"run": run, "vector": session.vector(key).tolist()})

    @app.post("/predict", response_model=PredictionsAnswer, responses=described(401, 404, 422, 429, 501, 503))
    def predict(body: KeysBody) -> Any:
        """Return what the model predicts for entities after their last events, or at a later time."""
        content: dict[str, Any] = {"run": run, "predictions": session.predictions(body.keys, body.cutoff)}
        if body.reasons:
            content["reasons"] = session.reasons(body.keys, body.cutoff, label=body.label, top=body.reasons)
        return answered(content)

    @app.post("/tables", response_model=EnteredAnswer, responses=described(400, 401, 408, 413, 415, 422, 429, 503))
    def tables(body: TablesBody) -> Any:
        """Enter rows of tables that the model reads beside events."""
        return answered({"run": run, "applied": session.push_tables(**dict(body))})

    @app.get("/health", response_model=HealthAnswer, responses=described(401, 503))
    def health() -> Any:
        """Return whether the server applies events, and what it serves."""
        ready = batches.running
        return answered({"ready": ready, "run": run, "positions": session.positions}, 200 if ready else 503)

    @app.get("/metrics", response_class=Response, responses=described(401))
    def metrics() -> Any:
        """Return counts in the text format of Prometheus."""
        return Response(measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app


def refusal(error: EventvecError) -> Refused:
    """Return the answer to a request that had an error."""
    if isinstance(error, CheckpointError):
        log.error("the store cannot be used: %s", error)
        return Refused(503, "the store cannot be used; the log of the server says why", **AGAIN)
    if isinstance(error, UnknownEntityError):
        return Refused(404, str(error))
    return Refused(501 if isinstance(error, AbsentOutputError) else 422, str(error))


async def within(result: asyncio.Future[Result], seconds: float) -> Pushed:
    """Return the result of a push; one that takes longer than some seconds goes on if it has begun.

    Raises:
        EventvecError: If the push is refused.
        Refused: If it takes longer.
    """
    try:
        pushed = await asyncio.wait_for(result, seconds)
    except TimeoutError:
        sentence = (
            f"the push was not applied within {seconds:g} seconds; send the same request again, which counts once"
        )
        raise Refused(503, sentence, **AGAIN) from None
    if isinstance(pushed, Exception):
        raise pushed
    return pushed


def described(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return codes with their meaning, for the page about the routes."""
    return {code: {"description": CODES[code], "model": Refusal} for code in codes}
