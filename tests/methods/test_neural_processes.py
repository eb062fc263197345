"""Conditional neural processes: the loss by hand, what they learn, and what is refused."""

from __future__ import annotations

import pytest
import torch
from experiments.cresp.processes import Sinusoids, draw, sinusoids

import eventvec as ev
import make
from eventvec.config import build_method, describe
from eventvec.encoders import CrossAttention, PointEncoder, SetEncoder
from eventvec.encoders.heads import PlainHead
from eventvec.errors import ConfigError
from eventvec.losses import Gaussian
from eventvec.methods import CNP, acnp, acnp_cross, cnp
from eventvec.views import ShuffledParts, hold_out
from laws import rng


def process(kind: str, length: int = 8) -> CNP:
    torch.manual_seed(0)
    views = Sinusoids(count=1, length=length, noise=0.0)
    if kind == "acnp_cross":
        return acnp_cross(CrossAttention(PointEncoder(), dim=32, heads=4), views)
    build, layers = {"cnp": (cnp, 0), "acnp": (acnp, 1)}[kind]
    return build(SetEncoder(PointEncoder(), dim=32, layers=layers, heads=4), views)


def test_the_loss_is_the_likelihood_of_the_observation_that_was_held_out():
    method, x = process("cnp").eval(), sinusoids(5).sequences
    context = hold_out(method.views(x, rng())[0])
    mean, raw = method.net(method.encoder(context), context.static["x*"]).split(1, 1)
    normal = torch.distributions.Normal(mean, 0.01 + torch.nn.functional.softplus(raw))
    torch.testing.assert_close(method.loss(x, rng()), -normal.log_prob(context.static["y*"]).mean())
    torch.testing.assert_close(method.predictor(context), torch.cat([normal.mean, normal.stddev], 1))


@pytest.mark.parametrize("kind", ["cnp", "acnp", "acnp_cross"])
def test_with_several_targets_the_loss_is_the_mean_over_them(kind):
    method, x = process(kind).eval(), sinusoids(4).sequences
    view, _ = method.views(x, rng())
    single = []
    for place in range(3):
        order = torch.tensor([place, 3, 4, 5, 6, 7])
        index = (view.starts[:, None] + order).flatten()
        single.append(method.loss_of_targets(hold_out(view.take(index, torch.full((4,), 6)))))
    torch.testing.assert_close(method.loss_of_targets(hold_out(view, 3)), torch.stack(single).mean())
    method.targets = 3
    torch.testing.assert_close(method.loss(x, rng()), torch.stack(single).mean())


def test_categorical_observations_are_refused():
    events = PointEncoder(schema=make.schema(), covariates=["amount"], observations=["code"])
    with pytest.raises(ConfigError, match="observation 'code' is categorical, but a neural process predicts numbers"):
        CNP(SetEncoder(events, dim=8))


@pytest.mark.parametrize("kind", ["cnp", "acnp", "acnp_cross"])
def test_it_learns_the_value_at_x_star(kind):
    method = process(kind)
    ev.fit(sinusoids(1000, seed=9), method=method, epochs=6, batch_size=50, lr=0.006, validation=0.0)
    context = hold_out(draw(sinusoids(500, seed=5), method.views, 1).sequences)
    mean, _ = ev.encode(method.predictor, context).chunk(2, 1)
    y = context.static["y*"]
    assert float((mean - y).square().mean()) < 0.7 * float(y.var())
    moved = context.static | {"x*": context.static["x*"].roll(1, 0)}
    elsewhere = ev.Sequences(context.columns, context.starts, context.lengths, moved)
    assert float((ev.encode(method.predictor, elsewhere)[:, :1] - y).square().mean()) > float(y.var())


@pytest.mark.usefixtures("named_processes")
def test_a_process_is_described_and_built_again():
    again = build_method(describe(process("cnp")), make.schema())
    assert (type(again), again.decoder, again.likelihood) == (CNP, PlainHead(), Gaussian())


def test_numbers_are_compared_as_the_schema_scales_them():
    schema = ev.Schema("id", "t", "integer", numeric=(ev.schema.Numeric("y", log=False, mean=100.0, std=10.0),))
    torch.manual_seed(0)
    method = CNP(SetEncoder(PointEncoder(schema=schema), dim=8, layers=0)).eval()
    columns = {"x": torch.rand(6), "y": 100 + 10 * torch.randn(6)}
    x = ev.Sequences(columns, torch.tensor([0, 3]), torch.tensor([3, 3]))
    scaled = ev.Sequences({**columns, "y": (columns["y"] - 100) / 10}, x.starts, x.lengths)
    unscaled = CNP(SetEncoder(PointEncoder(), dim=8, layers=0)).eval()
    unscaled.load_state_dict(method.state_dict())
    torch.testing.assert_close(method.loss(x, rng()), unscaled.loss(scaled, rng()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: cnp(SetEncoder(PointEncoder(), dim=8)),
            r'"set", layers = 0 for this method, got SetEncoder with .* 2',
        ),
        (lambda: acnp(SetEncoder(PointEncoder(), dim=8, layers=0)), 'name = "set", layers = 2 for this method'),
        (lambda: acnp_cross(SetEncoder(PointEncoder(), dim=8)), 'name = "cross_attention" for this method'),
        (lambda: cnp(make.encoder("set", layers=0)), "must encode points for a targeted method"),
        (lambda: CNP(SetEncoder(PointEncoder(), dim=8), ShuffledParts(2)), "count of views must be 1"),
        (
            lambda: CNP(SetEncoder(PointEncoder(), dim=8), ShuffledParts(1, longest=3), targets=3),
            "targets must be below the length of views, 3, got 3",
        ),
    ],
)
def test_encoders_views_and_decoders_that_do_not_fit_are_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()
