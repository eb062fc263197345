"""How a network is trained on the label, whose predictions a head weighs beside those of its learners."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from eventvec.dataset import Dataset
from eventvec.encoders.interface import capabilities
from eventvec.learners.stacking import assembled
from eventvec.learners.task import Target
from eventvec.models import Model
from eventvec.models.learned import Network
from eventvec.options import LATEST
from eventvec.schema import FIRST, Categorical, Numeric, Static
from eventvec.sequences import Array
from eventvec.training.loop import train
from eventvec.training.setup import set_up
from eventvec.views.cuts import latest

AUXILIARY = {"auxiliary": "next_event", "auxiliary_weight": 0.1}
"""The loss that is added to that of the label, if the encoder has a state after each event: .1 was ahead of 0 and 1 on
the halves for choosing of the study in `experiments/worth`."""
LABEL, WEIGHT = "label", "weight"
"""The static columns that the network learns from; it reads no other."""


@dataclass(frozen=True, eq=False)
class NetworkTraining:
    """What a network learns from: the method `supervised` on the events alone.

    Args:
        data: The labelled rows.
        target: Their labels.
        weights: `(n,)` how much each row counts; None if all count equally.
        start: The model from whose encoder training starts; None to start from scratch.
    """

    data: Dataset
    target: Target
    weights: Array | None
    start: Model | None

    def out_of_parts(self, parts: Array, learned: Array | None, seed: int, seconds: float | None) -> Array:
        """Return the predictions of all rows, each part's by a network that was trained on rows of the others.

        Args:
            parts: `(n,)` the part of each row.
            learned: `(n,)` bool, the rows that networks are trained on; by default all.
            seed: The seed of everything random.
            seconds: The longest time of each training; None for no bound.
        """
        x, results = self.data.sequences, list[Array]()
        for part in range(int(parts.max()) + 1):
            rows = np.flatnonzero((parts != part) if learned is None else learned & (parts != part))
            network = self.trained(rows, seed, seconds)
            results.append(network.predictions(x[torch.from_numpy(np.flatnonzero(parts == part))]))
        return assembled(results, parts)

    def trained(self, rows: Array | None, seed: int, seconds: float | None) -> Network:
        """Return a network that was trained on some rows, or on all, for at most so many seconds, or without bound."""
        data = self._labelled(np.arange(len(self.data)) if rows is None else rows)
        table: dict[str, Any] = {"name": "supervised", "label": LABEL}
        if self.weights is not None:
            table["weight"] = WEIGHT
        if self.start is None or ((has := capabilities(self.start.method.encoder)).states and has.causal):
            table |= AUXILIARY
        bound = {} if seconds is None else {"time_budget": seconds}
        method, tables = set_up(data, {"method": table, "fit": {**bound, "seed": seed}}, self.start)
        model = train(method, data, tables["fit"], tables, out=None, resume=False, device=None, progress=None)
        return Network(model, self.target.task, len(self.target.classes))

    def _labelled(self, rows: Array) -> Dataset:
        """Return some rows with the label, and the weight if there is one, as their only static columns."""
        data, y = self.data[rows], self.target.y[rows]
        if self.target.task == "numeric":
            fields: list[Static] = [Numeric(LABEL, log=False, mean=float(y.mean()), std=float(y.std()) or 1.0)]
            static = {LABEL: torch.from_numpy(y).float()}
        else:
            fields = [Categorical(LABEL, tuple(f"class {place}" for place in range(len(self.target.classes))))]
            static = {LABEL: torch.from_numpy(y + FIRST).int()}
        if self.weights is not None:
            fields.append(Numeric(WEIGHT, log=False))
            static[WEIGHT] = torch.from_numpy(self.weights[rows]).float()
        x = data.sequences
        labelled = latest(replace(x, static=static), LATEST)
        schema = replace(data.schema, static=tuple(fields))
        return replace(data, sequences=labelled, schema=schema, label_times=())
