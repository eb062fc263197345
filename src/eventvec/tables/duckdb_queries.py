"""What may be read from DuckDB: tables and views of a database, and one SELECT from them.

DuckDB opens the file read-only, but a query could still write other files (COPY), read any file or URL, and read the
variables of this process. The query is parsed on its own, and each part of its tree must be one that is known to read
only the database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from eventvec.errors import DataError, nearest, shown

NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
SOURCES = {"BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "EXPRESSION_LIST", "TABLE_FUNCTION", "PIVOT", "COLUMN_DATA"}
DETAILS = re.compile(r"\w+_(MODIFIER|TYPE_INFO)|ORDER_DEFAULT|ASCENDING|DESCENDING")
EXPRESSIONS = {
    "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA",
    "LAMBDA_REF", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW",
}  # fmt: skip
"""The parts of a tree that read nothing but what stands below them."""
TABLE_FUNCTIONS = {"range", "generate_series", "unnest"}
RANDOM = {"gen_random_uuid", "random", "setseed", "uuid", "uuidv4", "uuidv7"}
"""The functions that have an effect beside their value, and none on anything outside the query."""
SETTINGS = {"current_setting", "getvariable"}
SYSTEM = {"", "main", "pg_catalog", "system"}
"""The schemas and the catalog that the parser itself gives to functions."""


def check_query(connection: Any, query: str, name: str) -> None:
    """Refuse what is not one SELECT from the tables and views of a database."""
    statements = connection.extract_statements(query)
    tree: Any = {"error": True}
    if len(statements) == 1 and statements[0].type.name == "SELECT":
        tree = json.loads(connection.execute("SELECT json_serialize_sql(?::varchar)", [query]).fetchone()[0])
    if tree["error"] or len(tree["statements"]) != 1:
        raise _refused(name, "is not exactly one SELECT")
    parts = list(_parts(tree["statements"][0]["node"]))
    tables, functions = _tables(connection), _functions(connection)
    ctes = {entry["key"].lower() for part in parts for entry in (part.get("cte_map") or {}).get("map", ())}
    if odd := [cte for cte in ctes if not re.fullmatch(r"\w+", cte)]:  # DuckDB could take it for a file elsewhere
        raise _refused(name, f"has {shown(odd[0])} after WITH, which is not a name of letters, digits and underscores")
    for part in parts:
        if reason := _reason(part, functions):
            raise _refused(name, reason)
        if part.get("type") == "BASE_TABLE" and "class" not in part:
            path = tuple(part[each].lower() for each in ("catalog_name", "schema_name", "table_name") if part[each])
            if path not in tables and not (len(path) == 1 and path[0] in ctes):
                raise _refused(name, f"reads {shown('.'.join(path))}, which is no table or view of the database")


def check_table(connection: Any, table: tuple[str, ...], name: str) -> None:
    """Refuse a table that the database does not have, for DuckDB would take the name for that of a file."""
    tables = _tables(connection)
    if tuple(map(str.lower, table)) not in tables:
        text = ".".join(table)
        near = nearest(text, {".".join(each) for each in tables if len(each) == len(table)})
        raise DataError(f"{name} cannot be used: Table with name {shown(text)} does not exist; {near}")


def _refused(name: str, reason: str) -> DataError:
    return DataError(
        f"the query of {name} {reason}; accepted: one SELECT from tables and views of its database, with DuckDB's "
        "own functions; for files, define a view in the database"
    )


def _reason(part: dict[str, Any], functions: set[str]) -> str | None:
    """Return why a part of the tree of a query is refused; None if it is accepted."""
    kind, family = part.get("type"), part.get("class")
    if family is not None:
        if family not in EXPRESSIONS:
            return f"has an expression of the kind {shown(family)}"
    elif isinstance(kind, str) and kind not in NODES | SOURCES and not DETAILS.fullmatch(kind):
        return f"has a part of the kind {shown(kind)}"
    if kind == "TABLE_FUNCTION" and (function := part["function"]["function_name"].lower()) not in TABLE_FUNCTIONS:
        return f"calls the table function {shown(function)}"
    if "function_name" in part:
        function = part["function_name"].lower()
        place = {part.get("schema") or "", part.get("catalog") or ""}
        if not place <= SYSTEM or function not in functions | TABLE_FUNCTIONS:
            return f"calls the function {shown(function)}"
    return None


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a tree of JSON."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _tables(connection: Any) -> set[tuple[str, ...]]:
    """Return the names by which a query can mean a table or view of the database."""
    rows = [
        connection.execute(
            f"SELECT lower(database_name), lower(schema_name), lower({kind}_name) FROM duckdb_{kind}s() "
            "WHERE database_name = current_database() AND NOT internal"
        ).fetchall()
        for kind in ("table", "view")
    ]
    names = set()
    for database, schema, table in chain(*rows):
        names |= {(database, schema, table), (schema, table)}
        if schema == "main":
            names |= {(database, table), (table,)}
    return names


def _functions(connection: Any) -> set[str]:
    """Return the functions of values that DuckDB has itself, which the database does not define anew."""
    rows = connection.execute(
        "SELECT DISTINCT lower(function_name), internal, has_side_effects, schema_name = 'main' "
        "AND function_type IN ('scalar', 'aggregate', 'macro', 'window') FROM duckdb_functions()"
    ).fetchall()
    plain = {name for name, own, effects, of_values in rows if own and of_values and (not effects or name in RANDOM)}
    return plain - SETTINGS - {name for name, own, _, _ in rows if not own}
