"""Siamese learning: objectives are their losses, every part is a name, and what does not fit is refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cases
import make
from eventvec import losses
from eventvec.config import arguments, build_method, complete, describe, suggest
from eventvec.errors import ConfigError
from eventvec.losses.negatives import (
    AllNegatives,
    BalancedNegatives,
    DistanceWeightedNegatives,
    HardNegatives,
    RandomNegatives,
)
from eventvec.losses.objectives import (
    OBJECTIVES,
    BarlowTwins,
    BinomialDeviance,
    Contrastive,
    Histogram,
    Margin,
    NTXent,
    Triplet,
    VICReg,
)
from eventvec.methods import CoLES, Siamese
from eventvec.sequences import Sequences
from eventvec.views import (
    VIEWS,
    Altered,
    DisjointSamples,
    DisjointSegments,
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


def batch() -> tuple[Tensor, Tensor]:
    return 3 * torch.randn(9, 4, generator=rng()), torch.arange(9) // 3


# Objectives


@pytest.mark.parametrize(
    ("objective", "loss", "options"),
    [
        (Contrastive(1.5, HardNegatives(2)), losses.contrastive, {"margin": 1.5}),
        (Margin(0.7, 1.1, HardNegatives(2)), losses.margin_loss, {"margin": 0.7, "beta": 1.1}),
        (Triplet(1.9, HardNegatives(2)), losses.triplet, {"margin": 1.9}),
    ],
)
def test_distances_are_compared_on_the_unit_sphere(objective, loss, options):
    z, source = batch()
    unit = z / z.square().sum(1, keepdim=True).sqrt()
    expected = loss(unit, source, negatives=HardNegatives(2), **options)
    torch.testing.assert_close(objective(z, source, rng()), expected)
    assert float(expected) > 0


@pytest.mark.parametrize(
    ("objective", "loss", "options"),
    [
        (BinomialDeviance(2.0, 0.5, 3.0), losses.binomial_deviance, {"alpha": 2.0, "beta": 0.5, "cost": 3.0}),
        (Histogram(9), losses.histogram, {"bins": 9}),
        (NTXent(0.2), losses.nt_xent, {"temperature": 0.2}),
        (VICReg(2.0, 3.0, 4.0), losses.vicreg, {"invariance": 2.0, "variance": 3.0, "covariance": 4.0}),
        (BarlowTwins(0.3), losses.barlow_twins, {"redundancy": 0.3}),
    ],
)
def test_other_objectives_are_their_losses_as_they_are(objective, loss, options):
    z, source = batch()
    assert torch.equal(objective(z, source, rng()), loss(z, source, **options))


@pytest.mark.parametrize("objective", [Contrastive, BinomialDeviance, Margin])
@pytest.mark.parametrize("rule", PAIR_RULES)
def test_negatives_are_drawn_from_the_generator(objective, rule):
    z, source = batch()
    options = {"margin": 1.5} if objective is not BinomialDeviance else {}
    first, again, other = (objective(negatives=rule, **options)(z, source, rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert torch.equal(first, other) == isinstance(rule, HardNegatives | AllNegatives)


@pytest.mark.parametrize(
    ("make_one", "message"),
    [
        (lambda: Contrastive(margin=2.1), "margin is 2.1; on the unit sphere"),
        (lambda: Margin(margin=0), "margin is 0; it must be above 0"),
        (lambda: Margin(beta=3), "beta is 3; on the unit sphere"),
        (lambda: Triplet(margin=float("nan")), "margin is nan; on the unit sphere"),
        (lambda: BinomialDeviance(alpha=0), "alpha is 0; it must be above 0"),
        (lambda: BinomialDeviance(cost=-1), "cost is -1; it must be above 0"),
        (lambda: Histogram(1), "bins is 1; at least 2"),
        (lambda: NTXent(float("inf")), "temperature is inf; it must be above 0 and finite"),
        (lambda: VICReg(variance=-1), "invariance 25.0, variance -1, covariance 1.0: weights must be at least 0"),
        (lambda: BarlowTwins(0), "redundancy is 0; it must be above 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make_one, message):
    with pytest.raises(ConfigError, match=message):
        make_one()


# The method


@pytest.mark.parametrize("views", VIEW_SAMPLERS)
@pytest.mark.parametrize("rule", PAIR_RULES)
def test_with_the_contrastive_loss_it_is_coles(views, rule):
    x, encoder = make.sequences([9, 5, 8, 6]), make.encoder("gru")
    coles = CoLES(encoder, views, margin=0.8, negatives=rule)
    siamese = Siamese(encoder, views, Contrastive(0.8, rule))
    assert torch.equal(coles.loss(x, rng()), siamese.loss(x, rng()))
    assert torch.equal(coles.usable(x), siamese.usable(x))
    assert torch.equal(coles.usable(x), views.usable(x))


def test_views_go_through_the_projection_first():
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


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_batches_of_which_no_view_is_kept_or_one(objective):
    views = RejectionSlices(2, shortest=30, longest=31)
    method, x = Siamese(make.encoder("gru"), views, OBJECTIVES[objective](), projection=4).train(), make.sequences([31])
    drawn = {len(views(x, rng(seed))[0]): seed for seed in range(60)}
    assert {0, 1} <= set(drawn)
    for count in (0, 1):
        loss = method.loss(x, rng(drawn[count]))
        loss.backward()
        assert loss.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_brings_views_of_one_row_together(objective):
    x = make.sequences([8] * 24)
    own = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + x.rows() % 4).int())
    x = Sequences({**x.columns, "code": own}, x.starts, x.lengths)[:4]
    method = Siamese(make.encoder("gru"), RandomSlices(3, 3, 5), OBJECTIVES[objective]()).train()
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
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_all_of_it_runs_on_a_gpu(views, objective):
    generator = torch.Generator("cuda").manual_seed(0)
    for rule in PAIR_RULES if objective in ("contrastive", "margin", "binomial_deviance") else [None]:
        made = OBJECTIVES[objective](**({"negatives": rule} if rule else {}))
        method = Siamese(make.encoder("gru"), views, made, projection=4).to("cuda").train()
        loss = method.loss(make.sequences([9, 5, 8, 6]).to("cuda"), generator)
        loss.backward()
        assert loss.device.type == "cuda"
        assert bool(loss.isfinite())


# Names


def config(**method: object) -> dict:
    return {"method": {"name": "siamese", **method}, "encoder": {"name": "gru", "dim": 8}}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_is_a_name(name):
    method = build_method(config(objective={"name": name}, projection=4), make.schema())
    assert method.objective == OBJECTIVES[name]()
    assert describe(build_method(describe(method), make.schema())) == describe(method)


@pytest.mark.parametrize("name", sorted(set(VIEWS) - {"shuffled_parts"}))
@pytest.mark.parametrize("method", ["coles", "siamese"])
def test_views_are_a_name(method, name):
    made = build_method({**config(), "method": {"name": method, "views": {"name": name}}}, make.schema())
    assert made.views == VIEWS[name]()


def test_samplers_and_rules_are_nested():
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
        ({"views": {"name": "shuffled_parts"}}, r"method.views is ShuffledParts\(count=2\): input should be an inst"),
        ({"views": {"name": "altered", "views": {"name": "order_pairs"}}}, r"method.views.views is OrderPairs\("),
        ({"views": {"name": "altered", "dropout": 2.0}}, r"method.views: dropout is 2.0; at least 0"),
        ({"objective": {"name": "random_slices"}}, r"method.objective is RandomSlices\(.*should be an instance of Con"),
        (
            {"objective": {"name": "contrastive", "negatives": {"name": "semi_hard_negatives"}}},
            r"method.objective.negatives is SemiHardNegatives\(\): input should be an instance of HardNegatives",
        ),
        (
            {"objective": {"name": "triplet", "negatives": {"name": "balanced_negatives"}}},
            r"method.objective.negatives is BalancedNegatives\(\): input should be",
        ),
        ({"objective": {"name": "triplet", "margin": 9.0}}, r"method.objective: margin is 9.0; on the unit sphere"),
        ({"projection": 0}, "method: projection is 0; at least 1 is needed, or none"),
        (
            {"views": {"name": "altered", "views": {"name": "random_slices", "count": 1}}},
            "method: views has count 1; at least 2 views of a row are needed to compare them",
        ),
    ],
)
def test_what_does_not_fit_is_refused(method, message):
    with pytest.raises(ConfigError, match=message):
        build_method(config(**method), make.schema())


def test_bounds_are_suggested_to_samplers_that_have_both():
    lengths = torch.full((3000,), 40)
    x = Sequences({}, torch.zeros_like(lengths), lengths)

    def views(**said: object) -> dict:
        found = suggest(x, {"method": {"name": "siamese", "views": said}})
        build_method(found, make.schema())  # as suggested, it is built
        return found["method"]["views"]

    bounds = {"shortest": 10, "longest": 80}
    assert views() == {"name": "random_slices", **bounds}
    assert views(name="random_samples", longest=50) == {"name": "random_samples", "shortest": 10, "longest": 50}
    assert views(name="disjoint_samples") == {"name": "disjoint_samples"}
    assert views(name="time_windows") == {"name": "time_windows"}
    assert views(name="altered", dropout=0.1) == {
        "name": "altered", "dropout": 0.1, "views": {"name": "random_slices", **bounds}
    }  # fmt: skip


def test_options_keep_their_names():
    assert list(arguments(Siamese)) == ["encoder", "views", "objective", "projection"]
    assert list(arguments(CoLES)) == ["encoder", "views", "margin", "negatives"]
    method: nn.Module = cases.CASES["siamese"]()[0]
    assert describe(method)["method"]["projection"] == 6
