"""How fast a million events are read from Parquet, DuckDB, Delta Lake and Postgres, in one run.

Postgres is measured where its programs are installed, on a server that is started for it. Each source has the same rows
in the same order: a key, a time, a category and two numbers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import numpy as np
import polars as pl
from tests.postgres import programs, running

import eventvec as ev
from benchmarks.measure import alternate, options, ratio, show


def table(n_events: int) -> pl.DataFrame:
    """Return events of cards with 100 events each in the mean, in random order."""
    rng = np.random.default_rng(0)
    seconds = rng.integers(0, 10**8, n_events)
    return pl.DataFrame(
        {
            "card": rng.integers(0, max(n_events // 100, 1), n_events),
            "when": np.datetime64("2020-01-01", "us") + seconds * np.timedelta64(1, "s"),
            "shop": np.char.add("shop ", rng.integers(0, 200, n_events).astype(str)),
            "amount": rng.exponential(20, n_events).round(2),
            "points": rng.integers(0, 50, n_events),
        }
    )


def stored(folder: Path, events: pl.DataFrame, server: Any) -> dict[str, str]:
    """Return the address of the events in each place."""
    addresses = {
        "Parquet": str(folder / "events.parquet"),
        "DuckDB": f"duckdb://{folder / 'events.db'}#events",
        "Delta Lake": f"delta://{folder / 'events'}",
    }
    events.write_parquet(folder / "events.parquet")
    with duckdb.connect(str(folder / "events.db")) as connection:
        connection.register("rows", events.to_arrow())
        connection.execute("CREATE TABLE events AS SELECT * FROM rows")
    deltalake.write_deltalake(str(folder / "events"), events)
    if server is not None:
        import adbc_driver_postgresql.dbapi

        with adbc_driver_postgresql.dbapi.connect(server.url()) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("events", events.to_arrow(), mode="create")
            connection.commit()
        addresses["Postgres"] = f"{server.url()}#events"
    return addresses


def reader(address: str) -> Callable[[], Any]:
    """Return a function that reads the events at an address."""
    columns = {"key": "card", "time": "when", "categorical": ["shop"], "numeric": ["amount", "points"]}
    return lambda: ev.read(address, ties="canonical", **columns)


def main() -> None:
    """Run the benchmark."""
    parsed = options(__doc__, "sources").parse_args()
    n_events = 10_000 if parsed.small else 1_000_000
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(running()) if programs() else None
        readers = {name: reader(address) for name, address in stored(folder, table(n_events), server).items()}
        seconds = alternate(readers, 3 if parsed.small else 7)
    rows = []
    for name, times in seconds.items():
        quotient, least, most = ratio(times, seconds["Parquet"])
        rate = n_events / sorted(times)[len(times) // 2]
        rows.append(
            {"source": name, "events": n_events, "rows/s": rate, "ratio": quotient, "least": least, "most": most}
        )
    show("sources", rows, {"small": parsed.small}, parsed.json)


if __name__ == "__main__":
    main()
