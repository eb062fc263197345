"""What is in a data set: a row about the key, the time and each column, for people to check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.schema import MISSING, UNKNOWN, Categorical, Static, Vector
from eventvec.sequences import Values


def describe(data: Dataset) -> list[dict[str, Any]]:
    """Return a row about the key, the time and each field, for people to check.

    Each row has `name` and `kind`; `values`, the size of a vocabulary or vector, and `unknown`, the share of events
    outside it; `mean` and `std` of raw numbers; `missing`, the share of events without a value, or of entities where
    the column is static. What does not apply is None.

    Example:
        >>> import polars as pl
        >>> from eventvec.tables import read
        >>> table = pl.DataFrame({"card": [7, 7], "day": [1, 2], "amount": [3.0, None]})
        >>> describe(read(table, key="card", time="day", numeric=["amount"]))[-1]
        {'name': 'amount', 'kind': 'numeric', 'values': None, 'unknown': None, 'mean': 3.0, 'std': 0.0, 'missing': 0.5}
    """
    x, schema = data.sequences, data.schema
    rows = [_row(schema.key, f"key ({data.keys.type})"), _row(schema.time, f"time ({schema.time_kind})")]
    fields: tuple[Static, ...] = (*schema.categorical, *schema.numeric)
    rows += [_row(field.name, *_facts(field, x.values(field.name))) for field in fields]
    for about in (field for field in schema.static if field.name in x.static):
        kind, facts = _facts(about, x.static[about.name])
        rows.append(_row(about.name, f"static {kind}", facts))
    return rows


def _facts(field: Static, values: Values) -> tuple[str, dict[str, float]]:
    """Return a column's kind, and what there is to say of its values, one per event or entity."""
    total = max(len(values), 1)
    if not isinstance(values, Tensor):
        return "text", {"missing": int((values.lengths == 0).sum()) / total}
    if isinstance(field, Categorical):
        unknown, missing = (int((values == code).sum()) / total for code in (UNKNOWN, MISSING))
        return "categorical", {"values": len(field.values), "unknown": unknown, "missing": missing}
    if isinstance(field, Vector):
        return "vector", {"values": field.size, "missing": int(values.isnan().any(1).sum()) / total}
    present = values[~values.isnan()].double()
    moments = {"mean": present.mean().item(), "std": present.std(correction=0).item()} if len(present) else {}
    return "numeric", {"missing": 1 - len(present) / total, **moments}


def _row(name: str, kind: str, facts: Mapping[str, float] | None = None) -> dict[str, Any]:
    blank = dict.fromkeys(("values", "unknown", "mean", "std", "missing"))
    return {"name": name, "kind": kind, **blank, **(facts or {})}
