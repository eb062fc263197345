"""Several tables of events read as one, such as card payments and what people do in an app."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from eventvec.errors import ConfigError, DataError, shown
from eventvec.tables.coding import decoded, without_dictionaries
from eventvec.tables.sources import Source, Tabular, open_source

TABLE = "table"
"""The column that names the table of each event."""


def open_events(source: Tabular | Mapping[str, Tabular], text: Sequence[str] = (), key: str | None = None) -> Source:
    """Return a table of events as a source, or several tables by their names as one source.

    The events of all tables stand one below the other, in the order of the mapping, and the column `table` has the name
    of each event's table. Columns of one name are one column, such as the key and the time, which every table needs;
    a table that lacks a column has missing values there.
    """
    if not isinstance(source, Mapping):
        return open_source(source, text, key)
    if not source or not all(isinstance(name, str) and name for name in source):
        raise ConfigError("several tables are given by their names, such as {'cards': cards, 'app': app}; got no names")
    sources = {name: _opened(name, table, text, key) for name, table in source.items()}
    for name, each in sources.items():
        each.need([] if key is None else [key], f"the table {shown(name)}")
    columns = list(dict.fromkeys(column for each in sources.values() for column in each.types))
    types = {column: _type(column, sources) for column in columns}
    known = [each.sizes for each in sources.values() if each.sizes is not None]
    sizes = {column: sum(each.get(column, 0) for each in known) for column in (*columns, TABLE)}

    def load(names: Sequence[str]) -> pa.Table:
        return _below({table: each.load(_present(each, names)) for table, each in sources.items()}, names, types)

    def scan(names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        values = {column: _values(kind) for column, kind in types.items()}
        for table, each in sources.items():
            for part in each.parts(_present(each, names), rows):
                yield _below({table: without_dictionaries(part)}, names, values)

    files = [file for each in sources.values() for file in each.files]
    return Source(
        types={**types, TABLE: pa.string()},
        load=load,
        sizes=sizes if len(known) == len(sources) else None,
        header="the headers of the tables",
        typed=all(each.typed for each in sources.values()),
        scan=scan,
        files=files if all(each.files for each in sources.values()) else (),
        ordered=all(each.ordered for each in sources.values()),
    )


def _opened(name: str, table: Tabular, text: Sequence[str], key: str | None) -> Source:
    try:
        source = open_source(table, text, key)
    except DataError as error:
        raise DataError(f"table {shown(name)}: {error}") from error
    if TABLE in source.types:
        raise ConfigError(
            f"table {shown(name)} has a column {TABLE!r}, which names the table of each event here; rename it"
        )
    return source


def _type(column: str, sources: Mapping[str, Source]) -> pa.DataType:
    """Return the type of a column that holds its values in all tables."""
    by_table = {name: source.types[column] for name, source in sources.items() if column in source.types}
    first = next(iter(by_table.values()))
    if all(kind == first for kind in by_table.values()):
        return first
    try:
        schemas = [pa.schema([(column, _values(kind))]) for kind in by_table.values()]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        kinds = ", ".join(f"{kind} in {shown(name)}" for name, kind in by_table.items())
        raise DataError(
            f"column {shown(column)} is {kinds}, which do not go together; cast or rename it in one of the tables"
        ) from error


def _present(source: Source, names: Sequence[str]) -> list[str]:
    """Return those of some columns that a table has, or its first, which has its number of rows."""
    return [name for name in names if name in source.types] or list(source.types)[:1]


def _below(parts: Mapping[str, pa.Table], names: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the named columns of parts of tables, one table below the other."""
    counts = [len(part) for part in parts.values()]
    codes = pa.array(np.repeat(np.arange(len(parts), dtype=np.int32), counts))
    columns = {TABLE: pa.chunked_array([pa.DictionaryArray.from_arrays(codes, pa.array(list(parts)))])}
    for name in set(names) - {TABLE}:
        of_tables = [part[name] if name in part.column_names else None for part in parts.values()]
        columns[name] = _merged(of_tables, counts, types[name])
    return pa.table({name: columns[name] for name in names})


def _values(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary, and another type as it is."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _merged(parts: Sequence[pa.ChunkedArray | None], counts: Sequence[int], kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column of all tables, from its parts; a table without it has missing values."""
    loaded = {part.type for part in parts if part is not None}
    if len(loaded) == 1 and pa.types.is_dictionary(next(iter(loaded))):
        kind = loaded.pop()
    chunks: list[pa.Array] = []
    for part, count in zip(parts, counts, strict=True):
        if part is None:
            chunks.append(pa.nulls(count, kind))
        else:
            chunks += (part if part.type == kind else decoded(part).cast(kind)).chunks
    return pa.chunked_array(chunks, kind)
