"""Options of configurations that follow from the data."""

from __future__ import annotations

import pytest
import torch

import make
from eventvec.config import (
    build_method,
)
from eventvec.errors import ConfigError
from eventvec.methods import CReSP, CrossOrder
from eventvec.sequences import Sequences
from eventvec.training.suggestions import suggest


def rows(n: int, length: int) -> Sequences:
    lengths = torch.full((n,), length)
    return Sequences({}, torch.zeros_like(lengths), lengths)


@pytest.mark.parametrize(
    ("n", "median", "shortest", "longest", "dim", "batch"),
    [
        (10, 2, 1, 16, 32, 8),
        (10, 3, 2, 16, 32, 8),  # 8·10^⅓ = 17.2; 10/16 < 8
        (334, 40, 10, 80, 64, 16),  # 8·334^⅓ = 55.5, nearest power 64; 334/16 = 20.9, nearest power 16
        (3_000, 75, 18, 150, 128, 128),
        (1_000_000, 5_000, 25, 200, 512, 128),  # 8·100 = 800, capped
    ],
)
def test_suggested_sizes(n, median, shortest, longest, dim, batch):
    views = {"name": "random_slices", "shortest": shortest, "longest": longest}
    assert suggest(rows(n, median), {"method": {"name": "siamese"}}) == {
        "method": {"name": "siamese", "views": views},
        "encoder": {"name": "gru", "dim": dim},
        "fit": {"batch_size": batch},
    }
    # CoLES: half the shortest slice and half the state, which is read three times, in batches of at most 48
    assert suggest(rows(n, median), {}) == {
        "method": {"name": "coles", "views": {**views, "shortest": max(shortest // 2, 1), "count": 4}},
        "encoder": {"name": "gru", "dim": dim // 2, "read_out": ["last", "mean", "max"]}
        if median >= 100
        else {"name": "gru", "dim": dim},
        "fit": {"batch_size": min(batch, 48)},
    }
    timed = Sequences({"time": torch.zeros(1)}, torch.zeros(n).long(), torch.ones(n).long())
    assert suggest(timed, {})["fit"]["beside"] == ["timing", "aggregates"]
    assert suggest(timed, {"fit": {"beside": []}})["fit"]["beside"] == []


def test_histories_of_two_events_can_be_trained():
    for name in ("coles", "siamese", "nsp", "sop", "next_event", "ocp"):
        method = build_method(suggest(rows(100, 2), {"method": {"name": name}}), make.schema())
        assert method.usable(rows(3, 2)).all(), name


@pytest.mark.parametrize(("median", "length"), [(5, 1), (19, 1), (48, 4), (9_999, 50)])
@pytest.mark.parametrize("name", ["ocp", "ocp_biased", "pcl"])
def test_suggested_windows(name, median, length):
    suggestion = suggest(rows(100, median), {"method": {"name": name}})
    assert suggestion["method"] == {"name": name, "length": length}
    usable = build_method(suggestion, make.schema()).usable(rows(1, median))
    assert usable.tolist() == [True]
    plain = rows(100, median)
    tied = Sequences({"time": torch.arange(median) // 2}, plain.starts, plain.lengths)  # two events at each time
    assert suggest(tied, {"method": {"name": name}})["method"]["length"] == min(max((median + 1) // 20, 1), 50)


def test_options_in_the_tables_are_not_changed():
    tables = {
        "data": {"key": "id"},
        "method": {"name": "coles", "margin": 0.3, "views": {"name": "rejection_slices", "longest": 40}},
        "encoder": {"name": "lstm", "dim": 7, "events": {"time": []}},
        "fit": {"batch_size": 3, "epochs": 1},
    }
    suggestion = suggest(rows(100, 30), tables)
    views = {"name": "rejection_slices", "shortest": 3, "longest": 40}
    assert suggestion == {**tables, "method": {"name": "coles", "margin": 0.3, "views": views}}
    assert tables["method"]["views"] == {"name": "rejection_slices", "longest": 40}
    assert suggest(rows(100, 30), {"method": {"name": "ocp", "length": 9}})["method"]["length"] == 9


@pytest.mark.parametrize(
    ("table", "suggestion"),
    [
        ({}, {"name": "set", "layers": 0, "dim": 64}),
        ({"dim": 8}, {"name": "set", "layers": 0, "dim": 8}),
        ({"name": "set", "dim": 8, "layers": 2}, {"name": "set", "layers": 2, "dim": 8}),
        ({"name": "gru", "dim": 8}, {"name": "gru", "dim": 8}),
    ],
)
def test_the_encoder_that_is_suggested_for_fclr(table, suggestion):
    assert suggest(rows(334, 30), {"method": {"name": "fclr"}, "encoder": table})["encoder"] == suggestion


def test_fclr_as_suggested_is_built():
    method = build_method(suggest(rows(334, 30), {"method": {"name": "fclr"}}), make.schema())
    assert (type(method), method.encoder.layers) == (CReSP, 0)


@pytest.mark.parametrize(
    ("events", "merged"),
    [
        ({}, {"name": "segmented"}),
        ({"time": []}, {"name": "segmented", "events": {"time": []}}),
        ({"time": [], "events": {"width": 4}}, {"name": "segmented", "events": {"time": [], "width": 4}}),
        ({"name": "segmented", "events": {"time": []}}, {"name": "segmented", "events": {"time": []}}),
    ],
)
def test_options_of_the_event_encoder_do_not_replace_the_suggested_one(events, merged):
    config = {"method": {"name": "cross_order"}, "encoder": {"events": events}}
    suggestion = suggest(rows(100, 30), config)
    assert suggestion["encoder"] == {"name": "gru", "events": merged, "dim": 32}
    assert isinstance(build_method(suggestion, make.schema()), CrossOrder)


def test_the_name_of_the_suggested_part_changes_nothing():
    named, plain = ({"encoder": {"events": {"observations": ["value"], **name}}} for name in ({"name": "pairs"}, {}))
    first, second = (suggest(rows(9, 5), {"method": {"name": "cresp"}, **table}) for table in (named, plain))
    assert first == second
    assert first["encoder"]["events"]["observation"] == {"name": "numbers", "width": 64}


def test_another_event_encoder_replaces_the_suggested_one():
    config = {"method": {"name": "cross_order"}, "encoder": {"events": {"name": "events", "time": []}}}
    assert suggest(rows(100, 30), config)["encoder"]["events"] == {"name": "events", "time": []}


@pytest.mark.parametrize("method", [{"name": "colse"}, {"name": ["coles"]}, {"name": "coles", "views": 3}])
def test_wrong_options_are_refused_by_building_and_not_by_the_suggestion(method):
    suggestion = suggest(rows(100, 30), {"method": method})
    assert suggestion["method"] == method
    with pytest.raises(ConfigError):
        build_method(suggestion, make.schema())
