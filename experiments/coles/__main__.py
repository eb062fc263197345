"""The tables and figures of the CoLES paper (Babaev et al. 2022), on any data set that has a configuration."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eventvec import run_files
from eventvec.diagnosis import power_law, repeatability
from eventvec.errors import ConfigError
from eventvec.evaluation.result import Scores
from experiments.coles import arms, published
from experiments.coles.study import Study, unit
from experiments.command_line import Row, run
from experiments.differences import Paired, paired, relative
from experiments.protocol import PaperResult, Part

FRACTIONS = (1.0, 0.25, 0.0625)
SELF_SUPERVISED = ("sop", "nsp", "rtd", "cpc", "coles")
TUNED = ("rtd", "cpc", "coles")


def table1(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """View sampling: random samples, disjoint samples, slices (cross-validation)."""
    compared = ("random_samples", "disjoint_samples", "disjoint_segments", "coles")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE1)


def table2(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Embeddings, aggregates and networks trained on labels (test set), and each one's change in percent."""
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    embeddings = {arm: [study.embedding(arm, seed) for seed in runs] for arm in ("untrained", *SELF_SUPERVISED)}
    aggregates = study.aggregates()
    trainers = {"supervised": [study.trainer(None, seed) for seed in runs]}
    trainers |= {f"{arm}, fine-tuned": [study.trainer(arm, seed) for seed in runs] for arm in TUNED}
    both = [np.concatenate([z, aggregates], 1) for z in embeddings["coles"]]
    result = study.scores({"aggregates": [aggregates], **embeddings, "coles + aggregates": both, **trainers})
    rows = []
    for name in ("aggregates", *embeddings, "coles + aggregates", *trainers):
        baseline = "supervised" if name in trainers else "aggregates"
        paper, scores = published.score(published.TABLE2, name, dataset), result.scores(name, "test")
        change = relative(scores, result.scores(baseline, "test"))
        rows.append({
            **_row(study, name, paper, result, "test"), "against": baseline,
            "percent": change.mean, "percent ±": change.interval,
            **_lead("coles", result.scores("coles", "test"), scores),
        })  # fmt: skip
    return rows


def table6(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Encoders: LSTM, GRU and transformers, trained by CoLES (cross-validation)."""
    compared = ("lstm", "transformer_paper", "transformer", "gru")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE6)


def table7(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Losses: contrastive, the paper's other losses, and three later ones (cross-validation)."""
    later = ("nt_xent", "vicreg", "barlow_twins")
    compared = ("binomial_deviance", "histogram", "margin", "triplet", *later, "coles")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE7)


def table8(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Negative sampling: random, distance-weighted, hard (cross-validation)."""
    compared = ("random_negatives", "distance_weighted", "coles")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE8)


def precision(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Training with matrix products in bfloat16 beside float32 (cross-validation)."""
    return _compare(_study(dataset, keep, small), ("bfloat16", "coles"), _seeds(seeds))


def figure2(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Few labels: embeddings, fine-tuning and supervised training on shares of each fold's labels (test set).

    The shares are those of the paper on its data sets, and `FRACTIONS` on others.
    """
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    features: dict[str, Any] = {"aggregates": [study.aggregates()]}
    features |= {arm: [study.embedding(arm, seed) for seed in runs] for arm in ("cpc", "coles")}
    features |= {f"{arm}, fine-tuned": [study.trainer(arm, seed) for seed in runs] for arm in ("cpc", "coles")}
    features["supervised"] = [study.trainer(None, seed) for seed in runs]
    labels, curves = published.FIGURE2.get(dataset, ((), {}))
    shares = tuple(n / labels[-1] for n in labels)
    paper = {(share, arm): value for arm, curve in curves.items() for share, value in zip(shares, curve, strict=True)}
    result = study.scores(features, (1.0, 0.5) if small else shares or FRACTIONS)
    rows = []
    for share, name, n in dict.fromkeys((c.fraction, c.features, c.labels) for c in result.cells):
        coles, compared = (result.scores(arm, "test", share) for arm in ("coles", name))
        row = _row(study, name, paper.get((share, name)), result, "test", share)
        rows.append({**row, "labels": n, **_lead("coles", coles, compared)})
    return rows


def figure3(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """The lengths of histories beside a power law."""
    law = power_law(_study(dataset, keep, small).data.sequences.lengths)
    edges, counts, expected = law.histogram()
    return [
        {
            "data": dataset,
            "alpha": law.alpha,
            "events from": int(a),
            "below": int(b),
            "entities": int(n),
            "expected": None if np.isnan(e) else float(e),  # NaN below the lower bound of the power law
        }
        for a, b, n, e in zip(edges[:-1], edges[1:], counts, expected, strict=True)
    ]


def figure4(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Repeatability: divergence of event types within one history and between histories of matched lengths."""
    data, rows = _study(dataset, keep, small).data, []
    for field in data.schema.categorical:
        divergence = repeatability(data, field.name, torch.Generator().manual_seed(_seeds(seeds)[0]))
        within, between = divergence.medians
        rows.append({
            "data": dataset, "field": field.name, "within": within, "between": between,
            "difference": divergence.difference.value,
            "low": divergence.difference.low, "high": divergence.difference.high,
        })  # fmt: skip
    return rows


def figure5(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """The size of the embedding (cross-validation)."""
    study = _study(dataset, keep, small)
    sizes = list(published.FIGURE5.get(dataset, {})) or [16, 32, 64, 128, 256]
    paper = {f"dim={size}": value for size, value in published.FIGURE5.get(dataset, {}).items()}
    compared = [f"dim={size}" for size in (sizes[:2] if small else sizes)]
    result = study.scores({arm: [study.embedding(arm, seed) for seed in _seeds(seeds)] for arm in compared})
    return [_row(study, arm, paper.get(arm), result, "cv") for arm in compared]


def peer(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """CoLES beside pytorch-lifestream's, with the same events, size, epochs, slices and boosting (both splits)."""
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    ours = [study.raw("coles", seed) for seed in runs]
    epochs = [len(run_files.read_info(study.run("coles", seed))["history"]) for seed in runs]
    theirs = [study.peer(seed, count) for seed, count in zip(runs, epochs, strict=True)]
    raw = {"pytorch-lifestream": theirs, "coles": ours}
    normalized = {f"{name}, unit length": [unit(z) for z in embeddings] for name, embeddings in raw.items()}
    result = study.scores({**raw, **normalized})
    return [
        {
            **_row(study, name, None, result, split),
            **_lead("coles", result.scores(first, split), result.scores(name, split)),
        }
        for split in ("cv", "test")
        for first, compared in (("coles", raw), ("coles, unit length", normalized))
        for name in compared
    ]


def figure7(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """A map of the embeddings (t-SNE), and how often the nearest neighbour on it has the same label."""
    study = _study(dataset, keep, small)
    return [study.map(_seeds(seeds)[0])]


def _study(dataset: str, keep: str | None, small: bool) -> Study:
    if dataset not in arms.names():
        raise ConfigError(f"--dataset must be one of {', '.join(arms.names())}, got {dataset!r}")
    return Study.of(dataset, Path(keep or tempfile.mkdtemp(prefix="eventvec-coles-")), small)


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--seeds must be whole numbers separated by commas, like 0,1,2, got {text!r}") from error


def _compare(
    study: Study, compared: Sequence[str], seeds: Sequence[int], paper: published.Scores | None = None
) -> list[Row]:
    """Return a row per arm, embedded and boosted: the paper's score, ours, and the lead of the last arm over it."""
    result = study.scores({arm: [study.embedding(arm, seed) for seed in seeds] for arm in compared})
    last = result.scores(compared[-1], "cv")
    return [
        {
            **_row(study, arm, published.score(paper or {}, arm, study.name), result, "cv"),
            **_lead(compared[-1], last, result.scores(arm, "cv")),
        }
        for arm in compared
    ]


def _row(study: Study, name: str, paper: float | None, result: PaperResult, split: Part, share: float = 1.0) -> Row:
    """Return the score of a feature set: the mean over seeds and folds with its interval, beside the paper's."""
    values = tuple(run.values for run in result.scores(name, split, share))
    ours = Paired(values)
    return {
        "data": study.name, "arm": name, "steps": study.steps(name), "seeds": len(values), "split": split,
        "share": share, "paper": paper, "ours": ours.mean, "±": ours.interval,
        "ours − paper": None if paper is None else ours.mean - paper,
    }  # fmt: skip


def _lead(name: str, first: Sequence[Scores], second: Sequence[Scores]) -> Row:
    """Return the lead of the first scores over the second, paired over folds and seeds, with its interval."""
    lead = paired(first, second)
    return {f"{name} ahead": lead.mean, "ahead ±": lead.interval, "clear": lead.clear}


TABLES = {
    "table1": table1, "table2": table2, "table6": table6, "table7": table7, "table8": table8, "figure2": figure2,
    "figure3": figure3, "figure4": figure4, "figure5": figure5, "figure6": figure2, "figure7": figure7,
    "peer": peer, "precision": precision,
}  # fmt: skip

OPTIONS: dict[str, dict[str, Any]] = {
    "dataset": {"default": "online_retail", "help": f"one of: {', '.join(arms.names())}"},
    "seeds": {"default": "0", "help": "of training: 0,1,2"},
    "keep": {"default": None, "metavar": "FOLDER", "help": "folder for trained encoders, which are not trained again"},
}


def main() -> None:
    """Run the table that the command line names."""
    run("coles", TABLES, **OPTIONS)


if __name__ == "__main__":
    main()
