"""Losses of choosing the right one among a batch, by a softmax over cosine similarities; all are means."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def nt_xent(z: Tensor, source: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Return the normalised temperature-scaled cross-entropy of Chen et al. 2020, mean over positive pairs: a scalar.

    ``-log(exp(s_ij) / Σ_{k≠i} exp(s_ik))`` with ``s = cos(z_i, z_j) / τ``, over all ordered pairs of one source. With
    two rows of each of B sources: 2B anchors, each with one positive and 2B - 2 negatives (Mathieu et al. 2021,
    Equation 6, in the symmetric reading of the public code). With more rows of each, as many of all, the supervised
    contrastive loss of Khosla et al. 2020, Equation 2, whose denominator has the other positives too.

    Relations: `info_nce` asks in one direction and has queries and keys apart.

    Args:
        z: `(n, d)` embeddings, of any length.
        source: `(n,)` equal numbers mark positive pairs.
        temperature: τ, above 0.

    Example:
        >>> import math
        >>> z = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
        >>> loss = nt_xent(z, torch.tensor([0, 0, 1, 1]), temperature=1.0)  # positives e, two negatives 1 each
        >>> round(loss.item(), 4), round(-math.log(math.e / (math.e + 2)), 4)
        (0.5514, 0.5514)
    """
    unit = F.normalize(z, dim=1)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    with torch.autocast(z.device.type, enabled=False):
        logits = (unit @ unit.T / temperature).masked_fill(itself, float("-inf"))
    positive = (source[:, None] == source) & ~itself
    losses = (logits.logsumexp(1, keepdim=True) - logits).masked_fill(~positive, 0)
    return losses.sum() / positive.sum().clamp(min=1)


def info_nce(query: Tensor, key: Tensor, *, temperature: float = 0.5) -> Tensor:
    """Return InfoNCE (van den Oord et al. 2018) with cosine similarity, mean over queries: a scalar.

    ``-log(exp(s_ii) / Σ_j exp(s_ij))`` with ``s_ij = cos(q_i, k_j) / τ``: each query has to find its own key among
    those of the batch, not the other way round (Mathieu et al. 2021, Equation 5, without the constant log K).

    Relations: `nt_xent` asks from both sides and counts the other queries as negatives too.

    Args:
        query: `(n, d)`, of any length.
        key: `(n, d)`, key i belongs to query i.
        temperature: τ, above 0.

    Example:
        >>> import math
        >>> loss = info_nce(torch.eye(2), 3 * torch.eye(2), temperature=1.0)
        >>> round(loss.item(), 4), round(-math.log(math.e / (math.e + 1)), 4)
        (0.3133, 0.3133)
    """
    with torch.autocast(query.device.type, enabled=False):
        logits = F.normalize(query, dim=1) @ F.normalize(key, dim=1).T / temperature
    return F.cross_entropy(logits, torch.arange(len(query), device=query.device))


def multiple_negatives(query: Tensor, key: Tensor, *, scale: float = 20.0, symmetric: bool = False) -> Tensor:
    """Return the multiple negatives ranking loss (Henderson et al. 2017), mean over queries: a scalar.

    ``-log(exp(s_ii) / Σ_j exp(s_ij))`` with ``s_ij = scale · cos(q_i, k_j)``: the other keys of the batch are the
    negatives (Liu and Quan 2024, Section 4.2, whose equation has no scale; the public code's is 20).

    Relations: `info_nce` at temperature ``1 / scale``, under the name and the constant that text retrieval uses.

    Args:
        query: `(n, d)`, of any length: descriptions.
        key: `(n, d)`, key i belongs to query i: histories.
        scale: of the cosines, above 0.
        symmetric: mean of this and of the same with the roles exchanged: keys ask for their queries.

    Example:
        >>> import math
        >>> loss = multiple_negatives(torch.eye(2), 3 * torch.eye(2), scale=1.0)
        >>> round(loss.item(), 4), round(-math.log(math.e / (math.e + 1)), 4)
        (0.3133, 0.3133)
    """
    loss = info_nce(query, key, temperature=1 / scale)
    return (loss + info_nce(key, query, temperature=1 / scale)) / 2 if symmetric else loss
