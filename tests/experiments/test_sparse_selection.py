"""Sparse feature selection: the number and the choice of features, and the baselines."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from experiments.order.sparse_selection import l1_to_count, liblinear, most_common, random_subsets, tfidf
from scipy import sparse

from eventvec.errors import ConfigError, DataError


def pairs(m: int = 600, d: int = 120, increasing: int = 12, seed: int = 0):
    """Return noisy features of pairs of windows; the first `increasing` features increase by 1 over time."""
    rng = np.random.default_rng(seed)
    early, late = rng.normal(size=(2, m, d))
    late[:, :increasing] += 1
    label = rng.integers(0, 2, m)
    swapped = label[:, None] == 0
    return np.where(swapped, late, early), np.where(swapped, early, late), label


@pytest.mark.parametrize("count", [5, 12, 50])
def test_about_count_features_are_selected_with_the_increasing_ones_among_them(count):
    first, second, label = pairs()
    selected = l1_to_count(first, second, label, count=count, within=2)
    assert abs(len(selected.features) - count) <= 2
    assert selected.features.tolist() == sorted(set(selected.features.tolist()))
    assert len(set(selected.features[selected.features < 12])) >= min(count, 12) - 2
    assert bool((selected.weights[selected.features < 12] > 0).all())


def test_sparse_features_give_the_same_result():
    first, second, label = pairs(d=60)
    first, second = first * (abs(first) > 1), second * (abs(second) > 1)
    dense = l1_to_count(first, second, label, count=10, within=1)
    from_sparse = l1_to_count(sparse.csr_matrix(first), sparse.csr_matrix(second), label, count=10, within=1)
    assert from_sparse.features.tolist() == dense.features.tolist()
    assert from_sparse.C == dense.C
    np.testing.assert_allclose(from_sparse.weights, dense.weights, rtol=1e-3)


def test_swapping_windows_and_labels_changes_nothing():
    first, second, label = pairs()
    selected, swapped = l1_to_count(first, second, label, 12, 2), l1_to_count(second, first, 1 - label, 12, 2)
    assert selected.features.tolist() == swapped.features.tolist()
    np.testing.assert_allclose(selected.weights, swapped.weights, rtol=0.05, atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"count": 0}, ConfigError, "count must be at least 1 and within at least 0, got 0 and 5"),
        ({"within": -1}, ConfigError, "at least 0, got 50 and -1"),
        ({"count": 130}, DataError, "130 ± 5 features cannot be selected from 120"),
        ({"label": np.ones(600)}, DataError, "all pairs have the same label"),
    ],
)
def test_invalid_arguments_are_refused(arguments, kind, message):
    first, second, label = pairs()
    with pytest.raises(kind, match=message):
        l1_to_count(first, second, **{"label": label, **arguments})


def test_missing_numbers_are_refused():
    first, second, label = pairs()
    second[3, 4] = np.nan
    with pytest.raises(DataError, match="a feature is missing or infinite in some pair"):
        l1_to_count(first, second, label)


@pytest.mark.parametrize(("l1", "nonzero"), [(True, range(1, 60)), (False, [120])])
def test_l1_sets_weights_to_zero_and_l2_does_not(l1, nonzero):
    first, second, label = pairs()
    assert np.count_nonzero(liblinear(0.02, l1=l1).fit(second - first, label).coef_) in nonzero


def test_features_that_never_differ_cannot_be_selected():
    first, second, label = pairs(increasing=3, d=10)
    second[:, 3:] = first[:, 3:]
    with pytest.raises(DataError, match="no penalty selects 8 ± 1 features"):
        l1_to_count(first, second, label, count=8, within=1)


def test_the_most_common_features_equal_a_count_over_rows():
    rng = np.random.default_rng(0)
    features = rng.poisson(np.linspace(0.1, 2, 9), (200, 9))
    counted = Counter({column: sum(row[column] != 0 for row in features) for column in range(9)})
    expected = [column for column, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))][:4]
    assert most_common(features, 4).tolist() == expected
    assert most_common(sparse.csr_matrix(features), 4).tolist() == expected
    assert most_common(np.ones((3, 5)), 3).tolist() == [0, 1, 2]


def test_random_subsets_are_uniform_and_without_replacement():
    drawn = random_subsets(6, count=2, subsets=3000)
    assert bool((drawn[:, 0] < drawn[:, 1]).all())
    counts = np.bincount(drawn.ravel(), minlength=6)
    assert abs(counts - 1000).max() < 6 * (1000 * 2 / 3) ** 0.5
    assert np.array_equal(random_subsets(6, 2, seed=1), random_subsets(6, 2, seed=1))
    assert not np.array_equal(random_subsets(60, 20, seed=1), random_subsets(60, 20, seed=2))


@pytest.mark.parametrize("choose", [lambda n: most_common(np.ones((2, 4)), n), lambda n: random_subsets(4, n)])
@pytest.mark.parametrize("count", [0, 5])
def test_a_count_that_is_out_of_range_is_refused(choose, count):
    with pytest.raises(ConfigError, match=f"count must be from 1 to 4, the number of features, got {count}"):
        choose(count)


def test_terms_are_words_and_word_pairs_of_enough_texts():
    texts = ["the mass is stable", "the mass is new", "no change"] * 10 + ["odd"]
    vectorizer = tfidf(texts, share=0.3)
    words = ["change", "is", "mass", "new", "no", "stable", "the"]
    word_pairs = ["is new", "is stable", "mass is", "no change", "the mass"]
    assert vectorizer.get_feature_names_out().tolist() == sorted(words + word_pairs)
    weights = vectorizer.transform(["the mass is new", "unheard of"])
    assert weights.shape == (2, 12)
    assert float(weights[0].power(2).sum()) == pytest.approx(1)
    assert weights[1].nnz == 0


def test_texts_without_a_common_term_are_refused():
    with pytest.raises(DataError, match="no word of two or more letters occurs in 90% of 2 texts"):
        tfidf(["one thing", "quite another"], share=0.9)
    with pytest.raises(ConfigError, match=r"share must be in \(0, 1\], got 0"):
        tfidf(["one"], share=0)
