"""Fields left out of a trained encoder's input, beside models and encoders that were trained without them."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

import eventvec as ev
from eventvec.attribution.left_out import without_column
from eventvec.embedding import encode
from eventvec.statistics import Scores
from experiments.command_line import Row, run

MODEL, SEED = "logistic_regression", 0
CATEGORICAL = ("carrier", "origin", "dest", "hour", "weekday", "cancelled")
NUMERIC = ("dep_delay", "arr_delay", "distance", "air_time")


def retrained(small: bool) -> list[Row]:
    """Flights in the package, built in 2002 or later: four ways to do without a field (AUROC, 20 epochs)."""
    events, labels = ev.datasets.bundled.flights_frames()
    labels = labels.drop_nulls("built_2002")
    if small:
        labels = labels[:40]
        events = events.join(labels, on="tailnum", how="semi")
    epochs, fields = (1, ("carrier",)) if small else (20, (*CATEGORICAL, *NUMERIC))
    data = _read(events, {*CATEGORICAL, *NUMERIC})
    trained = ev.fit(data, method="coles", epochs=epochs, seed=SEED)
    result = ev.influence(trained, data, labels, "built_2002", model=MODEL, entities=len(data))
    z, changes = trained.embed(data), {row["left_out"]: row["change"] for row in result.rows}
    full = _scores(z, labels)
    rows = [{"field": "none", "left out": full.mean, "±": full.interval}]
    again = _scores(ev.fit(data, method="coles", epochs=epochs, seed=SEED + 1).embed(data), labels) - full
    rows.append({"field": "none, another seed", "all trained again": again.mean, "± again": again.interval})
    for field in fields:
        vectors = encode(trained.encoder, without_column(data.sequences, field)).numpy()
        refitted = _scores(replace(z, values=vectors), labels)
        others = _read(events, {*CATEGORICAL, *NUMERIC} - {field})
        without = _scores(ev.fit(others, method="coles", epochs=epochs, seed=SEED).embed(others), labels) - full
        only = _read(events, {field})
        alone = _scores(ev.embed(ev.encoders.Aggregates(only.schema), only), labels)
        rows.append(
            {
                "field": field,
                "left out": changes[field].value,
                "±": changes[field].half_width,
                "model trained again": (refitted - full).mean,
                "± model": (refitted - full).interval,
                "all trained again": without.mean,
                "± again": without.interval,
                "its aggregates alone": alone.mean,
            }
        )
    return [{column: row.get(column) for column in rows[-1]} for row in rows]


def _read(events: pl.DataFrame, fields: set[str]) -> ev.Dataset:
    """Return the flights with some of their fields."""
    categorical, numeric = ([name for name in names if name in fields] for names in (CATEGORICAL, NUMERIC))
    return ev.read(events, key="tailnum", time="time", categorical=categorical, numeric=numeric)


def _scores(z: ev.Embeddings, labels: pl.DataFrame) -> Scores:
    """Return the AUROC of each fold, with what its interval is made of."""
    scores: Scores = ev.evaluate(z, None, labels, "built_2002", models=[MODEL]).basis.get("embedding", MODEL).main
    return scores


def main() -> None:
    """Run the table that the command line names."""
    run("influence", {"retrained": retrained})


if __name__ == "__main__":
    main()
