"""A time limit for the head of a request, which uvicorn does not have: a silent client would hold its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from eventvec.serving.limits import Application, Receive, Scope, Send

Client: TypeAlias = tuple[Any, ...]


class SlowHeads:
    """The connections that wait for the head of a request, and the moments at which they are closed.

    Args:
        seconds: How long a connection waits, from its start or from the first byte of a further request.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timers = dict[Client, asyncio.TimerHandle]()
        self._answered = set[Client]()

    def protocol(self, inner: Callable[..., asyncio.Protocol]) -> Callable[..., asyncio.Protocol]:
        """Return a constructor of a protocol as another one, whose connections are watched."""
        return lambda **options: _Watched(inner(**options), self)

    def application(self, app: Application) -> Application:
        """Return an application as another one, which says when a head has come."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            client = tuple(scope.get("client") or ())
            self.ends(client)
            self._answered.add(client)
            try:
                await app(scope, receive, send)
            finally:
                self._answered.discard(client)

        return watched

    def begins(self, client: Client, transport: asyncio.BaseTransport) -> None:
        """Close a connection some seconds from now, unless it waits already or a request of it is answered."""
        if client not in self._timers and client not in self._answered:
            later = asyncio.get_running_loop().call_later
            self._timers[client] = later(self._seconds, transport.close)

    def ends(self, client: Client) -> None:
        """Let a connection be: a head has come, or it is closed."""
        if (timer := self._timers.pop(client, None)) is not None:
            timer.cancel()


class _Watched(asyncio.Protocol):
    """A protocol whose connection is closed if no head comes."""

    def __init__(self, inner: asyncio.Protocol, heads: SlowHeads) -> None:
        self._inner, self._heads = inner, heads

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._client = tuple(transport.get_extra_info("peername") or ())[:2]
        self._heads.begins(self._client, transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._heads.begins(self._client, self._transport)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._heads.ends(self._client)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
