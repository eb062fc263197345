"""Queries of Postgres: one statement, which calls no function that has an effect beside its value.

A transaction that only reads refuses every change of a table, and still runs functions that write files of the server
or reach other servers, if the user has the right.
"""

from __future__ import annotations

import re
from typing import Any

from eventvec.errors import DataError, shown

HARMLESS = {
    "bernoulli", "clock_timestamp", "gen_random_bytes", "gen_random_uuid", "gen_salt", "random", "random_normal",
    "setseed", "system", "timeofday", "uuid_generate_v1", "uuid_generate_v4", "uuidv4", "uuidv7",
}  # fmt: skip
"""The functions of the server and its extensions that are volatile, and have no effect outside the query."""
RUNS_TEXT = {"connectby", "crosstab", "xpath_table"}
"""The functions of extensions that run a text as a query."""
FUNCTIONS = """SELECT DISTINCT p.proname::text FROM pg_proc p WHERE p.provolatile = 'v' AND
    (p.pronamespace = 'pg_catalog'::regnamespace OR EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid
    AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'))"""


def check_query(cursor: Any, query: str, name: str) -> None:
    """Refuse what is not one statement, and the names of functions that have effects, wherever they stand.

    The server parses the query alone. Its own functions and those of extensions are refused if it says that they are
    volatile; those of users, and those that views call, are part of the database.
    """
    cursor.adbc_prepare(query)
    cursor.execute(FUNCTIONS)
    refused = {row[0] for row in cursor.fetchall()} - HARMLESS | RUNS_TEXT
    called = [word for word in re.findall(r"\w+", query.lower()) if word in refused]
    if 'u&"' in query.lower():
        called = ['U&"…"']
    if called:
        raise DataError(
            f"the query of {name} names {shown(called[0])}, which may do more than read the database; accepted: one "
            "SELECT from tables and views, with functions that only compute"
        )
