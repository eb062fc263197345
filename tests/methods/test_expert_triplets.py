"""Triplets from expert features beside a loop over the pairs that are drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import make
from eventvec.config import build_method, describe
from eventvec.errors import ConfigError
from eventvec.methods import ExpertTriplets
from eventvec.methods.expert_columns import expert_features
from eventvec.schema import Numeric, Schema
from eventvec.sequences import Sequences
from laws import rng

STATIC = (Numeric("speed", log=False, mean=10.0, std=4.0), Numeric("size", log=False))


def schema() -> Schema:
    return replace(make.schema(), static=STATIC)


def rows(n: int = 7) -> Sequences:
    speed, size = torch.randn(2, n, generator=rng(1))
    return replace(make.sequences([5] * n), static={"speed": 10 + 4 * speed, "size": size})


@pytest.mark.parametrize("missing", [False, True])
def test_the_loss_equals_a_loop_over_triplets(missing: bool) -> None:
    x, encoder = rows(), make.encoder("gru")
    if missing:
        x.static["speed"][2] = x.static["size"][2] = float("nan")
    method = ExpertTriplets(encoder, schema(), ["speed", "size"], margin=0.7, count=5)
    f, z = expert_features(x, method.fields).tolist(), encoder(x).detach().double().tolist()
    draw, n = rng(3), len(x)
    one, other = (torch.randint(n, (n, 5), generator=draw).tolist() for _ in range(2))
    losses = []
    for i in range(n):
        for j, k in zip(one[i], other[i], strict=True):
            near, far = math.dist(f[i], f[j]), math.dist(f[i], f[k])
            if math.isnan(near + far) or near == far:
                continue
            positive, negative = (j, k) if near < far else (k, j)
            losses.append(max(0.0, math.dist(z[i], z[positive]) - math.dist(z[i], z[negative]) + 0.7))
    assert losses
    assert method.loss(x, rng(3)).item() == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_rows_with_equal_features_cost_nothing() -> None:
    x = rows()
    x.static["speed"][:] = 1.0
    assert ExpertTriplets(make.encoder("gru"), schema(), ["speed"]).loss(x, rng()).item() == 0


def test_a_configuration_builds_the_method_and_is_described_again() -> None:
    config = {"method": {"name": "expert_triplets", "features": ["speed"]}, "encoder": {"name": "gru", "dim": 4}}
    method = build_method(config, schema())
    assert isinstance(method, ExpertTriplets)
    named = {"name": "expert_triplets", "features": ["speed"], "margin": 1.0, "count": 16}
    assert describe(method)["method"] == named
    assert method.static_columns == ("speed",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 0.0}, "margin must be above 0 and finite, got 0.0"),
        ({"count": 0}, "count must be at least 1, got 0"),
        ({"features": []}, "features must name at least one static column"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExpertTriplets(make.encoder("gru"), schema(), **{"features": ["speed"], **options})  # type: ignore[arg-type]
