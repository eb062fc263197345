"""Losses on distances and similarities of views: together if cut from one source, apart if not.

Each is called with embeddings `z (n, d)` and `source (n,)`, where equal numbers mark positive pairs, and takes a rule
of `negatives`. The formulas are those that the public code of CoLES uses (Babaev et al. 2022, Table 7): sums over pairs
but for `binomial_deviance` and `histogram`. In CoLES, `z` has unit length, so that distances lie in [0, 2].
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.losses.negatives import Candidates, HardNegatives, Rule


def squared_distances(z: Tensor) -> Tensor:
    """Return `(n, n)` squared Euclidean distances between the rows of `z (n, d)`, by one product; never below 0.

    Example:
        >>> squared_distances(torch.tensor([[0.0, 0.0], [3.0, 4.0]])).tolist()
        [[0.0, 25.0], [25.0, 0.0]]
    """
    square = z.square().sum(1)
    product: Tensor = _Gram.apply(z)  # type: ignore[no-untyped-call]
    return torch.add(square[:, None] + square, product, alpha=-2).clamp(min=0)


class _Gram(torch.autograd.Function):
    """z zᵀ, whose gradient is one product, where autograd, which sees two factors, takes two.

    In full precision, whatever autocast wants: a difference of such products would be left with two digits.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        with torch.autocast(z.device.type, enabled=False):
            return z @ z.T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        z: Tensor = ctx.saved_tensors[0]
        with torch.autocast(z.device.type, enabled=False):
            return (gradient + gradient.T) @ z


def contrastive(
    z: Tensor,
    source: Tensor,
    *,
    margin: float = 0.5,
    negatives: Rule = HardNegatives(),  # noqa: B008 (frozen)
    rng: torch.Generator | None = None,
) -> Tensor:
    """Return the contrastive loss of Hadsell et al. 2006, summed over positive and chosen negative pairs: a scalar.

    ``Σ_P D² + Σ_N max(0, margin - D)²`` with Euclidean distance D. Positive pairs are all unordered pairs of one
    source. The factor ½ of Babaev et al. 2022, Section 3.4, is left out as in the public code; as printed there, the
    label multiplies the repulsive term, against the text; the text is followed.

    Relations: `margin_loss` lets positive pairs alone that are near enough; `triplet` compares distances.

    Args:
        z: `(n, d)` embeddings, of unit length in CoLES, so that D lies in [0, 2].
        source: `(n,)` equal numbers mark positive pairs.
        margin: distance from which a negative pair costs nothing.
        negatives: which negative pairs count; the hardest of each row if not given.
        rng: for rules that draw.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> contrastive(z, torch.tensor([0, 0, 1])).item()
        0.0
        >>> round(contrastive(z, torch.tensor([0, 1, 2]), margin=1.0).item(), 4)  # rows 0 and 1, seen from both
        2.0
    """
    squared, same = squared_distances(z), source[:, None] == source
    distance, counts = _negatives(z, squared, same, negatives, rng)
    return (squared * same.triu(1)).sum() + ((margin - distance).clamp(min=0).square() * counts).sum()


def margin_loss(
    z: Tensor,
    source: Tensor,
    *,
    margin: float,
    beta: float,
    negatives: Rule = HardNegatives(),  # noqa: B008 (frozen)
    rng: torch.Generator | None = None,
) -> Tensor:
    """Return the margin loss of Wu et al. 2017, summed over positive and chosen negative pairs: a scalar.

    ``Σ_P max(0, D - β + m) + Σ_N max(0, β - D + m)``: positive pairs are to be nearer than β - m, negative ones farther
    than β + m. β is a constant, not learned, as in the public code of Babaev et al. 2022.

    Relations: `contrastive` squares its terms and pulls positive pairs to distance 0.

    Args:
        z: `(n, d)` embeddings.
        source: `(n,)` equal numbers mark positive pairs.
        margin: m.
        beta: β, the distance between positive and negative pairs.
        negatives: which negative pairs count.
        rng: for rules that draw.

    Example:
        >>> z = torch.tensor([[0.0], [0.5], [1.0]])
        >>> loss = margin_loss(z, torch.tensor([0, 0, 1]), margin=0.2, beta=0.4, negatives=HardNegatives(1))
        >>> round(loss.item(), 4)  # 0.5 - 0.4 + 0.2; rows 1 and 2 see each other at 0.5: twice 0.4 - 0.5 + 0.2
        0.5
    """
    squared, same = squared_distances(z), source[:, None] == source
    distance, counts = _negatives(z, squared, same, negatives, rng)
    pulled = (_root(squared) - beta + margin).clamp(min=0) * same.triu(1)
    return pulled.sum() + ((beta - distance + margin).clamp(min=0) * counts).sum()


def triplet(
    z: Tensor,
    source: Tensor,
    *,
    margin: float,
    negatives: Rule = HardNegatives(),  # noqa: B008 (frozen)
    rng: torch.Generator | None = None,
) -> Tensor:
    """Return the triplet loss of Hoffer and Ailon 2015, summed over triplets: a scalar.

    ``Σ max(0, D_ap - D_an + m)``. Each unordered pair of one source is a positive pair once, its anchor the row that
    comes first; the rule chooses negatives of that anchor for that pair. In the public code of Babaev et al. 2022,
    pairs and negatives are laid out in different orders where there is more than one negative per pair, so that most
    triplets have another anchor's negative, some of them of the anchor's own source; Table 7 has that in it.

    Relations: `contrastive` looks at one pair at a time.

    Args:
        z: `(n, d)` embeddings.
        source: `(n,)` equal numbers mark positive pairs.
        margin: m, by which the negative has to be farther than the positive.
        negatives: which rows make triplets with each positive pair.
        rng: for rules that draw.

    Example:
        >>> z = torch.tensor([[0.0], [1.0], [1.2], [3.0]])
        >>> loss = triplet(z, torch.tensor([0, 0, 1, 2]), margin=0.5, negatives=HardNegatives(2))
        >>> round(loss.item(), 4)  # of rows 0 and 1: 1 - 1.2 + 0.5, and nothing of 3
        0.3
    """
    squared, same = squared_distances(z), source[:, None] == source
    anchor, positive = same.triu(1).nonzero().unbind(1)
    near = squared[anchor, positive]
    candidates = Candidates(squared.detach()[anchor], same[anchor], z.shape[1], near.detach())
    chosen = negatives(candidates, rng)  # (pairs, k)
    hinge = (_root(near)[:, None] - _root(squared[anchor[:, None], chosen]) + margin).clamp(min=0)
    return hinge.masked_fill(candidates.same.gather(1, chosen), 0).sum()


def binomial_deviance(
    z: Tensor,
    source: Tensor,
    *,
    alpha: float,
    beta: float,
    cost: float,
    negatives: Rule = HardNegatives(),  # noqa: B008 (frozen)
    rng: torch.Generator | None = None,
) -> Tensor:
    """Return the binomial deviance of cosine similarities (Yi et al. 2014): a scalar.

    ``n (mean_P log(1 + exp(-α(S - β))) + mean_N log(1 + exp(αC(S - β))))`` for n rows with cosine similarity S, as in
    the public code of Babaev et al. 2022.

    Relations: a smooth hinge on either side of β, where `margin_loss` has two corners.

    Args:
        z: `(n, d)` embeddings, of any length.
        source: `(n,)` equal numbers mark positive pairs.
        alpha: α, how steep it is.
        beta: β, the similarity between positive and negative pairs.
        cost: C, how much steeper it is for negative pairs.
        negatives: which negative pairs count.
        rng: for rules that draw.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> loss = binomial_deviance(z, torch.tensor([0, 0]), alpha=1.0, beta=0.0, cost=1.0)
        >>> round(loss.item(), 4)  # 2 log 2
        1.3863
    """
    unit = F.normalize(z, dim=1)
    squared, same = squared_distances(unit), source[:, None] == source
    distance, counts = _negatives(unit, squared, same, negatives, rng)
    pulled = F.softplus(-alpha * (1 - squared / 2 - beta))  # S = 1 - D²/2
    pushed = F.softplus(alpha * cost * (1 - distance.square() / 2 - beta))
    return len(z) * (_mean(pulled, same.triu(1)) + _mean(pushed, counts))


def histogram(z: Tensor, source: Tensor, *, bins: int) -> Tensor:
    """Return the chance that a negative pair is more alike than a positive one, from two histograms: a scalar.

    ``Σ_r h⁻_r Σ_{q≤r} h⁺_q`` over nodes r on [-1, 1]; each cosine similarity is shared by its two neighbouring nodes in
    proportion to how near they are (Ustinova and Lempitsky 2016). All pairs count. 0 without positive or negative ones.

    Relations: the one loss here without a distance to choose.

    Args:
        z: `(n, d)` embeddings, of any length.
        source: `(n,)` equal numbers mark positive pairs.
        bins: number of nodes R, at least 2, ``2 / (R - 1)`` apart.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
        >>> histogram(z, torch.tensor([0, 0, 1]), bins=3).item(), histogram(z, torch.tensor([0, 1, 0]), bins=3).item()
        (0.0, 1.0)
    """
    unit = F.normalize(z, dim=1)
    with torch.autocast(z.device.type, enabled=False):
        place = ((unit @ unit.T).clamp(-1, 1) + 1) * ((bins - 1) / 2)
    low = place.detach().floor().long().clamp(max=bins - 2)
    share = place - low
    same = source[:, None] == source

    def heights(pairs: Tensor) -> Tensor:
        weight = pairs.triu(1) / pairs.triu(1).sum().clamp(min=1)
        empty = place.new_zeros(bins)
        lower = empty.index_add(0, low.flatten(), ((1 - share) * weight).flatten())
        return lower.index_add(0, low.flatten() + 1, (share * weight).flatten())

    return (heights(~same) * heights(same).cumsum(0)).sum()


def _negatives(
    z: Tensor, squared: Tensor, same: Tensor, negatives: Rule, rng: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Return `(n, k)` distances of each row to those chosen for it, and which of them count."""
    chosen = negatives(Candidates(squared.detach(), same, z.shape[1]), rng)
    return _root(squared.gather(1, chosen)), ~same.gather(1, chosen)


def _root(squared: Tensor) -> Tensor:
    return squared.clamp(min=1e-12).sqrt()  # the gradient of √ at 0 is no number


def _mean(values: Tensor, counts: Tensor) -> Tensor:
    return (values * counts).sum() / counts.sum().clamp(min=1)
