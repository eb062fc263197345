"""The choice of negatives: slow truths, laws with fixed seeds, and triplets that belong together."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from eventvec.errors import ConfigError
from eventvec.losses import contrastive, squared_distances
from eventvec.losses.negatives import (
    NEGATIVES,
    AllNegatives,
    BalancedNegatives,
    Candidates,
    DistanceWeightedNegatives,
    HardNegatives,
    RandomNegatives,
    SemiHardNegatives,
)
from laws import is_uniform, rng

RULES = (HardNegatives(3), RandomNegatives(3), BalancedNegatives(), DistanceWeightedNegatives(), AllNegatives())
SOURCES = st.lists(st.integers(0, 3), min_size=1, max_size=9)


def sphere(rows: int, dim: int = 3, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(rows, dim, generator=rng(seed), dtype=torch.float64), dim=1)


def candidates(source: list[int], dim: int = 3, seed: int = 0) -> Candidates:
    """Return what rows of these sources, at random on a sphere, choose from."""
    sources = torch.tensor(source, dtype=torch.long)
    return Candidates(squared_distances(sphere(len(source), dim, seed)), sources[:, None] == sources, dim)


def pairs(found: Candidates) -> tuple[Candidates, torch.Tensor]:
    """Return what positive pairs choose from, and their `(pairs, 2)` rows."""
    rows = found.same.triu(1).nonzero()
    anchor, positive = rows.unbind(1)
    near = found.squared[anchor, positive]
    return Candidates(found.squared[anchor], found.same[anchor], found.dim, near), rows


# Hard


@settings(max_examples=30, deadline=None)
@given(SOURCES, st.integers(1, 10), st.integers(0, 10**6))
def test_hard_negatives_are_the_nearest_of_other_sources(source, count, seed):
    found = candidates(source, seed=seed)
    chosen = HardNegatives(count)(found)
    assert chosen.shape == (len(source), min(count, len(source)))
    for i, row in enumerate(chosen.tolist()):
        others = sorted((float(found.squared[i, j]), j) for j in range(len(source)) if source[j] != source[i])
        assert row[: len(others)] == [j for _, j in others[:count]]
        assert all(source[j] == source[i] for j in row[len(others) :])


def test_triplets_keep_each_anchor_with_its_own_negatives():
    """Six entities with three views, three negatives per positive pair."""
    source = [row // 3 for row in range(18)]
    found, rows = pairs(candidates(source, dim=8))
    chosen = HardNegatives(3)(found)
    label = torch.tensor(source)
    assert not bool((label[chosen] == label[rows[:, :1]]).any())
    blockwise = rows.repeat(3, 1)  # the public code: every pair once, then every pair again, …
    pairwise = chosen.flatten()  # … beside the first pair's three negatives, then the second's, …
    wrong = label[pairwise] == label[blockwise[:, 0]]
    assert 0.05 < float(wrong.double().mean()) < 0.25  # "negatives" that are views of the anchor's own entity
    right = rows.repeat_interleave(3, 0)
    assert not bool((label[pairwise] == label[right[:, 0]]).any())


@settings(max_examples=40, deadline=None)
@given(SOURCES, st.integers(0, 10**6))
def test_semi_hard_negatives_are_those_of_a_loop(source, seed):
    found, rows = pairs(candidates(source, seed=seed))
    chosen = SemiHardNegatives()(found)
    assert chosen.shape == (len(rows), 1)
    for (anchor, _), near, (drawn,), distance in zip(
        rows.tolist(), found.positive.tolist(), chosen.tolist(), found.squared.tolist(), strict=True
    ):
        others = [(distance[j], j) for j in range(len(source)) if source[j] != source[anchor]]
        beyond = [other for other in others if other[0] > near]
        if others:
            assert drawn == (min(beyond)[1] if beyond else max(others)[1])
        else:
            assert source[drawn] == source[anchor]  # masked in the loss


def test_semi_hard_negatives_need_pairs_and_balanced_ones_need_rows():
    found = candidates([0, 0, 1])
    with pytest.raises(ConfigError, match="semi-hard negatives are chosen for positive pairs"):
        contrastive(sphere(3), torch.tensor([0, 0, 1]), negatives=SemiHardNegatives())
    with pytest.raises(ConfigError, match="for triplets choose random_negatives"):
        BalancedNegatives()(pairs(found)[0], rng())


# Drawn


def test_random_negatives_are_uniform_over_sets():
    found = candidates([0, 1, 1, 2, 2])
    many = Candidates(found.squared[[0] * 12_000], found.same[[0] * 12_000], 3)
    drawn = [tuple(sorted(row)) for row in RandomNegatives(2)(many, rng()).tolist()]
    assert is_uniform(drawn, list(itertools.combinations([1, 2, 3, 4], 2)))


def test_balanced_negatives_are_as_many_as_positives_and_uniform():
    source = [0, 0, 0, 1, 1]  # 3 + 1 positive pairs, 6 negative ones
    found, drawn = candidates(source), []
    for seed in range(3000):
        chosen = BalancedNegatives()(found, rng(seed))
        some = [(i, j) for i, row in enumerate(chosen.tolist()) for j in row if source[i] != source[j]]
        assert len(some) == len(set(some)) == 4
        drawn.append(tuple(sorted(some)))
    across = [(i, j) for i in range(3) for j in (3, 4)]
    assert is_uniform(drawn, list(itertools.combinations(across, 4)))


@pytest.mark.parametrize(("source", "count"), [([0, 0, 0, 1], 3), ([0, 0], 0), ([0, 1, 2], 0), ([], 0)])
def test_balanced_negatives_where_there_are_fewer(source, count):
    found = candidates(source)
    chosen = BalancedNegatives()(found, rng())
    assert int((~found.same.gather(1, chosen)).sum()) == count


def slow_weights(found: Candidates, row: int, nearest: float, farthest: float) -> list[float]:
    """Return the chance of each row to be drawn for one, from the density of distances on a sphere."""
    weights = []
    for squared, same in zip(found.squared[row].tolist(), found.same[row].tolist(), strict=True):
        d = max(math.sqrt(squared), nearest)
        density = d ** (found.dim - 2) * (1 - d**2 / 4) ** ((found.dim - 3) / 2) if d < 2 else 1
        weights.append(0.0 if same or d >= farthest else 1 / density)
    if not sum(weights):
        weights = [float(not same) for same in found.same[row].tolist()]
    return [weight / max(sum(weights), 1) if not sum(weights) else weight / sum(weights) for weight in weights]


@settings(max_examples=40, deadline=None)
@given(SOURCES, st.integers(2, 40), st.sampled_from([(0.5, 1.4), (0.2, 1.0), (0.01, 0.02)]), st.integers(0, 10**6))
def test_weights_undo_the_density_of_distances(source, dim, bounds, seed):
    found = candidates(source, dim, seed)
    weight = DistanceWeightedNegatives(1, *bounds).weights(found)
    for row in range(len(source)):
        if not bool(found.same[row].all()):
            expected = slow_weights(found, row, *bounds)
            assert (weight[row] / weight[row].sum()).tolist() == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_distance_weighted_negatives_are_drawn_by_their_weights():
    found = candidates([0, 1, 1, 2, 2, 3], dim=4, seed=3)
    chosen = DistanceWeightedNegatives(count=20_000)(found, rng())
    for row in range(6):
        share, seen = slow_weights(found, row, 0.5, 1.4), Counter(chosen[row].tolist())
        assert [seen[j] / 20_000 for j in range(6)] == pytest.approx(share, abs=0.02)
        assert all(seen[j] == 0 for j in range(6) if not share[j])  # never one's own source, nor one that is far


def test_distances_are_met_alike_in_many_dimensions():
    """On a sphere nearly all pairs are √2 apart; drawn by weight, distances spread over [nearest, farthest)."""
    found = candidates(list(range(2000)), dim=6)
    chosen = DistanceWeightedNegatives(count=5, nearest=0.4, farthest=1.6)(found, rng())
    distance = found.squared.gather(1, chosen).sqrt().flatten()
    share = torch.histc(distance[distance > 0.4], 6, 0.4, 1.6) / (distance > 0.4).sum()
    assert share.tolist() == pytest.approx([1 / 6] * 6, abs=0.05)
    assert float((found.squared.sqrt() > 1.2).double().mean()) > 0.7


@pytest.mark.parametrize("rule", [RandomNegatives(), BalancedNegatives(), DistanceWeightedNegatives()])
def test_rules_that_draw_need_a_generator(rule):
    found = candidates([0, 0, 1])
    assert torch.equal(rule(found, rng(1)), rule(found, rng(1)))
    with pytest.raises(ConfigError, match="pass the generator"):
        rule(found, None)


# What holds for all of them


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("source", [[], [0], [0, 0, 0], [0, 1, 2], [0, 0, 1, 1, 1, 2]])
def test_chosen_are_other_sources_as_far_as_there_are_any(rule, source):
    found = candidates(source)
    chosen = rule(found, rng())
    assert len(chosen) == len(source)
    assert chosen.dtype == torch.long
    z = sphere(len(source)).requires_grad_()
    loss = contrastive(z, torch.tensor(source, dtype=torch.long), margin=2.0, negatives=rule, rng=rng())
    loss.backward()
    assert bool(z.grad.isfinite().all())
    other = ~found.same.gather(1, chosen)
    if isinstance(rule, HardNegatives | RandomNegatives):
        assert other.sum(1).tolist() == [min(3, len(source) - source.count(one)) for one in source]
    if isinstance(rule, DistanceWeightedNegatives):
        assert other.all(1).tolist() == [len(source) > source.count(one) for one in source]


@pytest.mark.parametrize(
    ("make_one", "message"),
    [
        (lambda: HardNegatives(0), "count is 0; at least 1"),
        (lambda: RandomNegatives(0), "count is 0; at least 1"),
        (lambda: DistanceWeightedNegatives(0), "count is 0; at least 1"),
        (lambda: DistanceWeightedNegatives(nearest=0.0), "nearest is 0.0 and farthest 1.4; 0 < nearest"),
        (lambda: DistanceWeightedNegatives(nearest=1.5), "nearest is 1.5 and farthest 1.4"),
        (lambda: DistanceWeightedNegatives(farthest=2.1), "nearest is 0.5 and farthest 2.1"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make_one, message):
    with pytest.raises(ConfigError, match=message):
        make_one()


def test_each_name_makes_a_rule():
    assert {name: type(make()) for name, make in NEGATIVES.items()} == {
        "hard_negatives": HardNegatives,
        "semi_hard_negatives": SemiHardNegatives,
        "random_negatives": RandomNegatives,
        "balanced_negatives": BalancedNegatives,
        "distance_weighted_negatives": DistanceWeightedNegatives,
        "all_negatives": AllNegatives,
    }
