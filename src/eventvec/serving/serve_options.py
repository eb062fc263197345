"""The options of a server of fresh vectors and predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from eventvec.errors import ConfigError
from eventvec.options import above_zero, at_least, each_at_least, one_of, within

Durability = Literal["full", "batch"]


@dataclass(frozen=True)
class ServeOptions:
    """Where a server listens, how it keeps states, and its limits.

    Args:
        host: The address to listen on. Any but a loopback address needs a token in the variable EVENTVEC_TOKEN.
        port: The port to listen on; 0 takes a free one.
        keep: The number of last pushes that can be given again; all by default, and the store then grows with each.
        durability: What an answered push survives: with `full` a power cut, with `batch` only a killed process.
        waiting: The largest number of pushes that wait to be applied; a further one is refused with code 429. Twice as
            many connections are accepted.
        body: The largest number of bytes of a request's body; a longer one is refused with code 413.
        rate: The largest number of requests a second, all clients together; no limit by default.
        seconds: The seconds in which a client must send its headers, then its body, and in which a push is answered.

    Raises:
        ConfigError: If an option is out of range.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    keep: int | None = None
    durability: Durability = "full"
    waiting: int = 1000
    body: int = 1_000_000
    rate: float | None = None
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if not self.host.strip():
            raise ConfigError("host must be an address or a name, got an empty text")
        within("port", self.port, 0, 65535)
        at_least("keep", self.keep, 1)
        one_of("durability", self.durability, get_args(Durability))
        each_at_least(1, waiting=self.waiting, body=self.body)
        above_zero("seconds", self.seconds)
        if self.rate is not None:
            above_zero("rate", self.rate)
