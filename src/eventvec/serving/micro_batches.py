"""Pushes that wait for one thread, which applies all that wait at once.

Nothing is delayed to make a batch larger. While one batch is applied, the next one gathers: an idle server applies one
push at a time, and a busy one up to `AT_ONCE` in one transaction.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from typing import TypeAlias

import polars as pl

from eventvec.errors import EventvecError
from eventvec.serving.pushes import Push, Pushed
from eventvec.serving.session import StateSession

AT_ONCE = 100
"""The largest number of pushes that are applied in one transaction."""
Result: TypeAlias = Pushed | Exception
"""What became of a push: an `EventvecError` says why it was refused, and any other error is unexpected."""


@dataclass
class _Waiting:
    """A push whose request waits for its result, or None once it does not, so no memory is held."""

    push: Push | None
    result: asyncio.Future[Result]

    def leave(self, result: asyncio.Future[Result]) -> None:
        """Let go of the push."""
        self.push = None


class MicroBatches:
    """A queue of pushes, and the thread that applies them.

    Args:
        session: What applies them.
        waiting: The largest number of pushes in the queue.
    """

    def __init__(self, session: StateSession, waiting: int) -> None:
        self._session, self._most = session, waiting
        self._queue: Queue[_Waiting | None] = Queue()
        self._thread = threading.Thread(target=self._run, name="eventvec pushes", daemon=True)
        self._ends = False

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread after it has applied all that waits."""
        self._ends = True
        self._queue.put(None)
        self._thread.join()

    @property
    def running(self) -> bool:
        """Whether pushes are applied."""
        return self._thread.is_alive() and not self._ends

    @property
    def full(self) -> bool:
        """Whether a further push must be refused."""
        return len(self) >= self._most

    def __len__(self) -> int:
        """Return the number of pushes that wait."""
        return self._queue.qsize()

    def submit(self, push: Push) -> asyncio.Future[Result] | None:
        """Return the future result of a push; None if the queue is full or closed. One event loop calls this.

        A push is left out if its result is cancelled before its turn comes.
        """
        if self.full or not self.running:
            return None
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(push, result)
        result.add_done_callback(waiting.leave)
        self._queue.put(waiting)
        return result

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            taken = [self._queue.get()]
            with suppress(Empty):
                while len(taken) < AT_ONCE and taken[-1] is not None:
                    taken.append(self._queue.get_nowait())
            goes_on = taken[-1] is not None
            pairs = [(each.push, each.result) for each in taken if each is not None]
            self._apply([(push, result) for push, result in pairs if push is not None])

    def _apply(self, taken: list[tuple[Push, asyncio.Future[Result]]]) -> None:
        if not taken:
            return
        results: Sequence[Result]
        try:
            results = self._session.push_many([push for push, _ in taken])
        except EventvecError as error:  # of the store; nothing was applied
            results = [error] * len(taken)
        except (Exception, pl.exceptions.PanicException) as error:
            if len(taken) > 1:  # one of them is at fault
                for each in taken:
                    self._apply([each])
                return
            results = [error if isinstance(error, Exception) else RuntimeError("polars has failed")]
        futures = [future for _, future in taken]
        with suppress(RuntimeError):  # the event loop has ended, and with it the requests
            futures[0].get_loop().call_soon_threadsafe(_deliver, futures, results)


def _deliver(futures: Sequence[asyncio.Future[Result]], results: Sequence[Result]) -> None:
    """Give each request its result, in the event loop; an error as a value, which asyncio does not log."""
    for future, result in zip(futures, results, strict=True):
        if not future.done():  # the request still waits
            future.set_result(result)
