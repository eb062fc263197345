"""Targeted CReSP learns from x*: on snooker's exact positions, permuting x* raises the loss."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eventvec as ev
from eventvec.config import build_method, describe
from eventvec.encoders import GatedHead, Numbers, PlainHead, PointEncoder, SetEncoder
from eventvec.errors import ConfigError
from eventvec.methods import TargetedCReSP, covariate_use
from eventvec.run_files import with_former_defaults
from eventvec.views import Snooker, draw, hold_out, snooker
from laws import rng

MAJORITY = 0.862
"""The accuracy of the more frequent label of each pair, which ignores the time."""


def on_positions(dim: int, width: int, layers: int, head: GatedHead | PlainHead = GatedHead()) -> TargetedCReSP:  # noqa: B008
    torch.manual_seed(0)
    encoder = SetEncoder(PointEncoder(Numbers(4, width=width)), dim=dim, layers=layers, pair="gated")
    return TargetedCReSP(encoder, Snooker(count=1, length=6, observations="positions"), target_head=head)


def train(method: TargetedCReSP, steps: int) -> None:
    ev.fit(method, snooker(3000, seed=100), epochs=steps // 46, batch_size=64, validation=0.0)


def accuracy(method: TargetedCReSP, training: ev.Dataset, test: ev.Dataset) -> float:
    """Return the test accuracy of a linear model of the prediction at x*: do the balls overlap at that time?"""
    sets = []
    for data, seed in ((training, 1), (test, 2)):
        context = replace(data, sequences=hold_out(draw(data, method.views, seed).sequences))
        time = context.sequences.static["x*"][:, 0]
        z = ev.encode(method.predictor, context.sequences)
        sets.append((z.numpy(), Snooker().overlap(context.sequences, time).numpy()))
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(*sets[0]).score(*sets[1])


def test_the_prediction_learns_to_use_x_star():
    method = on_positions(dim=32, width=32, layers=1)
    before = covariate_use(method, snooker(640, seed=300).sequences, rng())
    train(method, 1000)
    after = covariate_use(method, snooker(640, seed=300).sequences, rng())
    assert before.share < 0.05
    assert after.share > 0.15
    assert after.loss < 2.6


@pytest.mark.slow
def test_a_linear_model_on_the_prediction_is_better_than_any_that_ignores_x_star():
    method = on_positions(dim=128, width=128, layers=2)
    train(method, 3000)
    assert covariate_use(method, snooker(1280, seed=300).sequences, rng()).share > 0.25
    assert accuracy(method, snooker(3000, seed=100), snooker(3000, seed=301)) > MAJORITY + 0.04


# Heads


@pytest.mark.parametrize("head", [GatedHead(), GatedHead("random_fourier", 8, 2.0), PlainHead()])
def test_the_target_head_is_described_and_built_again(head):
    method = on_positions(dim=16, width=8, layers=1, head=head)
    again = build_method(describe(method), snooker(1).schema)
    assert again.target_head == head
    again.load_state_dict(method.state_dict())
    x = snooker(8).sequences
    assert torch.equal(again.eval().loss(x, rng()), method.eval().loss(x, rng()))


def test_a_configuration_of_an_earlier_version_has_the_plain_head():
    before = {"method": {"name": "cresp", "projection": 4}}
    assert with_former_defaults(before)["method"]["target_head"] == {"name": "plain_head"}
    assert before == {"method": {"name": "cresp", "projection": 4}}
    now = describe(on_positions(dim=16, width=8, layers=1))
    assert with_former_defaults(now) == now


def test_unknown_observations_of_snooker_are_refused():
    with pytest.raises(ConfigError, match="observations 'sounds' are not known; accepted: pictures, positions"):
        Snooker(observations="sounds")
