"""The application of a server in this process: how pushes wait, what is refused, and who may ask."""

from __future__ import annotations

import asyncio
import io
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import eventvec as ev
import updates
from eventvec.serving.limits import BODIES, Limits, read_token
from eventvec.serving.pushes import Push, Pushed
from eventvec.serving.routes import application
from eventvec.serving.serve_options import ServeOptions
from eventvec.serving.session import StateSession
from served import event

FAULTY = "secret-key"
"""A key at which the session below fails."""


class Held:
    """A session whose pushes wait until they may go on; it notes how many are applied at once."""

    def __init__(self, session: StateSession) -> None:
        self.session, self.model = session, session.model
        self.begun, self.goes_on, self.sizes = threading.Event(), threading.Event(), list[int]()

    def push_many(self, pushes: Sequence[Push]) -> list[Pushed | ev.EventvecError]:
        self.sizes.append(len(pushes))
        self.begun.set()
        self.goes_on.wait()
        if any(push.batch_id == FAULTY for push in pushes):
            raise ValueError(FAULTY)
        return self.session.push_many(pushes)

    def __len__(self) -> int:
        return len(self.session)

    @property
    def positions(self) -> dict[str, str]:
        return self.session.positions


@pytest.fixture
def session(tmp_path: Path) -> Any:
    with ev.open_state(updates.untrained(), tmp_path / "state.db") as session:
        yield Held(session)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Return what is logged at any level; pytest's own fixture costs each of all tests milliseconds."""
    root, text = logging.getLogger(), io.StringIO()
    handler, level = logging.StreamHandler(text), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.setLevel(level)
    root.removeHandler(handler)


@asynccontextmanager
async def asking(session: Any, token: str | None = None, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an application in this process."""
    app = application(session, ServeOptions(**options), token)
    async with app.router.lifespan_context(app):
        try:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                yield client
        finally:
            session.goes_on.set()


def push(client: httpx.AsyncClient, key: str, **further: Any) -> Awaitable[httpx.Response]:
    return client.post("/events", json={"events": [event(key)], **further})


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def waiting(client: httpx.AsyncClient, count: int) -> None:
    """Return when so many pushes wait."""
    while f"eventvec_waiting {count}.0" not in (await client.get("/metrics")).text:
        await asyncio.sleep(0.001)


def test_pushes_that_wait_are_applied_together_and_a_full_queue_refuses_at_once(session: Held) -> None:
    async def main() -> None:
        async with asking(session, waiting=3, seconds=60) as client:
            first = asyncio.ensure_future(push(client, "a"))
            await until(session.begun.is_set)
            others = [asyncio.ensure_future(push(client, key)) for key in ("b", "a", "c")]  # twice the same events of a
            await waiting(client, 3)
            refused = await push(client, "d")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            session.goes_on.set()
            answers = [answer.json() for answer in await asyncio.gather(first, *others)]
            assert [(*answer["keys"], answer["applied"]) for answer in answers] == [
                ("a", True), ("b", True), ("a", False), ("c", True),
            ]  # fmt: skip
            assert (await push(client, "d")).json()["new"] == 1

    asyncio.run(main())
    assert session.sizes == [1, 3, 1]
    assert len(session) == 4


def test_a_push_that_fails_fails_alone_and_its_message_is_not_logged(session: Held, logged: io.StringIO) -> None:
    async def main() -> list[httpx.Response]:
        async with asking(session, seconds=60) as client:
            first = asyncio.ensure_future(push(client, "a"))
            await until(session.begun.is_set)
            others = [asyncio.ensure_future(push(client, key, batch_id=key)) for key in ("b", FAULTY, "c")]
            await waiting(client, 3)
            session.goes_on.set()
            return list(await asyncio.gather(first, *others))

    answers = asyncio.run(main())
    assert [answer.status_code for answer in answers] == [200, 200, 500, 200]
    assert session.sizes == [1, 3, 1, 1, 1]
    assert "a request to /events failed: ValueError at test_routes.py" in logged.getvalue()
    assert FAULTY not in logged.getvalue() + answers[2].text


def test_a_push_that_takes_long_counts_once_and_those_behind_it_are_left_out(session: Held) -> None:
    async def main() -> None:
        async with asking(session, seconds=0.05) as client:
            for key in "abc":  # one has begun, and two wait behind it
                answer = await push(client, key)
                assert (answer.status_code, "send the same request again" in answer.json()["detail"]) == (503, True)
            session.goes_on.set()
            while (answer := await push(client, "a")).status_code == 503:
                pass
            assert not answer.json()["applied"]
            assert len(session) == 1

    asyncio.run(main())
    assert session.sizes[0] == 1


def test_what_waits_is_applied_at_the_end(session: Held) -> None:
    async def main() -> None:
        async with asking(session, seconds=60) as client:
            pushes = [asyncio.ensure_future(push(client, "a"))]
            await until(session.begun.is_set)
            pushes += [asyncio.ensure_future(push(client, key)) for key in "bcdef"]
            await waiting(client, 5)
        answers = await asyncio.gather(*pushes)
        assert [answer.status_code for answer in answers] == [200] * 6

    asyncio.run(main())
    assert len(session) == 6


def test_a_store_that_cannot_be_used_is_no_fault_of_the_client(session: Held, logged: io.StringIO) -> None:
    def fails(pushes: Sequence[Push]) -> list[Any]:
        raise ev.CheckpointError("the disk is full")

    session.push_many = fails  # type: ignore[method-assign]

    async def main() -> httpx.Response:
        async with asking(session, seconds=60) as client:
            return await push(client, "a")

    answer = asyncio.run(main())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "the store cannot be used: the disk is full" in logged.getvalue()


def test_every_route_needs_the_token(session: Held) -> None:
    token = "0123456789abcdef"

    async def main() -> None:
        async with asking(session, token) as client:
            for path in ("/health", "/metrics", "/docs", "/openapi.json", "/vectors/a", "/absent"):
                for headers in ({}, {"authorization": token}, {"authorization": f"Bearer {token}x"}):
                    answer = await client.get(path, headers=headers)
                    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            answer = await client.get("/health", headers={"authorization": f"Bearer {token}", "host": "example.org"})
            assert answer.json()["ready"]
            assert (await push(client, "a")).status_code == 401

    asyncio.run(main())
    assert len(session) == 0


def test_the_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENTVEC_TOKEN", raising=False)
    assert read_token("127.0.0.1") is read_token("::1") is read_token("localhost") is None
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org", "127.0.0.1.example.org"):
        with pytest.raises(ev.ConfigError, match="needs a token"):
            read_token(host)
    monkeypatch.setenv("EVENTVEC_TOKEN", "0123456789abcdef")
    assert read_token("0.0.0.0") == "0123456789abcdef"
    for wrong in ("0123456789abcde", "0123456789 abcdef", "0123456789abcdefé"):
        monkeypatch.setenv("EVENTVEC_TOKEN", wrong)
        with pytest.raises(ev.ConfigError, match="at least 16 ASCII characters") as refused:
            read_token("127.0.0.1")
        assert wrong not in str(refused.value)


def test_without_a_token_the_host_must_be_named_as_this_machine(session: Held) -> None:
    async def main() -> None:
        async with asking(session) as client:
            ours = ("localhost:8000", "127.0.0.1", "[::1]:8000", "127.1.2.3:1", "LOCALHOST", "localhost:", "[::1]")
            others = ("example.org", "localhost.example.org", "192.168.0.1:8000", "[::2]:8000", "[::1%x.example.org]")
            forged = ("[::1].example.org", "localhost:80@example.org", "localhost:80:1", "localhost/", "[::1")
            for host in ours:
                assert (await client.get("/health", headers={"host": host})).status_code == 200
            for host in (*others, *forged):
                assert (await client.get("/health", headers={"host": host})).status_code == 403

    asyncio.run(main())


def test_the_rate_limits_all_but_the_routes_that_watch(session: Held) -> None:
    async def main() -> None:
        async with asking(session, rate=0.001) as client:
            codes = [(await client.get("/vectors/a")).status_code for _ in range(3)]
            assert codes == [404, 429, 429]
            assert [(await client.get(path)).status_code for path in ("/health", "/metrics") * 3] == [200] * 6

    session.vector = session.session.vector  # type: ignore[attr-defined]
    asyncio.run(main())


def test_bodies_that_are_held_are_limited_together() -> None:
    counts, goes_on = list[int](), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"x" * 10
        counts.append(1)
        await goes_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    limits = Limits(app, ServeOptions(body=10, seconds=60), None, lambda: False, lambda path, code: counts.append(code))

    async def ask() -> int:
        codes = list[int]()

        async def receive() -> Any:
            return {"type": "http.request", "body": b"x" * 10}

        async def send(message: Any) -> None:
            codes.append(message.get("status"))

        await limits({"type": "http", "path": "/events", "headers": []}, receive, send)
        return codes[0]

    async def main() -> None:
        held = [asyncio.ensure_future(ask()) for _ in range(BODIES)]
        await until(lambda: len(counts) == BODIES)
        assert await ask() == 429
        goes_on.set()
        assert await asyncio.gather(*held) == [200] * BODIES
        assert await ask() == 200

    asyncio.run(main())
