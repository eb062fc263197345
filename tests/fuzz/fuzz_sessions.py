"""Sessions with a store: pushes in any form, killed consumers, and stores and logs that are removed or damaged.

A session obeys a model, the list of all events that were applied: each push counts once, what was acknowledged is there
after a kill, and every vector is that of the whole history. Where a bit of a file is flipped, all of this holds, or one
sentence refuses the store, or `doctor` finds the damage.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from draws import chance
from outcomes import ACCEPTED, Broken, Refused, check_message, require, way
from typer.testing import CliRunner

import eventvec as ev
import processes
from eventvec.cli import app
from eventvec.serving.pushes import Push, Pushed
from updates import untrained

KEYS = [f"secret-{i:04}" for i in range(7)]
STREAM = "stream"
MOST = 60
"""The largest number of pushes of a consumer."""


def play(rng: Random, folder: Path) -> str:
    """Play one case in an empty folder and return its outcome."""
    name = rng.choice(list(ACTS))
    with way(name):
        ACTS[name](rng, folder)
    return ACCEPTED


def event(rng: Random, second: int) -> dict[str, Any]:
    """Return an event at a time that follows from its place in the stream."""
    at = f"2024-01-{1 + second // 86400:02}T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
    code, amount = rng.choice(("v0", "v1", "other", None)), rng.choice((None, round(rng.gauss(0, 20), 3)))
    return {"id": rng.choice(KEYS), "at": at, "code": code, "amount": amount}


def stream(seed: int, count: int = MOST) -> list[list[dict[str, Any]]]:
    """Return the pushes of a stream, which depend on its seed only."""
    rng = Random(seed)
    return [[event(rng, 10 * place + i) for i in range(rng.choice((1, 1, 1, 4)))] for place in range(count)]


def chain(pushes: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the events of pushes."""
    return [each for events in pushes for each in events]


def check_vectors(session: ev.StateSession, events: list[dict[str, Any]], law: str) -> None:
    """Check that a session has these events, and no others."""
    entities = sorted({each["id"] for each in events})
    require(len(session) == len(entities), f"{law}: other entities", f"{len(session)} and not {len(entities)}")
    if not entities:
        return
    expected = untrained().embed(sorted(events, key=lambda each: each["id"]))
    order = [expected.keys.to_pylist().index(key) for key in entities]
    distance = float(np.abs(session.vectors(entities) - expected.values[order]).max())
    require(distance <= 1e-4, f"{law}: other vectors", distance)


def _pushes(rng: Random, folder: Path) -> None:
    """Push in any form, again, late and wrong, with `update` and a reader between, and close and open again."""
    run, state, applied = untrained(), folder / "state.db", list[dict[str, Any]]()
    given, n = list[Push](), 0
    for _ in range(rng.randint(1, 4)):
        with ev.open_state(run, state, durability=rng.choice(("full", "batch"))) as session:
            for _ in range(rng.randint(1, 6)):
                pushes, fresh = list[Push](), list[bool]()
                for _ in range(rng.randint(1, 5)):
                    if given and chance(rng, 0.25):
                        pushes.append(rng.choice(given))
                        fresh.append(False)
                        continue
                    events = [event(rng, 10 * n + i) for i in range(rng.choice((1, 1, 3)))]
                    position = {STREAM: str(n)} if chance(rng, 0.3) else None
                    pushes.append(Push(events, None if position else f"push {n}", position))
                    fresh.append(True)
                    n += 1
                if chance(rng, 0.2):
                    wrong = rng.choice(([{"id": "x"}], [], [{**event(rng, 0), "at": "soon"}], [{}]))
                    pushes.insert(0, Push(wrong, "wrong"))
                    fresh.insert(0, False)
                results = session.push_many(pushes)
                for push, is_fresh, result in zip(pushes, fresh, results, strict=True):
                    if isinstance(result, ev.EventvecError):
                        check_message(str(result), KEYS)
                        require(push.batch_id == "wrong", "a push that can be used is refused", result)
                        continue
                    assert isinstance(result, Pushed)
                    require(result.applied == is_fresh, "a push counts another number of times than once")
                    if is_fresh:
                        applied += push.events  # type: ignore[arg-type]
                        given.append(push)
                if chance(rng, 0.2):
                    events = [event(rng, 10 * n)]
                    n += 1
                    require(ev.update(run, events, state).applied, "a batch beside a session is not applied")
                    applied += events
            check_vectors(session, applied, "pushes")
            with ev.open_state(run, state, read_only=True) as reader:
                check_vectors(reader, applied, "a reader")
    require(sorted(file.name for file in folder.iterdir()) == ["state.db"], "files are left beside a store")


def consume(state: Path, acknowledged: Path, seed: int, durability: str, ends: int) -> None:
    """Push a stream from where it was read to, and note each answer; this is what a process does."""
    torch.set_num_threads(1)
    answers = os.open(acknowledged, os.O_WRONLY | os.O_CREAT)
    with ev.open_state(untrained(), state, durability=durability) as session:  # type: ignore[arg-type]
        first = int(session.positions.get(STREAM, "-1")) + 1
        for place, events in enumerate(stream(seed)[first:], first):
            session.push(events, position={STREAM: str(place)})
            os.pwrite(answers, b"%03d" % place, 0)
            if place == ends:
                signal.raise_signal(signal.SIGKILL)
            time.sleep(0.001 * (place % 3))


def _killed(rng: Random, folder: Path) -> tuple[Path, int, int]:
    """Return the store of a consumer that was killed at any moment, the seed of its stream and what it was answered."""
    state, acknowledged, seed = folder / "state.db", folder / "acknowledged", rng.randrange(1000)
    last = -1
    for _ in range(rng.randint(1, 2)):
        durability, ends = rng.choice(("full", "full", "batch")), rng.choice((-1, rng.randrange(MOST)))
        process = processes.start(consume, state, acknowledged, seed, durability, ends)
        while process.exitcode is None and not acknowledged.exists():
            process.join(0.005)
        if ends < 0:
            process.join(rng.random() * 0.2)
            process.kill()
        process.join()
        require(process.exitcode in (0, -signal.SIGKILL), "a consumer fails", process.exitcode)
        last = int(acknowledged.read_text() or last) if acknowledged.exists() else last
    return state, seed, last


def _consumer(rng: Random, folder: Path) -> None:
    """Kill a consumer: what it was answered is in the store, and nothing counts twice."""
    state, seed, last = _killed(rng, folder)
    with ev.open_state(untrained(), state) as session:
        position = int(session.positions.get(STREAM, "-1"))
        require(last <= position <= last + 1, "an acknowledged push is lost", f"{position} after {last}")
        check_vectors(session, chain(stream(seed)[: position + 1]), "after a kill")
        for place in range(position + 1, MOST):
            require(session.push(stream(seed)[place], position={STREAM: str(place)}).applied, "a new push is old")
        check_vectors(session, chain(stream(seed)), "after the rest")
    left = sorted(file.name for file in folder.iterdir())
    require(left == ["acknowledged", "state.db"], "files are left beside a store", left)


def _damaged(rng: Random, folder: Path) -> None:
    """Flip bits of the store or the log of a killed consumer; the last transaction of a log may be lost."""
    state, seed, last = _killed(rng, folder)
    if chance(rng, 0.4):
        ev.open_state(untrained(), state).close()  # the log is in the store
    files = [each for each in (state, Path(f"{state}-wal")) if each.exists() and each.stat().st_size]
    if not files:  # the consumer was killed before it had made a store
        return
    file = rng.choice(files)
    content = bytearray(file.read_bytes())
    for _ in range(rng.choice((1, 1, 4))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    if file.name.endswith("-wal") and chance(rng, 0.2):
        content = content[: rng.randrange(len(content))]  # as a power cut leaves it: any number may be lost
        last = -1
    file.write_bytes(content)
    try:
        with ev.open_state(untrained(), state) as session:
            position = int(session.positions.get(STREAM, "-1"))
            require(position >= last - 1, "damage of a log loses several pushes", f"{position} after {last}")
            for place in range(position + 1, MOST):
                session.push(stream(seed)[place], position={STREAM: str(place)})
            check_vectors(session, chain(stream(seed)), "a damaged store")
    except ev.EventvecError as error:
        check_message(str(error), KEYS)
        raise Refused(str(error)) from error
    except Exception as error:
        verified = CliRunner().invoke(app, ["doctor", str(state)])
        if verified.exit_code == 0 or not isinstance(error, Broken | ValueError):
            raise
        raise Refused(f"doctor: {verified.output}") from error


def _removed(rng: Random, folder: Path) -> None:
    """Remove or replace a store or its log under sessions: whatever is pushed then is refused."""
    run, state, pushes = untrained(), folder / "state.db", stream(rng.randrange(1000), 12)
    end = rng.choice(("", "", "-wal", "-shm"))
    with ev.open_state(run, folder / "other.db") as session:
        session.push(pushes[0])
    with ev.open_state(run, state) as session, ev.open_state(run, state, read_only=True) as reader:
        for events in pushes[:5]:
            session.push(events)
        target = Path(f"{state}{end}")
        target.rename(folder / "moved")
        if not end and chance(rng, 0.5):
            shutil.copyfile(folder / "other.db", state)
        for use in random.Random(rng.random()).sample(
            [
                lambda: session.push(pushes[5]), lambda: session.push(pushes[0]), lambda: session.push_many([]),
                lambda: reader.vectors([pushes[0][0]["id"]]), lambda: session.positions, lambda: len(reader),
            ],
            6,
        ):  # fmt: skip
            try:
                use()
            except ev.CheckpointError as error:
                check_message(str(error), KEYS)
            else:
                raise Broken("a session goes on without its store", end)
        back = chance(rng, 0.7)
        if back:
            os.replace(folder / "moved", target)
            for events in pushes[5:]:
                require(session.push(events).applied, "a refused push was applied")
            check_vectors(session, chain(pushes), "a store that was put back")


ACTS = {"pushes": _pushes, "killed consumer": _consumer, "damaged store": _damaged, "removed store": _removed}
"""What a case does, by the name under which it is counted."""
