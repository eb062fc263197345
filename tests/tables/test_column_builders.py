"""A column that is read part by part is coded as the whole column would be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eventvec.tables.coding import Coded, coded, encode
from eventvec.tables.column_builders import CodesBuilder
from eventvec.tables.read_options import Fitting
from eventvec.tables.sinks import ArraySink


@pytest.mark.parametrize("size", [1, 7, 200])
def test_values_seen_part_by_part_are_coded_as_those_of_the_whole_column(size: int) -> None:
    rng = np.random.default_rng(0)
    values = [None if place == 9 else f"v{place}" for place in rng.geometric(0.2, 200)]
    builder = CodesBuilder("shop", ArraySink, None, hashed=False)
    for start in range(0, 200, size):
        builder.append(Coded(*coded("shop", pa.chunked_array([pa.array(values[start : start + size])]))), text=True)
    notes = builder.fit(Fitting(min_count=5))
    counts = {value: values.count(value) for value in set(values) - {None}}
    frequent = sorted((value for value in counts if counts[value] >= 5), key=lambda value: (-counts[value], value))
    assert (builder.field.values, notes) == (tuple(frequent), [])
    whole = Coded(*coded("shop", pa.chunked_array([pa.array(values)])))
    assert builder.sinks.values().tolist() == encode(whole, builder.field).tolist()
