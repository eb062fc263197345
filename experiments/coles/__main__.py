"""CoLES and what it is compared with: every table and figure of the paper, on any data set that has a configuration."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eventvec import checkpoint
from eventvec.diagnosis import power_law, repeatability
from eventvec.errors import ConfigError
from experiments.coles import arms, published
from experiments.coles.study import Study, unit
from experiments.paired import Paired, paired, relative
from experiments.tables import Row, main

FRACTIONS = (1.0, 0.25, 0.0625)
SELF_SUPERVISED = ("sop", "nsp", "rtd", "cpc", "coles")
TUNED = ("rtd", "cpc", "coles")


def table1(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """How views are cut: random samples, disjoint samples, slices (cross-validation)."""
    compared = ("random_samples", "disjoint_samples", "disjoint_segments", "coles")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE1)


def table2(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Embeddings, aggregates and fine-tuned networks (test set), and their change in percent against the first."""
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    embeddings = {arm: [study.embedding(arm, seed) for seed in runs] for arm in ("untrained", *SELF_SUPERVISED)}
    hand = study.aggregates()
    trainers = {"supervised": [study.trainer(None, seed) for seed in runs]}
    trainers |= {f"{arm}, fine-tuned": [study.trainer(arm, seed) for seed in runs] for arm in TUNED}
    both = [np.concatenate([z, hand], 1) for z in embeddings["coles"]]
    found = study.scores({"aggregates": [hand], **embeddings, "coles + aggregates": both, **trainers})
    rows = []
    for name in ("aggregates", *embeddings, "coles + aggregates", *trainers):
        first = "supervised" if name in trainers else "aggregates"
        known, against = published.published(published.TABLE2, name, dataset), found.scores(name, "test")
        change = relative(against, found.scores(first, "test"))
        rows.append({
            **_row(study, name, known, found, "test"), "against": first,
            "percent": change.mean, "percent ±": change.interval,
            **_against("coles", found.scores("coles", "test"), against),
        })  # fmt: skip
    return rows


def table6(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Encoders: LSTM, GRU and transformers under CoLES (cross-validation)."""
    compared = ("lstm", "transformer_paper", "transformer", "gru")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE6)


def table7(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Losses: contrastive, the paper's others, and three from the field since (cross-validation)."""
    since = ("nt_xent", "vicreg", "barlow_twins")
    compared = ("binomial_deviance", "histogram", "margin", "triplet", *since, "coles")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE7)


def table8(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Negatives: random, distance-weighted, hard (cross-validation)."""
    compared = ("random_negatives", "distance_weighted", "coles")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE8)


def precision(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Whether training with products in bfloat16 changes what the embedding is worth (cross-validation)."""
    return _compare(_study(dataset, keep, small), ("bfloat16", "coles"), _seeds(seeds), {})


def figure2(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Few labels: embeddings, fine-tuning, supervised training at shares of each fold's labels (test set).

    The shares are the paper's on its data sets, and `FRACTIONS` on others.
    """
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    features: dict[str, Any] = {"aggregates": [study.aggregates()]}
    features |= {arm: [study.embedding(arm, seed) for seed in runs] for arm in ("cpc", "coles")}
    features |= {f"{arm}, fine-tuned": [study.trainer(arm, seed) for seed in runs] for arm in ("cpc", "coles")}
    features["supervised"] = [study.trainer(None, seed) for seed in runs]
    labels, curves = published.FIGURE2.get(dataset, ((), {}))
    shares = tuple(n / labels[-1] for n in labels)
    known = {(share, arm): value for arm, curve in curves.items() for share, value in zip(shares, curve, strict=True)}
    found = study.scores(features, (1.0, 0.5) if small else shares or FRACTIONS)
    rows = []
    for share, name, n in dict.fromkeys((c.fraction, c.features, c.labels) for c in found.cells):
        first, mine = (found.scores(arm, "test", share) for arm in ("coles", name))
        row = _row(study, name, known.get((share, name)), found, "test", share)
        rows.append({**row, "labels": n, **_against("coles", first, mine)})
    return rows


def figure3(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """The lengths of histories against a power law."""
    law = power_law(_study(dataset, keep, small).data.sequences.lengths)
    edges, counts, expected = law.histogram()
    return [
        {
            "data": dataset,
            "alpha": law.alpha,
            "events from": int(a),
            "below": int(b),
            "entities": int(n),
            "expected": None if np.isnan(e) else float(e),  # the law begins at its least length
        }
        for a, b, n, e in zip(edges[:-1], edges[1:], counts, expected, strict=True)
    ]


def figure4(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Repeatability: divergence of event types inside one history and between histories, at matched lengths."""
    data, rows = _study(dataset, keep, small).data, []
    for field in data.schema.categorical:
        found = repeatability(data, field.name, torch.Generator().manual_seed(_seeds(seeds)[0]))
        within, between = found.medians
        rows.append({
            "data": dataset, "field": field.name, "within": within, "between": between,
            "difference": found.difference.value, "low": found.difference.low, "high": found.difference.high,
        })  # fmt: skip
    return rows


def figure5(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """The size of the embedding (cross-validation)."""
    study = _study(dataset, keep, small)
    sizes = list(published.FIGURE5.get(dataset, {})) or [16, 32, 64, 128, 256]
    known = {f"dim={size}": value for size, value in published.FIGURE5.get(dataset, {}).items()}
    compared = [f"dim={size}" for size in (sizes[:2] if small else sizes)]
    found = study.scores({arm: [study.embedding(arm, seed) for seed in _seeds(seeds)] for arm in compared})
    return [_row(study, arm, known.get(arm), found, "cv") for arm in compared]


def peer(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """CoLES beside pytorch-lifestream's: the same events, size, epochs, slices and boosting (both splits)."""
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    ours = [study.raw("coles", seed) for seed in runs]
    epochs = [len(checkpoint.read_info(study.run("coles", seed))["history"]) for seed in runs]
    theirs = [study.peer(seed, each) for seed, each in zip(runs, epochs, strict=True)]
    both = {"pytorch-lifestream": theirs, "coles": ours}
    alike = {f"{name}, unit length": [unit(z) for z in each] for name, each in both.items()}
    found = study.scores({**both, **alike})
    return [
        {
            **_row(study, name, None, found, split),
            **_against("coles", found.scores(first, split), found.scores(name, split)),
        }
        for split in ("cv", "test")
        for first, names in (("coles", both), ("coles, unit length", alike))
        for name in names
    ]


def figure7(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """A map of the embeddings (t-SNE), and how often a point's nearest neighbour on it has its label."""
    study = _study(dataset, keep, small)
    return [study.map(_seeds(seeds)[0])]


def _study(dataset: str, keep: str | None, small: bool) -> Study:
    if dataset not in arms.names():
        raise ConfigError(f"no data set {dataset!r}; accepted: {', '.join(arms.names())}")
    return Study.of(dataset, Path(keep or tempfile.mkdtemp(prefix="eventvec-coles-")), small)


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--seeds {text!r}: write whole numbers with commas, like 0,1,2") from error


def _compare(study: Study, compared: Sequence[str], seeds: Sequence[int], paper: dict[str, Any]) -> list[Row]:
    """Return a row for each arm, embedded and boosted: the paper's score, ours, and the last arm's lead over it."""
    found = study.scores({arm: [study.embedding(arm, seed) for seed in seeds] for arm in compared})
    first = found.scores(compared[-1], "cv")
    return [
        {
            **_row(study, arm, published.published(paper, arm, study.name), found, "cv"),
            **_against(compared[-1], first, found.scores(arm, "cv")),
        }
        for arm in compared
    ]


def _row(study: Study, name: str, known: float | None, found: Any, split: str, share: float = 1.0) -> Row:
    """Return what was measured of a feature set: the mean over seeds and folds, and the interval over them."""
    values = tuple(run.values for run in found.scores(name, split, share))
    ours = Paired(values)
    return {
        "data": study.name, "arm": name, "steps": study.steps(name), "seeds": len(values), "split": split,
        "share": share, "paper": known, "ours": ours.mean, "±": ours.interval,
        "ours − paper": None if known is None else ours.mean - known,
    }  # fmt: skip


def _against(name: str, first: Any, other: Any) -> Row:
    """Return how far the first is ahead, paired over folds and seeds, with its interval."""
    lead = paired(first, other)
    return {f"{name} ahead": lead.mean, "ahead ±": lead.interval, "clear": lead.clear}


TABLES = {
    "table1": table1, "table2": table2, "table6": table6, "table7": table7, "table8": table8, "figure2": figure2,
    "figure3": figure3, "figure4": figure4, "figure5": figure5, "figure6": figure2, "figure7": figure7,
    "peer": peer,
    "precision": precision,
}  # fmt: skip

if __name__ == "__main__":
    main(
        "coles", TABLES,
        dataset={"default": "online_retail", "help": f"one of: {', '.join(arms.names())}"},
        seeds={"default": "0", "help": "of training: 0,1,2"},
        keep={"default": None, "metavar": "FOLDER", "help": "where trained encoders are kept and found again"},
    )  # fmt: skip
