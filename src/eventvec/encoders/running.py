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

SUMS = 7
"""The numbers in a state of which the statistics of a column follow, see `summed`."""
BEYOND = 2.0**200
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
    range are scaled first. Sums are added in the order of events, so the features of a continued state are the same
    bits as those of the whole history. The span of integer times beyond 2^53 is rounded.

    Relations: `Handcrafted` has these features and others of the latest events.

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
        self.sizes = (3 + len(columns) + places.within, places.n_added, SUMS * n_moments)
        self.width = 3 * sum(self.sizes) + 2 * self.dim + 6 * max((column.slots for column in columns), default=0)

    def forward(self, x: Sequences) -> Tensor:
        """Return the features of each row, `(n, dim)` float32."""
        return by_blocks(x, self.width, self.dim, lambda rows, _: self.of_states(self.unstored(rows)))

    def unstored(self, x: Sequences) -> Tensor:
        """Return `(n, k / 3)` float64 the states after rows that fit into memory together, as `joined` gives them."""
        return self._state(x, None)

    def state(self, x: Sequences, initial: Tensor | None = None) -> Tensor:
        """Return `(n, k)` float32 the state after each row, from states before it, or those of empty rows."""

        def state(rows: Sequences, block: slice) -> Tensor:
            return _split(self._state(rows, None if initial is None else joined(initial[block].to(rows.device))))

        return by_blocks(x, self.width, self.stored_dim, state)

    @property
    def stored_dim(self) -> int:
        """The size of a state."""
        return 3 * sum(self.sizes)

    def read(self, state: Tensor) -> Tensor:
        """Return `(n, dim)` float32 the features of states."""
        place = torch.device("cpu") if state.device.type == "mps" else state.device
        return self.of_states(joined(state.to(place))).to(state.device)

    def _state(self, x: Sequences, before: Tensor | None) -> Tensor:
        """Return `(n, s)` float64: the latest values, what is added, and the statistics of gaps and numbers."""
        if before is None:
            before = torch.zeros(len(x), sum(self.sizes), dtype=torch.float64, device=x.device)
        old_latest, old_added, old_moments = before.split(self.sizes, 1)
        n_codes, rows, known = 3 + len(self.categorical), x.rows(), old_added[:, 0] > 0
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
        added = self._added(rows, old_added, numbers, codes, previous)
        m, old_sums = numbers.shape[1], old_moments.unflatten(1, (-1, SUMS))
        times, of_values = self._of_values(rows, time, numbers[:, 1:], codes, old_latest[:, n_codes:], old_sums[:, m:])
        sums = _with_one(old_sums[:, :m], numbers) if x.single else _by_column(old_sums[:, :m], numbers, rows)
        return torch.cat([latest, *times, added, sums.flatten(1), *of_values], 1)

    def _added(self, rows: Tensor, before: Tensor, numbers: Tensor, codes: Tensor, previous: Tensor) -> Tensor:
        """Return `(n, added)` counts and sums after the events of each row, from their gaps, numbers and codes."""
        places, width, (total, count) = self.places, self.places.n_added + 1, codes.shape
        fixed, of_slots, device = places.fixed.to(rows.device), places.of_slots.to(rows.device), rows.device
        sums = torch.nn.functional.pad(before, (0, 1)).flatten()  # which a column for what is not kept follows
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
        return sums.view(-1, width)[:, :-1]

    def _of_values(
        self, rows: Tensor, time: Tensor, numbers: Tensor, codes: Tensor, old_times: Tensor, old_sums: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the times of the last events with values, and sums of numbers in such events, of each column."""
        if not self.places.within:
            return [], []
        n, times, sums = len(old_times), list[Tensor](), list[Tensor]()
        inside, m = [column.within for column in self.places.columns], numbers.shape[1]
        of_columns, number = old_sums.split([within * m for within in inside], 1), torch.arange(m, device=rows.device)
        for within, code, old, before in zip(
            inside, codes.unbind(1), old_times.split(inside, 1), of_columns, strict=True
        ):
            counted = (code >= FIRST) & (code < FIRST + within)
            group = torch.where(counted, rows * within + code - FIRST, n * within)
            place = torch.full((n * within + 1,), -1, device=rows.device)
            place = place.scatter_reduce(0, group, torch.arange(len(group), device=rows.device), "amax")
            place = place[:-1].view(n, within)
            times.append(torch.where(place < 0, old, at(time, place).double()))
            if within and m:
                cell = (rows * m).unsqueeze(1) + number
                cell = torch.where(counted.unsqueeze(1), cell * within + (code - FIRST).unsqueeze(1), n * m * within)
                sums.append(summed(before.reshape(-1, SUMS), numbers.flatten(), cell.flatten()).view(n, -1))
        return times, sums

    def of_states(self, state: Tensor) -> Tensor:
        """Return `(n, dim)` float32 the features of states of float64, see `unstored`."""
        latest, added, moments = state.split(self.sizes, 1)
        places, statistics = self.places, of_sums(moments.unflatten(1, (-1, SUMS)))
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
        computed = torch.cat([*parts, statistics.flatten(1), deviation(statistics)], 1)
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


def _with_one(before: Tensor, values: Tensor) -> Tensor:
    """Return `(n, m, 7)` the sums of columns after one more value of each, `(n, m)`."""
    count, first, total, squares, low, high, _ = before.unbind(-1)
    first = torch.where(count > 0, first, values)
    off = values - first
    extremes = (
        torch.where(count > 0, torch.minimum(low, values), values),
        torch.where(count > 0, torch.maximum(high, values), values),
    )
    after = torch.stack([count + 1, first, total + off, squares + off.square(), *extremes, values], -1)
    return torch.where(values.isnan().unsqueeze(-1), before, after)


def _by_column(before: Tensor, values: Tensor, rows: Tensor) -> Tensor:
    """Return `(n, m, 7)` the sums of columns after the values `(total, m)` of each row."""
    m = values.shape[1]
    return summed(before.reshape(-1, SUMS), values.flatten(), _cells(rows, m)).view(-1, m, SUMS)


def _cells(group: Tensor, m: int) -> Tensor:
    """Return `(total * m,)` the place of each number of `(total, m)` in a table of groups and columns."""
    return ((group * m).unsqueeze(1) + torch.arange(m, device=group.device)).flatten()


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


def summed(before: Tensor, values: Tensor, group: Tensor) -> Tensor:
    """Return `(groups, 7)` float64 the sums of groups after further values; NaN, and what is of no group, is left out.

    A number is added after those before it, so the sums are the same bits however values are divided among calls.
    They are the count, the first value, the sums of differences from it and of their squares, the minimum, the maximum
    and the last value.
    """
    groups = len(before)
    group = torch.where(values.isnan(), groups, group)
    values, place = values.nan_to_num().double(), torch.arange(len(values), device=values.device)
    count, first, total, squares, low, high, last = torch.nn.functional.pad(before, (0, 0, 0, 1)).unbind(1)
    known = count > 0
    begin = place.new_full((groups + 1,), len(values)).scatter_reduce(0, group, place, "amin")
    end = place.new_full((groups + 1,), -1).scatter_reduce(0, group, place, "amax")
    first = torch.where(known | (end < 0), first, at(values, begin))
    off = values - first[group]
    count = count + torch.bincount(group, minlength=groups + 1)
    total, squares = total.index_add(0, group, off), squares.index_add(0, group, off.square())
    low = torch.where(known, low, torch.inf).scatter_reduce(0, group, values, "amin")
    high = torch.where(known, high, -torch.inf).scatter_reduce(0, group, values, "amax")
    last = torch.where(end < 0, last, at(values, end))
    some = count > 0
    extremes = torch.where(some, low, 0), torch.where(some, high, 0)
    return torch.stack([count, first, total, squares, *extremes, last], 1)[:groups]


def of_sums(sums: Tensor) -> Tensor:
    """Return `(..., 6)` count, mean, norm, minimum, maximum and last, from what `summed` returns."""
    count, first, total, squares, low, high, last = sums.unbind(-1)
    mean = total / count.clamp(min=1)
    norm = (squares - total * mean).clamp(min=0).sqrt()
    return torch.stack([count, first + mean, norm, low, high, last], -1)


def statistics(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Return `(groups, 6)` float64 count, mean, norm, minimum, maximum and last of the values that are not NaN."""
    return of_sums(summed(torch.zeros(groups, SUMS, dtype=torch.float64, device=values.device), values, group))


def statistics_of_columns(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Return `(groups, m, 6)` what `statistics` does of each column of values `(total, m)`."""
    m = values.shape[1]
    return statistics(values.flatten(), _cells(group, m), groups * m).view(groups, m, 6)


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


def joined(state: Tensor) -> Tensor:
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
