"""What the features of a data set say about order and label, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.order.assumptions import signals
from scipy import sparse


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_order_and_label_of_three_features_by_hand(kind) -> None:
    # Of 25 pairs, the first feature turns on in all, the second turns on in 15 and off in 10, the third never changes.
    early, late = np.zeros((25, 3)), np.zeros((25, 3))
    late[:, 0], late[:15, 1], early[15:, 1] = 1, 1, 1
    earlier, later = np.arange(25), np.arange(25, 50)
    order = np.arange(25) % 2
    pairs = np.stack([np.where(order == 1, earlier, later), np.where(order == 1, later, earlier), order])
    label = np.array([0, 0, 1, 1])
    labelled = np.array([[0, 1, 1], [0, 0, 1], [1, 1, 1], [1, 1, 1]], float)  # AUC 1, 3/4 and 1/2
    row = signals(kind(np.concatenate([early, late])), pairs, kind(labelled), label)
    assert (row["pairs"], row["features"]) == (25, 3)
    assert (row["tell the order"], row["change one way"]) == (1, 1)  # 25 / 5 and 5 / 5 standard errors
    assert row["label, first features"] == pytest.approx(1 / 2)
    assert row["label, others"] == pytest.approx(1 / 8)
    assert row["rank correlation"] == pytest.approx(1)
