"""Feature selection without labels of the task: which features tell whether two windows stand in order?

`exhaustive` tries every subset of a few binary features, exactly. `l1_to_count` keeps about so many of thousands of
features, sparse ones too, such as the words and word pairs that `tfidf` counts; `most_common` and `random_subsets` are
what it is compared with.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.errors import ConfigError, DataError

LARGEST = 6
"""Features in a subset at most: a pair of windows then shows one of 4,096 patterns."""
CELLS = 1 << 19
"""How many patterns, over data sets and subsets, are counted at a time."""
STEPS, CLOSE = 100, 1e-10


@dataclass(frozen=True, eq=False)
class Subsets:
    """What each subset of features is worth for telling label 1 from label 0, as `exhaustive` found it.

    Args:
        features: `(k, size)` int64, the columns of each subset, in the order of `itertools.combinations`.
        error: `(..., k)` float64, share of the pairs that the subset's classifier gets wrong, on the same pairs.
        loss: `(..., k)` float64, its mean cross-entropy on them, in nats, without the penalty.

    Example:
        >>> share = torch.tensor([0.25, 0.5], dtype=torch.float64)
        >>> Subsets(torch.tensor([[0], [1]]), share, share).best(torch.Generator().manual_seed(0)).tolist()
        [0]
    """

    features: Tensor
    error: Tensor
    loss: Tensor

    def best(self, rng: torch.Generator, by: Literal["error", "loss"] = "error") -> Tensor:
        """Return `(..., size)` the features of the subset with the least error, or loss; ties are broken at random.

        The order of enumeration would break them in favour of the first columns (Agrawal et al. 2022, Appendix B.2,
        leave open how).

        Args:
            rng: draws among subsets that are equally good.
            by: what is least; the loss tells more subsets apart than the error does.
        """
        value = self.error if by == "error" else self.loss
        noise = torch.rand(value.shape, generator=rng, device=value.device)
        tied = value == value.amin(-1, keepdim=True)
        return self.features[torch.where(tied, noise, -1.0).argmax(-1)]


def exhaustive(first: Tensor, second: Tensor, label: Tensor, size: int, C: float = 1.0) -> Subsets:
    """Return how well a logistic regression on each subset of `size` binary features tells label 1 from label 0.

    Agrawal et al. 2022, Appendix B.2: a pair `(x, x')` enters as `[x; x'; x - x'; |x - x'|]` of the subset's features.
    The optimum is the one of scikit-learn's `LogisticRegression(solver="liblinear", C=C)`, which penalises the
    intercept too. Equal pairs are counted, not repeated, since a subset shows at most `4 ** size` patterns, and all
    regressions take their Newton steps together, in float64: 7,000 of them on 16,000 pairs each take seconds.

    Args:
        first: `(..., n, d)` 0 or 1, or bool: the first window of each pair. Leading axes are independent data sets.
        second: `(..., n, d)` the second window.
        label: `(..., n)` 0 or 1.
        size: features in a subset, from 1 to 6.
        C: inverse strength of the L2 penalty.

    Raises:
        ConfigError: `size` is out of range, or `C` is not positive.
        DataError: there is no pair, or a value is neither 0 nor 1.

    Example:
        >>> first = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> second = torch.tensor([[1, 0], [1, 1], [0, 0], [0, 1]])
        >>> found = exhaustive(first, second, torch.tensor([1, 1, 0, 0]), size=1)
        >>> found.features.tolist(), found.error.tolist()
        ([[0], [1]], [0.0, 0.5])
    """
    _refuse(first, second, label, size, C)
    sets, pairs = first.shape[:-2], first.shape[-2]
    code = (2 * first.int() + second.int()).flatten(0, -3) if sets else (2 * first.int() + second.int())[None]
    start = 2 * torch.arange(len(code), device=code.device)[:, None] + label.reshape(len(code), pairs).long()
    features = torch.tensor(list(combinations(range(first.shape[-1]), size)), device=code.device)
    design, error, loss = _design(size).to(code.device), [], []
    for block in features.split(max(1, CELLS // (len(code) * 4**size))):
        counts = torch.stack([_counts(code[..., subset], start) for subset in block], 1)  # (sets, k, 2, patterns)
        logits = _logits(design, counts.flatten(0, 1), C).view_as(counts[:, :, 0])
        zero, one = counts.unbind(2)
        error.append(torch.where(logits > 0, zero, one).sum(-1) / pairs)
        loss.append((zero * F.softplus(logits) + one * F.softplus(-logits)).sum(-1) / pairs)
    shape = (*sets, len(features))
    return Subsets(features, torch.cat(error, 1).view(shape), torch.cat(loss, 1).view(shape))


def _counts(code: Tensor, start: Tensor) -> Tensor:
    """Return `(sets, 2, patterns)` how often each pattern stands with each label.

    Args:
        code: `(sets, n, size)` what a feature shows in the two windows, `2 x + x'`.
        start: `(sets, n)` twice the number of the data set, plus the label.
    """
    patterns = 4 ** code.shape[-1]
    pattern = code[..., 0].long()
    for place in range(1, code.shape[-1]):
        pattern = 4 * pattern + code[..., place]
    found = torch.bincount((patterns * start + pattern).flatten(), minlength=2 * len(code) * patterns)
    return found.view(len(code), 2, patterns).double()


def _design(size: int) -> Tensor:
    """Return `(patterns, rank)` the rows of the regression, on an orthonormal basis of what they span.

    A ridge solution lies in the span, and the basis keeps its length: x - x' costs no column of its own.
    """
    digits = torch.arange(4**size)[:, None] // 4 ** torch.arange(size - 1, -1, -1) % 4
    x, y = (digits // 2).double(), (digits % 2).double()
    rows = torch.cat([x, y, x - y, (x - y).abs(), torch.ones(4**size, 1, dtype=torch.float64)], 1)
    left, scale, _ = torch.linalg.svd(rows, full_matrices=False)
    spanned: Tensor = (left * scale)[:, scale > 1e-9 * scale[0]]
    return spanned


def _logits(design: Tensor, counts: Tensor, C: float) -> Tensor:
    """Return `(b, patterns)` what each regression says of each pattern at its optimum, by Newton's method.

    Minimises `|w|² / 2 + C Σ cross-entropy`; a step that does not help is halved.

    Args:
        design: `(patterns, rank)`.
        counts: `(b, 2, patterns)`.
        C: inverse strength of the penalty.
    """
    rank, total, seen = design.shape[1], counts.sum(1), counts[:, 1] @ design
    squares = (design[:, :, None] * design[:, None]).flatten(1)

    def objective(w: Tensor) -> tuple[Tensor, Tensor]:
        z = w @ design.T
        return z, w.square().sum(1) / 2 + C * ((total * F.softplus(z)).sum(1) - (seen * w).sum(1))

    w = design.new_zeros(len(counts), rank)
    logits, value = objective(w)
    for _ in range(STEPS):
        p = logits.sigmoid()
        gradient = w + C * ((total * p) @ design - seen)
        hessian = C * ((total * p * (1 - p)) @ squares).view(-1, rank, rank)
        hessian.diagonal(dim1=1, dim2=2).add_(1)
        step = torch.cholesky_solve(gradient[..., None], torch.linalg.cholesky(hessian)).squeeze(-1)
        if float((gradient * step).sum(1).max()) < CLOSE * max(C, 1):  # the objective's own rounding grows with C
            return logits
        logits, new = objective(w - step)
        while bool((worse := new > value + 1e-12 * value).any()):
            step = torch.where(worse[:, None], step / 2, step)
            logits, new = objective(w - step)
        w, value = w - step, new
    raise ArithmeticError(f"Newton's method did not end in {STEPS} steps")


def _refuse(first: Tensor, second: Tensor, label: Tensor, size: int, C: float) -> None:
    most = min(LARGEST, first.shape[-1])
    if not 1 <= size <= most:
        raise ConfigError(f"size is {size}; from 1 to {most} of {first.shape[-1]} features are accepted")
    if not C > 0:
        raise ConfigError(f"C is {C}; it must be above 0")
    if not label.numel():
        raise DataError("there is no pair of windows to select features on; rows with two windows or more are needed")
    for name, values in (("a feature", first), ("a feature", second), ("a label", label)):
        if (wrong := values[(values != 0) & (values != 1)]).numel():
            raise DataError(f"{name} has the value {wrong[0].item():g}; 0 and 1 are accepted: compare with a threshold")


@dataclass(frozen=True, eq=False)
class Selected:
    """Features that a sparse logistic regression kept.

    Args:
        features: `(k,)` int64, their columns, rising.
        weights: `(k,)` float64, their coefficients; above 0 where label 1 goes with an increase.
        C: inverse strength of the penalty that left so many.

    Example:
        >>> Selected(np.array([3]), np.array([0.5]), 0.1).features.tolist()
        [3]
    """

    features: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any]
    C: float


def l1_to_count(first: Any, second: Any, label: Any, count: int = 50, within: int = 5, seed: int = 0) -> Selected:
    """Return the features that a logistic regression with an L1 penalty keeps, about so many of them.

    It tells label 1 from label 0 by the differences ``second - first`` of each pair, and its C is found by bisection
    (Agrawal et al. 2022, Section 5.1: 50 ± 5 on 158,000 pairs). What enters the regression is not stated there; the
    difference has one coefficient per feature, as the paper counts them, and its sign says which way a feature goes.

    Args:
        first: `(m, d)` features of the first window of each pair, an array or a SciPy sparse matrix; the penalty sees
            their scale, so numbers in different units must be standardised before.
        second: `(m, d)` of the second window.
        label: `(m,)` 0 or 1.
        count: features to keep.
        within: how many more or fewer will do.
        seed: of the solver, which goes through features in random order.

    Raises:
        ConfigError: `count` or `within` is out of range.
        DataError: there are fewer features, one label only, a missing number, or no penalty that keeps so many.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> first, change, label = rng.random((400, 30)), rng.random((400, 30)), np.arange(400) % 2
        >>> change[:, 4] += 2 * label - 1
        >>> l1_to_count(first, first + change, label, count=1, within=0).features.tolist()
        [4]
    """
    label, features = np.asarray(label), first.shape[1]
    if count < 1 or within < 0:
        raise ConfigError(f"count is {count} and within {within}; at least 1 and 0 are needed")
    if features < count - within:
        raise DataError(f"there are {features} features, and {count} ± {within} are to be kept; ask for fewer")
    if len(np.unique(label)) != 2:
        raise DataError("all pairs have the same label; a regression needs pairs of both")
    change, found = second - first, Selected(np.empty(0, np.int64), np.empty(0), 0.0)
    if not np.isfinite(change.sum()):
        raise DataError("a feature is missing or infinite in some pair; fill it, or add a feature that says so")
    low, high = math.log(1e-6), math.log(1e6)
    while high - low > 1e-6:
        middle = (low + high) / 2
        weights = liblinear(math.exp(middle), l1=True, seed=seed, max_iter=1000).fit(change, label).coef_[0]
        kept = np.flatnonzero(weights)
        found = Selected(kept, weights[kept], math.exp(middle))
        if abs(len(kept) - count) <= within:
            return found
        low, high = (middle, high) if len(kept) < count else (low, middle)
    raise DataError(
        f"no penalty keeps {count} ± {within} features: around C = {found.C:.3g} their number jumps past it, to "
        f"{len(found.features)}; leave out features that are equal or never differ, or allow more with `within`"
    )


def liblinear(C: float, *, l1: bool, seed: int = 0, **options: Any) -> Any:
    """Return scikit-learn's logistic regression by liblinear, whichever way its version spells the penalty.

    Version 1.8 has `l1_ratio` for it; before, the option was there and liblinear ignored it.

    Args:
        C: inverse strength of the penalty, which liblinear puts on the intercept too.
        l1: whether the penalty is L1, which makes weights zero; else L2.
        seed: of the order in which weights are visited.
        options: others of scikit-learn's.

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
    """Return `(count,)` the features that are not zero in most rows, most frequent first, ties by the column.

    Args:
        features: `(n, d)` an array or a SciPy sparse matrix; missing numbers count as not zero.
        count: features to keep.

    Raises:
        ConfigError: there are fewer features.

    Example:
        >>> most_common(np.array([[1, 0, 2], [0, 0, 1]]), count=2).tolist()
        [2, 0]
    """
    _enough(features.shape[1], count)
    there = np.asarray((features != 0).sum(0)).ravel()
    return np.argsort(-there, kind="stable")[:count]


def random_subsets(features: int, count: int = 50, subsets: int = 5, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return `(subsets, count)` columns drawn at random, without replacement within a subset, rising.

    Args:
        features: how many columns there are.
        count: features in a subset.
        subsets: how many subsets.
        seed: of the draw.

    Raises:
        ConfigError: there are fewer features.

    Example:
        >>> random_subsets(6, count=2, subsets=3).shape
        (3, 2)
    """
    _enough(features, count)
    return np.sort(np.random.default_rng(seed).random((subsets, features)).argsort(1)[:, :count], 1)


def tfidf(texts: Sequence[str], share: float = 0.05) -> Any:
    """Return scikit-learn's `TfidfVectorizer`, fitted: words and word pairs that occur in at least a share of texts.

    Agrawal et al. 2022, Section 5.1: the vocabulary is that of the labelled training notes, so it changes with the
    fold and the share of labels. `.transform(texts)` gives the sparse `(n, terms)` weights of any other texts, such as
    those of the pairs; `.get_feature_names_out()` names the terms.

    Args:
        texts: the labelled training texts.
        share: of the texts in which a term must occur, above 0 and at most 1.

    Raises:
        ConfigError: the share is out of range.
        DataError: no term occurs often enough.

    Example:
        >>> tfidf(["mass stable", "mass increased", "no mass"], share=0.6).get_feature_names_out().tolist()
        ['mass']
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not 0 < share <= 1:
        raise ConfigError(f"share is {share}; it must be above 0 and at most 1")
    try:
        return TfidfVectorizer(ngram_range=(1, 2), min_df=float(share)).fit(texts)
    except ValueError as error:
        raise DataError(
            f"no word occurs in {share:.0%} of {len(texts):,} texts; words have two letters or more: give texts that "
            "share some, or a smaller share"
        ) from error


def _enough(features: int, count: int) -> None:
    if not 1 <= count <= features:
        raise ConfigError(f"count is {count}; from 1 to {features}, the number of features, are accepted")
