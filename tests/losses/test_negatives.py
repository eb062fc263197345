"""The choice of negatives against slow loops, distributions with fixed seeds, and the pairing of triplets."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
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
    """Return the candidates of rows with these sources, at random on a sphere."""
    sources = torch.tensor(source, dtype=torch.long)
    return Candidates(squared_distances(sphere(len(source), dim, seed)), sources[:, None] == sources, dim)


def pairs(of_rows: Candidates) -> tuple[Candidates, torch.Tensor]:
    """Return the candidates of positive pairs, and their `(pairs, 2)` rows."""
    rows = of_rows.same.triu(1).nonzero()
    anchor, positive = rows.unbind(1)
    squared = of_rows.squared[anchor, positive]
    return Candidates(of_rows.squared[anchor], of_rows.same[anchor], of_rows.dim, squared), rows


# Hard


@given(SOURCES, st.integers(1, 10), st.integers(0, 10**6))
def test_hard_negatives_are_the_nearest_of_other_sources(source, count, seed):
    rows = candidates(source, seed=seed)
    chosen = HardNegatives(count)(rows)
    assert chosen.shape == (len(source), min(count, len(source)))
    for i, row in enumerate(chosen.tolist()):
        others = sorted((float(rows.squared[i, j]), j) for j in range(len(source)) if source[j] != source[i])
        assert row[: len(others)] == [j for _, j in others[:count]]
        assert all(source[j] == source[i] for j in row[len(others) :])


def test_triplets_pair_each_anchor_with_its_own_negatives():
    """Six entities with three views, three negatives per positive pair."""
    source = [row // 3 for row in range(18)]
    of_pairs, rows = pairs(candidates(source, dim=8))
    chosen = HardNegatives(3)(of_pairs)
    label = torch.tensor(source)
    assert not bool((label[chosen] == label[rows[:, :1]]).any())
    blockwise = rows.repeat(3, 1)  # the public code: every pair once, then every pair again, …
    pairwise = chosen.flatten()  # … with the first pair's three negatives, then the second's, …
    wrong = label[pairwise] == label[blockwise[:, 0]]
    assert 0.05 < float(wrong.double().mean()) < 0.25  # "negatives" that are views of the anchor's own entity
    repeated = rows.repeat_interleave(3, 0)
    assert not bool((label[pairwise] == label[repeated[:, 0]]).any())


@given(SOURCES, st.integers(0, 10**6))
def test_semi_hard_negatives_equal_a_loop(source, seed):
    of_pairs, rows = pairs(candidates(source, seed=seed))
    chosen = SemiHardNegatives()(of_pairs)
    assert chosen.shape == (len(rows), 1)
    for (anchor, _), positive, (negative,), squared in zip(
        rows.tolist(), of_pairs.positive.tolist(), chosen.tolist(), of_pairs.squared.tolist(), strict=True
    ):
        others = [(squared[j], j) for j in range(len(source)) if source[j] != source[anchor]]
        farther = [other for other in others if other[0] > positive]
        if others:
            assert negative == (min(farther)[1] if farther else max(others)[1])
        else:
            assert source[negative] == source[anchor]  # masked in the loss


def test_semi_hard_negatives_need_pairs_and_balanced_negatives_need_rows():
    of_pairs, _ = pairs(candidates([0, 0, 1]))
    with pytest.raises(ConfigError, match="semi_hard_negatives need positive pairs, which only the triplet loss has"):
        contrastive(sphere(3), torch.tensor([0, 0, 1]), margin=0.5, negatives=SemiHardNegatives())
    with pytest.raises(ConfigError, match="use random_negatives with triplet"):
        BalancedNegatives()(of_pairs, rng())


# Drawn


def test_random_negatives_are_uniform_over_sets():
    rows = candidates([0, 1, 1, 2, 2])
    many = Candidates(rows.squared[[0] * 12_000], rows.same[[0] * 12_000], 3)
    drawn = [tuple(sorted(row)) for row in RandomNegatives(2)(many, rng()).tolist()]
    assert is_uniform(drawn, list(itertools.combinations([1, 2, 3, 4], 2)))


def test_balanced_negatives_are_as_many_as_positives_and_uniform():
    source = [0, 0, 0, 1, 1]  # 3 + 1 positive pairs, 6 negative pairs
    rows, drawn = candidates(source), []
    for seed in range(1000):
        chosen = BalancedNegatives()(rows, rng(seed))
        negatives = [(i, j) for i, row in enumerate(chosen.tolist()) for j in row if source[i] != source[j]]
        assert len(negatives) == len(set(negatives)) == 4
        drawn.append(tuple(sorted(negatives)))
    all_negatives = [(i, j) for i in range(3) for j in (3, 4)]
    assert is_uniform(drawn, list(itertools.combinations(all_negatives, 4)))


@pytest.mark.parametrize(("source", "count"), [([0, 0, 0, 1], 3), ([0, 0], 0), ([0, 1, 2], 0), ([], 0)])
def test_balanced_negatives_are_fewer_if_the_batch_has_fewer(source, count):
    rows = candidates(source)
    chosen = BalancedNegatives()(rows, rng())
    assert int((~rows.same.gather(1, chosen)).sum()) == count


def slow_weights(rows: Candidates, row: int, nearest: float, farthest: float) -> list[float]:
    """Return the probability of each row to be drawn for one row, from the density of distances on a sphere."""
    weights = []
    for squared, same in zip(rows.squared[row].tolist(), rows.same[row].tolist(), strict=True):
        d = max(math.sqrt(squared), nearest)
        density = d ** (rows.dim - 2) * (1 - d**2 / 4) ** ((rows.dim - 3) / 2) if d < 2 else 1
        weights.append(0.0 if same or d >= farthest else 1 / density)
    if not sum(weights):
        weights = [float(not same) for same in rows.same[row].tolist()]
    return [weight / max(sum(weights), 1) if not sum(weights) else weight / sum(weights) for weight in weights]


@given(SOURCES, st.integers(2, 40), st.sampled_from([(0.5, 1.4), (0.2, 1.0), (0.01, 0.02)]), st.integers(0, 10**6))
def test_weights_are_inverse_to_the_density_of_distances(source, dim, bounds, seed):
    rows = candidates(source, dim, seed)
    weight = DistanceWeightedNegatives(1, *bounds).weights(rows)
    for row in range(len(source)):
        if not bool(rows.same[row].all()):
            expected = slow_weights(rows, row, *bounds)
            assert (weight[row] / weight[row].sum()).tolist() == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_distance_weighted_negatives_are_drawn_by_their_weights():
    rows = candidates([0, 1, 1, 2, 2, 3], dim=4, seed=3)
    chosen = DistanceWeightedNegatives(count=20_000)(rows, rng())
    for row in range(6):
        probability, counts = slow_weights(rows, row, 0.5, 1.4), Counter(chosen[row].tolist())
        assert [counts[j] / 20_000 for j in range(6)] == pytest.approx(probability, abs=0.02)
        assert all(counts[j] == 0 for j in range(6) if not probability[j])  # rows of the same source or too far


def test_distances_are_equally_likely_in_many_dimensions():
    """On a sphere nearly all pairs are √2 apart; drawn by weight, distances spread over [nearest, farthest)."""
    rows = candidates(list(range(2000)), dim=6)
    chosen = DistanceWeightedNegatives(count=5, nearest=0.4, farthest=1.6)(rows, rng())
    distance = rows.squared.gather(1, chosen).sqrt().flatten()
    share = torch.histc(distance[distance > 0.4], 6, 0.4, 1.6) / (distance > 0.4).sum()
    assert share.tolist() == pytest.approx([1 / 6] * 6, abs=0.05)
    assert float((rows.squared.sqrt() > 1.2).double().mean()) > 0.7


@pytest.mark.parametrize("rule", [RandomNegatives(), BalancedNegatives(), DistanceWeightedNegatives()])
def test_rules_that_draw_need_a_generator(rule):
    rows = candidates([0, 0, 1])
    assert torch.equal(rule(rows, rng(1)), rule(rows, rng(1)))
    with pytest.raises(ConfigError, match="rng must be a random generator"):
        rule(rows, None)


# Properties of all rules


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("source", [[], [0], [0, 0, 0], [0, 1, 2], [0, 0, 1, 1, 1, 2]])
def test_chosen_rows_are_of_other_sources_if_the_batch_has_any(rule, source):
    rows = candidates(source)
    chosen = rule(rows, rng())
    assert len(chosen) == len(source)
    assert chosen.dtype == torch.long
    z = sphere(len(source)).requires_grad_()
    loss = contrastive(z, torch.tensor(source, dtype=torch.long), margin=2.0, negatives=rule, rng=rng())
    loss.backward()
    assert bool(z.grad.isfinite().all())
    negative = ~rows.same.gather(1, chosen)
    if isinstance(rule, HardNegatives | RandomNegatives):
        assert negative.sum(1).tolist() == [min(3, len(source) - source.count(s)) for s in source]
    if isinstance(rule, DistanceWeightedNegatives):
        assert negative.all(1).tolist() == [len(source) > source.count(s) for s in source]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: HardNegatives(0), "count must be at least 1, got 0"),
        (lambda: RandomNegatives(0), "count must be at least 1, got 0"),
        (lambda: DistanceWeightedNegatives(0), "count must be at least 1, got 0"),
        (lambda: DistanceWeightedNegatives(nearest=0.0), "must satisfy 0 < nearest < farthest <= 2, got 0.0 and 1.4"),
        (lambda: DistanceWeightedNegatives(nearest=1.5), "got 1.5 and 1.4"),
        (lambda: DistanceWeightedNegatives(farthest=2.1), "got 0.5 and 2.1"),
    ],
)
def test_options_out_of_range_are_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


def test_each_name_builds_a_rule():
    assert {name: type(rule()) for name, rule in NEGATIVES.items()} == {
        "hard_negatives": HardNegatives,
        "semi_hard_negatives": SemiHardNegatives,
        "random_negatives": RandomNegatives,
        "balanced_negatives": BalancedNegatives,
        "distance_weighted_negatives": DistanceWeightedNegatives,
        "all_negatives": AllNegatives,
    }
