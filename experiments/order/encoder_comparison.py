"""Encoders of notes, pre-trained without labels, beside training from scratch on the labelled notes."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
import torch

import eventvec as ev
from eventvec.schema import FIRST, Categorical
from eventvec.training.loop import Record
from experiments.order.note_protocol import (
    FOLDS,
    Array,
    Fold,
    Grid,
    Notes,
    Scores,
    cut_notes,
    draw_entities,
    labelled_notes,
    note_scores,
    split_folds,
    tuned_scores,
    without_label,
)
from experiments.order.real_histories import DATA_SETS

SEED, SEEDS = 0, 3  # of the split; number of encoders
DIM, COUNT, EPOCHS = 32, 8, 60  # width, pairs per entity and step, epochs of pre-training
SCRATCH_EPOCHS = 40  # on the labelled notes; the best of them is chosen on the validation notes
LINEAR_GRID: Grid = tuple((False, 10.0**power) for power in range(-2, 6))  # L2, and C
METHODS: dict[str, Callable[..., ev.methods.Order]] = {
    "OCP": ev.methods.ocp,
    "PCL": ev.methods.pcl,
    "entity-contrastive": ev.methods.entity_contrastive,
}


def encoder_scores(
    name: str,
    fractions: Sequence[float],
    compared: Collection[str] = tuple(METHODS),
    seeds: int = SEEDS,
    epochs: int = EPOCHS,
    grid: Grid = LINEAR_GRID,
) -> Scores:
    """Return the scores of pre-trained and untrained encoders, and of training from scratch, on one data set."""
    histories = DATA_SETS[name]()
    notes = cut_notes(histories.data, histories.label, histories.length)
    entities = draw_entities(notes, histories.entities, SEED)
    unlabelled = np.setdiff1d(np.arange(len(histories.data)), entities)
    data = without_label(histories.data, histories.label)[unlabelled]
    z: dict[str, list[Array]] = defaultdict(list)
    for seed in range(seeds):
        z["untrained"].append(ev.encode(new_encoder(data.schema, seed), notes.data.sequences).numpy())
        for method in METHODS:
            if method in compared:
                encoder = pretrained_encoder(data, method, histories.length, seed, epochs)
                z[method].append(ev.encode(encoder, notes.data.sequences).numpy())
        print(f"{name}: encoders of seed {seed}", file=sys.stderr, flush=True)
    scores = defaultdict(list)
    for number, fold in enumerate(split_folds(notes, entities, SEED)):
        for fraction in fractions:
            for method, embeddings in z.items():
                runs = [linear_scores(rows, notes, fold, fraction, grid) for rows in embeddings]
                scores[method, fraction].append(runs)
            limit = min(epochs, SCRATCH_EPOCHS)
            runs = [scratch_scores(notes, fold, fraction, seed, limit) for seed in range(seeds)]
            scores["from scratch", fraction].append(runs)
        print(f"{name}: fold {number + 1} of {FOLDS}", file=sys.stderr, flush=True)
    return {key: np.array(values) for key, values in scores.items()}


def new_encoder(schema: ev.Schema, seed: int) -> ev.encoders.GRU:
    """Return an untrained encoder that does not read the time."""
    torch.manual_seed(seed)
    return ev.encoders.GRU(ev.encoders.EventEncoder(schema, time=()), dim=DIM)


def pretrained_encoder(data: ev.Dataset, method: str, length: int, seed: int, epochs: int) -> ev.encoders.GRU:
    """Return an encoder that one method has trained on the histories of unlabelled entities."""
    encoder = new_encoder(data.schema, seed)
    ev.fit(data, method=METHODS[method](encoder, length, count=COUNT), epochs=epochs, validation=0, seed=seed)
    return encoder


def linear_scores(z: Array, notes: Notes, fold: Fold, fraction: float, grid: Grid) -> tuple[float, float]:
    """Return AUC and average precision of a linear layer on fixed embeddings."""
    parts = [labelled_notes(notes, entities) for entities in (fold.part(fraction), fold.validation, fold.test)]
    return tuned_scores(z, notes, *parts, grid=grid)


def scratch_scores(notes: Notes, fold: Fold, fraction: float, seed: int, epochs: int) -> tuple[float, float]:
    """Return AUC and average precision of the same encoder, trained on the labelled notes alone.

    The epoch is chosen on the validation notes, separately for each metric, as is the penalty of the linear layer.
    """
    train, validation, test = (labelled_notes(notes, e) for e in (fold.part(fraction), fold.validation, fold.test))
    data = _with_label(notes)
    torch.manual_seed(seed)
    method = ev.methods.Supervised(new_encoder(data.schema, seed), data.schema, "label")
    validation_scores: list[tuple[float, float]] = []
    test_logits: list[Array] = []
    both = data[np.concatenate([validation, test])]

    def score_epoch(record: Record) -> None:
        if record["step"] == (len(validation_scores) + 1) * steps:  # the last step of an epoch is recorded twice
            logits = ev.encode(method.predictor, both.sequences).numpy()
            score = logits[:, 1] - logits[:, 0]
            validation_scores.append(note_scores(notes, validation, score[: len(validation)]))
            test_logits.append(score[len(validation) :])

    size = min(64, len(train))
    steps = len(train) // size
    ev.fit(data[train], method=method, epochs=epochs, batch_size=size, validation=0, seed=seed, progress=score_epoch)
    best_auc, best_precision = np.array(validation_scores).argmax(0)
    return note_scores(notes, test, test_logits[best_auc])[0], note_scores(notes, test, test_logits[best_precision])[1]


def _with_label(notes: Notes) -> ev.Dataset:
    """Return the notes with their label as a static column of two classes."""
    known = ~np.isnan(notes.label)
    codes = torch.from_numpy(np.where(known, np.nan_to_num(notes.label) + FIRST, 0).astype(np.int32))
    schema = replace(notes.data.schema, static=(Categorical("label", ("0", "1")),))
    x = notes.data.sequences
    return replace(notes.data, sequences=replace(x, static={"label": codes}), schema=schema)
