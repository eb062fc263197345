"""Addresses of tables in databases and lakes: `duckdb:///path.db#table`, `postgresql://…#table`, `delta:///folder`."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote, urlencode

from eventvec.credentials import LITERAL, has_login, is_address, secret_literals
from eventvec.errors import ConfigError, listed, shown

if TYPE_CHECKING:
    import pyarrow as pa

Tabular: TypeAlias = str | os.PathLike[str] | Any
"""A path, a glob, the address of a table, or any object with the Arrow stream protocol."""

Software = Literal["duckdb", "postgres", "delta"]
SCHEMES: dict[str, Software] = {"duckdb": "duckdb", "postgresql": "postgres", "postgres": "postgres", "delta": "delta"}
FORMS = "duckdb:///path/events.db#events, postgresql://user@host/database#events, delta:///path/events"
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//?)")
QUERY = re.compile(r"\s*(select|with|from)[\s(]", re.IGNORECASE)
PART = r'("(?:[^"]|"")+"|[^"@#/:\s.]+)'
TABLE = re.compile(rf"{PART}(?:\.{PART})?")
HOST = re.compile(r"(\[[^\]]*\]|[^:@\[\]]*)(:\d*)?(,(\[[^\]]*\]|[^:@\[\],]*)(:\d*)?)*")
MALFORMED = (
    f"it looks like an address and has not the form of one, so it is not shown; accepted: {FORMS}, or a path, with ./ "
    "before it if it has a colon"
)
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
"""The parameters of a Postgres URL that are never shown or recorded."""
PARAMETERS = (
    "application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname", "fallback_application_name",
    "gssdelegation", "gssencmode", "gsslib", "host", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle",
    "keepalives_interval", "krbsrvname", "load_balance_hosts", "max_protocol_version", "min_protocol_version",
    "oauth_client_id", "oauth_issuer", "oauth_scope", "options", "passfile", "port", "replication", "require_auth",
    "requirepeer", "service", "servicefile", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert",
    "sslcertmode", "sslcompression", "sslcrl", "sslcrldir", "sslkey", "sslmode", "sslnegotiation", "sslrootcert",
    "sslsni", "target_session_attrs", "tcp_user_timeout", "user",
)  # fmt: skip
"""Those that libpq knows besides, and that have no secret."""
OTHER_FORMATS = (
    ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xlsx", ".xls", ".feather", ".arrow", ".ipc", ".orc", ".avro",
)  # fmt: skip
"""The ends of names of files that are no Parquet."""
DIGEST = "sha256:"
"""What stands after # in the name of an address whose query has literals that look like secrets."""


@dataclass(frozen=True)
class Address:
    """Where a table is in a database or a lake.

    Args:
        kind: The software that reads it.
        place: The file of DuckDB, the folder of Delta Lake, or the URL of Postgres, which may have a password.
        name: The address for records, without a password; a query with literals that look like secrets is a digest.
        table: The name of the table, after that of its schema if there is one; empty for a query and for Delta Lake.
        query: The query whose result is the table, or None.
        version: The version of a Delta Lake table; None for the latest.
    """

    kind: Software
    place: str = field(repr=False)
    name: str
    table: tuple[str, ...] = ()
    query: str | None = None
    version: int | None = None

    @property
    def label(self) -> str:
        """The address for messages: its name, without the values that a query holds."""
        return self.name if self.query is None else LITERAL.sub("'…'", self.name)

    @property
    def path(self) -> Path | None:
        """The file or folder that holds the table; None for a server."""
        return None if self.kind == "postgres" else Path(self.place)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What two addresses of one table share, as far as their texts show it without a connection."""
        path = self.path
        place = self.name.partition("#")[0] if path is None else path.resolve()
        default = "public" if path is None else "main"
        return self.kind, place, self.table[1:] if self.table[:1] == (default,) else self.table


@dataclass(frozen=True)
class Opened:
    """A table at an address, whose values are not read yet.

    Args:
        types: The type of each column.
        scan: A function that yields the named columns in parts of about as many rows, all as they are at one moment, or
            with None in a single part.
        files: The files whose changes are those of the table; none where no file shows a change, as for a server.
    """

    types: Mapping[str, pa.DataType]
    scan: Callable[[Sequence[str], int | None], Iterator[pa.Table]]
    files: tuple[Path, ...] = ()

    def load(self, names: Sequence[str]) -> pa.Table:
        """Return the named columns."""
        (table,) = self.scan(names, None)
        return table


class Rows(NamedTuple):
    """Rows to write to a table of a database.

    Args:
        comment: The comment by which the table is recognised.
        keys: The columns that identify a row; none if rows may repeat.
        merge: Whether rows with other keys remain.
        check: Raises an error for the comment of an existing table that must not be changed.
    """

    table: pa.Table
    comment: str
    keys: Sequence[str]
    merge: bool
    check: Callable[[str | None], None]


def parts_of(reader: pa.RecordBatchReader, rows: int | None) -> Iterator[pa.Table]:
    """Yield what a reader has as `Opened.scan` does, whose batches have so many rows."""
    import pyarrow as pa

    yield from [reader.read_all()] if rows is None else (pa.Table.from_batches([batch]) for batch in reader)


def address_of(source: Any) -> Address | None:
    """Return the address that a text is; None for the path of a file and for what is no text or path.

    What stands after `#` is the name of a table, with its schema before it if it is needed (`schema.table`; a name with
    other characters than letters, digits and underscores is given in double quotes), or a query that begins with
    select, with or from. Names are matched exactly, capitals too. Three slashes begin an absolute path and two a
    relative one. A folder with the log of a Delta Lake table is an address too.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    text = os.fsdecode(source)
    match = SCHEME.match(text)
    if match is None or (match[1].lower() not in SCHEMES and match[2] == "/"):
        if is_address(text):
            raise ConfigError(MALFORMED)
        return _lake(text)
    scheme = match[1].lower()
    if match[2] == "/":
        raise ConfigError(f"a path of pathlib keeps one slash of {scheme}://; give the address of the table as text")
    if scheme not in SCHEMES:
        raise ConfigError(
            f"tables at {scheme}:// cannot be read or written; accepted: files, {FORMS}, or in Python an object with "
            "the Arrow stream protocol"
        )
    place, _, target = text[match.end() :].partition("#")
    kind = SCHEMES[scheme]
    if kind == "postgres":
        connection, public = _connection(place)
        table, query = _target(target)
        return Address(kind, connection, f"{public}#{_public_target(target)}", table, query)
    path = _path(scheme, place)
    if kind == "delta":
        return Address(kind, path, text, version=_version(target))
    table, query = _target(target)
    return Address(kind, path, f"{text[: match.end()]}{place}#{_public_target(target)}", table, query)


IN_MEMORY = "a table in memory"
"""The name of a table without a path."""


def name_of(source: Tabular) -> str:
    """Return the path of a table or its address without a password, or the text `a table in memory`."""
    if not isinstance(source, str | os.PathLike):
        return IN_MEMORY
    address = address_of(source)
    return os.fspath(source) if address is None else address.name


def features_name(source: str) -> str:
    """Return the name of features in a table: that of the table in a database, or of the file without its ending."""
    address = address_of(source)
    if address is None or address.kind == "delta":
        return Path(source if address is None else address.place).name.partition(".")[0]
    return address.table[-1] if address.table else "query"


def check_format(output: str | os.PathLike[str]) -> None:
    """Refuse to write a table to a file whose name ends like that of another format than Parquet.

    Raises:
        ConfigError: If it does.
    """
    name = os.fsdecode(output)
    if "://" not in name and name.lower().removesuffix(".gz").endswith(OTHER_FORMATS):
        raise ConfigError(f"{name}: output is Parquet or a database table; name a file that ends in .parquet")


def quoted(*names: str) -> str:
    """Return the name of a table or column in SQL, in which no character has a meaning of its own."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def merging(name: str, rows: str, keys: Sequence[str]) -> tuple[str, str]:
    """Return the conditions of SQL by which rows replace those of their keys, unless these have seen later events.

    Such rows come from a batch that is given again after a later one.

    Returns:
        The condition under which a row `old` of the table is deleted, and then the one under which a row `new` is
        inserted.
    """
    same = " AND ".join(f"old.{quoted(key)} = new.{quoted(key)}" for key in keys)
    later = "old.last_time > new.last_time OR (old.last_time = new.last_time AND old.events > new.events)"
    replaced = f"EXISTS (SELECT 1 FROM {rows} new WHERE {same} AND NOT coalesce({later}, false))"
    return replaced, f"NOT EXISTS (SELECT 1 FROM {name} old WHERE {same})"


def other_columns(address: Address) -> ConfigError:
    """Return the refusal of rows to merge whose columns are not those of the table."""
    return ConfigError(
        f"{address.label} has other columns than the rows to write; replace it: overwrite=True (--overwrite)"
    )


def as_output(address: Address) -> Address:
    """Return the address of a table that can be written."""
    if address.query is not None:
        raise ConfigError(f"a query cannot be written to; name a table: {FORMS}")
    if address.version is not None:
        raise ConfigError(
            f"{address.label} is an earlier version of a table; name the table to write without #version="
        )
    return address


def _lake(text: str) -> Address | None:
    """Return the address of a Delta Lake table whose folder is named without a scheme."""
    try:
        folder = Path(text).expanduser()
        return Address("delta", str(folder), text) if text and (folder / "_delta_log").is_dir() else None
    except (OSError, RuntimeError, ValueError):  # no path; the functions that open files say why
        return None


def _path(scheme: str, place: str) -> str:
    if not place.strip("/"):
        raise ConfigError(f"{scheme}:// lacks a path; accepted: {FORMS}")
    if is_address(place):
        raise ConfigError(
            f"what stands after {scheme}:// is no path, and may have a password, so it is not shown; accepted: {FORMS}"
        )
    windows = re.match(r"/[A-Za-z]:[/\\]", place)
    return str(Path(place[1:] if windows else place).expanduser())


def _version(target: str) -> int | None:
    if not target:
        return None
    match = re.fullmatch(r"version=(\d{1,18})", target)
    if match is None:
        raise ConfigError(
            f"{shown(target)} is no version of a Delta Lake table; accepted: a number, as in delta:///path/events#version=3"
        )
    return int(match[1])


def _target(text: str) -> tuple[tuple[str, ...], str | None]:
    """Return the table and the query that stand after `#`, one of which is empty."""
    if QUERY.match(text):
        return (), text.strip().rstrip(";")
    if text.startswith(DIGEST):
        raise ConfigError(
            "the query was recorded by its digest alone, because it has literals that look like secrets; give the "
            "address again, with the query, such as --events ADDRESS"
        )
    match = TABLE.fullmatch(text)
    if match is None or "\0" in text:
        raise ConfigError(
            "the address lacks the name of a table or a query after #; accepted: #table, #schema.table, "
            '#"a name with spaces", or #select … from …'
        )
    parts = (part for part in match.groups() if part)
    return tuple(part[1:-1].replace('""', '"') if part[0] == '"' else part for part in parts), None


def _public_target(target: str) -> str:
    """Return what stands after #, or the digest of a query that has literals that look like secrets."""
    secret = QUERY.match(target) and secret_literals(target)
    return f"{DIGEST}{hashlib.sha256(target.encode()).hexdigest()[:16]}" if secret else target


def _connection(place: str) -> tuple[str, str]:
    """Return the URL of a Postgres server and database, and the URL without passwords."""
    authority, slash, rest = re.match(r"([^/?]*)(/?)(.*)", place, re.DOTALL).groups()  # type: ignore[union-attr]
    login, at, host = authority.rpartition("@")
    database, _, parameters = rest.partition("?") if slash else ("", "", rest.removeprefix("?"))
    try:
        pairs = parse_qsl(parameters, keep_blank_values=True, strict_parsing=bool(parameters))
    except ValueError:
        pairs = [("", "")]
    shown_parts = [unquote(database), *(value for name, value in pairs if name.lower() not in SECRETS)]
    is_odd = not HOST.fullmatch(host) or re.search("[@/]", database) or ("", "") in pairs
    if is_odd or any(map(has_login, shown_parts)):
        raise ConfigError(  # the address is not shown, because a part of a password may stand anywhere in it
            "the address of the Postgres table is not of the form postgresql://user@host:port/database?option=value"
            "#table; in a password, the characters %, /, ?, # and @ are written as %25, %2F, %3F, %23 and %40"
        )
    if any(name not in PARAMETERS + SECRETS for name, _ in pairs):  # a wrong name may be a part of a password
        raise ConfigError(
            "the address of the Postgres table has an option after ? that libpq does not have; accepted: "
            f"{listed(PARAMETERS)}; give a password in PGPASSWORD or ~/.pgpass"
        )
    user = login.partition(":")[0]
    public_pairs = [(name, value) for name, value in pairs if name not in SECRETS]
    options = f"?{urlencode(public_pairs, safe='/')}" if public_pairs else ""
    public = f"postgresql://{user}{at}{host}{slash}{database}{options}"
    return f"postgresql://{place}", public


def without_secrets_of(address: Address, text: str) -> str:
    """Return a text of a server or library without the passwords and secret literals of an address."""
    _, _, place = address.place.partition("://")
    login = re.match(r"[^/?]*", place)[0].rpartition("@")[0]  # type: ignore[index]
    password = login.partition(":")[2]
    given = [value for name, value in parse_qsl(place.partition("?")[2]) if name in SECRETS]
    secrets = [password, unquote(password), *given] if address.kind == "postgres" else []
    for secret in sorted([*secrets, *secret_literals(address.query or "")], key=len, reverse=True):
        text = text.replace(secret, "…") if secret else text
    return text
