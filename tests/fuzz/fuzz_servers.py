"""Servers with requests of any form, clients at a time, kills, and stores that are removed: no answer is 500 or a lie.

What was answered with 200 is in the store after a kill, each push counts once, and without its store a server
answers 503. No answer and no line of the log has a key.
"""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import fuzz_sessions
import httpx
from draws import chance
from fuzz_sessions import KEYS, event
from outcomes import ACCEPTED, check_message, require, way

import eventvec as ev
import served
from updates import untrained

CODES = {200, 400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 501, 503}
ODD = (None, 0, -1, 1.5, 10**400, "", "x", "\x00", "a\nb", [], {}, [[]], True, "2024-01-01", "x" * 5000, "\ud800")
PATHS = ("/health", "/metrics", "/openapi.json", "/docs", "/vectors/absent", "/vectors/", "/absent", "/vectors/%00")


def play(rng: Random, folder: Path) -> str:
    """Play one case in an empty folder and return its outcome."""
    state, applied, again = folder / "state.db", list[dict[str, Any]](), list[tuple[dict[str, Any], Any]]()
    options = {"durability": rng.choice(("full", "batch")), "body": rng.choice((3000, 1_000_000))}
    second = 0
    for _ in range(rng.randint(1, 3)):
        server = served.start(state, **options)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:
                for body, answer in again:  # of the server before, which was ended in any way
                    code, repeated = _post(client, body)
                    require(code == 200 and not repeated["applied"], "an acknowledged push is lost", code)
                    require(answer["vectors"] == repeated["vectors"], "a push given again has other vectors")
                for _ in range(rng.randint(2, 12)):
                    act = rng.choice(("push", "push", "push", "odd", "get", "raw", "together", "removed"))
                    with way(act):
                        if act in ("push", "together"):
                            bodies = []
                            for _ in range(1 if act == "push" else 6):
                                bodies.append({"events": [event(rng, second)], "batch_id": f"push {second}"})
                                second += 1 if act == "push" else 0
                                if act == "together":  # of one entity each, so that none is late
                                    bodies[-1]["events"] = [{**event(rng, second), "id": f"secret-x{second}"}]
                                    second += 1
                            with ThreadPoolExecutor(len(bodies)) as pool:
                                answers = list(pool.map(lambda body: _post(client, body), bodies))
                            for body, (code, answer) in zip(bodies, answers, strict=True):
                                require(code == 200 and answer["applied"], "a push is refused", (code, answer))
                                applied += body["events"]
                                again.append((body, answer))
                        elif act == "odd":
                            _odd(rng, client)
                        elif act == "get":
                            path = rng.choice((*PATHS, f"/vectors/{rng.choice(KEYS)}"))
                            require(client.get(path).status_code in CODES, "a request has another code", path)
                        elif act == "raw":
                            _raw(rng, server.port)
                        else:
                            _removed(client, state, folder / "moved.db", {"events": [event(rng, second)]})
                if chance(rng, 0.5):
                    _killed_under_load(rng, client, server, again, applied, second)
                    second += 8
        finally:
            server.process.kill() if chance(rng, 0.3) else server.process.terminate()
            server.process.join()
        log = server.log.read_text()
        require(not any(key in log for key in KEYS), "the log has a key")
        require("Traceback" not in log, "the log has a traceback", log[-300:])
    with ev.open_state(untrained(), state) as session:
        fuzz_sessions.check_vectors(session, sorted(applied, key=lambda each: each["at"]), "after all servers")
    return ACCEPTED


def _post(client: httpx.Client, body: Any) -> tuple[int, Any]:
    """Return the code and the answer to a push, after a check of both."""
    response = client.post("/events", content=json.dumps(body), headers={"content-type": "application/json"})
    require(response.status_code in CODES, "a push has another code", f"{response.status_code} {response.text[:200]}")
    answer = response.json()
    if response.status_code != 200:
        check_message(answer["detail"], KEYS)
    return response.status_code, answer


def _odd(rng: Random, client: httpx.Client) -> None:
    """Send a push in which something is wrong, which must be refused."""
    body: dict[str, Any] = {"events": [event(rng, 0)], "batch_id": "odd", "late": "refuse"}
    act = rng.choice(("value", "body", "events", "more"))
    if act == "value":
        body["events"][0][rng.choice(("id", "at"))] = rng.choice([odd for odd in ODD if odd not in ("x", "2024-01-01")])
        body["events"][0]["code"] = []
    elif act == "body":
        body = rng.choice([odd for odd in ODD if odd is not None])
    elif act == "events":
        body["events"] = rng.choice(ODD)
    else:
        body["batch_id" if chance(rng, 0.5) else "more"] = rng.choice((0, [], {}, ""))
    code, _ = _post(client, body)
    require(code != 200, "a wrong push is accepted", body)


def _raw(rng: Random, port: int) -> None:
    """Send bytes that are no request, or half of one, and go away."""
    parts = (
        b"GET / HTTP/1.1\r\n", b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n{",
        b"\r\n\r\n", b"\x16\x03\x01\x02", rng.randbytes(50), b"GET /" + b"x" * 9000,
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    )  # fmt: skip
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"".join(rng.sample(parts, rng.randint(1, 3))))


def _removed(client: httpx.Client, state: Path, moved: Path, body: Any) -> None:
    """Move the store away and back: meanwhile the server answers 503."""
    state.rename(moved)
    codes = [_post(client, body)[0], client.get("/health").status_code, client.get(f"/vectors/{KEYS[0]}").status_code]
    require(codes == [503] * 3, "a server goes on without its store", codes)
    moved.rename(state)
    require(client.get("/health").status_code == 200, "a server does not go on with its store")


def _killed_under_load(
    rng: Random, client: httpx.Client, server: served.Server, again: list[Any], applied: list[Any], second: int
) -> None:
    """Kill a server while clients push, and take what was answered as applied, and the rest as not answered."""
    bodies = [
        {"events": [{**event(rng, second + i), "id": f"secret-y{second + i}"}], "batch_id": f"push {second + i}"}
        for i in range(8)
    ]

    def one(body: Any) -> Any:
        try:
            return _post(client, body)
        except httpx.HTTPError:
            return 0, None

    with ThreadPoolExecutor(len(bodies)) as pool:
        answers = [pool.submit(one, body) for body in bodies]
        server.process.join(rng.random() * 0.05)
        server.process.kill()
    server.process.join()
    with ev.open_state(untrained(), server.log.with_suffix(".db")) as session:
        for body, (code, answer) in zip(bodies, (each.result() for each in answers), strict=True):
            require(code in (0, 200, 503), "a push under load is refused", code)
            pushed = session.push(body["events"], batch_id=body["batch_id"])  # counts once, whether it was applied
            require(code != 200 or not pushed.applied, "an acknowledged push is lost")
            applied += body["events"]
            if code == 200:
                again.append((body, answer))
