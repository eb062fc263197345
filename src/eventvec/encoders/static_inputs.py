"""Static columns, such as sex or education, as numbers beside the embedding of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from eventvec.dataset import static_values
from eventvec.encoders.event_encoder import code_embedding
from eventvec.errors import ConfigError
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.sequences import Sequences

WIDTH = 16
"""The maximum size of a categorical column's embedding; rows are fewer than events."""


class StaticInputs(nn.Module):
    """One vector per row from its static columns, `names` in the schema: embeddings of codes, and scaled numbers.

    A missing number is replaced by 0 after scaling and sets an indicator. The embeddings of missing and unknown codes
    are initialised to zero, so a value that training has not seen adds nothing.
    """

    def __init__(self, schema: Schema, names: Sequence[str]) -> None:
        super().__init__()
        self.names = tuple(names)
        fields = [schema.static_field(name) for name in names]
        for field in fields:
            if not isinstance(field, Categorical | Numeric):
                kind = type(field).__name__.lower()
                raise ConfigError(
                    f"static_inputs must be categorical or numeric columns, got {field.name!r}, which is {kind}"
                )
        self.categorical = tuple(field for field in fields if isinstance(field, Categorical))
        self.numeric = tuple(field for field in fields if isinstance(field, Numeric))
        self.embeddings = nn.ModuleList(code_embedding(field, WIDTH) for field in self.categorical)
        widths = [int(table.weight.shape[1]) for table in self.embeddings if isinstance(table, nn.Embedding)]
        self.dim = sum(widths) + 2 * len(self.numeric)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, float32."""
        codes = [cast(Tensor, static_values(x, field.name)).long() for field in self.categorical]
        parts = [table(values) for table, values in zip(self.embeddings, codes, strict=True)]
        for field in self.numeric:
            scaled = field.scale(cast(Tensor, static_values(x, field.name)))
            parts.append(torch.stack([scaled.nan_to_num(0.0), scaled.isnan().float()], 1))
        return torch.cat(parts, 1)
