"""The files of a competition, in the form in which it publishes them, and messages that say where to get them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from eventvec.errors import DataError, nearest


@dataclass(frozen=True)
class Published:
    """A folder with the files of a competition, as published: .csv or .csv.gz.

    Args:
        name: The name of the data set, and of its folder inside the folder that EVENTVEC_DATA names.

    Example:
        >>> Published("rosbank", "https://example.org", "nowhere").scan("train.csv", {"MCC": pl.Int64})
        Traceback (most recent call last):
        eventvec.errors.DataError: rosbank needs train.csv, but the folder nowhere does not contain it; get the ...
    """

    name: str
    origin: str
    folder: str | Path | None = None

    def path(self, file: str) -> Path:
        """Return the path of a file, or of the file with the ending .gz."""
        data = os.environ.get("EVENTVEC_DATA")
        folder = Path(self.folder) if self.folder is not None else Path(data) / self.name if data else None
        for path in () if folder is None else (folder / file, folder / f"{file}.gz"):
            if path.is_file():
                return path
        reason = f"the folder {folder} does not contain it"
        if folder is None:
            reason = "no folder is given and EVENTVEC_DATA is not set"
        raise DataError(
            f"{self.name} needs {file}, but {reason}; get the files of the competition from {self.origin}, put them "
            f"into one folder as .csv or .csv.gz, and pass this folder or make it EVENTVEC_DATA/{self.name}"
        )

    def scan(self, file: str, types: Mapping[str, type[pl.DataType] | pl.DataType]) -> pl.LazyFrame:
        """Return some columns of a file.

        Args:
            types: The type of each column; no type is inferred.
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
        """Return the result of a query on a file."""
        try:
            return lazy.collect()
        except pl.exceptions.PolarsError as error:
            raise self.unreadable(error, file) from error

    def unreadable(self, error: Exception, file: str) -> DataError:
        """Return the error for a file that polars cannot read."""
        column = re.search(r"(?:at|in) column '([^']+)'", str(error))
        where = f"column {column[1]!r} of {file}" if column else file
        return DataError(
            f"{where} of {self.name} contains a value that cannot be read; use the file as {self.origin} publishes it"
        )
