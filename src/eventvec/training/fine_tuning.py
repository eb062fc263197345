"""Fine-tuning: the encoder of a run is trained further on labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eventvec.checkpoint import Run, check_run
from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError, shown
from eventvec.options import accepts, gather
from eventvec.tables import attach, holdout_mask
from eventvec.tables.sources import Tabular, open_source
from eventvec.training.fit_options import FitOptions
from eventvec.training.loop import Progress, fit
from eventvec.training.setup import build, settings


@accepts(FitOptions)
def fine_tune(
    run: Run,
    data: Dataset | Tabular,
    labels: Tabular,
    label: str,
    *,
    out: Path | str | None = None,
    resume: bool = False,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Run:
    """Return a run of the method `supervised`, in which a copy of a run's encoder is trained further on labels.

    The entities that the run held out stay held out, so that the new run can be evaluated on them.

    Relations: `fit` with the tables ``{"method": {"name": "supervised", "label": label}, "encoder": {"from": path}}``
    does the same for data that have the label as a static column.

    Args:
        run: The run to start from; it stays as it is.
        data: The events, as `Run.read` takes them.
        labels: A table with the key and the label. Entities without a label are left out of the training.
        label: The column of the label. Text, booleans and few distinct whole numbers become classes; other numbers are
            predicted as numbers.
        out: As for `fit`.
        resume: As for `fit`.
        device: Where training happens; by default, where the weights of the run are.
        progress: As for `fit`.
        options: The fields of `FitOptions`; `encoder_lr` and `freeze` are meant for fine-tuning.

    Raises:
        ConfigError: If an option is out of range, the column can be no label, or the run's encoder has no name in
            configurations.
        DataError: If the events cannot be used or were read by another schema, the run held out all entities, or the
            labels cannot be used.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [0, 1] * 20, "t": range(40), "v": range(40)}).with_columns(id=pl.col("t") % 20)
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> run = ev.fit("ocp", data, epochs=1)
        >>> labels = pl.DataFrame({"id": range(20), "churn": ["no", "yes"] * 10})
        >>> tuned = ev.fine_tune(run, data, labels, "churn", epochs=1)
        >>> tuned.info["labels"], ev.predict(tuned, events).column_names
        (['churn'], ['id', 'prediction', 'p_no', 'p_yes'])
    """
    check_run(run)
    gather(options, FitOptions)  # a wrong option is refused before anything is built
    data = run.read(data)
    rows = _with_label(_without_held_out(run, data), labels, label)
    tables = settings(rows.sequences, {"method": {"name": "supervised", "label": label}, "fit": options}, run)
    method = build(tables, rows.schema, gather(tables["fit"], FitOptions).seed, run)
    place = next(run.method.parameters()).device if device is None else device
    tuned = fit(method, rows, out=out, resume=resume, device=place, progress=progress, **tables["fit"])
    return replace(tuned, notes=(*rows.notes[len(data.notes) :], *tuned.notes))


def _with_label(data: Dataset, labels: Tabular, label: str) -> Dataset:
    """Return the entities with the label as a static column.

    Raises:
        ConfigError: If the column can be no label.
        DataError: If the table lacks the key or the label.
    """
    table = open_source(labels)
    key = data.schema.key if data.schema.key in table.types else data.schema.key_out
    table.need((key, label), "the table of labels")
    if label == key:
        raise ConfigError(f"the label {shown(label)} is the key; name the column to predict")
    labelled = attach(data, table.load([key, label]))
    if label not in labelled.sequences.static:
        raise ConfigError(f"{labelled.notes[-1]}; a label must hold classes or numbers, at least 2 different ones")
    return labelled


def _without_held_out(run: Run, data: Dataset) -> Dataset:
    """Return the entities that the run and those before it did not hold out.

    Raises:
        DataError: If all of them were held out.
    """
    pairs = [(float(record["fraction"]), int(record["seed"])) for record in run.info["holdouts"] if record["fraction"]]
    holdouts = [pair for pair in dict.fromkeys(pairs) if pair != data.origin.holdout]  # `read` has left these out
    if not holdouts:
        return data
    held_out = np.any([holdout_mask(data.keys, *holdout) for holdout in holdouts], axis=0)
    if held_out.all():
        raise DataError(f"all {len(data):,} entities were held out by run {run.id}; give those that it was trained on")
    fraction, seed = holdouts[0]
    note = f"{int(held_out.sum()):,} of {len(data):,} entities were held out by run {run.id} and are left out"
    origin = data.origin.including(holdout=fraction, holdout_seed=seed)
    return replace(data[np.flatnonzero(~held_out)], notes=(*data.notes, note), origin=origin)
