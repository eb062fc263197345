"""The limits of a server: who may ask, how often, how much, and for how long.

They stand before the application, which therefore sees whole bodies of a limited size only. No path, body or message of
an unexpected error is logged, because each may contain a key.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import re
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from eventvec.errors import ConfigError
from eventvec.serving.measures import route_of
from eventvec.serving.serve_options import ServeOptions

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN = "EVENTVEC_TOKEN"
SHORTEST = 16
"""The smallest number of characters of a token."""
BODIES = 64
"""How many bodies of the largest size are held at once; a request beyond that is refused."""
IGNORED = 16
"""A body of more than so many times the largest size is not read to its end."""
UNLIMITED = ("/health", "/metrics")
"""The paths that the rate does not count, so a busy server can be watched."""
HOST = re.compile(r"([\w.-]+|\[[\da-f:.]+\])(?::\d*)?", re.ASCII | re.IGNORECASE)
"""The header Host, whole: a name or an address, and perhaps a port."""
AGAIN = {"retry-after": "1"}
log = logging.getLogger("eventvec.serving")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("localhost")
        (True, True, False, True)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def read_token(host: str) -> str | None:
    """Return the token that requests must have, from the environment; None if they need none.

    Raises:
        ConfigError: If there is none, and the host is not a loopback address, or if it is too short.
    """
    token = os.environ.get(TOKEN) or None
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"host {host!r} can be reached from other machines, which needs a token: set the variable {TOKEN} to at "
            f"least {SHORTEST} characters, or use 127.0.0.1"
        )
    if token is not None and (len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token):
        raise ConfigError(f"{TOKEN} must have at least {SHORTEST} ASCII characters, and no spaces")
    return token


class Refused(Exception):
    """A request is answered with a code and a sentence."""

    def __init__(self, code: int, detail: str, **headers: str) -> None:
        from fastapi.responses import JSONResponse

        self.response = JSONResponse({"detail": detail}, code, headers)


class Limits:
    """An ASGI application that refuses requests beyond limits, and hands the others to another application.

    Args:
        app: The other application.
        options: The limits.
        token: The token that requests must have, if they need one.
        full: A function that returns whether a push would be refused.
        measure: A function that counts a request, by its path and code.
    """

    def __init__(
        self,
        app: Application,
        options: ServeOptions,
        token: str | None,
        full: Callable[[], bool],
        measure: Callable[[str, int], None],
    ) -> None:
        self._app, self._options, self._full, self._measure = app, options, full, measure
        self._token = None if token is None else token.encode()
        self._bucket = None if options.rate is None else _Bucket(options.rate)
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        code, held = 0, 0

        async def sending(message: Message) -> None:
            nonlocal code
            code = message.get("status", code)
            await send(message)

        try:
            self._check(scope)
            body = await self._body(receive)
            held = len(body)
            self._held += held
            await self._app(scope, _replayed(body, receive), sending)
        except Refused as refused:
            await refused.response(scope, receive, sending)
        except Exception as error:
            log.error("a request to %s failed: %s", route_of(scope["path"]), place_of(error))
            if not code:
                failed = Refused(500, "the server has failed; its log says where")
                await failed.response(scope, receive, sending)
        finally:
            self._held -= held
            self._measure(scope["path"], code)

    def _check(self, scope: Scope) -> None:
        """Refuse a request for what its head says."""
        headers, path = dict(scope["headers"]), scope["path"]
        if self._token is not None:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                detail = "the request needs the header Authorization: Bearer TOKEN"
                raise Refused(401, detail, **{"www-authenticate": "Bearer"})
        elif not _names_loopback(headers.get(b"host", b"").decode("latin-1")):
            raise Refused(403, f"the header Host must name this machine (localhost); otherwise set {TOKEN}")
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if scope.get("method") == "POST" and kind != b"application/json":  # which no page of another site can send
            raise Refused(415, "the request needs the header Content-Type: application/json")
        if self._bucket is not None and path not in UNLIMITED and not self._bucket.takes_one(time.monotonic()):
            raise _busy(f"more than {self._options.rate:g} requests a second; send it again later")
        if path == "/events" and self._full():
            raise _busy("too many pushes wait to be applied; send it again later")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > IGNORED * self._options.body:
            raise self._too_large(connection="close")

    async def _body(self, receive: Receive) -> bytes:
        """Return the body of a request; one that is too large is read on, or some clients would not read the answer."""
        parts, size, held = list[bytes](), 0, 0
        try:
            async with asyncio.timeout(self._options.seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Refused(400, "the client has gone")
                    part = message.get("body", b"")
                    size += len(part)
                    if size > IGNORED * self._options.body:
                        raise self._too_large(connection="close")
                    if size <= self._options.body:
                        parts.append(part)
                        held += len(part)
                        self._held += len(part)
                    if self._held > BODIES * self._options.body:
                        raise _busy("too many large bodies at a time; send it again later")
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            seconds = f"{self._options.seconds:g}"
            raise Refused(408, f"the body did not arrive within {seconds} seconds", connection="close") from None
        finally:
            self._held -= held
        if size > self._options.body:
            raise self._too_large()
        return b"".join(parts)

    def _too_large(self, **headers: str) -> Refused:
        most = f"{self._options.body:,}"
        return Refused(413, f"the body has more than {most} bytes; send fewer events at a time", **headers)


class _Bucket:
    """A bucket that fills at a rate, up to what one second brings, and of which each request takes one."""

    def __init__(self, rate: float) -> None:
        self._rate, self._most = rate, max(rate, 1.0)
        self._level, self._since = self._most, time.monotonic()

    def takes_one(self, now: float) -> bool:
        """Return whether there was one to take."""
        self._level = min(self._level + (now - self._since) * self._rate, self._most)
        self._since = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


def place_of(error: BaseException) -> str:
    """Return the type of an error and the line that raised it, without its message, which may contain a key.

    Example:
        >>> place_of(KeyError("card 7"))
        'KeyError'
    """
    frames = traceback.extract_tb(error.__traceback__)
    return type(error).__name__ + (f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "")


def _busy(detail: str) -> Refused:
    return Refused(429, detail, **AGAIN)


@lru_cache(100)
def _names_loopback(host: str) -> bool:
    """Return whether the header Host names this machine, so no page of another site can ask by a name of its own.

    Without the header no browser asks.
    """
    parts = HOST.fullmatch(host)
    return not host or (parts is not None and is_loopback(parts[1]))


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that gives a body, and then what else there is to receive."""
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving
