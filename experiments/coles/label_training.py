"""Networks that learn from labels, from scratch or from a trained encoder, within a number of events.

Pre-training and fine-tuning together see as many events as supervised training may. All stop early, by a validation
part of the labels of the fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import eventvec as ev
from eventvec import config
from eventvec.encoders.interface import Encoder
from eventvec.methods import Supervised
from eventvec.schema import FIRST, Categorical
from eventvec.sequences import Array
from eventvec.training.loop import Progress
from eventvec.views import VIEWS

LEAST_PATIENCE, SHARE = 5, 0.1
"""Training stops after this share of the epochs without improvement, but after at least so many."""
NOT_OF_FIT = ("from", "encoder", "views", "batch_norm", "passes")
"""The settings of training on labels that are no options of `fit`."""


def budget(settings: config.Table, events: int, whole: int, before: int) -> config.Table:
    """Return the options of `fit` that bound a training on labels.

    The paper's data sets have a number of `epochs`, as in the public code. The others have a number of `passes` over
    the whole training part of a fold, and stop early. A share of the labels gets as many events as the whole part.

    Args:
        settings: `epochs` or `passes`.
        events: The number of events of the labelled entities that are trained on, without those held out.
        whole: That of the whole training part.
        before: The number of events that an encoder with pre-training has seen, which supervised training may see too.

    Example:
        >>> budget({"passes": 10}, events=200, whole=1_000, before=5_000)
        {'epochs': 75, 'patience': 8, 'schedule': 'constant'}
        >>> budget({"epochs": 8}, events=200, whole=1_000, before=5_000)
        {'validation': 0}
    """
    if "epochs" in settings:
        return {"validation": 0}
    epochs = math.ceil((settings["passes"] * whole + before) / events)
    return {"epochs": epochs, "patience": max(LEAST_PATIENCE, math.ceil(SHARE * epochs)), "schedule": "constant"}


def train_on_labels(
    encoder: Encoder,
    data: ev.Dataset,
    settings: config.Table,
    bounds: config.Table,
    seed: int,
    progress: Callable[[Supervised], Progress] | None = None,
) -> Supervised:
    """Return a network that is trained on labels.

    Args:
        encoder: What is trained with a linear layer on it.
        data: Entities with the static column `label`.
        settings: The table `[supervised]` or `[fine_tuning]` of a data set.
        bounds: The options of `fit` that bound the training, see `budget`.
        seed: The seed of the training.
        progress: Returns what `fit` calls after each step, from the network that is trained.
    """
    views = config.build(settings["views"], VIEWS, "views") if "views" in settings else None
    method = Supervised(encoder, data.schema, "label", views, settings.get("batch_norm", False))
    method = method.to(next(encoder.parameters()).device)
    options = {name: value for name, value in settings.items() if name not in NOT_OF_FIT} | bounds
    options["batch_size"] = min(options.get("batch_size", 64), max(2, len(data) // 2))
    ev.fit(data, method=method, seed=seed, progress=progress and progress(method), **options)
    return method


def scores(method: Supervised, data: ev.Dataset) -> Array:
    """Return `(n,)` the log-odds of the second of two classes, or the code of the most probable class."""
    logits = ev.encode(method.predictor, data.sequences).numpy()
    return np.asarray(logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits.argmax(1))


def with_label(data: ev.Dataset, rows: Array, y: Array, classes: int) -> ev.Dataset:
    """Return some entities with their labels as the static column `label`."""
    labelled = data[torch.from_numpy(rows)]
    field = Categorical("label", tuple(str(code) for code in range(classes)))
    static: dict[str, Any] = {**labelled.sequences.static, "label": torch.from_numpy(y.astype(np.int64)) + FIRST}
    schema = replace(data.schema, static=(*data.schema.static, field))
    return ev.Dataset(labelled.keys, replace(labelled.sequences, static=static), schema)
