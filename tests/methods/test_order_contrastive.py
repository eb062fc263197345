"""Classifiers of pairs: their logits by hand, the options that they refuse, and training on each kind of pair."""

from __future__ import annotations

import pyarrow as pa
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import make
from eventvec.config import build_method, describe
from eventvec.dataset import Dataset
from eventvec.encoders import GRU, EventEncoder
from eventvec.encoders.segments import Segmented
from eventvec.errors import ConfigError
from eventvec.methods import CrossOrder, Order, SlicePairs, entity_contrastive, nsp, ocp, ocp_biased, pcl, sop
from eventvec.sequences import Sequences, join, stack
from eventvec.training.fit_options import FitOptions
from eventvec.training.fitting import fit
from eventvec.training.suggestions import suggest
from eventvec.training.validation import split
from eventvec.views import (
    BiasedOrderPairs,
    EntityPairs,
    NextPairs,
    OrderPairs,
    PermutationPairs,
    RandomSlices,
    SwappedPairs,
)
from laws import rng


class Amount(nn.Module):
    """An encoder that returns the sum of the row's amounts and the first amount, and distinguishes joined rows."""

    dim, joins = 2, True

    def forward(self, x: Sequences) -> Tensor:
        amount = x.pad(x.values("amount"))
        return torch.stack([amount.sum(1), amount[:, 0]], 1)


def two_rows() -> Sequences:
    return Sequences({"amount": torch.tensor([1.0, 2.0, 5.0, 3.0])}, torch.tensor([0, 2]), torch.tensor([2, 2]))


# Pairs and logits


@pytest.mark.parametrize(
    ("build", "pairs"),
    [(ocp, OrderPairs), (ocp_biased, BiasedOrderPairs), (pcl, PermutationPairs), (entity_contrastive, EntityPairs)],
)
def test_variants_of_order_differ_in_their_pairs(build, pairs):
    assert type(method := build(Amount(), length=4, skip=1, within="code", count=5)) is Order
    assert method.pairs == pairs(4, 1, "code", 5)
    assert build(Amount()).pairs == pairs()


@pytest.mark.parametrize(("build", "pairs"), [(nsp, NextPairs), (sop, SwappedPairs)])
def test_variants_of_slice_pairs_differ_in_their_pairs(build, pairs):
    method = build(Amount(), RandomSlices(3, 4, 9))
    assert type(method) is SlicePairs
    assert method.pairs == pairs(RandomSlices(3, 4, 9))
    assert [type(layer) for layer in method.head] == [nn.Linear, nn.ReLU, nn.Dropout, nn.BatchNorm1d, nn.Linear]
    assert (method.head[0].in_features, method.head[0].out_features, method.head[2].p) == (4, 512, 0.5)


def test_parts_are_compared_on_the_unit_sphere():
    method = SlicePairs(Amount(), SwappedPairs(RandomSlices(2, 2, 4)), hidden=3).eval()
    first, second = torch.tensor([3.0, 1.0]), torch.tensor([8.0, 5.0])
    unit = torch.cat([first / 10**0.5, second / 89**0.5])
    hidden = (method.head[0].weight @ unit + method.head[0].bias).clamp(min=0) / (1 + 1e-5) ** 0.5
    expected = method.head[4].weight @ hidden + method.head[4].bias
    torch.testing.assert_close(method.logits(two_rows()), expected)


def test_a_cross_encoder_reads_the_second_window_after_the_first():
    method = CrossOrder(Amount())
    expected = method.classifier.weight[0] @ torch.tensor([11.0, 1.0]) + method.classifier.bias
    torch.testing.assert_close(method.logits(two_rows()), expected)


def test_the_second_of_joined_rows_is_encoded_differently():
    events, x = EventEncoder(make.schema()).eval(), make.sequences([3, 2])
    segmented = Segmented(events)
    torch.testing.assert_close(segmented(x), events(x))  # rows that were not joined
    joined = join(x[[0]], x[[1]])
    second = joined.values("segment").unsqueeze(1) * segmented.second
    torch.testing.assert_close(segmented(joined), events(joined) + second)
    assert joined.values("segment").tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("name", ["nsp", "sop", "ocp_biased", "entity_contrastive"])
def test_loss_is_the_mean_cross_entropy_of_the_pairs(name):
    table = {"method": {"name": name}, "encoder": {"name": "gru", "dim": 8}}
    x = make.sequences([30, 22, 18])
    method = build_method(suggest(x, table), make.schema()).eval()
    views, label = method.pairs(x, rng())
    probability = method.logits(views).sigmoid()
    torch.testing.assert_close(method.loss(x, rng()), F.binary_cross_entropy(probability, label))


# The score by which the best epoch is chosen


def above_four() -> CrossOrder:
    """Return a classifier that gives a pair the label 1 if its first amount is above 4."""
    method = CrossOrder(Amount(), OrderPairs(count=3))
    with torch.no_grad():
        method.classifier.weight.zero_()
        method.classifier.weight[0, 1] = 1.0  # the first amount of the pair
        method.classifier.bias.fill_(-4.0)
    return method.eval()


def test_the_score_is_the_share_of_pairs_of_all_batches_with_the_right_label():
    method = above_four()
    falling, rising = torch.tensor([5.0, 3.0]).repeat(30), torch.tensor([3.0, 5.0]).repeat(10)
    x = Sequences({"amount": torch.cat([falling, rising])}, 2 * torch.arange(40), torch.full((40,), 2))
    assert method.validation_score([x[:30]]) == 1.0
    assert method.validation_score([x[30:]]) == 0.0
    assert method.validation_score([x[:20], x[20:]]) == 0.75
    low = Sequences({"amount": torch.tensor([1.0, 2.0]).repeat(200)}, 2 * torch.arange(200), torch.full((200,), 2))
    swapped = method.validation_score(iter([low]))  # all pairs get the label 0
    assert 0.3 < swapped < 0.7
    assert method.validation_score([low]) == swapped  # the pairs are the same each time


def test_the_epoch_with_the_best_accuracy_of_held_out_pairs_is_kept():
    data = Dataset(pa.array(range(64)), make.sequences([8] * 64), make.schema())
    method = CrossOrder(GRU(Segmented(EventEncoder(make.schema())), dim=8), OrderPairs(length=2))
    options = {"epochs": 6, "batch_size": 16, "validation": 0.5, "keep": "best", "seed": 1}
    run = fit(data, method=method, lr=0.05, schedule="constant", **options)
    losses, scores = zip(*((each["validation"], each["validation_accuracy"]) for each in run.history), strict=True)
    best = max(range(6), key=lambda epoch: (scores[epoch], -losses[epoch]))
    assert run.kept_epoch == best + 1
    held_out = split(method, data.sequences, FitOptions(**options))[0].held_out
    batches = [data.sequences[rows] for rows in held_out.split(16)]
    assert method.eval().validation_score(batches) == scores[best]


# Options


def test_an_encoder_that_cannot_distinguish_joined_rows_is_refused():
    with pytest.raises(ConfigError, match="must distinguish the second window from the first, got Recurrent;"):
        CrossOrder(make.encoder("gru"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, r"dropout must be in \[0, 1\), got -0.1"),
    ],
)
def test_options_of_the_head_out_of_range_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        SlicePairs(Amount(), NextPairs(), **options)


def test_the_suggestion_builds_a_cross_encoder():
    config = suggest(make.sequences([20] * 9), {"method": {"name": "cross_order"}})
    method = build_method(config, make.schema())
    assert type(method.encoder.events) is Segmented
    table = describe(method)
    assert table["method"] == {
        "name": "cross_order",
        "pairs": {"name": "order_pairs", "length": 2, "skip": 0, "count": 1},
    }
    assert table["encoder"]["events"]["name"] == "segmented"
    assert describe(build_method(table, make.schema())) == table
    for name in ("pcl", "ocp"):
        assert suggest(make.sequences([20] * 9), {"method": {"name": name}})["method"]["length"] == 2
    others = {"name": "biased_order_pairs", "skip": 1}
    pairs = suggest(make.sequences([20] * 9), {"method": {"name": "cross_order", "pairs": others}})["method"]["pairs"]
    assert pairs == {**others, "length": 2}


# Training


def accuracy(method: nn.Module, x: Sequences, steps: int = 40) -> float:
    """Return the accuracy on pairs after a short training."""
    optimizer, generator = torch.optim.Adam(method.parameters(), 0.04), rng()
    for _ in range(steps):
        optimizer.zero_grad()
        method.loss(x, generator).backward()
        optimizer.step()
    views, label = method.eval().pairs(stack(x, x, x), rng(9))
    return float(((method.logits(views) > 0) == (label == 1)).float().mean())


def rows_with(code: str) -> Sequences:
    """Return rows whose codes are rising along the row, or constant in a row."""
    x = make.sequences([8] * 32)
    codes = {"rising": 2 + x.steps() // 2, "constant": 2 + x.rows() % 4}[code]
    flat = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), codes.int())
    return Sequences({**x.columns, "code": flat}, x.starts, x.lengths)


def gru(segmented: bool = False) -> nn.Module:
    torch.manual_seed(0)
    events = EventEncoder(make.schema(), time=())
    return GRU(Segmented(events) if segmented else events, dim=8)


SLICES = RandomSlices(3, 4, 8)


@pytest.mark.parametrize(
    ("build", "code", "threshold"),
    [
        (lambda: sop(gru(), SLICES), "rising", 0.9),
        (lambda: nsp(gru(), SLICES), "constant", 0.75),  # one shuffled part in four has the same code
        (lambda: entity_contrastive(gru(), length=2), "constant", 0.75),
        (lambda: CrossOrder(gru(segmented=True), OrderPairs(2)), "rising", 0.9),
    ],
)
def test_pairs_are_learned(build, code, threshold):
    assert accuracy(build(), rows_with(code)) > threshold


@pytest.mark.parametrize("build", [lambda: sop(gru(), SLICES), lambda: CrossOrder(gru(segmented=True), OrderPairs(2))])
def test_order_is_not_learned_from_rows_without_order(build):
    assert accuracy(build(), rows_with("constant"), steps=20) < 0.75
