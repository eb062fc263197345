"""Small networks behind an encoder: multi-layer perceptrons and the projection heads of contrastive losses."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from eventvec.errors import ConfigError


def mlp(*sizes: int) -> nn.Sequential:
    """Return linear layers of these sizes with ReLU between them.

    Example:
        >>> mlp(2, 16, 3)
        Sequential(
          (0): Linear(in_features=2, out_features=16, bias=True)
          (1): ReLU()
          (2): Linear(in_features=16, out_features=3, bias=True)
        )
    """
    pieces: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        pieces += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*pieces[:-1])


def projection_head(dim: int, out: int) -> nn.Sequential:
    """Return the head through which contrastive losses look: linear, batch norm, ReLU, linear, batch norm.

    As in the public code of Mathieu et al. 2021: no biases, and the last normalisation has no weights. Unlike there,
    the statistics are those of the batch in evaluation too. Only a loss looks through it, and queries and keys have
    statistics of their own: under running ones, which mix them, a trained model's validation loss is that of chance.

    Example:
        >>> import torch
        >>> projection_head(8, 4)(torch.rand(3, 8)).shape
        torch.Size([3, 4])
    """
    if out < 1:
        raise ConfigError(f"projection is {out}; at least 1 is needed")
    first, second = nn.Linear(dim, dim, bias=False), nn.Linear(dim, out, bias=False)
    norms = nn.BatchNorm1d(dim, track_running_stats=False), nn.BatchNorm1d(out, affine=False, track_running_stats=False)
    return nn.Sequential(first, norms[0], nn.ReLU(), second, norms[1])


def expander(dim: int, out: int) -> nn.Sequential:
    """Return linear, batch norm, ReLU, linear; the statistics are those of the batch in evaluation too.

    Relations: `sets.projection_head` ends in a normalisation, which would do half of what VICReg asks for.

    Example:
        >>> import torch
        >>> expander(8, 4)(torch.rand(3, 8)).shape
        torch.Size([3, 4])
    """
    norm = nn.BatchNorm1d(out, track_running_stats=False)
    return nn.Sequential(nn.Linear(dim, out, bias=False), norm, nn.ReLU(), nn.Linear(out, out, bias=False))
