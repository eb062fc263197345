"""The time of one entity's embedding from a list of dictionaries, as a service computes it, beside a plain baseline.

The baseline is a pandas frame of the same list, aggregated as one writes it by hand. Both begin with the dictionaries.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl

import eventvec as ev
from benchmarks.measure import alternate, options, ratio, show


def entity(events: pl.DataFrame, longest: int) -> list[dict[str, Any]]:
    """Return the events of the entity whose number of events is nearest to one below a limit."""
    counts = events.group_by("tailnum").len().sort((pl.col("len").cast(pl.Int64) - longest).abs(), "tailnum")
    return events.filter(pl.col("tailnum") == counts["tailnum"][0]).to_dicts()


def aggregates(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return counts by category, and sums, means and deviations of the numbers."""
    frame = pd.DataFrame(rows)
    numbers = frame[["distance", "air_time", "dep_delay"]].agg(["sum", "mean", "std"])
    counts = pd.concat([frame[name].value_counts() for name in ("carrier", "origin", "dest")])
    return pd.concat([numbers.stack(), counts])


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, "one_entity")
    parsed = parser.parse_args()
    events, _ = ev.datasets.flights_frames()
    some = events.filter(
        pl.col("tailnum").is_in(events["tailnum"].unique().sort()[: 40 if parsed.small else 400].to_list())
    )
    vectorizer = ev.EventVectorizer("tailnum", "time", epochs=1, progress=False).fit(some)
    rows = []
    for longest in (10, 100) if parsed.small else (10, 100, 400):
        history = entity(some, longest)
        functions = {
            "ours": lambda history=history: vectorizer.transform(history),
            "aggregates": lambda history=history: aggregates(history),
        }
        seconds = alternate(functions, 3 if parsed.small else 50)
        quotient, least, most = ratio(seconds["ours"], seconds["aggregates"])
        milliseconds = {f"{name}, ms": 1000 * sorted(times)[len(times) // 2] for name, times in seconds.items()}
        rows.append({"events": len(history), **milliseconds, "ratio": quotient, "least": least, "most": most})
    show("one_entity", rows, {"small": parsed.small}, parsed.json)


if __name__ == "__main__":
    main()
