"""Small networks on top of an encoder: multi-layer perceptrons and the projection heads of contrastive losses."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from eventvec.errors import ConfigError


def mlp(*sizes: int) -> nn.Sequential:
    """Return a multi-layer perceptron: linear layers of these sizes, with ReLU between them.

    Example:
        >>> mlp(2, 16, 3)
        Sequential(
          (0): Linear(in_features=2, out_features=16, bias=True)
          (1): ReLU()
          (2): Linear(in_features=16, out_features=3, bias=True)
        )
    """
    modules: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        modules += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def projection_head(dim: int, out: int) -> nn.Sequential:
    """Return the projection head of a contrastive loss: linear, batch norm, ReLU, linear, batch norm.

    As in the public code of Mathieu et al. 2021, there are no biases, and the last normalisation has no weights.
    Unlike there, the statistics are those of the batch in evaluation mode too: queries and keys have different
    statistics, and with running ones, which mix them, a trained model's validation loss is at chance level.

    Raises:
        ConfigError: If `out` is below 1.

    Example:
        >>> import torch
        >>> projection_head(8, 4)(torch.rand(3, 8)).shape
        torch.Size([3, 4])
    """
    if out < 1:
        raise ConfigError(f"projection must be at least 1, got {out}")
    first, second = nn.Linear(dim, dim, bias=False), nn.Linear(dim, out, bias=False)
    norms = nn.BatchNorm1d(dim, track_running_stats=False), nn.BatchNorm1d(out, affine=False, track_running_stats=False)
    return nn.Sequential(first, norms[0], nn.ReLU(), second, norms[1])


def expander(dim: int, out: int) -> nn.Sequential:
    """Return the expander of VICReg: linear, batch norm, ReLU, linear, with batch statistics in evaluation mode too.

    Relations: `projection_head` ends in a normalisation, which would already fix the variance that the VICReg loss
    controls.

    Example:
        >>> import torch
        >>> expander(8, 4)(torch.rand(3, 8)).shape
        torch.Size([3, 4])
    """
    norm = nn.BatchNorm1d(out, track_running_stats=False)
    return nn.Sequential(nn.Linear(dim, out, bias=False), norm, nn.ReLU(), nn.Linear(out, out, bias=False))
