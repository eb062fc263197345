"""The graph of the features that continue exactly, `RunningHandcrafted`, and of their components, `Compressed`.

The columns of a table are computed together, so a table of many columns has no more operators. Columns are the
first axis of tensors, and rows or events the last, because parts along the first axis are contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor

from eventvec.encoders.compressed import FARTHEST, Compressed
from eventvec.encoders.running import BEYOND, SUMS, RunningHandcrafted
from eventvec.exporting.flat_rows import FlatRows, cells
from eventvec.exporting.graph import Value, concat, stack
from eventvec.schema import FIRST, MISSING
from eventvec.sequences import Array

LAST = 2**62
"""A place behind all others."""
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
    m = 1 + len(encoder.numeric)
    of_all, *of_values = old_moments.reshape(encoder.sizes[2] // SUMS, SUMS, -1).split(
        [m, *(size for column in encoder.places.columns if (size := column.within * (m - 1)))]
    )
    sums = [_sums(rows, of_all.transposed(2, 0, 1), values, rows.row, m).transposed(1, 2, 0)]
    codes, times = list[Value](), list[Value]()
    if n_codes:
        codes = [stack([rows.columns[column.name] for column in encoder.categorical], 0)]
        latest += [stack([rows.last(rows.columns[column.name]) for column in encoder.categorical], 0).cast(np.float64)]
        codes.append(
            rows.head.where(old_codes[0].cast(np.int64).take(rows.row, axis=1), rows.before(codes[0], n_codes))
        )
    if n_within:
        times = [_last_times(encoder, rows, codes[0], old_times[0])]
        sums += _sums_within(encoder, rows, of_values, values)
    newest = rows.filled.where(concat(latest, 0), old_values)
    added = old_added + _added(encoder, rows, values, codes)
    return concat([newest, *times, added, concat(sums, 0).reshape(encoder.sizes[2], -1)], 0)


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


def _sums_within(
    encoder: RunningHandcrafted, rows: FlatRows, before: Sequence[Value], values: Value
) -> Iterator[Value]:
    """Yield `(numbers · within, 7, rows)` the sums of numbers over the events with frequent values, of each column."""
    width, left = len(encoder.numeric), list(before)
    for field, column in zip(encoder.categorical, encoder.places.columns, strict=True):
        slots, within = column.slots, column.within
        if within and width:
            group = rows.row * slots + rows.columns[field.name].at_most(slots - 1)
            others = [rows.graph.filled(0, np.float64, width, n, SUMS, rows.n) for n in (FIRST, slots - FIRST - within)]
            known = left.pop(0).reshape(width, within, SUMS, -1)
            old = concat([others[0], known, others[1]], 1).transposed(3, 1, 0, 2)
            inner = _sums(rows, old, values.part(1, 1 + width), group, width)
            inner = inner.reshape(-1, slots, width, SUMS).transposed(2, 1, 3, 0)  # (numbers, slots, 7, rows)
            yield inner.part(FIRST, FIRST + within, axis=1).reshape(within * width, SUMS, -1)


def _sums(rows: FlatRows, before: Value, values: Value, group: Value, width: int) -> Value:
    """Return `(groups, width, 7)` the sums of `(width, events)` values after those before, as `running.summed` does."""
    graph = rows.graph
    index = cells(group, width)
    shape = (-1, width) if width > 1 else (-1,)  # an axis of size 1 would slow operators down
    values = values.transposed(1, 0).reshape(*shape)
    missing = values.isnan()
    count, first, total, squares, low, high, last = (
        part.squeeze(1) for part in before.reshape(-1, SUMS).split([1] * SUMS, axis=1)
    )
    known, size = count > 0.0, count.size()

    def into(start: Value, numbers: Value, reduction: str) -> Value:
        return numbers.reshape(-1).scattered(start, index, reduction)

    every = rows.total * width
    each, flat = graph.places(every).reshape(*shape), concat([values.reshape(-1), graph.constant(np.zeros(1))], 0)
    begin = into(graph.filled(LAST, np.int64, size), missing.where(LAST, each), "min").at_most(every)
    end = into(graph.filled(-1, np.int64, size), missing.where(-1, each), "max")
    first = known.where(first, flat.take(begin))
    off = missing.where(0.0, values - first.reshape(*shape).take(group))
    count = into(count, (~missing).cast(np.float64), "add")
    total, squares = into(total, off, "add"), into(squares, off * off, "add")
    low = into(known.where(low, np.inf), missing.where(np.inf, values), "min")
    high = into(known.where(high, -np.inf), missing.where(-np.inf, values), "max")
    some, last = count > 0.0, (end < 0).where(last, flat.take(end.at_least(0)))
    return stack([count, first, total, squares, some.where(low, 0.0), some.where(high, 0.0), last], 1).reshape(
        -1, width, SUMS
    )


def _read(encoder: RunningHandcrafted, state: Value) -> Value:
    """Return `(dim, rows)` float32 the features of states `(k, rows)`."""
    places, m = encoder.places, len(encoder.numeric)
    latest, added, moments = state.split(encoder.sizes)
    columns = encoder.sizes[2] // SUMS
    sums = moments.reshape(columns, SUMS, -1).split([1] * SUMS, axis=1)
    count, first, total, squares, *others = (part.squeeze(1) for part in sums)
    off = total / count.at_least(1.0)
    mean, norm = first + off, (squares - total * off).at_least(0.0).op("Sqrt")
    statistics = stack([count, mean, norm, *others], 1).reshape(6 * columns, -1)
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
    computed = concat([*parts, statistics, norm / (count - 1.0).at_least(1.0).op("Sqrt")], 0)
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
