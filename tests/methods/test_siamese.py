"""Siamese learning: the loss of the projected views, training with each loss, and the names in a configuration."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import cases
import make
from eventvec import losses
from eventvec.config import arguments, build_method, complete, describe
from eventvec.errors import ConfigError
from eventvec.losses import (
    LOSSES,
    Contrastive,
    Triplet,
    VICReg,
)
from eventvec.losses.negatives import (
    AllNegatives,
    BalancedNegatives,
    DistanceWeightedNegatives,
    HardNegatives,
    RandomNegatives,
)
from eventvec.methods import CoLES, Siamese
from eventvec.sequences import Sequences
from eventvec.training.suggestions import suggest
from eventvec.views import (
    VIEWS,
    Altered,
    DisjointSamples,
    DisjointSegments,
    Perturbed,
    RandomSamples,
    RandomSlices,
    RejectionSlices,
    TimeWindows,
)
from laws import rng

VIEW_SAMPLERS = (
    RandomSlices(3, 2, 5),
    RejectionSlices(6, 2, 9),
    RandomSamples(3, 2, 5),
    DisjointSamples(3),
    DisjointSegments(3),
    TimeWindows("9000 days", 3, 2),
    Altered(RandomSlices(3, 2, 5), 0.3, shuffle=True),
)
PAIR_RULES = (
    HardNegatives(2), RandomNegatives(2), BalancedNegatives(), DistanceWeightedNegatives(), AllNegatives()
)  # fmt: skip


# The method


@pytest.mark.parametrize("views", VIEW_SAMPLERS)
@pytest.mark.parametrize("rule", PAIR_RULES)
def test_siamese_with_the_contrastive_loss_equals_coles(views, rule):
    x, encoder = make.sequences([9, 5, 8, 6]), make.encoder("gru")
    coles = CoLES(encoder, views, margin=0.8, negatives=rule)
    siamese = Siamese(encoder, views, Contrastive(0.8, rule))
    assert torch.equal(coles.loss(x, rng()), siamese.loss(x, rng()))
    assert torch.equal(coles.usable(x), siamese.usable(x))
    assert torch.equal(coles.usable(x), views.usable(x))


def test_loss_compares_projected_views():
    x = make.sequences([9, 5, 8, 6])
    method = Siamese(make.encoder("gru"), RandomSlices(3, 2, 5), VICReg(), projection=5).eval()
    views, source = method.views(x, rng())
    first, norm, relu, last = method.project
    hidden = F.linear(method.encoder(views), first.weight)
    hidden = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + 1e-5).sqrt() * norm.weight + norm.bias
    z = F.linear(relu(hidden), last.weight)
    assert z.shape == (12, 5)
    expected = losses.vicreg(z, source, invariance=25.0, variance=25.0, covariance=1.0)
    torch.testing.assert_close(method.loss(x, rng()), expected)


@pytest.mark.parametrize("objective", LOSSES)
def test_batches_with_no_view_or_a_single_view(objective):
    views = RejectionSlices(2, shortest=30, longest=31)
    method, x = Siamese(make.encoder("gru"), views, LOSSES[objective](), projection=4).train(), make.sequences([31])
    drawn = {len(views(x, rng(seed))[0]): seed for seed in range(60)}
    assert {0, 1} <= set(drawn)
    for count in (0, 1):
        loss = method.loss(x, rng(drawn[count]))
        loss.backward()
        assert loss.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("objective", LOSSES)
def test_every_loss_brings_views_of_one_row_together(objective):
    x = make.sequences([8] * 24)
    constant = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + x.rows() % 4).int())
    x = Sequences({**x.columns, "code": constant}, x.starts, x.lengths)[:4]
    method = Siamese(make.encoder("gru"), RandomSlices(3, 3, 5), LOSSES[objective]()).train()
    optimizer, generator = torch.optim.Adam(method.parameters(), 0.02), rng()

    def spread() -> float:
        views, source = method.views(x, rng(9))
        squared = losses.squared_distances(F.normalize(method.encoder(views).detach(), dim=1))
        same = source[:, None] == source
        return float(squared[same].mean() / squared[~same].mean())

    before = spread()
    for _ in range(40):
        optimizer.zero_grad()
        method.loss(x, generator).backward()
        optimizer.step()
    assert spread() < 0.5 * before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("views", VIEW_SAMPLERS)
@pytest.mark.parametrize("objective", LOSSES)
def test_samplers_rules_and_losses_run_on_a_gpu(views, objective):
    generator = torch.Generator("cuda").manual_seed(0)
    for rule in PAIR_RULES if objective in ("contrastive", "margin", "binomial_deviance") else [None]:
        loss_of_views = LOSSES[objective](**({"negatives": rule} if rule else {}))
        method = Siamese(make.encoder("gru"), views, loss_of_views, projection=4).to("cuda").train()
        loss = method.loss(make.sequences([9, 5, 8, 6]).to("cuda"), generator)
        loss.backward()
        assert loss.device.type == "cuda"
        assert bool(loss.isfinite())


# Names


def config(**method: object) -> dict:
    return {"method": {"name": "siamese", **method}, "encoder": {"name": "gru", "dim": 8}}


@pytest.mark.parametrize("name", LOSSES)
def test_each_name_builds_a_loss(name):
    method = build_method(config(objective={"name": name}, projection=4), make.schema())
    assert method.objective == LOSSES[name]()
    assert describe(build_method(describe(method), make.schema())) == describe(method)


@pytest.mark.parametrize("name", sorted(set(VIEWS) - {"counterfeits", "shuffled_parts"}))
@pytest.mark.parametrize("method", ["coles", "siamese"])
def test_each_name_builds_a_sampler(method, name):
    built = build_method({**config(), "method": {"name": method, "views": {"name": name}}}, make.schema())
    assert built.views == (Perturbed(make.schema()) if name == "perturbed" else VIEWS[name]())


def test_tables_of_samplers_and_rules_are_nested():
    views = {"name": "altered", "dropout": 0.1, "views": {"name": "random_slices", "count": 3}}
    objective = {"name": "triplet", "margin": 0.6, "negatives": {"name": "random_negatives", "count": 2}}
    method = build_method(config(views=views, objective=objective), make.schema())
    assert method.views == Altered(RandomSlices(3), dropout=0.1)
    assert method.objective == Triplet(0.6, RandomNegatives(2))
    table = describe(method)["method"]
    assert table["views"]["views"] == {"name": "random_slices", "count": 3, "shortest": 15, "longest": 150}
    assert table["objective"]["negatives"] == {"name": "random_negatives", "count": 2}
    filled = complete(config(views=views))["method"]
    assert filled["views"]["views"]["longest"] == 150
    assert filled["objective"]["negatives"] == {"name": "hard_negatives", "count": 5}


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            {"views": {"name": "order_pairs"}},
            r"method.views is OrderPairs\(.*: input should be an instance of Ra",
        ),
        (
            {"views": {"name": "shuffled_parts"}},
            r"method.views is ShuffledParts\(count=2, longest=None\): input should be an inst",
        ),
        ({"views": {"name": "altered", "views": {"name": "order_pairs"}}}, r"method.views.views is OrderPairs\("),
        ({"views": {"name": "altered", "dropout": 2.0}}, r"method.views: dropout must be in \[0, 1\), got 2.0"),
        ({"objective": {"name": "random_slices"}}, r"method.objective is RandomSlices\(.*should be an instance of Con"),
        (
            {"objective": {"name": "contrastive", "negatives": {"name": "semi_hard_negatives"}}},
            r"method.objective.negatives is SemiHardNegatives\(\): input should be an instance of HardNegatives",
        ),
        (
            {"objective": {"name": "triplet", "negatives": {"name": "balanced_negatives"}}},
            r"method.objective.negatives is BalancedNegatives\(\): input should be",
        ),
        (
            {"objective": {"name": "triplet", "margin": 9.0}},
            r"method.objective: margin must be in \(0, 2\], got",
        ),
        ({"projection": 0}, "method: projection must be at least 1, got 0"),
        (
            {"views": {"name": "altered", "views": {"name": "random_slices", "count": 1}}},
            "method: count of views must be at least 2 to compare views of a row, got 1",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(method, message):
    with pytest.raises(ConfigError, match=message):
        build_method(config(**method), make.schema())


def test_bounds_are_suggested_for_samplers_that_take_both():
    lengths = torch.full((3000,), 40)
    x = Sequences({}, torch.zeros_like(lengths), lengths)

    def views(**options: object) -> dict:
        suggestion = suggest(x, {"method": {"name": "siamese", "views": options}})
        build_method(suggestion, make.schema())
        return suggestion["method"]["views"]

    bounds = {"shortest": 10, "longest": 80}
    assert views() == {"name": "random_slices", **bounds}
    assert views(name="random_samples", longest=50) == {"name": "random_samples", "shortest": 10, "longest": 50}
    assert views(name="disjoint_samples") == {"name": "disjoint_samples"}
    assert views(name="time_windows") == {"name": "time_windows"}
    assert views(name="altered", dropout=0.1) == {
        "name": "altered", "dropout": 0.1, "views": {"name": "random_slices", **bounds}
    }  # fmt: skip


def test_names_of_options_do_not_change():
    assert list(arguments(Siamese)) == ["encoder", "views", "objective", "projection"]
    assert list(arguments(CoLES)) == ["encoder", "views", "margin", "negatives"]
    method: nn.Module = cases.CASES["siamese"]()[0]
    assert describe(method)["method"]["projection"] == 6
