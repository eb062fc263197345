"""Points of an irregular table: columns by name against a loop over events, time from the context, and refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import make
from eventvec.config import build_encoder
from eventvec.encoders import EventEncoder, Harmonics, Numbers, PointEncoder, SetEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.schema import Numeric, Schema
from eventvec.sequences import Sequences
from eventvec.views import ShuffledParts
from laws import rng


def schema(kind: str = "timestamp") -> Schema:
    size = Numeric("size", log=False, mean=2.0, std=4.0)
    return replace(make.schema(kind=kind), numeric=(*make.schema().numeric, size))


def rows() -> Sequences:
    """Return rows of events without missing numbers, in random order in the row."""
    x = make.sequences([4, 0, 3, 1])
    amount = x.columns["amount"].nan_to_num(3.0)
    size = torch.randn(len(amount), generator=rng())
    x = replace(x, columns={**x.columns, "amount": amount, "size": size})
    return ShuffledParts(1)(x[[0, 2, 3]], rng())[0]


def log_scaled(value: float, field: Numeric) -> float:
    return (math.copysign(math.log1p(abs(value)), value) - field.mean) / field.std


@pytest.mark.parametrize("kind", ["timestamp", "integer"])
def test_columns_by_name_equal_a_loop_over_events(kind):
    torch.manual_seed(0)
    net = Harmonics(size=2, count=2)
    points = PointEncoder(
        Numbers(1, 3), net, schema(kind), covariates=["time", "code", "size"], observations=["amount"]
    )
    x = rows()
    out, event, unit = points(x), 0, 1e6 if kind == "timestamp" else 1
    assert points.dim == out.shape[1] == 8 + 5 + 3  # six codes
    for row in range(len(x)):
        one = x[[row]]
        times, codes, sizes, amounts = (one.values(name).tolist() for name in ("time", "code", "size", "amount"))
        for time, code, size, amount in zip(times, codes, sizes, amounts, strict=True):
            elapsed = log_scaled((time - min(times)) / unit, points.schema.gap)
            numbers = net(torch.tensor([[elapsed, (size - 2.0) / 4.0]]))
            seen = points.observation(torch.tensor([[log_scaled(amount, points.schema.numeric[0])]]))
            expected = torch.cat([numbers[0], points.covariate_codes[0].weight[code], seen[0]])
            torch.testing.assert_close(out[event], expected, rtol=1e-4, atol=1e-4)
            event += 1
    assert event == x.total


def test_codes_are_embedded_as_the_event_encoder_embeds_them():
    points = PointEncoder(schema=schema(), covariates=["code"], observations=["amount", "size"])
    torch.manual_seed(0)
    events = EventEncoder(make.schema(), time=[])
    assert points.covariate is None
    assert PointEncoder(covariate=Numbers(), schema=schema(), covariates=["code"]).covariate is None  # as suggested
    assert points.covariate_codes[0].weight.shape == events.embeddings[0].weight.shape
    assert not points.covariate_codes[0].weight[:2].any()
    assert points.observation.shape == (2,)
    assert points(rows()).shape == (8, points.covariate_dim + 2)


def test_time_is_counted_from_the_context():
    points = PointEncoder(schema=schema("integer"), scaled=False, covariates=["time"], observations=["amount"])
    columns = {"time": torch.tensor([30, 10, 20, 5, 50]), "amount": torch.ones(5)}
    x = Sequences(columns, torch.tensor([0]), torch.tensor([3]))
    targets = Sequences(columns, torch.tensor([3]), torch.tensor([2]))
    assert points.g_cov(x).flatten().tolist() == [20, 0, 10]
    assert points.g_cov(targets, x).flatten().tolist() == [-5, 40]


def test_times_after_an_empty_row_are_counted_from_their_own_row():
    points = PointEncoder(covariates=["time"], observations=["amount"])
    columns = {"time": torch.tensor([2.0, 7.0]), "amount": torch.ones(2)}
    x = Sequences(columns, torch.tensor([0, 0]), torch.tensor([0, 2]))
    assert points(x)[:, 0].tolist() == [0, 5]


def test_missing_numbers_make_a_row_unusable_and_missing_codes_do_not():
    points, x = PointEncoder(schema=schema(), covariates=["code", "time"], observations=["amount"]), rows()
    x.columns["code"][x[[0]].flat()] = 0
    x.columns["amount"][x[[1]].flat()[0]] = math.nan
    assert points.usable(x).tolist() == [True, False, True]
    with pytest.raises(DataError, match="column 'amount' is missing or infinite in 1 of 8 events"):
        points(x)


def test_a_configuration_names_the_columns():
    events = {"name": "pairs", "covariates": ["time", "code"], "observations": ["amount"]}
    encoder = build_encoder({"name": "set", "dim": 8, "layers": 0, "events": events}, schema())
    assert isinstance(encoder, SetEncoder)
    assert encoder(rows()).shape == (3, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariates": []}, r"covariates must be a list of at least one column, got \[\]"),
        ({"observations": "amount"}, "observations must be a list of at least one column, got 'amount'"),
        ({"covariates": ["size", "size"]}, "column 'size' is named twice"),
        ({"covariates": ["size"], "observations": ["size"]}, "column 'size' is named twice"),
        ({"observations": ["time"]}, "'time' can be a covariate only"),
        (
            {"observations": ["amount", "size"], "observation": Numbers(1, 8)},
            r"observation has 2 numeric columns \('amount', 'size'\), .* shape \(1,\); set its option size = 2",
        ),
    ],
)
def test_names_from_which_no_point_can_be_read_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        PointEncoder(schema=schema(), **options)


def test_a_column_that_the_events_lack_is_named():
    points = PointEncoder(covariates=["hour", "size"], observations=["amount"])
    for use in (points, points.usable, SetEncoder(points, dim=8).usable):
        with pytest.raises(
            DataError, match=r"points need the columns hour, size, amount; missing: hour, found: amount"
        ) as raised:
            use(rows())
        hint = """--set 'encoder.events.covariates=["time"]' --set 'encoder.events.observations=["amount"]'"""
        assert hint in str(raised.value)
