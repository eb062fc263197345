"""A summary of a data set: one row for the key, the time and each column, to be checked by a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
