"""Each column of the events as one row of shares per entity, in which every entity counts as much as any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Schema
from eventvec.sequences import Sequences

BINS = 32
"""The number of bins of a column of numbers, which hold about as many events each."""
VALUES = 256
"""The number of values of a column of categories that are compared one by one; the rest counts as one value."""
HOUR = 3_600_000_000
"""An hour in microseconds."""


@dataclass(frozen=True, eq=False)
class Profile:
    """A column as shares of each entity's events.

    `shares` is `(rows, bins)`: the share of a row's values in each bin, for numbers in this bin or a lower one, and 0
    for a row without values. `present` is `(rows, 2)`, 1 where a row has values, and where it has events; `group` says
    on which of the two a bin depends. `ordered` is whether the first bins are those of numbers.
    """

    name: str
    kind: str
    shares: Tensor
    group: Tensor
    present: Tensor
    labels: tuple[str, ...]
    ordered: bool


def profiles(x: Sequences, schema: Schema) -> Iterator[Profile]:
    """Yield the profile of the number of events, of the times, and of each column.

    The bins depend on all rows together, whatever their period, so permutations of the periods are fair.
    """
    n, row = len(x), x.rows()
    events = x.lengths.double()
    yield _numbers("events per entity", "count", torch.arange(n), events.float(), n, None)
    if "time" in x.columns:
        later = x.steps() > 0
        yield _numbers("gap", "interval", row[later], x.values("gap")[later], n, None, " s" if schema.clock else "")
    if schema.time_kind == "timestamp":
        hours = (x.values("time") // HOUR) % 24
        yield _categories("hour of the day", "categorical", row, hours, 24, n, lambda code: f"{code:02}:00")
    for field in schema.numeric:
        yield _numbers(field.name, "numeric", row, x.values(field.name), n, events)
    for column in schema.categorical:
        codes = x.values(column.name).long()
        yield _categories(column.name, "categorical", row, codes, column.size, n, partial(_label, column))
    for bag in schema.bags:
        lists = x.columns[bag.name][x.flat()]
        assert isinstance(lists, Sequences)
        elements = lists.values("code").long()
        yield _categories(bag.name, "list", row[lists.rows()], elements, bag.size, n, partial(_label, bag))
    for text in schema.texts:
        texts = x.columns[text.name][x.flat()]
        assert isinstance(texts, Sequences)
        sizes = torch.where(texts.lengths > 0, texts.lengths.float(), torch.nan)
        yield _numbers(text.name, "text", row, sizes, n, events, " bytes")


def _label(column: Categorical, code: int) -> str:
    """Return what a code stands for."""
    if code < FIRST:
        return {MISSING: "missing", UNKNOWN: "unknown"}[code]
    return f"bucket {code - FIRST}" if column.buckets else repr(column.values[code - FIRST])


def _numbers(
    name: str, kind: str, row: Tensor, values: Tensor, n: int, events: Tensor | None, unit: str = ""
) -> Profile:
    """Return the profile of numbers, by the share of a row's numbers up to each of several edges."""
    there = ~values.isnan()
    row, numbers = row[there], values[there].contiguous()
    edges = _edges(numbers)
    bins = len(edges) + 1
    places = torch.bucketize(numbers, edges)  # the number of edges below each value
    counts, totals = _counts(row, places, n, bins)
    shares = counts.cumsum(1)[:, :-1] / totals.clamp(min=1)
    labels = [f"≤ {edge:.4g}{unit}" for edge in edges.tolist()]
    present, group = [totals[:, 0] > 0, totals[:, 0] > 0], [0] * len(edges)
    if events is not None:
        missing = (events - totals[:, 0]) / events.clamp(min=1)
        shares = torch.cat([shares, missing.unsqueeze(1)], dim=1)
        labels, group, present[1] = [*labels, "missing"], [*group, 1], events > 0
    return Profile(
        name, kind, shares, torch.tensor(group).long(), torch.stack(present, 1).double(), tuple(labels), True
    )


def _counts(row: Tensor, places: Tensor, n: int, bins: int) -> tuple[Tensor, Tensor]:
    """Return `(n, bins)` the number of a row's values in each bin, and `(n, 1)` that of all of them."""
    counts = torch.bincount(row * bins + places, minlength=n * bins).view(n, bins).double()
    return counts, counts.sum(1, keepdim=True)


def _edges(numbers: Tensor) -> Tensor:
    """Return the ascending numbers that separate bins of about as many numbers each; the largest is no edge."""
    if not len(numbers):
        return numbers
    quantiles = np.quantile(numbers.numpy(), np.arange(1, BINS) / BINS, method="lower")
    edges = torch.from_numpy(np.unique(quantiles).astype(numbers.numpy().dtype))
    return edges[edges < numbers.max()]


def _categories(
    name: str, kind: str, row: Tensor, codes: Tensor, size: int, n: int, label: Callable[[int], str]
) -> Profile:
    """Return the profile of codes, by the share of each code among those of a row."""
    occurs = torch.bincount(codes, minlength=size)
    frequent = occurs.argsort(descending=True, stable=True)[: min(VALUES, int((occurs > 0).sum()))].sort()[0]
    bins = len(frequent) + 1
    places = torch.full((size,), bins - 1)
    places[frequent] = torch.arange(bins - 1)
    counts, totals = _counts(row, places[codes], n, bins)
    labels = [*map(label, frequent.tolist()), *(["another value"] if int((occurs > 0).sum()) > VALUES else [])]
    shares = (counts / totals.clamp(min=1))[:, : len(labels)]
    present = (totals > 0).double().expand(n, 2)
    return Profile(name, kind, shares, torch.zeros(len(labels)).long(), present, tuple(labels), False)
