"""The graph of the features that continue exactly, `RunningHandcrafted`, and of their components, `Compressed`.

The columns of a table are computed together, so a table of many columns has no more operators. Columns are the
first axis of tensors, and rows or events the last, because parts along the first axis are contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from eventvec.encoders.compressed import FARTHEST, Compressed
from eventvec.encoders.running import BEYOND, RunningHandcrafted
from eventvec.exporting.flat_rows import FlatRows, cells
from eventvec.exporting.graph import Value, concat, stack
from eventvec.schema import FIRST, MISSING
from eventvec.sequences import Array

LARGEST = float(np.finfo(np.float32).max)


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


def _continued(encoder: RunningHandcrafted, rows: FlatRows, before: Value) -> Value:
    """Return `(k, rows)` float64 the state after the events: latest values, what is added, and statistics."""
    kind, n_codes, n_within = rows.time.dtype, len(encoder.categorical), encoder.places.within
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
    """Return `(k, rows)` what the events add, from gaps and numbers, and from codes and those of the events before."""
    n, places, missing, width = rows.n, encoder.places, values.isnan(), 1 + 2 * len(encoder.categorical)
    marks = [~values.part(0, 1).equals(0.0)]  # the first event ever, whose gap is missing, is counted too
    if codes:
        code, previous = codes
        pair = ~code.equals(MISSING) & ~previous.equals(MISSING)
        marks += [pair, pair & code.equals(previous)]
    mark_places = rows.graph.constant(np.arange(width)[:, None]) * n + rows.row
    tally = _summed(rows, concat(marks, 0).cast(np.float64), mark_places.reshape(-1), n, width)
    sums = [rows.lengths.cast(np.float64).unsqueeze(0), tally]
    if codes:
        group, slots = _group(encoder, rows, code), len(places.of_slots)
        sums.append(_summed(rows, rows.graph.filled(1, np.float64, group.size()), group, n, slots))
        for numbers in (missing.where(0.0, values), (~missing).cast(np.float64)):
            for number in numbers.split([1] * (1 + len(encoder.numeric)))[1:]:
                each = number.op("Expand", rows.graph.integers(len(encoder.categorical), 1))
                sums.append(_summed(rows, each, group, n, slots))
    order = np.concatenate([places.fixed, places.of_slots.T.flatten()]).argsort(kind="stable")
    return _taken(concat(sums, 0), order[: places.n_added])  # the rest are sums that no state has


def _group(encoder: RunningHandcrafted, rows: FlatRows, codes: Value) -> Value:
    """Return `(columns · events,)` the place of each code's counter among `(counters, rows)`."""
    places = encoder.places
    first, last = (rows.graph.constant(each.unsqueeze(1).numpy()) for each in (places.first_slots, places.last_slots))
    return ((codes.at_most(last) + first) * rows.n + rows.row).reshape(-1)


def _last_times(encoder: RunningHandcrafted, rows: FlatRows, codes: Value, before: Value) -> Value:
    """Return `(k, rows)` the time of the last event with each value, of the state where there is no new one."""
    graph, places, total = rows.graph, encoder.places, len(encoder.places.of_slots)
    each = graph.places(rows.total).op("Expand", graph.integers(len(encoder.categorical), 1)).reshape(-1)
    place = each.scattered(graph.filled(-1, np.int64, rows.n * total), _group(encoder, rows, codes), "max")
    slots = zip(places.first_slots.tolist(), places.columns, strict=True)
    within = [np.arange(first + FIRST, first + FIRST + column.within) for first, column in slots]
    place = _taken(place.reshape(total, -1), np.concatenate(within))
    times = concat([rows.time, graph.constant(np.zeros(1, rows.time.dtype))], 0).take(place.at_least(0))
    return (place < 0).where(before, times.cast(np.float64))


def _moments_within(encoder: RunningHandcrafted, rows: FlatRows, values: Value) -> list[Value]:
    """Return `(numbers · within, 6, rows)` the statistics of numbers over the events with frequent values."""
    moments, width = list[Value](), len(encoder.numeric)
    for field, column in zip(encoder.categorical, encoder.places.columns, strict=True):
        slots, within = column.slots, column.within
        if within and width:
            group = rows.row * slots + rows.columns[field.name].at_most(slots - 1)
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
    places, m = encoder.places, len(encoder.numeric)
    latest, added, moments = state.split(encoder.sizes)
    statistics = moments.reshape(encoder.sizes[2] // 6, 6, -1).split([1] * 6, axis=1)
    count, mean, norm, *_ = (part.squeeze(1) for part in statistics)
    parts = [added.part(0, 2), latest.part(1, 2) - latest.part(0, 1)]
    if m:
        n, counts = added.part(0, 1), count.part(1, 1 + m)
        parts += [counts * mean.part(1, 1 + m), (n - counts) / n.at_least(1.0)]
    if encoder.categorical:
        sizes = [size for size in places.n_chosen if size]
        numerators, denominators, *within = _taken(added, places.chosen).split(sizes)
        codes = state.graph.constant(places.codes.double().unsqueeze(1).numpy())
        parts += [numerators.part(0, places.counts), numerators / denominators.at_least(1.0)]
        parts += [_taken(latest, places.code_columns).equals(codes).cast(np.float64)]
        if places.within:
            times = latest.part(encoder.sizes[0] - places.within, encoder.sizes[0])
            parts += [latest.part(1, 2) - (within[0] > 0.0).where(times, latest.part(0, 1))]
    computed = concat([*parts, moments, norm / (count - 1.0).at_least(1.0).op("Sqrt")], 0)
    logs, *others = _taken(computed, places.features).split([size for size in places.n_features if size])
    logs = (logs / state.graph.constant(places.units.unsqueeze(1).numpy())).signed_log()
    features = _taken(concat([logs, *others], 0), places.order)
    return features.at_most(LARGEST).at_least(-LARGEST).cast(np.float32)


def _taken(values: Value, places: Array | Tensor) -> Value:
    """Return the columns of `(width, rows)` at places."""
    return values.take(values.graph.constant(np.asarray(places)))


def _summed(rows: FlatRows, values: Value, index: Value, n: Value, width: int) -> Value:
    """Return `(width, n)` float64 the sums of values by their places there."""
    sums = values.reshape(-1).scattered(rows.graph.filled(0, np.float64, n * width), index, "add")
    return sums.reshape(width, -1)
