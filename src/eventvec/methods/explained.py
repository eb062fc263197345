"""How well the embedding predicts each expert feature, so an expert sees what an encoder has learned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eventvec.encoders.interface import Encoder, evaluating
from eventvec.errors import DataError
from eventvec.sequences import Sequences

BATCH, MOST_ROWS, FEWEST_ROWS = 256, 8192, 20
SHOWN = 6
"""How many of the best and of the worst explained features a sentence lists."""


class WithFeatures(Protocol):
    """A method that learns from named numbers of each row, such as `ExpCLR`."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the numbers."""

    @property
    def encoder(self) -> Encoder:
        """The encoder."""

    def expert(self, x: Sequences) -> Tensor:
        """Return `(n, d)` features of each row, NaN where missing."""

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows that the method can use."""


@dataclass(frozen=True)
class ExplainedFeatures:
    """What a linear model makes of the embedding, feature by feature.

    Args:
        r2: The R² of each feature, at most 1, by name.
        rows: How many rows it was measured on.
        lacking: How many of them lack some features.

    Example:
        >>> print(ExplainedFeatures({"speed": 0.93, "size": 0.5}, rows=100, lacking=0))
        R² of each feature from the embedding by a linear model on 100 rows: median 0.93; speed 0.93, size 0.50
    """

    r2: dict[str, float]
    rows: int
    lacking: int

    def __str__(self) -> str:
        """Return a sentence, which lists at most twelve features."""
        best_first = [f"{name} {r2:.2f}" for name, r2 in sorted(self.r2.items(), key=lambda item: -item[1])]
        few = len(best_first) <= 2 * SHOWN
        listed = best_first if few else [*best_first[:SHOWN], "…", *best_first[-SHOWN:]]
        median = sorted(self.r2.values())[len(self.r2) // 2]
        lacking = f"; {self.lacking:,} of them lack some features" if self.lacking else ""
        return (
            f"R² of each feature from the embedding by a linear model on {self.rows:,} rows{lacking}: "
            f"median {median:.2f}; {', '.join(listed)}"
        )


def explained_features(method: WithFeatures, x: Sequences, rng: torch.Generator) -> ExplainedFeatures:
    """Return how well ridge regression predicts each feature from the embedding.

    The rows are cut into two random halves; the regression is fitted to each half and measured on the other. A feature
    that has one value, or that fewer than 20 rows have, is left out. Of more than 8,192 rows, as many are drawn.

    Args:
        method: The method.
        x: The rows, at best some that the method was not trained on.
        rng: Random generator, for the halves.

    Raises:
        DataError: If no feature is left.

    Example:
        >>> import eventvec as ev
        >>> schema = ev.Schema("id", "t", "integer", static=(ev.schema.Numeric("level", log=False),))
        >>> level = torch.arange(40.0)
        >>> x = Sequences({"gap": level}, torch.arange(40), torch.ones(40).long(), {"level": level})
        >>> encoder = ev.encoders.TemporalConvolution(ev.encoders.EventEncoder(schema), dim=4)
        >>> explained_features(ev.methods.ExpCLR(encoder, schema, ["level"]), x, torch.Generator()).rows
        40
    """
    place = torch.randperm(len(x), generator=rng, device=rng.device).to(x.device)
    place = place[method.usable(x)[place]][:MOST_ROWS]
    rows, features = x[place], method.expert(x[place]).double()
    z, half = _encoded(method.encoder, rows).double(), torch.arange(len(rows), device=x.device) % 2
    complete = features.isfinite().all(0)
    groups = [complete.nonzero().squeeze(1), *(~complete).nonzero()]  # columns of one pattern are solved together
    values = torch.full((features.shape[1],), torch.nan, dtype=torch.float64)
    for columns in groups:
        known = features[:, columns].isfinite().all(1)
        values[columns.cpu()] = _r2(z[known], features[known][:, columns], half[known]).cpu()
    r2 = {
        name: value for name, value in zip(method.feature_names, values.tolist(), strict=True) if not math.isnan(value)
    }
    if not r2:
        raise DataError(f"R² of a feature needs {FEWEST_ROWS} rows that have it, with different values")
    return ExplainedFeatures(r2, len(rows), int((~features.isfinite()).any(1).sum()))


def _encoded(encoder: Encoder, rows: Sequences) -> Tensor:
    """Return `(n, dim)` embeddings in evaluation mode."""
    with evaluating(encoder), torch.no_grad():
        return torch.cat([encoder(rows[block]) for block in torch.arange(len(rows), device=rows.device).split(BATCH)])


def _r2(z: Tensor, values: Tensor, half: Tensor) -> Tensor:
    """Return `(k,)` R² of the columns of `values (n, k)`, each half predicted by the other; NaN if not defined."""
    if len(values) < FEWEST_ROWS or len(half.unique()) < 2:
        return values.new_full((values.shape[1],), torch.nan)
    error = values.new_zeros(values.shape[1])
    for side in (0, 1):
        fitted, left_out = half == side, half != side
        inputs = (z - z[fitted].mean(0)) / z[fitted].std(0).clamp(min=1e-12)
        centre = values[fitted].mean(0)
        gram = inputs[fitted].T @ inputs[fitted] + torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
        weights = torch.linalg.solve(gram, inputs[fitted].T @ (values[fitted] - centre))
        error = error + (values[left_out] - centre - inputs[left_out] @ weights).square().sum(0)
    r2 = 1 - error / (values - values.mean(0)).square().sum(0)
    return r2.masked_fill((values == values[0]).all(0), torch.nan)
