"""A Redis server for tests, on a free port of 127.0.0.1."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest


@contextmanager
def running() -> Iterator[Any]:
    """Yield a client of a server, which is stopped at the end; the test is skipped where Redis is not installed."""
    redis = pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed; `make debian` installs it")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        client = redis.Redis(port=port, socket_timeout=None)
        for _ in range(100):
            with suppress(redis.ConnectionError):
                client.ping()
                break
            time.sleep(0.1)
        yield client
    finally:
        server.terminate()
        server.wait()
