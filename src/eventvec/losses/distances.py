"""Losses on distances and cosine similarities of views: views of one source attract, views of different sources repel.

Each loss is a function of embeddings `z (n, d)` and `source (n,)`, where equal numbers mark positive pairs. Below it
stands its configured form: a frozen dataclass that holds the options and is called as ``(z, source, rng) -> scalar``.
Those on distances first scale embeddings to unit length (Babaev et al. 2022, Section 3.4), so distances are in [0,
2]. Defaults and formulas are those of the public code of CoLES (Babaev et al. 2022, Table 7). The losses are sums over
pairs, except for `binomial_deviance` and `histogram`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.losses.negatives import Candidates, HardNegatives, PairNegatives, Rule, TripletNegatives
from eventvec.losses.positives import positive_pairs
from eventvec.options import above_zero, at_least, within


def squared_distances(z: Tensor) -> Tensor:
    """Return `(n, n)` squared Euclidean distances between the rows of `z (n, d)`, never below 0, by one matrix product.

    Example:
        >>> squared_distances(torch.tensor([[0.0, 0.0], [3.0, 4.0]])).tolist()
        [[0.0, 25.0], [25.0, 0.0]]
    """
    square = z.square().sum(1)
    return torch.add(square[:, None] + square, _gram(z), alpha=-2).clamp(min=0)


class _Gram(torch.autograd.Function):
    """The matrix product z zᵀ, whose gradient takes one matrix product; autograd, which sees two factors, takes two.

    It runs in full precision under autocast too: a difference of bfloat16 products would keep only two digits.
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


_gram: Callable[[Tensor], Tensor] = _Gram.apply


def contrastive(
    z: Tensor, source: Tensor, *, margin: float, negatives: Rule, rng: torch.Generator | None = None
) -> Tensor:
    """Return the contrastive loss of Hadsell et al. 2006, summed over positive and chosen negative pairs: a scalar.

    ``Σ_P D² + Σ_N max(0, margin - D)²`` with Euclidean distance D. Positive pairs are all unordered pairs of one
    source. The factor ½ of Babaev et al. 2022, Section 3.4, is left out, as in the public code. The equation printed
    there multiplies the repulsive term by the label, which contradicts the text; this function follows the text.

    Relations: `margin_loss` ignores positive pairs that are near enough; `triplet` compares distances.

    Args:
        z: `(n, d)` embeddings, of unit length in CoLES, so D is in [0, 2].
        source: `(n,)` equal numbers mark positive pairs.
        margin: Distance from which a negative pair costs nothing.
        negatives: Which negative pairs count.
        rng: Random generator, for rules that draw.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> contrastive(z, torch.tensor([0, 0, 1]), margin=0.5, negatives=HardNegatives()).item()
        0.0
    """
    squared, positive, distance, negative = _pairs(z, source, negatives, rng)
    return (squared * positive).sum() + ((margin - distance).clamp(min=0).square() * negative).sum()


@dataclass(frozen=True)
class Contrastive:
    """`contrastive` on the unit sphere, the loss of CoLES.

    Args:
        margin: Distance from which a view of another source costs nothing, in (0, 2].
        negatives: Which views of other sources count.

    Raises:
        ConfigError: If the margin is not in (0, 2].

    Example:
        >>> Contrastive(margin=0.5)(torch.eye(2), torch.tensor([0, 1]), torch.Generator()).item()
        0.0
    """

    margin: float = 0.5
    negatives: PairNegatives = HardNegatives()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        within("margin", self.margin, 0, 2, "(]")

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar, a sum over pairs."""
        return contrastive(F.normalize(z, dim=-1), source, **vars(self), rng=rng)


def margin_loss(
    z: Tensor, source: Tensor, *, margin: float, beta: float, negatives: Rule, rng: torch.Generator | None = None
) -> Tensor:
    """Return the margin loss of Wu et al. 2017, summed over positive and chosen negative pairs: a scalar.

    ``Σ_P max(0, D - β + m) + Σ_N max(0, β - D + m)``: positive pairs should be nearer than β - m, negative pairs
    farther than β + m. β is a constant and is not learned, as in the public code of Babaev et al. 2022.

    Relations: `contrastive` squares its terms and pulls positive pairs to distance 0.

    Args:
        z: `(n, d)` embeddings.
        source: `(n,)` equal numbers mark positive pairs.
        margin: m.
        beta: β, the distance between positive and negative pairs.
        negatives: Which negative pairs count.
        rng: Random generator, for rules that draw.

    Example:
        >>> z = torch.tensor([[0.0], [0.5], [1.0]])
        >>> loss = margin_loss(z, torch.tensor([0, 0, 1]), margin=0.2, beta=0.4, negatives=HardNegatives(1))
        >>> round(loss.item(), 4)  # 0.5 - 0.4 + 0.2, and 0.4 - 0.5 + 0.2 from each end of rows 1 and 2
        0.5
    """
    squared, positive, distance, negative = _pairs(z, source, negatives, rng)
    attraction = (_root(squared) - beta + margin).clamp(min=0) * positive
    return attraction.sum() + ((beta - distance + margin).clamp(min=0) * negative).sum()


@dataclass(frozen=True)
class Margin:
    """`margin_loss` on the unit sphere.

    Args:
        margin: The distance of pairs from `beta`, above 0; 0.2, or 0.3 with a `beta` of 0.6, in the public code.
        beta: Distance between positive and negative pairs, in (0, 2].
        negatives: Which views of other sources count.

    Raises:
        ConfigError: If the margin is not above 0 and finite, or beta is not in (0, 2].

    Example:
        >>> Margin()(torch.eye(2), torch.tensor([0, 1]), torch.Generator()).item()
        0.0
    """

    margin: float = 0.2
    beta: float = 0.4
    negatives: PairNegatives = HardNegatives()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        above_zero("margin", self.margin)
        within("beta", self.beta, 0, 2, "(]")

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar, a sum over pairs."""
        return margin_loss(F.normalize(z, dim=-1), source, **vars(self), rng=rng)


def triplet(z: Tensor, source: Tensor, *, margin: float, negatives: Rule, rng: torch.Generator | None = None) -> Tensor:
    """Return the triplet loss of Hoffer and Ailon 2015, summed over triplets: a scalar.

    ``Σ max(0, D_ap - D_an + m)``. Each unordered pair of one source is a positive pair once, and its anchor is the row
    that comes first; the rule chooses negatives of that anchor for that pair. The public code of Babaev et al. 2022
    lists pairs and negatives in different orders if there is more than one negative per pair. Most of its triplets then
    contain the negative of another anchor, which in some triplets has the same source as the anchor. The results in
    Table 7 include this error.

    Relations: `contrastive` looks at one pair at a time.

    Args:
        z: `(n, d)` embeddings.
        source: `(n,)` equal numbers mark positive pairs.
        margin: m, by which the negative should be farther than the positive.
        negatives: Which rows form triplets with each positive pair.
        rng: Random generator, for rules that draw.

    Example:
        >>> z = torch.tensor([[0.0], [1.0], [1.2], [3.0]])
        >>> loss = triplet(z, torch.tensor([0, 0, 1, 2]), margin=0.5, negatives=HardNegatives(2))
        >>> round(loss.item(), 4)  # rows 0 and 1 give 1 - 1.2 + 0.5 with row 2 and nothing with row 3
        0.3
    """
    squared, same = squared_distances(z), source[:, None] == source
    anchor, positive = positive_pairs(source)
    squared_positive = squared[anchor, positive]  # (pairs,)
    candidates = Candidates(squared.detach()[anchor], same[anchor], z.shape[1], squared_positive.detach())
    chosen = negatives(candidates, rng)  # (pairs, k)
    difference = _root(squared_positive)[:, None] - _root(squared[anchor[:, None], chosen])
    return (difference + margin).clamp(min=0).masked_fill(candidates.same.gather(1, chosen), 0).sum()


@dataclass(frozen=True)
class Triplet:
    """`triplet` on the unit sphere.

    Args:
        margin: By how much the negative should be farther than the positive, in (0, 2]; 0.3 or 0.6 in the public code.
        negatives: Which views of other sources form triplets with a positive pair.

    Raises:
        ConfigError: If the margin is not in (0, 2].

    Example:
        >>> Triplet()(torch.eye(2)[[0, 0, 1]], torch.tensor([0, 0, 1]), torch.Generator()).item()
        0.0
    """

    margin: float = 0.3
    negatives: TripletNegatives = HardNegatives()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        within("margin", self.margin, 0, 2, "(]")

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar, a sum over triplets."""
        return triplet(F.normalize(z, dim=-1), source, **vars(self), rng=rng)


def binomial_deviance(
    z: Tensor,
    source: Tensor,
    *,
    alpha: float,
    beta: float,
    cost: float,
    negatives: Rule,
    rng: torch.Generator | None = None,
) -> Tensor:
    """Return the binomial deviance of cosine similarities (Yi et al. 2014): a scalar.

    ``n (mean_P log(1 + exp(-α(S - β))) + mean_N log(1 + exp(αC(S - β))))`` for n rows with cosine similarity S, as in
    the public code of Babaev et al. 2022.

    Relations: This is a smooth hinge on either side of β; `margin_loss` has two corners.

    Args:
        z: `(n, d)` embeddings of any length.
        source: `(n,)` equal numbers mark positive pairs.
        alpha: α, the slope.
        beta: β, the similarity between positive and negative pairs.
        cost: C, the factor of the slope for negative pairs.
        negatives: Which negative pairs count.
        rng: Random generator, for rules that draw.

    Example:
        >>> z, source = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
        >>> loss = binomial_deviance(z, source, alpha=1.0, beta=0.0, cost=1.0, negatives=HardNegatives())
        >>> round(loss.item(), 4)  # 2 log 2
        1.3863
    """
    unit = F.normalize(z, dim=1)
    squared, positive, distance, negative = _pairs(unit, source, negatives, rng)
    attraction = F.softplus(-alpha * (1 - squared / 2 - beta))  # S = 1 - D²/2
    repulsion = F.softplus(alpha * cost * (1 - distance.square() / 2 - beta))
    return len(z) * (mean_of(attraction, positive) + mean_of(repulsion, negative))


@dataclass(frozen=True)
class BinomialDeviance:
    """`binomial_deviance` of cosine similarities.

    Args:
        alpha: Slope, above 0.
        beta: Similarity between positive and negative pairs; 0.3 or 0.4 in the public code of CoLES.
        cost: Factor of the slope for negative pairs, above 0.
        negatives: Which views of other sources count.

    Raises:
        ConfigError: If alpha or cost is not above 0 and finite.

    Example:
        >>> z, source = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0, 1])
        >>> 0 < BinomialDeviance()(z, source, torch.Generator()).item() < 5
        True
    """

    alpha: float = 1.0
    beta: float = 0.4
    cost: float = 1.0
    negatives: PairNegatives = HardNegatives()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        above_zero("alpha", self.alpha)
        above_zero("cost", self.cost)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar, means over pairs times the number of views."""
        return binomial_deviance(z, source, **vars(self), rng=rng)


def histogram(z: Tensor, source: Tensor, *, bins: int) -> Tensor:
    """Return the probability that a negative pair is more similar than a positive one, from two histograms: a scalar.

    ``Σ_r h⁻_r Σ_{q≤r} h⁺_q`` over nodes r on [-1, 1]. Each cosine similarity is divided between its two neighbouring
    nodes in proportion to its closeness to them (Ustinova and Lempitsky 2016). All pairs count. The loss is 0 if there
    are no positive or no negative pairs.

    Relations: This is the only loss of this module without a margin or threshold.

    Args:
        z: `(n, d)` embeddings of any length.
        source: `(n,)` equal numbers mark positive pairs.
        bins: Number of nodes R, at least 2, at intervals of ``2 / (R - 1)``.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
        >>> histogram(z, torch.tensor([0, 0, 1]), bins=3).item(), histogram(z, torch.tensor([0, 1, 0]), bins=3).item()
        (0.0, 1.0)
    """
    unit = F.normalize(z, dim=1)
    with torch.autocast(z.device.type, enabled=False):
        position = ((unit @ unit.T).clamp(-1, 1) + 1) * ((bins - 1) / 2)
    low = position.detach().floor().long().clamp(max=bins - 2)
    share = position - low
    same = source[:, None] == source

    def heights(pairs: Tensor) -> Tensor:
        weight = pairs.triu(1) / pairs.triu(1).sum().clamp(min=1)
        empty = position.new_zeros(bins)
        lower = empty.index_add(0, low.flatten(), ((1 - share) * weight).flatten())
        return lower.index_add(0, low.flatten() + 1, (share * weight).flatten())

    return (heights(~same) * heights(same).cumsum(0)).sum()


@dataclass(frozen=True)
class Histogram:
    """`histogram` of cosine similarities, over all pairs.

    Args:
        bins: Number of nodes of the histograms, at least 2; 25 or 51 in the public code of CoLES.

    Raises:
        ConfigError: If there are fewer than 2 bins.

    Example:
        >>> Histogram()(torch.eye(2)[[0, 0, 1]], torch.tensor([0, 0, 1]), torch.Generator()).item()
        0.0
    """

    bins: int = 25

    def __post_init__(self) -> None:
        at_least("bins", self.bins, 2)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar in [0, 1]."""
        return histogram(z, source, bins=self.bins)


def _pairs(z: Tensor, source: Tensor, negatives: Rule, rng: torch.Generator | None) -> tuple[Tensor, ...]:
    """Return `(n, n)` squared distances and a mask of positive pairs, `(n, k)` distances to chosen rows and a mask."""
    squared, same = squared_distances(z), source[:, None] == source
    chosen = negatives(Candidates(squared.detach(), same, z.shape[1]), rng)
    return squared, same.triu(1), _root(squared.gather(1, chosen)), ~same.gather(1, chosen)


def _root(squared: Tensor) -> Tensor:
    return squared.clamp(min=1e-12).sqrt()  # the gradient of √ is infinite at 0


def mean_of(values: Tensor, counts: Tensor) -> Tensor:
    """Return the mean of the values that count; 0 if none does."""
    return (values * counts).sum() / counts.sum().clamp(min=1)
