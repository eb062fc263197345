"""The graph of the event encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eventvec.encoders.event_encoder import THURSDAY, EventEncoder, Mixing
from eventvec.encoders.interface import EventEncoding
from eventvec.errors import ConfigError
from eventvec.exporting.flat_rows import FlatRows, cells, owner
from eventvec.exporting.graph import Value, concat, stack
from eventvec.exporting.layers import applied, array
from eventvec.schema import Numeric


def check_events(events: Any) -> None:
    """Refuse events that have no graph."""
    if not isinstance(events, EventEncoder):
        raise ConfigError(f"ONNX has events that EventEncoder reads, got {type(events).__name__}")
    if events.texts:
        raise ConfigError(
            f"column {events.schema.texts[0].name!r} of the events holds texts, which a language model reads that has "
            "no ONNX graph here; train a run without texts="
        )


def encode_events(events: EventEncoding, rows: FlatRows) -> Value:
    """Return `(events, dim)` float32, the vector of each event."""
    assert isinstance(events, EventEncoder)
    graph = rows.graph
    tables = zip(events.categorical, events.embeddings, strict=True)
    parts = [applied(table, rows.columns[name]) for name, table in tables]
    for name, table in zip(events.bags, events.elements, strict=True):
        codes, width = rows.columns[name], array(table.weight).shape[1]
        event = owner(graph, rows.elements[name], codes.size())
        each, nothing = applied(table, codes).reshape(-1), graph.filled(0, np.float32, rows.total * width)
        # ScatterND would be faster, but onnxruntime adds by several threads without a lock there (issue 18048)
        parts.append(each.scattered(nothing, cells(event, width), "add").reshape(-1, width))
    if events.numeric:
        parts += _numbers(events, rows)
    for period in events.periods:
        phase = (rows.time + THURSDAY).op("Mod", period)
        angle = (phase.cast(np.float64) * (2 * np.pi / period)).cast(np.float32).unsqueeze(1)
        parts += [angle.op("Sin"), angle.op("Cos")]
    values = concat(parts, 1)
    return _mixed(events.mix, values) if isinstance(events.mix, Mixing) else values


def _numbers(events: EventEncoder, rows: FlatRows) -> list[Value]:
    """Return scaled and normalised numbers, marks of missing ones, and the embeddings of bins."""
    raw = [_gap(events.schema.clock, rows) if column.name == "gap" else rows.columns[column.name]
           for column in events.numeric]  # fmt: skip
    numbers = scaled(events.numeric, stack(raw, 1))
    missing = numbers.isnan()
    numbers, graph = missing.where(0.0, numbers), rows.graph
    if events.norm is not None:
        numbers = applied(events.norm, numbers)
    parts = [numbers, missing.cast(np.float32)]
    for table, column, values in zip(events.binned, events.numeric, raw, strict=False):
        edges = graph.constant(np.array(column.edges, np.float32))
        bins = (values.unsqueeze(1) >= edges).cast(np.int64).sum(1) + 1
        parts.append(applied(table, values.isnan().where(0, bins)))
    return parts


def _gap(clock: bool, rows: FlatRows) -> Value:
    """Return `(events,)` float32, the time since the event before, in seconds for calendar times; missing at first."""
    since_state = rows.first(rows.time) - rows.last_time
    passed = rows.head.where(since_state.take(rows.row), rows.time - rows.before(rows.time))
    gap = (passed.cast(np.float64) / (1e6 if clock else 1.0)).cast(np.float32)
    return (rows.head & ~(rows.seen > 0).take(rows.row)).where(np.nan, gap)


def scaled(columns: Sequence[Numeric], values: Value) -> Value:
    """Return `(n, columns)` float32 numbers on the scales of their columns, NaN where missing."""

    def constant(numbers: list[Any], dtype: Any = np.float32) -> Value:
        return values.graph.constant(np.array(numbers, dtype))

    log = [column.log for column in columns]
    if all(log):
        values = values.signed_log()
    elif any(log):
        values = constant(log, bool).where(values.signed_log(), values)
    return (values - constant([column.mean for column in columns])) / constant([column.std for column in columns])


def _mixed(mix: Mixing, values: Value) -> Value:
    h = applied(mix.first, values)
    return h + applied(mix.block, h)
