"""Fine-tuning: the encoder of a model is trained further on labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from eventvec.dataset import Dataset
from eventvec.errors import DataError
from eventvec.methods.label_losses import ClassWeights, column_names, label_names
from eventvec.models import Model, check_model
from eventvec.options import accepts, gather_all, those_of
from eventvec.tables import holdout_mask
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular
from eventvec.training.fit_options import FitOptions
from eventvec.training.label_rows import with_labels
from eventvec.training.loop import Progress, train
from eventvec.training.setup import set_up


@accepts(FitOptions, LabelTime)
def fine_tune(
    model: Model,
    data: Dataset | Tabular,
    labels: Tabular,
    label: str | Sequence[str],
    *,
    static_inputs: Sequence[str] | None = None,
    class_weights: ClassWeights | None = None,
    weight: str | None = None,
    auxiliary: Literal["next_event"] | None = None,
    auxiliary_weight: float | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Model:
    """Return a model of the method `supervised`, in which a copy of a model's encoder is trained further on labels.

    The entities that the model held out stay held out, so the new run can be evaluated on them.

    Where labels have a time, the histories are read as of then, and an entity may have labels at several times: one row
    for each time, such as the ends of months. A recurrent encoder then reads each history once for all its labels of a
    batch. The rows of an entity are never split between training and validation, and `batch_size` counts entities.

    Relations: `fit` with the tables ``{"method": {"name": "supervised", "label": label}, "encoder": {"from": path}}``
    does the same for data that have the label as a static column.

    Args:
        model: The model to start from; it stays as it is.
        data: The events, as `Model.read` takes them.
        labels: A table with the key and the label, and the time of each label if there is one. Entities without a label
            are left out of the training.
        label: The column of the label, or several. Text, booleans and few distinct whole numbers become classes; other
            numbers are predicted as numbers.
        static_inputs: Columns that are read beside the events, in predictions too, see `predict`: static columns of the
            data, or else columns of the table of labels.
        class_weights: As for `methods.Supervised`: `balanced`, or the weight of each class.
        weight: The column with the weight of each entity, above 0: a static column of the data, or else a column of
            the table of labels.
        auxiliary: As for `methods.Supervised`: `next_event` to learn to predict the next event too.
        auxiliary_weight: The weight of this loss; by default it is chosen on validation, which takes three trainings.
        out: As for `fit`.
        resume: As for `fit`.
        device: Where training happens; by default, where the weights of the model are.
        progress: As for `fit`.
        options: The fields of `FitOptions`, of which `encoder_lr` and `freeze` are meant for fine-tuning, and of
            `tables.label_times.LabelTime` (label_time, inclusive).

    Raises:
        ConfigError: If an option is out of range, the column can be no label, or the model's encoder has no name in
            configurations.
        DataError: If the events cannot be used or were read by another schema, the model held out all entities, or the
            labels cannot be used, among them different ones of one entity at one time.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [0, 1] * 20, "t": range(40), "v": range(40)}).with_columns(id=pl.col("t") % 20)
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> run = ev.fit(data, method="ocp", epochs=1)
        >>> labels = pl.DataFrame({"id": range(20), "churn": ["no", "yes"] * 10})
        >>> tuned = ev.fine_tune(run, data, labels, "churn", epochs=1)
        >>> tuned.info["labels"], ev.predict(tuned, events).column_names
        (['churn'], ['id', 'prediction', 'p_no', 'p_yes'])
    """
    check_model(model)
    _, time = gather_all(options, FitOptions, LabelTime)  # a wrong option is refused before anything is built
    data = model.read(data)
    inputs = column_names("static_inputs", static_inputs) if static_inputs else ()
    names, further = label_names(label), [*inputs, *((weight,) if weight else ())]
    rows = with_labels(_without_held_out(model, data), labels, names, further, weight, time)
    method_table: dict[str, Any] = {
        "name": "supervised", "label": label, "static_inputs": static_inputs, "class_weights": class_weights,
        "weight": weight, "label_time": time.label_time, "auxiliary": auxiliary, "auxiliary_weight": auxiliary_weight,
    }  # fmt: skip
    method_table = {
        name: value if isinstance(value, str | float | Mapping) else list(value)
        for name, value in method_table.items()
        if value is not None
    }
    method, tables = set_up(rows, {"method": method_table, "fit": those_of(options, FitOptions)}, model)
    place = next(model.method.parameters()).device if device is None else device
    tuned = train(method, rows, tables["fit"], tables, out=out, resume=resume, device=place, progress=progress)
    return replace(tuned, notes=(*dict.fromkeys(rows.notes[len(data.notes) :]), *tuned.notes))


def _without_held_out(model: Model, data: Dataset) -> Dataset:
    """Return the entities that the model and those before it did not hold out."""
    pairs = [
        (float(record["fraction"]), int(record["seed"])) for record in model.info["holdouts"] if record["fraction"]
    ]
    holdouts = [pair for pair in dict.fromkeys(pairs) if pair != data.origin.holdout]  # `read` has left these out
    if not holdouts:
        return data
    held_out = np.any([holdout_mask(data.keys, *holdout) for holdout in holdouts], axis=0)
    if held_out.all():
        raise DataError(
            f"all {len(data):,} entities were held out by run {model.id}; give those that it was trained on"
        )
    fraction, seed = holdouts[0]
    note = f"{int(held_out.sum()):,} of {len(data):,} entities were held out by run {model.id} and are left out"
    origin = data.origin.including(holdout=fraction, holdout_seed=seed)
    return replace(data[np.flatnonzero(~held_out)], notes=(*data.notes, note), origin=origin)
