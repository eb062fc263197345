"""A summary of a data set: one row for the key, the time and each column, to be checked by a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Static, Vector
from eventvec.sequences import Sequences, Values


def describe(data: Dataset) -> list[dict[str, Any]]:
    """Return one row for the key, the time and each field of a data set.

    Each row has the `name` and the `kind` of the column. `values` is the size of a vocabulary or vector,
    or the number of buckets, `unknown` the
    share of events outside the vocabulary, `mean` and `std` are those of the raw numbers, and `missing` is the share of
    events without a value. For static columns, shares are of entities. For summed columns, `unknown` is
    the share of elements, and `missing` that of events without elements. An entry that does not apply is None.

    Example:
        >>> import polars as pl
        >>> from eventvec.tables import read
        >>> table = pl.DataFrame({"card": [7, 7], "day": [1, 2], "amount": [3.0, None]})
        >>> describe(read(table, key="card", time="day", numeric=["amount"]))[-1]
        {'name': 'amount', 'kind': 'numeric', 'values': None, 'unknown': None, 'mean': 3.0, 'std': 0.0, 'missing': 0.5}
    """
    x, schema = data.sequences, data.schema
    rows = [_row(schema.key, f"key ({data.keys.type})"), _row(schema.time, f"time ({schema.time_kind})")]
    rows += [_row(field.name, *_summarise(field, x.values(field.name))) for field in schema.fields]
    rows += [_row(field.name, "summed", _bag(field, x)) for field in schema.bags]
    rows += [_row(field.name, *_summarise(field, x.columns[field.name][x.flat()])) for field in schema.texts]
    for field in schema.static:
        if field.name in x.static:
            kind, entries = _summarise(field, x.static[field.name])
            rows.append(_row(field.name, f"static {kind}", entries))
    return rows


def facts(data: Dataset) -> dict[str, Any]:
    """Return what a model card says of the data: no value of an event but the first and the last time.

    `period` has the first and the last time, calendar times as dates; `lengths` the `shortest`, `median` and `longest`
    number of events of an entity with events; `columns` the shares of `missing` and `unknown` values by column. What
    does not apply is left out.

    Example:
        >>> import polars as pl
        >>> from eventvec.tables import read
        >>> table = pl.DataFrame({"card": [7, 7, 8], "day": [1, 2, 9], "amount": [3.0, None, 1.0]})
        >>> facts(read(table, key="card", time="day", numeric=["amount"]))["period"]
        [1, 9]
    """
    x, events = data.sequences, replace(data.schema, static=())
    described: dict[str, Any] = {}
    if "time" in x.columns and x.total:
        times = x.values("time")
        ends = [times.min().item(), times.max().item()]
        described["period"] = [_day(int(end)) if data.schema.clock else end for end in ends]
    if x.total:
        lengths = x.lengths[x.lengths > 0]
        median = float(np.median(lengths.cpu().numpy()))
        described["lengths"] = {"shortest": int(lengths.min()), "median": median, "longest": x.longest}
    rows = describe(replace(data, schema=events))[2:]
    shares = {row["name"]: {k: row[k] for k in ("missing", "unknown") if row[k] is not None} for row in rows}
    return {**described, "columns": shares} if shares else described


def _day(time: int) -> str:
    """Return the date of a time in microseconds since 1970."""
    return str(np.datetime64(time, "us").astype("datetime64[D]"))


def _summarise(field: Static, values: Values) -> tuple[str, dict[str, float]]:
    """Return the kind of a column and the entries of its row.

    Args:
        field: The column.
        values: Its values, one for each event or entity.
    """
    total = max(len(values), 1)
    if not isinstance(values, Tensor):
        return "text", {"missing": int((values.lengths == 0).sum()) / total}
    if isinstance(field, Categorical):
        unknown, missing = (int((values == code).sum()) / total for code in (UNKNOWN, MISSING))
        kind = "hashed" if field.buckets else "categorical"
        return kind, {"values": field.size - FIRST, "unknown": unknown, "missing": missing}
    if isinstance(field, Vector):
        return "vector", {"values": field.size, "missing": int(values.isnan().any(1).sum()) / total}
    present = values[~values.isnan()].double()
    scale = {"mean": present.mean().item(), "std": present.std(correction=0).item()} if len(present) else {}
    return "numeric", {"missing": 1 - len(present) / total, **scale}


def _bag(field: Categorical, x: Sequences) -> dict[str, float]:
    """Return the entries of a list column: unknown elements, and events without any."""
    bags = x.columns[field.name][x.flat()]
    assert not isinstance(bags, Tensor)
    unknown = int((bags.values("code") == UNKNOWN).sum()) / max(bags.total, 1)
    missing = int((bags.lengths == 0).sum()) / max(len(bags), 1)
    return {"values": field.size - FIRST, "unknown": unknown, "missing": missing}


def _row(name: str, kind: str, entries: Mapping[str, float] | None = None) -> dict[str, Any]:
    blank = dict.fromkeys(("values", "unknown", "mean", "std", "missing"))
    return {"name": name, "kind": kind, **blank, **(entries or {})}
