"""The hand-crafted features that follow from sums, so new events continue them exactly."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from eventvec.encoders.aggregates import by_blocks, finite
from eventvec.encoders.running_places import COUNT, MEAN, NORM, Column, Places
from eventvec.options import each_at_least
from eventvec.schema import FIRST, MISSING, Schema
from eventvec.sequences import BLOCK, Sequences

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
    sparse = True
    names: tuple[str, ...]
    dim: int

    def __init__(self, schema: Schema, values: int = 200, frequent: int = 20, within: int = 0) -> None:
        super().__init__()
        each_at_least(0, values=values, frequent=frequent, within=within)
        self.values, self.frequent, self.within, self.clock = values, frequent, within, schema.clock
        self.numeric, self.categorical = schema.numeric, schema.categorical
        self.conditions = [[f"{c.name}={value}" for value in c.values[:values]] for c in self.categorical]
        columns = [Column(n := len(each), min(within, n), min(frequent, n)) for each in self.conditions]
        self.reads = ("time", *(each.name for each in self.numeric), *(each.name for each in self.categorical))
        self.names = tuple(self._names())
        self.dim = len(self.names)
        self.places = places = Places(self.numeric, columns, 1e6 if schema.clock else 1.0)
        n_moments = 1 + len(self.numeric) * (1 + places.within)
        self.sizes = (3 + len(columns) + places.within, places.n_added, 6 * n_moments)
        self.width = 3 * sum(self.sizes) + 2 * self.dim + 6 * max((column.slots for column in columns), default=0)

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
        n, n_codes, rows, known = len(x), 3 + len(self.categorical), x.rows(), old_added[:, 0] > 0
        time, *columns = x.select(self.reads)
        old_first, old_last, old_rest = old_latest[:, :3].unbind(1)
        codes, old_codes = _side_by_side(columns[len(self.numeric) :], time), old_latest[:, 3:n_codes].long()
        first, last, last_codes = time, time, codes
        if not x.single:
            ends = x.lengths.cumsum(0) - 1
            first, last, last_codes = at(time, ends + 1 - x.lengths), at(time, ends), at(codes, ends)
        since_before = (first - (old_last.to(time.dtype) + old_rest.to(time.dtype))).double().where(known, torch.nan)
        gap, previous = since_before, old_codes
        if not x.single:
            head = x.steps() == 0
            gap = torch.where(head, since_before[rows], time.diff(prepend=time[:1]).double())
            previous = torch.where(head.unsqueeze(1), old_codes[rows], codes.roll(1, 0))
        numbers = torch.stack([gap, *columns[: len(self.numeric)]], 1)  # the gap's type is float64
        rounded = last.double()
        rest = (last - rounded.to(time.dtype)).double()  # of whole numbers beyond 2^53
        starts = torch.where(known, old_first, first.double())
        latest = torch.cat([torch.stack([starts, rounded, rest], 1), last_codes], 1)
        if not x.single:
            latest = torch.where((x.lengths > 0).unsqueeze(1), latest, old_latest[:, :n_codes])
        added = self._added(rows, n, numbers, codes, previous)
        times, of_values = self._of_values(rows, n, time, numbers[:, 1:], codes, old_latest[:, n_codes:])
        new_moments = _of_one(numbers) if x.single else _by_column(numbers, rows, n)
        new_moments = torch.cat([new_moments, *of_values], 1) if of_values else new_moments
        moments = merged(old_moments.unflatten(1, (-1, 6)), new_moments)
        return torch.cat([latest, *times, old_added + added, moments.flatten(1)], 1)

    def _added(self, rows: Tensor, n: int, numbers: Tensor, codes: Tensor, previous: Tensor) -> Tensor:
        """Return `(n, added)` counts and sums of the events of each row, from their gaps, numbers and codes."""
        places, width, (total, count) = self.places, self.places.n_added + 1, codes.shape
        fixed, of_slots, device = places.fixed.to(rows.device), places.of_slots.to(rows.device), rows.device
        sums = torch.zeros(n * width, dtype=torch.float64, device=device)
        step = max(BLOCK // (of_slots.shape[1] * count + len(fixed)), 1)
        for begin in range(0, total, step):  # which limits memory, and adds in the same order as all at once
            some = slice(begin, begin + step)
            number, code, row = numbers[some], codes[some], (rows[some] * width).unsqueeze(1)
            moved = number[:, :1] != 0  # the first event ever, whose gap is NaN, is counted too
            marks = [torch.ones_like(moved), moved]
            if count:
                pair = (code != MISSING) & (previous[some] != MISSING)
                marks += [pair, pair & (code == previous[some])]
                present = ~number[:, 1:].isnan()
                ones = torch.ones_like(number[:, :1])
                values = torch.cat([ones, number[:, 1:].nan_to_num(), present], 1)
                values = values.unsqueeze(1).expand(-1, count, -1)
                slots = torch.minimum(code, places.last_slots.to(device)) + places.first_slots.to(device)
                sums.index_add_(0, (of_slots[slots] + row.unsqueeze(2)).flatten(), values.flatten())
            sums.index_add_(0, (row + fixed).flatten(), torch.cat(marks, 1).double().flatten())
        return sums.view(n, width)[:, :-1]

    def _of_values(
        self, rows: Tensor, n: int, time: Tensor, numbers: Tensor, codes: Tensor, old_times: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the times of the last events with values, and statistics of numbers in such events, of each column."""
        if not self.places.within:
            return [], []
        times, moments = [], []
        inside = [column.within for column in self.places.columns]
        for column, code, old in zip(self.places.columns, codes.unbind(1), old_times.split(inside, 1), strict=True):
            slots, inner = column.slots, slice(FIRST, FIRST + column.within)
            group = rows * slots + code.clamp(max=slots - 1)
            place = torch.full((n * slots,), -1, device=rows.device)
            place = place.scatter_reduce(0, group, torch.arange(len(group), device=rows.device), "amax")
            place = place.view(n, slots)[:, inner]
            times.append(torch.where(place < 0, old, at(time, place).double()))
            for number in numbers.unbind(1):
                moments.append(statistics(number, group, n * slots).view(n, slots, 6)[:, inner])
        return times, moments

    def _read(self, state: Tensor) -> Tensor:
        latest, added, moments = state.split(self.sizes, 1)
        places, statistics = self.places, moments.unflatten(1, (-1, 6))
        parts = [added[:, :2], latest[:, 1:2] - latest[:, :1]]
        if self.numeric:
            numbers, n = statistics[:, 1 : 1 + len(self.numeric)], added[:, :1]
            counts = numbers[..., COUNT]
            parts += [counts * numbers[..., MEAN], (n - counts) / n.clamp(min=1)]
        if self.categorical:
            numerators, denominators, within = _chosen(added, places.chosen).split(places.n_chosen, 1)
            codes = _chosen(latest, places.code_columns)
            parts += [numerators[:, : places.counts], numerators / denominators.clamp(min=1)]
            parts += [(codes == places.codes.to(state.device)).double()]
        if places.within:
            start = torch.where(within > 0, latest[:, -places.within :], latest[:, :1])
            parts += [latest[:, 1:2] - start]
        computed = torch.cat([*parts, moments, deviation(statistics)], 1)
        logs, others = _chosen(computed, places.features).split(places.n_features, 1)
        features = [signed_log(logs / places.units.to(state.device)), others]
        return finite(_chosen(torch.cat(features, 1), places.order))

    def _names(self) -> Iterator[str]:
        yield from ("events", "time: distinct", "time: span", "gap: mean", "gap: std", "gap: max", "gap: last")
        for number in self.numeric:
            for statistic in ("count", "sum", "mean", "std", "min", "max", "last", "missing"):
                yield f"{number.name}: {statistic}"
        for column, conditions in zip(self.categorical, self.conditions, strict=True):
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


def _chosen(values: Tensor, places: Tensor) -> Tensor:
    """Return `(n, k)` the columns of `(n, m)` values at `(k,)` places."""
    return values.gather(1, places.to(values.device).expand(len(values), -1))


def _side_by_side(codes: list[Tensor], time: Tensor) -> Tensor:
    """Return `(total, c)` int64 the codes of all columns."""
    return torch.stack(codes, 1).long() if codes else torch.zeros(len(time), 0, dtype=torch.int64, device=time.device)


def _of_one(values: Tensor) -> Tensor:
    """Return `(n, m, 6)` what `_by_column` does for rows of one event each."""
    present, values = ~values.isnan(), values.nan_to_num()
    return torch.stack([present.double(), values, torch.zeros_like(values), values, values, values], -1)


def _by_column(values: Tensor, rows: Tensor, n: int) -> Tensor:
    """Return `(n, m, 6)` the statistics of the values `(total, m)` in each row."""
    m = values.shape[1]
    group = (rows * m).unsqueeze(1) + torch.arange(m, device=rows.device)
    return statistics(values.flatten(), group.flatten(), n * m).view(n, m, 6)


def signed_log(values: Tensor) -> Tensor:
    """Return `sign(v)·log(1 + |v|)`."""
    return values.sign() * values.double().abs().log1p()


def at(values: Tensor, index: Tensor) -> Tensor:
    """Return `values[index]`, where places outside are moved to the nearest one, and zeros if there are no values."""
    if not values.shape[0]:
        return values.new_zeros(*index.shape, *values.shape[1:])
    return values[index.clamp(0, len(values) - 1)]


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
    (n, mean, norm, low, high, _), (m, mean_2, norm_2, low_2, high_2, last) = first.unbind(-1), second.unbind(-1)
    total, difference = n + m, mean_2 - mean
    weight = m / total.clamp(min=1)
    norm = (norm.square() + norm_2.square() + difference.square() * n * weight).sqrt()
    extremes = torch.minimum(low, low_2), torch.maximum(high, high_2)
    both = torch.stack([total, mean + difference * weight, norm, *extremes, last], -1)
    there = second[..., :1] > 0
    return torch.where((first[..., :1] > 0) & there, both, torch.where(there, second, first))


def deviation(statistics: Tensor) -> Tensor:
    """Return `(...)` the sample standard deviations; 0 for fewer than two values."""
    return statistics[..., NORM] / (statistics[..., COUNT] - 1).clamp(min=1).sqrt()


def _split(values: Tensor) -> Tensor:
    """Return `(n, 3k)` float32: each float64 number as the sum of three, of which the first is the largest.

    A number beyond float32's range is divided by `BEYOND`, and its parts are in the opposite order.
    """
    beyond = values.abs() > torch.finfo(torch.float32).max
    some = _any(beyond)
    values = torch.where(beyond, values / BEYOND, values) if some else values
    high = values.float()
    middle = (values - high).float()
    low = (values - high.double() - middle).float()
    return torch.cat(
        [torch.where(beyond, low, high), middle, torch.where(beyond, high, low)] if some else [high, middle, low], 1
    )


def _joined(state: Tensor) -> Tensor:
    """Return `(n, k)` float64, the numbers that `_split` took apart."""
    first, middle, last = state.double().chunk(3, 1)
    beyond = last.abs() > first.abs()
    if not _any(beyond):
        return first + (middle + last)
    values = torch.where(beyond, last, first) + (middle + torch.where(beyond, first, last))
    return torch.where(beyond, values * BEYOND, values)


def _any(mask: Tensor) -> bool:
    """Return whether some values may be true; on a device, which is not waited for, they may."""
    return mask.device.type != "cpu" or bool(mask.any())
