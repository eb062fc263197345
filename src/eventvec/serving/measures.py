"""What a server counts, in the text format of Prometheus. No label is a key."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from eventvec.errors import need

ROUTES = ("/events", "/predict", "/health", "/metrics", "/docs", "/openapi.json")
VECTORS = "/vectors/{key}"
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The upper ends of the buckets of a push's seconds."""


def route_of(path: str) -> str:
    """Return the route of a path, without the key that it may have.

    Example:
        >>> route_of("/vectors/4929000017"), route_of("/4929000017")
        ('/vectors/{key}', 'other')
    """
    if path.startswith("/vectors/"):
        return VECTORS
    return path if path in ROUTES else "other"


class Measures:
    """The counts of one server.

    Args:
        waiting: A function that returns the number of pushes that wait.
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        prometheus = need("prometheus_client", "serve")
        self._text = prometheus.generate_latest
        self._registry = registry = prometheus.CollectorRegistry()
        counter = partial(prometheus.Counter, registry=registry)
        self._requests = counter("eventvec_requests", "Requests by route and code.", ["route", "code"])
        self._events = counter("eventvec_events", "Events that were applied.")
        self._late = counter("eventvec_late_events", "Events that were left out because they were late.")
        self._seconds = prometheus.Histogram(
            "eventvec_push_seconds", "Seconds from a push to its result.", buckets=SECONDS, registry=registry
        )
        gauge = prometheus.Gauge("eventvec_waiting", "Pushes that wait to be applied.", registry=registry)
        gauge.set_function(waiting)

    def request(self, path: str, code: int) -> None:
        """Count a request."""
        self._requests.labels(route_of(path), str(code)).inc()

    def push(self, seconds: float, events: int, late: int) -> None:
        """Count a push that has a result: its seconds, and its events that were applied now or were late."""
        self._seconds.observe(seconds)
        self._events.inc(events)
        self._late.inc(late)

    def text(self) -> bytes:
        """Return all counts in the format of Prometheus."""
        text: bytes = self._text(self._registry)
        return text
