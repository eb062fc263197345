"""Paths of tables: a file, a folder or a glob as the files that it names, and whether a file changed meanwhile."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from eventvec.errors import DataError, nearest, reason, shown

CSV = (".csv", ".csv.gz")
LAKES = {
    "a Delta Lake": "the path of this folder alone",
    "an Iceberg": 'pyiceberg\'s Table.scan().to_arrow() or duckdb.sql("FROM iceberg_scan({0!r})"), and pass the result '
    "or write it to a Parquet file",
}
"""How tables are read whose log says which of their files are valid."""


def files_of(source: str) -> list[Path]:
    """Return the files of a path: a file, those inside a folder, or those that match a glob.

    A single file is read wherever it lies. A folder or a glob is refused if its files belong to a Delta Lake or Iceberg
    table, whose folder also holds files with deleted and replaced rows. The folder of a Delta Lake table itself is an
    address, see `addresses`, and does not come here.
    """
    if not source:
        raise DataError("the path is empty; give a Parquet or CSV file, a folder or a glob")
    try:
        path = Path(source).expanduser()
        status = path.stat() if path.exists() else None
    except (OSError, RuntimeError) as error:  # too long a name, or no such user
        raise DataError(f"{shown(source)} cannot be opened: {reason(error)}") from error
    if path.is_file():
        return [path]
    if path.is_dir():
        return _inside(path, source)
    if status or path.is_symlink():
        what = "is a pipe or a device" if status else "is a link to a file that does not exist"
        raise DataError(f"{source} {what}; give a Parquet or CSV file, a folder or a glob")
    matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True) if not Path(match).is_dir())
    if not matches:
        raise DataError(f"{source} does not exist; {_instead(source, path)}")
    if len({match.name.lower().endswith(CSV) for match in matches}) > 1:
        raise DataError(f"{source} matches both CSV and other files; read one kind at a time")
    _refuse_lakes(match.parent for match in matches)
    return _existing(matches)


def _instead(source: str, path: Path) -> str:
    """Return what to give in place of a path of nothing: the files of nearly this name, or a time as another option."""
    try:
        datetime.fromisoformat(source)
    except ValueError:
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest(path.name, siblings)
        return near if near.startswith("did you mean") else "give a Parquet or CSV file, a folder or a glob"
    return f'give a table; for one time for all: until="{source}" (--until)'


def _inside(folder: Path, source: str) -> list[Path]:
    """Return the Parquet files inside a folder, or the CSV files if it has none."""
    every = sorted(folder.rglob("*"))
    _refuse_lakes([folder, *(path.parent for path in every)])
    inside = [file for file in every if not file.is_dir() and not file.name.startswith((".", "_"))]
    for endings in ((".parquet",), CSV):
        files = [file for file in inside if file.name.lower().endswith(endings)]
        if files:
            return _existing(files)
    raise DataError(f"the folder {source} holds no file that ends in .parquet, .csv or .csv.gz")


def _refuse_lakes(folders: Iterable[Path]) -> None:
    """Refuse folders at or inside that of a Delta Lake or Iceberg table."""
    resolved = [each.resolve() for each in dict.fromkeys(folders)]
    for folder in dict.fromkeys(above for each in resolved for above in (each, *each.parents)):
        lake = _lake_of(folder)
        if lake:
            raise DataError(
                f"{folder} is {lake} table, in which some files hold rows that were deleted or replaced; read it with "
                f"{LAKES[lake].format(str(folder))}"
            )


def _lake_of(folder: Path) -> str | None:
    """Return the format, with its article, of a table whose log is in a folder, None if there is no such log."""
    if (folder / "_delta_log").is_dir():
        return "a Delta Lake"
    return "an Iceberg" if any(folder.glob("metadata/*.metadata.json*")) else None


def _existing(files: list[Path]) -> list[Path]:
    """Return files, none of which is a link to a missing file, a pipe or a device."""
    for file in files:
        if not file.is_file():
            raise DataError(f"{file} is a link to a file that does not exist, a pipe or a device; remove it")
    return files


def stamp_of(file: Path) -> tuple[int, int, int]:
    """Return numbers that change with the file: inode, size and time of the last change."""
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def refuse_changed(file: Path, stamp: tuple[int, int, int]) -> None:
    """Refuse a file that was replaced, written to or deleted since its stamp was taken."""
    if not file.exists() or stamp_of(file) != stamp:
        raise DataError(f"{file} changed while it was read; read it again")
