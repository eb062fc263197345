"""Real servers and clients: bad, huge and slow requests, many at a time, a kill in the middle, and the end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest

import eventvec as ev
import fits
import updates
from commands import invoke
from eventvec.serving.server import serve
from served import Client, Server, event, free_port, running, start

KEYS = ("secret-key-1", "secret-key-2", "secret-key-3")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server whose store has an entity; at its end, its log has no key."""
    state = tmp_path_factory.mktemp("server") / "state.db"
    with running(state, body=20_000) as server:
        httpx.post(f"http://127.0.0.1:{server.port}/events", json={"events": [event(KEYS[0], 10)]}).raise_for_status()
        yield server
    assert server.process.exitcode == 0
    text = server.log.read_text()
    assert not any(part in text for part in (*KEYS, "secret", "Traceback")), text


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:
        yield client


def embedded(events: list[dict[str, Any]]) -> np.ndarray[Any, Any]:
    """Return the vectors of whole histories, by the slow way, in order of the keys."""
    return updates.untrained().embed(pl.DataFrame(events).with_columns(pl.col("at").str.to_datetime())).values


def test_events_come_back_as_vectors_and_are_applied_once(client: httpx.Client) -> None:
    first, second = [event("b", 5), event("a", 9), event("b", 7)], [event("b", 8, None)]
    body = {"events": first, "batch_id": "first", "position": {"cards": "17-0"}}
    answer = client.post("/events", json=body).json()
    assert (answer["keys"], answer["applied"], answer["new"], answer["run"]) == (["a", "b"], True, 2, "3f2a")
    np.testing.assert_allclose(answer["vectors"], embedded(first), atol=1e-5)
    assert client.get("/health").json()["positions"] == {"cards": "17-0"}
    again = client.post("/events", json=body).json()
    assert (again["vectors"], again["applied"]) == (answer["vectors"], False)
    after = client.post("/events", json={"events": second}).json()
    np.testing.assert_allclose(after["vectors"], embedded([*first, *second])[1:], atol=1e-5)
    assert client.get("/vectors/b").json() == {"run": "3f2a", "vector": after["vectors"][0]}


def test_keys_of_any_text_have_a_vector(client: httpx.Client) -> None:
    for key in ("a/b", "ä ö", "%41", "..", "a?b#c", "x" * 500):
        answer = client.post("/events", json={"events": [event(key)]}).json()
        path = "/vectors/" + "".join(f"%{byte:02X}" for byte in key.encode())
        assert client.get(path).json()["vector"] == answer["vectors"][0], key


def test_what_a_run_does_not_read_is_noted_and_late_events_may_be_left_out(client: httpx.Client) -> None:
    body = {"events": [{**event("notes", 5), "shop": "x", "code": "unseen"}, {**event("notes", 6), "paid": True}]}
    notes = client.post("/events", json=body).json()["notes"]
    assert notes[0] == "columns that the run does not read: paid, shop"
    assert "'code'" in notes[1]
    body = {"events": [event("notes", 1), event("notes", 9)], "late": "drop"}
    answer = client.post("/events", json=body).json()
    assert (answer["late"], answer["notes"]) == (1, ["1 late events were left out"])


def test_a_store_that_is_removed_under_a_server_answers_503_until_it_is_back(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    with running(state) as server, httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:
        client.post("/events", json={"events": [event(KEYS[0], 1)]}).raise_for_status()
        state.rename(tmp_path / "moved.db")
        answers = [
            client.post("/events", json={"events": [event(KEYS[0], 2)]}), client.get("/health"),
            client.get(f"/vectors/{KEYS[0]}"), client.post("/predict", json={"keys": [KEYS[0]]}),
        ]  # fmt: skip
        assert [answer.status_code for answer in answers] == [503, 503, 503, 501]
        assert all(list(answer.json()) == ["detail"] for answer in answers)
        (tmp_path / "moved.db").rename(state)
        assert client.get("/health").json()["ready"]
        assert client.post("/events", json={"events": [event(KEYS[0], 2)]}).json()["applied"]
    assert server.log.read_text().count("or the log beside it, was removed or replaced while it was open") == 3


BAD: dict[str, tuple[Any, str]] = {
    "a late event": ([event(KEYS[0], 1)], "older than the last event"),
    "a number as key": ([event(1.5)], "cannot be the key"),
    "no key": ([event(None)], "cannot be the key"),
    "no column of the key": ([{name: value for name, value in event("a").items() if name != "id"}], "has no 'id'"),
    "too many events": ([{}] * 1001, "at most 1000 items"),
    "keys of two types": ([event(KEYS[1]), event(7)], "mixes types"),
    "a key that is no text": ([event("\ud800")], "not Unicode"),
    "a column is missing": ([{"id": KEYS[1], "at": "2024-01-01T00:00:00"}], "no column 'code'"),
    "a column is missing once": ([event(KEYS[1]), {"id": KEYS[1]}], "event 1 has other columns"),
    "a text as number": ([{**event(KEYS[1]), "amount": KEYS[2]}], "'amount' is numeric"),
    "a number too large": ([event(KEYS[1], amount=10.0**300)], "infinite"),
    "a list": ([{**event(KEYS[1]), "code": [KEYS[2]]}], "'code' cannot be categorical"),
    "a time of another kind": ([{**event(KEYS[1]), "at": 5}], "timestamp values"),
    "a time that is none": ([{**event(KEYS[1]), "at": KEYS[2]}], "unreadable time"),
    "no events": ([], "at least 1 item"),
    "no list": ({KEYS[1]: 5}, "valid list"),
    "no objects": ([KEYS[1]], "events.0"),
}


def applied(client: httpx.Client) -> float:
    """Return the number of events that the server says it applied."""
    (line,) = [line for line in client.get("/metrics").text.splitlines() if line.startswith("eventvec_events_total")]
    return float(line.split()[1])


@pytest.mark.parametrize("name", BAD)
def test_events_that_cannot_be_used_change_nothing(name: str, client: httpx.Client) -> None:
    events, words = BAD[name]
    before = applied(client), client.get(f"/vectors/{KEYS[0]}").json()
    good = {"events": [event("good", 1)], "batch_id": name}
    content = json.dumps({**good, "events": events}).encode()
    answer = client.post("/events", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, list(answer.json())) == (422, ["detail"]), answer.text
    assert words in answer.json()["detail"]
    assert not any(key in answer.text for key in KEYS), answer.text
    assert (applied(client), client.get(f"/vectors/{KEYS[0]}").json()) == before
    assert client.post("/events", json=good).json()["applied"]  # the name was not taken


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", 422, "JSON object"),
        (b"{", 422, "not JSON (at character 1)"),
        (b'"secret-key-1"', 422, "JSON object"),
        (b"\xff\xfe\x00", 400, "parsing"),
        (b"[" * 15_000, 400, "parsing"),
        (b'{"events": [{"id": ' + b"9" * 5000 + b"}]}", 400, "parsing"),
        (b'{"events": [{}], "secret-key-1": 1}', 422, "unknown field; accepted: events"),
        (b'{"events": [{}], "late": "secret-key-1"}', 422, "late: Input should be 'refuse' or 'drop'"),
        (b'{"events": [{}], "batch_id": ""}', 422, "batch_id"),
        (b'{"events": [{}], "position": {}}', 422, "position"),
        (b'{"events": [{}], "position": {"secret-key-1": 5}}', 422, "position: Input should be a valid string"),
    ],
)
def test_malformed_bodies_are_refused_without_repeating_them(
    content: bytes, code: int, words: str, client: httpx.Client
) -> None:
    answer = client.post("/events", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == code, answer.text
    assert words in answer.json()["detail"]
    assert KEYS[0] not in answer.text


def test_a_body_that_is_not_declared_as_json_is_refused(client: httpx.Client) -> None:
    content = json.dumps({"events": [event("plain")]})
    for headers in ({"content-type": "text/plain"}, {"content-type": "application/jsonx"}, {}):
        assert client.post("/events", content=content, headers=headers).status_code == 415


def test_bytes_that_are_not_http_are_refused(server: Server, client: httpx.Client) -> None:
    for content in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET / a HTTP/1.1\r\n\r\n",
        b"POST /events HTTP/1.1\r\n: x\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port), 120) as sent:
            sent.sendall(content + b"\r\n\r\n")
            assert sent.recv(1000).startswith(b"HTTP/1.1 400")
    assert client.get("/health").json()["ready"]


def test_entities_and_paths_that_are_not_there(client: httpx.Client) -> None:
    for path in ("/vectors/absent-secret", "/vectors/", "/vectors/%00", "/absent-secret"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "absent-secret" not in answer.text
    assert client.post("/predict", json={"keys": [KEYS[0]]}).status_code == 501
    assert client.get("/events").status_code == 405


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_that_are_too_large_are_refused(chunked: bool, client: httpx.Client) -> None:
    content = iter([b"x" * 1000] * 100) if chunked else b"x" * 100_000
    as_json = {"content-type": "application/json"}
    answer = client.post("/events", content=content, headers=as_json)
    assert (answer.status_code, "20,000 bytes" in answer.json()["detail"]) == (413, True)
    assert client.post("/events", content=b" " * 20_000, headers=as_json).status_code == 422  # and not 413


def test_metrics_count_routes_and_have_no_key(client: httpx.Client) -> None:
    client.get(f"/vectors/{KEYS[0]}")
    client.get(f"/{KEYS[0]}")
    text = client.get("/metrics").text
    assert 'eventvec_requests_total{code="200",route="/vectors/{key}"}' in text
    assert 'eventvec_requests_total{code="404",route="other"}' in text
    assert "eventvec_push_seconds_bucket" in text
    assert "eventvec_waiting 0.0" in text
    assert not any(key in text for key in KEYS)


def test_the_page_about_the_routes_names_all(client: httpx.Client) -> None:
    assert "swagger" in client.get("/docs").text
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/events", "/vectors/{key}", "/predict", "/tables", "/health", "/metrics"}


def test_slow_clients_lose_their_connections(tmp_path: Path) -> None:
    with running(tmp_path / "state.db", seconds=0.2) as server:
        place, head = ("127.0.0.1", server.port), b"POST /events HTTP/1.1\r\nHost: localhost\r\n"
        post = head + b"Content-Type: application/json\r\nContent-Length: 90\r\n\r\n{"
        with socket.create_connection(place, 120) as silent, socket.create_connection(place, 120) as half:
            half.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
            with socket.create_connection(place, 120) as body:
                body.sendall(post)
                assert body.recv(1000).startswith(b"HTTP/1.1 408")
            assert (half.recv(1000), silent.recv(1000)) == (b"", b"")
        with socket.create_connection(place, 120) as kept:
            kept.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert kept.recv(1000).startswith(b"HTTP/1.1 404")
            kept.sendall(b"GET /hea")
            while kept.recv(1000):  # the rest of the first answer
                pass


async def send_all(port: int, clients: int, each: int, after: int, kill: Any) -> list[Any]:
    """Return the answers to pushes of many clients, each with an entity of its own; after some of them, call `kill`."""
    answers, half = list[Any](), asyncio.Event()

    async def one(number: int) -> None:
        client = Client(port)
        for place in range(each):
            body = {"events": [event(f"k{number}", place, number)], "batch_id": f"{number}-{place}"}
            answers.append(await client.until_answered("/events", body))
            if len(answers) == after:
                half.set()
        client.close()

    async def killing() -> None:
        await half.wait()
        await asyncio.to_thread(kill)

    await asyncio.gather(killing(), *map(one, range(clients)))
    return answers


@pytest.mark.parametrize(
    ("clients", "each"), [(200, 10), pytest.param(500, 60, marks=pytest.mark.slow)], ids=["small", "large"]
)
def test_nothing_is_lost_and_nothing_twice_if_the_server_is_killed_under_load(
    clients: int, each: int, tmp_path: Path
) -> None:
    state, port = tmp_path / "state.db", free_port()
    servers = [start(state, port=port)]

    def kill() -> None:
        servers[0].process.kill()
        servers[0].process.join()
        servers.append(start(state, port=port))

    answers = asyncio.run(send_all(port, clients, each, clients * each // 3, kill))
    servers[1].process.terminate()
    servers[1].process.join()
    assert servers[1].process.exitcode == 0
    assert len(answers) == clients * each
    counts = {key: events for key, events, *_ in updates.content(state)}
    assert counts == {f"k{number}": each for number in range(clients)}
    events = [event(f"k{number}", place, number) for number in range(clients) for place in range(each)]
    with ev.open_state(updates.untrained(), state, read_only=True) as session:
        np.testing.assert_allclose(session.vectors(sorted(counts)), embedded(events), atol=1e-5)


@pytest.mark.slow
def test_predictions_are_those_of_whole_histories_after_a_kill_under_load(tmp_path: Path) -> None:
    """2,000 requests on 200 connections, of a model of labels."""
    model, state, port = updates.predicting(tmp_path / "model"), tmp_path / "state.db", free_port()
    servers = [start(state, tmp_path / "model", port=port)]

    def kill() -> None:
        servers[0].process.kill()
        servers[0].process.join()
        servers.append(start(state, tmp_path / "model", port=port))

    answers = asyncio.run(send_all(port, 200, 10, 700, kill))
    servers[1].process.terminate()
    servers[1].process.join()
    assert (servers[1].process.exitcode, len(answers)) == (0, 2000)
    events = pl.DataFrame([event(f"k{number}", place, number) for number in range(200) for place in range(10)])
    until = "2024-01-02"
    stored = pl.DataFrame(ev.predict(model, state=state, until=until))
    both = stored.join(pl.DataFrame(ev.predict(model, events, until=until)), on="id")
    assert len(both) == 200
    np.testing.assert_allclose(both["p_true"], both["p_true_right"], atol=1e-6)


def test_sigterm_ends_the_server_after_all_that_waits_is_answered(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    server = start(state)

    async def send() -> list[str]:
        answered = list[str]()

        async def one(number: int) -> None:
            code, answer = await Client(server.port).post("/events", {"events": [event(f"k{number}")]})
            answered.extend(answer["keys"] if code == 200 else [])
            if len(answered) == 1:
                os.kill(server.process.pid or 0, signal.SIGTERM)

        await asyncio.gather(*map(one, range(100)))
        return answered

    answered = asyncio.run(send())
    server.process.join()
    assert server.process.exitcode == 0
    assert server.log.read_text() == ""
    assert sorted(answered) == [key for key, *_ in updates.content(state)]
    assert not state.with_name("state.db.lock").exists()


def test_what_cannot_be_served_is_refused_at_the_start(tmp_path: Path, server: Server) -> None:
    with pytest.raises(ev.ConfigError, match=f"port {server.port} cannot be used"):
        serve(updates.untrained(), tmp_path / "state.db", port=server.port)
    assert not (tmp_path / "state.db").exists()
    other = updates.untrained(width=3)
    wrong = f"must hold states of .*{other.states_of}, got those of .*{updates.untrained().states_of}"
    for run, words in ((updates.untrained(), "open in another session"), (other, wrong)):
        with pytest.raises(ev.CheckpointError, match=words):
            serve(run, server.log.with_suffix(".db"), port=0)


def test_the_command_serves_predictions_until_sigterm(tmp_path: Path) -> None:
    data = ev.attach(fits.dataset(), fits.labels())
    run = ev.fit(
        data,
        method={"method": {"name": "supervised", "label": "churn"}, "encoder": {"dim": 8}},
        epochs=1,
        out=tmp_path / "run",
    )
    command = [
        sys.executable,
        "-m",
        "eventvec",
        "serve",
        tmp_path / "run",
        "--state",
        tmp_path / "state.db",
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        events = fits.table(entities=5)
        httpx.post(f"{address}/events", json={"events": events.to_dicts()}, timeout=60).raise_for_status()
        answer = httpx.post(f"{address}/predict", json={"keys": [3, "1"]}, timeout=60).json()
        unread = httpx.post(f"{address}/predict", json={"keys": [3], "cutoff": "tomorrow"}, timeout=60)
        assert (unread.status_code, "'tomorrow' cannot be" in unread.text) == (422, True)
        process.send_signal(signal.SIGTERM)
        rest = process.communicate()
    assert (process.returncode, *rest) == (0, "", "")
    table = pl.DataFrame(ev.predict(run, events))
    expected = table.filter(pl.col("id").is_in([1, 3])).sort("id", descending=True).drop("id")
    assert answer["run"] == run.id
    for row, other in zip(answer["predictions"], expected.to_dicts(), strict=True):
        assert row.pop("events") > 0
        assert list(row) == list(other)
        numbers = {name: value for name, value in other.items() if isinstance(value, float)}
        assert {name: row[name] for name in numbers} == pytest.approx(numbers, rel=1e-4)
        assert {**row, **numbers} == other


def test_mistakes_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, words in (
        (["--host", "0.0.0.0"], "needs a token: set the variable EVENTVEC_TOKEN"),
        (["--port", "65536"], "port must be in [0, 65535]"),
        (["--waiting", "0"], "waiting must be at least 1"),
        (["--rate", "0"], "rate must be above 0"),
        (["--durability", "none"], "'none' is not known"),
    ):
        result = invoke("serve", tmp_path / "run", "--state", tmp_path / "state.db", *arguments)
        assert (result.exit_code, words in " ".join(result.stderr.split())) == (2, True), result.stderr
    monkeypatch.setenv("EVENTVEC_TOKEN", "short")
    result = invoke("serve", tmp_path / "run", "--state", tmp_path / "state.db")
    assert (result.exit_code, "at least 16" in result.stderr, "short" in result.stderr) == (2, True, False)
    assert list(tmp_path.iterdir()) == []
