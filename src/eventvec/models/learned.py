"""The block of a trained encoder with its method, and a network of one label, whose predictions a head reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from eventvec.blocks.rows import STATE, Features, Rows, vectors_of
from eventvec.embedding import encode
from eventvec.encoders.interface import Encoder, bound_reading, readable_rows
from eventvec.learners.fitted import probabilities
from eventvec.learners.metrics import Task
from eventvec.methods.declarations import Method, declared
from eventvec.options import LATEST
from eventvec.sequences import Array, Sequences
from eventvec.views.cuts import latest

LEARNED, NETWORK = "learned", "network"
"""The names of the two blocks."""


@dataclass(frozen=True, eq=False)
class Learned:
    """The vectors of a trained encoder.

    Args:
        method: The method with its trained weights.
        config: The tables `encoder`, `method`, `data` and `fit`, from which the training can be repeated; empty if the
            method has no name in configurations.
    """

    method: Method
    config: Mapping[str, Any] = field(default_factory=dict)
    is_network: ClassVar[bool] = True

    def __post_init__(self) -> None:
        bound_reading(self.encoder, self.config.get("fit", {}).get("latest", LATEST))

    @property
    def encoder(self) -> Encoder:
        """The trained encoder."""
        return self.method.encoder

    @property
    def dim(self) -> int:
        """The size of a vector."""
        return int(self.encoder.dim)

    @property
    def names(self) -> tuple[str, ...]:
        """No names."""
        return ()

    def features(self, rows: Rows) -> Features:
        """Return the vectors of rows, as `Block` has them; 0 for a row that the encoder cannot read."""
        x, columns = rows.data.sequences, [""] * self.dim
        if STATE + LEARNED in x.static:  # what the encoder cannot read has no state
            return vectors_of(self.encoder, x, LEARNED), columns
        known = readable_rows(self.encoder, x)
        values = np.zeros((len(x), self.dim), np.float32)
        values[known.cpu().numpy()] = vectors_of(self.encoder, x if known.all() else x[known.nonzero()[:, 0]], LEARNED)
        return values, columns


@dataclass(frozen=True, eq=False)
class Network:
    """The predictions of a network that was trained on the label, from the latest events of each row.

    Args:
        model: Its `Model`, of the method `supervised`.
        task: The task of the label.
        classes: The number of classes, 0 for numbers.
    """

    model: Any
    task: Task
    classes: int
    is_network: ClassVar[bool] = True

    def __post_init__(self) -> None:
        predictor = declared(self.model.method).predictor
        if predictor is None or predictor.dim != max(self.classes, 1):
            raise ValueError(f"the model {self.model.id} is no network of this label")

    @property
    def dim(self) -> int:
        """The number of predictions of a row."""
        return self.classes if self.task == "multiclass" else 1

    @property
    def names(self) -> tuple[str, ...]:
        """No names."""
        return ()

    def predictions(self, x: Sequences) -> Array:
        """Return the predictions of rows, as those of `learners.fitted.Fitted`."""
        predictor = declared(self.model.method).predictor
        assert predictor is not None
        outputs = encode(predictor, latest(x, LATEST)).numpy().astype(np.float64)
        if self.task == "numeric":
            return outputs[:, 0]
        shares = probabilities("multiclass", outputs)
        return shares[:, 1] if self.task == "binary" else shares

    def features(self, rows: Rows) -> Features:
        """Return the predictions as features, as `Block` has them."""
        values = self.predictions(rows.data.sequences).reshape(len(rows.data), -1)
        return values, [""] * values.shape[1]
