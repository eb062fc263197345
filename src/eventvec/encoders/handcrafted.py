"""Hand-crafted features of timing, numbers and categories: the strong opponent of every embedding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from eventvec.encoders.aggregates import by_blocks, finite
from eventvec.encoders.running import (
    RunningHandcrafted,
    at,
    deviation,
    joined,
    signed_log,
    statistics_of_columns,
    tally,
)
from eventvec.encoders.running_places import COUNT, HIGH, LOW, MEAN
from eventvec.errors import DataError
from eventvec.options import LATEST, at_least
from eventvec.schema import FIRST, MISSING, Numeric, Schema
from eventvec.sequences import Sequences
from eventvec.views.cuts import latest

MOMENT = "moment of prediction"
"""The static value with each row's moment of prediction, in the unit of the column `time`."""

LATE = {"half": 2, "quarter": 4, "tenth": 10}
"""The last parts of a life, by the number of such parts in the whole."""
RECENT = (3, 10, 30)
"""The numbers of latest events that have features of their own."""


class Handcrafted(nn.Module):
    """An encoder without parameters: what an analyst would compute from a row's events to predict something.

    It has all features of `RunningHandcrafted`, of the whole history, which an update continues exactly. The others are
    of the latest events alone, at most `latest` of them, and of the moment of prediction:

    - timing: the times since the last event and since the first of all (recency and tenure) at the moment of
      prediction; the median gap; the shares of events in the last half, quarter and tenth of the row's span; and the
      same shares of the time from the first event to the moment, with the rate of events there, the log of the count
      over the count that an even rate would give, each with 1 added;
    - for each numeric column: the mean in the late half of the span minus that in the early half (change), and the
      change per span of the least squares line over time (slope);
    - for each categorical column: the number of distinct values, the entropy in nats, the share of the most frequent
      value and the share of values that came before in the row, all over values that are not missing; the share of
      each frequent value among the events of the late half; and for the values with further statistics of numbers, the
      mean of each number over the events of the late half with that value. All unknown values count as one;
    - for the last 3, 10 and 30 events: the time since the first of these, or since the first event; mean, sample
      standard deviation, minimum and maximum of each numeric column; and the share of each frequent value.

    Scales are as in `RunningHandcrafted`. What is undefined is 0, as everything of an empty row is. If all events
    of a row have one time, the row is late as a whole.

    A state is that of `RunningHandcrafted`; with the latest events beside it, it gives the same bits as the whole
    history.

    Relations: `Aggregates` has the set of the CoLES paper, without times.

    Args:
        schema: The meaning of the columns.
        moment: The moment of prediction in the unit of the column `time`, for rows without the static value `MOMENT`.
        values: How many values of each categorical column have counts, shares and means, the most frequent first.
        frequent: How many of these values also have shares of the late half and of the last events, and say whether the
            last event has them.
        within: How many of these values have further statistics of each numeric column.
        latest: How many of a row's latest events the features are of that do not follow from sums.

    Raises:
        ConfigError: If `values`, `frequent` or `within` is negative, or `latest` is below 30.

    Example:
        >>> encoder = Handcrafted(Schema("card", "day", "integer"), moment=60)
        >>> z = encoder(Sequences({"time": torch.tensor([10, 20, 50])}, torch.tensor([0]), torch.tensor([3])))
        >>> encoder.names[7], f"{z[0, 7]:.3f}"
        ('time: recency', '2.398')
    """

    reads_moment = True
    sparse = True
    names: tuple[str, ...]
    dim: int

    def __init__(
        self,
        schema: Schema,
        moment: float | None = None,
        values: int = 200,
        frequent: int = 20,
        within: int = 50,
        latest: int = LATEST,
    ) -> None:
        super().__init__()
        at_least("latest", latest, RECENT[-1])
        self.running, self.latest = RunningHandcrafted(schema, values, frequent, within), latest
        self.moment, self.values, self.frequent, self.within = moment, values, frequent, within
        self.clock = schema.clock
        self.numeric, self.categorical = schema.numeric, schema.categorical
        self.names = (*self.running.names, *self._names())
        self.dim = len(self.names)
        self._width = self.running.width + self.dim

    def forward(self, x: Sequences) -> Tensor:
        """Return the features of each row, `(n, dim)` float32."""
        moment = self._moments(x)

        def features(rows: Sequences, block: slice) -> Tensor:
            return self._features(self.running.unstored(rows), rows, moment[block].to(rows.device))

        return by_blocks(x, self._width, self.dim, features, 1 + len(self.numeric))

    @property
    def stored_dim(self) -> int:
        """The size of a state."""
        return self.running.stored_dim

    def state(self, x: Sequences, initial: Tensor | None = None) -> Tensor:
        """Return `(n, k)` float32 the state after each row, from states before it, or those of empty rows."""
        return self.running.state(x, initial)

    def read(self, state: Tensor, x: Sequences) -> Tensor:
        """Return `(n, dim)` float32 the features of states, and of rows of events of which the latest are read."""
        moment = self._moments(x)

        def features(rows: Sequences, block: slice) -> Tensor:
            return self._features(joined(state[block].to(rows.device)), rows, moment[block].to(rows.device))

        return by_blocks(x, self._width, self.dim, features, 1 + len(self.numeric))

    def _moments(self, x: Sequences) -> Tensor:
        moment = x.static.get(MOMENT)
        if isinstance(moment, Tensor):
            return moment.double() if moment.is_floating_point() else moment
        if self.moment is None:
            raise DataError(
                "the rows have no moment of prediction, to which hand-crafted features of time refer; give "
                f"Handcrafted(moment=), or rows with the static value {MOMENT!r}"
            )
        kind = torch.float64 if isinstance(self.moment, float) else torch.int64
        return torch.tensor(self.moment, dtype=kind, device=x.device).expand(len(x))

    def _features(self, state: Tensor, x: Sequences, moment: Tensor) -> Tensor:
        """Return the features of states of float64, rows of events, and moments of prediction."""
        x, begun = latest(x, self.latest), state[:, 0]
        n, rows, time = len(x), x.rows(), x.values("time")
        ends = x.lengths.cumsum(0) - 1
        first, last = at(time, ends + 1 - x.lengths), at(time, ends)
        span = (last - first).double()
        late = (last[rows] - time).double() * 2 <= span[rows]
        parts = self._timing(x, moment, first, last, begun)
        place = (time - first[rows]).double() / span[rows].clamp(min=torch.finfo(torch.float64).tiny)
        numbers = _side_by_side(x, self.numeric)
        if self.numeric:
            parts += [self._scaled(torch.stack(_changes(numbers, late, place, rows, n), 2)), self._of_last(x)]
        n_late = tally(late, rows, n).clamp(min=1).unsqueeze(1)
        y = latest(x, RECENT[-1])
        recent, y_rows = _recent(y), y.rows()
        n_recent = x.lengths.clamp(min=1).unsqueeze(1).clamp(max=torch.tensor(RECENT, device=x.device))
        late_rows, late_numbers = rows[late], numbers[late]
        for field, sizes in zip(self.categorical, self.running.places.columns, strict=True):
            code = x.values(field.name).long()
            parts.append(_mixture(code, rows, n, field.size))
            slots = FIRST + sizes.frequent + 1
            group = late_rows * slots + code[late].clamp(max=slots - 1)
            shares = torch.bincount(group, minlength=n * slots).view(n, slots)[:, FIRST:-1].double() / n_late
            group = y_rows * slots + y.values(field.name).long().clamp(max=slots - 1)
            counts = recent.new_zeros(n * slots, len(RECENT)).index_add(0, group, recent)
            counts = counts.view(n, slots, len(RECENT))[:, FIRST:-1] / n_recent.unsqueeze(1)
            parts += [shares, counts.transpose(1, 2).flatten(1)]
            if self.numeric and sizes.within:
                slots = FIRST + sizes.within + 1
                group = late_rows * slots + code[late].clamp(max=slots - 1)
                of_values = statistics_of_columns(late_numbers, group, n * slots)[..., MEAN]
                means = of_values.view(n, slots, -1)[:, FIRST:-1].transpose(1, 2)
                parts.append(self._scaled(means))
        extra = torch.cat(parts, 1).masked_fill((x.lengths == 0).unsqueeze(1), 0)
        return torch.cat([self.running.of_states(state), finite(extra)], 1)

    def _scaled(self, values: Tensor) -> Tensor:
        """Return `(n, m * k)` what is of each numeric column, `(n, m, k)`, as signed logs where the schema says so."""
        logs = torch.tensor([column.log for column in self.numeric], device=values.device).unsqueeze(1)
        return torch.where(logs, signed_log(values), values).flatten(1)

    def _of_last(self, x: Sequences) -> Tensor:
        """Return `(n, m * 12)` the levels of each numeric column over the last events, for each number of these."""
        y, n, m = latest(x, RECENT[-1]), len(x), len(self.numeric)
        values = _side_by_side(y, self.numeric).unsqueeze(2)
        values = torch.where(_recent(y).bool().unsqueeze(1), values, torch.nan).flatten(1)
        levels = statistics_of_columns(values, y.rows(), n)
        levels = torch.stack([levels[..., MEAN], deviation(levels), levels[..., LOW], levels[..., HIGH]], 2)
        return self._scaled(levels.view(n, m, -1))

    def _timing(self, x: Sequences, moment: Tensor, first: Tensor, last: Tensor, begun: Tensor) -> list[Tensor]:
        """Return recency, tenure, median gap, shares and rates of late events, and the times since the last events."""
        n, rows, time = len(x), x.rows(), x.values("time")
        recency, tenure, span = (moment - last).double(), (moment - first).double(), (last - first).double()
        whole = moment.double() - begun  # the first event may be older than the latest ones
        gaps = time.diff(prepend=time[:1]).double().masked_fill(x.steps() == 0, torch.nan)
        seconds = torch.stack([recency, whole, _medians(gaps, rows, x.lengths)], 1) / (1e6 if self.clock else 1)
        count = x.lengths.double()
        before_last, before_moment = (last[rows] - time).double(), (moment[rows] - time).double()
        late_in_span = [tally(before_last * k <= span[rows], rows, n) for k in LATE.values()]
        windows = [tally(before_moment * k <= tenure[rows], rows, n) for k in LATE.values()]
        rates = [(1 + late).log() - (1 + count / k).log() for late, k in zip(windows, LATE.values(), strict=True)]
        shares = torch.stack([*late_in_span, *windows], 1) / count.clamp(min=1).unsqueeze(1)
        places = x.lengths.cumsum(0) - x.lengths.clamp(max=torch.tensor(RECENT).to(x.device).unsqueeze(1))
        since = torch.stack([(moment - at(time, place)).double() for place in places], 1) / (1e6 if self.clock else 1)
        return [signed_log(seconds), shares, torch.stack(rates, 1), signed_log(since)]

    def _names(self) -> Iterator[str]:
        yield from ("time: recency", "time: tenure", "gap: median")
        yield from (f"time: share in last {part}" for part in LATE)
        yield from (f"time: {statistic} in {part} to moment" for statistic in ("share", "rate") for part in LATE)
        yield from (f"time: since last {count}" for count in RECENT)
        for number in self.numeric:
            yield from (f"{number.name}: change", f"{number.name}: slope")
        for number in self.numeric:
            for count in RECENT:
                yield from (f"{number.name}: {level} of last {count}" for level in ("mean", "std", "min", "max"))
        for column, conditions in zip(self.categorical, self.running.conditions, strict=True):
            yield from (f"{column.name}: {feature}" for feature in ("distinct", "entropy", "top share", "seen before"))
            for part in ("late half", *(f"last {count}" for count in RECENT)):
                yield from (f"{condition}: share of {part}" for condition in conditions[: self.frequent])
            for number in self.numeric:
                yield from (f"{number.name} where {condition}: late mean" for condition in conditions[: self.within])


def _medians(values: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
    """Return `(n,)` the median of each row's values after the first, which is NaN; 0 for fewer than two events."""
    order = values.argsort(stable=True)  # NaN is last
    order = order[rows[order].argsort(stable=True)]
    start, count = lengths.cumsum(0) - lengths, (lengths - 1).clamp(min=1)
    middle = [at(values[order], start + place) for place in ((count - 1) // 2, count // 2)]
    return torch.where(lengths > 1, (middle[0] + middle[1]) / 2, 0)


def _side_by_side(x: Sequences, columns: Sequence[Numeric]) -> Tensor:
    """Return `(total, m)` float64 the numbers of some columns."""
    values = [x.values(column.name).double() for column in columns]
    return torch.stack(values, 1) if values else torch.zeros(x.total, 0, dtype=torch.float64, device=x.device)


def _recent(x: Sequences) -> Tensor:
    """Return `(total, 3)` float64, 1 for the last events of rows, for each number of these in `RECENT`."""
    from_end = x.lengths[x.rows()] - 1 - x.steps()
    return (from_end.unsqueeze(1) < torch.tensor(RECENT, device=x.device)).double()


def _changes(values: Tensor, late: Tensor, place: Tensor, rows: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return `(n, m)` the late mean minus the early mean, and `(n, m)` the slope over the place in the span."""
    halves = statistics_of_columns(values, rows * 2 + late, 2 * n).unflatten(0, (n, 2))
    change = torch.where((halves[..., COUNT] > 0).all(1), halves[:, 1, :, MEAN] - halves[:, 0, :, MEAN], 0)
    place = place.unsqueeze(1).masked_fill(values.isnan(), torch.nan)
    mean_value, mean_place = (statistics_of_columns(column, rows, n)[..., MEAN] for column in (values, place))
    values, place = (values - mean_value[rows]).nan_to_num(), (place - mean_place[rows]).nan_to_num()
    zeros = values.new_zeros(n, values.shape[1])
    covariance, variance = (zeros.index_add(0, rows, place * other) for other in (values, place))
    return change, torch.where(variance > 1e-24, covariance / variance.clamp(min=1e-24), 0)


def _mixture(code: Tensor, rows: Tensor, n: int, size: int) -> Tensor:
    """Return `(n, 4)` the log count of distinct values, their entropy, the largest share, and that of seen values."""
    groups, counts = (rows * size + code)[code != MISSING].unique(return_counts=True)
    row, zeros = groups // size, torch.zeros(n, dtype=torch.float64, device=code.device)
    present = zeros.index_add(0, row, counts.double())
    shares = counts / present[row]
    entropy = zeros.index_add(0, row, -shares * shares.log())
    distinct = torch.bincount(row, minlength=n)
    seen = (present - distinct) / present.clamp(min=1)
    top = zeros.scatter_reduce(0, row, shares, "amax", include_self=False)
    return torch.stack([signed_log(distinct), entropy, top, seen], 1)
