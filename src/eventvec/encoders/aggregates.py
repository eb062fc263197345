"""Aggregates of the CoLES paper: counts, sums, means, standard deviations, extremes; a baseline for every embedding.

Babaev et al. 2022, Appendix E.1, and the authors' public code: the paper has the minimum and the maximum of each
number, the code has the number of events and of distinct values; both are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eventvec.dataset import Dataset
from eventvec.options import at_least
from eventvec.schema import FIRST, UNKNOWN, Schema, check_schema
from eventvec.sequences import Sequences


class Aggregates(nn.Module):
    """An encoder without parameters that computes counts, sums, means, deviations and extremes of a row's events.

    The features are, in this order:

    - the number of events;
    - for each numeric column: sum, mean, sample standard deviation, minimum and maximum of the values that are there;
    - for each categorical column: the count of each value; for each numeric column, its mean and its sample standard
      deviation over the events with that value; and the number of distinct values, in which all unknown values count as
      one and missing values do not count. A hashed column has only this number, of its buckets;
    - for each list column: the count of each value among the elements of all events, and the number of distinct values.

    A mean, minimum or maximum over no values and a standard deviation over fewer than two are 0. An empty row gives
    zeros. Sums are computed in float64 over differences from one of the values, so a small standard deviation
    beside a large mean is exact. Sums beyond float32's range become its largest number.

    Relations: `Handcrafted` adds times, order and changes, and takes logs.

    Args:
        schema: The meaning of the columns.
        values: How many values of each categorical column get features, the most frequent first; the paper's public
            code takes up to 250. Each value takes `1 + 2 * numeric columns` features.

    Raises:
        ConfigError: If `values` is negative.

    Example:
        >>> from eventvec.schema import Categorical, Numeric, Schema
        >>> shops = Categorical("mcc", ("5411",))
        >>> schema = Schema("card", "day", "integer", categorical=(shops,), numeric=(Numeric("amount"),))
        >>> columns = {"mcc": torch.tensor([2, 2, 1]), "amount": torch.tensor([3.0, 5.0, 1.0])}
        >>> encoder = Aggregates(schema)
        >>> z = encoder(Sequences(columns, torch.tensor([0]), torch.tensor([3])))
        >>> dict(zip(encoder.names[6:], z[0, 6:].round(decimals=2).tolist()))["amount where mcc=5411: mean"]
        4.0
    """

    names: tuple[str, ...]
    dim: int

    def __init__(self, schema: Schema, values: int = 200) -> None:
        super().__init__()
        check_schema(schema)
        at_least("values", values, 0)
        self.values = values
        self.numeric = tuple(column.name for column in schema.numeric)
        self.categorical, self.bags = schema.categorical, schema.bags
        self.names = tuple(self._names())
        self.dim = len(self.names)
        self._width = max([self.dim, *(column.size for column in (*schema.categorical, *schema.bags))])

    def forward(self, x: Sequences) -> Tensor:
        """Return the aggregates of each row, `(n, dim)` float32."""
        return by_blocks(x, self._width, self.dim, lambda rows, _: self._aggregate(rows))

    def _aggregate(self, x: Sequences) -> Tensor:
        n, rows = len(x), x.rows()
        numbers = [x.values(name).double() for name in self.numeric]
        parts = [x.lengths.unsqueeze(1)]
        for number in numbers:
            parts.append(torch.stack([*_moments(number, rows, n), *_extremes(number, rows, n)], 1))
        for column in self.categorical:
            code, size = x.values(column.name).long(), len(column.values[: self.values])
            counts = torch.bincount(rows * column.size + code, minlength=n * column.size).view(n, column.size)
            parts.append(counts[:, FIRST : FIRST + size])
            has_features = (code >= FIRST) & (code < FIRST + size)
            group = torch.where(has_features, rows * size + code - FIRST, n * size)
            for number in numbers:
                parts += [part.view(n, size) for part in _moments(number, group, n * size)[1:]]
            parts.append((counts[:, UNKNOWN:] > 0).sum(1, keepdim=True))
        for column in self.bags:
            bags = x.columns[column.name][x.flat()]
            assert isinstance(bags, Sequences)
            code, size = bags.values("code").long(), len(column.values[: self.values])
            counts = torch.bincount(rows[bags.rows()] * column.size + code, minlength=n * column.size)
            counts = counts.view(n, column.size)
            parts += [counts[:, FIRST : FIRST + size], (counts[:, UNKNOWN:] > 0).sum(1, keepdim=True)]
        return finite(torch.cat([part.double() for part in parts], dim=1))

    def _names(self) -> Iterator[str]:
        yield "events"
        for name in self.numeric:
            yield from (f"{name}: {statistic}" for statistic in ("sum", "mean", "std", "min", "max"))
        for column in self.categorical:
            conditions = [f"{column.name}={value}" for value in column.values[: self.values]]
            yield from (f"{condition}: count" for condition in conditions)
            for name in self.numeric:
                for statistic in ("mean", "std"):
                    yield from (f"{name} where {condition}: {statistic}" for condition in conditions)
            yield f"{column.name}: distinct"
        for column in self.bags:
            yield from (f"{column.name}={value}: count" for value in column.values[: self.values])
            yield f"{column.name}: distinct"


def aggregate_features(
    data: Dataset, values: int = 200
) -> tuple[np.ndarray[Any, np.dtype[np.float32]], tuple[str, ...]]:
    """Return the aggregates of each entity, `(n, dim)`, and the names of the features; see `Aggregates`."""
    encoder = Aggregates(data.schema, values)
    return encoder(data.sequences).cpu().numpy(), encoder.names


def _moments(values: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return sum, mean and sample standard deviation per group, `(groups,)` each; group number `groups` is dropped."""
    group = torch.where(values.isnan(), groups, group)
    count = torch.bincount(group, minlength=groups + 1)
    zeros = values.new_zeros(groups + 1)
    pivot = zeros.scatter(0, group, values)  # any one of the group's values
    pivot[groups] = 0
    shifted = torch.where(group == groups, 0, values) - pivot[group]
    total = zeros.index_add(0, group, shifted)
    mean = total / count.clamp(min=1)
    square = zeros.index_add(0, group, (shifted - mean[group]).square())
    std = (square / (count - 1).clamp(min=1)).sqrt()
    return (pivot * count + total)[:groups], (pivot + mean)[:groups], std[:groups]


def _extremes(values: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Return the minimum and the maximum per group, `(groups,)` each; 0 for a group without values."""
    group = torch.where(values.isnan(), groups, group)
    zeros = values.new_zeros(groups + 1)
    low = zeros.scatter_reduce(0, group, values, "amin", include_self=False)
    high = zeros.scatter_reduce(0, group, values, "amax", include_self=False)
    return low[:groups], high[:groups]


def finite(values: Tensor) -> Tensor:
    """Return float32 values, where those beyond its range become its largest number."""
    limit = torch.finfo(torch.float32).max
    return values.clamp(-limit, limit).float()


def by_blocks(
    x: Sequences, width: int, dim: int, function: Callable[[Sequences, slice], Tensor], per_event: int = 1
) -> Tensor:
    """Return `(n, dim)` float32 on the device of the rows, from a function of consecutive rows that fit into memory.

    A block has about `sequences.BLOCK` intermediate numbers in all, `width` for each row and `per_event` for each
    event, but at least one row; the function also gets the places of its rows. On devices without float64 (mps) the
    rows are moved to the CPU.
    """
    device = x.device
    x = x.to("cpu") if device.type == "mps" else x
    blocks = list(x.blocks(width, per_event))
    if len(blocks) == 1:
        return function(x, blocks[0]).to(device)
    results = torch.zeros(len(x), dim, device=x.device)
    for block in blocks:
        results[block] = function(x[block], block)
    return results.to(device)
