"""Sparse feature selection among thousands of features, such as words and word pairs, without labels of the task.

`l1_to_count` selects the features that tell the order of two windows. `most_common` and `random_subsets` are the
baselines. The exact search over all subsets of a few features is in `exhaustive_search`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eventvec.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Selected:
    """Features with nonzero weights in a sparse logistic regression.

    Args:
        features: `(k,)` int64, their columns in ascending order.
        weights: `(k,)` float64, their coefficients; above 0 where an increase goes with label 1.
        C: inverse strength of the penalty.

    Example:
        >>> Selected(np.array([3]), np.array([0.5]), 0.1).features.tolist()
        [3]
    """

    features: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any]
    C: float


def l1_to_count(first: Any, second: Any, label: Any, count: int = 50, within: int = 5, seed: int = 0) -> Selected:
    """Return about `count` features that a logistic regression with an L1 penalty selects.

    The regression predicts the label from the differences ``second - first`` of the pairs, and its C is found by
    bisection (Agrawal et al. 2022, Section 4.2: 50 ± 5 features on 158,000 pairs). The paper does not state the inputs
    of the regression. With differences there is one coefficient per feature, as the paper counts them, and its sign is
    the direction in which the feature changes.

    Args:
        first: `(m, d)` features of the first window of each pair, an array or a SciPy sparse matrix. The penalty
            depends on their scale, so numbers in different units must be standardised first.
        second: `(m, d)` features of the second window.
        label: `(m,)` 0 or 1.
        count: number of features to select.
        within: largest accepted deviation from `count`.
        seed: of the solver, which visits features in random order.

    Raises:
        ConfigError: If `count` or `within` is out of range.
        DataError: If there are too few features, if all labels are equal, if a number is missing or infinite, or if no
            penalty selects this many features.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> first, change, label = rng.random((400, 30)), rng.random((400, 30)), np.arange(400) % 2
        >>> change[:, 4] += 2 * label - 1
        >>> l1_to_count(first, first + change, label, count=1, within=0).features.tolist()
        [4]
    """
    label, n_features = np.asarray(label), first.shape[1]
    if count < 1 or within < 0:
        raise ConfigError(f"count must be at least 1 and within at least 0, got {count} and {within}")
    if n_features < count - within:
        raise DataError(f"{count} ± {within} features cannot be selected from {n_features}; choose a smaller count")
    if len(np.unique(label)) != 2:
        raise DataError("all pairs have the same label; a regression needs pairs with both labels")
    change, selected = second - first, Selected(np.empty(0, np.int64), np.empty(0), 0.0)
    if not np.isfinite(change.sum()):
        raise DataError("a feature is missing or infinite in some pair; fill it, or add an indicator feature")
    low, high = math.log(1e-6), math.log(1e6)
    while high - low > 1e-6:
        middle = (low + high) / 2
        weights = liblinear(math.exp(middle), l1=True, seed=seed, max_iter=1000).fit(change, label).coef_[0]
        nonzero = np.flatnonzero(weights)
        selected = Selected(nonzero, weights[nonzero], math.exp(middle))
        if abs(len(nonzero) - count) <= within:
            return selected
        low, high = (middle, high) if len(nonzero) < count else (low, middle)
    raise DataError(
        f"no penalty selects {count} ± {within} features: around C = {selected.C:.3g} their number jumps to "
        f"{len(selected.features)}; leave out features that are equal or never differ, or choose a larger `within`"
    )


def liblinear(C: float, *, l1: bool, seed: int = 0, **options: Any) -> Any:
    """Return scikit-learn's logistic regression by liblinear, for all versions of scikit-learn.

    Version 1.8 sets the penalty by `l1_ratio`, which liblinear ignores in earlier versions.

    Args:
        C: inverse strength of the penalty, which liblinear also puts on the intercept.
        l1: whether the penalty is L1, which sets weights to zero; otherwise it is L2.
        seed: of the order in which weights are visited.
        options: further arguments of scikit-learn's `LogisticRegression`.

    Example:
        >>> x, y = np.array([[0.0, 0.0], [4.0, 0.1], [0.0, 0.1], [4.0, 0.1]]), [0, 1, 0, 1]
        >>> [(liblinear(1.0, l1=l1).fit(x, y).coef_ != 0).tolist() for l1 in (True, False)]
        [[[True, False]], [[True, True]]]
    """
    from sklearn.linear_model import LogisticRegression

    old = inspect.signature(LogisticRegression).parameters["penalty"].default == "l2"
    penalty = {"penalty": "l1" if l1 else "l2"} if old else {"l1_ratio": float(l1)}
    return LogisticRegression(solver="liblinear", C=C, random_state=seed, **penalty, **options)


def most_common(features: Any, count: int = 50) -> np.ndarray[Any, Any]:
    """Return `(count,)` the features that are nonzero in the most rows, most frequent first, ties by column.

    Args:
        features: `(n, d)` an array or a SciPy sparse matrix; missing numbers count as nonzero.
        count: number of features to select.

    Raises:
        ConfigError: If there are fewer features.

    Example:
        >>> most_common(np.array([[1, 0, 2], [0, 0, 1]]), count=2).tolist()
        [2, 0]
    """
    _check_count(features.shape[1], count)
    rows = np.asarray((features != 0).sum(0)).ravel()
    return np.argsort(-rows, kind="stable")[:count]


def random_subsets(features: int, count: int = 50, subsets: int = 5, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return `(subsets, count)` columns drawn at random, without replacement within a subset, in ascending order.

    Args:
        features: number of columns.
        count: number of features in a subset.
        subsets: number of subsets.
        seed: of the draw.

    Raises:
        ConfigError: If there are fewer features.

    Example:
        >>> random_subsets(6, count=2, subsets=3).shape
        (3, 2)
    """
    _check_count(features, count)
    return np.sort(np.random.default_rng(seed).random((subsets, features)).argsort(1)[:, :count], 1)


def tfidf(texts: Sequence[str], share: float = 0.05) -> Any:
    """Return scikit-learn's `TfidfVectorizer` for words and word pairs, fitted to some texts.

    The vocabulary is that of the labelled training notes, so it changes with the fold and the share of labels (Agrawal
    et al. 2022, Section 4.2). `.transform(texts)` returns the sparse `(n, terms)` weights of other texts, such as those
    of the pairs, and `.get_feature_names_out()` the terms.

    Args:
        texts: the labelled training texts.
        share: share of the texts in which a term must occur, in (0, 1].

    Raises:
        ConfigError: If the share is out of range.
        DataError: If no term occurs often enough.

    Example:
        >>> tfidf(["mass stable", "mass increased", "no mass"], share=0.6).get_feature_names_out().tolist()
        ['mass']
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not 0 < share <= 1:
        raise ConfigError(f"share must be in (0, 1], got {share}")
    try:
        return TfidfVectorizer(ngram_range=(1, 2), min_df=float(share)).fit(texts)
    except ValueError as error:
        raise DataError(
            f"no word of two or more letters occurs in {share:.0%} of {len(texts):,} texts; choose a smaller share, or "
            "texts with common words"
        ) from error


def _check_count(features: int, count: int) -> None:
    if not 1 <= count <= features:
        raise ConfigError(f"count must be from 1 to {features}, the number of features, got {count}")
