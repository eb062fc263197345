"""The hierarchical contrastive loss of TS2Vec: two views of a series agree at each step, at all scales of time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def hierarchical_contrast(first: Tensor, second: Tensor, *, alpha: float = 0.5) -> Tensor:
    """Return the loss of Yue et al. 2022, Section 3.3 and Algorithm 1, a mean over scales: a scalar.

    At each scale, the representation of series i and step t in one view should find that in the other view: among all
    series at step t (instance-wise, weight α), and among all steps of series i (temporal, weight 1 - α). The next scale
    takes the maximum of each two neighbouring steps, until one step is left, which has no temporal part. Products are
    compared without scaling to unit length, as there.

    Relations: `nt_xent` compares one vector of each view, with cosines and a temperature.

    Args:
        first: `(n, steps, d)` representations of the steps in one view.
        second: `(n, steps, d)` those of the same steps in the other view.
        alpha: The weight of the instance-wise part, in [0, 1].

    Example:
        >>> z = 9 * torch.eye(4).view(2, 2, 4)  # two series of two steps, all different
        >>> round(hierarchical_contrast(z, z).item(), 4), round(hierarchical_contrast(z, z.flip(0)).item(), 1)
        (0.0, 61.0)
    """
    losses = []
    while True:
        parts = alpha * _one_in_many(first.transpose(0, 1), second.transpose(0, 1))
        if first.shape[1] > 1:
            parts = parts + (1 - alpha) * _one_in_many(first, second)
        losses.append(parts)
        if first.shape[1] < 2:
            return torch.stack(losses).mean()
        first, second = (F.max_pool1d(z.transpose(1, 2), 2).transpose(1, 2) for z in (first, second))


def _one_in_many(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean cross-entropy of finding `second[b, i]` among the 2m - 1 others for `first[b, i]`, and back."""
    many = first.shape[1]
    if many < 2:
        return first.new_zeros(())
    both = torch.cat([first, second], 1)  # (b, 2m, d)
    itself = torch.eye(2 * many, dtype=torch.bool, device=both.device)
    logits = (both @ both.transpose(1, 2)).masked_fill(itself, float("-inf"))
    partner = torch.arange(2 * many, device=both.device).roll(many)
    return F.cross_entropy(logits.flatten(0, 1), partner.repeat(len(both)))
