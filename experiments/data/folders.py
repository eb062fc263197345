"""Where the Parquet files of a data set are looked for: the folder that EVENTVEC_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

from eventvec.errors import DataError


def outside(name: str, origin: str) -> Path:
    """Return the path of a Parquet file in the folder that EVENTVEC_DATA names.

    Args:
        name: the file below that folder.
        origin: where the data come from, for the message.

    Raises:
        DataError: there is no such file.

    Example:
        >>> outside("no_such_set/events.parquet", "https://example.org")
        Traceback (most recent call last):
        eventvec.errors.DataError: no_such_set/events.parquet is needed, but ...; get the data from https://example.org...
    """
    folder = os.environ.get("EVENTVEC_DATA")
    path = Path(folder or ".") / name
    if not folder or not path.is_file():
        found = "EVENTVEC_DATA is not set" if not folder else "the folder that EVENTVEC_DATA names does not hold it"
        raise DataError(
            f"{name} is needed, but {found}; get the data from {origin}, save them as Parquet under that name "
            "and set EVENTVEC_DATA to the folder"
        )
    return path
