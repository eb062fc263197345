"""The graph of the features that continue exactly, `RunningHandcrafted`, and of their components, `Compressed`.

The columns of a table are computed together, so a table of many columns has no more operators. Columns are the
first axis of tensors, and rows or events the last, because parts along the first axis are contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np

from eventvec.encoders.compressed import FARTHEST, Compressed
from eventvec.encoders.running import BEYOND, RunningHandcrafted
from eventvec.encoders.running_places import MEAN
from eventvec.exporting.flat_rows import FlatRows, cells
from eventvec.exporting.graph import Value, concat, stack
from eventvec.schema import FIRST, MISSING
from eventvec.sequences import Array

LARGEST = float(np.finfo(np.float32).max)
Layout: TypeAlias = dict[tuple[Any, ...], Array]
"""The places of parts of what is added in a state, such as `("sums", column, number)`, both by their numbers."""


def embed_running(encoder: RunningHandcrafted, rows: FlatRows, state: Value | None) -> tuple[Value, Value]:
    """Return `(rows, dim)` features and `(rows, stored_dim)` the states after the rows' events, from those before."""
    size = sum(encoder.sizes)
    if state is None:
        before = rows.graph.filled(0, np.float64, size, rows.n)
    else:
        before = _joined(state.cast(np.float64).split([size] * 3, axis=1)).transposed(1, 0)
    now = _continued(encoder, rows, before)
    return _read(encoder, now).transposed(1, 0), _split(now.transposed(1, 0))


def embed_compressed(encoder: Compressed, features: Value) -> Value:
    """Return `(rows, dim)` float32 the standardised features, or their components."""
    graph = features.graph
    mean, scale = (part.cpu().numpy() for part in (encoder.mean, encoder.scale))
    values = (features - graph.constant(mean)) * graph.constant(scale)
    if (scale == 0).any():
        values = graph.constant(scale == 0).where(0.0, values)
    values = values.at_most(FARTHEST).at_least(-FARTHEST)
    return values if encoder.projection is None else values @ graph.constant(encoder.projection.cpu().numpy())


class Columns:
    """Tensors `(width, rows)`, whose columns are put into another order at the end."""

    def __init__(self) -> None:
        self.parts: list[Value] = []
        self.width = 0

    def add(self, values: Value, width: int) -> Array:
        """Return the places of the columns of a tensor, `(width,)`."""
        self.parts.append(values)
        self.width += width
        return np.arange(self.width - width, self.width)

    def ordered(self, places: Sequence[Array]) -> Value:
        """Return the columns at groups of places."""
        return _taken(concat(self.parts, 0), places)


def _split(values: Value) -> Value:
    """Return float64 numbers as three float32 numbers each, see `encoders.running`."""
    beyond = values.op("Abs") > LARGEST
    values = beyond.where(values / BEYOND, values)
    high = values.cast(np.float32)
    rest = values - high.cast(np.float64)
    middle = rest.cast(np.float32)
    low = (rest - middle.cast(np.float64)).cast(np.float32)
    return concat([beyond.where(low, high), middle, beyond.where(high, low)], 1)


def _joined(parts: list[Value]) -> Value:
    """Return the float64 numbers that `_split` took apart; both sums are exact, whichever number is the largest."""
    first, middle, last = parts
    values = first + (middle + last)
    return (last.op("Abs") > first.op("Abs")).where(values * BEYOND, values)


def _layout(encoder: RunningHandcrafted) -> Layout:
    """Return the places of what is added in a state."""
    sizes: dict[tuple[Any, ...], int] = {("events",): 1, ("moved",): 1}
    for i, column in enumerate(encoder.places.columns):
        sizes |= {("pairs", i): 1, ("repeated", i): 1, ("counts", i): column.slots}
        for k in range(len(encoder.numeric)):
            sizes[("sums", i, k)] = sizes[("present", i, k)] = column.values - column.within
    ends = pairwise(accumulate(sizes.values(), initial=0))
    return {name: np.arange(*place) for name, place in zip(sizes, ends, strict=True)}


def _slots(encoder: RunningHandcrafted) -> tuple[Array, Array]:
    """Return `(columns,)` the counters of each categorical column, and the place of its first among all."""
    sizes = np.array([column.slots for column in encoder.places.columns], np.int64)
    return sizes, sizes.cumsum() - sizes


def _inner(encoder: RunningHandcrafted) -> list[int]:
    """Return how many values of each categorical column have further statistics."""
    return [column.within for column in encoder.places.columns]


def _within_slots(encoder: RunningHandcrafted) -> list[Array]:
    """Return the counters of these values among all, for each column."""
    pairs = zip(_slots(encoder)[1], _inner(encoder), strict=True)
    return [np.arange(first + FIRST, first + FIRST + within) for first, within in pairs]


def _continued(encoder: RunningHandcrafted, rows: FlatRows, before: Value) -> Value:
    """Return `(k, rows)` float64 the state after the events: latest values, what is added, and statistics."""
    kind, n_codes, n_within = rows.time.dtype, len(encoder.categorical), sum(_inner(encoder))
    old_latest, old_added, old_moments = before.split(encoder.sizes)
    old_values, *old_times = old_latest.split([3 + n_codes, *([n_within] if n_within else [])])
    old_first, old_last, old_rest, *old_codes = old_values.split([1, 1, 1, *([n_codes] if n_codes else [])])
    known = old_added.part(0, 1) > 0.0
    first, last = rows.first(rows.time).unsqueeze(0), rows.last(rows.time).unsqueeze(0)
    rest = (last - last.cast(np.float64).cast(kind)).cast(np.float64)  # of whole numbers beyond 2^53
    since_state = known.where((first - (old_last.cast(kind) + old_rest.cast(kind))).cast(np.float64), np.nan)
    passed = (rows.time - rows.before(rows.time)).cast(np.float64)
    gap = rows.head.where(since_state.squeeze(0).take(rows.row), passed)
    values = stack([gap, *(rows.columns[column.name].cast(np.float64) for column in encoder.numeric)], 0)
    latest = [known.where(old_first, first.cast(np.float64)), last.cast(np.float64), rest]
    moments = [_statistics(rows, values, rows.row, rows.n, 1 + len(encoder.numeric)).transposed(1, 2, 0)]
    codes, times = list[Value](), list[Value]()
    if n_codes:
        codes = [stack([rows.columns[column.name] for column in encoder.categorical], 0)]
        latest += [stack([rows.last(rows.columns[column.name]) for column in encoder.categorical], 0).cast(np.float64)]
        codes.append(
            rows.head.where(old_codes[0].cast(np.int64).take(rows.row, axis=1), rows.before(codes[0], n_codes))
        )
    if n_within:
        times = [_last_times(encoder, rows, codes[0], old_times[0])]
        moments += _moments_within(encoder, rows, values)
    newest = rows.filled.where(concat(latest, 0), old_values)
    added = old_added + _added(encoder, rows, values, codes)
    merged = _merged(old_moments.reshape(encoder.sizes[2] // 6, 6, -1), concat(moments, 0))
    return concat([newest, *times, added, merged.reshape(encoder.sizes[2], -1)], 0)


def _added(encoder: RunningHandcrafted, rows: FlatRows, values: Value, codes: Sequence[Value]) -> Value:
    """Return `(k, rows)` float64 what the events add.

    Args:
        encoder: The encoder.
        rows: The rows.
        values: `(1 + numbers, events)` float64 gaps and numbers.
        codes: `(columns, events)` the codes and those of the events before, if there are any.
    """
    n, n_codes, sources, places = rows.n, len(encoder.categorical), Columns(), Layout()
    missing, width = values.isnan(), 1 + 2 * n_codes
    flags = [~values.part(0, 1).equals(0.0)]  # the first event ever, whose gap is missing, is counted too
    if codes:
        code, previous = codes
        pair = ~code.equals(MISSING) & ~previous.equals(MISSING)
        flags += [pair, pair & code.equals(previous)]
    places[("events",)] = sources.add(rows.lengths.cast(np.float64).unsqueeze(0), 1)
    flag_places = rows.graph.constant(np.arange(width)[:, None]) * n + rows.row
    tally = sources.add(_summed(rows, concat(flags, 0).cast(np.float64), flag_places.reshape(-1), n, width), width)
    places[("moved",)] = tally[:1]
    if codes:
        (sizes, firsts), inner = _slots(encoder), _inner(encoder)
        total, group = int(sizes.sum()), _group(encoder, rows, code)

        def of_codes(numbers: Value) -> Array:
            return sources.add(_summed(rows, numbers, group, n, total), total)

        counts = of_codes(rows.graph.filled(1, np.float64, group.size()))
        for i in range(n_codes):
            places[("pairs", i)], places[("repeated", i)] = tally[1 + i, None], tally[1 + n_codes + i, None]
            places[("counts", i)] = counts[firsts[i] : firsts[i] + sizes[i]]
        for name, numbers in (("sums", missing.where(0.0, values)), ("present", (~missing).cast(np.float64))):
            for k, number in enumerate(numbers.split([1] * (1 + len(encoder.numeric)))[1:]):
                block = of_codes(number.op("Expand", rows.graph.integers(n_codes, 1)))
                for i in range(n_codes):
                    places[(name, i, k)] = block[firsts[i] + FIRST + inner[i] : firsts[i] + sizes[i] - 1]
    return sources.ordered([places[name] for name in _layout(encoder)])


def _group(encoder: RunningHandcrafted, rows: FlatRows, codes: Value) -> Value:
    """Return `(columns · events,)` the place of each code's counter among `(counters, rows)`."""
    sizes, firsts = (each[:, None] for each in _slots(encoder))
    counter = codes.at_most(rows.graph.constant(sizes - 1)) + rows.graph.constant(firsts)
    return (counter * rows.n + rows.row).reshape(-1)


def _last_times(encoder: RunningHandcrafted, rows: FlatRows, codes: Value, before: Value) -> Value:
    """Return `(k, rows)` the time of the last event with each value, of the state where there is no new one."""
    graph, total = rows.graph, int(_slots(encoder)[0].sum())
    each = graph.places(rows.total).op("Expand", graph.integers(len(encoder.categorical), 1)).reshape(-1)
    place = each.scattered(graph.filled(-1, np.int64, rows.n * total), _group(encoder, rows, codes), "max")
    place = _taken(place.reshape(total, -1), _within_slots(encoder))
    times = concat([rows.time, graph.constant(np.zeros(1, rows.time.dtype))], 0).take(place.at_least(0))
    return (place < 0).where(before, times.cast(np.float64))


def _moments_within(encoder: RunningHandcrafted, rows: FlatRows, values: Value) -> list[Value]:
    """Return `(numbers · within, 6, rows)` the statistics of numbers over the events with frequent values."""
    moments, width = list[Value](), len(encoder.numeric)
    for column, sizes in zip(encoder.categorical, encoder.places.columns, strict=True):
        slots, within = sizes.slots, sizes.within
        if within and width:
            group = rows.row * slots + rows.columns[column.name].at_most(slots - 1)
            inner = _statistics(rows, values.part(1, 1 + width), group, rows.n * slots, width)
            inner = inner.reshape(-1, slots, width, 6).transposed(2, 1, 3, 0)  # (numbers, slots, 6, rows)
            moments.append(inner.part(FIRST, FIRST + within, axis=1).reshape(within * width, 6, -1))
    return moments


def _statistics(rows: FlatRows, values: Value, group: Value, groups: Value, width: int) -> Value:
    """Return `(groups, width, 6)` count, mean, norm, minimum, maximum and last of `(width, events)` values."""
    graph = rows.graph
    index = cells(group, width)
    shape = (-1, width) if width > 1 else (-1,)  # an axis of size 1 would slow operators down
    values = values.transposed(1, 0).reshape(*shape)
    missing, size = values.isnan(), groups * width
    filled = missing.where(0.0, values)

    def into(start: float, numbers: Value, reduction: str) -> Value:
        result = numbers.reshape(-1).scattered(graph.filled(start, numbers.dtype, size), index, reduction)
        return result.reshape(*shape)

    count = into(0, (~missing).cast(np.float64), "add")
    some = count > 0.0
    low = some.where(into(np.inf, missing.where(np.inf, values), "min"), 0.0)
    high = some.where(into(-np.inf, missing.where(-np.inf, values), "max"), 0.0)
    around = missing.where(0.0, values - low.take(group))
    mean = low + into(0, around, "add") / count.at_least(1.0)  # exact for equal values
    around = missing.where(0.0, values - mean.take(group))
    norm = into(0, around * around, "add").op("Sqrt")
    each = graph.places(rows.total * width).reshape(*shape)
    place = into(-1, missing.where(-1, each), "max").at_least(0)
    last = some.where(concat([filled.reshape(-1), graph.constant(np.zeros(1))], 0).take(place), 0.0)
    return stack([count, mean, norm, low, high, last], len(shape)).reshape(-1, width, 6)


def _merged(first: Value, second: Value) -> Value:
    """Return `(columns, 6, rows)` the statistics of the values of `first` and then those of `second`."""
    n, mean, norm, low, high, _ = first.split([1] * 6, axis=1)
    m, other_mean, other_norm, other_low, other_high, last = second.split([1] * 6, axis=1)
    weight, difference = m / (n + m).at_least(1.0), other_mean - mean
    norm = norm * norm + other_norm * other_norm + difference * difference * n * weight
    both = [n + m, mean + difference * weight, norm.op("Sqrt"), low.at_most(other_low), high.at_least(other_high), last]
    new = m > 0.0
    return ((n > 0.0) & new).where(concat(both, 1), new.where(second, first))


def _read(encoder: RunningHandcrafted, state: Value) -> Value:
    """Return `(dim, rows)` float32 the features of states `(k, rows)`."""
    latest, added, moments = state.split(encoder.sizes)
    scale = 1e6 if encoder.clock else 1.0
    n, span = added.part(0, 1), latest.part(1, 2) - latest.part(0, 1)
    some, columns = n.at_least(1.0), Columns()
    width = encoder.sizes[2] // 6
    count, mean, norm, low, high, last = (
        part.squeeze(1) for part in moments.reshape(width, 6, -1).split([1] * 6, axis=1)
    )
    levels = concat([mean, norm / (count - 1.0).at_least(1.0).op("Sqrt"), low, high, last], 0)
    if encoder.clock:
        levels = levels / state.graph.constant(np.tile([scale, *[1.0] * (width - 1)], 5)[:, None])
        span = span / scale
    level = columns.add(levels, 5 * width).reshape(5, width)
    counts, sums = columns.add(count, width), columns.add(count * mean, width)
    absent = columns.add((n - count) / some, width)
    events, span_place = columns.add(added.part(0, 2), 2), columns.add(span, 1)
    features = [(events, True), (span_place, True), (level[[0, 1, 3, 4], 0], True)]
    for k, field in enumerate(encoder.numeric, start=1):
        features += [(counts[k, None], True), (sums[k, None], True), (level[:, k], field.log), (absent[k, None], False)]
    if encoder.categorical:
        features += _read_codes(encoder, (latest, added), some, columns, level[:, 1 + len(encoder.numeric) :])
    return _features(columns, features)


def _read_codes(
    encoder: RunningHandcrafted, parts: tuple[Value, Value], some: Value, columns: Columns, level: Array
) -> list[tuple[Array, bool]]:
    """Return the places of the features of categorical columns among columns, and whether each is a signed log.

    Args:
        encoder: The encoder.
        parts: The latest values, and what is added.
        some: `(1, rows)` the number of events, at least 1.
        columns: To which the features are added.
        level: `(5, k)` the places there of mean, deviation, minimum, maximum and last number with frequent values.
    """
    latest, added = parts
    graph, layout, (sizes, firsts), inner = added.graph, _layout(encoder), _slots(encoder), _inner(encoder)
    each, numbers = range(len(encoder.categorical)), range(len(encoder.numeric))

    def of(name: str) -> Value:
        return _taken(added, [place for key, place in layout.items() if key[0] == name])

    counted = of("counts")
    counts, shares = columns.add(counted, int(sizes.sum())), columns.add(counted / some, int(sizes.sum()))
    repeated = columns.add(of("repeated") / of("pairs").at_least(1.0), len(each))
    means = dict[tuple[int, int], Array]()
    if numbers:
        others = [(key[1:], len(place)) for key, place in layout.items() if key[0] == "sums"]
        place = columns.add(of("sums") / of("present").at_least(1.0), sum(size for _, size in others))
        ends = np.cumsum([size for _, size in others])[:-1]
        means = {key: part for (key, _), part in zip(others, np.split(place, ends), strict=True)}
    frequent = [column.frequent for column in encoder.places.columns]
    known = np.concatenate([np.arange(FIRST, FIRST + size, dtype=np.float64) for size in frequent])[:, None]
    last = _taken(latest, [np.repeat(np.array(each), frequent) + 3]).equals(graph.constant(known)).cast(np.float64)
    is_last = np.split(columns.add(last, sum(frequent)), np.cumsum(frequent)[:-1])
    since = np.split(np.arange(0), [0] * (len(each) - 1))
    if sum(inner):
        first = 3 + len(each)
        there = _taken(counted, _within_slots(encoder)) > 0.0
        start = there.where(latest.part(first, first + sum(inner)), latest.part(0, 1))
        passed = (latest.part(1, 2) - start) / (1e6 if encoder.clock else 1.0)
        since = np.split(columns.add(passed, sum(inner)), np.cumsum(inner)[:-1])
    features, end = list[tuple[Array, bool]](), 0
    for i in each:
        values = slice(firsts[i] + FIRST, firsts[i] + sizes[i] - 1)
        features += [(shares[firsts[i] : firsts[i] + FIRST], False), (repeated[i, None], False)]
        features += [(counts[values], True), (shares[values], False)]
        for k in numbers:
            of_value, end = level[:, end : end + inner[i]], end + inner[i]
            log = encoder.numeric[k].log
            features += [(of_value[MEAN - 1], log), (means[i, k], log), (of_value[1:].reshape(-1), log)]
        features += [(is_last[i], False), (since[i], True)]
    return features


def _features(columns: Columns, features: list[tuple[Array, bool]]) -> Value:
    """Return `(dim, rows)` float32 columns in an order, of which some are signed logs, which are computed together."""
    places = np.concatenate([place for place, _ in features])
    log = np.repeat([log for _, log in features], [len(place) for place, _ in features])
    order = np.concatenate([np.flatnonzero(log), np.flatnonzero(~log)])
    first, *others = columns.ordered([places[order]]).split([each for each in (log.sum(), (~log).sum()) if each])
    values = concat([first.signed_log(), *others], 0)
    if others:
        values = _taken(values, [order.argsort()])
    return values.at_most(LARGEST).at_least(-LARGEST).cast(np.float32)


def _taken(values: Value, places: Sequence[Array]) -> Value:
    """Return the columns of `(width, rows)` at groups of places."""
    return values.take(values.graph.constant(np.concatenate(places).astype(np.int64)))


def _summed(rows: FlatRows, values: Value, index: Value, n: Value, width: int) -> Value:
    """Return `(width, n)` float64 the sums of values by their places there."""
    sums = values.reshape(-1).scattered(rows.graph.filled(0, np.float64, n * width), index, "add")
    return sums.reshape(width, -1)
