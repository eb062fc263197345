"""Losses on graded similarities: each pair of rows has a target in [0, 1] (ExpCLR, Nonnenmacher et al. 2022).

All losses are means over ordered pairs. Their defaults are those of the method, `ExpCLR`.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from eventvec.losses.distances import squared_distances

Normalization: TypeAlias = Literal["none", "row_mean"]


def feature_similarity(features: Tensor) -> Tensor:
    """Return `(n, n)` similarities of the expert features of each two rows: 1 if they are equal, 0 for the farthest.

    ``s_ij = (1 - ‖f_i - f_j‖ / max_kl ‖f_k - f_l‖)²`` (Nonnenmacher et al. 2022). If all rows are equal, all are 1.

    Args:
        features: `(n, d)`, with columns on comparable scales.

    Example:
        >>> feature_similarity(torch.tensor([[0.0], [1.0], [4.0]])).tolist()
        [[1.0, 0.5625, 0.0], [0.5625, 1.0, 0.0625], [0.0, 0.0625, 1.0]]
    """
    distance = _distances(features)
    return (1 - distance / distance.max().clamp(min=1e-12)).square()


def pair_loss(z: Tensor, similarity: Tensor, *, margin: float) -> Tensor:
    """Return the pair loss over graded similarities, its mean over all ordered pairs of rows: a scalar.

    ``s_ij D_ij² + (1 - s_ij) max(0, m² - D_ij²)`` with Euclidean distance D (Nonnenmacher et al. 2022). From labels,
    s is 1 for two rows with the same label and 0 otherwise; from expert features, it is `feature_similarity`.

    Relations: `contrastive` has its hinge on the distance instead of its square, and takes no graded similarities;
    `quadratic` has the same optimum for graded similarities and a continuous derivative.

    Args:
        z: `(n, d)` embeddings.
        similarity: `(n, n)`, in [0, 1].
        margin: Distance from which a dissimilar pair costs nothing.

    Example:
        >>> z, label = torch.tensor([[0.0], [2.0], [3.0]]), torch.tensor([0, 0, 1])
        >>> same = (label[:, None] == label).float()
        >>> round(pair_loss(z, same, margin=2.0).item() * 9, 4)  # 2 · (2² + (2² - 1²))
        14.0
    """
    squared = squared_distances(z)
    return (similarity * squared + (1 - similarity) * (margin**2 - squared).clamp(min=0)).mean()


def quadratic(z: Tensor, similarity: Tensor, *, delta: float | Literal["auto"], normalize: Normalization) -> Tensor:
    """Return the mean squared difference between the distances and those that the similarities prescribe: a scalar.

    ``1/N² Σ_ij ((1 - s_ij)Δ - D_ij)²`` over all ordered pairs, ``i = j`` included (Nonnenmacher et al. 2022, L_quad).

    Relations: `expclr_loss` gives more weight to the pairs with the largest errors, and tends to this loss at high
    temperatures.

    Args:
        z: `(n, d)` embeddings.
        similarity: `(n, n)`, in [0, 1]; 1 on the diagonal.
        delta: Distance Δ of a pair with similarity 0; `auto` takes ``1 / mean(1 - s)``, so that the mean of the
            prescribed distances is 1, as is the mean of distances that are divided by their row's mean.
        normalize: `row_mean` divides distances by the mean of their row, which makes the loss independent of the
            scale of `z` (Kim et al. 2021); `none` takes them as they are.

    Example:
        >>> z = torch.tensor([[0.0], [1.0], [4.0]])
        >>> loss = quadratic(z, torch.eye(3), delta=1.0, normalize="none")
        >>> round(loss.item() * 9, 4)  # 2 · (0² + 3² + 2²)
        26.0
    """
    return _errors(z, similarity, delta, normalize).mean()


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
        similarity: `(n, n)`, in [0, 1]; 1 on the diagonal.
        delta: As in `quadratic`.
        temperature: τ, above 0; infinity gives `quadratic` itself.
        normalize: As in `quadratic`.

    Example:
        >>> z = torch.tensor([[0.0], [1.0]])
        >>> loss = expclr_loss(z, torch.eye(2), delta=3.0, temperature=1.0, normalize="none")  # errors 0, 4, 4, 0
        >>> round(loss.item(), 4), round(math.log((2 * math.exp(4) + 2) / 4), 4)
        (3.325, 3.325)
    """
    errors = _errors(z, similarity, delta, normalize)
    if math.isinf(temperature):
        return errors.mean()
    return temperature * (torch.logsumexp(errors.flatten() / temperature, 0) - math.log(errors.numel()))


def _errors(z: Tensor, similarity: Tensor, delta: float | Literal["auto"], normalize: Normalization) -> Tensor:
    """Return `(n, n)` squared differences between the distances and those that the similarities prescribe."""
    distance = _distances(z)
    if normalize == "row_mean":
        distance = distance / distance.mean(1, keepdim=True).clamp(min=1e-12)
    target = 1 - similarity
    target = target / target.mean().clamp(min=1e-12) if delta == "auto" else target * delta
    return (target - distance).square()


def _distances(z: Tensor) -> Tensor:
    """Return `(n, n)` Euclidean distances without a matrix product, which loses digits; the gradient at 0 is 0."""
    return torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")
