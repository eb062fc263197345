"""The hand-crafted features that follow from sums, so that new events continue them exactly."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from eventvec.encoders.aggregates import by_blocks, finite
from eventvec.options import at_least
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Schema
from eventvec.sequences import Sequences

COUNT, MEAN, NORM, LOW, HIGH, LAST = range(6)
"""The parts of a column's statistics; `NORM` is the root of the sum of squared differences from the mean."""

BEYOND = 2.0**128
"""By which a state divides the numbers beyond float32's range, such as the sum of two numbers near its limit."""


class RunningHandcrafted(nn.Module):
    """An encoder without parameters: those features of `Handcrafted` that are exact after an update.

    They follow from counts, sums, extremes, and first and last values of a row's events. So the features of a whole
    history are those of its beginning, continued with the events since:

    - the number of events and of distinct times, and the span from the first to the last event;
    - mean, sample standard deviation, maximum and last of the gaps between events;
    - for each numeric column: the count and the sum of its values, their mean, sample standard deviation, minimum,
      maximum and last value, and the share of events where it is missing;
    - for each categorical column: the shares of missing and of unknown values and of values that repeat the one of the
      event before; count and share of each frequent value; the mean of each numeric column over the events with that
      value; and which frequent value the last event has;
    - for the most frequent values among these: sample standard deviation, minimum, maximum and last of each numeric
      column over the events with that value, and the time from the last of these events to the last of all, or the span
      if there is none.

    Counts, sums and times are signed logs, `sign(v)·log(1 + |v|)`, in seconds for calendar times and otherwise in the
    unit of the times. Means, standard deviations, extremes and last values of a column are signed logs if the schema
    scales the column by logs, and raw otherwise. What is undefined is 0, as everything of an empty row is.

    A state holds float64 numbers as three float32 numbers each, because stores keep float32. Numbers beyond float32's
    range are scaled first. So a continued state differs from that of the whole history by rounding of float64 sums
    only. The span of integer times beyond 2^53 is rounded.

    Relations: `Handcrafted` has these features and those that need all events.

    Args:
        schema: The meaning of the columns.
        values: How many values of each categorical column have counts, shares and means, the most frequent first.
        frequent: For how many of these values a feature says whether the last event has it.
        within: How many of these values have further statistics of each numeric column.

    Raises:
        ConfigError: If `values`, `frequent` or `within` is negative.

    Example:
        >>> from eventvec.schema import Numeric
        >>> encoder = RunningHandcrafted(Schema("card", "day", "integer", numeric=(Numeric("amount", log=False),)))
        >>> columns = {"time": torch.tensor([1, 2, 6]), "amount": torch.tensor([3.0, 5.0, 1.0])}
        >>> x, row = Sequences(columns, torch.tensor([0]), torch.tensor([3])), torch.tensor([0])
        >>> begun = encoder.state(x.slice(row, row, torch.tensor([2])))
        >>> z = encoder.read(encoder.state(x.slice(row, torch.tensor([2]), torch.tensor([1])), begun))
        >>> bool((z == encoder(x)).all()), round(z[0, encoder.names.index("amount: max")].item(), 3)
        (True, 5.0)
    """

    causal = True
    names: tuple[str, ...]
    dim: int

    def __init__(self, schema: Schema, values: int = 200, frequent: int = 20, within: int = 0) -> None:
        super().__init__()
        for name, number in (("values", values), ("frequent", frequent), ("within", within)):
            at_least(name, number, 0)
        self.values, self.frequent, self.within, self.clock = values, frequent, within, schema.clock
        self.numeric, self.categorical = schema.numeric, schema.categorical
        self.names = tuple(self._names())
        self.dim = len(self.names)
        inner = [self.n_within(column) for column in self.categorical]
        n_added = 2 + sum(
            2 + self.n_slots(column) + 2 * len(self.numeric) * (self.n_values(column) - count)
            for column, count in zip(self.categorical, inner, strict=True)
        )
        self.sizes = (3 + len(inner) + sum(inner), n_added, 6 * (1 + len(self.numeric) * (1 + sum(inner))))
        self.width = 3 * sum(self.sizes) + self.dim + 6 * max(map(self.n_slots, self.categorical), default=0)

    def forward(self, x: Sequences) -> Tensor:
        """Return the features of each row, `(n, dim)` float32."""
        return by_blocks(x, self.width, self.dim, lambda rows, _: self.features(rows))

    def features(self, x: Sequences) -> Tensor:
        """Return `(n, dim)` float32 the features of rows that fit into memory together."""
        return self._read(self._state(x, None))

    def state(self, x: Sequences, initial: Tensor | None = None) -> Tensor:
        """Return `(n, k)` float32 the state after each row, from states before it, or those of empty rows."""

        def state(rows: Sequences, block: slice) -> Tensor:
            return _split(self._state(rows, None if initial is None else _joined(initial[block].to(rows.device))))

        return by_blocks(x, self.width, self.stored_dim, state)

    @property
    def stored_dim(self) -> int:
        """The size of a state."""
        return 3 * sum(self.sizes)

    def read(self, state: Tensor) -> Tensor:
        """Return `(n, dim)` float32 the features of states."""
        place = torch.device("cpu") if state.device.type == "mps" else state.device
        return self._read(_joined(state.to(place))).to(state.device)

    def _state(self, x: Sequences, before: Tensor | None) -> Tensor:
        """Return `(n, s)` float64: the latest values, what is added, and the statistics of gaps and numbers."""
        if before is None:
            before = torch.zeros(len(x), sum(self.sizes), dtype=torch.float64, device=x.device)
        old_latest, old_added, old_moments = before.split(self.sizes, 1)
        n, rows, filled, known = len(x), x.rows(), x.lengths > 0, old_added[:, 0] > 0
        head = x.steps() == 0
        time = x.values("time")
        ends = x.lengths.cumsum(0) - 1
        first, last = at(time, ends + 1 - x.lengths), at(time, ends)
        rest = (last - last.double().to(time.dtype)).double()  # of whole numbers beyond 2^53
        since_before = first - (old_latest[:, 1].to(time.dtype) + old_latest[:, 2].to(time.dtype))
        since_before = since_before.double().where(known, torch.nan)
        gap = torch.where(head, since_before[rows], time.diff(prepend=time[:1]).double())
        numbers = [x.values(column.name).double() for column in self.numeric]
        latest = [torch.where(known, old_latest[:, 0], first.double()), last.double(), rest]
        moments = [statistics(values, rows, n).unsqueeze(1) for values in (gap, *numbers)]
        old_times = old_latest[:, 3 + len(self.categorical) :].split([*map(self.n_within, self.categorical)], 1)
        times = []
        moved = tally(gap != 0, rows, n)  # the first event ever, whose gap is NaN, is counted too
        added = [torch.stack([x.lengths, moved], 1)]
        for i, column in enumerate(self.categorical):
            code, slots = x.values(column.name).long(), self.n_slots(column)
            latest.append(at(code, ends).double())
            previous = torch.where(head, old_latest[:, 3 + i].long()[rows], code.roll(1))
            pair = (code != MISSING) & (previous != MISSING)
            added += [torch.stack([tally(pair, rows, n), tally(pair & (code == previous), rows, n)], 1)]
            group, inner = rows * slots + code.clamp(max=slots - 1), slice(FIRST, FIRST + self.n_within(column))
            added.append(torch.bincount(group, minlength=n * slots).view(n, slots))
            place = torch.full((n * slots,), -1, device=x.device)
            place = place.scatter_reduce(0, group, torch.arange(len(group), device=x.device), "amax")
            place = place.view(n, slots)[:, inner]
            times.append(torch.where(place < 0, old_times[i], at(time, place).double()))
            for number in numbers:
                moments.append(statistics(number, group, n * slots).view(n, slots, 6)[:, inner])
                sums = number.new_zeros(n * slots).index_add(0, group, number.nan_to_num())
                present = tally(~number.isnan(), group, n * slots)
                added += [part.view(n, slots)[:, inner.stop : -1] for part in (sums, present)]
        return torch.cat(
            [
                torch.where(filled.unsqueeze(1), torch.stack(latest, 1), old_latest[:, : len(latest)]),
                *times,
                old_added + torch.cat([part.double() for part in added], 1),
                merged(old_moments.unflatten(1, (-1, 6)), torch.cat(moments, 1)).flatten(1),
            ],
            1,
        )

    def _read(self, state: Tensor) -> Tensor:
        latest, added, moments = state.split(self.sizes, 1)
        moments, inner = moments.unflatten(1, (-1, 6)).tensor_split([1 + len(self.numeric)], 1)
        gap, *numbers = moments.unbind(1)
        events, added = added[:, :2], added[:, 2:]
        last_times = latest[:, 3 + len(self.categorical) :].split([*map(self.n_within, self.categorical)], 1)
        scale = 1e6 if self.clock else 1.0
        gaps = torch.stack([gap[:, MEAN], deviation(gap), gap[:, HIGH], gap[:, LAST]], 1)
        n = events[:, :1]
        times = torch.cat([latest[:, 1:2] - latest[:, :1], gaps], 1)
        parts = [signed_log(events), signed_log(times / scale)]
        for field, number in zip(self.numeric, numbers, strict=True):
            count = number[:, COUNT : COUNT + 1]
            parts.append(signed_log(torch.cat([count, count * number[:, MEAN : MEAN + 1]], 1)))
            levels = torch.stack([number[:, MEAN], deviation(number), *number[:, LOW:].unbind(1)], 1)
            parts += [signed_log(levels) if field.log else levels, (n - count) / n.clamp(min=1)]
        for i, column in enumerate(self.categorical):
            values, slots, within = self.n_values(column), self.n_slots(column), self.n_within(column)
            sizes = (2, slots, 2 * (values - within) * len(self.numeric))
            pairs, counts, of_numbers = added[:, : sum(sizes)].split(sizes, 1)
            added = added[:, sum(sizes) :]
            shares = counts / n.clamp(min=1)
            codes = torch.arange(FIRST, FIRST + min(values, self.frequent), device=state.device)
            parts += [shares[:, [MISSING, UNKNOWN]], pairs[:, 1:] / pairs[:, :1].clamp(min=1)]
            parts += [signed_log(counts[:, FIRST:-1]), shares[:, FIRST:-1]]
            of_numbers = of_numbers.reshape(len(state), len(self.numeric), 2, values - within)
            for field, both in zip(self.numeric, of_numbers.unbind(1), strict=True):
                sums, present = both.unbind(1)
                (of_value, inner) = inner.tensor_split([within], 1)
                means = [of_value[..., MEAN], sums / present.clamp(min=1)]
                levels = torch.cat([*means, deviation(of_value), *of_value[..., LOW:].unbind(-1)], 1)
                parts.append(signed_log(levels) if field.log else levels)
            start = torch.where(counts[:, FIRST : FIRST + within] > 0, last_times[i], latest[:, :1])
            parts += [latest[:, 3 + i, None] == codes, signed_log((latest[:, 1:2] - start) / scale)]
        return finite(torch.cat([part.double() for part in parts], 1))

    def n_values(self, column: Categorical) -> int:
        """Return how many values of a column have features."""
        return min(self.values, len(column.values))

    def n_within(self, column: Categorical) -> int:
        """Return how many values of a column have further statistics of numbers."""
        return min(self.within, self.n_values(column))

    def conditions(self, column: Categorical) -> list[str]:
        """Return a text such as `mcc=5411` for each value of a column that has features."""
        return [f"{column.name}={value}" for value in column.values[: self.n_values(column)]]

    def n_slots(self, column: Categorical) -> int:
        """Return the number of counters: missing, unknown, each value with features, and all others."""
        return FIRST + self.n_values(column) + 1

    def _names(self) -> Iterator[str]:
        yield from ("events", "time: distinct", "time: span", "gap: mean", "gap: std", "gap: max", "gap: last")
        for number in self.numeric:
            for statistic in ("count", "sum", "mean", "std", "min", "max", "last", "missing"):
                yield f"{number.name}: {statistic}"
        for column in self.categorical:
            conditions = self.conditions(column)
            inner = conditions[: self.within]
            yield from (f"{column.name}: {share}" for share in ("missing", "unknown", "repeated"))
            yield from (f"{condition}: count" for condition in conditions)
            yield from (f"{condition}: share" for condition in conditions)
            for number in self.numeric:
                yield from (f"{number.name} where {condition}: mean" for condition in conditions)
                for level in ("std", "min", "max", "last"):
                    yield from (f"{number.name} where {condition}: {level}" for condition in inner)
            yield from (f"{condition}: last" for condition in conditions[: self.frequent])
            yield from (f"{condition}: since" for condition in inner)


def signed_log(values: Tensor) -> Tensor:
    """Return `sign(v)·log(1 + |v|)`."""
    return values.sign() * values.double().abs().log1p()


def at(values: Tensor, index: Tensor) -> Tensor:
    """Return `values[index]`, where places outside are moved to the nearest one, and zeros if there are no values."""
    return values[index.clamp(0, len(values) - 1)] if len(values) else values.new_zeros(index.shape)


def tally(events: Tensor, rows: Tensor, n: int) -> Tensor:
    """Return `(n,)` float64 how many events of each row are true in a mask."""
    return torch.zeros(n, dtype=torch.float64, device=rows.device).index_add(0, rows, events.double())


def statistics(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Return `(groups, 6)` float64 count, mean, norm, minimum, maximum and last of the values that are not NaN."""
    group = torch.where(values.isnan(), groups, group)
    values, zeros = values.nan_to_num(), values.new_zeros(groups + 1)
    count = torch.bincount(group, minlength=groups + 1)
    low = zeros.scatter_reduce(0, group, values, "amin", include_self=False)
    high = zeros.scatter_reduce(0, group, values, "amax", include_self=False)
    mean = low + zeros.index_add(0, group, values - low[group]) / count.clamp(min=1)  # exact for equal values
    norm = zeros.index_add(0, group, (values - mean[group]).square()).sqrt()
    place = torch.arange(len(values), device=values.device)
    last = at(values, torch.full_like(count, -1).scatter_reduce(0, group, place, "amax")) * (count > 0)
    return torch.stack([count.double(), mean, norm, low, high, last], 1)[:groups]


def merged(first: Tensor, second: Tensor) -> Tensor:
    """Return `(..., 6)` the statistics of the values of `first` and then those of `second`; Chan et al. 1979."""
    n, m = first[..., COUNT], second[..., COUNT]
    weight = m / (n + m).clamp(min=1)
    difference = second[..., MEAN] - first[..., MEAN]
    both = torch.stack(
        [
            n + m,
            first[..., MEAN] + difference * weight,
            (first[..., NORM].square() + second[..., NORM].square() + difference.square() * n * weight).sqrt(),
            torch.minimum(first[..., LOW], second[..., LOW]),
            torch.maximum(first[..., HIGH], second[..., HIGH]),
            second[..., LAST],
        ],
        -1,
    )
    either = torch.where((m > 0).unsqueeze(-1), second, first)
    return torch.where(((n > 0) & (m > 0)).unsqueeze(-1), both, either)


def deviation(statistics: Tensor) -> Tensor:
    """Return `(...)` the sample standard deviations; 0 for fewer than two values."""
    return statistics[..., NORM] / (statistics[..., COUNT] - 1).clamp(min=1).sqrt()


def _split(values: Tensor) -> Tensor:
    """Return `(n, 3k)` float32: each float64 number as the sum of three, of which the first is the largest.

    A number beyond float32's range is divided by `BEYOND`, and its parts are in the opposite order.
    """
    beyond = values.abs() > torch.finfo(torch.float32).max
    values = torch.where(beyond, values / BEYOND, values)
    high = values.float()
    middle = (values - high).float()
    low = (values - high.double() - middle).float()
    return torch.cat([torch.where(beyond, low, high), middle, torch.where(beyond, high, low)], 1)


def _joined(state: Tensor) -> Tensor:
    """Return `(n, k)` float64, the numbers that `_split` took apart."""
    first, middle, last = state.double().chunk(3, 1)
    beyond = last.abs() > first.abs()
    values = torch.where(beyond, last, first) + (middle + torch.where(beyond, first, last))
    return torch.where(beyond, values * BEYOND, values)
