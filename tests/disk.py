"""Tables on disk, as the loaders of data sets expect them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl


def parquet(path: Path, columns: dict[str, list]) -> pl.DataFrame:
    """Return a table and write it to a Parquet file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame(columns)
    frame.write_parquet(path)
    return frame


def csv(path: Path, header: str, rows: Sequence[str]) -> None:
    """Write a header and rows of text as they stand."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n")
