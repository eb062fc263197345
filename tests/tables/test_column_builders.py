"""A column that is read part by part is coded as the whole column would be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eventvec.tables.coding import Coded, coded, encode
from eventvec.tables.column_builders import SeenValues
from eventvec.tables.read_options import Fitting


@pytest.mark.parametrize("size", [1, 7, 200])
def test_values_seen_part_by_part_are_coded_as_those_of_the_whole_column(size: int) -> None:
    rng = np.random.default_rng(0)
    values = [None if place == 9 else f"v{place}" for place in rng.geometric(0.2, 200)]
    seen = SeenValues("shop", None, hashed=False)
    parts = [pa.chunked_array([pa.array(values[start : start + size])]) for start in range(0, 200, size)]
    places = np.concatenate([seen.add(Coded(*coded("shop", part)), text=True) for part in parts])
    codes, notes = seen.fit(Fitting(min_count=5), 200, "events")
    counts = {value: values.count(value) for value in set(values) - {None}}
    frequent = sorted((value for value in counts if counts[value] >= 5), key=lambda value: (-counts[value], value))
    assert (seen.field.values, notes) == (tuple(frequent), [])
    whole = Coded(*coded("shop", pa.chunked_array([pa.array(values)])))
    assert codes[places].tolist() == encode(whole, seen.field).tolist()
