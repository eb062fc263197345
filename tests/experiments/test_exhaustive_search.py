"""Exhaustive feature selection: every subset equals a regression of scikit-learn."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from experiments.order.exhaustive_search import Subsets, exhaustive
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from eventvec.errors import ConfigError, DataError


def pairs(sets: int, n: int, d: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return windows of bits, with labels that depend on the first feature and on noise."""
    rng = torch.Generator().manual_seed(seed)
    first, second = torch.rand(2, sets, n, d, generator=rng) < 0.4
    noise = torch.rand(sets, n, generator=rng) < 0.3
    return first, second, (second[..., 0] & ~first[..., 0]) ^ noise


def one_by_one(first: torch.Tensor, second: torch.Tensor, label: torch.Tensor, subset: list[int], C: float):
    """Return scikit-learn's 0-1 error and cross-entropy on the paper's features of one subset."""
    x, y = np.asarray(first[:, subset]).astype(float), np.asarray(second[:, subset]).astype(float)
    rows = np.concatenate([x, y, x - y, abs(x - y)], 1)
    model = LogisticRegression(solver="liblinear", C=C, tol=1e-10, max_iter=10_000).fit(rows, label)
    predicted = model.predict_proba(rows)
    return (model.predict(rows) != np.asarray(label)).mean(), log_loss(label, predicted)


@pytest.mark.parametrize(("n", "size", "C"), [(300, 2, 1.0), (60, 3, 0.1), (40, 1, 100.0), (25, 3, 30.0)])
def test_every_subset_has_the_optimum_of_liblinear(n: int, size: int, C: float) -> None:
    first, second, label = pairs(2, n, 5)
    subsets = exhaustive(first, second, label, size, C)
    assert subsets.features.tolist() == [list(columns) for columns in combinations(range(5), size)]
    for i in range(2):
        for j, subset in enumerate(subsets.features.tolist()):
            error, loss = one_by_one(first[i], second[i], label[i], subset, C)
            assert subsets.loss[i, j] == pytest.approx(loss, abs=1e-6)
            assert subsets.error[i, j] == pytest.approx(error, abs=1e-12)


def test_a_label_that_depends_on_one_feature_is_predicted_without_error() -> None:
    first, second, _ = pairs(1, 400, 4)
    label = second[0, :, 2] & ~first[0, :, 2]
    subsets = exhaustive(first[0], second[0], label, 1, C=1e6)
    assert subsets.error[2] == 0
    assert subsets.loss[2] < 1e-4
    assert subsets.best(torch.Generator().manual_seed(0)).tolist() == [2]
    assert subsets.best(torch.Generator().manual_seed(0), by="loss").tolist() == [2]


def test_data_sets_are_independent_and_the_block_size_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, label = pairs(6, 50, 5)
    together = exhaustive(first.view(2, 3, 50, 5), second.view(2, 3, 50, 5), label.view(2, 3, 50), 2)
    monkeypatch.setattr("experiments.order.exhaustive_search.CELLS", 1)  # one subset at a time
    for i in range(6):
        alone = exhaustive(first[i].int(), second[i].int(), label[i].float(), 2)
        torch.testing.assert_close(together.loss[i // 3, i % 3], alone.loss)
        assert torch.equal(together.error[i // 3, i % 3], alone.error)


def test_the_order_of_windows_and_of_pairs_changes_nothing() -> None:
    first, second, label = pairs(1, 200, 4)
    subsets, swapped = exhaustive(first, second, label, 2), exhaustive(second, first, label, 2)
    torch.testing.assert_close(subsets.loss, swapped.loss)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    shuffled = exhaustive(first[:, order], second[:, order], label[:, order], 2)
    torch.testing.assert_close(subsets.loss, shuffled.loss, rtol=1e-12, atol=0)


def test_only_ties_are_broken_at_random() -> None:
    error = torch.tensor([0.2, 0.1, 0.1, 0.3], dtype=torch.float64).expand(4000, 4)
    best = Subsets(torch.arange(4)[:, None], error, error.flip(1)).best(torch.Generator().manual_seed(0))
    assert best.unique().tolist() == [1, 2]
    assert 0.47 < (best == 1).double().mean() < 0.53  # 4 standard deviations
    by_loss = Subsets(torch.arange(4)[:, None], error, -error.cumsum(1)).best(torch.Generator(), by="loss")
    assert by_loss.unique().tolist() == [3]


def test_invalid_arguments_are_refused() -> None:
    first, second, label = (values[0] for values in pairs(1, 20, 3))
    with pytest.raises(ConfigError, match="size must be from 1 to 3 of 3 features, got 4"):
        exhaustive(first, second, label, 4)
    with pytest.raises(ConfigError, match="C must be above 0, got -1"):
        exhaustive(first, second, label, 2, C=-1)
    with pytest.raises(DataError, match=r"a feature has the value 0\.5; 0 and 1 are accepted"):
        exhaustive(first / 2, second, label, 2)
    with pytest.raises(DataError, match=r"a label has the value 2"):
        exhaustive(first, second, 2 * label.int(), 2)
    with pytest.raises(DataError, match="no pair of windows"):
        exhaustive(first[:0], second[:0], label[:0], 2)
