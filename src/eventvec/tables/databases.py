"""Tables at addresses: their columns, what eventvec wrote about them, and writing them, whatever the software."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eventvec.errors import ConfigError
from eventvec.tables.addresses import Address, Opened, Rows
from eventvec.tables.delta_tables import delta_note, open_delta, write_delta
from eventvec.tables.duckdb_tables import duckdb_note, open_duckdb, write_duckdb
from eventvec.tables.postgres_tables import open_postgres, postgres_note, write_postgres

START = '{"eventvec": '
"""The beginning of the comment on a table that eventvec writes, before the metadata of the rows as JSON."""
NOTES = {"duckdb": duckdb_note, "postgres": postgres_note, "delta": delta_note}
WRITERS = {"duckdb": write_duckdb, "postgres": write_postgres, "delta": write_delta}


def open_database(address: Address, key: str | None = None) -> Opened:
    """Return a table: the types of its columns and functions that read them."""
    if address.kind == "postgres":
        return open_postgres(address, key)
    return open_duckdb(address) if address.kind == "duckdb" else open_delta(address)


def metadata_of(address: Address) -> tuple[bool, dict[str, Any] | None]:
    """Return whether a table or query exists, and the metadata that eventvec wrote with a table, None if it did not."""
    if address.query is not None:
        return True, None
    exists, comment = NOTES[address.kind](address)
    return exists, _metadata(comment)


def write_database(
    address: Address, table: pa.Table, metadata: Mapping[str, Any], keys: Sequence[str], *, merge: bool, overwrite: bool
) -> None:
    """Write a table in one transaction, with the metadata of its rows.

    Args:
        address: The table.
        table: The rows.
        metadata: The metadata of the rows.
        keys: The columns that identify a row; none if rows may repeat.
        merge: Whether rows with other keys remain, if the table has rows of the same run.
        overwrite: Whether a table that eventvec did not write, or that has rows of another run, is replaced.
    """
    described = dict(metadata)
    exists, before = metadata_of(address) if merge else (False, None)
    merge = exists and not (overwrite and not _same_run(before, described))
    if merge:
        described |= {"fingerprint": None, "until": None}  # those of the last rows are not those of all

    def check(comment: str | None) -> None:
        earlier = _metadata(comment)
        if not overwrite:
            refuse_foreign(address, earlier)
        if merge and not _same_run(earlier, described):
            raise ConfigError(
                f"{address.label} holds rows of the run {(earlier or {}).get('run')}, and these are of the run "
                f"{described.get('run')}, whose vectors cannot be compared with them; name another table, or replace "
                "it: overwrite=True (--overwrite)"
            )

    comment = f"{START}{json.dumps(described, default=str)}}}"
    WRITERS[address.kind](address, Rows(table, comment, keys, merge, check))


def stored_rows(address: Address, described: Mapping[str, Any] | None) -> pa.Table:
    """Return the rows of a table that `write_database` wrote, its vectors as lists of one length.

    Args:
        address: Of the table.
        described: Its metadata; None if eventvec did not write it.
    """
    if described is None:
        raise TypeError("eventvec did not write the table")
    opened = open_database(address, described.get("key"))
    table = opened.load(list(opened.types))
    kind = opened.types.get("embedding")
    if kind is None or not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return table
    place = table.column_names.index("embedding")
    vectors = table.column(place).combine_chunks()
    lengths = pc.unique(pc.list_value_length(vectors)).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        raise ValueError("vectors differ in length, or there are none")
    values = vectors.flatten().cast(pa.float32())
    if values.null_count:
        raise ValueError("numbers of vectors are missing")
    fixed = pa.FixedSizeListArray.from_arrays(values, lengths[0])
    return table.set_column(place, "embedding", fixed)


def refuse_foreign(address: Address, metadata: Mapping[str, Any] | None) -> None:
    """Refuse an existing table that eventvec did not write."""
    if metadata is None:
        raise ConfigError(
            f"{address.label} exists and was not written by eventvec; name another table, or replace it: "
            "overwrite=True (--overwrite)"
        )


def _same_run(earlier: Mapping[str, Any] | None, described: Mapping[str, Any]) -> bool:
    """Return whether rows come from one encoder and are identified by columns of the same names."""
    names = ("run", "key", "moment")
    return earlier is not None and all(earlier.get(name) == described.get(name) for name in names)


def _metadata(comment: str | None) -> dict[str, Any] | None:
    """Return the metadata in the comment of a table; None if it has no such comment."""
    if comment is None or not comment.startswith(START):
        return None
    try:
        described = json.loads(comment)["eventvec"]
    except ValueError:
        return None
    return described if isinstance(described, dict) else None
