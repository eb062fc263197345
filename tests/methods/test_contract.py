"""The contract that every method keeps, and the losses of CoLES and of order-contrastive pre-training."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cases
import make
from eventvec import losses
from eventvec.config import arguments, build_method, describe
from eventvec.encoders import ENCODERS
from eventvec.errors import ConfigError, DataError
from eventvec.losses.negatives import HardNegatives
from eventvec.methods import METHODS, CoLES, Order
from eventvec.methods.declarations import declared, suggested, usable_rows
from eventvec.options import option_types
from eventvec.sequences import Sequences
from eventvec.training import FitOptions
from eventvec.views import OrderPairs, RandomSlices, RejectionSlices
from laws import rng


def case(name: str) -> tuple[nn.Module, Sequences]:
    """Return the method of a name, in training mode, and the rows that it can use."""
    assert name in cases.CASES, f"METHODS has {name!r}, tests/cases.py has not: add a method and a batch for it"
    method, batch = cases.CASES[name]()
    return method.train(), batch[usable_rows(method, batch)]


# The contract


def test_every_method_has_a_case():
    assert set(cases.CASES) == set(METHODS)


def test_a_method_without_a_case_fails():
    with pytest.raises(AssertionError, match="METHODS has 'newcomer'"):
        case("newcomer")


@pytest.mark.parametrize("name", METHODS)
def test_encoder_returns_one_vector_per_row(name):
    method, batch = case(name)
    assert method.encoder(batch).shape == (len(batch), method.encoder.dim)
    assert dict(method.named_modules())["encoder"] is method.encoder


@pytest.mark.parametrize("name", METHODS)
def test_loss_is_finite_and_has_a_gradient_for_every_weight(name):
    method, batch = case(name)
    loss = method.loss(batch, rng())
    assert loss.shape == ()
    assert loss.dtype == torch.float32
    assert loss.item() > 0
    loss.backward()
    for weight, values in method.named_parameters():
        assert values.grad is not None, weight
        assert bool(values.grad.isfinite().all()), weight
        assert bool(values.grad.any()), f"{weight} gets no gradient"


@pytest.mark.parametrize("name", METHODS)
def test_calling_a_method_returns_its_loss(name):
    method, batch = case(name)
    assert torch.equal(method.eval()(batch, rng(3)), method.loss(batch, rng(3)))


@pytest.mark.parametrize("name", METHODS)
def test_loss_uses_only_the_random_generator_that_it_receives(name):
    method, batch = case(name)
    method.eval()
    first, again, other = (method.loss(batch, rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert torch.equal(first, other) == (name in cases.DRAW_NOTHING)
    before = torch.get_rng_state()
    method.loss(batch, rng())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", METHODS)
def test_usable_marks_the_rows_that_the_loss_can_take(name):
    method, batch = cases.CASES[name]()
    usable = usable_rows(method, batch)
    assert usable.shape == (len(batch),)
    assert usable.dtype == torch.bool
    assert int(usable.sum()) >= 2
    assert bool(usable.all()) != hasattr(method, "usable")  # a method without this declaration takes all rows
    shortest = batch[batch.lengths == batch.lengths[usable].min()]
    assert usable_rows(method, shortest).all()
    for seed in range(20):
        assert bool(method.loss(shortest[[0, 0]], rng(seed)).isfinite())
    assert usable_rows(method, batch[:0]).shape == (0,)


@pytest.mark.parametrize("name", METHODS)
def test_static_columns_are_the_only_ones_that_the_method_reads(name):
    method, batch = case(name)
    needed = declared(method).static_columns
    assert set(needed) <= set(batch.static)
    without = Sequences(batch.columns, batch.starts, batch.lengths, {key: batch.static[key] for key in needed})
    assert torch.equal(method.eval().loss(without, rng()), method.loss(batch, rng()))
    assert usable_rows(method, without).all()
    for missing in needed:
        static = {key: values for key, values in batch.static.items() if key != missing}
        with pytest.raises((ConfigError, DataError), match=missing):
            method.usable(Sequences(batch.columns, batch.starts, batch.lengths, static))


@pytest.mark.parametrize("name", METHODS)
def test_suggestion_has_options_of_the_method_and_of_its_encoder(name):
    suggestion = suggested(METHODS[name], make.sequences([30] * 40))
    assert set(suggestion) == {"method", "encoder", "fit"}
    assert set(suggestion["fit"]) <= set(option_types(FitOptions))
    assert set(suggestion["method"]) <= set(arguments(METHODS[name]))
    encoder = ENCODERS[suggestion["encoder"]["name"]]
    assert set(suggestion["encoder"]) <= {"name", *arguments(encoder)}


@pytest.mark.parametrize("name", METHODS)
def test_two_rows_are_enough(name):
    method, batch = case(name)
    for seed in range(5):
        method.zero_grad()
        method.loss(batch[:2], rng(seed)).backward()
        assert all(bool(weight.grad.isfinite().all()) for weight in method.parameters())


@pytest.mark.parametrize("name", METHODS)
def test_a_description_builds_a_method_of_the_same_shape(name):
    method, _ = case(name)
    table = describe(method)
    again = build_method(json.loads(json.dumps(table)), make.schema())  # plain values, because the table goes to a file
    assert type(again) is type(method)
    assert describe(again) == table
    shapes = {key: values.shape for key, values in method.state_dict().items()}
    assert {key: values.shape for key, values in again.state_dict().items()} == shapes
    again.load_state_dict(method.state_dict())
    batch = case(name)[1]
    assert torch.equal(again.eval().loss(batch, rng()), method.eval().loss(batch, rng()))


@pytest.mark.parametrize("name", METHODS)
def test_loss_does_not_change_the_batch(name):
    method, batch = case(name)
    before = {key: values.clone() for key, values in batch.columns.items() if isinstance(values, Tensor)}
    names, starts, lengths = list(batch.columns), batch.starts.clone(), batch.lengths.clone()
    method.loss(batch, rng()).backward()
    assert list(batch.columns) == names
    assert all(torch.equal(batch.columns[key].nan_to_num(-1), before[key].nan_to_num(-1)) for key in before)
    assert torch.equal(batch.starts, starts)
    assert torch.equal(batch.lengths, lengths)


@pytest.mark.parametrize("name", METHODS)
def test_events_outside_all_rows_do_not_matter(name):
    method, batch = case(name)
    method.eval()
    assert torch.equal(method.loss(batch, rng()), method.loss(make.elsewhere(batch), rng()))


# CoLES


@pytest.mark.parametrize("views", [RandomSlices(4, 2, 5), RejectionSlices(6, 2, 5)])
def test_coles_takes_the_contrastive_loss_of_unit_vectors(views):
    batch, encoder = make.sequences([9, 5, 8, 6]), make.encoder("gru")
    method = CoLES(encoder, views, margin=0.8, negatives=HardNegatives(2))
    slices, source = views(batch, rng())
    z = encoder(slices).detach()
    unit = z / z.square().sum(1, keepdim=True).sqrt()
    expected = losses.contrastive(unit, source, margin=0.8, negatives=HardNegatives(2))
    torch.testing.assert_close(method.loss(batch, rng()), expected)
    assert torch.equal(method.usable(batch), views.usable(batch))


@pytest.mark.parametrize("name", make.ENCODERS)
def test_coles_takes_a_batch_without_slices(name):
    method = CoLES(make.encoder(name), RejectionSlices(2, shortest=30, longest=31)).train()
    batch = make.sequences([31])
    assert len(method.views(batch, rng(1))[0]) == 0
    loss = method.loss(batch, rng(1))
    loss.backward()
    assert loss.item() == 0


# Order


class Amount(nn.Module):
    """An encoder that returns the sum of the row's amounts and the first amount."""

    dim = 2

    def forward(self, x: Sequences) -> Tensor:
        amount = x.pad(x.values("amount"))
        return torch.stack([amount.sum(1), amount[:, 0]], 1)


def test_order_classifies_both_windows_linearly():
    method = Order(Amount(), OrderPairs(2))
    x = Sequences({"amount": torch.tensor([1.0, 2.0, 5.0, 3.0])}, torch.tensor([0, 2]), torch.tensor([2, 2]))
    features = torch.tensor([3.0, 1.0, 8.0, 5.0, -5.0, -4.0, 5.0, 4.0])  # g, g', g - g', |g - g'|
    weight, bias = method.classifier.weight[0], method.classifier.bias[0]
    torch.testing.assert_close(method.logits(x), (features @ weight + bias)[None])


def test_order_takes_the_mean_cross_entropy_of_one_pair_per_row():
    method, batch = case("pcl")
    method.eval()
    views, label = method.pairs(batch, rng())
    probability = method.logits(views).sigmoid()
    expected = -torch.where(label == 1, probability, 1 - probability).log().mean()
    torch.testing.assert_close(method.loss(batch, rng()), expected)
    torch.testing.assert_close(F.binary_cross_entropy(probability, label), expected)


# Training


def train(method: nn.Module, x: Sequences, steps: int) -> nn.Module:
    optimizer, generator = torch.optim.Adam(method.parameters(), 0.02), rng()
    for _ in range(steps):
        optimizer.zero_grad()
        method.loss(x, generator).backward()
        optimizer.step()
    return method.eval()


def test_ocp_learns_which_window_comes_first():
    x = make.sequences([8] * 40)
    rising = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + x.steps() // 2).int())
    x = Sequences({**x.columns, "code": rising}, x.starts, x.lengths)
    method = train(case("ocp")[0], x, 60)
    views, label = method.pairs(x, rng(9))
    predicted = method.logits(views) > 0
    assert float((predicted == (label == 1)).float().mean()) > 0.95


def test_coles_brings_slices_of_one_entity_together():
    x = make.sequences([8] * 24)
    constant = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + x.rows() % 4).int())
    x = Sequences({**x.columns, "code": constant}, x.starts, x.lengths)[:4]
    method = train(case("coles")[0], x, 40)
    views, source = method.views(x, rng(9))
    squared = losses.squared_distances(F.normalize(method.encoder(views).detach(), dim=1))
    same = source[:, None] == source
    assert float(squared[same].max()) < float(squared[~same].min())
