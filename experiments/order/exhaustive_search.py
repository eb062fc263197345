"""Exhaustive feature selection: how well each subset of a few binary features tells the order of two windows.

The sparse selection among thousands of features is in `sparse_selection`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.errors import ConfigError, DataError

LARGEST = 6
"""Largest number of features in a subset: a pair of windows then has one of 4,096 patterns."""
CELLS = 1 << 19
"""Number of patterns, over data sets and subsets, that are counted at a time."""
STEPS, TOLERANCE = 100, 1e-10


@dataclass(frozen=True, eq=False)
class Subsets:
    """How well each subset of features separates label 1 from label 0; returned by `exhaustive`.

    Args:
        features: `(k, size)` int64, the columns of each subset, in the order of `itertools.combinations`.
        error: `(..., k)` float64, the share of pairs that the classifier of the subset gets wrong, on its training
            pairs.
        loss: `(..., k)` float64, its mean cross-entropy on these pairs, in nats, without the penalty.

    Example:
        >>> share = torch.tensor([0.25, 0.5], dtype=torch.float64)
        >>> Subsets(torch.tensor([[0], [1]]), share, share).best(torch.Generator().manual_seed(0)).tolist()
        [0]
    """

    features: Tensor
    error: Tensor
    loss: Tensor

    def best(self, rng: torch.Generator, by: Literal["error", "loss"] = "error") -> Tensor:
        """Return `(..., size)` the features of the subset with the least error or loss; ties are broken at random.

        The order of enumeration would break ties in favour of the first columns; Agrawal et al. 2022, Appendix B.2,
        leave this open.

        Args:
            rng: draws among equally good subsets.
            by: the quantity to minimise; the loss separates more subsets than the error.
        """
        value = self.error if by == "error" else self.loss
        noise = torch.rand(value.shape, generator=rng, device=value.device)
        tied = value == value.amin(-1, keepdim=True)
        return self.features[torch.where(tied, noise, -1.0).argmax(-1)]


def exhaustive(first: Tensor, second: Tensor, label: Tensor, size: int, C: float = 1.0) -> Subsets:
    """Return how well a logistic regression on each subset of `size` binary features separates label 1 from label 0.

    The inputs for a pair `(x, x')` are `[x; x'; x - x'; |x - x'|]` of the features in the subset (Agrawal et al. 2022,
    Appendix B.2). The optimum is that of scikit-learn's `LogisticRegression(solver="liblinear", C=C)`, which also
    penalises the intercept. As a subset has at most `4 ** size` patterns, equal pairs are counted instead of repeated,
    and all regressions take their Newton steps together, in float64: 7,000 regressions on 16,000 pairs each take
    seconds.

    Args:
        first: `(..., n, d)` 0 or 1, or bool: the first window of each pair. Leading axes are independent data sets.
        second: `(..., n, d)` the second window.
        label: `(..., n)` 0 or 1.
        size: number of features in a subset, from 1 to 6.
        C: inverse strength of the L2 penalty.

    Raises:
        ConfigError: If `size` is out of range, or `C` is not positive.
        DataError: If there is no pair, or a value is neither 0 nor 1.

    Example:
        >>> first = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> second = torch.tensor([[1, 0], [1, 1], [0, 0], [0, 1]])
        >>> subsets = exhaustive(first, second, torch.tensor([1, 1, 0, 0]), size=1)
        >>> subsets.features.tolist(), subsets.error.tolist()
        ([[0], [1]], [0.0, 0.5])
    """
    _check(first, second, label, size, C)
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
    """Return `(sets, 2, patterns)` the number of pairs with each label and each pattern.

    Args:
        code: `(sets, n, size)` the values of each feature in the two windows, as `2 x + x'`.
        start: `(sets, n)` twice the number of the data set, plus the label.
    """
    patterns = 4 ** code.shape[-1]
    pattern = code[..., 0].long()
    for place in range(1, code.shape[-1]):
        pattern = 4 * pattern + code[..., place]
    counts = torch.bincount((patterns * start + pattern).flatten(), minlength=2 * len(code) * patterns)
    return counts.view(len(code), 2, patterns).double()


def _design(size: int) -> Tensor:
    """Return `(patterns, rank)` the inputs of the regression in an orthonormal basis of their row space.

    A ridge solution lies in the row space and has the same norm in this basis. The basis saves the linearly dependent
    columns, such as x - x'.
    """
    digits = torch.arange(4**size)[:, None] // 4 ** torch.arange(size - 1, -1, -1) % 4
    x, y = (digits // 2).double(), (digits % 2).double()
    rows = torch.cat([x, y, x - y, (x - y).abs(), torch.ones(4**size, 1, dtype=torch.float64)], 1)
    left, scale, _ = torch.linalg.svd(rows, full_matrices=False)
    reduced: Tensor = (left * scale)[:, scale > 1e-9 * scale[0]]
    return reduced


def _logits(design: Tensor, counts: Tensor, C: float) -> Tensor:
    """Return `(b, patterns)` the logits of each regression at its optimum, by Newton's method.

    The objective is `|w|² / 2 + C Σ cross-entropy`; a step that increases it is halved.

    Args:
        design: `(patterns, rank)`.
        counts: `(b, 2, patterns)`.
        C: inverse strength of the penalty.
    """
    rank, total, positive = design.shape[1], counts.sum(1), counts[:, 1] @ design
    squares = (design[:, :, None] * design[:, None]).flatten(1)

    def objective(w: Tensor) -> tuple[Tensor, Tensor]:
        z = w @ design.T
        return z, w.square().sum(1) / 2 + C * ((total * F.softplus(z)).sum(1) - (positive * w).sum(1))

    w = design.new_zeros(len(counts), rank)
    logits, value = objective(w)
    for _ in range(STEPS):
        p = logits.sigmoid()
        gradient = w + C * ((total * p) @ design - positive)
        hessian = C * ((total * p * (1 - p)) @ squares).view(-1, rank, rank)
        hessian.diagonal(dim1=1, dim2=2).add_(1)
        step = torch.cholesky_solve(gradient[..., None], torch.linalg.cholesky(hessian)).squeeze(-1)
        if float((gradient * step).sum(1).max()) < TOLERANCE * max(C, 1):  # the rounding of the objective grows with C
            return logits
        logits, new = objective(w - step)
        while bool((worse := new > value + 1e-12 * value).any()):
            step = torch.where(worse[:, None], step / 2, step)
            logits, new = objective(w - step)
        w, value = w - step, new
    raise ArithmeticError(f"Newton's method did not converge in {STEPS} steps")


def _check(first: Tensor, second: Tensor, label: Tensor, size: int, C: float) -> None:
    """Raise an error if an argument of `exhaustive` is out of range."""
    most = min(LARGEST, first.shape[-1])
    if not 1 <= size <= most:
        raise ConfigError(f"size must be from 1 to {most} of {first.shape[-1]} features, got {size}")
    if not C > 0:
        raise ConfigError(f"C must be above 0, got {C}")
    if not label.numel():
        raise DataError("there is no pair of windows to select features on; rows with two windows or more are needed")
    for name, values in (("a feature", first), ("a feature", second), ("a label", label)):
        if (invalid := values[(values != 0) & (values != 1)]).numel():
            raise DataError(
                f"{name} has the value {invalid[0].item():g}; 0 and 1 are accepted: compare with a threshold"
            )
