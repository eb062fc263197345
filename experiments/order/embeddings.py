"""Encoders of notes, learned without labels, beside training from scratch on the few labels that there are."""

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
from experiments.order.real import STUDIES
from experiments.order.study import (
    FOLDS,
    Array,
    Fold,
    Notes,
    Scores,
    folds,
    labelled,
    measured,
    notes,
    of,
    tuned,
    without,
)

SEED, SEEDS = 0, 3  # of the split; encoders
DIM, COUNT, EPOCHS = 32, 8, 60  # width, pairs per entity and step, passes
SCRATCH = 40  # passes over the labelled notes; the best of them is chosen on validation
LINEAR = tuple((False, 10.0**power) for power in range(-2, 6))  # L2, and C
SCHEMES: dict[str, Callable[..., ev.Order]] = {
    "OCP": ev.ocp,
    "PCL": ev.pcl,
    "entity-contrastive": ev.entity_contrastive,
}


def run(
    name: str, fractions: Sequence[float], compared: Collection[str], seeds: int = SEEDS, epochs: int = EPOCHS
) -> Scores:
    """Return the scores of encoders by some schemes, untrained, and trained from scratch, on one data set."""
    chosen = STUDIES[name]()
    found = notes(chosen.data, chosen.label, chosen.length)
    entities = labelled(found, chosen.entities, SEED)
    data = without(chosen.data, chosen.label)[np.setdiff1d(np.arange(len(chosen.data)), entities)]
    z: dict[str, list[Array]] = defaultdict(list)
    for seed in range(seeds):
        z["untrained"].append(ev.embed(encoder(data.schema, seed), found.data).numpy())
        for scheme in SCHEMES:
            if scheme in compared:
                z[scheme].append(ev.embed(pretrained(data, scheme, chosen.length, seed, epochs), found.data).numpy())
        print(f"{name}: encoders of seed {seed}", file=sys.stderr, flush=True)
    scores = defaultdict(list)
    for number, fold in enumerate(folds(found, entities, SEED)):
        for fraction in fractions:
            for method, each in z.items():
                scores[method, fraction].append([frozen(rows, found, fold, fraction) for rows in each])
            runs = [scratch(found, fold, fraction, seed, min(epochs, SCRATCH)) for seed in range(seeds)]
            scores["from scratch", fraction].append(runs)
        print(f"{name}: fold {number + 1} of {FOLDS}", file=sys.stderr, flush=True)
    return {key: np.array(each) for key, each in scores.items()}


def encoder(schema: ev.Schema, seed: int) -> ev.GRU:
    """Return a fresh encoder, which sees no clock."""
    torch.manual_seed(seed)
    return ev.GRU(ev.EventEncoder(schema, time=()), dim=DIM)


def pretrained(data: ev.Dataset, scheme: str, length: int, seed: int, epochs: int) -> ev.GRU:
    """Return an encoder that has learned on the histories of entities without labels, by one scheme."""
    own = encoder(data.schema, seed)
    ev.fit(SCHEMES[scheme](own, length, count=COUNT), data, epochs=epochs, validation=0, seed=seed)
    return own


def frozen(z: Array, found: Notes, fold: Fold, fraction: float) -> tuple[float, float]:
    """Return AUC and average precision of a linear layer on embeddings that stay as they are."""
    parts = [of(found, entities) for entities in (fold.part(fraction), fold.validation, fold.test)]
    return tuned(z, found, *parts, grid=LINEAR)


def scratch(found: Notes, fold: Fold, fraction: float, seed: int, epochs: int) -> tuple[float, float]:
    """Return AUC and average precision of the same encoder, trained on the labelled notes alone.

    The pass is chosen on the validation notes, for each metric by itself, as the strength of the linear layer is.
    """
    train, validation, test = (of(found, e) for e in (fold.part(fraction), fold.validation, fold.test))
    data = _with_label(found)
    torch.manual_seed(seed)
    method = ev.Supervised(encoder(data.schema, seed), data.schema, "label")
    scores: list[tuple[float, float]] = []
    tested: list[Array] = []
    both = data[np.concatenate([validation, test])]

    def look(record: Record) -> None:
        if record["step"] == len(scores) * steps + steps:  # each pass ends once
            logits = ev.embed(method.predictor, both).numpy()
            scores.append(measured(found, validation, (logits[:, 1] - logits[:, 0])[: len(validation)]))
            tested.append((logits[:, 1] - logits[:, 0])[len(validation) :])

    size = min(64, len(train))
    steps = len(train) // size
    ev.fit(method, data[train], epochs=epochs, batch_size=size, validation=0, seed=seed, progress=look)
    best = np.array(scores).argmax(0)
    return measured(found, test, tested[best[0]])[0], measured(found, test, tested[best[1]])[1]


def _with_label(found: Notes) -> ev.Dataset:
    """Return the notes with their label as a static column of two classes."""
    known = ~np.isnan(found.label)
    codes = torch.from_numpy(np.where(known, np.nan_to_num(found.label) + FIRST, 0).astype(np.int32))
    schema = replace(found.data.schema, static=(Categorical("label", ("0", "1")),))
    x = found.data.sequences
    return replace(found.data, sequences=replace(x, static={"label": codes}), schema=schema)
