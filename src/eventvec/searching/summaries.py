"""A history in one line: how many events, when, the most frequent values and the means."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from eventvec.dataset import Dataset
from eventvec.schema import FIRST, Categorical
from eventvec.tables import times

VALUES = 2
"""The number of values of a categorical column that are named."""


def summaries(data: Dataset) -> list[str]:
    """Return one line for each history of a data set: events, first and last time, frequent values, and means."""
    return [_summary(data[[row]]) for row in range(len(data))]


def _summary(data: Dataset) -> str:
    """Return the line of a single history."""
    x = data.sequences
    if not x.total:
        return "no events"
    parts = [f"{x.total:,} event{'' if x.total == 1 else 's'}, {_period(data)}"]
    for field in data.schema.fields:
        values = x.values(field.name)
        if isinstance(field, Categorical):
            if not field.buckets and (named := _frequent(field, values)):
                parts.append(f"{field.name} {named}")
        elif len(present := values[~values.isnan()]):
            parts.append(f"{field.name} {float(present.mean()):.4g}")
    return "; ".join(parts)


def _period(data: Dataset) -> str:
    column = data.sequences.values("time")
    ends = np.array([column[0].item(), column[-1].item()])
    shown = times.to_arrow(data.schema, ends).to_pylist()
    first, last = (str(each)[:10] if data.schema.clock else f"{each:g}" for each in shown)
    return first if first == last else f"{first} to {last}"


def _frequent(field: Categorical, codes: Tensor) -> str:
    """Return the most frequent values of a column and their shares."""
    counts = np.bincount(codes.numpy(), minlength=field.size)[FIRST:]
    order = np.argsort(-counts, kind="stable")[:VALUES]
    return ", ".join(
        f"{field.values[place]} {100 * counts[place] / len(codes):.0f} %" for place in order if counts[place]
    )
