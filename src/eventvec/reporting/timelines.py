"""The last events of histories, in the form in which the page draws them as timelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from eventvec.answers.charts import PALETTE
from eventvec.dataset import Dataset
from eventvec.reporting.maps import packed
from eventvec.schema import FIRST, Categorical, Numeric
from eventvec.sequences import Array, Sequences

EVENTS = 150_000
"""The largest number of events that a page contains, which take about 1.3 MB."""
LONGEST = (200, 100, 50, 25)
"""The numbers of last events of a history, of which the largest is taken by which all histories fit."""
CATEGORIES = 3
"""The number of categorical columns by which the reader may colour timelines."""
STEPS = 2**32 - 1
"""The number of steps into which the time from the first to the last event is divided."""


def timelines(data: Dataset, order: Array, events: int = EVENTS, first: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the script of the page draws the last events of histories from; clock times are in milliseconds.

    As many entities as fit are drawn, those first in `order` before others. Timelines are coloured by the columns
    `first` before others; categorical columns that have one value in most histories come last.
    """
    x = data.sequences.to("cpu")
    totals = x.lengths.numpy()[order]
    longest = next((cap for cap in LONGEST if totals.clip(max=cap).sum() <= events), LONGEST[1])
    lengths = totals.clip(max=longest)
    rows = order[lengths.cumsum() <= events]
    lengths, totals = lengths[: len(rows)], totals[: len(rows)]
    part = x.slice(torch.from_numpy(rows), torch.from_numpy(totals - lengths), torch.from_numpy(lengths))
    fields: list[Categorical | Numeric] = [field for field in data.schema.categorical if field.values]
    fields += data.schema.numeric
    fields.sort(
        key=lambda field: (first.index(field.name) if field.name in first else len(first), _constant(part, field))
    )
    columns, categorical, numeric = [], 0, 0
    for field in fields:
        values = part.values(field.name).numpy()
        if isinstance(field, Categorical) and categorical < CATEGORIES:
            columns.append(_categories(field, values))
            categorical += 1
        elif isinstance(field, Numeric) and not numeric:
            columns.append(_amounts(field, values))
            numeric += 1
    times = part.values("time").numpy().astype(np.float64)
    scale = 1e-3 if data.schema.clock else 1.0
    low = float(times.min()) if len(times) else 0.0
    step = max(float(np.ptp(times)) if len(times) else 0.0, 1e-9) / STEPS
    return {
        "rows": packed(rows.astype(np.uint32)),
        "lengths": packed(lengths.astype(np.uint16)),
        "totals": packed(totals.astype(np.uint32)),
        "longest": longest,
        "times": packed(((times - low) / step).round().clip(0, STEPS).astype(np.uint32)),
        "start": low * scale,
        "step": step * scale,
        "clock": data.schema.clock,
        "columns": columns,
    }


def _constant(x: Sequences, field: Categorical | Numeric) -> bool:
    """Return whether most histories have one value of a categorical column only, which colours would not tell apart."""
    if isinstance(field, Numeric):
        return False
    values, rows = x.values(field.name), x.rows()
    changes = (values[1:] != values[:-1]) & (rows[1:] == rows[:-1])
    return 2 * len(rows[1:][changes].unique()) < len(x)


def _categories(field: Categorical, codes: Array) -> dict[str, Any]:
    """Return a categorical column: its most frequent values, the place of each event's among them, 0 for all others."""
    counts = np.bincount(codes, minlength=field.size)
    common = np.argsort(-counts[FIRST:], kind="stable")[: len(PALETTE) - 1] + FIRST
    common = common[counts[common] > 0]
    places = np.zeros(field.size, np.uint8)
    places[common] = np.arange(1, len(common) + 1)
    names = [field.values[code - FIRST][:40] for code in common.tolist()]
    return {"name": field.name, "kind": "names", "names": names, "codes": packed(places[codes])}


def _amounts(field: Numeric, values: Array) -> dict[str, Any]:
    """Return a column of numbers with the ends of its colour scale."""
    known = values[np.isfinite(values)]
    ends = [float(end) for end in np.quantile(known, (0.02, 0.98))] if len(known) else [0.0, 1.0]
    return {"name": field.name, "kind": "number", "values": packed(values.astype(np.float32)), "ends": ends}
