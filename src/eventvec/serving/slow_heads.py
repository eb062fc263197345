"""A time limit for the head of a request, which uvicorn does not have: a silent client would hold its connection."""

from __future__ import annotations

import asyncio
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

    def protocol(self, inner: Any) -> type[asyncio.Protocol]:
        """Return a protocol of uvicorn as one whose connections are closed if no head comes."""
        heads = self

        class Watched(inner):  # type: ignore[misc]
            def connection_made(self, transport: asyncio.Transport) -> None:
                self.watched = tuple(transport.get_extra_info("peername") or ())[:2]
                heads.begins(self.watched, transport)
                super().connection_made(transport)

            def data_received(self, data: bytes) -> None:
                heads.begins(self.watched, self.transport)
                super().data_received(data)

            def connection_lost(self, exc: Exception | None) -> None:
                heads.ends(self.watched)
                super().connection_lost(exc)

        return Watched

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
