"""A summary of a data set: one row for the key, the time and each column, to be checked by a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eventvec.dataset import Dataset, period
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Numeric, Schema, Static, Text, Vector
from eventvec.sequences import Sequences, Values, histories
from eventvec.tables.scales import Spread
from eventvec.tables.times import SECOND

LONG = 0.9
"""The quantile of the times from first to last event that tells how long the long histories are."""


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
    """Return what a model remembers of its training data: no value of an event but the first and the last time.

    `period` has the first and the last time, calendar times as dates; `lengths` the `shortest`, `median` and `longest`
    number of events of an entity with events; `spans` the `median` and the `long` time, the 90 % quantile, from its
    first to its last event, in seconds for calendar times. `columns` has by column the shares of `missing` and of
    `unknown` values, the share of `unknown_entities`, all of whose values are unknown, and the `mean` and `std` of
    numbers as the schema scales them; of rows that were cut at several times of an entity, events count once. What does
    not apply is left out.
    """
    x = data.sequences
    described: dict[str, Any] = {}
    if (ends := period(x)) is not None:
        is_calendar = data.schema.clock
        described["period"] = np.array(ends, "M8[us]").astype("M8[D]").astype(str).tolist() if is_calendar else [*ends]
        described["spans"] = _spans(x, data.schema)
    if x.total:
        lengths = x.lengths[x.lengths > 0]
        median = float(np.median(lengths.cpu().numpy()))
        described["lengths"] = {"shortest": int(lengths.min()), "median": median, "longest": x.longest}
    read_once = x if data.moments is None else x[histories(x)[0]]
    columns = {field.name: _column(read_once, field) for field in (*data.schema.fields, *data.schema.nested)}
    return {**described, "columns": columns} if columns else described


def _spans(x: Sequences, schema: Schema) -> dict[str, float]:
    """Return quantiles of the time from the first to the last event of the entities with events."""
    time, filled = x.columns["time"], x[x.lengths > 0]
    assert isinstance(time, Tensor)
    spans = (time[filled.starts + filled.lengths - 1] - time[filled.starts]).double().cpu().numpy()
    median, long = np.quantile(spans, (0.5, LONG)) / (SECOND if schema.clock else 1)
    return {"median": float(median), "long": float(long)}


def _column(x: Sequences, field: Categorical | Numeric | Text) -> dict[str, float]:
    """Return what a model remembers of a column of events."""
    parts = _by_parts(x, field.name)
    _, entries = _summarise(field, map(field.scale, parts) if isinstance(field, Numeric) else parts)  # type: ignore[arg-type]
    known = {name: share for name, share in entries.items() if name != "values"}
    if not isinstance(field, Categorical) or not isinstance(x.columns[field.name], Tensor):
        return known
    present, is_known = (torch.zeros(len(x), dtype=torch.bool, device=x.device) for _ in range(2))
    for block in x.blocks():
        rows = x[block]
        codes, row = rows.values(field.name), rows.rows() + block.start
        present[row[codes != MISSING]] = True
        is_known[row[codes >= FIRST]] = True
    return known | {"unknown_entities": int((present & ~is_known).sum()) / max(int(present.sum()), 1)}


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
