"""Losses on graded similarities: each pair of rows has a target in [0, 1] (ExpCLR, Nonnenmacher et al. 2022).

All losses are means over ordered pairs. Their defaults are those of the method, `ExpCLR`.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from eventvec.losses.distances import mean_of, squared_distances

Normalization: TypeAlias = Literal["none", "row_mean"]
"""How `quadratic` and `expclr_loss` scale distances: not at all, or by the mean of each row."""

Hinge: TypeAlias = Literal["squared", "distance"]
"""What `pair_loss` compares with the margin: the squared distance, or the distance."""

MOST_ROWS = 8192
"""The largest number of rows whose distances `largest_distance` compares."""


def feature_similarity(features: Tensor, *, largest: float | None = None, entries: Tensor | None = None) -> Tensor:
    """Return `(n, n)` similarities of the expert features of each two rows: 1 if they are equal, 0 for the farthest.

    ``s_ij = (1 - ‖f_i - f_j‖ / max_kl ‖f_k - f_l‖)²`` (Nonnenmacher et al. 2022). If all rows are equal, all are 1.

    The paper does not speak of missing features. Here the distance of two rows that lack entries is that of the k of d
    entries which both have, times ``√(d/k)``, as if the others differed as much. The similarity of two rows that share
    no entry is NaN, and the losses leave this pair out. With `entries`, d and k are sums of these.

    Args:
        features: `(n, d)`, with columns on comparable scales, NaN where missing.
        largest: The maximum in the formula, such as `largest_distance` of a data set; by default, of these rows. The
            similarity of rows that are farther from each other is 0.
        entries: `(d,)` as how many entries each column counts where some are missing; 1 by default. The columns of one
            category, which are missing together, count as one entry if each has 1 by their number.

    Example:
        >>> feature_similarity(torch.tensor([[0.0], [1.0], [4.0]])).tolist()
        [[1.0, 0.5625, 0.0], [0.5625, 1.0, 0.0625], [0.0, 0.0625, 1.0]]
        >>> feature_similarity(torch.tensor([[0.0], [1.0], [4.0]]), largest=2.0)[0].tolist()
        [1.0, 0.25, 0.0]
    """
    distance = _shared_distances(features, entries=entries)
    bound = distance.nan_to_num(0.0).max() if largest is None else torch.as_tensor(largest)
    return (1 - distance / bound.clamp(min=1e-12)).clamp(min=0).square()


def largest_distance(features: Tensor, *, entries: Tensor | None = None) -> float:
    """Return the largest distance between the features of two rows, the maximum over a data set in the similarity.

    Of more than 8,192 rows, as many at even distances are compared.

    Args:
        features: As in `feature_similarity`.
        entries: As in `feature_similarity`.

    Example:
        >>> largest_distance(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, float("nan")]]))
        5.0
    """
    if not len(features):
        return 0.0
    few = features[:: max(1, -(-len(features) // MOST_ROWS))]
    return max(float(_shared_distances(few, block, entries).nan_to_num(0.0).max()) for block in few.split(512))


def with_labels(similarity: Tensor, label: Tensor, known: Tensor) -> Tensor:
    """Return `(n, n)` similarities in which two rows with labels have 1 if these are equal, and 0 if not.

    All other pairs keep the similarity of their features. The poster of ExpCLR names training with the labels of a
    fraction of the rows but not how; this is our reading, the paper's rule for labels on the pairs that have them.

    Args:
        similarity: `(n, n)`.
        label: `(n,)` classes.
        known: `(n,)` bool: the rows with a label.

    Example:
        >>> with_labels(torch.full((2, 2), 0.5), torch.tensor([2, 3]), torch.tensor([True, True])).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    same = (label[:, None] == label).to(similarity.dtype)
    return torch.where(known[:, None] & known, same, similarity)


def pair_loss(z: Tensor, similarity: Tensor, *, margin: float, hinge: Hinge) -> Tensor:
    """Return the pair loss over graded similarities, its mean over all ordered pairs of rows: a scalar.

    With the hinge on the squared distance, as the poster prints it, ``s_ij D_ij² + (1 - s_ij) max(0, m² - D_ij²)`` with
    Euclidean distance D (Nonnenmacher et al. 2022). From labels, s is 1 for two rows with the same label and 0
    otherwise; from expert features, it is `feature_similarity`. With the hinge on the distance, ``s_ij D_ij² + (1 -
    s_ij) max(0, m - D_ij)²``.

    Erratum: the poster says that the quadratic loss has the same minimum. That is true for the hinge on the distance:
    for D up to m it is ``(D - (1 - s)m)² + s(1 - s)m²``, the error of `quadratic` with Δ = m and a term that does not
    depend on D. The printed formula is linear in D²: its minimum is D = 0 for s above ½ and D = m for s below.

    Relations: `contrastive` has its hinge on the distance too, and takes no graded similarities.

    Args:
        z: `(n, d)` embeddings.
        similarity: `(n, n)`, in [0, 1]; pairs with NaN do not count.
        margin: Distance m from which a dissimilar pair costs nothing.
        hinge: On what the hinge is, `squared` or `distance`.

    Example:
        >>> z, label = torch.tensor([[0.0], [2.0], [3.0]]), torch.tensor([0, 0, 1])
        >>> same = (label[:, None] == label).float()
        >>> round(pair_loss(z, same, margin=2.0, hinge="squared").item() * 9, 4)  # 2 · (2² + (2² - 1²))
        14.0
    """
    if hinge == "distance":
        distance = _distances(z)
        attraction, repulsion = distance.square(), (margin - distance).clamp(min=0).square()
    else:
        attraction = squared_distances(z)
        repulsion = (margin**2 - attraction).clamp(min=0)
    known = ~similarity.isnan()
    s = similarity.nan_to_num(0.0)
    return mean_of(s * attraction + (1 - s) * repulsion, known)


def quadratic(z: Tensor, similarity: Tensor, *, delta: float | Literal["auto"], normalize: Normalization) -> Tensor:
    """Return the mean squared difference between the distances and those that the similarities prescribe: a scalar.

    ``1/N² Σ_ij ((1 - s_ij)Δ - D_ij)²`` over all ordered pairs, ``i = j`` included (Nonnenmacher et al. 2022, L_quad).

    Relations: `expclr_loss` gives more weight to the pairs with the largest errors, and tends to this loss at high
    temperatures.

    Args:
        z: `(n, d)` embeddings.
        similarity: `(n, n)`, in [0, 1]; 1 on the diagonal. Pairs with NaN do not count.
        delta: Distance Δ of a pair with similarity 0; `auto` takes ``1 / mean(1 - s)``, so the mean of the
            prescribed distances is 1, as is the mean of distances that are divided by their row's mean.
        normalize: `row_mean` divides distances by the mean of their row, which makes the loss independent of the
            scale of `z` (Kim et al. 2021); `none` takes them as they are.

    Example:
        >>> z = torch.tensor([[0.0], [1.0], [4.0]])
        >>> loss = quadratic(z, torch.eye(3), delta=1.0, normalize="none")
        >>> round(loss.item() * 9, 4)  # 2 · (0² + 3² + 2²)
        26.0
    """
    return mean_of(*_errors(z, similarity, delta, normalize))


def expclr_loss(
    z: Tensor,
    similarity: Tensor,
    *,
    delta: float | Literal["auto"],
    temperature: float,
    normalize: Normalization,
) -> Tensor:
    """Return the ExpCLR loss, in which pairs weigh more the larger the error of their distance is: a scalar.

    ``τ log(1/N² Σ_ij exp(((1 - s_ij)Δ - D_ij)² / τ))`` over all ordered pairs, ``i = j`` included (Nonnenmacher et
    al. 2022). The gradient weighs pairs by a softmax of their errors, an implicit choice of hard negatives.

    Relations: τ → ∞ gives `quadratic`, τ → 0 the error of the worst pair.

    Args:
        z: `(n, d)` embeddings.
        similarity: As in `quadratic`.
        delta: As in `quadratic`.
        temperature: τ, above 0; infinity gives `quadratic` itself.
        normalize: As in `quadratic`.

    Example:
        >>> z = torch.tensor([[0.0], [1.0]])
        >>> loss = expclr_loss(z, torch.eye(2), delta=3.0, temperature=1.0, normalize="none")  # errors 0, 4, 4, 0
        >>> round(loss.item(), 4), round(math.log((2 * math.exp(4) + 2) / 4), 4)
        (3.325, 3.325)
    """
    errors, known = _errors(z, similarity, delta, normalize)
    if math.isinf(temperature):
        return mean_of(errors, known)
    worst = errors.masked_fill(~known, 0).max().detach()
    below = ((errors - worst) / temperature).masked_fill(~known, 0)  # at most 0
    rise = mean_of(below.expm1(), known)  # the mean of the exponentials less 1, with all digits at high temperatures
    count = known.sum().clamp(min=1).to(errors.dtype)
    weighed = torch.where(known | ~known.any(), below, -math.inf)
    log_mean = torch.logsumexp(weighed.flatten(), 0) - count.log()  # with all digits at low temperatures
    return worst + temperature * torch.where(rise > -0.5, rise.clamp(min=-0.5).log1p(), log_mean)


def _errors(
    z: Tensor, similarity: Tensor, delta: float | Literal["auto"], normalize: Normalization
) -> tuple[Tensor, Tensor]:
    """Return `(n, n)` squared differences between the distances and those that the similarities prescribe.

    The second `(n, n)` is true for pairs with a similarity; the differences of the others mean nothing.
    """
    distance, known = _distances(z), ~similarity.isnan()
    if normalize == "row_mean":
        distance = distance / distance.mean(1, keepdim=True).clamp(min=1e-12)
    target = 1 - similarity.nan_to_num(1.0)
    target = target / mean_of(target, known).clamp(min=1e-12) if delta == "auto" else target * delta
    return (target - distance).square(), known


def _distances(z: Tensor) -> Tensor:
    """Return `(n, n)` Euclidean distances without a matrix product, which loses digits; the gradient at 0 is 0."""
    return torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")


def _shared_distances(features: Tensor, others: Tensor | None = None, entries: Tensor | None = None) -> Tensor:
    """Return `(n, m)` distances over the entries that both rows have, scaled to all entries; NaN if they share none."""
    others = features if others is None else others
    if not bool(features.isnan().any() | others.isnan().any()):
        return torch.cdist(others, features, compute_mode="donot_use_mm_for_euclid_dist")
    # Σ over shared entries of a² - 2ab + b², in float64, because the difference loses digits.
    a, b = (values.double().nan_to_num(0.0) for values in (others, features))
    in_a, in_b = ((~values.isnan()).double() for values in (others, features))
    squared = a.square() @ in_b.T + in_a @ b.square().T - 2 * a @ b.T
    counted = torch.ones(features.shape[1]).to(a) if entries is None else entries.to(a)
    shared = (in_a * counted) @ in_b.T
    scaled = squared.clamp(min=0) * (counted.sum() / shared.masked_fill(shared == 0, 1.0))
    return scaled.sqrt().masked_fill(shared == 0, math.nan).to(features.dtype)
