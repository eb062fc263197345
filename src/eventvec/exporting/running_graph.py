"""The graph of the features that continue exactly, `RunningHandcrafted`, and of their components, `Compressed`."""

from __future__ import annotations

import numpy as np

from eventvec.encoders.compressed import FARTHEST, Compressed
from eventvec.encoders.running import BEYOND, COUNT, HIGH, LAST, LOW, MEAN, NORM, RunningHandcrafted
from eventvec.exporting.flat_rows import FlatRows
from eventvec.exporting.graph import Value, concat, stack
from eventvec.schema import FIRST, MISSING

LARGEST = float(np.finfo(np.float32).max)


def embed_running(encoder: RunningHandcrafted, rows: FlatRows, state: Value) -> tuple[Value, Value]:
    """Return `(rows, dim)` features and `(rows, stored_dim)` the states after the rows' events, from those before."""
    size = sum(encoder.sizes)
    now = _continued(encoder, rows, _joined([state.columns(i * size, (i + 1) * size) for i in range(3)]))
    return _read(encoder, now), _split(now)


def embed_compressed(encoder: Compressed, features: Value) -> Value:
    """Return `(rows, dim)` float32 the standardised features, or their components."""
    graph = features.graph
    mean, scale = (graph.constant(part.cpu().numpy()) for part in (encoder.mean, encoder.scale))
    values = scale.equals(0.0).where(0.0, (features - mean) * scale).at_most(FARTHEST).at_least(-FARTHEST)
    return values if encoder.projection is None else values @ graph.constant(encoder.projection.cpu().numpy())


def _split(values: Value) -> Value:
    """Return float64 numbers as three float32 numbers each, see `encoders.running`."""
    beyond = values.op("Abs") > LARGEST
    values = beyond.where(values / BEYOND, values)
    high = values.cast(np.float32)
    middle = (values - high.cast(np.float64)).cast(np.float32)
    low = (values - high.cast(np.float64) - middle.cast(np.float64)).cast(np.float32)
    return concat([beyond.where(low, high), middle, beyond.where(high, low)], 1)


def _joined(parts: list[Value]) -> Value:
    """Return the float64 numbers that `_split` took apart."""
    first, middle, last = (part.cast(np.float64) for part in parts)
    beyond = last.op("Abs") > first.op("Abs")
    values = beyond.where(last, first) + (middle + beyond.where(first, last))
    return beyond.where(values * BEYOND, values)


def _continued(encoder: RunningHandcrafted, rows: FlatRows, before: Value) -> Value:
    """Return `(rows, k)` float64 the state after the events: latest values, what is added, and statistics."""
    n_latest, n_added, n_moments = encoder.sizes
    old_latest, old_added = before.columns(0, n_latest), before.columns(n_latest, n_latest + n_added)
    old_moments = before.columns(n_latest + n_added, n_latest + n_added + n_moments)
    known = _column(old_added, 0) > 0.0
    first, last, kind = rows.first(rows.time), rows.last(rows.time), rows.time.dtype
    rest = (last - last.cast(np.float64).cast(kind)).cast(np.float64)  # of whole numbers beyond 2^53
    before_events = _column(old_latest, 1).cast(kind) + _column(old_latest, 2).cast(kind)
    since_state = known.where((first - before_events).cast(np.float64), np.nan)
    gap = rows.head.where(since_state.take(rows.row), (rows.time - rows.before(rows.time)).cast(np.float64))
    numbers = [rows.columns[column.name].cast(np.float64) for column in encoder.numeric]
    latest = [known.where(_column(old_latest, 0), first.cast(np.float64)), last.cast(np.float64), rest]
    moments = [_statistics(rows, stack([gap, *numbers], 1), rows.row, rows.n)]
    times, n_times = list[Value](), 3 + len(encoder.categorical)
    moved = ~gap.equals(0.0)  # the first event ever, whose gap is missing, is counted too
    added = [stack([rows.lengths.cast(np.float64), _tally(rows, moved)], 1)]
    for i, column in enumerate(encoder.categorical):
        code, slots, within = rows.columns[column.name], encoder.n_slots(column), encoder.n_within(column)
        latest.append(rows.last(code).cast(np.float64))
        old = _column(old_latest, 3 + i).cast(np.int64)
        previous = rows.head.where(old.take(rows.row), rows.before(code))
        pair = ~code.equals(MISSING) & ~previous.equals(MISSING)
        added.append(stack([_tally(rows, pair), _tally(rows, pair & code.equals(previous))], 1))
        group = rows.row * slots + code.at_most(slots - 1)
        added.append(_sums(rows, rows.graph.filled(1, np.float64, rows.total), group, slots))
        for number in numbers:
            missing = number.isnan()
            for values in (missing.where(0.0, number), (~missing).cast(np.float64)):
                added.append(_sums(rows, values, group, slots).columns(FIRST + within, -1))
        if within:
            times.append(_last_times(rows, group, slots, within, old_latest.columns(n_times, n_times + within)))
            n_times += within
        if within and numbers:
            inner = _statistics(rows, stack(numbers, 1), group, rows.n * slots).reshape(-1, slots, len(numbers), 6)
            inner = inner.columns(FIRST, FIRST + within).transposed(0, 2, 1, 3)
            moments.append(inner.reshape(0, len(numbers) * within, 6))
    merged = _merged(old_moments.reshape(0, -1, 6), concat(moments, 1))
    newest = rows.filled.unsqueeze(1).where(stack(latest, 1), old_latest.columns(0, len(latest)))
    return concat([newest, *times, old_added + concat(added, 1), merged.reshape(0, n_moments)], 1)


def _last_times(rows: FlatRows, group: Value, slots: int, within: int, before: Value) -> Value:
    """Return `(rows, within)` the time of the last event with each value, of the state where there is no new one."""
    places = rows.graph.places(rows.total)
    place = places.scattered(rows.graph.filled(-1, np.int64, rows.n * slots), group, "max")
    place = place.reshape(-1, slots).columns(FIRST, FIRST + within)
    nothing = rows.graph.constant(np.zeros(1, rows.time.dtype))
    return (place < 0).where(before, concat([rows.time, nothing], 0).take(place.at_least(0)).cast(np.float64))


def _statistics(rows: FlatRows, values: Value, group: Value, groups: Value) -> Value:
    """Return `(groups, columns, 6)` count, mean, norm, minimum, maximum and last of `(events, columns)` values."""
    graph, missing = rows.graph, values.isnan()
    present = (~missing).cast(np.float64)
    group = missing.where(0, group.unsqueeze(1))  # missing ones add nothing to the group where they are put
    filled = missing.where(0.0, values)
    width = values.size(1)

    def into(start: float, numbers: Value, reduction: str) -> Value:
        return numbers.scattered(graph.filled(start, numbers.dtype, groups, width), group, reduction)

    count = into(0, present, "add")
    some = count > 0.0
    low = some.where(into(np.inf, missing.where(np.inf, values), "min"), 0.0)
    high = some.where(into(-np.inf, missing.where(-np.inf, values), "max"), 0.0)
    around = missing.where(0.0, values - low.op("GatherElements", group, axis=0))
    mean = low + into(0, around, "add") / count.at_least(1.0)  # exact for equal values
    around = missing.where(0.0, values - mean.op("GatherElements", group, axis=0))
    norm = into(0, around * around, "add").op("Sqrt")
    place = missing.where(-1, graph.places(rows.total).unsqueeze(1))
    place = into(-1, place, "max").at_least(0)
    nothing = graph.filled(0, np.float64, 1, width)
    last = some.where(concat([filled, nothing], 0).op("GatherElements", place, axis=0), 0.0)
    return stack([count, mean, norm, low, high, last], 2)


def _merged(first: Value, second: Value) -> Value:
    """Return `(rows, columns, 6)` the statistics of the values of `first` and then those of `second`."""
    a, b = ([part.take(part.graph.constant(np.array(i)), axis=2) for i in range(6)] for part in (first, second))
    n, m = a[COUNT], b[COUNT]
    weight = m / (n + m).at_least(1.0)
    difference = b[MEAN] - a[MEAN]
    norm = a[NORM] * a[NORM] + b[NORM] * b[NORM] + difference * difference * n * weight
    low, high = a[LOW].at_most(b[LOW]), a[HIGH].at_least(b[HIGH])
    both = [n + m, a[MEAN] + difference * weight, norm.op("Sqrt"), low, high, b[LAST]]
    either = (m > 0.0).unsqueeze(2).where(second, first)
    return ((n > 0.0) & (m > 0.0)).unsqueeze(2).where(stack(both, 2), either)


def _read(encoder: RunningHandcrafted, state: Value) -> Value:
    """Return `(rows, dim)` float32 the features of states."""
    n_latest, n_added, _ = encoder.sizes
    graph, end = state.graph, n_latest + n_added
    moments = [[_column(state, end + 6 * i + part) for part in range(6)] for i in range(1 + len(encoder.numeric))]
    gap, *numbers = moments
    end, n_times, scale = end + 6 * len(moments), 3 + len(encoder.categorical), 1e6 if encoder.clock else 1.0
    n = state.columns(n_latest, n_latest + 1)
    times = stack([_column(state, 1) - _column(state, 0), gap[MEAN], _deviation(gap), gap[HIGH], gap[LAST]], 1)
    parts = [state.columns(n_latest, n_latest + 2).signed_log()]
    parts.append((times / scale).signed_log())
    some = n.at_least(1.0)
    for field, number in zip(encoder.numeric, numbers, strict=True):
        count = number[COUNT]
        parts.append(stack([count, count * number[MEAN]], 1).signed_log())
        levels = stack([number[MEAN], _deviation(number), number[LOW], number[HIGH], number[LAST]], 1)
        parts += [levels.signed_log() if field.log else levels, (n - count.unsqueeze(1)) / some]
    place = n_latest + 2
    for i, column in enumerate(encoder.categorical):
        values, slots, within = encoder.n_values(column), encoder.n_slots(column), encoder.n_within(column)
        pairs, counts = state.columns(place, place + 2), state.columns(place + 2, place + 2 + slots)
        place += 2 + slots
        shares, repeated = counts / some, pairs.columns(1, 2) / pairs.columns(0, 1).at_least(1.0)
        parts += [shares.columns(0, FIRST), repeated]  # the shares of missing and of unknown values
        parts += [counts.columns(FIRST, -1).signed_log(), shares.columns(FIRST, -1)]
        for field in encoder.numeric:
            others = values - within
            sums, present = (state.columns(place + k * others, place + (k + 1) * others) for k in range(2))
            place += 2 * others
            within_codes = [sums / present.at_least(1.0)]
            if within:
                of_value = state.columns(end, end + 6 * within).reshape(-1, within, 6)
                inner = [of_value.take(graph.constant(np.array(part)), axis=2) for part in range(6)]
                within_codes = [inner[MEAN], *within_codes, _deviation(inner), *inner[LOW:]]
                end += 6 * within
            scaled = concat(within_codes, 1)
            parts.append(scaled.signed_log() if field.log else scaled)
        codes = graph.constant(np.arange(FIRST, FIRST + min(values, encoder.frequent), dtype=np.float64))
        parts.append(state.columns(3 + i, 4 + i).equals(codes).cast(np.float64))
        if within:
            is_known, first = counts.columns(FIRST, FIRST + within) > 0.0, state.columns(0, 1)
            start = is_known.where(state.columns(n_times, n_times + within), first)
            parts.append(((state.columns(1, 2) - start) / scale).signed_log())
            n_times += within
    return concat(parts, 1).at_most(LARGEST).at_least(-LARGEST).cast(np.float32)


def _deviation(statistics: list[Value]) -> Value:
    return statistics[NORM] / (statistics[COUNT] - 1.0).at_least(1.0).op("Sqrt")


def _tally(rows: FlatRows, mask: Value) -> Value:
    """Return `(rows,)` float64 how many events of each row are true in a mask."""
    return mask.cast(np.float64).scattered(rows.graph.filled(0, np.float64, rows.n), rows.row, "add")


def _sums(rows: FlatRows, values: Value, group: Value, slots: int) -> Value:
    """Return `(rows, slots)` the sums of the values of each group."""
    sums = values.scattered(rows.graph.filled(0, np.float64, rows.n * slots), group, "add")
    return sums.reshape(-1, slots)


def _column(values: Value, place: int) -> Value:
    return values.columns(place, place + 1).squeeze(1)
