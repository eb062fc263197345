"""The folder with the Parquet files of the data sets, which the variable EVENTVEC_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

from eventvec.errors import DataError


def data_file(name: str, origin: str) -> Path:
    """Return the path of a Parquet file in the folder that EVENTVEC_DATA names.

    Args:
        name: the file's path below that folder.
        origin: where to get the data, for the message.

    Raises:
        DataError: If there is no such file.

    Example:
        >>> data_file("no_such_set/events.parquet", "https://example.org")
        Traceback (most recent call last):
        eventvec.errors.DataError: no_such_set/events.parquet is needed, but ...; get the data from https://example.org...
    """
    folder = os.environ.get("EVENTVEC_DATA")
    path = Path(folder or ".") / name
    if not folder or not path.is_file():
        reason = "the folder that EVENTVEC_DATA names does not hold it" if folder else "EVENTVEC_DATA is not set"
        raise DataError(
            f"{name} is needed, but {reason}; get the data from {origin}, save them under that name "
            "and set EVENTVEC_DATA to the folder"
        )
    return path
