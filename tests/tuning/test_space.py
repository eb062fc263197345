"""The values that are tried: multiples of the defaults, or those that a caller names."""

from __future__ import annotations

from typing import Any

import pytest

import fits
from eventvec.tuning.space import MATTER, search_space


@pytest.mark.parametrize("method", ["coles", "ocp", "next_event"])
def test_multiples_of_the_defaults_are_tried_if_nothing_is_named(method: str) -> None:
    space, first = search_space(fits.dataset(), {"method": {"name": method}}, None)
    assert tuple(space) == MATTER
    assert space["encoder.dim"] == [8, 16, 32, 64, 128]
    assert space["fit.lr"] == pytest.approx([0.0005, 0.001, 0.002, 0.004, 0.008])
    assert space["fit.batch_size"] == [2, 4, 8, 16, 32]
    assert first == dict.fromkeys(MATTER, 2)


def test_values_that_the_method_refuses_are_not_among_the_multiples() -> None:
    tables = {"method": {"name": "coles"}, "fit": {"batch_size": 4}}
    assert search_space(fits.dataset(), tables, None)[0]["fit.batch_size"] == [2, 4, 8, 16]


@pytest.mark.parametrize(
    ("name", "values", "expected", "default"),
    [
        ("encoder.dim", [64, 4, 64], [4, 32, 64], 1),
        ("method.margin", [1.0, 0.25], [0.25, 0.5, 1.0], 1),
        ("method.views.count", [4, 8], [4, 8], 0),
        ("fit.clip", [1.0], [None, 1.0], 0),
        ("encoder.name", ["lstm"], ["gru", "lstm"], 0),
        ("fit.beside", [["timing"], []], [["timing", "aggregates"], ["timing"], []], 0),
    ],
)
def test_named_values_stand_beside_the_default(name: str, values: Any, expected: Any, default: int) -> None:
    space, first = search_space(fits.dataset(), {"method": {"name": "coles"}}, {name: values})
    assert (space, first) == ({name: expected}, {name: default})
