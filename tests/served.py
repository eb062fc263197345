"""Servers in processes of their own, and a client with little overhead, for tests of `serve`."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

import eventvec as ev
import processes
import updates
from eventvec.serving.server import serve


class Server(NamedTuple):
    """A running server.

    Args:
        log: The file with what it printed.
    """

    process: ForkServerProcess
    port: int
    log: Path


def _serve(state: str, log: str, address: str, model: str | None, options: dict[str, Any]) -> None:
    """Serve a model from its folder, or an untrained one; this is what a process does."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)

    def ready(place: str) -> None:
        Path(address).with_suffix(".draft").write_text(place)
        Path(address).with_suffix(".draft").rename(address)

    serve(ev.load(model) if model else updates.untrained(), state, ready=ready, **options)


def start(state: Path, model: Path | None = None, **options: Any) -> Server:
    """Return a server of a model in a folder, or of an untrained one, once it accepts requests."""
    log, address = state.with_suffix(".log"), state.with_suffix(".address")
    address.unlink(missing_ok=True)
    folder = None if model is None else str(model)
    process = processes.start(_serve, str(state), str(log), str(address), folder, {"port": 0, **options})
    while not address.exists():
        process.join(0.01)
        assert process.exitcode is None, log.read_text()
    return Server(process, int(address.read_text().rpartition(":")[2]), log)


@contextmanager
def running(state: Path, **options: Any) -> Iterator[Server]:
    """Yield a server, which is ended at the end as a service manager does it."""
    server = start(state, **options)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.join()


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
    return port


def event(key: object, second: int = 0, amount: float | None = 1.0) -> dict[str, Any]:
    """Return an event of an entity, some seconds after the start of a day."""
    at = f"2024-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return {"id": key, "at": at, "code": "v1", "amount": amount}


class Client:
    """A connection to a server, which is made anew after an error."""

    def __init__(self, port: int) -> None:
        self._port, self._streams = port, None

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return the code and the answer to a request; 0 if there was none."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            writer.write(f"{head}{len(content)}\r\n\r\n".encode() + content)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
            length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
            answer = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return 0, None
        if "connection: close" in lines:
            self.close()
        is_json = any(line.startswith("content-type: application/json") for line in lines)
        return int(lines[0].split()[1]), json.loads(answer) if is_json else None

    async def until_answered(self, path: str, body: dict[str, Any]) -> Any:
        """Return the answer to a request, which is sent again until there is one."""
        while True:
            code, answer = await self.post(path, body)
            if code == 200:
                return answer
            assert code in (0, 429, 503), (code, answer)
            await asyncio.sleep(0.02)

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None
