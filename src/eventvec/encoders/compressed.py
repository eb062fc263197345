"""Features of an encoder without parameters on one scale, and their leading principal components."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from eventvec.encoders.interface import Encoder, capabilities, check_encoder, readable_rows
from eventvec.errors import ConfigError, DataError
from eventvec.options import at_least
from eventvec.sequences import Sequences

FARTHEST = 10.0
"""The largest standardised feature by its size, so rows far from those of the fit do not dominate the vector."""
ROWS = 50_000
"""The largest number of rows that a fit reads."""
NUMBERS = 2**27
"""The largest number of features in memory during a fit, of all rows together: 512 MiB."""
BLOCK = 4096
"""The number of rows that are converted to float64 at once."""


class Compressed(nn.Module):
    """The features of another encoder, standardised and projected onto their leading principal components.

    `fit` chooses both by training rows, once. A feature is standardised by its mean and standard deviation and clipped
    to ±10; one that is constant in the training rows is 0 everywhere. All components are divided by the standard
    deviation of the first, so they keep their scales relative to one another, and the entry of each with the
    largest size is positive. If the features vary in fewer directions than there are components, the last numbers of
    each vector are 0.

    The encoder has the state of the other encoder, if that has one.

    Relations: `Joined` puts such vectors beside a learned one.

    Args:
        encoder: The other encoder, such as `RunningHandcrafted`. It is not trained.
        components: The number of components; with None, the vector has the standardised features themselves.

    Raises:
        ConfigError: If `encoder` is no encoder, or `components` is below 1.

    Example:
        >>> import eventvec as ev
        >>> features = ev.encoders.RunningHandcrafted(ev.Schema("card", "day", "integer"))
        >>> x = Sequences({"time": torch.arange(9)}, torch.tensor([0, 2, 5]), torch.tensor([2, 3, 4]))
        >>> Compressed(features, components=2).fit(x)(x).shape
        torch.Size([3, 2])
    """

    mean: Tensor
    scale: Tensor
    projection: Tensor | None

    def __init__(self, encoder: Encoder, components: int | None = 64) -> None:
        super().__init__()
        check_encoder(encoder)
        at_least("components", components, 1)
        self.encoder, self.components = encoder, components
        width = int(encoder.dim)
        self.dim = width if components is None else components
        self.register_buffer("mean", torch.full((width,), torch.nan))  # NaN until `fit`
        self.register_buffer("scale", torch.full((width,), torch.nan))
        self.register_buffer("projection", None if components is None else torch.full((width, components), torch.nan))

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)` float32, one vector per row."""
        return self._compressed(self.encoder(x))

    @property
    def state(self) -> Callable[..., Tensor]:
        """The function `state(x, initial)` of the other encoder, if it has one."""
        return cast(Callable[..., Tensor], cast(Any, self.encoder).state)

    @property
    def stored_dim(self) -> int:
        """The size of a state of the other encoder, if it has one."""
        return int(cast(Any, self.encoder).stored_dim)

    @property
    def sparse(self) -> bool:
        """Whether most numbers of a state of the other encoder are 0."""
        return capabilities(self.encoder).sparse

    @property
    def latest(self) -> int | None:
        """How many of a row's latest events the other encoder reads beside its state, or alone."""
        return capabilities(self.encoder).latest

    @latest.setter
    def latest(self, count: int) -> None:
        cast(Any, self.encoder).latest = count

    @property
    def reads_moment(self) -> bool:
        """Whether the other encoder reads each row's moment of prediction."""
        return capabilities(self.encoder).reads_moment

    def read(self, state: Tensor, *latest: Sequences) -> Tensor:
        """Return `(n, dim)` float32 the vectors of states, as the other encoder reads them."""
        return self._compressed(cast(Any, self.encoder).read(state, *latest))

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows that the other encoder can read."""
        return readable_rows(self.encoder, x)

    @torch.no_grad()
    def fit(self, x: Sequences) -> Self:
        """Return the encoder itself, after means, scales and components were computed from rows, in float64.

        Of more than 50,000 rows, or of rows with more than 2^27 features in all, as many are read, at even distances.
        If the other encoder has a `fit`, it is called with the same rows first.

        Raises:
            DataError: If there are fewer than two rows.
        """
        count = min(len(x), ROWS, max(NUMBERS // len(self.mean), 2))
        if count < 2:
            raise DataError(f"means and components need at least 2 rows, got {len(x)}")
        x = x[torch.arange(count, device=x.device) * len(x) // count]
        if callable(fit := getattr(self.encoder, "fit", None)):
            fit(x)
        features = self.encoder(x).cpu()
        varies = features.amax(0) > features.amin(0)
        mean = _total(features, lambda block: block.sum(0)) / count
        variance = _total(features, lambda block: (block - mean).square().sum(0)) / count
        scale = variance.rsqrt().clamp(max=torch.finfo(torch.float32).max)
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(varies, scale, 0))
        if self.projection is not None:
            self.projection.copy_(self._components(features))
        return self

    def _components(self, features: Tensor) -> Tensor:
        """Return `(width, components)` float64 the scaled directions of the largest variance, then zeros."""
        width, count = features.shape[1], len(features)
        centre = _total(features, lambda block: self.standardised(block).sum(0)) / count

        def deviations(block: Tensor) -> Tensor:
            return self.standardised(block) - centre

        def product(block: Tensor) -> Tensor:
            values = deviations(block)
            return values.T @ values

        if count < width:  # the cost grows with the cube of the smaller side
            squares, directions = leading_of_rows(deviations(features.double()), self.dim)
        else:
            squares, directions = leading(_total(features, product), self.dim)
        variances = squares / count
        chosen = variances > variances[0].clamp(min=0) * width * torch.finfo(torch.float64).eps
        directions, largest = directions[:, chosen], directions[:, chosen].abs().argmax(0, keepdim=True)
        projection = torch.zeros(width, self.dim, dtype=torch.float64)
        projection[:, : directions.shape[1]] = directions * directions.gather(0, largest).sign() * variances[0].rsqrt()
        return projection

    def standardised(self, features: Tensor) -> Tensor:
        """Return `(n, width)` features by their means and scales, clipped; constant ones are 0."""
        mean, scale = self.mean.to(features.device), self.scale.to(features.device)
        if bool(mean.isnan().any()):
            raise ConfigError(
                f"the encoder {type(self).__name__} has no means and components yet; call its fit(x) with training rows"
            )
        return torch.where(scale == 0, 0, (features - mean) * scale).clamp(-FARTHEST, FARTHEST)

    def _compressed(self, features: Tensor) -> Tensor:
        values = self.standardised(features)
        return values if self.projection is None else values @ self.projection.to(values.device)


def leading(products: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return `(k,)` the largest eigenvalues of a symmetric float64 matrix, descending, and `(n, k)` their vectors.

    There are at most `count` of them; the others are not computed.
    """
    from scipy.linalg import eigh  # type: ignore[import-untyped]

    if not (n := len(products)):
        return products.new_zeros(0), products
    values, vectors = eigh(products.numpy(), subset_by_index=[max(n - count, 0), n - 1])
    return torch.from_numpy(values[::-1].copy()), torch.from_numpy(vectors[:, ::-1].copy())


def leading_of_rows(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return what `leading` does of `rows.T @ rows`, from the smaller `rows @ rows.T`; NaN where a value is 0."""
    values, vectors = leading(rows @ rows.T, count)
    return values, rows.T @ vectors * values.rsqrt()


def _total(features: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the sum of a function of blocks of rows in float64."""
    return sum((function(block.double()) for block in features.split(BLOCK)), torch.zeros(()))
