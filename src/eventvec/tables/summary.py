"""A summary of a data set: one row for the key, the time and each column, to be checked by a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from eventvec.dataset import Dataset, period
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Static, Text, Vector
from eventvec.sequences import Sequences, Values
from eventvec.tables.scales import Spread


def describe(data: Dataset) -> list[dict[str, Any]]:
    """Return one row for the key, the time and each field of a data set.

    Each row has the `name` and the `kind` of the column. `values` is the size of a vocabulary or vector,
    or the number of buckets, `unknown` the
    share of events outside the vocabulary, `mean` and `std` are those of the raw numbers, and `missing` is the share of
    events without a value. For static columns, shares are of entities. For summed columns, `unknown` is
    the share of elements, and `missing` that of events without elements. An entry that does not apply is None.
    """
    x, schema = data.sequences, data.schema
    rows = [_row(schema.key, f"key ({data.keys.type})"), _row(schema.time, f"time ({schema.time_kind})")]
    for column in (*schema.fields, *schema.bags, *schema.texts):
        kind, entries = _summarise(column, _by_parts(x, column.name))
        rows.append(_row(column.name, "summed" if column in schema.bags else kind, entries))
    for field in schema.static:
        if field.name in x.static:
            kind, entries = _summarise(field, [x.static[field.name]])
            rows.append(_row(field.name, f"static {kind}", entries))
    return rows


def facts(data: Dataset) -> dict[str, Any]:
    """Return what a model card says of the data: no value of an event but the first and the last time.

    `period` has the first and the last time, calendar times as dates; `lengths` the `shortest`, `median` and `longest`
    number of events of an entity with events; `columns` the shares of `missing` and `unknown` values by column. What
    does not apply is left out.
    """
    x, events = data.sequences, replace(data.schema, static=())
    described: dict[str, Any] = {}
    if (ends := period(x)) is not None:
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


def _by_parts(x: Sequences, name: str) -> Iterator[Values]:
    """Yield a column's values row after row, a part at a time: a column may be larger than memory."""
    for block in x.blocks():
        yield x.columns[name][x[block].flat()]


def _summarise(field: Static, parts: Iterable[Values]) -> tuple[str, dict[str, float]]:
    """Return the kind of a column and the entries of its row; unknown elements of lists are counted among these."""
    total, n_codes, missing, unknown, spread = 0, 0, 0, 0, Spread()
    for values in parts:
        total += len(values)
        if isinstance(field, Categorical):
            codes = values if isinstance(values, Tensor) else values.values("code")
            n_codes, unknown = n_codes + len(codes), unknown + int((codes == UNKNOWN).sum())
        if not isinstance(values, Tensor):
            missing += int((values.lengths == 0).sum())
        elif isinstance(field, Categorical):
            missing += int((values == MISSING).sum())
        elif isinstance(field, Vector):
            missing += int(values.isnan().any(1).sum())
        else:
            present = values[~values.isnan()]
            missing += len(values) - len(present)
            spread.add(present)
    shares = {"missing": missing / max(total, 1)}
    if isinstance(field, Text):
        return "text", shares
    if isinstance(field, Categorical):
        kind = "hashed" if field.buckets else "categorical"
        return kind, {"values": field.size - FIRST, "unknown": unknown / max(n_codes, 1), **shares}
    if isinstance(field, Vector):
        return "vector", {"values": field.size, **shares}
    numbers = {"mean": spread.mean, "std": spread.std} if spread.count else {}
    return "numeric", {**numbers, **shares}


def _row(name: str, kind: str, entries: Mapping[str, float] | None = None) -> dict[str, Any]:
    blank = dict.fromkeys(("values", "unknown", "mean", "std", "missing"))
    return {"name": name, "kind": kind, **blank, **(entries or {})}
