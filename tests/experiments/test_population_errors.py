"""Exact errors of feature subsets: the formulas beside the least error by enumeration, and beside drawn pairs."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from experiments.order import reference, synthetic
from experiments.order.population_errors import error_of_s, excess_error, gap, sample_bound
from torch import Tensor

from eventvec import ConfigError

S = range(4)
BIASED = {"ocp": False, "ocp_biased": True}


def least_error(pairs: Tensor, features: tuple[int, ...], biased: bool) -> float:
    """Return the error of the best classifier on some features, by a loop over what it sees."""
    d = pairs.dim() // 2
    probability = {1: {}, 0: {}}
    for values, forward in zip(itertools.product((0, 1), repeat=2 * d), pairs.flatten().tolist(), strict=True):
        in_order = tuple(values[i] for i in features), tuple(values[d + i] for i in features)
        for label, order, share in ((1, 1, 1 / 2), (0, 1, 1 / 4 if biased else 0), (0, -1, 1 / 4 if biased else 1 / 2)):
            seen = in_order[::order]
            probability[label][seen] = probability[label].get(seen, 0) + share * forward
    return sum(min(probability[1].get(seen, 0), p) for seen, p in probability[0].items())


@pytest.mark.parametrize("method", list(BIASED))
def test_formulas_equal_the_least_error_by_enumeration(method: str) -> None:
    pairs = synthetic.DISTRIBUTIONS[2].pair_probabilities()
    error = error_of_s(pairs, S, biased=BIASED[method])
    assert error == pytest.approx(reference.ANALYTIC[method], abs=5e-5)
    subsets = [(0, 1, 2, 3), (0, 2, 3, 5), (1, 2, 3, 6), (2, 3, 4, 5), (0, 4, 5, 6), (3,), (0, 1, 2, 3, 4), (6,)]
    for u in subsets:
        expected = least_error(pairs, u, BIASED[method])
        assert error + excess_error(pairs, S, u, biased=BIASED[method]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("number", [1, 2])
def test_biased_pairs_have_half_the_gap_and_need_four_times_the_pairs(number: int) -> None:
    pairs = synthetic.DISTRIBUTIONS[number].pair_probabilities()
    (epsilon, features), (half, same_features) = gap(pairs, S), gap(pairs, S, biased=True)
    assert (half, same_features) == (pytest.approx(epsilon / 2), features)
    assert epsilon > 0
    assert error_of_s(pairs, S) == pytest.approx(reference.ANALYTIC["ocp"], abs=5e-5)
    d = pairs.dim() // 2
    assert sample_bound(d, 4, half, 0.1) == pytest.approx(4 * sample_bound(d, 4, epsilon, 0.1))


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("method", list(BIASED))
def test_exact_errors_are_those_of_many_drawn_pairs(number: int, method: str) -> None:
    rng = torch.Generator().manual_seed(number)
    distribution = synthetic.DISTRIBUTIONS[number]
    drawn = synthetic.evaluate_subsets(distribution.draw(150_000, rng), method, 1, rng)
    pairs = distribution.pair_probabilities()
    error = error_of_s(pairs, S, biased=BIASED[method])
    for u, measured in zip(drawn.features.tolist(), drawn.error[0].tolist(), strict=True):
        # A linear model may be worse than the best classifier; its training error varies by 0.0013.
        assert -0.006 < measured - error - excess_error(pairs, S, u, biased=BIASED[method]) < 0.012


def test_pair_probabilities_are_those_of_the_trajectories() -> None:
    distribution = synthetic.DISTRIBUTIONS[2]
    bits = distribution.draw(50_000, torch.Generator().manual_seed(0)).columns["bits"].view(50_000, 10, -1)
    both = torch.cat([bits[:, :-1], bits[:, 1:]], 2).flatten(0, 1).long()  # each step and the next one
    pairs = distribution.pair_probabilities()
    assert float(pairs.sum()) == pytest.approx(1)
    for axes in ([0, 7], [2, 9], [0, 4, 7, 11], [6, 13], [1, 3, 8, 10]):
        counts = torch.bincount((both[:, axes] * 2 ** torch.arange(len(axes)).flip(0)).sum(1), minlength=2 ** len(axes))
        expected = pairs.sum([axis for axis in range(14) if axis not in axes]).flatten()
        assert (counts / len(both)).tolist() == pytest.approx(expected.tolist(), abs=0.01)


def test_the_bound_by_hand_and_its_range() -> None:
    assert sample_bound(4, 2, 0.5, 0.4) == pytest.approx(8 * (math.log(6) + math.log(10)))
    for arguments, message in (
        ((4, 5, 0.1, 0.1), "selected must be from 1 to 4"),
        ((4, 2, 0.0, 0.1), r"epsilon must be in \(0, 1\]"),
        ((4, 2, 0.1, 1.0), r"delta in \(0, 1\), got 0.1 and 1.0"),
    ):
        with pytest.raises(ConfigError, match=message):
            sample_bound(*arguments)
