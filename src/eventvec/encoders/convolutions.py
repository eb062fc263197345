"""Random convolutions over the latest events of a history, and what each kernel responds to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Self

import torch
from torch import Tensor, nn

from eventvec.encoders.aggregates import by_blocks
from eventvec.errors import ConfigError
from eventvec.options import at_least, check_seed
from eventvec.schema import FIRST, MISSING, Categorical, Schema, check_schema
from eventvec.sequences import Sequences
from eventvec.threads import as_many_threads_as_pay
from eventvec.views.cuts import latest

WIDTHS, DILATIONS, KERNELS = (3, 7, 9), (1, 2, 4, 8), 64
"""The numbers of taps, the distances between them, and the number of kernels for each pair of both."""
VECTOR, VECTORS = 8, 1024
"""The size of the vector of a code, and the number of vectors of a column."""
PARAMETERS = 64
"""The largest number of codes of one column whose latest number is a channel."""
FARTHEST = 10.0
"""The largest scaled number by its size."""


class Convolutions(nn.Module):
    """An encoder without learned weights: fixed random convolutions over the latest events of each row.

    Follows ROCKET (Dempster et al. 2020), with events in place of time steps. Each event has these channels:

    - each numeric column as the schema scales it, clipped to ±10 and 0 where missing, and whether it is missing;
    - for each categorical column, a fixed random vector of 8 numbers for the code, zeros if it is missing; of a column
      with more than 1,024 codes, codes share vectors;
    - the gap to the event before, as the schema scales it, and the log of the time to the last event of the row in
      typical gaps, divided by the log of the window;
    - if the schema has exactly one categorical and one numeric column and no list column, as tables of (parameter,
      value) do: for each of the 64 most frequent codes, the number of the latest event with that code, standardised by
      the mean and the deviation of this code's numbers in the training rows, and 0 before the first one.

    A kernel reads 3, 7 or 9 events at distances of 1, 2, 4 or 8, of all channels; what is outside the row is 0. There
    are 64 kernels for each pair. Their weights are normal, with mean 0 over the taps of each channel, scaled so that
    responses vary by about 1, and the biases are uniform in (-1, 1). For each kernel, the vector has the share of
    events with a positive response, the mean of the positive responses and the largest response. An empty row gives
    zeros.

    Only the latest `window` events of a row are read, so the vector of a history is that of its last `window` events.
    The encoder has no state to continue from. `fit` computes the means and deviations of codes; with other schemas
    there is nothing to fit. The random numbers are stored with the weights of a run.

    Relations: `Compressed` reduces the 2,304 numbers to principal components. `TemporalConvolution` is learned.

    Args:
        schema: The meaning of the columns.
        window: The largest number of events of a row that are read, the latest ones.
        seed: The seed of the random numbers.

    Raises:
        ConfigError: If `window` is below 1.

    Example:
        >>> encoder = Convolutions(Schema("card", "day", "integer"))
        >>> columns = {"time": torch.tensor([1, 2, 4, 7]), "gap": torch.tensor([torch.nan, 1, 2, 3])}
        >>> encoder(Sequences(columns, torch.tensor([0, 4]), torch.tensor([4, 0]))).shape
        torch.Size([2, 2304])
    """

    level: Tensor
    spread: Tensor
    dim = 3 * KERNELS * len(WIDTHS) * len(DILATIONS)

    def __init__(self, schema: Schema, window: int = 256, seed: int = 0) -> None:
        super().__init__()
        check_schema(schema)
        check_seed("seed", seed)
        at_least("window", window, 1)
        self.window, self.seed, self.clock, self.gap = window, seed, schema.clock, schema.gap
        self.time = schema.time
        self.numeric, self.categorical = schema.numeric, schema.categorical
        table = schema.parameters  # of a table of (parameter, value)
        self.n_latest = 0 if table is None else min(len(table.values), PARAMETERS)
        self.channels = 2 * len(self.numeric) + VECTOR * len(self.categorical) + 2 + self.n_latest
        self._width = 2 * self.channels * max(WIDTHS) + 4 * max(WIDTHS) + 3 * KERNELS
        rng = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=rng, device="cpu")  # also inside `torch.device("meta")`

        for i, column in enumerate(self.categorical):
            vectors = normal(min(column.size, VECTORS), VECTOR) / math.sqrt(VECTOR)
            vectors[MISSING] = 0
            self.register_buffer(f"vectors_{i}", vectors)
        for width in WIDTHS:
            weights = normal(len(DILATIONS), width, self.channels, KERNELS)
            weights = (weights - weights.mean(1, keepdim=True)) / math.sqrt(width * self.channels)
            self.register_buffer(f"kernels_{width}", weights.flatten(1, 2))
            biases = torch.rand(len(DILATIONS), KERNELS, generator=rng, device="cpu")
            self.register_buffer(f"biases_{width}", 2 * biases - 1)
        self.register_buffer("level", torch.full((self.n_latest,), torch.nan))  # NaN until `fit`
        self.register_buffer("spread", torch.full((self.n_latest,), torch.nan))

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)` float32, one vector per row."""
        if bool(self.level.isnan().any()):
            raise ConfigError("the encoder Convolutions has no means of codes yet; call its fit(x) with training rows")
        with as_many_threads_as_pay(self, 1):  # more threads wait for each other when other programs run
            rows = latest(x, self.window)
            return by_blocks(rows, self.dim, self.dim, lambda block, _: self._features(block), self._width)

    @property
    def latest(self) -> int:
        """How many of a row's latest events are read."""
        return self.window

    @torch.no_grad()
    def fit(self, x: Sequences) -> Self:
        """Return the encoder itself, after the means and deviations of codes were computed from the latest events."""
        sums = torch.zeros(3, self.n_latest, dtype=torch.float64)
        x = latest(x, self.window)
        for block in x.blocks() if self.n_latest else ():
            code, values = (each.cpu() for each in self._measured(x[block]))
            powers = torch.stack([values.double() ** power for power in range(3)])
            sums.index_add_(1, code[code >= 0], powers[:, code >= 0])
        count, total, squares = sums
        mean = total / count.clamp(min=1)
        variance = squares / count.clamp(min=1) - mean.square()
        varies = variance > mean.square().clamp(min=1) * torch.finfo(torch.float32).eps
        self.level.copy_(mean)
        self.spread.copy_(torch.where(varies, variance.clamp(min=0).rsqrt(), 0))
        return self

    def column_shares(self) -> tuple[Tensor, list[str]]:
        """Return `(dim, columns)` the share of each response's squared weights on each column, and the columns' names.

        Rows sum to 1. The columns are those of numbers, then of codes, then of times, to which the two channels of
        times count. The latest numbers with a code count to the column of numbers.
        """
        names = [*(each.name for each in self.numeric), *(each.name for each in self.categorical), self.time]
        n_numbers, times = len(self.numeric), len(names) - 1
        columns = [place for place in range(n_numbers) for _ in range(2)]
        columns += [place for place in range(n_numbers, times) for _ in range(VECTOR)]
        columns += [times, times, *[0] * self.n_latest]  # with latest numbers, there is one column of numbers
        shares = []
        for _, weights, _ in self._kernels(torch.device("cpu")):
            squares = weights.double().square().unflatten(0, (-1, self.channels)).sum(0)  # (channels, 64)
            of_columns = squares.new_zeros(len(names), KERNELS).index_add(0, torch.tensor(columns), squares)
            shares += [(of_columns / of_columns.sum(0)).T] * 3  # a kernel has three responses
        return torch.cat(shares).float(), names

    def _features(self, x: Sequences) -> Tensor:
        """Return `(n, dim)` float32 the responses of rows that fit into memory together."""
        n, rows, lengths = len(x), x.rows(), x.lengths.clamp(min=1).unsqueeze(1)
        place = torch.arange(len(rows), device=x.device).unsqueeze(1)
        first = place - x.steps().unsqueeze(1)
        end = first + x.lengths[rows].unsqueeze(1)
        channels = torch.cat([self._channels(x), torch.zeros(1, self.channels, device=x.device)])
        each_row = rows.unsqueeze(1).expand(-1, KERNELS)
        zeros = torch.zeros(n, KERNELS, device=x.device)
        features = []
        for offsets, weights, biases in self._kernels(x.device):
            taps = place + offsets
            taps = torch.where((taps >= first) & (taps < end), taps, len(rows))  # the zeros behind the last event
            response = biases + channels.index_select(0, taps.flatten()).view(len(rows), len(weights)) @ weights
            positive = zeros.index_add(0, rows, (response > 0).float())
            total = zeros.index_add(0, rows, response.relu())
            largest = zeros.scatter_reduce(0, each_row, response, "amax", include_self=False)
            features += [positive / lengths, total / positive.clamp(min=1), largest]
        return torch.cat(features, 1)

    def _kernels(self, device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield `(width,)` the taps, `(width * channels, 64)` the weights and `(64,)` the biases of kernels."""
        for width in WIDTHS:
            kernels, biases = (self.get_buffer(f"{name}_{width}").to(device) for name in ("kernels", "biases"))
            for i, dilation in enumerate(DILATIONS):
                yield (torch.arange(width, device=device) - width // 2) * dilation, kernels[i], biases[i]

    def _channels(self, x: Sequences) -> Tensor:
        """Return `(total, channels)` float32 the channels of the events."""
        parts: list[Tensor] = []
        for column in self.numeric:
            values = column.scale(x.values(column.name))
            parts += [_bounded(values), values.isnan().unsqueeze(1).float()]
        for i, codes in enumerate(self.categorical):
            vectors = self.get_buffer(f"vectors_{i}").to(x.device)
            parts.append(vectors[_narrow(x.values(codes.name), codes)])
        parts += [_bounded(self.gap.scale(x.values("gap"))), self._since(x).unsqueeze(1)]
        if self.n_latest:
            parts.append(self._grid(x))
        return torch.cat(parts, 1)

    def _since(self, x: Sequences) -> Tensor:
        """Return `(total,)` the scaled log of the time from each event to the last one of its row."""
        time = x.values("time")
        last = time[(x.lengths.cumsum(0) - 1)[x.rows()]]
        typical = float(self.gap.unscale(torch.zeros(())))
        unit = (1e6 if self.clock else 1.0) * (typical if 0 < typical < math.inf else 1.0)
        return ((last - time).double() / unit).log1p().float() / math.log1p(self.window)

    def _measured(self, x: Sequences) -> tuple[Tensor, Tensor]:
        """Return `(total,)` the place of each event's code among the channels, or -1, and `(total,)` its number."""
        code = x.values(self.categorical[0].name).long() - FIRST
        values = self.numeric[0].scale(x.values(self.numeric[0].name))
        there = (code >= 0) & (code < self.n_latest) & values.isfinite()
        return torch.where(there, code, -1), torch.where(there, values, 0)

    def _grid(self, x: Sequences) -> Tensor:
        """Return `(total, n_latest)` the standardised latest number with each code, as of each event."""
        code, values = self._measured(x)
        level, spread = self.level.to(x.device), self.spread.to(x.device)
        values = ((values - level[code]) * spread[code]).clamp(-FARTHEST, FARTHEST)
        place = torch.arange(len(code), device=x.device)
        there = code.unsqueeze(1) == torch.arange(self.n_latest, device=x.device)
        last = torch.where(there, place.unsqueeze(1), -1).cummax(0).values
        inside = last >= (place - x.steps()).unsqueeze(1)
        return torch.where(inside, values[last.clamp(min=0)], 0)


def _bounded(values: Tensor) -> Tensor:
    """Return `(total, 1)` scaled numbers, clipped, and 0 where missing."""
    return values.nan_to_num().clamp(-FARTHEST, FARTHEST).unsqueeze(1)


def _narrow(codes: Tensor, column: Categorical) -> Tensor:
    """Return the places of codes among the vectors of a column."""
    codes, size = codes.long(), min(column.size, VECTORS)
    return torch.where(codes < size, codes, FIRST + (codes - FIRST) % max(size - FIRST, 1))
