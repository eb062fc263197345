"""Jitter, scaling and permutation of series, beside a slow version, and the laws of samplers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

import laws
import make
from eventvec.config import build_method
from eventvec.errors import ConfigError
from eventvec.methods import Siamese
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.sequences import Sequences
from eventvec.views import Perturbed
from laws import rng

NUMBERS = (Numeric("v", False, 10.0, 4.0), Numeric("w", True, 1.0, 0.5))
SCHEMA = Schema("id", "t", "integer", categorical=(Categorical("code", ("a",)),), numeric=NUMBERS)


def series(n: int = 3, length: int = 50) -> Sequences:
    total = n * length
    columns = {
        "v": 10 + 4 * torch.randn(total, generator=rng(5)),
        "w": torch.rand(total, generator=rng(6)) * 9,
        "code": torch.arange(total) % 3,
        "time": torch.arange(length).repeat(n),
    }
    return Sequences(columns, torch.arange(n) * length, torch.full((n,), length))


def test_copies_are_of_whole_rows() -> None:
    views, source = Perturbed(SCHEMA, count=3)(series(), rng())
    assert source.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert views.lengths.tolist() == [50] * 9
    assert torch.equal(views.values("time"), series()[source].values("time"))


def test_jitter_has_its_deviation_in_units_of_the_schema() -> None:
    x = series(200)
    views, source = Perturbed(SCHEMA, jitter=0.1, scaling=0.0, pieces=1)(x, rng())
    for field in NUMBERS:
        noise = field.scale(views.values(field.name)) - field.scale(x[source].values(field.name))
        assert noise.std().item() == pytest.approx(0.1, rel=0.05)
        assert noise.mean().item() == pytest.approx(0.0, abs=0.01)
    assert torch.equal(views.values("code"), x[source].values("code"))


def test_a_factor_multiplies_the_standardised_numbers_of_a_copy() -> None:
    x = series(200)
    views, source = Perturbed(SCHEMA, jitter=0.0, scaling=0.2, pieces=1)(x, rng())
    for field in NUMBERS:
        before, after = (field.scale(part.values(field.name)).view(400, 50) for part in (x[source], views))
        factor = (before * after).sum(1) / before.square().sum(1)
        torch.testing.assert_close(after, before * factor[:, None], rtol=1e-3, atol=1e-3)
        assert factor.std().item() == pytest.approx(0.2, rel=0.15)
        assert factor.mean().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("pieces", [2, 4, 60])
def test_pieces_change_places_and_keep_their_order_inside(pieces: int) -> None:
    x, moved = series(40), False
    x.columns["code"][:] = torch.arange(2000)
    views, source = Perturbed(SCHEMA, jitter=0.0, scaling=0.0, pieces=pieces)(x, rng())
    for row, values in zip(source.tolist(), views.values("code").split(50), strict=True):
        order = (values - 50 * row).tolist()
        assert sorted(order) == list(range(50))
        assert sum(after != before + 1 for before, after in pairwise(order)) < pieces
        moved |= order != list(range(50))
    assert moved
    assert torch.equal(views.values("time"), x[source].values("time"))


def test_each_order_of_two_pieces_is_as_likely_wherever_the_cut_is() -> None:
    x = Sequences({"v": torch.arange(3.0)}, torch.zeros(4000).long(), torch.full((4000,), 3))
    schema = Schema("id", "t", "integer", numeric=(Numeric("v", False),))
    views, _ = Perturbed(schema, jitter=0.0, scaling=0.0, pieces=2)(x, rng())
    orders = laws.rows_of(views, "v")
    assert set(orders) == {(0.0, 1.0, 2.0), (1.0, 2.0, 0.0), (2.0, 0.0, 1.0)}
    assert orders.count((0.0, 1.0, 2.0)) == pytest.approx(4000, rel=0.06)
    assert orders.count((1.0, 2.0, 0.0)) == pytest.approx(2000, rel=0.1)


def test_missing_numbers_and_short_rows_stay() -> None:
    x = series(2, 4)
    x.columns["v"][2] = float("nan")
    x = replace(x, lengths=torch.tensor([4, 1]))
    views, source = Perturbed(SCHEMA)(x, rng())
    assert views.values("v").isnan().sum().item() == 2
    assert views.lengths.tolist() == [4, 4, 1, 1]
    assert Perturbed(SCHEMA).usable(replace(x, lengths=torch.tensor([0, 1]))).tolist() == [False, True]
    assert source.tolist() == [0, 0, 1, 1]


def test_laws_of_samplers() -> None:
    sampler = Perturbed(make.schema(), pieces=1)
    laws.never_leaks(sampler)
    x = make.sequences([9, 6, 8])
    first, again, other = (sampler(x, rng(seed))[0].values("amount").nan_to_num(-1) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_configuration_gets_the_schema() -> None:
    config = {
        "method": {"name": "siamese", "views": {"name": "perturbed", "pieces": 3}, "objective": {"name": "nt_xent"}},
        "encoder": {"name": "resnet", "dim": 4, "width": 2},
    }
    method = build_method(config, SCHEMA)
    assert isinstance(method, Siamese)
    assert method.views == Perturbed(SCHEMA, pieces=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 1}, "count must be at least 2, got 1"),
        ({"jitter": -0.1}, "jitter must be at least 0 and finite, got -0.1"),
        ({"scaling": float("inf")}, "scaling must be at least 0 and finite, got inf"),
        ({"pieces": 0}, "pieces must be at least 1, got 0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Perturbed(SCHEMA, **options)  # type: ignore[arg-type]
