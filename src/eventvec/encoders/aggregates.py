"""Hand-crafted aggregates: counts, sums, means and deviations, the baseline that every embedding must beat.

They are an encoder without parameters, so whatever takes an encoder takes them. They know neither the order of the
events nor their times. Babaev et al. 2022, Appendix E.1, and the authors' public code.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError
from eventvec.schema import FIRST, UNKNOWN, Categorical, Schema
from eventvec.sequences import Sequences

CELLS = 1 << 20
"""About how many numbers one block of rows may take, counted as features plus events."""


class Aggregates(nn.Module):
    """An encoder without parameters: what one would compute by hand from a row's events.

    In this order: the number of events; per numeric column sum, mean and sample standard deviation of what is not
    missing; per categorical column the count of each value, for each numeric column its mean and sample standard
    deviation over the events with that value, and the number of distinct values (all unknown values are one value,
    a missing one is none). Where there is nothing to average, and where a deviation lacks a second number, the
    feature is 0; an empty row is all zeros.

    Sums are taken in float64 over differences from one of the cell's own numbers, so that large means do not swallow
    small deviations and equal numbers deviate by exactly 0. Rows are worked in blocks, so that memory beyond the
    result stays bounded. Apple's accelerator has no float64; rows that lie there are worked on the CPU.

    Args:
        schema: what the columns mean.
        values: how many values of each categorical column get features of their own, the most frequent first; the
            paper's public code takes up to 250. Each costs `1 + 2 * numeric columns` features.

    Raises:
        ConfigError: `values` is negative.

    Example:
        >>> from eventvec.schema import Categorical, Numeric, Schema
        >>> shops = Categorical("mcc", ("5411",))
        >>> schema = Schema("card", "day", "integer", categorical=(shops,), numeric=(Numeric("amount"),))
        >>> columns = {"mcc": torch.tensor([2, 2, 1, 2]), "amount": torch.tensor([3.0, 5.0, 1.0, 7.0])}
        >>> encoder = Aggregates(schema)
        >>> z = encoder(Sequences(columns, torch.tensor([0, 3]), torch.tensor([3, 1])))
        >>> for name, first, second in zip(encoder.names, *z.tolist()):
        ...     print(f"{name:28} {first:.3f} {second:.3f}")
        events                       3.000 1.000
        amount: sum                  9.000 7.000
        amount: mean                 3.000 7.000
        amount: std                  2.000 0.000
        mcc=5411: count              2.000 1.000
        amount where mcc=5411: mean  4.000 7.000
        amount where mcc=5411: std   1.414 0.000
        mcc: distinct                2.000 1.000
    """

    names: tuple[str, ...]
    dim: int

    def __init__(self, schema: Schema, values: int = 200) -> None:
        super().__init__()
        if values < 0:
            raise ConfigError(f"aggregates need values of 0 or more, not {values}")
        self.values = values
        self.numeric = tuple(column.name for column in schema.numeric)
        self.categorical = schema.categorical
        self.names = tuple(self._names())
        self.dim = len(self.names)
        self._width = max([self.dim, *(column.size for column in schema.categorical)])

    def forward(self, x: Sequences) -> Tensor:
        """Return the aggregates of each row, `(n, dim)` float32.

        Args:
            x: rows with the schema's columns: int32 codes, and raw numbers with NaN where missing.
        """
        device = x.device
        if device.type == "mps":
            x = x.to("cpu")
        z = torch.zeros(len(x), self.dim, device=x.device)
        for block in _blocks(x.lengths, self._width):
            z[block] = self._aggregate(x[block])
        return z.to(device)

    def _aggregate(self, x: Sequences) -> Tensor:
        n, rows = len(x), x.rows()
        numbers = [x.values(name).double() for name in self.numeric]
        parts = [x.lengths.unsqueeze(1)]
        for number in numbers:
            parts.append(torch.stack(_moments(number, rows, n), 1))
        for column in self.categorical:
            code, kept = x.values(column.name).long(), self._kept(column)
            counts = torch.bincount(rows * column.size + code, minlength=n * column.size).view(n, column.size)
            parts.append(counts[:, FIRST : FIRST + kept])
            own = (code >= FIRST) & (code < FIRST + kept)
            cell = torch.where(own, rows * kept + code - FIRST, n * kept)
            for number in numbers:
                parts += [part.view(n, kept) for part in _moments(number, cell, n * kept)[1:]]
            parts.append((counts[:, UNKNOWN:] > 0).sum(1, keepdim=True))
        return torch.cat([part.float() for part in parts], dim=1)

    def _kept(self, column: Categorical) -> int:
        return min(self.values, len(column.values))

    def _names(self) -> Iterator[str]:
        yield "events"
        for name in self.numeric:
            yield from (f"{name}: sum", f"{name}: mean", f"{name}: std")
        for column in self.categorical:
            own = [f"{column.name}={value}" for value in column.values[: self._kept(column)]]
            yield from (f"{value}: count" for value in own)
            for name in self.numeric:
                yield from (f"{name} where {value}: {what}" for what in ("mean", "std") for value in own)
            yield f"{column.name}: distinct"


def aggregate_features(
    data: Dataset, values: int = 200
) -> tuple[np.ndarray[Any, np.dtype[np.float32]], tuple[str, ...]]:
    """Return the aggregates of each entity, `(n, dim)`, and the name of each feature; see `Aggregates`.

    Example:
        >>> import pyarrow as pa
        >>> from eventvec.schema import Numeric, Schema
        >>> schema = Schema("card", "day", "integer", numeric=(Numeric("amount"),))
        >>> x = Sequences({"amount": torch.tensor([3.0, 5.0])}, torch.tensor([0]), torch.tensor([2]))
        >>> aggregate_features(Dataset(pa.array(["a"]), x, schema))
        (array([[2. , 8. , 4. , 1.4142135]], dtype=float32), ('events', 'amount: sum', 'amount: mean', 'amount: std'))
    """
    encoder = Aggregates(data.schema, values)
    return encoder(data.sequences).cpu().numpy(), encoder.names


def _moments(values: Tensor, cell: Tensor, cells: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return sum, mean and sample standard deviation per cell, `(cells,)` each; cell number `cells` is dropped."""
    cell = torch.where(values.isnan(), cells, cell)
    count = torch.bincount(cell, minlength=cells + 1)
    zeros = values.new_zeros(cells + 1)
    pivot = zeros.scatter(0, cell, values)  # one of the cell's own numbers, whichever
    pivot[cells] = 0
    shifted = torch.where(cell == cells, 0, values) - pivot[cell]
    total = zeros.index_add(0, cell, shifted)
    mean = total / count.clamp(min=1)
    square = zeros.index_add(0, cell, (shifted - mean[cell]).square())
    std = (square / (count - 1).clamp(min=1)).sqrt()
    return (pivot * count + total)[:cells], (pivot + mean)[:cells], std[:cells]


def _blocks(lengths: Tensor, width: int) -> Iterator[slice]:
    """Yield consecutive rows that together have about `CELLS` features and events; at least one row each."""
    ends = (lengths + width).cumsum(0)
    sizes = torch.unique_consecutive((ends - 1) // CELLS, return_counts=True)[1]
    stops = sizes.cumsum(0).tolist()
    for start, stop in pairwise([0, *stops]):
        yield slice(start, stop)
