"""Losses by a softmax over cosine similarities: each embedding should find its partner in the batch; all are means.

The dataclass below a function is its configured form, called as ``(z, source, rng) -> scalar``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from eventvec.options import above_zero


def nt_xent(z: Tensor, source: Tensor, *, temperature: float) -> Tensor:
    """Return the normalised temperature-scaled cross-entropy of Chen et al. 2020, mean over positive pairs: a scalar.

    ``-log(exp(s_ij) / Σ_{k≠i} exp(s_ik))`` with ``s = cos(z_i, z_j) / τ``, over all ordered pairs of one source. Two
    rows of each of B sources give 2B anchors, each with one positive and 2B - 2 negatives (Mathieu et al. 2021,
    Equation 6, in the symmetric reading of the public code). With more rows per source, the same number for all, this
    is the supervised contrastive loss of Khosla et al. 2020, Equation 2, whose denominator contains the other
    positives.

    Relations: `info_nce` has separate queries and keys, and compares in one direction unless it is symmetric.

    Args:
        z: `(n, d)` embeddings of any length.
        source: `(n,)` equal numbers mark positive pairs.
        temperature: τ, above 0.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
        >>> round(nt_xent(z, torch.tensor([0, 0, 1, 1]), temperature=1.0).item(), 4)  # -log(e / (e + 2))
        0.5514
    """
    unit = F.normalize(z, dim=1)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    with torch.autocast(z.device.type, enabled=False):
        logits = (unit @ unit.T / temperature).masked_fill(itself, float("-inf"))
    positive = (source[:, None] == source) & ~itself
    losses = (logits.logsumexp(1, keepdim=True) - logits).masked_fill(~positive, 0)
    return losses.sum() / positive.sum().clamp(min=1)


@dataclass(frozen=True)
class NTXent:
    """`nt_xent` of cosine similarities; every view of another source is a negative.

    Args:
        temperature: Above 0; the lower it is, the more the nearest negatives weigh.

    Raises:
        ConfigError: If the temperature is not above 0 and finite.

    Example:
        >>> z, source = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0, 1])
        >>> round(NTXent(temperature=1.0)(z, source, torch.Generator()).item(), 4)  # log(1 + 1/e)
        0.3133
    """

    temperature: float = 0.5

    def __post_init__(self) -> None:
        above_zero("temperature", self.temperature)

    def __call__(self, z: Tensor, source: Tensor, rng: torch.Generator) -> Tensor:
        """Return a scalar, the mean over ordered positive pairs."""
        return nt_xent(z, source, temperature=self.temperature)


def info_nce(
    query: Tensor,
    key: Tensor,
    *,
    temperature: float,
    symmetric: bool = False,
    negatives: Tensor | None = None,
    compared: Tensor | None = None,
) -> Tensor:
    """Return InfoNCE (van den Oord et al. 2018) with cosine similarity, mean over queries: a scalar.

    ``-log(exp(s_ii) / Σ_j exp(s_ij))`` with ``s_ij = cos(q_i, k_j) / τ``: each query should find its own key among the
    keys of the batch (Mathieu et al. 2021, Equation 5, without the constant log K). Text retrieval calls this multiple
    negatives ranking and gives a scale, 1/τ, instead of τ (Henderson et al. 2017).

    Relations: `nt_xent` has one set of embeddings, and the other queries are negatives too.

    Args:
        query: `(n, d)` embeddings of any length.
        key: `(n, d)` embeddings of any length; key i belongs to query i.
        temperature: τ, above 0.
        symmetric: Take the mean of this loss and of the one in which keys look for their queries.
        negatives: `(n, k, d)` further negatives of each query, which stand in its sum only.
        compared: `(n, n + k)` bool: the keys, then the negatives, that stand in the sum of each query beside its own
            key; all if not given.

    Example:
        >>> round(info_nce(torch.eye(2), 3 * torch.eye(2), temperature=1.0).item(), 4)  # -log(e / (e + 1))
        0.3133
    """
    n = len(query)
    with torch.autocast(query.device.type, enabled=False):
        unit = F.normalize(query, dim=1)
        logits = unit @ F.normalize(key, dim=1).T / temperature
        if negatives is not None:
            further = (unit[:, None] * F.normalize(negatives, dim=2)).sum(2) / temperature
            logits = torch.cat([logits, further], 1)
    target = torch.arange(n, device=query.device)
    if compared is not None:
        itself = torch.eye(n, logits.shape[1], dtype=torch.bool, device=query.device)
        logits = logits.masked_fill(~(compared | itself), -torch.inf)
    loss = F.cross_entropy(logits, target)
    return (loss + F.cross_entropy(logits[:, :n].T, target)) / 2 if symmetric else loss
