"""How far the features of each data set meet the paper's assumptions: do those that tell the order tell the label?

Agrawal et al. 2022, Section 3, assume features that never turn off (Assumption 1) and that alone determine the label
(Assumption 4). Both can be described, not tested: the words of a note are noisy signs at best, and the labels used here
are those that the study holds out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse  # type: ignore[import-untyped]
from scipy.stats import spearmanr  # type: ignore[import-untyped]
from sklearn.metrics import roc_auc_score

from experiments.command_line import Row
from experiments.order.feature_comparison import COUNT, fit_features, load_notes, take_rows
from experiments.order.note_protocol import Array, labelled_notes

CLEAR = 4.0  # standard errors
ONE_WAY = 0.9  # least share of the changes in a feature's main direction


def describe(name: str) -> Row:
    """Return how many features of one data set tell the order, and whether these are the ones that tell the label.

    The features are those of at least 5 % of all labelled notes.
    """
    notes, entities, windows, pairs = load_notes(name)
    labelled = labelled_notes(notes, entities)
    transform = fit_features(take_rows(notes.features, labelled))
    row = signals(transform(windows.features), pairs, transform(notes.features)[labelled], notes.label[labelled])
    return {"data": name, **row}


def signals(windows: Any, pairs: Array, labelled: Any, label: Array) -> Row:
    """Return how many features tell the order, and how well they tell the label.

    A feature tells the order if the sum of its changes from the earlier to the later note is more than 4 standard
    errors from 0, and it changes one way if at least 90 % of its change is in one direction. A feature tells the label
    by the distance of its AUC from 1/2. The mean of this is taken over the 50 features (half, if fewer than 100) that
    are most standard errors from 0, and over the others; the rank correlation is over all.

    Args:
        windows: `(n, d)` features of the notes that are paired.
        pairs: `(3, m)` the notes of each pair, and its label.
        labelled: `(k, d)` features of the labelled notes.
        label: `(k,)` their labels, 0 or 1.
    """
    first, second, order = pairs
    x = sparse.csr_matrix(windows)
    change = sparse.diags(2.0 * order - 1) @ (x[second] - x[first])
    total, size, square = (np.asarray(y.sum(0)).ravel() for y in (change, abs(change), change.multiply(change)))
    from_zero = abs(total) / np.sqrt(np.maximum(square, 1e-12))
    one_way = (abs(total) + size) / 2 >= ONE_WAY * np.maximum(size, 1e-12)
    columns = sparse.csc_matrix(labelled)
    auc = [roc_auc_score(label, columns[:, i].toarray().ravel()) for i in range(columns.shape[1])]
    label_signal, ranked = abs(np.array(auc) - 0.5), np.argsort(-from_zero, kind="stable")
    count = min(COUNT, len(auc) // 2)
    return {
        "pairs": pairs.shape[1], "features": len(auc), "tell the order": int((from_zero > CLEAR).sum()),
        "change one way": int(one_way.sum()), "label, first features": float(label_signal[ranked[:count]].mean()),
        "label, others": float(label_signal[ranked[count:]].mean()),
        "rank correlation": float(spearmanr(from_zero, label_signal).statistic),
    }  # fmt: skip
