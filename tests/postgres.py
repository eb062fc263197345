"""A Postgres server for tests, in a temporary folder, with a socket and a free port of 127.0.0.1."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Server:
    """A running server: its administrator `ev` needs the password `secret`."""

    port: int

    def url(self, user: str = "ev:secret", database: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def run(self, *statements: str) -> list[tuple[object, ...]]:
        """Return the rows of the last statement, after all were committed."""
        import psycopg

        with psycopg.connect(self.url()) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


def programs(vector: bool = False) -> Path | None:
    """Return the folder of initdb and pg_ctl: EVENTVEC_POSTGRES, those on the path, or Debian's newest.

    For pgvector, which Debian 12 does not have, those of the package pgserver come first. They lack the extensions that
    other tests need, and the package's own code is not run.
    """
    given, on_path = os.environ.get("EVENTVEC_POSTGRES"), shutil.which("pg_ctl")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    candidates = [Path(given)] if given else [Path(on_path).parent] if on_path else debian[-1:]
    package = importlib.util.find_spec("pgserver") if vector and not given else None
    if package and package.origin:
        candidates.insert(0, Path(package.origin).parent / "pginstall" / "bin")
    return next((folder for folder in candidates if (folder / "initdb").exists()), None)


@contextmanager
def running(vector: bool = False) -> Iterator[Server]:
    """Yield a server, which is stopped and deleted at the end; the test is skipped where Postgres is not installed.

    Args:
        vector: Whether the server must have pgvector too.
    """
    folder_of_programs = programs(vector)
    if folder_of_programs is None:
        pytest.skip("Postgres is not installed; `make debian` installs it")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="eventvec-postgres-"))
    data, password = folder / "data", folder / "password"
    password.write_text("secret")
    user: Sequence[int] = ()
    if os.geteuid() == 0:  # the server refuses to run as root
        entry = pwd.getpwnam("nobody")
        user = (entry.pw_uid, entry.pw_gid)
        for path in (folder, password):
            os.chown(path, *user)
    who = {"user": user[0], "group": user[1], "extra_groups": []} if user else {}

    def call(program: str, *arguments: str) -> None:
        subprocess.run(
            [folder_of_programs / program, "-D", data, *arguments], check=True, cwd=folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **who,
        )  # fmt: skip

    try:
        call("initdb", "-A", "scram-sha-256", "-U", "ev", f"--pwfile={password}", "--no-sync", "-E", "UTF8")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        call("pg_ctl", "-w", "-o", options, "-l", str(folder / "log"), "start")
        try:
            server = Server(port)
            if vector and not server.run("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
                pytest.skip(
                    "pgvector is not installed; `make slow` installs it with pgserver, for Python 3.11 and 3.12"
                )
            yield server
        finally:
            call("pg_ctl", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
