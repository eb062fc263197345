"""Where the files of a data set are looked for, and the sentence that says where to get them.

Parquet files lie in the folder that EVENTVEC_DATA names, see `outside`; the files of a competition, as they are
published, in a folder of their own, see `Published`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import polars as pl

from eventvec.dataset import Dataset
from eventvec.errors import DataError, nearest

Frames: TypeAlias = tuple[pl.DataFrame, pl.DataFrame]
Labelled: TypeAlias = tuple[Dataset, pl.DataFrame]


@dataclass(frozen=True)
class Published:
    """The folder with the files of a competition, as published: CSV, plain or as .csv.gz.

    Args:
        name: of the data set, and of its folder below the one that EVENTVEC_DATA names.
        origin: where to get the files.
        folder: the folder, if it is another.

    Example:
        >>> Published("rosbank", "https://example.org", "nowhere").scan("train.csv", {"MCC": pl.Int64})
        Traceback (most recent call last):
        eventvec.errors.DataError: rosbank needs train.csv, but the folder nowhere does not hold it; get the files ...
    """

    name: str
    origin: str
    folder: str | Path | None = None

    def path(self, file: str) -> Path:
        """Return the path of a file, or of its .gz.

        Raises:
            DataError: there is no such file.
        """
        data = os.environ.get("EVENTVEC_DATA")
        folder = Path(self.folder) if self.folder is not None else Path(data) / self.name if data else None
        for path in () if folder is None else (folder / file, folder / f"{file}.gz"):
            if path.is_file():
                return path
        found = f"the folder {folder} does not hold it" if folder else "no folder is given and EVENTVEC_DATA is not set"
        raise DataError(
            f"{self.name} needs {file}, but {found}; get the files of the competition from {self.origin} and put them, "
            f"as .csv or .csv.gz, into one folder: name it, or set EVENTVEC_DATA and call it {self.name} there"
        )

    def scan(self, file: str, types: Mapping[str, type[pl.DataType] | pl.DataType]) -> pl.LazyFrame:
        """Return some columns of a file, in the types that are named; none of them is guessed.

        Raises:
            DataError: the file or a column of it is absent.
        """
        try:
            lazy = pl.scan_csv(self.path(file), schema_overrides=dict(types), infer_schema=False)
            columns = lazy.collect_schema().names()
        except pl.exceptions.PolarsError as error:
            raise self.unreadable(error, file) from error
        for column in types:
            if column not in columns:
                raise DataError(f"{file} of {self.name} has no column {column!r}; {nearest(column, columns)}")
        return lazy.select(list(types))

    def collect(self, lazy: pl.LazyFrame, file: str) -> pl.DataFrame:
        """Return what a query on a file gives.

        Raises:
            DataError: a value cannot be read in the column's type; it is not shown.
        """
        try:
            return lazy.collect()
        except pl.exceptions.PolarsError as error:
            raise self.unreadable(error, file) from error

    def unreadable(self, error: Exception, file: str) -> DataError:
        """Return the sentence about a file that is no such table."""
        column = re.search(r"(?:at|in) column '([^']+)'", str(error))
        where = f"column {column[1]!r} of {file}" if column else file
        return DataError(
            f"{where} of {self.name} holds a value that cannot be read; take the file as {self.origin} publishes it"
        )
