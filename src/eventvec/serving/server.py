"""`serve`: fresh vectors and predictions over HTTP, until the process is told to end."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventvec.errors import ConfigError, need, reason
from eventvec.models import Model
from eventvec.options import accepts, gather
from eventvec.serving.limits import log, place_of, read_token
from eventvec.serving.routes import application
from eventvec.serving.serve_options import ServeOptions
from eventvec.serving.session import open_state
from eventvec.serving.slow_heads import SlowHeads

if TYPE_CHECKING:
    from uvicorn import Server

BACKLOG = 2048
"""The number of connections that the system accepts before the server does."""
FILES = 100
"""The number of open files that a server keeps free for other things than connections."""


@accepts(ServeOptions)
def serve(
    model: Model, state: Path | str, *, ready: Callable[[str], None] = lambda address: None, **options: Any
) -> None:
    """Answer requests until SIGTERM or Ctrl-C; what waits then is applied and answered before this returns.

    The main thread must call this, because signals reach only that one.

    Args:
        model: The model.
        state: Its store, which is created if it is missing.
        ready: A function that is called with the address as soon as requests are accepted.
        options: Those of `ServeOptions`.

    Raises:
        ConfigError: If an option is out of range, the host needs a token, or the port is taken.
        CheckpointError: If the store is of another model, damaged, or open in another server.

    Example:
        >>> import eventvec as ev
        >>> ev.serve(ev.load("run"), "state.db", ready=print)  # doctest: +SKIP
        http://127.0.0.1:8000
    """
    chosen = gather(options, ServeOptions)
    uvicorn, token = need("uvicorn", "serve"), read_token(chosen.host)
    for module in ("fastapi", "prometheus_client"):
        need(module, "serve")
    from uvicorn.protocols.http.h11_impl import H11Protocol

    heads, keep, durability = SlowHeads(chosen.seconds), chosen.keep, chosen.durability
    with listening(chosen) as listener, open_state(model, state, keep=keep, durability=durability) as session:
        settings = uvicorn.Config(
            heads.application(application(session, chosen, token)), http=heads.protocol(H11Protocol), ws="none",
            lifespan="on", access_log=False, log_config=None, server_header=False, proxy_headers=False,
            limit_concurrency=connections(chosen.waiting), timeout_graceful_shutdown=int(2 * chosen.seconds) + 1,
        )  # fmt: skip
        with logging_to_stderr(), ended_by_signals(server := uvicorn.Server(settings)):
            host, port = listener.getsockname()[:2]
            ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
            server.run(sockets=[listener])


def connections(waiting: int) -> int:
    """Return the largest number of connections: twice the pushes that may wait, but fewer than files may be open."""
    most = 2 * waiting + FILES
    if sys.platform == "win32":
        return most
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if files == resource.RLIM_INFINITY else max(min(most, files - FILES), 1)


@contextmanager
def listening(options: ServeOptions) -> Iterator[socket.socket]:
    """Yield a socket that is bound to the address of a server.

    Raises:
        ConfigError: If it cannot be.
    """
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # asyncio sends small answers at once (TCP_NODELAY) only where the protocol is given; else each takes 40 ms more.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        if sys.platform != "win32":  # where it would let two servers have one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((options.host, options.port))
            bound.listen(BACKLOG)
        except OSError as error:
            place = f"host {options.host!r} and port {options.port}"
            raise ConfigError(f"{place} cannot be used: {reason(error)}") from error
        yield bound


@contextmanager
def ended_by_signals(server: Server) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end a server, as an ordinary end of the command."""

    def end(number: int, frame: Any) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _WithoutMessages(logging.Formatter):
    """A format of lines that show of an exception its type and place, because its message may contain a key."""

    def formatException(self, ei: Any) -> str:
        """Return the type and the place of an exception."""
        error: BaseException | None = ei[1]
        return "" if error is None else place_of(error)


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Write warnings and errors of the server and of what it runs on to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_WithoutMessages("%(asctime)s %(levelname)s %(message)s"))
    loggers = [log, *(logging.getLogger(name) for name in ("uvicorn", "asyncio"))]
    before = [(each, each.level, each.propagate) for each in loggers]
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(logging.WARNING)
        each.propagate = False
    try:
        yield
    finally:
        for each, level, propagate in before:
            each.removeHandler(handler)
            each.setLevel(level)
            each.propagate = propagate
