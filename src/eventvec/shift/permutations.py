"""P-values of differences between two periods, by permutations of the periods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eventvec.shift.profiles import Profile

AT_ONCE = 256
"""The number of permutations whose differences are computed at once."""
ROUNDING, NOTHING = 1e-6, 1e-12
"""Statistics that differ by less, relative to their size, count as equal."""
FOLDS = 5
"""The number of folds of the linear model."""
NOISE = 0.95
"""The quantile of the permuted distances that is reported beside the distance."""


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """The difference of two periods in one column, or in the embeddings.

    `p` is the share of the arrangements, the actual one included, whose statistic is at least as large. `distance` is
    from 0 to 1, and 95 % of the permuted periods stay below `noise`.
    """

    p: float
    distance: float
    noise: float


def compare_shares(profile: Profile, weights: Tensor) -> tuple[PermutationTest, Tensor, Tensor, int | None]:
    """Return the difference of two periods in one column, the `(bins,)` shares of both, and the bin that differs most.

    `weights` is `(arrangements, rows)`, the actual arrangement first, see `Sample.weights`.

    The statistic is the largest difference of a bin's share, in units of its standard deviation over the permutations.
    The distance is half the sum of the absolute differences for categories (total variation). For numbers, it is the
    largest difference of the distribution functions (Kolmogorov-Smirnov), or of the shares of missing numbers.
    """
    old, new = zip(*(_means(profile, part) for part in weights.split(AT_ONCE)), strict=True)
    differences = (torch.cat(new) - torch.cat(old)).nan_to_num(0.0)  # no row of a permuted period has values
    spread = differences.square().mean(0).sqrt()
    standardised = torch.where(spread > 1e-12, differences.abs() / spread.clamp(min=1e-12), 0.0)
    statistics = _largest(standardised)
    distances = _largest(differences.abs()) if profile.ordered else differences.abs().sum(1) / 2
    most = int(standardised[0].argmax()) if standardised.shape[1] else None
    noise = float(distances.quantile(NOISE))
    return PermutationTest(_share_above(statistics), float(distances[0]), noise), old[0][0], new[0][0], most


def _means(profile: Profile, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return `(arrangements, bins)` the mean shares of the old and of the new period."""
    signs = ((-weights).clamp(min=0), weights.clamp(min=0))
    old, new = (part @ profile.shares / (part @ profile.present)[:, profile.group] for part in signs)
    return old, new


def _largest(values: Tensor) -> Tensor:
    """Return the largest value of each row, 0 for rows without bins."""
    return values.amax(1) if values.shape[1] else values.new_zeros(len(values))


def compare_vectors(vectors: Tensor, weights: Tensor) -> PermutationTest:
    """Return the difference of two periods in vectors, by their energy distance.

    The statistic is twice the mean distance of vectors of different periods, minus the mean distances within each
    (Székely and Rizzo 2013), after each dimension was divided by its standard deviation. The distance that is reported
    is the statistic divided by its first term, which is 0 for equal distributions and at most 1.
    """
    spread = vectors.std(0)
    scaled = (vectors - vectors.mean(0))[:, spread > 0] / spread[spread > 0]
    apart = torch.cdist(scaled, scaled)
    between, total = [], []
    for part in weights.float().split(AT_ONCE):
        to_new, to_old = part.clamp(min=0) @ apart, (-part).clamp(min=0)
        between.append((to_new * to_old).sum(1))
        total.append(-((part @ apart) * part).sum(1))
    statistics, firsts = torch.cat(total).double(), 2 * torch.cat(between).double()
    coefficients = torch.where(firsts > 0, statistics / firsts.clamp(min=1e-30), 0.0).clamp(min=0)
    return PermutationTest(_share_above(statistics), float(coefficients[0]), float(coefficients.quantile(NOISE)))


def linear_scores(vectors: Tensor, is_new: Tensor, entity: Tensor) -> tuple[np.ndarray, float]:
    """Return `(rows,)` how much each row looks like the new period to a linear model, and the AUROC of these scores.

    The model is a linear discriminant with shrinkage (Ledoit and Wolf 2004), cross-validated over entities.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import GroupKFold, cross_val_predict

    spread = vectors.std(0)
    x, y = vectors[:, spread > 0].double().numpy(), is_new.numpy()
    if not x.shape[1]:
        return np.zeros(len(x)), 0.5
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    folds = GroupKFold(FOLDS).split(x, y, entity.numpy())
    scores = cross_val_predict(model, x, y, cv=list(folds), method="decision_function")
    return scores, float(roc_auc_score(y, scores))


def _share_above(statistics: Tensor) -> float:
    """Return the share of statistics that are at least as large as the first one."""
    tolerance = max(ROUNDING * float(statistics[0].abs()), NOTHING)
    return float((statistics >= statistics[0] - tolerance).double().mean())
