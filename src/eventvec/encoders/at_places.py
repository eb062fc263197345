"""Encoders whose representation of a context depends on x*: cross-attention, and a kernel mean.

`at(x, covariate)` represents each row at a place or several; the encoder itself, called as any other, has no place and
represents the whole row. `context_at` takes the first where there is one. `targets_of` returns the places of rows.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec import distributed
from eventvec.encoders.heads import mlp
from eventvec.encoders.interface import Encoder, OverEvents, capabilities, check_multiple, readable_rows
from eventvec.encoders.points import PointEncoder, points_of
from eventvec.encoders.sets import SetEncoder
from eventvec.errors import DataError
from eventvec.options import above_zero
from eventvec.sequences import Sequences, single_events


def targets_of(points: PointEncoder, x: Sequences) -> Sequences:
    """Return the targets of each row, as many rows of events with the columns that points read.

    They are the nested rows `static["targets"]`. Points that read x and y also take one target for each row from the
    static columns `x*` and, where it is there, `y*`; these come first.
    """
    place, targets = x.static.get("x*"), x.static.get("targets")
    if isinstance(place, Tensor) and (points.covariates, points.observations) == (("x",), ("y",)):
        if len(place) != len(x):
            raise DataError(f"static['x*'] must have one value for each of {len(x):,} rows, got {len(place):,}")
        columns = {"x": place, "y": x.static.get("y*")}
        each = torch.arange(len(x), device=x.device)
        present = {name: values for name, values in columns.items() if isinstance(values, Tensor)}
        targets = single_events(present, each)
    if not isinstance(targets, Sequences):
        raise DataError(
            "a prediction is made at static['targets'] or static['x*'], which the rows lack; make it with "
            "views.hold_out(x)"
        )
    if len(targets) != len(x):
        raise DataError(f"static['targets'] must have one row for each of {len(x):,} rows, got {len(targets):,}")
    if x.device.type == "cpu" and (count := int(((x.lengths == 0) & (targets.lengths > 0)).sum())):
        raise DataError(f"a prediction needs a context, but {count:,} of {len(x):,} rows have no event")
    return targets


def context_at(encoder: Encoder, x: Sequences, encoded: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return `(targets, dim)` the context, which may depend on x*, and g_cov(x*) of each target.

    Args:
        encoded: `(n, dim)` the encoder's vectors of the rows, where they are known; not read if they depend on a place.
    """
    points = points_of(encoder)
    targets = targets_of(points, x)
    covariate = points.g_cov(targets, x, "*")
    if (of_places := capabilities(encoder).at) is None:
        return (encoder(x) if encoded is None else encoded)[targets.rows()], covariate
    at = distributed.share(of_places, x, targets.pad(covariate))
    return at.flatten(0, 1)[targets.rows() * targets.longest + targets.steps()], covariate


class CrossAttention(nn.Module):
    """Attention from x* to the points of a context: the deterministic path of an attentive neural process.

    Kim et al. 2019, as in the public Neural Process Family code: the query is the encoded x*, the keys are the encoded
    covariates of the context, by the same network, and the values are the representations of its points. Called without
    a place, the encoder returns the mean of these. Mathieu et al. 2021 call a neural process with self-attention and
    mean attentive; this one is not in their code.

    Relations: `SetEncoder` has the same representations of points and takes their mean.

    Args:
        events: The encoder of points.
        dim: Size of the embedding and of each layer, a multiple of `heads`.
        layers: Blocks of self-attention over the points, before x* attends to them.
        heads: Attention heads.
        pair: The network on each point, see `SetEncoder`.

    Raises:
        ConfigError: If an option is out of range or unknown.

    Example:
        >>> x = Sequences({"x": torch.rand(3), "y": torch.rand(3)}, torch.tensor([0]), torch.tensor([3]))
        >>> CrossAttention(PointEncoder(), dim=16).at(x, torch.rand(1, 1)).shape
        torch.Size([1, 16])
    """

    def __init__(
        self,
        events: PointEncoder,
        dim: int = 256,
        layers: int = 0,
        heads: int = 8,
        pair: Literal["mlp", "gated"] = "mlp",
    ) -> None:
        super().__init__()
        self.points = SetEncoder(events, dim, layers, heads, pair)
        check_multiple(dim, heads)
        self.dim, self.layers, self.heads, self.pair = dim, layers, heads, pair
        self.key = mlp(points_of(self.points).covariate_dim, dim, dim)

    @property
    def events(self) -> PointEncoder:
        """The encoder of points."""
        return points_of(self.points)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row, which depends on no place."""
        out: Tensor = self.points(x)
        return out

    def at(self, x: Sequences, covariate: Tensor) -> Tensor:
        """Return `(n, ..., dim)` from rows and encoded places `(n, ..., covariate_dim)`."""
        mask = (x.mask() | (x.lengths == 0).unsqueeze(1))[:, None, None]  # over no events, attention would give NaN
        places = _places(x, covariate)
        parts = (self.key(places), x.pad(self.key(self.events.g_cov(x))), x.pad(self.points.states(x)))
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        out = F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2)
        return out.reshape(*covariate.shape[:-1], self.dim).float()

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows that the encoder of points can read."""
        return readable_rows(self.points, x)


class KernelMean(OverEvents):
    """A weighted mean of the observations' representations: the conditional mean embedding of MetaCDE.

    ``Σ_i w_i g_obs(y_i)`` with ``w = softmax((K + λI)⁻¹ k(x, x*))``. The softmax is that of the public code of Mathieu
    et al. 2021; Ton et al. 2021 have none. The kernel k is Gaussian, with a learned scale and a learned length
    for each number of g_cov(x). Called without a place, the encoder returns the mean with equal weights, because the
    paper's has no representation of a context.

    The softmax flattens the weights: a weight of 1 among ten events becomes .23.

    Args:
        events: The encoder of points.
        ridge: λ, above 0.
        softmax: Whether the weights pass through a softmax; without it they are those of Ton et al., of either sign.

    Raises:
        ConfigError: If λ is not above 0 and finite.

    Example:
        >>> columns = {"x": torch.tensor([0.0, 9.0]), "y": torch.tensor([1.0, 2.0])}
        >>> KernelMean(PointEncoder())(Sequences(columns, torch.tensor([0]), torch.tensor([2]))).tolist()
        [[1.5]]
    """

    events: PointEncoder

    def __init__(self, events: PointEncoder, ridge: float = 1e-3, softmax: bool = True) -> None:
        super().__init__()
        above_zero("ridge", ridge)
        self.events, self.ridge, self.softmax = events, ridge, softmax
        self.dim = points_of(self).observation_dim
        self.raw_scale, self.raw_length = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(events.covariate_dim))

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, the mean of each row's observations, zeros for an empty row."""
        values: Tensor = self.events(x)[:, self.events.covariate_dim :].float()
        sums = values.new_zeros(len(x), self.dim).index_add(0, x.rows(), values)
        return sums / x.lengths.clamp(min=1).unsqueeze(1)

    def at(self, x: Sequences, covariate: Tensor) -> Tensor:
        """Return `(n, ..., dim)` from rows and encoded places `(n, ..., covariate_dim)`."""
        encoded, mask = x.pad(self.events(x)), x.mask()
        places = _places(x, covariate)
        covariates, values = encoded.split([self.events.covariate_dim, self.dim], -1)
        pairs = mask[:, :, None] & mask[:, None]
        identity = torch.eye(mask.shape[1], device=mask.device)
        kernel = self.kernel(covariates, covariates).masked_fill(~pairs, 0) + self.ridge * identity
        kernel = kernel + torch.diag_embed((~mask).float())  # padding has no influence on the solution for events
        toward = self.kernel(covariates, places).masked_fill(~mask.unsqueeze(2), 0)
        on_cpu = kernel.device.type == "cpu"  # a check for errors would wait for a device
        weights, _ = torch.linalg.solve_ex(kernel, toward, check_errors=on_cpu)
        if self.softmax:
            logits = weights.masked_fill(~mask.unsqueeze(2), float("-inf"))
            weights = logits.masked_fill((x.lengths == 0)[:, None, None], 0).softmax(1)
        out: Tensor = weights.mT @ values
        return out.reshape(*covariate.shape[:-1], self.dim)

    def kernel(self, first: Tensor, second: Tensor) -> Tensor:
        """Return `(n, i, j)` the Gaussian kernel between covariates `(n, i, covariate_dim)` and `(n, j, ...)`."""
        lengths = F.softplus(self.raw_length)
        squared = ((first.unsqueeze(2) - second.unsqueeze(1)) / lengths).square().sum(-1)
        out: Tensor = F.softplus(self.raw_scale) * (-squared / 2).exp()
        return out


def _places(x: Sequences, covariate: Tensor) -> Tensor:
    """Return `(n, k, covariate_dim)` the k encoded places of each row."""
    return covariate.reshape(len(x), math.prod(covariate.shape[1:-1]), covariate.shape[-1])
